/*
 * Cases of grouped_sum as LoRA layers of large models call it, which devices have kernels of their own for: a
 * frozen product and a thin one forward, the gradient of x with a mask on the thin product, and the gradient
 * gate and up share. Tiles that hang over the edges, experts without rows, without a pair, rows in f32.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/expert_loads.h"

enum { X, XA = X + 2, WEIGHT = XA + 2, THIN = WEIGHT + 2, MASK = THIN + 2, OFFSETS = MASK + 2, Y };
enum { KIND = EXPERT_PARAMS };
enum { BETA, THIN_FACTOR };

enum kind {
    FORWARD,  // y = x · Wᵀ + s · xa · Bᵀ
    BACKWARD, // dx = dy · W + mask(dxa · A)
    SHARED,   // the same of two linears, in one sum
    ONE_MASK, // and under one mask
};

static const char *const kind_names[] = {"forward", "backward", "shared", "one mask"};

/* Linears of a case. */
static int linears_of(enum kind kind)
{
    return kind == SHARED || kind == ONE_MASK ? 2 : 1;
}

struct lora_case {
    enum kind kind;
    int64_t rows, n, k, rank;
    int experts; // 0: dense
    enum load load;
    enum absent absent; // pairs
    float beta;
    enum mt_dtype row_type;
    bool rounded; // thin weights are bf16 and have no factor of their own
};

// Of f32 rows and pairs a device that multiplies in 16 bits has to see 11: rounding leaves up to 2^-12 of
// each, 1e-4 on average, and of half a million sums the worst is off by ten times that.
#define ELEVEN_BITS 2e-3

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[Y].dim[0], &t[OFFSETS]);
    fill_mask(&t[MASK]);
    fill_mask(&t[MASK + 1]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[2][MOST_EXPERTS];
    struct mt_tensor thin[2][MOST_EXPERTS];
    struct mt_product_term terms[MT_MAX_TERMS] = {0};
    enum kind kind = (enum kind)c->param[KIND];
    int linears = linears_of(kind);
    for (int i = 0; i < linears; i++) {
        expert_views(ABSENT_NONE, &t[WEIGHT + i], weight[i]);
        views_of(c, &t[THIN + i], thin[i]);
        terms[2 * i] = (struct mt_product_term){
            .x = t[X + i], .weight = weight[i], .transpose_weight = kind == FORWARD, .alpha = 0.5f};
        terms[2 * i + 1] = (struct mt_product_term){.x = t[XA + i],
                                                    .weight = thin[i],
                                                    .transpose_weight = kind == FORWARD,
                                                    .alpha = 0.5f * c->real[THIN_FACTOR]};
        if (kind == FORWARD) continue;
        terms[2 * i + 1].mask_y = t[kind == ONE_MASK ? MASK : MASK + i];
        terms[2 * i + 1].mask_scale = c->real[THIN_FACTOR] == 1.0f ? 1.0f : 1.25f;
    }
    return mt_grouped_sum(device, &(struct mt_grouped_sum_args){.terms = terms,
                                                                .count = 2 * linears,
                                                                .experts = experts_of(c),
                                                                .offsets = offsets_of(c, &t[OFFSETS]),
                                                                .y = t[Y],
                                                                .beta = c->real[BETA]});
}

static struct op_case *add(struct case_list *list, struct lora_case s)
{
    bool masked = s.kind != FORWARD;
    struct op_case *c =
        case_new(list, MT_OP_grouped_sum, "LoRA %s R=%d N=%d K=%d r=%d n=%d load %s%s%s%s beta %g",
                 kind_names[s.kind], (int)s.rows, (int)s.n, (int)s.k, (int)s.rank, s.experts,
                 s.experts > 0 ? load_names[s.load] : "dense", s.row_type == MT_BF16 ? " bf16 rows" : "",
                 s.rounded ? " bf16 pairs" : "", absent_names[s.absent], (double)s.beta);
    case_experts(c, s.experts, s.load, s.absent);
    c->param[KIND] = s.kind;
    c->real[BETA] = s.beta;
    c->real[THIN_FACTOR] = s.rounded ? 1.0f : 4.0f;
    c->fill = fill;
    c->forward = forward;
    c->no_gradient = true; // as for the other cases of grouped_sum
    int64_t rows[2] = {s.rows, linears_of(s.kind) == 2 ? s.rows : 0};
    for (int i = 0; i < 2; i++) case_slot(c, "x", SLOT_INPUT, s.row_type, 2, (int64_t[]){rows[i], s.k});
    for (int i = 0; i < 2; i++) case_slot(c, "xa", SLOT_INPUT, s.row_type, 2, (int64_t[]){rows[i], s.rank});
    int64_t each[2] = {experts_of(c), linears_of(s.kind) == 2 ? experts_of(c) : 0};
    for (int i = 0; i < 2; i++)
        case_matrices(c, "weight", SLOT_INPUT, MT_BF16,
                      (int64_t[]){each[i], masked ? s.k : s.n, masked ? s.n : s.k});
    for (int i = 0; i < 2; i++)
        case_matrices(c, "thin", SLOT_INPUT, s.rounded ? MT_BF16 : MT_F32,
                      (int64_t[]){each[i], masked ? s.rank : s.n, masked ? s.n : s.rank});
    for (int i = 0; i < 2; i++) case_index(c, "mask", 2, (int64_t[]){masked ? rows[i] : 0, (s.n + 31) / 32});
    case_offsets(c);
    case_slot(c, "y", SLOT_UPDATED, s.row_type, 2, (int64_t[]){s.rows, s.n});
    if (s.row_type == MT_BF16)
        c->slot[Y].tolerance = 0.02; // devices may round y after each term, four at most
    for (int i = 0; i < WEIGHT; i++) c->slot[i].fill = FILL_REPEATED;
    return c;
}

/* Forward alone, f32 rows; scales of rows and weights. */
static void add_accurate(struct case_list *list, struct lora_case s, double rows, double weights)
{
    s.kind = FORWARD;
    s.row_type = MT_F32;
    struct op_case *c = add(list, s);
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " scales %g %g accurate", rows, weights);
    for (int i = 0; i < 2; i++) {
        c->slot[X + i].scale = rows;
        c->slot[XA + i].scale = rows;
        c->slot[WEIGHT + i].scale = weights;
        c->slot[THIN + i].scale = weights;
    }
    c->slot[Y].scale = rows * weights;
    c->slot[Y].tolerance = ELEVEN_BITS;
    c->only_device = true;
}

/* Enough rows of each expert; tiles that hang over; numbers of every size. */
static void add_all_accurate(struct case_list *list)
{
    struct lora_case s = {.rows = 1100, .n = 520, .k = 328, .rank = 32, .rounded = true};
    add_accurate(list, s, 1.0, 0.1);
    s.beta = 1.0f;
    s.rank = 20;
    s.n = 584;
    add_accurate(list, s, 1e9, 1e-9);
    s.experts = 2;
    s.load = LOAD_UNEVEN;
    s.beta = 0.0f;
    s.k = 600;
    s.absent = ABSENT_SOME;
    add_accurate(list, s, 1e-9, 1e9);
    s.rank = 72;
    s.absent = ABSENT_NONE;
    s.load = LOAD_ONE;
    add_accurate(list, s, 1e-3, 1.0);
    s.rows = 150;
    add_accurate(list, s, 1.0, 0.1);
}

/* Timed on devices: DeepSeek-V2-Lite's routed experts (98,304 rows) or one of its dense linears. */
static void add_speed(struct case_list *list, enum kind kind, int64_t n, int64_t k, int experts, float beta)
{
    struct op_case *c = add(list, (struct lora_case){.rounded = true,
                                                     .kind = kind,
                                                     .rows = experts > 0 ? 98304 : 16384,
                                                     .n = n,
                                                     .k = k,
                                                     .rank = 32,
                                                     .experts = experts,
                                                     .load = LOAD_NEARLY_EVEN,
                                                     .beta = beta,
                                                     .row_type = MT_BF16});
    case_only_timed(c, true);
    c->flops = 2.0 * (double)c->slot[Y].dim[0] * (double)n * (double)(k + 32) * (double)linears_of(kind);
}

static void add_all_speed(struct case_list *list)
{
    static const int64_t dense[][2] = {{3072, 2048}, {576, 2048},  {4096, 512},  {2048, 2048},
                                       {2816, 2048}, {2048, 2816}, {10944, 2048}};
    add_speed(list, FORWARD, 1408, 2048, 64, 0.0f);
    add_speed(list, FORWARD, 2048, 1408, 64, 0.0f);
    add_speed(list, BACKWARD, 1408, 2048, 64, 0.0f);
    add_speed(list, SHARED, 2048, 1408, 64, 0.0f);
    add_speed(list, ONE_MASK, 2048, 1408, 64, 0.0f);
    for (size_t i = 0; i < sizeof dense / sizeof dense[0]; i++) {
        add_speed(list, FORWARD, dense[i][0], dense[i][1], 0, 0.0f);
        add_speed(list, BACKWARD, dense[i][1], dense[i][0], 0, 0.0f);
    }
    add_speed(list, FORWARD, 2048, 2816, 0, 1.0f);
    add_speed(list, BACKWARD, 2048, 2816, 0, 1.0f);
}

static void add_small(struct case_list *list, enum kind kind)
{
    struct lora_case s = {.kind = kind,
                          .rows = 50,
                          .n = 264, // two tiles, one of three blocks of 64, hanging over
                          .k = 520, // more stages than a tile is stored beside, the last one not full
                          .rank = 32,
                          .experts = 5,
                          .load = LOAD_UNEVEN,
                          .row_type = MT_BF16};
    add(list, s);
    s.beta = 1.0f;
    add(list, s)->only_device = true; // hosts add to y in the next case
    s.rows = 20;
    s.n = 256; // one tile of four blocks
    s.k = 264; // fewer stages
    s.rank = 40;
    s.absent = ABSENT_SOME;
    s.load = LOAD_EVEN;
    s.beta = 0.5f;
    add(list, s);
    s.row_type = MT_F32;
    s.beta = 0.0f;
    add(list, s);
    s.rounded = true;
    add(list, s); // some absent: not read as they lie
    s.absent = ABSENT_NONE;
    s.row_type = MT_BF16;
    add(list, s)->only_device = true;
    s.rank = 32;
    add(list, s)->only_device = true;
    s.rank = 20; // lines that are not aligned, one way round
    add(list, s)->only_device = true;
    s.experts = 0;
    s.rows = 1030;
    s.rank = 32;
    add(list, s)->only_device = true;
}

/* More tiles than a device has multiprocessors: some make two, and store the first beside the second. */
static void add_many(struct case_list *list, enum kind kind, float beta)
{
    struct op_case *c = add(list, (struct lora_case){.kind = kind,
                                                     .rows = 80,
                                                     .n = 264,
                                                     .k = 456,
                                                     .rank = 24,
                                                     .experts = 70,
                                                     .load = LOAD_NEARLY_EVEN,
                                                     .beta = beta,
                                                     .row_type = MT_BF16});
    c->only_device = true;
}

void cases_lora_sums(struct case_list *list)
{
    for (int kind = FORWARD; kind <= ONE_MASK; kind++) add_small(list, (enum kind)kind);
    add(list, (struct lora_case){.kind = SHARED,
                                 .rows = 140, // two tiles, one above the other
                                 .n = 256,
                                 .k = 264,
                                 .rank = 40,
                                 .experts = 3,
                                 .load = LOAD_ONE,
                                 .absent = ABSENT_SOME,
                                 .row_type = MT_BF16});
    for (int beta = 0; beta < 2; beta++) {
        add_many(list, FORWARD, (float)beta);
        add_many(list, ONE_MASK, (float)beta);
    }
    add_all_accurate(list);
    add_all_speed(list);
}
