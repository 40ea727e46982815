/* Figures over cells. */
#include "compare/summary.h"

#include <math.h>

#define MOST_PAIRS (MT_COMPARE_MOST_SEEDS * MT_COMPARE_MOST_DOMAINS)

bool mt_compare_is_time(enum mt_compare_figure figure)
{
    return figure == MT_COMPARE_SECONDS || figure == MT_COMPARE_PROCESSOR;
}

double mt_compare_value(const struct mt_comparison *comparison, size_t method, size_t domain, size_t seed,
                        enum mt_compare_figure figure)
{
    const struct mt_cell *cell = mt_comparison_cell(comparison, method, domain, seed);
    return cell->result.known ? cell->result.figure[figure] : (double)NAN;
}

/* A method's values, seed by seed and domain by domain. */
static size_t gather(const struct mt_comparison *comparison, size_t method, size_t domain,
                     enum mt_compare_figure figure, double values[MOST_PAIRS])
{
    size_t count = 0;
    for (size_t s = 0; s < comparison->settings->seeds; s++) {
        for (size_t d = 0; d < comparison->settings->trained; d++) {
            if (domain != MT_ALL_DOMAINS && d != domain) continue;
            values[count++] = mt_compare_value(comparison, method, d, s, figure);
        }
    }
    return count;
}

/* Of each seed the mean over domains, NaN where one is missing; then over seeds. */
static struct mt_moments over_seeds(const double *values, size_t seeds, size_t domains)
{
    double means[MT_COMPARE_MOST_SEEDS];
    for (size_t s = 0; s < seeds; s++) {
        double sum = 0.0;
        for (size_t d = 0; d < domains; d++) sum += values[s * domains + d];
        means[s] = sum / (double)domains;
    }
    return mt_moments(means, seeds);
}

void mt_compare_summarize(const struct mt_comparison *comparison, enum mt_compare_figure figure,
                          size_t domain, struct mt_compare_summary *summary)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double reference[MOST_PAIRS];
    double values[MOST_PAIRS];
    double p[MT_COMPARE_MOST_METHODS];
    double adjusted[MT_COMPARE_MOST_METHODS];
    size_t base = mt_compare_reference(settings);
    size_t pairs = gather(comparison, base, domain, figure, reference);
    for (size_t m = 0; m < settings->methods; m++) {
        (void)gather(comparison, m, domain, figure, values);
        summary[m].moments = over_seeds(values, settings->seeds, pairs / settings->seeds);
        summary[m].paired = mt_paired(values, reference, pairs);
        p[m] = m == base || settings->method[m].in_grid ? (double)NAN : summary[m].paired.p;
    }
    mt_holm(p, settings->methods, adjusted);
    for (size_t m = 0; m < settings->methods; m++) summary[m].holm = adjusted[m];
}

struct mt_paired mt_compare_pair(const struct mt_comparison *comparison, size_t method, size_t other,
                                 enum mt_compare_figure figure)
{
    double values[MOST_PAIRS];
    double reference[MOST_PAIRS];
    size_t pairs = gather(comparison, method, MT_ALL_DOMAINS, figure, values);
    (void)gather(comparison, other, MT_ALL_DOMAINS, figure, reference);
    return mt_paired(values, reference, pairs);
}

size_t mt_compare_most_steps(const struct mt_comparison *comparison)
{
    size_t most = 0;
    for (size_t i = 0; i < comparison->cells; i++) {
        if (comparison->cell[i].result.steps > most) most = comparison->cell[i].result.steps;
    }
    return most;
}

size_t mt_compare_curve(const struct mt_comparison *comparison, size_t method, size_t domain, double *curve,
                        size_t most)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t steps = most;
    size_t cells = 0;
    for (size_t i = 0; i < most; i++) curve[i] = 0.0;
    for (size_t s = 0; s < settings->seeds; s++) {
        for (size_t d = 0; d < settings->trained; d++) {
            const struct mt_cell_result *result = &mt_comparison_cell(comparison, method, d, s)->result;
            if ((domain != MT_ALL_DOMAINS && d != domain) || !result->known) continue;
            if (result->steps < steps) steps = result->steps;
            for (size_t i = 0; i < steps; i++) curve[i] += result->maxvio[i];
            cells++;
        }
    }
    for (size_t i = 0; i < steps && cells > 0; i++) curve[i] /= (double)cells;
    return cells > 0 ? steps : 0;
}

double mt_compare_rmse(const double *a, size_t a_steps, const double *b, size_t b_steps)
{
    size_t steps = a_steps < b_steps ? a_steps : b_steps;
    double squares = 0.0;
    for (size_t i = 0; i < steps; i++) squares += (a[i] - b[i]) * (a[i] - b[i]);
    return steps > 0 ? sqrt(squares / (double)steps) : (double)NAN;
}
