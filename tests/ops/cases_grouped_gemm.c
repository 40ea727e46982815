/*
 * Cases of grouped_gemm: forward with both orientations of the weights, backward as the input gradient
 * (the other orientation) and grouped_gemm_dw. Loads even, uneven, empty, all on one expert, rows left over
 * after the last expert; some or all experts without a matrix.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"
#include "ops/expert_loads.h"

enum { X, WEIGHT, OFFSETS, Y, DY, DX, DWEIGHT };
enum { TRANSPOSE_WEIGHT = EXPERT_PARAMS, DENSE };
enum { ALPHA, BETA };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[X].dim[0], &t[OFFSETS]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[MOST_EXPERTS];
    views_of(c, &t[WEIGHT], weight);
    return mt_grouped_gemm(device,
                           &(struct mt_grouped_gemm_args){.x = t[X],
                                                          .weight = weight,
                                                          .experts = experts_of(c),
                                                          .offsets = t[OFFSETS],
                                                          .y = t[Y],
                                                          .transpose_weight = c->param[TRANSPOSE_WEIGHT] != 0,
                                                          .alpha = c->real[ALPHA],
                                                          .beta = c->real[BETA]});
}

static enum mt_status weight_gradient(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor dweight[MOST_EXPERTS];
    views_of(c, &t[DWEIGHT], dweight);
    bool transpose = c->param[TRANSPOSE_WEIGHT] != 0;
    // A weight used as [K,N] has the gradient xᵀ·dy: the two change places.
    struct mt_grouped_gemm_dw_args args = {.dy = transpose ? t[DY] : t[X],
                                           .x = transpose ? t[X] : t[DY],
                                           .dweight = dweight,
                                           .experts = experts_of(c),
                                           .offsets = t[OFFSETS],
                                           .alpha = c->real[ALPHA],
                                           .beta = c->slot[DWEIGHT].role == SLOT_GRAD_SUM};
    if (c->param[DENSE]) args.offsets.rank = 0;
    return mt_grouped_gemm_dw(device, &args);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[MOST_EXPERTS];
    views_of(c, &t[WEIGHT], weight);
    // Rows of no expert keep dx: it is accumulated, so that they hold what the check expects.
    enum mt_status status = mt_grouped_gemm(
        device, &(struct mt_grouped_gemm_args){.x = t[DY],
                                               .weight = weight,
                                               .experts = experts_of(c),
                                               .offsets = t[OFFSETS],
                                               .y = t[DX],
                                               .transpose_weight = c->param[TRANSPOSE_WEIGHT] == 0,
                                               .alpha = c->real[ALPHA],
                                               .beta = 1.0f});
    return status == MT_OK ? weight_gradient(device, c, t) : status;
}

struct grouped_case {
    int64_t rows, n, k;
    int experts;
    enum load load;
    bool transpose;
    enum mt_dtype weight_type;
    float alpha, beta;
    int64_t padding;
    bool overwrite_dweight;
    enum absent absent;
    enum mt_dtype row_type; // of x, y and their gradients
};

static struct op_case *add(struct case_list *list, struct grouped_case g)
{
    if (g.alpha == 0.0f) g.alpha = 1.0f;
    struct op_case *c =
        case_new(list, MT_OP_grouped_gemm, "%s R=%d N=%d K=%d n=%d load %s%s weight %s beta %g%s%s",
                 g.transpose ? "NT" : "NN", (int)g.rows, (int)g.n, (int)g.k, g.experts, load_names[g.load],
                 g.row_type == MT_BF16 ? " bf16 rows" : "", mt_dtype_name(g.weight_type), (double)g.beta,
                 g.padding != 0 ? " padded" : "", absent_names[g.absent]);
    int64_t x_dims[] = {g.rows, g.k};
    int64_t y_dims[] = {g.rows, g.n};
    int64_t weight_dims[] = {g.experts, g.transpose ? g.n : g.k, g.transpose ? g.k : g.n};
    c->backward_op = MT_OP_grouped_gemm_dw;
    case_experts(c, g.experts, g.load, g.absent);
    c->param[TRANSPOSE_WEIGHT] = g.transpose;
    c->real[ALPHA] = g.alpha;
    c->real[BETA] = g.beta;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "x", SLOT_INPUT, g.row_type, 2, x_dims);
    case_slot(c, "weight", SLOT_INPUT, g.weight_type, 3, weight_dims);
    case_offsets(c);
    // Rows of no expert are left alone: y is filled beforehand wherever that shows.
    case_slot(c, "y", SLOT_UPDATED, g.row_type, 2, y_dims);
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    c->slot[DX].role = SLOT_GRAD_SUM;
    c->slot[DY].dtype = g.row_type;
    c->slot[DX].dtype = g.row_type;
    case_grad_out(c, "dweight", WEIGHT);
    if (!g.overwrite_dweight) c->slot[DWEIGHT].role = SLOT_GRAD_SUM;
    case_pad(c, g.padding);
    // Nothing, too slow, or with rows too coarse for finite differences.
    c->no_gradient = g.rows * g.n * g.k == 0 || g.rows * g.n * g.k > 200000 || g.row_type != MT_F32;
    return c;
}

/* The gradient alone, without offsets. */
static struct op_case *add_dense(struct case_list *list, struct grouped_case g)
{
    g.transpose = true;
    struct op_case *c = add(list, g);
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " dense");
    c->param[DENSE] = 1;
    c->backward = weight_gradient;
    c->slot[DX].role = SLOT_GRAD_IN; // not written
    c->no_gradient = true;           // dx is not made
    return c;
}

static void add_all_dense(struct case_list *list)
{
    struct grouped_case g = {
        .rows = 300, .n = 32, .k = 264, .experts = 1, .row_type = MT_BF16, .alpha = 0.5f};
    add_dense(list, g);
    g.row_type = MT_F32;
    g.rows = 1;
    add_dense(list, g);
    g.rows = 0;
    add_dense(list, g);
}

/* 64 experts of a small MoE model, uneven: the measure. */
static void add_speed(struct case_list *list, struct grouped_case g)
{
    g.experts = 64;
    struct op_case *c = add(list, g);
    c->only_speed = true;
    c->slot[WEIGHT].fill = FILL_UNIFORM;
    c->slots = Y + 1;
    c->flops = 2.0 * (double)g.rows * (double)g.n * (double)g.k;
    c->sgemm[0] = g.rows;
    c->sgemm[1] = g.n;
    c->sgemm[2] = g.k;
}

static void add_speed_dw(struct case_list *list, struct grouped_case g)
{
    g.experts = 64;
    struct op_case *c = add(list, g);
    c->only_speed = true;
    c->slot[WEIGHT].dim[0] = 1; // not read
    c->backward = weight_gradient;
    c->backward_flops = 2.0 * (double)g.rows * (double)g.n * (double)g.k;
    c->sgemm[0] = g.rows;
    c->sgemm[1] = g.n;
    c->sgemm[2] = g.k;
}

/* A layer of DeepSeek-V2-Lite's routed experts, 16,384 tokens, all in bf16: for devices. */
static struct op_case *add_device(struct case_list *list, int64_t n, int64_t k, bool transpose, float beta,
                                  enum mt_dtype weight_type)
{
    struct op_case *c = add(list, (struct grouped_case){.rows = 98304,
                                                        .n = n,
                                                        .k = k,
                                                        .experts = 64,
                                                        .load = LOAD_NEARLY_EVEN,
                                                        .transpose = transpose,
                                                        .beta = beta,
                                                        .weight_type = weight_type,
                                                        .row_type = MT_BF16});
    case_only_timed(c, true);
    c->slot[WEIGHT].scale = 0.02;
    return c;
}

static void add_device_speed(struct case_list *list)
{
    static const int64_t shapes[][2] = {{1408, 2048}, {2048, 1408}};
    for (int i = 0; i < 2; i++) {
        int64_t n = shapes[i][0];
        int64_t k = shapes[i][1];
        for (int transpose = 1; transpose >= 0; transpose--) {
            struct op_case *c = add_device(list, n, k, transpose != 0, transpose ? 0.0f : 1.0f, MT_BF16);
            c->slots = Y + 1;
            c->flops = 2.0 * 98304.0 * (double)n * (double)k;
        }
        // LoRA of rank 32, f32 masters: what is read and written of the rows.
        struct op_case *down = add_device(list, 32, k, true, 0.0f, MT_F32);
        down->backward = weight_gradient;
        down->bytes = 98304.0 * 2.0 * (double)(k + 32);
        down->backward_bytes = down->bytes;
        struct op_case *up = add_device(list, n, 32, true, 1.0f, MT_F32);
        up->backward = weight_gradient;
        up->bytes = 98304.0 * 2.0 * (double)(2 * n + 32);
        up->backward_bytes = 98304.0 * 2.0 * (double)(n + 32);
    }
    // Gradients of a dense map's pair.
    static const int64_t pairs[][2] = {{32, 2048}, {2048, 32}};
    for (int i = 0; i < 2; i++) {
        struct grouped_case g = {
            .rows = 16384, .n = pairs[i][0], .k = pairs[i][1], .experts = 1, .row_type = MT_BF16};
        struct op_case *c = add_dense(list, g);
        case_only_timed(c, true);
        c->backward_bytes = 16384.0 * 2.0 * (double)(g.n + g.k);
    }
}

static void add_small(struct case_list *list, bool transpose)
{
    struct grouped_case small[] = {
        {.rows = 1, .n = 3, .k = 5, .experts = 1},
        {.rows = 0, .n = 3, .k = 5, .experts = 2, .beta = 1.0f},
        {.rows = 40,
         .n = 33,
         .k = 35,
         .experts = 8,
         .load = LOAD_UNEVEN,
         .weight_type = MT_BF16,
         .overwrite_dweight = true},
        {.rows = 29,
         .n = 40,
         .k = 65,
         .experts = 5,
         .load = LOAD_ONE,
         .weight_type = MT_F16,
         .alpha = 0.5f,
         .beta = 2.0f,
         .padding = 3},
        {.rows = 9, .n = 17, .k = 8, .experts = 3, .load = LOAD_NONE, .overwrite_dweight = true},
        {.rows = 700,
         .n = 70,
         .k = 48,
         .experts = 64,
         .load = LOAD_UNEVEN,
         .weight_type = MT_BF16,
         .beta = 1.0f},
        {.rows = 500, .n = 40, .k = 400, .experts = 2, .load = LOAD_EVEN},
        // Large enough for what a device keeps for large experts; and the middle of a LoRA pair.
        {.rows = 600,
         .n = 264,
         .k = 320,
         .experts = 5,
         .load = LOAD_UNEVEN,
         .weight_type = MT_BF16,
         .beta = 0.5f,
         .absent = ABSENT_SOME},
        {.rows = 300, .n = 32, .k = 264, .experts = 3, .load = LOAD_UNEVEN},
    };
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        small[i].transpose = transpose;
        add(list, small[i]);
    }
}

/* Rows in bf16: a frozen product, and the two of a LoRA pair. */
static void add_bf16_rows(struct case_list *list, bool transpose)
{
    struct grouped_case g = {.rows = 24,
                             .n = 264,
                             .k = 320,
                             .experts = 5,
                             .load = LOAD_UNEVEN,
                             .transpose = transpose,
                             .weight_type = MT_BF16,
                             .row_type = MT_BF16};
    add(list, g);
    g.beta = 1.0f;
    g.n = 392; // past a half of a device's tile of columns
    g.k = 264; // and not a multiple of its steps
    g.experts = 66;
    g.absent = ABSENT_SOME;
    struct op_case *many = add(list, g);
    many->slots = Y + 1; // forward alone: so many gradients would take ref too long
    many->backward = NULL;
    many->no_gradient = true;
    many->slot[WEIGHT].fill = FILL_REPEATED;
    g.padding = 3; // nothing aligned
    g.experts = 2;
    g.rows = 12;
    add(list, g);
    struct grouped_case low = {.rows = 70,
                               .n = 32,
                               .k = 264,
                               .experts = 3,
                               .load = LOAD_UNEVEN,
                               .transpose = transpose,
                               .row_type = MT_BF16};
    add(list, low);
    low.n = 264;
    low.k = 32;
    low.beta = 1.0f;
    add(list, low);
    low.n = 70;
    low.k = 17;
    add(list, low);
}

/* Gradients are accumulated throughout: what is not wanted must stay as it was. */
static void add_absent(struct case_list *list, bool transpose)
{
    struct grouped_case g = {.rows = 41,
                             .n = 33,
                             .k = 35,
                             .experts = 8,
                             .load = LOAD_UNEVEN,
                             .transpose = transpose,
                             .weight_type = MT_BF16,
                             .beta = 0.5f,
                             .absent = ABSENT_SOME};
    add(list, g);
    g.beta = 0.0f;
    g.padding = 3;
    g.weight_type = MT_F32;
    add(list, g);
    g.absent = ABSENT_ALL;
    add(list, g);
    g.rows = 700;
    g.experts = 64;
    g.absent = ABSENT_SOME;
    add(list, g);
}

/* About a row of each expert, or less. */
static void add_decoding(struct case_list *list)
{
    struct grouped_case g = {
        .n = 70, .k = 264, .experts = 16, .load = LOAD_UNEVEN, .weight_type = MT_BF16, .transpose = true};
    static const int64_t rows[] = {1, 3, 6, 20, 31};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        g.rows = rows[i];
        g.row_type = i % 2 == 0 ? MT_BF16 : MT_F32;
        g.beta = i == 3 ? 0.5f : 0.0f;
        g.absent = i == 4 ? ABSENT_SOME : ABSENT_NONE;
        add(list, g);
    }
}

void cases_grouped_gemm(struct case_list *list)
{
    add_small(list, true);
    add_small(list, false);
    add_absent(list, true);
    add_absent(list, false);
    add_decoding(list);
    add_bf16_rows(list, true);
    add_bf16_rows(list, false);
    add_all_dense(list);
    for (int transpose = 1; transpose >= 0; transpose--) {
        for (int type = 0; type < 2; type++) {
            struct grouped_case g = {.rows = 12288, .n = 1408, .k = 2048, .load = LOAD_UNEVEN};
            g.transpose = transpose != 0;
            g.weight_type = type == 0 ? MT_BF16 : MT_F32;
            add_speed(list, g);
            g.n = 2048;
            g.k = 1408;
            add_speed(list, g);
        }
    }
    add_speed_dw(list, (struct grouped_case){
                           .rows = 12288, .n = 1408, .k = 2048, .load = LOAD_UNEVEN, .transpose = true});
    add_speed_dw(list, (struct grouped_case){
                           .rows = 12288, .n = 2048, .k = 1408, .load = LOAD_UNEVEN, .transpose = true});
    add_device_speed(list);
}
