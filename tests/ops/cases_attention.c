/*
 * Cases of attention: packed, empty and one-token sequences, caches (more keys than queries), more queries
 * than keys, every group size, D != Dv, windows, padded heads, and lengths on both sides of the tiles.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"

enum { Q, K, V, Q_OFFSETS, K_OFFSETS, OUT, LSE, DOUT, DQ, DK, DV, K_STARTS };
enum { LAYOUT, WINDOW, WITHOUT_LSE, WITH_STARTS, VALUE_IN_KEY };
enum { SCALE };

#define MAX_SEQUENCES 32
#define GAP           3

/* Lengths of the packed sequences. */
struct layout {
    const char *name;
    int sequences;
    int32_t queries[MAX_SEQUENCES];
    int32_t keys[MAX_SEQUENCES];
};

static const struct layout layouts[] = {
    {"one token", 1, {1}, {1}},
    {"one", 1, {7}, {7}},
    {"packed", 4, {5, 1, 0, 9}, {5, 1, 0, 9}},
    {"cache", 4, {1, 3, 0, 4}, {12, 3, 5, 9}},
    {"more queries than keys", 3, {6, 4, 3}, {2, 0, 3}},
    {"no sequence", 0, {0}, {0}},
    {"only empty", 2, {0, 0}, {0, 0}},
    {"long", 1, {300}, {300}},
    {"long packed", 3, {131, 270, 64}, {131, 270, 64}},
    {"long cache", 3, {1, 70, 200}, {517, 333, 201}},
    {"long before the first key", 1, {400}, {150}},
    {"past a tile", 3, {70, 1, 33}, {70, 1, 100}},
    {"past a tile before the first key", 1, {90}, {20}},
    {"odd lengths", 7, {1, 7, 63, 65, 0, 129, 200}, {1, 7, 63, 65, 0, 129, 200}},
    {"around 512", 2, {511, 513}, {511, 513}},
    {"decoding", 6, {1, 2, 1, 0, 1, 1}, {517, 33, 5, 7, 300, 64}},
    {"8 of 512", 8, {512, 512, 512, 512, 512, 512, 512, 512}, {512, 512, 512, 512, 512, 512, 512, 512}},
    {"32 of 512",
     32,
     {512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512,
      512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512},
     {512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512,
      512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512, 512}},
    {"4 of 1024", 4, {1024, 1024, 1024, 1024}, {1024, 1024, 1024, 1024}},
    {"1 of 4096", 1, {4096}, {4096}},
    {"8 decoding at 1024", 8, {1, 1, 1, 1, 1, 1, 1, 1}, {1024, 1024, 1024, 1024, 1024, 1024, 1024, 1024}},
};

static const struct layout *layout_named(const char *name)
{
    const struct layout *found = &layouts[0];
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (strcmp(layouts[i].name, name) == 0) found = &layouts[i];
    }
    return found;
}

static int64_t total(const int32_t *lengths)
{
    int64_t sum = 0;
    for (int b = 0; b < MAX_SEQUENCES; b++) sum += lengths[b];
    return sum;
}

static void fill_offsets(const int32_t *lengths, int sequences, struct mt_tensor *offsets)
{
    int32_t *values = offsets->data;
    values[0] = 0;
    for (int b = 0; b < sequences; b++) values[b + 1] = values[b] + lengths[b];
}

/* Stretches of a cache, the last sequence's first, GAP rows between them. */
static void fill_starts(const struct layout *layout, struct mt_tensor *starts)
{
    int32_t *values = starts->data;
    int32_t next = 0;
    for (int b = layout->sequences - 1; b >= 0; b--) {
        values[b] = next;
        next += layout->keys[b] + GAP;
    }
}

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    const struct layout *layout = &layouts[c->param[LAYOUT]];
    fill_offsets(layout->queries, layout->sequences, &t[Q_OFFSETS]);
    fill_offsets(layout->keys, layout->sequences, &t[K_OFFSETS]);
    if (c->param[WITH_STARTS]) fill_starts(layout, &t[K_STARTS]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_attention_forward_args args = {
        .q = t[Q],
        .k = t[K],
        .v = t[V],
        .q_offsets = t[Q_OFFSETS],
        .k_offsets = t[K_OFFSETS],
        .out = t[OUT],
        .lse = t[LSE],
        .scale = c->real[SCALE],
        .window = (int)c->param[WINDOW],
    };
    if (c->param[WITHOUT_LSE]) args.lse = (struct mt_tensor){0};
    if (c->param[WITH_STARTS]) args.k_starts = t[K_STARTS];
    if (c->param[VALUE_IN_KEY]) args.v = mt_tensor_columns(&t[K], 0, t[V].dim[2]);
    return mt_attention_forward(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_attention_backward(device, &(struct mt_attention_backward_args){
                                             .q = t[Q],
                                             .k = t[K],
                                             .v = t[V],
                                             .q_offsets = t[Q_OFFSETS],
                                             .k_offsets = t[K_OFFSETS],
                                             .out = t[OUT],
                                             .lse = t[LSE],
                                             .dout = t[DOUT],
                                             .dq = t[DQ],
                                             .dk = t[DK],
                                             .dv = t[DV],
                                             .scale = c->real[SCALE],
                                             .window = (int)c->param[WINDOW],
                                         });
}

struct heads {
    int64_t q, kv;        // heads
    int64_t width, value; // D, Dv
};

static struct op_case *add(struct case_list *list, const char *layout_name, struct heads heads, int window,
                           int64_t padding, enum mt_dtype dtype)
{
    const struct layout *layout = layout_named(layout_name);
    char window_text[32] = "";
    if (window > 0) (void)snprintf(window_text, sizeof window_text, " window %d", window);
    struct op_case *c = case_new(list, MT_OP_attention_forward, "%s H=%d/%d D=%d/%d%s %s%s", layout_name,
                                 (int)heads.q, (int)heads.kv, (int)heads.width, (int)heads.value, window_text,
                                 mt_dtype_name(dtype), padding != 0 ? " padded" : "");
    int64_t queries = total(layout->queries);
    int64_t keys = total(layout->keys);
    int64_t entries = layout->sequences + 1;
    c->backward_op = MT_OP_attention_backward;
    c->param[LAYOUT] = layout - layouts;
    c->param[WINDOW] = window;
    c->real[SCALE] = 1.0f / sqrtf((float)heads.width);
    c->no_gradient = queries == 0 || queries > 100 || dtype != MT_F32; // many finite differences of ref
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "q", SLOT_INPUT, dtype, 3, (int64_t[]){queries, heads.q, heads.width});
    case_slot(c, "k", SLOT_INPUT, dtype, 3, (int64_t[]){keys, heads.kv, heads.width});
    case_slot(c, "v", SLOT_INPUT, dtype, 3, (int64_t[]){keys, heads.kv, heads.value});
    case_index(c, "q_offsets", 1, &entries);
    case_index(c, "k_offsets", 1, &entries);
    case_slot(c, "out", SLOT_OUTPUT, dtype, 3, (int64_t[]){queries, heads.q, heads.value});
    case_output(c, "lse", 2, (int64_t[]){queries, heads.q});
    case_grad_in(c, "dout", OUT);
    case_grad_out(c, "dq", Q);
    case_grad_out(c, "dk", K);
    case_grad_out(c, "dv", V);
    static const int padded[] = {Q, K, V, OUT, DOUT, DQ, DK, DV};
    for (size_t i = 0; i < sizeof padded / sizeof padded[0]; i++) {
        c->slot[padded[i]].row_padding = padding * (int64_t)(1 + i % 3);
    }
    return c;
}

/* Keys and values in stretches of a cache: forward alone. */
static void add_stretches(struct case_list *list, const char *layout_name, struct heads heads, int window,
                          enum mt_dtype dtype)
{
    struct op_case *c = add(list, layout_name, heads, window, 0, dtype);
    const struct layout *layout = layout_named(layout_name);
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " in stretches");
    c->slot[K].dim[0] += (int64_t)GAP * layout->sequences;
    c->slot[V].dim[0] += (int64_t)GAP * layout->sequences;
    c->slot[DK].dim[0] = c->slot[K].dim[0];
    c->slot[DV].dim[0] = c->slot[V].dim[0];
    case_index(c, "k_starts", 1, (int64_t[]){layout->sequences});
    c->param[WITH_STARTS] = 1;
    c->no_gradient = true; // without a backward
    c->backward = NULL;
}

/*
 * f32 operands, forward alone, of which a device that multiplies in bf16 has to see 11: rounding leaves up
 * to 2^-12 of each, 4e-4 of the result on average; the worst element is off by ten times that.
 */
static void add_accurate(struct case_list *list, const char *layout_name, struct heads heads, int window,
                         int64_t padding)
{
    struct op_case *c = add(list, layout_name, heads, window, padding, MT_F32);
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " accurate");
    c->no_gradient = true; // without a backward
    c->backward = NULL;
    c->tolerance = 5e-3;
}

/* Values that are the first columns of the keys, as latent attention remembers them. */
static void add_latent(struct case_list *list, const char *layout_name, struct heads heads, int window,
                       enum mt_dtype dtype)
{
    add_stretches(list, layout_name, heads, window, dtype);
    struct op_case *c = &list->items[list->count - 1];
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, ", values in keys");
    c->param[VALUE_IN_KEY] = 1;
}

/* Gradients of the operands' type, as 16-bit activations have them. */
static void add_bf16(struct case_list *list, const char *layout_name, struct heads heads, int window,
                     int64_t padding)
{
    struct op_case *c = add(list, layout_name, heads, window, padding, MT_BF16);
    static const int gradients[] = {DOUT, DQ, DK, DV};
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) c->slot[gradients[i]].dtype = MT_BF16;
}

/* Lengths on both sides of a device's tiles, heads as wide as it has kernels for: slow on a host. */
static void add_for_devices(struct case_list *list, const char *layout_name, struct heads heads, int window,
                            int64_t padding)
{
    add_bf16(list, layout_name, heads, window, padding);
    struct op_case *c = &list->items[list->count - 1];
    c->only_device = true;
    // Weights and gradients of scores are rounded to bf16, 2^-9, on their way into sums of hundreds of them:
    // of a hundred thousand sums the worst is off by more than 1 % of their rms.
    c->slot[DK].tolerance = 0.015;
}

/*
 * Exact causal flops: a (query, key) pair that is seen costs 2·D for the score and 2·Dv for the value, per
 * query head; backward five products, 2·(3·D + 2·Dv): the score made again, dP, dV, dQ and dK. A second
 * making of S and dP, masked halves of blocks and the softmax itself are not counted.
 */
static void make_speed(struct op_case *c, struct heads heads)
{
    const struct layout *layout = &layouts[c->param[LAYOUT]];
    double pairs = 0.0;
    for (int b = 0; b < layout->sequences; b++) {
        for (int64_t i = 0; i < layout->queries[b]; i++) {
            int64_t seen = i + layout->keys[b] - layout->queries[b] + 1;
            if (c->param[WINDOW] > 0 && seen > c->param[WINDOW]) seen = c->param[WINDOW];
            pairs += seen > 0 ? (double)seen : 0.0;
        }
    }
    double products = pairs * (double)heads.q;
    c->only_speed = true;
    c->flops = products * 2 * (double)(heads.width + heads.value);
    c->backward_flops = products * 2 * (double)(3 * heads.width + 2 * heads.value);
}

/* All in bf16, for devices. */
static void add_device_speed(struct case_list *list, const char *layout_name, struct heads heads)
{
    add_bf16(list, layout_name, heads, 0, 0);
    struct op_case *c = &list->items[list->count - 1];
    make_speed(c, heads);
    c->only_device = true;
}

/* A token after a long cache: the keys and values are read once. */
static void make_decode_speed(struct op_case *c, struct heads heads)
{
    c->only_speed = true;
    c->bytes = (double)total(layouts[c->param[LAYOUT]].keys) * (double)heads.kv *
               (double)(heads.width + heads.value) * 4;
}

static void add_all_accurate(struct case_list *list)
{
    add_accurate(list, "past a tile", (struct heads){4, 2, 40, 64}, 0, 0);
    add_accurate(list, "past a tile", (struct heads){2, 1, 128, 128}, 50, 8);
    add_accurate(list, "long cache", (struct heads){2, 2, 192, 128}, 0, 0);
    add_accurate(list, "past a tile before the first key", (struct heads){2, 2, 17, 33}, 0, 3);
    add_accurate(list, "odd lengths", (struct heads){2, 2, 192, 128}, 0, 8);
    list->items[list->count - 1].only_device = true; // slow on a host
}

void cases_attention(struct case_list *list)
{
    add(list, "one token", (struct heads){1, 1, 1, 1}, 0, 0, MT_F32);
    add(list, "one", (struct heads){2, 2, 5, 3}, 0, 0, MT_F32);
    add(list, "packed", (struct heads){4, 1, 6, 6}, 0, 3, MT_F32);
    add(list, "packed", (struct heads){8, 2, 12, 8}, 3, 0, MT_F32);
    add(list, "packed", (struct heads){8, 1, 4, 7}, 2, 0, MT_F32);
    // Each query sees itself alone: dq and dk are 0, and what rounding leaves there has no scale.
    add(list, "packed", (struct heads){8, 1, 4, 7}, 1, 0, MT_F32)->backward = NULL;
    add(list, "cache", (struct heads){3, 1, 8, 5}, 0, 1, MT_F32);
    add(list, "cache", (struct heads){4, 4, 8, 5}, 4, 0, MT_F32);
    add(list, "more queries than keys", (struct heads){4, 2, 6, 4}, 0, 2, MT_F32);
    add(list, "more queries than keys", (struct heads){2, 2, 6, 4}, 2, 0, MT_F32);
    add(list, "no sequence", (struct heads){2, 1, 4, 4}, 0, 0, MT_F32);
    add(list, "only empty", (struct heads){2, 1, 4, 4}, 0, 0, MT_F32);
    add(list, "packed", (struct heads){2, 1, 4, 4}, 0, 0, MT_BF16);
    add(list, "packed", (struct heads){2, 1, 4, 4}, 0, 0, MT_F16);
    add(list, "packed", (struct heads){150, 1, 3, 2}, 0, 0, MT_F32);
    struct op_case *c = add(list, "packed", (struct heads){4, 2, 16, 16}, 0, 0, MT_F32);
    c->param[WITHOUT_LSE] = 1;
    c->backward = NULL;

    add(list, "long", (struct heads){2, 2, 24, 16}, 0, 0, MT_F32);
    add(list, "long", (struct heads){2, 1, 17, 33}, 50, 3, MT_F32);
    add(list, "long packed", (struct heads){4, 1, 16, 16}, 0, 0, MT_F32);
    add(list, "long packed", (struct heads){2, 2, 192, 128}, 0, 128, MT_F32);
    add(list, "long packed", (struct heads){8, 1, 40, 24}, 100, 0, MT_F32);
    add(list, "long cache", (struct heads){4, 1, 16, 12}, 0, 0, MT_F32);
    add(list, "long cache", (struct heads){2, 2, 16, 12}, 129, 5, MT_F32);
    add(list, "long before the first key", (struct heads){2, 2, 16, 12}, 0, 0, MT_F32);
    add(list, "decoding", (struct heads){8, 4, 16, 12}, 0, 0, MT_F32);
    add(list, "decoding", (struct heads){6, 6, 20, 33}, 40, 3, MT_F32);
    add_stretches(list, "cache", (struct heads){3, 1, 8, 5}, 0, MT_F32);
    add_stretches(list, "decoding", (struct heads){8, 4, 16, 12}, 40, MT_F32);
    add_stretches(list, "past a tile", (struct heads){4, 2, 128, 128}, 0, MT_BF16);
    add_stretches(list, "long cache", (struct heads){2, 2, 16, 12}, 129, MT_F32);
    add_latent(list, "decoding", (struct heads){16, 1, 576, 512}, 0, MT_BF16);
    add_latent(list, "long cache", (struct heads){3, 1, 576, 512}, 100, MT_F32);
    add_latent(list, "decoding", (struct heads){5, 1, 24, 16}, 0, MT_F32);
    add_latent(list, "odd lengths", (struct heads){16, 1, 576, 512}, 0, MT_BF16); // no stretches
    list->items[list->count - 1].only_device = true;                              // slow on a host
    add_bf16(list, "past a tile", (struct heads){2, 2, 192, 128}, 0, 8);
    add_bf16(list, "past a tile", (struct heads){4, 2, 128, 128}, 0, 0);
    add_bf16(list, "past a tile", (struct heads){4, 1, 64, 64}, 50, 0);
    add_bf16(list, "past a tile before the first key", (struct heads){2, 2, 64, 64}, 0, 3);
    add_bf16(list, "odd lengths", (struct heads){2, 1, 40, 24}, 0, 0);
    add_for_devices(list, "odd lengths", (struct heads){2, 2, 192, 128}, 0, 8);
    add_for_devices(list, "odd lengths", (struct heads){1, 1, 192, 128}, 70, 0);
    add_for_devices(list, "odd lengths", (struct heads){4, 2, 128, 128}, 0, 0);
    add_for_devices(list, "odd lengths", (struct heads){3, 1, 64, 64}, 129, 0);
    add_for_devices(list, "odd lengths", (struct heads){2, 2, 136, 72}, 100, 16);
    add_for_devices(list, "around 512", (struct heads){1, 1, 64, 64}, 0, 0);
    add_for_devices(list, "around 512", (struct heads){1, 1, 192, 128}, 0, 0);
    add_for_devices(list, "long cache", (struct heads){4, 2, 128, 128}, 0, 0);
    add_for_devices(list, "long cache", (struct heads){1, 1, 192, 128}, 200, 0);
    add_for_devices(list, "long before the first key", (struct heads){2, 1, 64, 64}, 0, 0);
    add_all_accurate(list);
    // Sharp scores: the running maximum rises, and most weights are 0. A score's own rounding, relative to
    // scores of up to 40, is the absolute error of its exponent: 40 · 2^-24 = 2.4e-6 for each operation.
    c = add(list, "long", (struct heads){2, 1, 32, 32}, 0, 0, MT_F32);
    c->slot[Q].scale = 8.0;
    c->tolerance = 3e-5;

    static const struct heads mla = {16, 16, 192, 128};
    static const struct heads grouped = {32, 8, 128, 128};
    make_speed(add(list, "8 of 512", mla, 0, 0, MT_F32), mla);
    make_speed(add(list, "4 of 1024", grouped, 0, 0, MT_F32), grouped);
    make_speed(add(list, "1 of 4096", (struct heads){8, 1, 128, 128}, 0, 0, MT_F32),
               (struct heads){8, 1, 128, 128});
    make_speed(add(list, "4 of 1024", grouped, 256, 0, MT_F32), grouped);
    make_decode_speed(add(list, "8 decoding at 1024", grouped, 0, 0, MT_F32), grouped);
    make_decode_speed(add(list, "8 decoding at 1024", mla, 0, 0, MT_F32), mla);
    add_device_speed(list, "32 of 512", mla);
    add_device_speed(list, "4 of 1024", grouped);
    add_device_speed(list, "1 of 4096", grouped);
    add_device_speed(list, "32 of 512", (struct heads){16, 16, 64, 64});
}
