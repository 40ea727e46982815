/*
 * L_aux, load balance. c_j counts the slots (switch: first choices) that greedy selection gives expert j, a
 * constant of the gradient; P_j is the mean score, normalised per token for sigmoid routers:
 *
 *     batch     Σ_j f_j P_j, f_j = n c_j / (N k)
 *     sequence  the same per sequence, mean over the sequences that have tokens
 *     switch    n Σ_j f_j P_j, f_j = c_j / N over first choices
 *     ernie     n Σ_j f_j P_j, f_j = c_j / N
 *     hf        as ernie, over the tokens of all layers together; a layer reports its share
 *     literal   Σ_j f_j p_j, f_j = c_j / N and p_j = Σ_i s_ij over what was served
 *     global    as batch, c_j and the N beside it of the whole step, all its micro-batches and processes
 *
 * All are Σ_b share_b Σ_j c_bj sum_bj with one factor per group of tokens.
 */
#include "objective/objective.h"

/* What scales refer to when L_aux itself is off: the batch form. */
static enum mt_aux_form form_of(const struct mt_objective *objective)
{
    const struct mt_objective_config *config = &objective->config;
    return mt_term_is_on(config, MT_TERM_AUX) ? config->aux : MT_AUX_BATCH;
}

#define SUMMARY 2 // numbers at the end of the sequence form's, made on the host

// A layer's numbers, for B segments: sum [B,n], count [B,n], first [B,n], rows [B]; for the sequence form
// also, at the end, the sum of the sequences' losses [1] and how many sequences have tokens [1].
static size_t numbers_of(const struct mt_objective *objective)
{
    size_t width = 3 * (size_t)objective->shape.experts + 1;
    if (form_of(objective) != MT_AUX_SEQUENCE) return width;
    return (size_t)objective->shape.segments * width + SUMMARY;
}

/* A sequence is one process's own; what is made of it adds up. */
static struct mt_term_range additive(const struct mt_objective *objective)
{
    size_t count = numbers_of(objective);
    if (form_of(objective) != MT_AUX_SEQUENCE) return (struct mt_term_range){.count = count};
    return (struct mt_term_range){.first = count - SUMMARY, .count = SUMMARY};
}

/* Slots are counted per sequence, or all together. */
static int64_t segments_of(const struct mt_objective *objective, int record_segments)
{
    return form_of(objective) == MT_AUX_SEQUENCE ? record_segments : 1;
}

static enum mt_status forward_literal(const struct mt_term_call *call)
{
    int64_t experts = call->objective->shape.experts;
    double *sum = call->statistics;
    return mt_slot_stats_forward(call->objective->device,
                                 &(struct mt_slot_stats_forward_args){
                                     .expert = call->record->expert,
                                     .weight = call->record->weight,
                                     .mask = call->record->mask,
                                     .count = mt_tensor_2d(sum + experts, MT_F64, 1, experts),
                                     .sum = mt_tensor_2d(sum, MT_F64, 1, experts),
                                 });
}

static enum mt_status forward(const struct mt_term_call *call)
{
    const struct mt_objective *objective = call->objective;
    const struct mt_routing *record = call->record;
    if (form_of(objective) == MT_AUX_LITERAL) return forward_literal(call);
    int64_t experts = objective->shape.experts;
    int64_t segments = segments_of(objective, record->segments);
    double *sum = call->statistics;
    double *count = sum + segments * experts;
    double *first = count + segments * experts;
    double *rows = first + segments * experts;
    struct mt_tensor segment = {0};
    if (form_of(objective) == MT_AUX_SEQUENCE) segment = record->segment;
    enum mt_status status = mt_column_stats_forward(
        objective->device, &(struct mt_column_stats_forward_args){
                               .x = record->probs,
                               .mask = record->mask,
                               .segment = segment,
                               .sum = mt_tensor_2d(sum, MT_F64, segments, experts),
                               .rows = mt_tensor_1d(rows, MT_F64, segments),
                               .normalise_rows = objective->shape.router.kind == MT_ROUTER_SIGMOID,
                           });
    if (status != MT_OK) return status;
    // Where nothing was dropped and nothing moved the choice, the loads are these counts.
    bool counted = record->greedy.data == record->expert.data && !mt_tensor_present(&segment);
    if (counted && form_of(objective) != MT_AUX_SWITCH) {
        return mt_copy(objective->device,
                       &(struct mt_copy_args){.x = mt_tensor_1d(call->loads, MT_F64, experts),
                                              .y = mt_tensor_1d(count, MT_F64, experts)});
    }
    return mt_slot_stats_forward(objective->device,
                                 &(struct mt_slot_stats_forward_args){
                                     .expert = record->greedy,
                                     .mask = record->mask,
                                     .segment = segment,
                                     .count = mt_tensor_2d(count, MT_F64, segments, experts),
                                     .first = mt_tensor_2d(first, MT_F64, segments, experts),
                                 });
}

/* loss += share Σ_j count_j sum_j, and its gradient. */
static void add_group(double share, const double *count, const double *sum, int experts, double *loss,
                      double *dsum)
{
    for (int j = 0; j < experts; j++) {
        *loss += share * count[j] * sum[j];
        dsum[j] = share * count[j];
    }
}

/* The numbers of the sequence form, for as many sequences as a record has. */
struct sequences {
    const double *sum, *count, *rows;
    double *summary;
};

static struct sequences sequences_of(const struct mt_objective *objective, int segments, double *numbers)
{
    size_t block = (size_t)segments * (size_t)objective->shape.experts;
    return (struct sequences){.sum = numbers,
                              .count = numbers + block,
                              .rows = numbers + 3 * block,
                              .summary = numbers + numbers_of(objective) - SUMMARY};
}

/* What a sequence's Σ_j count_j sum_j is multiplied with. */
static double sequence_share(const struct mt_objective *objective, double rows)
{
    return objective->shape.experts / (rows * rows * objective->shape.slots);
}

static void summarise(const struct mt_objective *objective, int segments, double *numbers)
{
    if (form_of(objective) != MT_AUX_SEQUENCE) return;
    int experts = objective->shape.experts;
    struct sequences s = sequences_of(objective, segments, numbers);
    double losses = 0.0;
    double sequences = 0.0;
    for (int b = 0; b < segments; b++) {
        if (s.rows[b] <= 0.0) continue;
        double product = 0.0;
        size_t place = (size_t)b * (size_t)experts;
        for (int j = 0; j < experts; j++) product += s.count[place + (size_t)j] * s.sum[place + (size_t)j];
        losses += sequence_share(objective, s.rows[b]) * product;
        sequences += 1.0;
    }
    s.summary[0] = losses;
    s.summary[1] = sequences;
}

static void value_sequence(const struct mt_objective *objective, struct mt_term_view *view)
{
    int experts = objective->shape.experts;
    struct sequences s = sequences_of(objective, view->segments, (double *)view->statistics);
    view->loss = s.summary[0] / s.summary[1];
    for (int b = 0; b < view->segments; b++) {
        if (s.rows[b] <= 0.0) continue;
        double share = sequence_share(objective, s.rows[b]) / s.summary[1];
        size_t place = (size_t)b * (size_t)experts;
        for (size_t j = 0; j < (size_t)experts; j++) view->gradient[place + j] = share * s.count[place + j];
    }
}

/* Over all layers' tokens together: every layer's counts meet every layer's scores. */
static void value_pooled(const struct mt_objective *objective, struct mt_term_view *views)
{
    int experts = objective->shape.experts;
    int layers = objective->shape.layers;
    double tokens = 0.0;
    for (int l = 0; l < layers; l++) tokens += views[l].tokens;
    if (tokens <= 0.0) return;
    double loss = 0.0;
    for (int j = 0; j < experts; j++) {
        double count = 0.0;
        double sum = 0.0;
        for (int l = 0; l < layers; l++) {
            sum += views[l].statistics[j];
            count += views[l].statistics[experts + j];
        }
        double share = experts * count / (tokens * tokens);
        loss += share * sum;
        for (int l = 0; l < layers; l++) views[l].gradient[j] = share;
    }
    for (int l = 0; l < layers; l++) views[l].loss = loss / layers;
}

bool mt_objective_counts_steps(const struct mt_objective_config *config)
{
    return mt_term_is_on(config, MT_TERM_AUX) && config->aux == MT_AUX_GLOBAL;
}

void mt_aux_count(struct mt_objective *objective, int layer, const double *numbers)
{
    int experts = objective->shape.experts;
    double *counts = objective->counts + (size_t)layer * ((size_t)experts + 1);
    const double *own = numbers + objective->offset[MT_TERM_AUX] + experts;
    for (int j = 0; j < experts; j++) counts[j] += own[j];
    counts[experts] += numbers[experts];
}

/* Counts of the step meet the scores of the micro-batch. */
static void value_global(const struct mt_objective *objective, int layer, struct mt_term_view *view)
{
    int experts = objective->shape.experts;
    const double *count = view->statistics + experts;
    double tokens = view->tokens;
    const double *counts = objective->counts + (size_t)layer * ((size_t)experts + 1);
    if (counts[experts] > 0.0) {
        count = counts;
        tokens = counts[experts];
    }
    double share = experts / (tokens * view->tokens * objective->shape.slots);
    add_group(share, count, view->statistics, experts, &view->loss, view->gradient);
}

static void value(const struct mt_objective *objective, struct mt_term_view *views)
{
    enum mt_aux_form form = form_of(objective);
    if (form == MT_AUX_HF) {
        value_pooled(objective, views);
        return;
    }
    int experts = objective->shape.experts;
    for (int l = 0; l < objective->shape.layers; l++) {
        struct mt_term_view *view = &views[l];
        if (view->tokens <= 0.0) continue;
        if (form == MT_AUX_SEQUENCE) {
            value_sequence(objective, view);
            continue;
        }
        if (form == MT_AUX_GLOBAL) {
            value_global(objective, l, view);
            continue;
        }
        double tokens = view->tokens;
        double share = experts / (tokens * tokens); // switch, ernie
        if (form == MT_AUX_BATCH) share /= objective->shape.slots;
        if (form == MT_AUX_LITERAL) share = 1.0 / tokens;
        const double *sum = view->statistics;
        const double *count = sum + (form == MT_AUX_SWITCH ? 2 : 1) * (size_t)experts;
        add_group(share, count, sum, experts, &view->loss, view->gradient);
    }
}

/* Of the forms that have one factor for all tokens of a layer. */
static int products(const struct mt_objective *objective, struct mt_stat_product *products)
{
    enum mt_aux_form form = form_of(objective);
    int experts = objective->shape.experts;
    if (form == MT_AUX_HF || form == MT_AUX_SEQUENCE || form == MT_AUX_GLOBAL) return 0;
    struct mt_stat_product product = {.x = (int64_t)objective->offset[MT_TERM_AUX],
                                      .count = experts,
                                      .over = experts,
                                      .power = form == MT_AUX_LITERAL ? 1 : 2,
                                      .factor = form == MT_AUX_LITERAL ? 1.0 : experts};
    product.y = product.x + (form == MT_AUX_SWITCH ? 2 : 1) * product.count;
    if (form == MT_AUX_BATCH) product.factor /= objective->shape.slots;
    products[0] = product;
    return 1;
}

static enum mt_status backward(const struct mt_term_call *call, struct mt_routing_gradient *gradient)
{
    const struct mt_objective *objective = call->objective;
    const struct mt_routing *record = call->record;
    int64_t experts = objective->shape.experts;
    if (form_of(objective) == MT_AUX_LITERAL) {
        bool adds = mt_gradient_adds(&gradient->dweight_empty);
        return mt_slot_stats_backward(objective->device,
                                      &(struct mt_slot_stats_backward_args){
                                          .expert = record->expert,
                                          .weight = record->weight,
                                          .mask = record->mask,
                                          .dsum = mt_tensor_2d((void *)call->gradient, MT_F64, 1, experts),
                                          .dweight = gradient->dweight,
                                          .accumulate = adds,
                                      });
    }
    int64_t segments = segments_of(objective, record->segments);
    struct mt_tensor segment = {0};
    if (form_of(objective) == MT_AUX_SEQUENCE) segment = record->segment;
    bool adds = mt_gradient_adds(&gradient->dprobs_empty);
    return mt_column_stats_backward(
        objective->device, &(struct mt_column_stats_backward_args){
                               .x = record->probs,
                               .mask = record->mask,
                               .segment = segment,
                               .dsum = mt_tensor_2d((void *)call->gradient, MT_F64, segments, experts),
                               .dx = gradient->dprobs,
                               .normalise_rows = objective->shape.router.kind == MT_ROUTER_SIGMOID,
                               .accumulate = adds,
                           });
}

static int needs_of(const struct mt_objective_config *config)
{
    return config->aux == MT_AUX_SEQUENCE ? MT_NEEDS_SEQUENCES : 0;
}

static enum mt_status check_single_slot(struct mt_context *ctx, const struct mt_objective_config *config,
                                        const struct mt_router_config *router, const char *prefix)
{
    if (config->aux != MT_AUX_LITERAL) return MT_OK;
    return mt_fail_same_weight(ctx, config, router, MT_TERM_AUX, "aux=batch", prefix);
}

const struct mt_term_kind mt_term_aux = {
    .info = {.name = "aux",
             .formula = "$L_{\\text{aux}} = \\sum_j f_j P_j$, $f_j = \\frac{n}{kN} c_j$, $c_j$ the slots of "
                        "expert $j$, $P_j$ its "
                        "mean score; 1 at balance.",
             .off = "L_aux is off: alpha is 0",
             .path = MT_PATH_LOGITS,
             .shown = {{"aux", NULL}},
             .keys = (const char *const[]){"aux", NULL}},
    .needs_of = needs_of,
    .check_single_slot = check_single_slot,
    .numbers_of = numbers_of,
    .additive = additive,
    .summarise = summarise,
    .forward = forward,
    .products = products,
    .value = value,
    .backward = backward,
};
