/*
 * Scores of experts (analysis/expert_scores.h). They need the lengths of a token's expert outputs, which are
 * on the diagonal of the Gram matrix, and how its residual stream h turns with the routed experts' sum r:
 * |h|², <h,r> and |r|², the Gram matrix of these two. Both are made where the outputs lie, by
 * combine_forward; only the matrices come to the host.
 */
#include <math.h>

#include "analysis/collector/collector_sums.h"
#include "tensor/dtype.h"

/* Whether any of the scores that are asked for needs it. */
static bool wants(const struct mt_collector *collector, bool change)
{
    for (int i = 0; i < MT_EXPERT_SCORES; i++) {
        const struct mt_expert_score_kind *kind = mt_expert_score_kind((enum mt_expert_score)i);
        if ((collector->options.scores & MT_SCORE_BIT(i)) == 0) continue;
        if (change ? kind->change : kind->lengths) return true;
    }
    return false;
}

// ------------------------------------------------------------------ on the device

/* What is made of one record, all in the device's memory. */
struct work {
    struct mt_tensor gram;      // [N,k,k], where the record has none
    struct mt_tensor pair;      // [2N,d]: h of all tokens, then r
    struct mt_tensor places;    // i32 [N,2]: a token's rows of pair
    struct mt_tensor unused;    // [N,2]: weights of a sum that nobody wants
    struct mt_tensor pair_gram; // [N,2,2]
};

static void *carve(unsigned char *base, size_t *used, int64_t count, enum mt_dtype type)
{
    void *memory = base != NULL ? base + *used : NULL;
    *used += ((size_t)count * mt_dtype_bytes(type) + 255) / 256 * 256;
    return memory;
}

static size_t lay_out(const struct mt_routing *record, bool change, unsigned char *base, struct work *work)
{
    enum mt_dtype exact = record->weight.dtype;
    enum mt_dtype type = record->rows.dtype;
    int64_t tokens = record->tokens;
    int64_t width = record->rows.dim[1];
    int64_t k = record->slots;
    size_t used = 0;
    *work = (struct work){0};
    if (!mt_tensor_present(&record->gram))
        work->gram = mt_tensor_3d(carve(base, &used, tokens * k * k, exact), exact, tokens, k, k);
    if (!change) return used;
    work->pair = mt_tensor_2d(carve(base, &used, 2 * tokens * width, type), type, 2 * tokens, width);
    work->places = mt_tensor_2d(carve(base, &used, 2 * tokens, MT_I32), MT_I32, tokens, 2);
    work->unused = mt_tensor_2d(carve(base, &used, 2 * tokens, exact), exact, tokens, 2);
    work->pair_gram = mt_tensor_3d(carve(base, &used, 4 * tokens, exact), exact, tokens, 2, 2);
    return used;
}

/* Room for the work on the device, and on the host for both matrices as f32, and one of another type. */
static enum mt_status make_room(struct mt_collector *collector, const struct mt_routing *record, bool change,
                                struct work *work)
{
    struct mt_score_room *room = &collector->score_room;
    size_t bytes = lay_out(record, change, NULL, work);
    size_t numbers = (size_t)record->tokens * (size_t)(record->slots * record->slots + 4);
    size_t host_bytes = numbers * (sizeof(float) + sizeof(double));
    enum mt_status status = MT_OK;
    if (bytes > room->device.bytes) {
        mt_buffer_release(&room->device);
        status = mt_device_buffer_create(collector->device, bytes, &room->device);
    }
    if (status == MT_OK && host_bytes > room->host_bytes) {
        void *memory = NULL;
        mt_release(collector->ctx, room->host, room->host_bytes);
        room->host_bytes = 0;
        status = mt_allocate(collector->ctx, host_bytes, &memory);
        room->host = memory;
        if (status == MT_OK) room->host_bytes = host_bytes;
    }
    if (status == MT_OK) (void)lay_out(record, change, room->device.data, work);
    return status;
}

/* r, then the Gram matrix of h and r. */
static enum mt_status compare_streams(struct mt_collector *collector, const struct mt_routing *record,
                                      const struct work *work)
{
    struct mt_device *device = collector->device;
    int64_t tokens = record->tokens;
    int32_t *places = collector->score_room.host;
    struct mt_tensor before = mt_tensor_rows(&work->pair, 0, tokens);
    struct mt_tensor added = mt_tensor_rows(&work->pair, tokens, tokens);
    for (int64_t i = 0; i < tokens; i++) {
        places[2 * i] = (int32_t)i;
        places[2 * i + 1] = (int32_t)(tokens + i);
    }
    enum mt_status status =
        mt_device_upload(device, work->places.data, places, (size_t)tokens * 2 * sizeof *places);
    if (status == MT_OK) status = mt_copy(device, &(struct mt_copy_args){.x = record->residual, .y = before});
    if (status == MT_OK)
        status =
            mt_combine_forward(device, &(struct mt_combine_forward_args){.rows = record->rows,
                                                                         .row_of_slot = record->row_of_slot,
                                                                         .weight = record->weight,
                                                                         .y = added});
    if (status == MT_OK) status = mt_fill(device, &(struct mt_fill_args){.y = work->unused, .value = 0.0f});
    if (status != MT_OK) return status;
    return mt_combine_forward(device, &(struct mt_combine_forward_args){.rows = work->pair,
                                                                        .row_of_slot = work->places,
                                                                        .weight = work->unused,
                                                                        .gram = work->pair_gram});
}

/* A tensor as f32 at `target`; its own numbers lie at `raw`. */
static enum mt_status fetch(struct mt_collector *collector, const struct mt_tensor *tensor, void *raw,
                            float *target)
{
    int64_t count = mt_tensor_count(tensor);
    if (!mt_tensor_is_contiguous(tensor))
        return mt_fail(collector->ctx, MT_ERR_SHAPE, "a routing record's tensor has gaps");
    enum mt_status status = mt_device_download(collector->device, raw, tensor->data,
                                               (size_t)count * mt_dtype_bytes(tensor->dtype));
    for (int64_t i = 0; status == MT_OK && i < count; i++) target[i] = (float)mt_load(tensor->dtype, raw, i);
    return status;
}

enum mt_status mt_scores_fetch(struct mt_collector *collector, const struct mt_routing *record,
                               struct mt_score_facts *facts)
{
    struct work work;
    *facts = (struct mt_score_facts){0};
    bool rows = mt_tensor_present(&record->rows);
    if (!wants(collector, false) || (!rows && !mt_tensor_present(&record->gram))) return MT_OK;
    bool change = rows && wants(collector, true) && mt_tensor_present(&record->residual);
    enum mt_status status = make_room(collector, record, change, &work);
    if (status != MT_OK) return status;
    const struct mt_tensor *gram = &record->gram;
    if (!mt_tensor_present(gram)) {
        gram = &work.gram;
        status = mt_combine_forward(collector->device,
                                    &(struct mt_combine_forward_args){.rows = record->rows,
                                                                      .row_of_slot = record->row_of_slot,
                                                                      .weight = record->weight,
                                                                      .gram = *gram});
    }
    size_t matrices = (size_t)record->tokens * (size_t)(record->slots * record->slots);
    size_t pair_numbers = (size_t)record->tokens * 4;
    void *raw = collector->score_room.host;
    void *after_raw = (unsigned char *)raw + (matrices + pair_numbers) * sizeof(double);
    float *grams = after_raw;
    float *pairs = grams + matrices;
    if (status == MT_OK && change) status = compare_streams(collector, record, &work);
    if (status == MT_OK) status = fetch(collector, gram, raw, grams);
    if (status == MT_OK && change) status = fetch(collector, &work.pair_gram, raw, pairs);
    *facts = (struct mt_score_facts){.grams = grams, .pairs = change ? pairs : NULL};
    return status;
}

// ------------------------------------------------------------------ on the host

/*
 * 1 - cos of h and h + r of their products. Where both point nearly the same way the difference of 1 and cos
 * has few digits left; sin² / (1 + cos) has all of them. A vector without length has cos 0, as in torch.
 */
static double turned(const float pair[4])
{
    double hh = (double)pair[0];
    double hr = (double)pair[1];
    double rr = (double)pair[3];
    double after = hh + 2.0 * hr + rr;
    if (!(hh * after > 0.0)) return isnan(hh * after) ? NAN : 1.0;
    double cosine = (hh + hr) / sqrt(hh * after);
    if (cosine < 0.5) return 1.0 - cosine;
    return fmax(0.0, hh * rr - hr * hr) / (hh * after) / (1.0 + cosine);
}

void mt_scores_add(const struct mt_collector_options *options, struct mt_layer_sums *layer,
                   const struct mt_score_facts *facts, int64_t token, const int32_t *expert,
                   const float *weight)
{
    int k = options->slots;
    double change = facts->pairs != NULL ? turned(facts->pairs + token * 4) : NAN;
    for (int i = 0; i < MT_EXPERT_SCORES; i++) {
        const struct mt_expert_score_kind *kind = mt_expert_score_kind((enum mt_expert_score)i);
        if ((options->scores & MT_SCORE_BIT(i)) == 0 || kind->of_slot == NULL) continue;
        if ((kind->lengths && facts->grams == NULL) || (kind->change && facts->pairs == NULL)) continue;
        layer->scored[i]++;
        struct mt_any_order *sums = layer->score + (size_t)i * (size_t)options->experts;
        for (int s = 0; s < k; s++) {
            if (expert[s] < 0) continue;
            const struct mt_slot_facts slot = {
                .weight = (double)weight[s],
                .length = facts->grams != NULL ? sqrt((double)facts->grams[(token * k + s) * k + s]) : NAN,
                .change = change};
            mt_any_order_add(&sums[expert[s]], kind->of_slot(&slot));
        }
    }
}

void mt_scores_fill(const struct mt_collector_options *options, const struct mt_layer_sums *layer,
                    double *numbers, struct mt_layer_figures *figures)
{
    int n = options->experts;
    figures->score[MT_SCORE_USE] = figures->load;
    figures->score[MT_SCORE_MEAN] = figures->mean_score;
    for (int i = 0; i < MT_EXPERT_SCORES; i++) {
        const struct mt_expert_score_kind *kind = mt_expert_score_kind((enum mt_expert_score)i);
        if ((options->scores & MT_SCORE_BIT(i)) == 0 || kind->of_slot == NULL) continue;
        bool known = layer->tokens > 0 && layer->scored[i] == layer->tokens;
        double *score = numbers + (size_t)i * (size_t)n;
        for (int j = 0; j < n; j++) {
            double sum = mt_any_order_value(&layer->score[i * n + j]);
            if (kind->mean) sum = layer->load[j] > 0.0 ? sum / layer->load[j] : 0.0;
            score[j] = known ? sum : NAN;
        }
        figures->score[i] = score;
    }
}

void mt_score_room_free(struct mt_collector *collector)
{
    mt_buffer_release(&collector->score_room.device);
    mt_release(collector->ctx, collector->score_room.host, collector->score_room.host_bytes);
}
