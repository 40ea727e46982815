/* Routing variances from sums over tokens. */
#include "analysis/variance.h"

#include <math.h>

/* Σ (x / Σ x)²; 0 where there is nothing. */
static double shares_squared(const float *x, int count)
{
    double total = 0.0;
    double squares = 0.0;
    for (int j = 0; j < count; j++) total += (double)x[j];
    if (!(total > 0.0)) return 0.0;
    for (int j = 0; j < count; j++) squares += (double)x[j] / total * ((double)x[j] / total);
    return squares;
}

void mt_variance_add(struct mt_variance_sums *sums, int experts, const float *scores, int slots,
                     const int32_t *expert, const float *weight)
{
    double total = 0.0;
    double squares = 0.0;
    for (int j = 0; j < experts; j++) total += (double)scores[j];
    double mean = total / experts;
    double inverse = total > 0.0 ? 1.0 / total : 0.0;
    for (int j = 0; j < experts; j++) {
        double score = (double)scores[j];
        squares += (score - mean) * (score - mean);
        mt_any_order_add(&sums->score[j], score);
        mt_any_order_add(&sums->share[j], score * inverse);
    }
    if (experts > 1) mt_any_order_add(&sums->row_variance, squares / (experts - 1));
    for (int s = 0; s < slots; s++) {
        if (expert[s] < 0) continue;
        double value = (double)weight[s];
        mt_any_order_add(&sums->weight[expert[s]], value);
        mt_any_order_add(&sums->weight_square[expert[s]], value * value);
    }
    mt_any_order_add(&sums->weight_shares, shares_squared(weight, slots));
    mt_any_order_add(&sums->score_shares, shares_squared(scores, experts));
    sums->tokens++;
}

void mt_variance_merge(struct mt_variance_sums *sums, int experts, const struct mt_variance_sums *other)
{
    sums->tokens += other->tokens;
    mt_any_order_merge(&sums->row_variance, &other->row_variance);
    mt_any_order_merge(&sums->weight_shares, &other->weight_shares);
    mt_any_order_merge(&sums->score_shares, &other->score_shares);
    for (int j = 0; j < experts; j++) {
        mt_any_order_merge(&sums->score[j], &other->score[j]);
        mt_any_order_merge(&sums->share[j], &other->share[j]);
        mt_any_order_merge(&sums->weight[j], &other->weight[j]);
        mt_any_order_merge(&sums->weight_square[j], &other->weight_square[j]);
    }
}

struct mt_variance_figures mt_variance_finish(const struct mt_variance_sums *sums, int experts)
{
    struct mt_variance_figures figures = {NAN, NAN, NAN, NAN, NAN};
    if (sums->tokens == 0) return figures;
    double tokens = (double)sums->tokens;
    figures.token = mt_any_order_value(&sums->row_variance) / tokens;
    figures.effective_experts = tokens / mt_any_order_value(&sums->weight_shares);
    figures.effective_scores = tokens / mt_any_order_value(&sums->score_shares);
    figures.expert = 0.0;
    figures.appendix = 0.0;
    for (int j = 0; j < experts; j++) {
        double mean = mt_any_order_value(&sums->weight[j]) / tokens;
        double variance = mt_any_order_value(&sums->weight_square[j]) / tokens - mean * mean;
        double deviation = mt_any_order_value(&sums->share[j]) / tokens - 1.0 / experts;
        figures.expert += (variance > 0.0 ? variance : 0.0) / experts; // rounding may go below zero
        figures.appendix += deviation * deviation / experts;
    }
    return figures;
}
