/* The figures by name: their list, their mean over layers, and as JSON. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analysis/collector/collector.h"
#include "formats/text/json_text.h"

#define PLACE(field) offsetof(struct mt_layer_figures, field)

// c_j: slots expert j served; P: scores of all experts; s: weights after top-k; x: expert outputs.
static const struct mt_figure_kind kinds[] = {
    {"maxvio", "MaxVio_global = (max_j c_j - c) / c, c = mean_j c_j, over all tokens", PLACE(max_violation)},
    {"maxvio_code", "max_j |c_j - c| / c over all tokens (the authors' code)", PLACE(max_violation_code)},
    {"maxvio_batch", "mean over batches of (max_j c_j - c) / c", PLACE(max_violation_batch)},
    {"maxvio_batch_code", "mean over batches of max_j |c_j - c| / c", PLACE(max_violation_batch_code)},
    {"entropy", "-sum_j p_j ln p_j, p_j = c_j / sum c, in nats; ln n at balance", PLACE(entropy)},
    {"gini", "sum_ij |c_i - c_j| / (2 n sum_j c_j)", PLACE(gini)},
    {"load_min", "min_j c_j / c", PLACE(load_min)},
    {"load_max", "max_j c_j / c", PLACE(load_max)},
    {"effective_experts", "1 / mean over tokens of sum_j (s_ij / sum_m s_im)^2; between 1 and k",
     PLACE(effective_experts)},
    {"effective_scores", "1 / mean over tokens of sum_j (P_ij / sum_m P_im)^2; between 1 and n",
     PLACE(effective_scores)},
    {"experts_90", "the fewest experts with sum c_j >= 0.9 sum c, over n", PLACE(experts_90)},
    {"rv_token", "mean over tokens of var over experts (divisor n-1) of P (the authors' code)",
     PLACE(rv_token)},
    {"rv_expert", "mean over experts of var over tokens of s (the paper's L_v)", PLACE(rv_expert)},
    {"rv_appendix", "1/n sum_j (mean over tokens of P_ij / sum_m P_im - 1/n)^2 (the paper's appendix)",
     PLACE(rv_appendix)},
    {"abs_cos", "mean over tokens of mean over pairs of |cos| of their expert outputs", PLACE(abs_cos)},
    {"abs_cos_error", "standard error of abs_cos; 0: all tokens", PLACE(abs_cos_error)},
    {"output_norm", "mean length of an expert output", PLACE(output_norm)},
    {"overlap_in", "share of other labels among the nearest neighbours; inputs by first expert, Euclidean",
     PLACE(input.overlap)},
    {"overlap_in_error", "standard error of overlap_in; 0: exact", PLACE(input.overlap_error)},
    {"overlap_out", "the same of expert outputs labelled by expert, Euclidean", PLACE(output.overlap)},
    {"overlap_out_error", "standard error of overlap_out; 0: exact", PLACE(output.overlap_error)},
    {"overlap_out_unit", "the same of expert outputs by angle (1 - cos)", PLACE(output_unit.overlap)},
    {"overlap_out_unit_error", "standard error of overlap_out_unit; 0: exact",
     PLACE(output_unit.overlap_error)},
    {"silhouette_in", "mean (b - a) / max(a, b); inputs by first expert, Euclidean", PLACE(input.silhouette)},
    {"silhouette_in_error", "standard error of silhouette_in; 0: exact", PLACE(input.silhouette_error)},
    {"silhouette_out", "the same of expert outputs labelled by expert, Euclidean", PLACE(output.silhouette)},
    {"silhouette_out_error", "standard error of silhouette_out; 0: exact", PLACE(output.silhouette_error)},
    {"silhouette_out_unit", "the same of expert outputs by angle (1 - cos)", PLACE(output_unit.silhouette)},
    {"silhouette_out_unit_error", "standard error of silhouette_out_unit; 0: exact",
     PLACE(output_unit.silhouette_error)},
    {"path_entropy", "-sum_ab p_ab ln p_ab of first choices in a layer and the one before, in nats",
     PLACE(path.entropy)},
    {"path_information", "sum_ab p_ab ln(p_ab / (p_a p_b)) of the same; 0: layers choose independently",
     PLACE(path.information)},
    {"router_cos", "mean over pairs of cos of the router's rows", PLACE(coupling.row_cos)},
    {"router_abs_cos", "the same of |cos|", PLACE(coupling.row_abs_cos)},
    {"erc_diagonal", "share of i with M_ii the largest of row i and column i; M_ij = |R_i W_gate_j|",
     PLACE(coupling.diagonal)},
    {"erc_dominance", "mean M_ii / mean of the other M_ij", PLACE(coupling.dominance)},
};

#define KINDS ((int)(sizeof kinds / sizeof kinds[0]))

bool mt_figure_listed(int index, struct mt_figure_kind *kind)
{
    if (index < 0 || index >= KINDS) return false;
    *kind = kinds[index];
    return true;
}

double mt_figure_value(const struct mt_layer_figures *figures, const struct mt_figure_kind *kind)
{
    double value;
    memcpy(&value, (const char *)figures + kind->offset, sizeof value);
    return value;
}

/* Whether layers are taken together by what is inverted: few layers with small values then count for more. */
static bool is_harmonic(const struct mt_figure_kind *kind)
{
    return kind->offset == PLACE(effective_experts) || kind->offset == PLACE(effective_scores);
}

void mt_figures_mean(struct mt_figures *figures)
{
    figures->mean = (struct mt_layer_figures){.number = -1};
    for (int i = 0; i < KINDS; i++) {
        bool harmonic = is_harmonic(&kinds[i]);
        double sum = 0.0;
        int count = 0;
        for (int layer = 0; layer < figures->layers; layer++) {
            double value = mt_figure_value(&figures->layer[layer], &kinds[i]);
            if (isnan(value)) continue;
            sum += harmonic ? 1.0 / value : value;
            count++;
        }
        double mean = count > 0 ? sum / count : NAN;
        if (harmonic) mean = 1.0 / mean;
        memcpy((char *)&figures->mean + kinds[i].offset, &mean, sizeof mean);
    }
}

// ------------------------------------------------------------------ JSON

static void put_plain(const struct mt_layer_figures *figures, struct mt_json_text *text)
{
    for (int i = 0; i < KINDS; i++) {
        mt_json_text_format(text, "%s\"%s\": ", i > 0 ? ", " : "", kinds[i].name);
        mt_json_text_number(text, mt_figure_value(figures, &kinds[i]));
    }
}

static void put_counts(const struct mt_layer_figures *figures, struct mt_json_text *text)
{
    mt_json_text_format(text,
                        "\"tokens\": %" PRId64 ", \"batches\": %" PRId64 ", \"abs_cos_tokens\": %" PRId64,
                        figures->tokens, figures->batches, figures->abs_cos_tokens);
    mt_json_text_format(text,
                        ", \"points_in\": %" PRId64 ", \"queries_in\": %" PRId64 ", \"labels_in\": %" PRId64
                        ", \"points_out\": %" PRId64 ", \"queries_out\": %" PRId64
                        ", \"labels_out\": %" PRId64,
                        figures->input.points, figures->input.queries, figures->input.labels,
                        figures->output.points, figures->output.queries, figures->output.labels);
}

static void put_array(const char *name, const double *numbers, int count, struct mt_json_text *text)
{
    mt_json_text_format(text, ",\n     \"%s\": ", name);
    mt_json_text_numbers(text, numbers, count);
}

static void put_layer(const struct mt_figures *figures, int index, struct mt_json_text *text)
{
    const struct mt_layer_figures *layer = &figures->layer[index];
    int n = figures->experts;
    mt_json_text_format(text, "%s\n    {\"layer\": %" PRId64 ", ", index > 0 ? "," : "", layer->number);
    put_counts(layer, text);
    mt_json_text_format(text, ",\n     ");
    put_plain(layer, text);
    put_array("load", layer->load, n, text);
    put_array("first", layer->first, n, text);
    put_array("mean_score", layer->mean_score, n, text);
    put_array("mean_weight", layer->mean_weight, n, text);
    for (int i = 0; i < MT_EXPERT_SCORES; i++) {
        const struct mt_expert_score_kind *kind = mt_expert_score_kind((enum mt_expert_score)i);
        if (kind->of_slot != NULL && layer->score[i] != NULL) put_array(kind->name, layer->score[i], n, text);
    }
    mt_json_text_format(text, "}");
}

enum mt_status mt_figures_put_json(const struct mt_figures *figures, struct mt_json_text *text)
{
    mt_json_text_format(text, "{\"experts\": %d, \"slots\": %d,\n  \"mean\": {", figures->experts,
                        figures->slots);
    put_plain(&figures->mean, text);
    mt_json_text_format(text, "},\n  \"layers\": [");
    for (int i = 0; i < figures->layers; i++) put_layer(figures, i, text);
    return mt_json_text_format(text, "]}");
}

enum mt_status mt_figures_put_formulas(struct mt_json_text *text)
{
    mt_json_text_format(text, "{");
    for (int i = 0; i < KINDS; i++) {
        mt_json_text_format(text, "%s\n  \"%s\": ", i > 0 ? "," : "", kinds[i].name);
        mt_json_text_string(text, kinds[i].formula);
    }
    return mt_json_text_format(text, "}");
}

enum mt_status mt_figures_write_json(const struct mt_figures *figures, const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, figures->ctx);
    mt_json_text_format(&text, "{\"formulas\": ");
    mt_figures_put_formulas(&text);
    mt_json_text_format(&text, ",\n \"figures\": ");
    mt_figures_put_json(figures, &text);
    mt_json_text_format(&text, "}\n");
    return mt_json_text_save(&text, path);
}
