/*
 * Cases of gemm: all transpositions with their gradients (a linear layer and its dx and dW), sizes around
 * every tile edge, decode and LoRA shapes, alpha and beta, padded rows, 16-bit operands, exact
 * products.
 */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"

enum { A, B, C, DC, DA, DB };
enum { TRANSPOSE_A, TRANSPOSE_B, EXACT };
enum { ALPHA, BETA };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_gemm(device, &(struct mt_gemm_args){.a = t[A],
                                                  .b = t[B],
                                                  .c = t[C],
                                                  .transpose_a = c->param[TRANSPOSE_A] != 0,
                                                  .transpose_b = c->param[TRANSPOSE_B] != 0,
                                                  .exact = c->param[EXACT] != 0,
                                                  .alpha = c->real[ALPHA],
                                                  .beta = c->real[BETA]});
}

/* d op(A) = alpha · dC · op(B)ᵀ and d op(B) = alpha · op(A)ᵀ · dC, each transposed back where needed. */
static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    bool transpose_a = c->param[TRANSPOSE_A] != 0;
    bool transpose_b = c->param[TRANSPOSE_B] != 0;
    struct mt_gemm_args da = {
        .a = t[DC], .b = t[B], .c = t[DA], .transpose_b = !transpose_b, .alpha = c->real[ALPHA]};
    struct mt_gemm_args db = {
        .a = t[A], .b = t[DC], .c = t[DB], .transpose_a = !transpose_a, .alpha = c->real[ALPHA]};
    if (transpose_a) {
        da.a = t[B];
        da.b = t[DC];
        da.transpose_a = transpose_b;
        da.transpose_b = true;
    }
    if (transpose_b) {
        db.a = t[DC];
        db.b = t[A];
        db.transpose_a = true;
        db.transpose_b = transpose_a;
    }
    da.exact = db.exact = c->param[EXACT] != 0;
    enum mt_status status = mt_gemm(device, &da);
    return status == MT_OK ? mt_gemm(device, &db) : status;
}

struct gemm_case {
    int64_t m, n, k;
    const char *form; // "NT": A as it is, B transposed
    enum mt_dtype b_type;
    float alpha, beta;
    int64_t padding;
    enum mt_dtype a_type;
    enum mt_dtype c_type;
    bool exact;
};

static struct op_case *add(struct case_list *list, struct gemm_case g)
{
    if (g.alpha == 0.0f) g.alpha = 1.0f;
    struct op_case *c = case_new(
        list, MT_OP_gemm, "%s M=%d N=%d K=%d a %s b %s alpha %g beta %g%s%s%s", g.form, (int)g.m, (int)g.n,
        (int)g.k, mt_dtype_name(g.a_type), mt_dtype_name(g.b_type), (double)g.alpha, (double)g.beta,
        g.padding != 0 ? " padded" : "", g.c_type == MT_BF16 ? " c bf16" : "", g.exact ? " exact" : "");
    bool transpose_a = g.form[0] == 'T';
    bool transpose_b = g.form[1] == 'T';
    int64_t a_dims[] = {transpose_a ? g.k : g.m, transpose_a ? g.m : g.k};
    int64_t b_dims[] = {transpose_b ? g.n : g.k, transpose_b ? g.k : g.n};
    int64_t c_dims[] = {g.m, g.n};
    c->param[TRANSPOSE_A] = transpose_a;
    c->param[TRANSPOSE_B] = transpose_b;
    c->param[EXACT] = g.exact;
    c->real[ALPHA] = g.alpha;
    c->real[BETA] = g.beta;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "a", SLOT_INPUT, g.a_type, 2, a_dims);
    case_slot(c, "b", SLOT_INPUT, g.b_type, 2, b_dims);
    case_slot(c, "c", g.beta != 0.0f ? SLOT_UPDATED : SLOT_OUTPUT, g.c_type, 2, c_dims);
    case_grad_in(c, "dc", C);
    c->slot[DC].dtype = g.c_type;
    case_grad_out(c, "da", A);
    case_grad_out(c, "db", B);
    case_pad(c, g.padding);
    // Nothing, too slow in double, or too coarse for finite differences.
    c->no_gradient = g.m * g.n * g.k == 0 || g.m * g.n * g.k > 200000 || g.c_type != MT_F32;
    return c;
}

static void add_forms(struct case_list *list, struct gemm_case g)
{
    static const char *const forms[] = {"NN", "NT", "TN", "TT"};
    for (int i = 0; i < 4; i++) {
        g.form = forms[i];
        add(list, g);
    }
}

/* f32 rows, of which a device that multiplies in bf16 has to see 11: 2^-12 is what rounding leaves. */
static void add_accurate(struct case_list *list, struct gemm_case g)
{
    struct op_case *c = add(list, g);
    size_t length = strlen(c->label);
    (void)snprintf(c->label + length, sizeof c->label - length, " accurate");
    c->backward = NULL;
    c->slots = C + 1;
    c->no_gradient = true;
    c->tolerance = 2e-3;
    c->only_device = true;
}

static void add_speed(struct case_list *list, struct gemm_case g)
{
    struct op_case *c = add(list, g);
    c->only_speed = true;
    c->backward = NULL;
    c->slots = C + 1;
    c->flops = 2.0 * (double)g.m * (double)g.n * (double)g.k;
    c->sgemm[0] = g.m;
    c->sgemm[1] = g.n;
    c->sgemm[2] = g.k;
}

/* Thin products move more than they multiply: held against memcpy. */
static void add_speed_bytes(struct case_list *list, struct gemm_case g)
{
    struct op_case *c = add(list, g);
    c->only_speed = true;
    c->backward = NULL;
    c->slots = C + 1;
    double a_bytes = (double)(g.m * g.k) * (double)mt_dtype_bytes(g.a_type);
    double b_bytes = (double)(g.k * g.n) * (double)mt_dtype_bytes(g.b_type);
    double c_bytes = (double)(g.m * g.n) * 4.0 * (g.beta != 0.0f ? 2.0 : 1.0);
    c->bytes = a_bytes + b_bytes + c_bytes;
}

/* Of real size. */
static void add_real(struct case_list *list)
{
    static const char *const forms[] = {"NT", "NN", "TN"};
    for (int i = 0; i < 3; i++) {
        struct gemm_case g = {.m = 4096, .n = 2048, .k = 2048, .form = forms[i]};
        add_speed(list, g);
        g.b_type = MT_BF16;
        if (i < 2) add_speed(list, g);
    }
    // LoRA of rank 32: down, the two gradients, and up (added to the layer's output: as much moved as
    // multiplied).
    add_speed(list, (struct gemm_case){.m = 4096, .n = 32, .k = 2048, .form = "NT"});
    add_speed(list, (struct gemm_case){.m = 2048, .n = 32, .k = 4096, .form = "TN"});
    add_speed(list, (struct gemm_case){.m = 32, .n = 2048, .k = 4096, .form = "TN"});
    add_speed(list, (struct gemm_case){.m = 4096, .n = 2048, .k = 32, .form = "NT", .beta = 1.0f});
    add_speed_bytes(list, (struct gemm_case){.m = 4096, .n = 2048, .k = 32, .form = "NT", .beta = 1.0f});
    // Shared experts and attention of DeepSeek-V2-Lite, 16,384 tokens, all in bf16: for devices.
    static const int64_t dense[][2] = {{2816, 2048}, {2048, 2816}, {3072, 2048}, {576, 2048}, {4096, 512}};
    for (size_t i = 0; i < sizeof dense / sizeof dense[0]; i++) {
        struct gemm_case g = {.m = 16384, .n = dense[i][0], .k = dense[i][1], .form = "NT"};
        g.a_type = g.b_type = g.c_type = MT_BF16;
        add_speed(list, g);
        case_only_timed(&list->items[list->count - 1], true);
    }
    struct gemm_case router = {
        .m = 16384, .n = 32, .k = 2048, .form = "NT", .a_type = MT_BF16, .exact = true};
    add_speed_bytes(list, router);
    list->items[list->count - 1].only_device = true;
    // Decode: every weight is read once for a few rows.
    static const int64_t rows[] = {1, 4, 8, 16};
    for (int i = 0; i < 4; i++) {
        struct gemm_case g = {.m = rows[i], .n = 8192, .k = 4096, .form = "NT"};
        add_speed_bytes(list, g);
        g.b_type = MT_BF16;
        add_speed_bytes(list, g);
        if (rows[i] == 16) add_speed(list, g);
    }
}

void cases_gemm(struct case_list *list)
{
    add_forms(list, (struct gemm_case){.m = 1, .n = 1, .k = 1});
    add_forms(list, (struct gemm_case){.m = 5, .n = 7, .k = 11, .alpha = 0.5f, .beta = 2.0f, .padding = 3});
    add_forms(list, (struct gemm_case){.m = 31, .n = 33, .k = 40, .b_type = MT_BF16});
    add_forms(list, (struct gemm_case){.m = 17, .n = 70, .k = 66, .b_type = MT_F16, .alpha = -1.5f});
    add_forms(list, (struct gemm_case){.m = 15, .n = 47, .k = 35, .a_type = MT_BF16, .b_type = MT_BF16});
    add_forms(list, (struct gemm_case){.m = 1, .n = 200, .k = 130, .b_type = MT_BF16, .padding = 5});
    // 16-bit activations, with a frozen weight and with an f32 one.
    add_forms(list, (struct gemm_case){
                        .m = 40, .n = 72, .k = 136, .a_type = MT_BF16, .b_type = MT_BF16, .c_type = MT_BF16});
    add_forms(list, (struct gemm_case){
                        .m = 40, .n = 24, .k = 72, .a_type = MT_BF16, .beta = 1.0f, .c_type = MT_BF16});
    // As a router's, with a weight that learns.
    add_forms(list, (struct gemm_case){.m = 70, .n = 24, .k = 136, .a_type = MT_BF16, .exact = true});
    add(list, (struct gemm_case){.form = "NT",
                                 .m = 133,
                                 .n = 6,
                                 .k = 72,
                                 .a_type = MT_BF16,
                                 .alpha = -1.5f,
                                 .beta = 2.0f,
                                 .padding = 8,
                                 .exact = true});
    for (int beta = 0; beta <= 1; beta++) {
        struct gemm_case g = {.form = "NT", .m = 1100, .n = 520, .k = 328, .b_type = MT_BF16, .alpha = 0.5f};
        g.beta = (float)beta;
        g.padding = beta * 8;
        add_accurate(list, g);
    }
    // A token or a few, as in decoding.
    add(list, (struct gemm_case){.form = "NT", .m = 1, .n = 37, .k = 264, .b_type = MT_BF16});
    add(list,
        (struct gemm_case){
            .form = "NT", .m = 2, .n = 70, .k = 520, .a_type = MT_BF16, .b_type = MT_BF16, .beta = 1.0f});
    add(list, (struct gemm_case){.form = "NT",
                                 .m = 3,
                                 .n = 33,
                                 .k = 72,
                                 .a_type = MT_BF16,
                                 .b_type = MT_BF16,
                                 .c_type = MT_BF16,
                                 .alpha = -1.5f});
    add(list, (struct gemm_case){.form = "NT", .m = 4, .n = 5, .k = 2048, .b_type = MT_BF16, .padding = 8});
    static const int64_t some_rows[] = {12, 25, 64};
    for (int i = 0; i < 3; i++) {
        add(list, (struct gemm_case){.form = "NT",
                                     .m = some_rows[i],
                                     .n = 40,
                                     .k = 1000 + 32 * some_rows[i],
                                     .a_type = MT_BF16,
                                     .b_type = MT_BF16,
                                     .c_type = i == 1 ? MT_BF16 : MT_F32,
                                     .beta = (float)i});
    }
    add_forms(list, (struct gemm_case){.m = 150, .n = 1, .k = 100});
    // Past the blocks of rows, columns and steps, and into more than one tile.
    add_forms(list, (struct gemm_case){.m = 470, .n = 130, .k = 40, .beta = 1.0f});
    add_forms(list, (struct gemm_case){.m = 60, .n = 600, .k = 37, .b_type = MT_BF16});
    add_forms(list, (struct gemm_case){.m = 33, .n = 65, .k = 800, .beta = -0.5f, .padding = 1});
    // Nothing to sum, nothing to write.
    add_forms(list, (struct gemm_case){.m = 3, .n = 4, .k = 0, .beta = 2.0f});
    add_forms(list, (struct gemm_case){.m = 3, .n = 4, .k = 0});
    add_forms(list, (struct gemm_case){.m = 0, .n = 4, .k = 3});
    add_forms(list, (struct gemm_case){.m = 3, .n = 0, .k = 3});
    add_real(list);
}
