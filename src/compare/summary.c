/* Figures over cells. */
#include "compare/summary.h"

#include <math.h>

#define WHOLE      SIZE_MAX
#define MOST_PAIRS (MT_COMPARE_MOST_SEEDS * MT_COMPARE_MOST_DOMAINS)

size_t mt_compare_task_column(size_t task)
{
    return MT_COMPARE_FIGURES + task;
}

size_t mt_compare_columns(const struct mt_comparison *comparison)
{
    return mt_compare_probe_column(comparison, mt_compare_probes(comparison), MT_PROBE_ACCURACY);
}

size_t mt_compare_probes(const struct mt_comparison *comparison)
{
    return comparison->probes;
}

size_t mt_compare_probe_column(const struct mt_comparison *comparison, size_t probe, enum mt_probe_part part)
{
    return MT_COMPARE_FIGURES + comparison->tasks.count + probe * MT_PROBE_PARTS + (size_t)part;
}

/* A column's place among those of probes; false: it is of no probe. */
static bool is_probe(const struct mt_comparison *comparison, size_t column, size_t *probe, size_t *part)
{
    size_t first = mt_compare_probe_column(comparison, 0, MT_PROBE_ACCURACY);
    if (column < first) return false;
    *probe = (column - first) / MT_PROBE_PARTS;
    *part = (column - first) % MT_PROBE_PARTS;
    return true;
}

static double probe_value(const struct mt_comparison *comparison, const struct mt_cell_result *result,
                          size_t probe, size_t part)
{
    const struct mt_compare_probe *asked = &comparison->probe[probe];
    struct mt_cell_probe found = {(double)NAN, (double)NAN};
    bool fewer = asked->source == MT_PROBE_ASKED || asked->source == MT_PROBE_SPREAD;
    if (!result->known || (fewer && result->asked == NULL)) return (double)NAN;
    if (asked->source == MT_PROBE_PRUNED) found = result->pruned[asked->place];
    if (asked->source == MT_PROBE_AT) found = result->at[asked->place];
    if (fewer) {
        const struct mt_cell_answer *mean = &result->asked[asked->place].mean;
        found = (struct mt_cell_probe){mean->accuracy, mean->loss};
    }
    if (asked->source == MT_PROBE_SPREAD) {
        const struct mt_cell_answer *mix = &result->asked[asked->other].mean;
        found = (struct mt_cell_probe){found.accuracy - mix->accuracy, found.loss - mix->loss};
        if (part == MT_PROBE_CHANGE) return (double)NAN; // both are of the same cell
    }
    if (part == MT_PROBE_LOSS) return found.loss;
    return part == MT_PROBE_CHANGE ? found.accuracy - result->figure[MT_COMPARE_ACCURACY] : found.accuracy;
}

const struct mt_compare_figure_row *mt_compare_column_row(const struct mt_comparison *comparison,
                                                          size_t column)
{
    size_t probe = 0;
    size_t part = 0;
    if (is_probe(comparison, column, &probe, &part)) return &comparison->probe[probe].row[part];
    if (column >= MT_COMPARE_FIGURES) return &comparison->task_row[column - MT_COMPARE_FIGURES];
    return mt_compare_figure_row((enum mt_compare_figure)column);
}

static double value_of(const struct mt_comparison *comparison, const struct mt_cell_result *result,
                       size_t column)
{
    size_t probe = 0;
    size_t part = 0;
    if (column < MT_COMPARE_FIGURES) return result->known ? result->figure[column] : (double)NAN;
    if (is_probe(comparison, column, &probe, &part)) return probe_value(comparison, result, probe, part);
    const struct mt_cell_task *task = &result->task[column - MT_COMPARE_FIGURES];
    return task->known ? task->value : (double)NAN;
}

double mt_compare_part_value(const struct mt_comparison *comparison, size_t model, size_t method,
                             size_t domain, size_t part, size_t seed, size_t column)
{
    const struct mt_cell_result *result =
        &mt_comparison_cell(comparison, model, method, domain, seed)->result;
    return result->known && column < MT_COMPARE_FIGURES ? result->by_domain[part][column] : (double)NAN;
}

double mt_compare_value(const struct mt_comparison *comparison, size_t model, size_t method, size_t domain,
                        size_t seed, size_t column)
{
    return value_of(comparison, &mt_comparison_cell(comparison, model, method, domain, seed)->result, column);
}

double mt_compare_weight(const struct mt_comparison *comparison, size_t task)
{
    size_t columns = 0;
    for (size_t t = 0; t < comparison->tasks.count; t++)
        columns += comparison->tasks.task[t].entry == comparison->tasks.task[task].entry ? 1 : 0;
    return 1.0 / (double)columns;
}

size_t mt_compare_benchmarks(const struct mt_comparison *comparison)
{
    double sum = 0.0;
    for (size_t t = 0; t < comparison->tasks.count; t++) sum += mt_compare_weight(comparison, t);
    return (size_t)(sum + 0.5);
}

/* A benchmark is asked of some domains' cells, other figures are there of all. */
static bool has_column(const struct mt_comparison *comparison, size_t domain, size_t column)
{
    size_t probe = 0;
    size_t part = 0;
    if (column < MT_COMPARE_FIGURES || is_probe(comparison, column, &probe, &part)) return true;
    return mt_compare_asks(&comparison->settings->domain[domain],
                           comparison->tasks.task[column - MT_COMPARE_FIGURES].entry);
}

/* A benchmark is of the model, other figures of the domain that is trained on. */
static double base_value(const struct mt_comparison *comparison, size_t model, size_t domain, size_t column)
{
    size_t probe = 0;
    size_t part = 0;
    bool task = column >= MT_COMPARE_FIGURES && !is_probe(comparison, column, &probe, &part);
    if (task && model >= comparison->bases) return (double)NAN;
    const struct mt_cell *cell =
        task ? &comparison->base[model] : mt_comparison_start(comparison, model, domain);
    return value_of(comparison, &cell->result, column);
}

struct mt_moments mt_compare_base(const struct mt_comparison *comparison, size_t model, size_t column,
                                  size_t domain)
{
    double sum = 0.0;
    size_t count = 0;
    for (size_t d = 0; d < comparison->settings->trained; d++) {
        if ((domain != MT_ALL_DOMAINS && d != domain) || !has_column(comparison, d, column)) continue;
        sum += base_value(comparison, model, d, column);
        count++;
    }
    double mean = count > 0 ? sum / (double)count : (double)NAN;
    return mt_moments(&mean, 1);
}

bool mt_compare_has_base(const struct mt_comparison *comparison, size_t model)
{
    bool any = false;
    for (size_t d = 0; d < comparison->settings->trained; d++)
        any = any || mt_comparison_start(comparison, model, d)->result.known;
    return any || (model < comparison->bases && comparison->base[model].result.known);
}

double mt_compare_base_difference(const struct mt_comparison *comparison, size_t model, size_t method,
                                  size_t column, size_t domain)
{
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    mt_compare_summarize(comparison, model, column, domain, summary);
    return mt_compare_base(comparison, model, column, domain).mean - summary[method].moments.mean;
}

/* A method's values, seed by seed and domain by domain; part: of a mix only on this one, or WHOLE. */
static size_t gather(const struct mt_comparison *comparison, size_t model, size_t method, size_t domain,
                     size_t part, size_t column, double values[MOST_PAIRS])
{
    size_t count = 0;
    for (size_t s = 0; s < comparison->settings->seeds; s++) {
        for (size_t d = 0; d < comparison->settings->trained; d++) {
            if ((domain != MT_ALL_DOMAINS && d != domain) || !has_column(comparison, d, column)) continue;
            values[count++] = part == WHOLE
                                  ? mt_compare_value(comparison, model, method, d, s, column)
                                  : mt_compare_part_value(comparison, model, method, d, part, s, column);
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

void mt_compare_summarize(const struct mt_comparison *comparison, size_t model, size_t column, size_t domain,
                          struct mt_compare_summary *summary)
{
    mt_compare_summarize_part(comparison, model, column, domain, WHOLE, summary);
}

void mt_compare_summarize_part(const struct mt_comparison *comparison, size_t model, size_t column,
                               size_t domain, size_t part, struct mt_compare_summary *summary)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double reference[MOST_PAIRS];
    double values[MOST_PAIRS];
    double p[MT_COMPARE_MOST_METHODS];
    double adjusted[MT_COMPARE_MOST_METHODS];
    size_t base = mt_compare_reference(settings);
    size_t pairs = gather(comparison, model, base, domain, part, column, reference);
    for (size_t m = 0; m < settings->methods; m++) {
        (void)gather(comparison, model, m, domain, part, column, values);
        summary[m].moments = over_seeds(values, settings->seeds, pairs / settings->seeds);
        summary[m].paired = mt_paired(values, reference, pairs);
        p[m] = m == base || settings->method[m].in_grid ? (double)NAN : summary[m].paired.p;
    }
    mt_holm(p, settings->methods, adjusted);
    for (size_t m = 0; m < settings->methods; m++) summary[m].holm = adjusted[m];
}

struct mt_paired mt_compare_pair(const struct mt_comparison *comparison, size_t model, size_t method,
                                 size_t other, size_t column)
{
    double values[MOST_PAIRS];
    double reference[MOST_PAIRS];
    size_t pairs = gather(comparison, model, method, MT_ALL_DOMAINS, WHOLE, column, values);
    (void)gather(comparison, model, other, MT_ALL_DOMAINS, WHOLE, column, reference);
    return mt_paired(values, reference, pairs);
}

void mt_compare_places(const struct mt_comparison *comparison, const struct mt_compare_summary *summary,
                       size_t column, double *place)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double sign = mt_compare_column_row(comparison, column)->better < 0 ? -1.0 : 1.0;
    for (size_t m = 0; m < settings->methods; m++) {
        double mean = sign * summary[m].moments.mean;
        place[m] = settings->method[m].in_grid || isnan(mean) ? (double)NAN : 1.0;
        for (size_t k = 0; k < settings->methods; k++) {
            double other = sign * summary[k].moments.mean;
            if (k == m || settings->method[k].in_grid || isnan(other)) continue;
            place[m] += other > mean ? 1.0 : other == mean ? 0.5 : 0.0;
        }
    }
}

/* The largest of the methods' means, times `sign`, below `limit`; NaN: there is none. */
static double largest_below(const struct mt_compare_settings *settings,
                            const struct mt_compare_summary *summary, double sign, double limit)
{
    double largest = (double)NAN;
    for (size_t m = 0; m < settings->methods; m++) {
        double mean = sign * summary[m].moments.mean;
        if (!settings->method[m].in_grid && mean < limit) largest = fmax(largest, mean);
    }
    return largest;
}

void mt_compare_marks(const struct mt_comparison *comparison, const struct mt_compare_summary *summary,
                      size_t column, int *mark)
{
    const struct mt_compare_settings *settings = comparison->settings;
    double sign = mt_compare_column_row(comparison, column)->better < 0 ? -1.0 : 1.0;
    double best = largest_below(settings, summary, sign, HUGE_VAL);
    double second = largest_below(settings, summary, sign, best);
    for (size_t m = 0; m < settings->methods; m++) {
        double mean = sign * summary[m].moments.mean;
        mark[m] = mean == best ? 1 : mean == second ? 2 : 0;
        // Where all are the same, none is best.
        if (settings->method[m].in_grid || isnan(second)) mark[m] = 0;
    }
}

void mt_compare_ranks(const struct mt_comparison *comparison, size_t model, size_t domain, double *rank)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_compare_summary summary[MT_COMPARE_MOST_METHODS];
    double place[MT_COMPARE_MOST_METHODS];
    size_t benchmarks = mt_compare_benchmarks(comparison);
    for (size_t m = 0; m < settings->methods; m++) rank[m] = benchmarks > 0 ? 0.0 : (double)NAN;
    for (size_t t = 0; t < comparison->tasks.count; t++) {
        double weight = mt_compare_weight(comparison, t) / (double)benchmarks;
        mt_compare_summarize(comparison, model, mt_compare_task_column(t), domain, summary);
        mt_compare_places(comparison, summary, mt_compare_task_column(t), place);
        for (size_t m = 0; m < settings->methods; m++) rank[m] += weight * place[m];
    }
}

size_t mt_compare_most_steps(const struct mt_comparison *comparison)
{
    size_t most = 0;
    for (size_t i = 0; i < comparison->cells; i++) {
        if (comparison->cell[i].result.steps > most) most = comparison->cell[i].result.steps;
    }
    return most;
}

size_t mt_compare_curve(const struct mt_comparison *comparison, enum mt_compare_curve kind, size_t model,
                        size_t method, size_t domain, double *curve, size_t most)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t steps = most;
    size_t cells = 0;
    for (size_t i = 0; i < most; i++) curve[i] = 0.0;
    for (size_t s = 0; s < settings->seeds; s++) {
        for (size_t d = 0; d < settings->trained; d++) {
            const struct mt_cell_result *result =
                &mt_comparison_cell(comparison, model, method, d, s)->result;
            const double *one = kind == MT_CURVE_LOSS ? result->training_loss : result->maxvio;
            if ((domain != MT_ALL_DOMAINS && d != domain) || !result->known || one == NULL) continue;
            if (result->steps < steps) steps = result->steps;
            for (size_t i = 0; i < steps; i++) curve[i] += one[i];
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
