/*
 * Cases of grouped_sum: one to six terms, each way round, with masks on some; loads of all kinds,
 * experts without a matrix, one row, none, odd sizes, no offsets.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/expert_loads.h"

enum { X, WEIGHT = X + MT_MAX_TERMS, MASK_Y = WEIGHT + MT_MAX_TERMS };
enum { OFFSETS = MASK_Y + MT_MAX_TERMS, Y };
enum { TERMS = EXPERT_PARAMS, TRANSPOSED, MASKED_Y }; // the last two: a bit per term
enum { BETA };

struct sum_case {
    int64_t rows, n;
    int64_t k[MT_MAX_TERMS]; // 0: no such term
    int experts;
    enum load load;
    enum absent absent;
    bool dense;
    int transposed, masked_y;
    float beta;
    int64_t padding;
    enum mt_dtype weight_type; // of every other term, beginning with the first; the others' are f32
    enum mt_dtype row_type;    // of x and y
};

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[Y].dim[0], &t[OFFSETS]);
    for (int i = 0; i < MT_MAX_TERMS; i++) fill_mask(&t[MASK_Y + i]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    static const float alphas[MT_MAX_TERMS] = {1.0f, 0.5f, -2.0f, 1.5f, 1.0f, -0.5f};
    struct mt_tensor weight[MT_MAX_TERMS][MOST_EXPERTS];
    struct mt_product_term terms[MT_MAX_TERMS] = {0};
    for (int i = 0; i < (int)c->param[TERMS]; i++) {
        views_of(c, &t[WEIGHT + i], weight[i]);
        terms[i] = (struct mt_product_term){.x = t[X + i],
                                            .weight = weight[i],
                                            .transpose_weight = (c->param[TRANSPOSED] >> i & 1) != 0,
                                            .alpha = alphas[i]};
        if ((c->param[MASKED_Y] >> i & 1) == 0) continue;
        terms[i].mask_y = t[MASK_Y + i];
        terms[i].mask_scale = 1.25f;
    }
    struct mt_grouped_sum_args args = {.terms = terms,
                                       .count = (int)c->param[TERMS],
                                       .experts = experts_of(c),
                                       .offsets = offsets_of(c, &t[OFFSETS]),
                                       .y = t[Y],
                                       .beta = c->real[BETA]};
    return mt_grouped_sum(device, &args);
}

/* The tensors of term i; one that does not exist has next to nothing. */
static void add_slots(struct op_case *c, const struct sum_case *s)
{
    for (int i = 0; i < MT_MAX_TERMS; i++)
        case_slot(c, "x", SLOT_INPUT, s->row_type, 2, (int64_t[]){s->rows, s->k[i]});
    for (int i = 0; i < MT_MAX_TERMS; i++) {
        bool transposed = (s->transposed >> i & 1) != 0;
        enum mt_dtype type = i % 2 == 0 ? s->weight_type : MT_F32;
        int64_t dims[] = {s->experts, transposed ? s->n : s->k[i], transposed ? s->k[i] : s->n};
        c->slot[case_slot(c, "weight", SLOT_INPUT, type, 3, dims)].fill = FILL_REPEATED;
    }
    for (int i = 0; i < MT_MAX_TERMS; i++)
        case_index(c, "mask_y", 2, (int64_t[]){s->rows, (s->masked_y >> i & 1) != 0 ? (s->n + 31) / 32 : 0});
    case_offsets(c);
    case_slot(c, "y", SLOT_UPDATED, s->row_type, 2, (int64_t[]){s->rows, s->n});
    case_pad(c, s->padding);
}

static struct op_case *add(struct case_list *list, struct sum_case s)
{
    int terms = 0;
    while (terms < MT_MAX_TERMS && s.k[terms] > 0) terms++;
    struct op_case *c = case_new(
        list, MT_OP_grouped_sum, "R=%d N=%d K=%d,%d,%d,%d,%d,%d n=%d load %s%s%s T%x my%x beta %g%s%s",
        (int)s.rows, (int)s.n, (int)s.k[0], (int)s.k[1], (int)s.k[2], (int)s.k[3], (int)s.k[4], (int)s.k[5],
        s.experts, s.dense ? "dense" : load_names[s.load], s.row_type == MT_BF16 ? " bf16" : "",
        s.padding != 0 ? " padded" : "", (unsigned)s.transposed, (unsigned)s.masked_y, (double)s.beta,
        absent_names[s.absent], s.weight_type == MT_BF16 ? " bf16 weights" : "");
    case_experts(c, s.dense ? 0 : s.experts, s.load, s.absent);
    c->param[TERMS] = terms;
    c->param[TRANSPOSED] = s.transposed;
    c->param[MASKED_Y] = s.masked_y;
    c->real[BETA] = s.beta;
    c->fill = fill;
    c->forward = forward;
    c->no_gradient = true; // its gradients are sums of this kind, composed and checked in the model
    // A device may round y after every term: half a last place each, of terms that may be larger than their
    // sum.
    if (s.row_type == MT_BF16) c->tolerance = terms * 0x1p-7;
    add_slots(c, &s);
    return c;
}

/* A LoRA layer's own sums, small: forward, gradient of x, gradient of what gate and up share. */
static void add_lora(struct case_list *list, struct sum_case s)
{
    s.n = 72;
    s.k[0] = 40;
    s.k[1] = 8;
    s.transposed = 3;
    add(list, s);
    s.transposed = 0;
    s.masked_y = 2;
    add(list, s);
    s.beta = 1.0f;
    s.k[2] = 40;
    s.k[3] = 8;
    s.masked_y = 10;
    add(list, s);
    s.k[4] = 24; // and a narrow map beside them
    s.k[5] = 8;
    s.masked_y = 42;
    add(list, s);
}

static void add_odd(struct case_list *list)
{
    struct sum_case s = {.rows = 1, .n = 5, .k = {3}, .experts = 1};
    add(list, s);
    s.dense = true;
    s.masked_y = 1;
    add(list, s);
    s = (struct sum_case){.rows = 40,
                          .n = 33,
                          .k = {35, 7, 64, 1},
                          .experts = 8,
                          .load = LOAD_UNEVEN,
                          .transposed = 5,
                          .masked_y = 12,
                          .beta = 0.5f,
                          .padding = 3};
    add(list, s);
    s.absent = ABSENT_SOME;
    s.row_type = MT_BF16;
    add(list, s);
    s.absent = ABSENT_ALL;
    s.row_type = MT_F32;
    s.beta = 2.0f;
    add(list, s);
    s.beta = 0.0f;
    add(list, s);
    s.load = LOAD_NONE;
    add(list, s);
    s.load = LOAD_ONE;
    s.absent = ABSENT_NONE;
    s.weight_type = MT_F16;
    add(list, s);
    s.rows = 0;
    add(list, s);
}

void cases_grouped_sum(struct case_list *list)
{
    add_odd(list);
    for (int type = 0; type < 2; type++) {
        struct sum_case s = {.rows = 200,
                             .experts = 128,
                             .load = LOAD_UNEVEN,
                             .weight_type = MT_BF16,
                             .row_type = type == 0 ? MT_F32 : MT_BF16};
        add_lora(list, s);
        s.rows = 77;
        s.experts = 1;
        s.dense = true;
        add_lora(list, s);
    }
    // A row or two of each expert, and few rows, as in decoding.
    struct sum_case few = {.rows = 13,
                           .n = 40,
                           .k = {264},
                           .experts = 8,
                           .load = LOAD_UNEVEN,
                           .transposed = 1,
                           .weight_type = MT_BF16,
                           .row_type = MT_BF16,
                           .beta = 1.0f};
    add(list, few);
    few.experts = 1;
    few.dense = true;
    add(list, few);
    // More rows than are masked at a time; a weight large enough for a device's own instructions.
    add(list, (struct sum_case){
                  .rows = 700, .n = 1100, .k = {9}, .experts = 3, .load = LOAD_UNEVEN, .masked_y = 1});
    struct sum_case large = {.rows = 150,
                             .n = 264,
                             .k = {320, 32},
                             .experts = 3,
                             .load = LOAD_UNEVEN,
                             .weight_type = MT_BF16,
                             .row_type = MT_BF16,
                             .masked_y = 2};
    add(list, large);
    large.transposed = 3;
    large.masked_y = 0;
    large.absent = ABSENT_SOME;
    add(list, large);
    // Steps enough to store beside, in more tiles than a device has multiprocessors.
    struct op_case *many = add(list, (struct sum_case){.rows = 80,
                                                       .n = 1000,
                                                       .k = {1032, 32},
                                                       .experts = 40,
                                                       .load = LOAD_NEARLY_EVEN,
                                                       .masked_y = 2,
                                                       .weight_type = MT_BF16,
                                                       .row_type = MT_BF16});
    many->only_device = true;
    add(list, (struct sum_case){.rows = 1100,
                                .n = 264,
                                .k = {320, 32, 320, 32, 64, 32},
                                .experts = 1,
                                .dense = true,
                                .weight_type = MT_BF16,
                                .row_type = MT_BF16,
                                .beta = 1.0f});
}
