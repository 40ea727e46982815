/*
 * The collector: records by hand, parts and merges against the whole, samples, masks, dropped slots, choices;
 * and what a model's observer hands over, against the model's own weights.
 */
#include "analysis/collector/collector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "formats/text/json.h"
#include "formats/text/json_text.h"
#include "formats/text/lists.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/model_runs.h"
#include "support/small_models.h"

enum { TOKENS = 60, EXPERTS = 5, SLOTS = 2, WIDTH = 7 };

/* A record on the host, and its layer's input. */
struct drawn {
    float probs[TOKENS * EXPERTS];
    float weight[TOKENS * SLOTS];
    int32_t expert[TOKENS * SLOTS];
    int32_t row_of_slot[TOKENS * SLOTS];
    int32_t mask[TOKENS];
    float rows[TOKENS * SLOTS * WIDTH];
    float gram[TOKENS * SLOTS * SLOTS];
    float input[TOKENS * WIDTH];
};

/* Every token's experts are two different ones; rows lie back to front; every seventh token is padding. */
static void draw(struct drawn *drawn)
{
    for (int i = 0; i < TOKENS * EXPERTS; i++)
        drawn->probs[i] = 0.2f + 0.05f * mt_rng_uniform(1, 1, (uint64_t)i);
    for (int i = 0; i < TOKENS * SLOTS * WIDTH; i++) drawn->rows[i] = mt_rng_normal(1, 2, (uint64_t)i);
    for (int i = 0; i < TOKENS * WIDTH; i++) drawn->input[i] = mt_rng_normal(1, 3, (uint64_t)i);
    for (int i = 0; i < TOKENS; i++) {
        drawn->mask[i] = i % 7 != 3;
        for (int s = 0; s < SLOTS; s++) {
            int slot = i * SLOTS + s;
            drawn->expert[slot] = (i * i + 3 * s) % EXPERTS;
            drawn->weight[slot] = 0.5f - 0.25f * (float)s;
            drawn->row_of_slot[slot] = TOKENS * SLOTS - 1 - slot;
        }
    }
    for (int i = 0; i < TOKENS; i++) {
        for (int ab = 0; ab < SLOTS * SLOTS; ab++) {
            const float *a = drawn->rows + drawn->row_of_slot[i * SLOTS + ab / SLOTS] * WIDTH;
            const float *b = drawn->rows + drawn->row_of_slot[i * SLOTS + ab % SLOTS] * WIDTH;
            float sum = 0.0f;
            for (int c = 0; c < WIDTH; c++) sum += a[c] * b[c];
            drawn->gram[i * SLOTS * SLOTS + ab] = sum;
        }
    }
}

/* Tokens [first, first + count) as a record and an input. */
static struct mt_routing record_of(struct drawn *drawn, int first, int count, bool masked)
{
    struct mt_routing record = {
        .tokens = count,
        .experts = EXPERTS,
        .slots = SLOTS,
        .segments = 1,
        .probs = mt_tensor_2d(drawn->probs + first * EXPERTS, MT_F32, count, EXPERTS),
        .weight = mt_tensor_2d(drawn->weight + first * SLOTS, MT_F32, count, SLOTS),
        .chosen = mt_tensor_2d(drawn->expert + first * SLOTS, MT_I32, count, SLOTS),
        .expert = mt_tensor_2d(drawn->expert + first * SLOTS, MT_I32, count, SLOTS),
        .row_of_slot = mt_tensor_2d(drawn->row_of_slot + first * SLOTS, MT_I32, count, SLOTS),
        .rows = mt_tensor_2d(drawn->rows, MT_F32, TOKENS * SLOTS, WIDTH),
    };
    if (masked) record.mask = mt_tensor_1d(drawn->mask + first, MT_I32, count);
    return record;
}

static struct mt_collector_options options_of(int64_t sample)
{
    return (struct mt_collector_options){.layers = 1,
                                         .experts = EXPERTS,
                                         .slots = SLOTS,
                                         .width = WIDTH,
                                         .inputs = sample,
                                         .outputs = sample / 2,
                                         .choices = TOKENS,
                                         .seed = 3};
}

static void add_part(struct mt_collector *collector, struct drawn *drawn, int first, int count, bool masked)
{
    struct mt_routing record = record_of(drawn, first, count, masked);
    struct mt_tensor input = mt_tensor_2d(drawn->input + first * WIDTH, MT_F32, count, WIDTH);
    assert_int_equal(mt_collector_add(collector, 0, &record, &input), MT_OK);
}

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct drawn drawn;
};

static int open_bench(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    if (bench == NULL) return -1;
    mt_context_init(&bench->ctx, NULL);
    draw(&bench->drawn);
    *state = bench;
    return mt_device_create(&bench->ctx, "cpu", 1, &bench->device) == MT_OK ? 0 : -1;
}

static int close_bench(void **state)
{
    struct bench *bench = *state;
    mt_device_destroy(bench->device);
    bool clean = bench->ctx.live_bytes == 0;
    free(bench);
    return clean ? 0 : -1;
}

static struct mt_collector *collector_with(struct bench *bench, const struct mt_collector_options *options)
{
    struct mt_collector *collector = NULL;
    assert_int_equal(mt_collector_create(bench->device, options, &collector), MT_OK);
    return collector;
}

static void test_sums(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(TOKENS);
    struct mt_collector *collector = collector_with(bench, &options);
    struct mt_figures figures;
    add_part(collector, &bench->drawn, 0, TOKENS, true);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    double load[EXPERTS] = {0};
    double first[EXPERTS] = {0};
    double cosine = 0.0;
    int tokens = 0;
    for (int i = 0; i < TOKENS; i++) {
        if (bench->drawn.mask[i] == 0) continue;
        const float *gram = bench->drawn.gram + i * SLOTS * SLOTS;
        tokens++;
        for (int s = 0; s < SLOTS; s++) load[bench->drawn.expert[i * SLOTS + s]] += 1.0;
        first[bench->drawn.expert[i * SLOTS]] += 1.0;
        cosine += fabs((double)gram[1]) / sqrt((double)gram[0] * (double)gram[3]);
    }
    const struct mt_layer_figures *layer = &figures.layer[0];
    assert_int_equal(layer->tokens, tokens);
    for (int j = 0; j < EXPERTS; j++) assert_true(layer->load[j] == load[j] && layer->first[j] == first[j]);
    // Half of the tokens' outputs were kept: |cos| of them, with an error.
    assert_int_equal(layer->abs_cos_tokens, TOKENS / 2);
    assert_true(fabs(layer->abs_cos - cosine / tokens) < 4.0 * layer->abs_cos_error);
    assert_true(layer->abs_cos_error > 0.0 && isnan(layer->input.overlap));
    assert_true(figures.mean.max_violation == layer->max_violation);
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
}

/* A record on the host, with Gram matrices in place of rows: the same tokens are kept, and compared. */
static void test_grams_of_the_sample(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(TOKENS);
    options.inputs = 0;
    struct mt_collector *vectors = collector_with(bench, &options);
    options.grams = true;
    struct mt_collector *grams = collector_with(bench, &options);
    struct mt_routing record = record_of(&bench->drawn, 0, TOKENS, true);
    struct mt_figures a;
    struct mt_figures b;
    int32_t even[TOKENS];
    int64_t number[TOKENS];
    for (int i = 0; i < TOKENS; i++) {
        even[i] = i % 2 == 0;
        number[i] = i;
    }
    const struct mt_token_names names = {.tokens = TOKENS, .number = number, .mask = even};
    mt_collector_name(vectors, &names);
    mt_collector_name(grams, &names);
    assert_int_equal(mt_collector_add(vectors, 0, &record, NULL), MT_OK);
    record.rows = (struct mt_tensor){0};
    record.gram = mt_tensor_3d(bench->drawn.gram, MT_F32, TOKENS, SLOTS, SLOTS);
    assert_int_equal(mt_collector_add_host(vectors, 0, &record), MT_ERR_USAGE);
    assert_int_equal(mt_collector_add_host(grams, 1, &record), MT_ERR_SHAPE);
    assert_int_equal(mt_collector_add_host(grams, 0, &record), MT_OK);
    assert_int_equal(mt_collector_merge(vectors, grams), MT_ERR_SHAPE);
    assert_int_equal(mt_collector_finish(vectors, NULL, &a), MT_OK);
    assert_int_equal(mt_collector_finish(grams, &(struct mt_geometry_options){.threads = 1}, &b), MT_OK);
    assert_true(a.layer[0].tokens == TOKENS / 2 - TOKENS / 14 && a.layer[0].tokens == b.layer[0].tokens);
    assert_true(a.layer[0].rv_token == b.layer[0].rv_token);
    assert_int_equal(a.layer[0].abs_cos_tokens, b.layer[0].abs_cos_tokens);
    assert_true(fabs(a.layer[0].abs_cos - b.layer[0].abs_cos) < 1e-6);
    assert_true(fabs(a.layer[0].output_norm - b.layer[0].output_norm) < 1e-5);
    assert_true(isnan(b.layer[0].output.overlap));
    mt_figures_free(&a);
    mt_figures_free(&b);
    mt_collector_destroy(vectors);
    mt_collector_destroy(grams);
}

static void test_gram_gives_all_tokens(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(TOKENS);
    struct mt_collector *plain = collector_with(bench, &options);
    options.outputs = TOKENS;
    struct mt_collector *kept = collector_with(bench, &options);
    struct mt_figures a;
    struct mt_figures b;
    struct mt_routing record = record_of(&bench->drawn, 0, TOKENS, false);
    record.gram = mt_tensor_3d(bench->drawn.gram, MT_F32, TOKENS, SLOTS, SLOTS);
    assert_int_equal(mt_collector_add(plain, 0, &record, NULL), MT_OK);
    add_part(kept, &bench->drawn, 0, TOKENS, false);
    assert_int_equal(mt_collector_finish(plain, NULL, &a), MT_OK);
    assert_int_equal(mt_collector_finish(kept, NULL, &b), MT_OK);
    assert_int_equal(a.layer[0].abs_cos_tokens, TOKENS);
    assert_int_equal(b.layer[0].abs_cos_tokens, TOKENS);
    assert_true(a.layer[0].abs_cos_error == 0.0 && b.layer[0].abs_cos_error == 0.0);
    assert_true(fabs(a.layer[0].abs_cos - b.layer[0].abs_cos) < 1e-6);
    mt_figures_free(&a);
    mt_figures_free(&b);
    mt_collector_destroy(plain);
    mt_collector_destroy(kept);
}

/* True when the same tokens were kept: their first coordinates, in any order, add up alike. */
static double fingerprint(struct mt_collector *collector)
{
    struct mt_kept_vectors kept;
    double sum = 0.0;
    mt_collector_inputs(collector, 0, &kept);
    for (int64_t i = 0; i < kept.count; i++) sum += pow((double)kept.vectors[i * kept.width], 3.0);
    return sum;
}

static void test_parts_are_the_whole(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(10);
    struct mt_collector *whole = collector_with(bench, &options);
    struct mt_collector *parts = collector_with(bench, &options);
    struct mt_figures a;
    struct mt_figures b;
    int64_t count = 0;
    add_part(whole, &bench->drawn, 0, TOKENS, true);
    add_part(parts, &bench->drawn, 0, 11, true);
    add_part(parts, &bench->drawn, 11, 40, true);
    add_part(parts, &bench->drawn, 51, TOKENS - 51, true);
    assert_int_equal(mt_collector_finish(whole, &(struct mt_geometry_options){0}, &a), MT_OK);
    assert_int_equal(mt_collector_finish(parts, &(struct mt_geometry_options){0}, &b), MT_OK);
    assert_memory_equal(a.layer[0].load, b.layer[0].load, EXPERTS * sizeof(double));
    assert_true(a.layer[0].rv_token == b.layer[0].rv_token && a.layer[0].gini == b.layer[0].gini);
    assert_true(a.layer[0].input.overlap == b.layer[0].input.overlap);
    assert_true(a.layer[0].output_unit.silhouette == b.layer[0].output_unit.silhouette);
    assert_true(fingerprint(whole) == fingerprint(parts));
    assert_int_equal(a.layer[0].batches, 1);
    assert_int_equal(b.layer[0].batches, 3);
    assert_true(a.layer[0].max_violation_batch == a.layer[0].max_violation);
    assert_true(b.layer[0].max_violation_batch > b.layer[0].max_violation);
    const uint16_t *choices = mt_collector_choices(parts, 0, &count);
    assert_int_equal(count, a.layer[0].tokens);
    assert_int_equal(choices[3 * SLOTS], bench->drawn.expert[4 * SLOTS]); // token 3 is padding
    mt_figures_free(&a);
    mt_figures_free(&b);
    mt_collector_destroy(whole);
    mt_collector_destroy(parts);
}

/* Tokens first ... first+count-1, by their names. */
static void add_named(struct mt_collector *collector, struct drawn *drawn, int first, int count)
{
    int64_t number[TOKENS];
    int64_t group[TOKENS];
    for (int i = 0; i < count; i++) {
        number[i] = first + i;
        group[i] = (first + i) / 10;
    }
    mt_collector_name(collector, &(struct mt_token_names){.tokens = count, .number = number, .group = group});
    add_part(collector, drawn, first, count, true);
    mt_collector_name(collector, NULL);
}

/* Tokens with names give the same bits in any order, cut anywhere. */
static void test_any_order(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(10);
    struct mt_json_text texts[2];
    options.batch_tokens = 15;
    options.groups = TOKENS / 10 + 1;
    for (int n = 0; n < 2; n++) {
        struct mt_collector *collector = collector_with(bench, &options);
        struct mt_figures figures;
        int64_t count = 0;
        if (n == 0) {
            add_named(collector, &bench->drawn, 0, TOKENS);
        } else {
            add_named(collector, &bench->drawn, 33, TOKENS - 33);
            add_named(collector, &bench->drawn, 0, 17);
            add_named(collector, &bench->drawn, 17, 16);
        }
        assert_int_equal(mt_collector_finish(collector, &(struct mt_geometry_options){0}, &figures), MT_OK);
        assert_true(figures.layer[0].batches > 1);
        mt_json_text_init(&texts[n], &bench->ctx);
        assert_int_equal(mt_figures_put_json(&figures, &texts[n]), MT_OK);
        const uint16_t *choices = mt_collector_choices(collector, 0, &count);
        assert_int_equal(count, TOKENS - 1); // the last one is padding
        assert_int_equal(choices[40 * SLOTS], bench->drawn.expert[40 * SLOTS]);
        mt_figures_free(&figures);
        mt_collector_destroy(collector);
    }
    assert_int_equal(texts[0].length, texts[1].length);
    assert_memory_equal(texts[0].bytes, texts[1].bytes, texts[0].length);
    mt_json_text_free(&texts[0]);
    mt_json_text_free(&texts[1]);
    struct mt_collector *collector = collector_with(bench, &options);
    struct mt_routing record = record_of(&bench->drawn, 0, 4, false);
    mt_collector_name(collector, &(struct mt_token_names){.tokens = 3});
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_ERR_SHAPE);
    mt_collector_destroy(collector);
}

static void test_merge(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(10);
    struct mt_collector *one = collector_with(bench, &options);
    struct mt_collector *into = collector_with(bench, &options);
    struct mt_collector *reversed = collector_with(bench, &options);
    options.stream = 1;
    struct mt_collector *other = collector_with(bench, &options);
    struct mt_figures figures;
    add_part(one, &bench->drawn, 0, 30, false);
    add_part(other, &bench->drawn, 30, 30, false);
    assert_int_equal(mt_collector_merge(into, one), MT_OK);
    assert_int_equal(mt_collector_merge(into, other), MT_OK);
    assert_int_equal(mt_collector_merge(reversed, other), MT_OK);
    assert_int_equal(mt_collector_merge(reversed, one), MT_OK);
    assert_true(fabs(fingerprint(into) - fingerprint(reversed)) < 1e-12);
    assert_int_equal(mt_collector_finish(into, NULL, &figures), MT_OK);
    assert_int_equal(figures.layer[0].tokens, TOKENS);
    assert_int_equal(figures.layer[0].batches, 2);
    mt_figures_free(&figures);
    options.experts = EXPERTS + 1;
    struct mt_collector *wrong = collector_with(bench, &options);
    assert_int_equal(mt_collector_merge(into, wrong), MT_ERR_SHAPE);
    mt_collector_destroy(one);
    mt_collector_destroy(other);
    mt_collector_destroy(into);
    mt_collector_destroy(reversed);
    mt_collector_destroy(wrong);
}

/* Packed in the middle and unpacked elsewhere: the figures of one collector that saw everything. */
static void test_packing(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(TOKENS);
    struct mt_byte_list bytes = {.ctx = &bench->ctx};
    struct mt_figures a;
    struct mt_figures b;
    options.inputs = options.choices = 0;
    options.outputs = TOKENS;
    struct mt_collector *whole = collector_with(bench, &options);
    struct mt_collector *first = collector_with(bench, &options);
    struct mt_collector *second = collector_with(bench, &options);
    add_part(whole, &bench->drawn, 0, 20, true);
    add_part(whole, &bench->drawn, 20, TOKENS - 20, true);
    add_part(first, &bench->drawn, 0, 20, true);
    assert_int_equal(mt_collector_pack_sums(first, &bytes), MT_OK);
    assert_int_equal(mt_collector_pack_outputs(first, &bytes), MT_OK);
    assert_false(mt_collector_unpack(second, bytes.data, bytes.count - 1));
    assert_false(mt_collector_unpack(second, bytes.data, 0));
    assert_true(mt_collector_unpack(second, bytes.data, bytes.count));
    add_part(second, &bench->drawn, 20, TOKENS - 20, true);
    assert_int_equal(mt_collector_finish(whole, NULL, &a), MT_OK);
    assert_int_equal(mt_collector_finish(second, NULL, &b), MT_OK);
    assert_int_equal(a.layer[0].tokens, b.layer[0].tokens);
    assert_int_equal(a.layer[0].batches, b.layer[0].batches);
    assert_int_equal(a.layer[0].abs_cos_tokens, b.layer[0].abs_cos_tokens);
    assert_memory_equal(a.layer[0].load, b.layer[0].load, EXPERTS * sizeof(double));
    assert_memory_equal(a.layer[0].mean_weight, b.layer[0].mean_weight, EXPERTS * sizeof(double));
    for (int i = 0;; i++) {
        struct mt_figure_kind kind;
        if (!mt_figure_listed(i, &kind)) break;
        double wanted = mt_figure_value(&a.layer[0], &kind);
        double got = mt_figure_value(&b.layer[0], &kind);
        if (isnan(wanted) && isnan(got)) continue;
        if (!(fabs(got - wanted) <= 1e-12)) fail_msg("%s: %g, expected %g", kind.name, got, wanted);
    }
    bytes.data[8] ^= 1; // of another shape
    assert_false(mt_collector_unpack(second, bytes.data, bytes.count));
    mt_figures_free(&a);
    mt_figures_free(&b);
    mt_byte_list_free(&bytes);
    mt_collector_destroy(whole);
    mt_collector_destroy(first);
    mt_collector_destroy(second);
}

static void test_refusals_and_nothing(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(10);
    struct mt_collector *collector = collector_with(bench, &options);
    struct mt_figures figures;
    struct mt_routing record = record_of(&bench->drawn, 0, 4, false);
    int32_t wild[4 * SLOTS] = {0, 1, 2, 3, 4, 5, 0, 1};
    assert_int_equal(mt_collector_add(collector, 1, &record, NULL), MT_ERR_SHAPE);
    record.expert = mt_tensor_2d(wild, MT_I32, 4, SLOTS);
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_ERR_SHAPE);
    assert_non_null(strstr(bench->ctx.message, "expert 5, but there are only 5"));
    assert_int_equal(mt_collector_finish(collector, &(struct mt_geometry_options){0}, &figures), MT_OK);
    assert_true(isnan(figures.layer[0].max_violation) && isnan(figures.layer[0].abs_cos));
    assert_true(isnan(figures.mean.rv_token) && figures.layer[0].batches == 0);
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
    options.slots = EXPERTS + 1;
    assert_int_equal(mt_collector_create(bench->device, &options, &collector), MT_ERR_USAGE);
}

static void test_dropped_slots(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(10);
    struct mt_collector *collector = collector_with(bench, &options);
    struct mt_figures figures;
    struct mt_routing record = record_of(&bench->drawn, 0, 4, false);
    int32_t dropped[4 * SLOTS] = {0, -1, 2, 3, -1, -1, 0, 1};
    record.expert = mt_tensor_2d(dropped, MT_I32, 4, SLOTS);
    assert_int_equal(mt_collector_add(collector, 0, &record, NULL), MT_OK);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    double served = 0.0;
    for (int j = 0; j < EXPERTS; j++) served += figures.layer[0].load[j];
    assert_true(served == 5.0);
    assert_int_equal(figures.layer[0].abs_cos_tokens, 2); // those with all their outputs
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
}

static void test_json(void **state)
{
    struct bench *bench = *state;
    struct mt_collector_options options = options_of(10);
    struct mt_collector *collector = collector_with(bench, &options);
    struct mt_figures figures;
    struct mt_json json;
    struct mt_json_node child;
    char path[256];
    void *place = NULL;
    assert_int_equal(workplace_open(&place), 0);
    (void)workplace_path(place, "figures.json", path, sizeof path);
    add_part(collector, &bench->drawn, 0, TOKENS, false);
    assert_int_equal(mt_collector_finish(collector, NULL, &figures), MT_OK);
    assert_int_equal(mt_figures_write_json(&figures, path), MT_OK);
    assert_int_equal(mt_json_read(&bench->ctx, path, &mt_json_file_limits, &json), MT_OK);
    struct mt_json_node root = mt_json_root(&json);
    struct mt_json_node whole;
    double value = 0.0;
    assert_int_equal(mt_json_get_object(&root, "figures", &whole), MT_OK);
    assert_int_equal(mt_json_get_array(&whole, "layers", &child), MT_OK);
    struct mt_json_node layer = mt_json_element(&child, 0);
    assert_int_equal(mt_json_get_real(&layer, "rv_token", 0.0, 1.0, &value), MT_OK);
    assert_true(value == figures.layer[0].rv_token);
    assert_true(mt_json_member(&layer, "overlap_in", &child) && mt_json_kind(&child) == MT_JSON_NULL);
    assert_int_equal(mt_json_get_array(&layer, "load", &child), MT_OK);
    assert_int_equal(mt_json_count(&child), EXPERTS);
    mt_json_free(&json);
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
    assert_int_equal(workplace_close(&place), 0);
}

static enum mt_status collect(struct mt_context *ctx, const void *self)
{
    struct bench *bench = *(struct bench *const *)self;
    struct drawn *drawn = &bench->drawn;
    struct mt_device *device = NULL;
    struct mt_collector *collector = NULL;
    struct mt_figures figures = {0};
    struct mt_collector_options options = options_of(10);
    struct mt_routing record = record_of(drawn, 0, TOKENS, true);
    struct mt_tensor input = mt_tensor_2d(drawn->input, MT_F32, TOKENS, WIDTH);
    enum mt_status status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_collector_create(device, &options, &collector);
    if (status == MT_OK) status = mt_collector_add(collector, 0, &record, &input);
    if (status == MT_OK)
        status = mt_collector_finish(collector, &(struct mt_geometry_options){.threads = 1}, &figures);
    mt_figures_free(&figures);
    mt_collector_destroy(collector);
    mt_device_destroy(device);
    return status;
}

static void test_memory(void **state)
{
    struct bench *bench = *state;
    assert_every_allocation_may_fail(collect, &bench, 21);
}

// ------------------------------------------------------------------ a model

/* What the observer of a model is handed, against the model's parameters. */
struct onlooker {
    struct mt_model *model;
    int seen;
    double worst; // |logits - input · routerᵀ|
    double rows;  // Σ |expert outputs|
};

static enum mt_status look(void *self, int moe_layer, const struct mt_routing *record,
                           const struct mt_tensor *input)
{
    struct onlooker *onlooker = self;
    const struct mt_model_desc *desc = mt_model_description(onlooker->model);
    int64_t layer = 0;
    for (int found = -1; layer < desc->layers; layer++) {
        found += mt_model_layer_is_moe(desc, layer) ? 1 : 0;
        if (found == moe_layer) break;
    }
    const float *weight = mt_model_params(onlooker->model)->layer[layer].router.weight.stored->data; // [n,d]
    const float *x = input->data;
    const float *logits = record->logits.data;
    for (int64_t i = 0; i < record->tokens; i++) {
        for (int64_t j = 0; j < record->experts; j++) {
            double sum = 0.0;
            for (int64_t c = 0; c < desc->width; c++)
                sum += (double)x[i * desc->width + c] * (double)weight[j * desc->width + c];
            onlooker->worst = fmax(onlooker->worst, fabs(sum - (double)logits[i * record->experts + j]));
        }
    }
    const float *rows = record->rows.data;
    for (int64_t i = 0; i < mt_tensor_count(&record->rows); i++) onlooker->rows += fabs((double)rows[i]);
    onlooker->seen++;
    return MT_OK;
}

static void test_observed_model(void **state)
{
    struct workplace *place = NULL;
    void *made = NULL;
    (void)state;
    assert_int_equal(workplace_open(&made), 0);
    place = made;
    const char *config = small_model_config(&mt_arch_qwen3_moe);
    assert_int_equal(small_model_make(place, config, MT_HF_FLOAT32, 3), 0);
    struct model_run run;
    struct model_batch batch;
    struct mt_model_options options = {0}; // nothing is kept: only the observer sees it
    assert_int_equal(model_run_open(&run, place, "cpu", 1, &options), 0);
    model_batch_fill(&batch, (int[]){9, 6, 0}, mt_model_description(run.model)->vocabulary, 1);
    batch.batch.labels = NULL;
    batch.batch.loss_only = true;
    struct onlooker onlooker = {.model = run.model};
    struct mt_layer_observer observer = {.self = &onlooker, .look = look};
    struct mt_model_loss loss;
    mt_model_observe(run.model, &observer);
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    int seen = onlooker.seen;
    assert_true(seen >= 1 && onlooker.worst < 1e-5 && onlooker.rows > 0.0);
    mt_model_observe(run.model, NULL);
    assert_int_equal(mt_model_forward(run.model, &batch.batch, &loss), MT_OK);
    assert_int_equal(onlooker.seen, seen);
    model_run_close(&run);
    assert_int_equal(workplace_close(&made), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_grams_of_the_sample),
        cmocka_unit_test(test_gram_gives_all_tokens),
        cmocka_unit_test(test_parts_are_the_whole),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_packing),
        cmocka_unit_test(test_refusals_and_nothing),
        cmocka_unit_test(test_dropped_slots),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_observed_model),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
