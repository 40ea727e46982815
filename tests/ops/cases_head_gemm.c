/*
 * Cases of head_gemm: both orientations of the weights, which lie one after the other in a larger matrix as
 * those of latent attention do; one row, few, many, none; odd sizes, and the sizes of DeepSeek-V2-Lite.
 */
#include "ops/case_files.h"

#define MOST_HEADS 16

enum { X, WEIGHT, Y };
enum { TRANSPOSE_WEIGHT };
enum { ALPHA, BETA };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor weight[MOST_HEADS];
    for (int64_t h = 0; h < t[WEIGHT].dim[0]; h++) weight[h] = mt_tensor_at(&t[WEIGHT], h);
    return mt_head_gemm(device,
                        &(struct mt_head_gemm_args){.x = t[X],
                                                    .weight = weight,
                                                    .y = t[Y],
                                                    .transpose_weight = c->param[TRANSPOSE_WEIGHT] != 0,
                                                    .alpha = c->real[ALPHA],
                                                    .beta = c->real[BETA]});
}

struct head_case {
    int64_t rows, heads, n, k;
    bool transpose;
    enum mt_dtype type, weight_type;
    float beta;
    int64_t padding;
};

static void add(struct case_list *list, struct head_case g)
{
    int64_t x_dims[] = {g.rows, g.heads, g.k};
    int64_t y_dims[] = {g.rows, g.heads, g.n};
    int64_t weight_dims[] = {g.heads, g.transpose ? g.n : g.k, g.transpose ? g.k : g.n};
    struct op_case *c = case_new(list, MT_OP_head_gemm, "%s T=%d H=%d N=%d K=%d %s weight %s beta %g%s",
                                 g.transpose ? "NT" : "NN", (int)g.rows, (int)g.heads, (int)g.n, (int)g.k,
                                 mt_dtype_name(g.type), mt_dtype_name(g.weight_type), (double)g.beta,
                                 g.padding != 0 ? " padded" : "");
    c->param[TRANSPOSE_WEIGHT] = g.transpose;
    c->real[ALPHA] = 0.5f;
    c->real[BETA] = g.beta;
    c->forward = forward;
    case_slot(c, "x", SLOT_INPUT, g.type, 3, x_dims);
    case_slot(c, "weight", SLOT_INPUT, g.weight_type, 3, weight_dims);
    case_slot(c, "y", SLOT_UPDATED, g.type, 3, y_dims);
    case_pad(c, g.padding);
    c->no_gradient = true; // decoding alone uses it
}

static void add_both_ways(struct case_list *list, struct head_case g)
{
    add(list, g);
    g.transpose = true;
    add(list, g);
}

void cases_head_gemm(struct case_list *list)
{
    static const int64_t rows[] = {1, 3, 16, 17, 64, 70};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add_both_ways(
            list,
            (struct head_case){
                .rows = rows[i], .heads = 3, .n = 72, .k = 40, .type = MT_BF16, .weight_type = MT_BF16});
    }
    add_both_ways(list, (struct head_case){.rows = 5, .heads = 4, .n = 7, .k = 5});
    add_both_ways(list,
                  (struct head_case){.rows = 5, .heads = 4, .n = 24, .k = 16, .beta = 1.0f, .padding = 8});
    add_both_ways(list, (struct head_case){.rows = 0, .heads = 4, .n = 24, .k = 16});
    struct head_case wide = {.rows = 2,
                             .heads = 2,
                             .n = 136,
                             .k = 264,
                             .type = MT_BF16,
                             .weight_type = MT_BF16,
                             .beta = 1.0f,
                             .padding = 8};
    add_both_ways(list, wide);
    wide.type = MT_F32;
    add_both_ways(list, wide);
    add(list, (struct head_case){
                  .rows = 2, .heads = 16, .n = 512, .k = 128, .type = MT_BF16, .weight_type = MT_BF16});
}
