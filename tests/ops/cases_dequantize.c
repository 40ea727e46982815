/*
 * Cases of dequantize: every format, shapes that end inside blocks and inside bytes, numbers of every size,
 * experts without rows and absent ones. Results equal ref's bit for bit.
 */
#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "ops/case_files.h"
#include "tensor/quantised.h"

#define EXACT   1e-30
#define EXPERTS 6 // at the most

enum { CODES, SCALES, NESTED_SCALES, NESTED_OFFSET, NESTED_MAP, Y, OFFSETS };
enum { FORMAT, NESTED, COUNT, OUT, IN, SKIPS, EXTREME }; // params

/* Matrix e of the case's tensors: each has one row per matrix, but for the map, which they share. */
static struct mt_quantised matrix_of(const struct op_case *c, const struct mt_tensor *t, int64_t e)
{
    struct mt_quantised matrix = mt_quantised_shape((enum mt_quantised_format)c->param[FORMAT],
                                                    c->param[NESTED], c->param[OUT], c->param[IN]);
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(&matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        size_t row = (size_t)mt_tensor_count(parts[i]) * mt_dtype_bytes(parts[i]->dtype);
        if (row > 0) parts[i]->data = (char *)t[i].data + (i == NESTED_MAP ? 0 : (size_t)e * row);
    }
    return matrix;
}

/* Numbers of one size; with EXTREME of every size, zeros, the largest and the smallest among them. */
static float number(const struct op_case *c, int64_t e, int64_t i)
{
    float normal = mt_rng_normal(7, (uint64_t)e, (uint64_t)i);
    if (!c->param[EXTREME]) return 0.05f * normal;
    uint32_t word = mt_rng_u32(8, (uint64_t)e, (uint64_t)i);
    int64_t block = i / 200; // neither rows nor blocks of any format
    if (block % 5 == 0) return 0.0f;
    if (word % 50 == 0) return ldexpf(normal < 0.0f ? -1.9f : 1.9f, 127);
    if (word % 50 == 1) return ldexpf(normal, -149);
    return ldexpf(normal, (int)(block % 11) * 20 - 120);
}

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    int64_t count = c->param[OUT] * c->param[IN];
    float *values = malloc((size_t)count * sizeof *values);
    if (values == NULL) abort();
    if (c->param[NESTED]) mt_nf4_nested_map(t[NESTED_MAP].data);
    for (int64_t e = 0; e < c->param[COUNT]; e++) {
        struct mt_quantised matrix = matrix_of(c, t, e);
        for (int64_t i = 0; i < count; i++) values[i] = number(c, c->only_speed ? 0 : e, i);
        bool finite = mt_quantise(MT_F32, values, &matrix);
        if (!finite) abort();
    }
    free(values);
    int32_t *offsets = t[OFFSETS].data;
    for (int64_t e = 0; e <= c->param[COUNT]; e++) offsets[e] = (int32_t)(c->param[SKIPS] ? e / 2 : e);
}

static enum mt_status run(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_quantised stored[EXPERTS];
    struct mt_tensor y[EXPERTS];
    int count = (int)c->param[COUNT];
    for (int e = 0; e < count; e++) {
        stored[e] = matrix_of(c, t, e);
        y[e] = mt_tensor_at(&t[Y], e);
    }
    if (c->param[SKIPS]) stored[count - 1] = (struct mt_quantised){0};
    return mt_dequantize(device, &(struct mt_dequantize_args){
                                     .stored = stored,
                                     .y = y,
                                     .experts = count,
                                     .offsets = c->param[SKIPS] ? t[OFFSETS] : (struct mt_tensor){0}});
}

static struct op_case *add(struct case_list *list, enum mt_quantised_format format, bool nested, int count,
                           int64_t out, int64_t in, bool skips, bool extreme)
{
    static const char *const names[] = {"codes", "scales", "nested_scales", "nested_offset", "nested_map"};
    struct op_case *c = case_new(list, MT_OP_dequantize, "%s%s %d x [%d,%d]%s%s", mt_quantised_name(format),
                                 nested ? " nested" : "", count, (int)out, (int)in,
                                 skips ? " unused experts" : "", extreme ? " extreme" : "");
    const int64_t params[] = {format, nested, count, out, in, skips, extreme};
    for (size_t i = 0; i < sizeof params / sizeof params[0]; i++) c->param[i] = params[i];
    struct mt_quantised matrix = mt_quantised_shape(format, nested, out, in);
    struct mt_tensor *parts[MT_QUANTISED_TENSORS];
    mt_quantised_each(&matrix, parts);
    for (int i = 0; i < MT_QUANTISED_TENSORS; i++) {
        int64_t rows = i == NESTED_MAP ? 1 : count;
        int slot = case_slot(c, names[i], SLOT_INPUT, parts[i]->dtype, 2,
                             (int64_t[]){rows, mt_tensor_count(parts[i])});
        c->slot[slot].fill = FILL_CUSTOM;
    }
    // What is skipped must stay: it is filled before, and compared.
    case_slot(c, "y", skips ? SLOT_UPDATED : SLOT_OUTPUT, MT_BF16, 3, (int64_t[]){count, out, in});
    case_index(c, "offsets", 1, (int64_t[]){count + 1});
    c->tolerance = EXACT;
    c->no_gradient = true;
    c->fill = fill;
    c->forward = run;
    return c;
}

static void add_format(struct case_list *list, enum mt_quantised_format format, bool nested)
{
    add(list, format, nested, 1, 1, 1, false, false);
    add(list, format, nested, 1, 3, 7, false, false);
    add(list, format, nested, 2, 5, 63, false, false);
    add(list, format, nested, 1, 129, 257, false, false);
    add(list, format, nested, 3, 64, 96, false, true);
    add(list, format, nested, 5, 130, 264, true, false);
    add(list, format, nested, 1, 300, 1000, false, true);
    struct op_case *speed = add(list, format, nested, EXPERTS, 1408, 2048, false, false);
    struct mt_quantised matrix = mt_quantised_shape(format, nested, 1408, 2048);
    case_only_timed(speed, false);
    speed->bytes = (double)EXPERTS * ((double)mt_quantised_bytes(&matrix) + 2.0 * 1408 * 2048);
}

void cases_dequantize(struct case_list *list)
{
    add_format(list, MT_QUANTISED_FP8, false);
    add_format(list, MT_QUANTISED_INT8, false);
    add_format(list, MT_QUANTISED_NF4, false);
    add_format(list, MT_QUANTISED_NF4, true);
    add_format(list, MT_QUANTISED_MXFP4, false);
}
