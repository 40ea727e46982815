/*
 * Cases of grouped_swiglu and its backward: with LoRA pairs and without, masks, gradients in place of gate
 * and up, loads of all kinds, experts without a pair, one row, none, odd sizes, no offsets, rows in bf16;
 * sizes that devices have kernels of their own for. One case checks the backward by differences of swiglu and
 * down.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/expert_loads.h"

// forward: gate's, then up's
enum { X, XA, WEIGHT = XA + 2, THIN = WEIGHT + 2, OFFSETS = THIN + 2, GATE, UP, Y };
// backward: DY is what arrives at down, W and A are down's; the rest is there for differences alone
enum { DY, DXA, W, A, MASK, B_OFFSETS, B_GATE, B_UP, INNER, DGATE, DUP, B, B_XA, OUT };
enum { RANK = EXPERT_PARAMS, MASKED, IN_PLACE };

#define SCALE 0.5f // of the pairs

struct swiglu_case {
    int64_t rows, n, k, rank; // rank 0: no pair
    int experts;              // 0: dense
    enum load load;
    enum absent absent; // pairs
    bool masked;        // backward: the pair's product
    bool in_place;      // backward: dgate is gate, dup is up
    int64_t padding;
    enum mt_dtype weight_type;
    enum mt_dtype row_type;
};

// ------------------------------------------------------------------ forward

static void fill_forward(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[Y].dim[0], &t[OFFSETS]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[2][MOST_EXPERTS];
    struct mt_tensor thin[2][MOST_EXPERTS];
    struct mt_product_term terms[2][2];
    struct mt_grouped_sum_args sum[2];
    for (int i = 0; i < 2; i++) {
        expert_views(ABSENT_NONE, &t[WEIGHT + i], weight[i]);
        views_of(c, &t[THIN + i], thin[i]);
        terms[i][0] =
            (struct mt_product_term){.x = t[X], .weight = weight[i], .transpose_weight = true, .alpha = 1.0f};
        terms[i][1] = (struct mt_product_term){
            .x = t[XA + i], .weight = thin[i], .transpose_weight = true, .alpha = SCALE};
        sum[i] = (struct mt_grouped_sum_args){.terms = terms[i],
                                              .count = c->param[RANK] > 0 ? 2 : 1,
                                              .experts = experts_of(c),
                                              .offsets = offsets_of(c, &t[OFFSETS]),
                                              .y = t[GATE + i]};
    }
    struct mt_grouped_swiglu_args args = {.gate = sum[0], .up = sum[1], .y = t[Y]};
    return mt_grouped_swiglu(device, &args);
}

static struct op_case *begin(struct case_list *list, enum mt_op op, const struct swiglu_case *s)
{
    struct op_case *c =
        case_new(list, op, "SwiGLU R=%d N=%d K=%d r=%d n=%d load %s%s%s%s%s%s%s", (int)s->rows, (int)s->n,
                 (int)s->k, (int)s->rank, s->experts, s->experts > 0 ? load_names[s->load] : "dense",
                 s->masked ? " masked" : "", s->in_place ? " in place" : "",
                 s->row_type == MT_BF16 ? " bf16 rows" : "", s->weight_type == MT_BF16 ? " bf16 weights" : "",
                 absent_names[s->absent], s->padding != 0 ? " padded" : "");
    case_experts(c, s->experts, s->load, s->absent);
    c->param[RANK] = s->rank;
    c->param[MASKED] = s->masked;
    c->param[IN_PLACE] = s->in_place;
    c->no_gradient = true; // forward: its gradients are composed and checked in the model
    // Devices may round a sum after each of its two terms, and a product of what was rounded otherwise is off
    // by as much again.
    if (s->row_type == MT_BF16) c->tolerance = 0.03;
    return c;
}

/* The experts' matrices. */
static void add_matrices(struct op_case *c, const char *name, enum mt_dtype type, int64_t rows,
                         int64_t columns)
{
    case_matrices(c, name, SLOT_INPUT, type, (int64_t[]){experts_of(c), rows, columns});
}

static struct op_case *add_forward(struct case_list *list, struct swiglu_case s)
{
    struct op_case *c = begin(list, MT_OP_grouped_swiglu, &s);
    c->fill = fill_forward;
    c->forward = forward;
    case_slot(c, "x", SLOT_INPUT, s.row_type, 2, (int64_t[]){s.rows, s.k});
    for (int i = 0; i < 2; i++) case_slot(c, "xa", SLOT_INPUT, s.row_type, 2, (int64_t[]){s.rows, s.rank});
    for (int i = 0; i < 2; i++) add_matrices(c, "weight", s.weight_type, s.n, s.k);
    for (int i = 0; i < 2; i++) add_matrices(c, "thin", MT_F32, s.n, s.rank);
    case_offsets(c);
    case_slot(c, "gate", SLOT_OUTPUT, s.row_type, 2, (int64_t[]){s.rows, s.n});
    case_slot(c, "up", SLOT_OUTPUT, s.row_type, 2, (int64_t[]){s.rows, s.n});
    case_slot(c, "y", SLOT_OUTPUT, s.row_type, 2, (int64_t[]){s.rows, s.n});
    case_pad(c, s.padding);
    return c;
}

// ------------------------------------------------------------------ backward

static void fill_backward(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[DY].dim[0], &t[B_OFFSETS]);
    fill_mask(&t[MASK]);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[MOST_EXPERTS];
    struct mt_tensor a[MOST_EXPERTS];
    expert_views(ABSENT_NONE, &t[W], weight);
    views_of(c, &t[A], a);
    struct mt_product_term terms[] = {{.x = t[DY], .weight = weight, .alpha = 1.0f},
                                      {.x = t[DXA], .weight = a, .alpha = 1.0f}};
    if (c->param[MASKED]) {
        terms[1].mask_y = t[MASK];
        terms[1].mask_scale = 1.25f;
    }
    struct mt_grouped_swiglu_backward_args args = {.sum = {.terms = terms,
                                                           .count = c->param[RANK] > 0 ? 2 : 1,
                                                           .experts = experts_of(c),
                                                           .offsets = offsets_of(c, &t[B_OFFSETS]),
                                                           .y = t[INNER]},
                                                   .gate = t[B_GATE],
                                                   .up = t[B_UP],
                                                   .dgate = t[DGATE],
                                                   .dup = t[DUP]};
    if (c->param[IN_PLACE]) {
        args.dgate = t[B_GATE];
        args.dup = t[B_UP];
    }
    return mt_grouped_swiglu_backward(device, &args);
}

static struct op_case *add_backward(struct case_list *list, struct swiglu_case s)
{
    struct op_case *c = begin(list, MT_OP_grouped_swiglu_backward, &s);
    enum slot_role read = s.in_place ? SLOT_UPDATED : SLOT_INPUT;
    int64_t apart = s.in_place ? 0 : s.rows;
    c->fill = fill_backward;
    c->forward = backward;
    case_slot(c, "dy", SLOT_INPUT, s.row_type, 2, (int64_t[]){s.rows, s.k});
    case_slot(c, "dxa", SLOT_INPUT, s.row_type, 2, (int64_t[]){s.rows, s.rank});
    add_matrices(c, "weight", s.weight_type, s.k, s.n);
    add_matrices(c, "a", MT_F32, s.rank, s.n);
    case_index(c, "mask", 2, (int64_t[]){s.masked ? s.rows : 0, (s.n + 31) / 32});
    case_offsets(c);
    case_slot(c, "gate", read, s.row_type, 2, (int64_t[]){s.rows, s.n});
    case_slot(c, "up", read, s.row_type, 2, (int64_t[]){s.rows, s.n});
    case_slot(c, "y", SLOT_OUTPUT, s.row_type, 2, (int64_t[]){s.rows, s.n});
    case_slot(c, "dgate", SLOT_OUTPUT, s.row_type, 2, (int64_t[]){apart, s.n});
    case_slot(c, "dup", SLOT_OUTPUT, s.row_type, 2, (int64_t[]){apart, s.n});
    case_pad(c, s.padding);
    return c;
}

/* What the backward is the gradient of: down, with its pair, of silu(gate) · up. */
static enum mt_status swiglu_and_down(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[MOST_EXPERTS];
    struct mt_tensor a[MOST_EXPERTS];
    struct mt_tensor b[MOST_EXPERTS];
    expert_views(ABSENT_NONE, &t[W], weight);
    views_of(c, &t[A], a);
    views_of(c, &t[B], b);
    const struct mt_product_term terms[] = {
        {.x = t[INNER], .weight = weight, .transpose_weight = true, .alpha = 1.0f},
        {.x = t[B_XA], .weight = b, .transpose_weight = true, .alpha = SCALE}};
    enum mt_status status = mt_swiglu_forward(
        device, &(struct mt_swiglu_forward_args){.gate = t[B_GATE], .up = t[B_UP], .y = t[INNER]});
    if (status != MT_OK) return status;
    status = mt_lora_xa(device, &(struct mt_lora_xa_args){.x = t[INNER],
                                                          .mask = t[MASK],
                                                          .mask_scale = 1.25f,
                                                          .linears = 1,
                                                          .a = {a},
                                                          .alpha = 1.0f,
                                                          .xa = {t[B_XA]},
                                                          .experts = experts_of(c),
                                                          .offsets = t[B_OFFSETS]});
    if (status != MT_OK) return status;
    return mt_grouped_sum(
        device,
        &(struct mt_grouped_sum_args){
            .terms = terms, .count = 2, .experts = experts_of(c), .offsets = t[B_OFFSETS], .y = t[OUT]});
}

/* And all of the way back. */
static enum mt_status down_and_swiglu_back(struct mt_device *device, const struct op_case *c,
                                           struct mt_tensor *t)
{
    struct mt_tensor b[MOST_EXPERTS];
    views_of(c, &t[B], b);
    struct mt_lora_dxa_args dxa = {.linears = 1, .experts = experts_of(c), .offsets = t[B_OFFSETS]};
    dxa.linear[0] = (struct mt_lora_pair_gradient){.dy = t[DY], .b = b, .scale = SCALE, .dxa = t[DXA]};
    enum mt_status status = mt_lora_dxa(device, &dxa);
    return status == MT_OK ? backward(device, c, t) : status;
}

static void add_gradient(struct case_list *list)
{
    struct swiglu_case s = {.rows = 12,
                            .n = 37,
                            .k = 9,
                            .rank = 3,
                            .experts = 3,
                            .load = LOAD_UNEVEN,
                            .absent = ABSENT_SOME,
                            .masked = true};
    struct op_case *c = add_backward(list, s);
    c->op = MT_OP_swiglu_forward;
    c->backward_op = MT_OP_grouped_swiglu_backward;
    c->forward = swiglu_and_down;
    c->backward = down_and_swiglu_back;
    c->no_gradient = false;
    add_matrices(c, "b", MT_F32, s.k, s.rank);
    case_slot(c, "xa", SLOT_OUTPUT, MT_F32, 2, (int64_t[]){s.rows, s.rank});
    case_slot(c, "out", SLOT_OUTPUT, MT_F32, 2, (int64_t[]){s.rows, s.k});
    c->slot[DY].role = SLOT_GRAD_IN;
    c->slot[DY].of = OUT;
    c->slot[DXA].role = SLOT_GRAD_OUT;
    c->slot[DXA].of = B_XA;
    c->slot[DXA].no_numeric = true; // of what is made on the way
    c->slot[DGATE].role = SLOT_GRAD_OUT;
    c->slot[DGATE].of = B_GATE;
    c->slot[DUP].role = SLOT_GRAD_OUT;
    c->slot[DUP].of = B_UP;
}

// ------------------------------------------------------------------ all

static void add_both(struct case_list *list, struct swiglu_case s, bool only_device)
{
    struct swiglu_case ahead = s;
    ahead.masked = false;
    ahead.in_place = false;
    add_forward(list, ahead)->only_device = only_device;
    add_backward(list, s)->only_device = only_device;
}

static void add_odd(struct case_list *list)
{
    struct swiglu_case s = {.rows = 1, .n = 5, .k = 3};
    add_both(list, s, false);
    s.rank = 2;
    s.masked = true;
    s.in_place = true;
    add_both(list, s, false);
    s.rows = 0;
    add_both(list, s, false);
    s = (struct swiglu_case){.rows = 40,
                             .n = 33,
                             .k = 35,
                             .rank = 7,
                             .experts = 8,
                             .load = LOAD_UNEVEN,
                             .masked = true,
                             .padding = 3};
    add_both(list, s, false);
    s.absent = ABSENT_SOME;
    s.row_type = MT_BF16;
    s.weight_type = MT_BF16;
    add_both(list, s, false);
    s.absent = ABSENT_ALL;
    s.load = LOAD_ONE;
    s.in_place = true;
    add_both(list, s, false);
    s.padding = 0;
    s.row_type = MT_F32;
    s.weight_type = MT_F16;
    s.rank = 0;
    add_both(list, s, false);
}

/* A row or two of each expert, and few rows of one, as in decoding. */
static void add_few(struct case_list *list)
{
    struct swiglu_case s = {.rows = 13,
                            .n = 40,
                            .k = 264,
                            .experts = 8,
                            .load = LOAD_UNEVEN,
                            .weight_type = MT_BF16,
                            .row_type = MT_BF16};
    add_forward(list, s);
    s.experts = 0;
    add_forward(list, s);
    s.rows = 30;
    add_forward(list, s);
}

/*
 * Large enough for a device's own instructions: tiles that hang over, experts of one tile and of two. Hosts
 * leave rows in bf16 to ref.
 */
static void add_tiles(struct case_list *list, int64_t n, int64_t k, int64_t rank)
{
    struct swiglu_case s = {.rows = 150,
                            .n = n,
                            .k = k,
                            .rank = rank,
                            .experts = 3,
                            .load = LOAD_UNEVEN,
                            .masked = rank > 0,
                            .in_place = true,
                            .weight_type = MT_BF16,
                            .row_type = MT_BF16};
    add_both(list, s, true);
    s.in_place = false;
    s.load = LOAD_ONE;
    s.absent = ABSENT_SOME;
    add_both(list, s, true);
    s.experts = 0;
    s.absent = ABSENT_NONE;
    s.rows = 50;
    s.in_place = true;
    add_both(list, s, true);
    s.row_type = MT_F32;
    add_both(list, s, false);
}

/* More tiles than a device has multiprocessors. */
static void add_many(struct case_list *list, int64_t n, int64_t k, int64_t rank, int experts)
{
    add_both(list,
             (struct swiglu_case){.rows = 80,
                                  .n = n,
                                  .k = k,
                                  .rank = rank,
                                  .experts = experts,
                                  .load = LOAD_NEARLY_EVEN,
                                  .masked = rank > 0,
                                  .in_place = true,
                                  .weight_type = MT_BF16,
                                  .row_type = MT_BF16},
             true);
}

/* More steps, in wide tiles and narrow ones; without offsets, rows enough for a device. */
static void add_long(struct case_list *list, int64_t rank)
{
    struct swiglu_case s = {.rows = 150,
                            .n = 456,
                            .k = 1032,
                            .rank = rank,
                            .experts = 3,
                            .load = LOAD_UNEVEN,
                            .masked = rank > 0,
                            .in_place = true,
                            .weight_type = MT_BF16,
                            .row_type = MT_BF16};
    add_both(list, s, true);
    s.in_place = false;
    s.n = 328;
    s.load = LOAD_ONE;
    add_both(list, s, true);
    s.experts = 0;
    s.rows = 1100;
    s.n = 264;
    s.k = 328;
    add_both(list, s, true);
}

/* f32 rows, of which a device that multiplies in bf16 has to see more than its 8 bits; of weights it has all.
 */
static void add_accurate(struct case_list *list, struct swiglu_case s)
{
    s.weight_type = MT_BF16;
    struct op_case *c = add_forward(list, s);
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " accurate");
    case_retype(c, MT_BF16, 2, (int[]){THIN, THIN + 1});
    c->tolerance = 3e-3;
    c->only_device = true;
}

static void add_all_accurate(struct case_list *list)
{
    struct swiglu_case s = {.rows = 1100, .n = 520, .k = 328, .rank = 32};
    add_accurate(list, s);
    s.k = 600;
    s.padding = 8;
    add_accurate(list, s);
    s.rank = 0;
    add_accurate(list, s);
    s.n = 640;
    s.rank = 40;
    s.experts = 2;
    s.load = LOAD_UNEVEN;
    s.absent = ABSENT_SOME;
    add_accurate(list, s);
    s.rank = 12;
    s.padding = 3;
    s.load = LOAD_ONE;
    add_accurate(list, s);
    s.padding = 0;
    s.load = LOAD_UNEVEN;
    add_accurate(list, s);
}

/* Timed on devices: DeepSeek-V2-Lite's routed experts (98,304 rows) or a dense block. */
static void add_speed(struct case_list *list, int64_t n, int64_t k, int experts, bool back)
{
    struct swiglu_case s = {.rows = experts > 0 ? 98304 : 16384,
                            .n = n,
                            .k = k,
                            .rank = 32,
                            .experts = experts,
                            .load = LOAD_NEARLY_EVEN,
                            .masked = back,
                            .in_place = back,
                            .weight_type = MT_BF16,
                            .row_type = MT_BF16};
    struct op_case *c = back ? add_backward(list, s) : add_forward(list, s);
    case_only_timed(c, true);
    c->flops = 2.0 * (double)s.rows * (double)n * (double)(k + s.rank) * (back ? 1.0 : 2.0);
}

void cases_grouped_swiglu(struct case_list *list)
{
    add_odd(list);
    add_few(list);
    add_gradient(list);
    add_tiles(list, 264, 520, 32);
    add_tiles(list, 256, 264, 40);
    add_tiles(list, 320, 328, 0);
    add_many(list, 264, 456, 24, 70);
    add_many(list, 264, 456, 0, 70);
    add_many(list, 1000, 328, 32, 40);
    add_long(list, 32);
    add_long(list, 0);
    for (int back = 0; back < 2; back++) {
        add_speed(list, 1408, 2048, 64, back != 0);
        add_speed(list, 2816, 2048, 0, back != 0);
        add_speed(list, 10944, 2048, 0, back != 0);
    }
    add_all_accurate(list);
}
