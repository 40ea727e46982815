/*
 * Cases of the ops of LoRA pairs: one to three linears of unequal ranks and widths, with a mask and without,
 * loads of all kinds, experts without a pair, one row, none, odd sizes, no offsets, rows in bf16. Two check
 * gradients: lora_da is that of A in lora_xa, lora_dxa that of both factors of the pair's second product.
 */
#include "ops/case_files.h"
#include "ops/expert_loads.h"

// lora_xa and lora_da: MIDDLE is xa or dxa, MATRIX is A or dA; lora_da is a backward where GRADIENT is set
enum { X, MASK, OFFSETS, MATRIX, MIDDLE = MATRIX + MT_LORA_LINEARS, D_MIDDLE = MIDDLE + MT_LORA_LINEARS };
enum { D_MATRIX = D_MIDDLE + MT_LORA_LINEARS };
// lora_dxa: its masks are never there
enum { DY = MATRIX, B = DY + MT_LORA_LINEARS, XA = B + MT_LORA_LINEARS, DXA = XA + MT_LORA_LINEARS };
enum { DB = DXA + MT_LORA_LINEARS };
enum { LINEARS = EXPERT_PARAMS, MASKED, UNLEARNED, EXACT };
enum { FACTOR };

static const float scales[MT_LORA_LINEARS] = {0.5f, 2.0f, -1.5f};

struct lora_case {
    int64_t rows, k;
    int linears;
    int64_t rank[MT_LORA_LINEARS];
    int64_t n[MT_LORA_LINEARS]; // widths of the linears, for lora_dxa
    int experts;                // 0: dense
    enum load load;
    enum absent absent;
    bool masked;
    float alpha;   // of lora_xa; 0: 1
    int unlearned; // of lora_dxa: linears from here on have no gradient of B; 0: all have
    bool exact;    // of lora_xa, whose middles are f32 then
    int64_t padding;
    enum mt_dtype row_type;
    enum mt_dtype a_type; // of lora_xa's weights
};

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_offsets_of(c, t[X].dim[0], &t[OFFSETS]);
    fill_mask(&t[MASK]);
}

static struct mt_tensor mask_of(const struct op_case *c, const struct mt_tensor *t)
{
    return c->param[MASKED] ? t[MASK] : (struct mt_tensor){0};
}

static enum mt_status xa(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor a[MT_LORA_LINEARS][MOST_EXPERTS];
    struct mt_lora_xa_args args = {.x = t[X],
                                   .mask = mask_of(c, t),
                                   .mask_scale = 1.25f,
                                   .linears = (int)c->param[LINEARS],
                                   .alpha = c->real[FACTOR],
                                   .experts = experts_of(c),
                                   .offsets = offsets_of(c, &t[OFFSETS]),
                                   .exact = c->param[EXACT] != 0};
    for (int i = 0; i < args.linears; i++) {
        views_of(c, &t[MATRIX + i], a[i]);
        args.a[i] = a[i];
        args.xa[i] = t[MIDDLE + i];
    }
    return mt_lora_xa(device, &args);
}

/* dA at `matrix`, from dxa at `middle`. */
static enum mt_status add_da(struct mt_device *device, const struct op_case *c, struct mt_tensor *t,
                             int middle, int matrix)
{
    struct mt_tensor da[MT_LORA_LINEARS][MOST_EXPERTS];
    struct mt_lora_da_args args = {.x = t[X],
                                   .mask = mask_of(c, t),
                                   .mask_scale = 1.25f,
                                   .linears = (int)c->param[LINEARS],
                                   .experts = experts_of(c),
                                   .offsets = offsets_of(c, &t[OFFSETS])};
    for (int i = 0; i < args.linears; i++) {
        views_of(c, &t[matrix + i], da[i]);
        args.da[i] = da[i];
        args.dxa[i] = t[middle + i];
    }
    return mt_lora_da(device, &args);
}

static enum mt_status da(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return add_da(device, c, t, MIDDLE, MATRIX);
}

static enum mt_status xa_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return add_da(device, c, t, D_MIDDLE, D_MATRIX);
}

static enum mt_status dxa(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor b[MT_LORA_LINEARS][MOST_EXPERTS];
    struct mt_tensor db[MT_LORA_LINEARS][MOST_EXPERTS];
    struct mt_lora_dxa_args args = {
        .linears = (int)c->param[LINEARS], .experts = experts_of(c), .offsets = offsets_of(c, &t[OFFSETS])};
    for (int i = 0; i < args.linears; i++) {
        views_of(c, &t[B + i], b[i]);
        views_of(c, &t[DB + i], db[i]);
        args.linear[i] =
            (struct mt_lora_pair_gradient){.dy = t[DY + i], .b = b[i], .scale = scales[i], .dxa = t[DXA + i]};
        if (c->param[UNLEARNED] > 0 && i >= (int)c->param[UNLEARNED]) continue;
        args.linear[i].xa = t[XA + i];
        args.linear[i].db = db[i];
        args.linear[i].db_scale =
            c->no_gradient ? 0.75f : scales[i]; // of their own, unless it is one product's
    }
    return mt_lora_dxa(device, &args);
}

/* What lora_dxa is the gradient of: y = s · xa · Bᵀ, y standing where dy does in the other cases. */
static enum mt_status second_products(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor b[MOST_EXPERTS];
    enum mt_status status = MT_OK;
    for (int i = 0; i < (int)c->param[LINEARS] && status == MT_OK; i++) {
        views_of(c, &t[B + i], b);
        struct mt_product_term term = {
            .x = t[XA + i], .weight = b, .transpose_weight = true, .alpha = scales[i]};
        status = mt_grouped_sum(device, &(struct mt_grouped_sum_args){.terms = &term,
                                                                      .count = 1,
                                                                      .experts = experts_of(c),
                                                                      .offsets = offsets_of(c, &t[OFFSETS]),
                                                                      .y = t[DB + MT_LORA_LINEARS + i]});
    }
    return status;
}

// ------------------------------------------------------------------ building

/* The case with its first slots. */
static struct op_case *begin(struct case_list *list, enum mt_op op, const struct lora_case *s)
{
    struct op_case *c =
        case_new(list, op, "LoRA R=%d K=%d N=%d,%d,%d r=%d,%d,%d n=%d load %s%s%s%s%s%s%s", (int)s->rows,
                 (int)s->k, (int)s->n[0], (int)s->n[1], (int)s->n[2], (int)s->rank[0], (int)s->rank[1],
                 (int)s->rank[2], s->experts, s->experts > 0 ? load_names[s->load] : "dense",
                 s->masked ? " masked" : "", s->row_type == MT_BF16 ? " bf16 rows" : "",
                 s->a_type == MT_BF16 && op == MT_OP_lora_xa ? " bf16 A" : "", absent_names[s->absent],
                 s->padding != 0 ? " padded" : "", s->exact ? " exact" : "");
    case_experts(c, s->experts, s->load, s->absent);
    c->param[LINEARS] = s->linears;
    c->param[MASKED] = s->masked;
    c->param[UNLEARNED] = s->unlearned;
    c->param[EXACT] = s->exact;
    c->real[FACTOR] = s->alpha != 0.0f ? s->alpha : 1.0f;
    c->fill = fill;
    c->no_gradient = true;
    case_slot(c, "x", SLOT_INPUT, s->row_type, 2, (int64_t[]){s->rows, s->k});
    case_index(c, "mask", 2, (int64_t[]){s->masked ? s->rows : 0, (s->k + 31) / 32});
    case_offsets(c);
    return c;
}

/* A tensor of each linear: rows [R,width], or matrices [n,rows,columns] of f32. */
static void add_rows(struct op_case *c, const struct lora_case *s, const char *name, enum slot_role role,
                     const int64_t width[MT_LORA_LINEARS])
{
    for (int i = 0; i < MT_LORA_LINEARS; i++)
        case_slot(c, name, role, s->row_type, 2, (int64_t[]){i < s->linears ? s->rows : 0, width[i]});
}

static void add_matrices(struct op_case *c, const struct lora_case *s, const char *name, enum slot_role role,
                         const int64_t rows[MT_LORA_LINEARS], const int64_t columns[MT_LORA_LINEARS])
{
    for (int i = 0; i < MT_LORA_LINEARS; i++)
        case_matrices(c, name, role, MT_F32,
                      (int64_t[]){i < s->linears ? experts_of(c) : 0, rows[i], columns[i]});
}

static struct op_case *add_xa(struct case_list *list, struct lora_case s)
{
    const int64_t k[MT_LORA_LINEARS] = {s.k, s.k, s.k};
    struct op_case *c = begin(list, MT_OP_lora_xa, &s);
    add_matrices(c, &s, "a", SLOT_INPUT, s.rank, k);
    for (int i = 0; i < MT_LORA_LINEARS; i++) c->slot[MATRIX + i].dtype = s.a_type;
    if (s.exact) s.row_type = MT_F32;
    add_rows(c, &s, "xa", SLOT_UPDATED, s.rank);
    c->forward = xa;
    case_pad(c, s.padding);
    return c;
}

static struct op_case *add_da_case(struct case_list *list, struct lora_case s)
{
    const int64_t k[MT_LORA_LINEARS] = {s.k, s.k, s.k};
    struct op_case *c = begin(list, MT_OP_lora_da, &s);
    add_matrices(c, &s, "da", SLOT_UPDATED, s.rank, k);
    add_rows(c, &s, "dxa", SLOT_INPUT, s.rank);
    c->forward = da;
    case_pad(c, s.padding);
    return c;
}

static struct op_case *add_dxa(struct case_list *list, struct lora_case s)
{
    s.k = 0;
    s.masked = false;
    struct op_case *c = begin(list, MT_OP_lora_dxa, &s);
    add_rows(c, &s, "dy", SLOT_INPUT, s.n);
    add_matrices(c, &s, "b", SLOT_INPUT, s.n, s.rank);
    add_rows(c, &s, "xa", SLOT_INPUT, s.rank);
    add_rows(c, &s, "dxa", SLOT_UPDATED, s.rank);
    add_matrices(c, &s, "db", SLOT_UPDATED, s.n, s.rank);
    c->forward = dxa;
    case_pad(c, s.padding);
    return c;
}

static void add_all(struct case_list *list, struct lora_case s)
{
    add_xa(list, s);
    add_dxa(list, s);
    add_da_case(list, s);
}

static void add_gradients(struct case_list *list)
{
    struct lora_case s = {.rows = 12,
                          .k = 37,
                          .linears = 2,
                          .rank = {4, 3},
                          .n = {5, 9},
                          .experts = 3,
                          .load = LOAD_UNEVEN,
                          .absent = ABSENT_SOME,
                          .masked = true};
    struct op_case *c = add_xa(list, s);
    c->backward = xa_backward;
    c->backward_op = MT_OP_lora_da;
    c->no_gradient = false;
    for (int i = 0; i < MT_LORA_LINEARS; i++) c->slot[MIDDLE + i].role = SLOT_OUTPUT;
    for (int i = 0; i < MT_LORA_LINEARS; i++) case_grad_in(c, "dxa", MIDDLE + i);
    for (int i = 0; i < MT_LORA_LINEARS; i++)
        c->slot[case_grad_out(c, "da", MATRIX + i)].role = SLOT_GRAD_SUM;
    c = add_dxa(list, s);
    c->op = MT_OP_grouped_sum;
    c->backward_op = MT_OP_lora_dxa;
    c->forward = second_products;
    c->backward = dxa;
    c->no_gradient = false;
    add_rows(c, &s, "y", SLOT_OUTPUT, s.n);
    for (int i = 0; i < MT_LORA_LINEARS; i++) {
        c->slot[DY + i].role = SLOT_GRAD_IN;
        c->slot[DY + i].of = DB + MT_LORA_LINEARS + i;
        c->slot[DXA + i].role = SLOT_GRAD_OUT;
        c->slot[DXA + i].of = XA + i;
        c->slot[DB + i].role = SLOT_GRAD_SUM;
        c->slot[DB + i].of = B + i;
    }
}

static void add_odd(struct case_list *list)
{
    struct lora_case s = {.rows = 1, .k = 5, .linears = 1, .rank = {4}, .n = {3}, .masked = true};
    add_all(list, s);
    s.rows = 0;
    add_all(list, s);
    s = (struct lora_case){.rows = 40,
                           .k = 35,
                           .linears = 3,
                           .rank = {4, 7, 1},
                           .n = {33, 6, 65},
                           .experts = 8,
                           .load = LOAD_UNEVEN,
                           .masked = true,
                           .alpha = -0.5f,
                           .padding = 3};
    add_all(list, s);
    s.unlearned = 1;
    s.absent = ABSENT_SOME;
    s.row_type = MT_BF16;
    add_all(list, s);
    s.absent = ABSENT_ALL;
    s.row_type = MT_F32;
    add_all(list, s);
    s.absent = ABSENT_NONE;
    s.load = LOAD_NONE;
    add_all(list, s);
    s.load = LOAD_ONE;
    s.masked = false;
    s.padding = 0;
    add_all(list, s);
    s.experts = 0;
    s.masked = true;
    add_all(list, s);
}

/* More rows, and more columns, than are masked at a time. */
static void add_parts(struct case_list *list)
{
    struct lora_case s = {.rows = 700,
                          .k = 1100,
                          .linears = 2,
                          .rank = {3, 2},
                          .n = {5, 3},
                          .experts = 3,
                          .load = LOAD_UNEVEN,
                          .masked = true};
    add_xa(list, s);
    s.rows = 4500;
    s.k = 580;
    s.rank[0] = 1;
    add_da_case(list, s);
    s.experts = 0;
    s.linears = 1;
    add_da_case(list, s);
}

/* As decoding has them: all in bf16, three linears of few rows, or of a few for each expert. */
static void add_few(struct case_list *list)
{
    struct lora_case s = {.rows = 3,
                          .k = 264,
                          .linears = 3,
                          .rank = {32, 16, 8},
                          .alpha = 0.5f,
                          .row_type = MT_BF16,
                          .a_type = MT_BF16};
    add_xa(list, s);
    s.rows = 30;
    add_xa(list, s);
    s.experts = 8;
    s.load = LOAD_UNEVEN;
    add_xa(list, s);
    s.rows = 7;
    add_xa(list, s);
}

/* As large models have them, smaller: ranks of a tile and a little more, tiles that hang over. */
static void add_usual(struct case_list *list, enum mt_dtype row_type)
{
    struct lora_case s = {.rows = 150,
                          .k = 264,
                          .linears = 2,
                          .rank = {32, 32},
                          .n = {200, 200},
                          .experts = 5,
                          .load = LOAD_UNEVEN,
                          .masked = true,
                          .row_type = row_type};
    add_all(list, s);
    s.absent = ABSENT_SOME;
    s.masked = false;
    add_all(list, s);
    s.rank[0] = 40;
    s.n[1] = 72;
    s.masked = true;
    add_all(list, s);
    s.absent = ABSENT_NONE;
    struct lora_case many = s; // narrow: filling so many matrices takes long
    many.rows = 300;
    many.experts = 128;
    many.linears = 1;
    many.k = 72;
    many.rank[0] = 12;
    many.n[0] = 40;
    add_all(list, many);
    s.rows = 210; // more than a tile of 128 and one of 64
    s.experts = 0;
    s.linears = 3;
    s.rank[2] = 16;
    s.n[2] = 264;
    add_all(list, s);
    s.rank[0] = 32;
    s.masked = false;
    add_all(list, s);
}

/* The same with weights that were rounded before. */
static void add_xa_rounded(struct case_list *list, struct lora_case s)
{
    s.a_type = MT_BF16;
    add_xa(list, s)->only_device = true;
}

/* What a GPU's tensor cores take without falling back: several tiles of rows and of columns, ends of each. */
static void add_tiles(struct case_list *list)
{
    struct lora_case s = {.rows = 200,
                          .k = 384,
                          .linears = 2,
                          .rank = {32, 24},
                          .n = {1480, 1104},
                          .experts = 4,
                          .load = LOAD_UNEVEN,
                          .absent = ABSENT_SOME,
                          .masked = true,
                          .row_type = MT_BF16};
    add_all(list, s);
    add_xa_rounded(list, s);
    s = (struct lora_case){.rows = 330,
                           .k = 264,
                           .linears = 3,
                           .rank = {32, 8, 16},
                           .n = {72, 200, 136},
                           .experts = 3,
                           .load = LOAD_UNEVEN,
                           .row_type = MT_BF16};
    add_all(list, s);
    add_xa_rounded(list, s);
    s = (struct lora_case){
        .rows = 1030, .k = 128, .linears = 1, .rank = {32}, .n = {136}, .masked = true, .row_type = MT_BF16};
    add_all(list, s);
    add_xa_rounded(list, s);
}

/* Gradients that several blocks of a GPU have parts of: linears of unequal widths, experts with many rows. */
static void add_shares(struct case_list *list)
{
    size_t first = list->count;
    struct lora_case s = {.rows = 1700,
                          .k = 520,
                          .linears = 3,
                          .rank = {32, 16, 32},
                          .n = {1480, 264, 136},
                          .masked = true,
                          .row_type = MT_BF16};
    add_all(list, s);
    s = (struct lora_case){.rows = 1900,
                           .k = 264,
                           .linears = 2,
                           .rank = {32, 24},
                           .n = {776, 200},
                           .experts = 5,
                           .load = LOAD_UNEVEN,
                           .absent = ABSENT_SOME,
                           .row_type = MT_BF16};
    add_all(list, s);
    s.absent = ABSENT_NONE;
    s.load = LOAD_ONE;
    add_all(list, s);
    for (size_t i = first; i < list->count; i++) list->items[i].only_device = true;
}

/* Middles in f32 of rows in bf16: one linear as the router has it, what no device makes in a single pass. */
static void add_exact(struct case_list *list)
{
    struct lora_case s = {.rows = 1030,
                          .k = 264,
                          .linears = 1,
                          .rank = {24},
                          .masked = true,
                          .alpha = 0.5f,
                          .row_type = MT_BF16,
                          .exact = true};
    add_xa(list, s);
    s.masked = false;
    add_xa(list, s);
    s.rows = 70;
    s.masked = true;
    add_xa(list, s);
    s.k = 35;
    s.linears = 2;
    s.rank[1] = 3;
    s.padding = 3;
    add_xa(list, s);
    s.absent = ABSENT_ALL;
    add_xa(list, s);
    s.rows = 3;
    s.row_type = MT_F32;
    add_xa(list, s);
}

// ------------------------------------------------------------------ speed

/* Bytes of rows that must be read and written once, whatever the linears: x or dy, bits, middles. */
static double bytes_of(const struct lora_case *s, int64_t wide, int middles)
{
    double element = s->row_type == MT_BF16 ? 2.0 : 4.0;
    int64_t thin = 0;
    for (int i = 0; i < s->linears; i++) thin += middles * s->rank[i];
    return (double)s->rows * (element * (double)(wide + thin) + (s->masked ? (double)s->k / 8.0 : 0.0));
}

static void timed(struct op_case *c, double bytes, bool device)
{
    case_only_timed(c, device);
    c->bytes = bytes;
}

static void add_speed(struct case_list *list, struct lora_case s, bool device)
{
    s.masked = true;
    timed(add_xa(list, s), bytes_of(&s, s.k, 1), device);
    timed(add_da_case(list, s), bytes_of(&s, s.k, 1), device);
    s.masked = false;
    timed(add_dxa(list, s), bytes_of(&s, s.n[0] + s.n[1] + s.n[2], 2), device);
}

/* The same, held against what a host multiplies: of its two limits the nearer one. */
static void add_flops_speed(struct case_list *list, struct lora_case s)
{
    double outer = 0.0; // of x and of dy, times the ranks
    double inner = 0.0;
    for (int i = 0; i < s.linears; i++) {
        outer += (double)(s.n[i] * s.rank[i]);
        inner += (double)(s.k * s.rank[i]);
    }
    size_t first = list->count;
    add_speed(list, s, false);
    list->items[first].flops = 2.0 * (double)s.rows * inner;
    list->items[first + 1].flops = 2.0 * (double)s.rows * inner;
    list->items[first + 2].flops = 4.0 * (double)s.rows * outer; // dxa, and dB
}

/* A layer of DeepSeek-V2-Lite, 16,384 tokens: routed experts, then dense linears. */
static void add_device_speed(struct case_list *list)
{
    static const struct lora_case linears[] = {
        {.k = 2048, .linears = 2, .rank = {32, 32}, .n = {1408, 1408}, .experts = 64}, // gate, up
        {.k = 1408, .linears = 1, .rank = {32}, .n = {2048}, .experts = 64},           // down
        {.k = 2048, .linears = 2, .rank = {32, 32}, .n = {3072, 576}},                 // q, kv_a
        {.k = 2048, .linears = 2, .rank = {32, 32}, .n = {2816, 2816}},                // shared gate, up
        {.k = 2816, .linears = 1, .rank = {32}, .n = {2048}},                          // shared down
        {.k = 2048, .linears = 1, .rank = {32}, .n = {2048}},                          // o
        {.k = 512, .linears = 1, .rank = {32}, .n = {4096}},                           // kv_b
        {.k = 2048, .linears = 3, .rank = {32, 32, 32}, .n = {2816, 2816, 64}},        // gate, up, router
    };
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        struct lora_case s = linears[i];
        s.rows = s.experts > 0 ? 98304 : 16384;
        s.load = LOAD_NEARLY_EVEN;
        s.row_type = MT_BF16;
        s.a_type = MT_BF16;
        add_speed(list, s, true);
    }
    struct lora_case router = {.rows = 16384,
                               .k = 2048,
                               .linears = 1,
                               .rank = {32},
                               .masked = true,
                               .row_type = MT_BF16,
                               .exact = true};
    timed(add_xa(list, router), bytes_of(&router, router.k, 2), true);
}

void cases_lora(struct case_list *list)
{
    add_odd(list);
    add_few(list);
    add_parts(list);
    add_usual(list, MT_F32);
    add_usual(list, MT_BF16);
    add_tiles(list);
    add_shares(list);
    add_exact(list);
    add_gradients(list);
    struct lora_case host = {.rows = 3072,
                             .k = 512,
                             .linears = 2,
                             .rank = {32, 32},
                             .n = {352, 352},
                             .experts = 16,
                             .load = LOAD_NEARLY_EVEN};
    add_speed(list, host, false);
    add_flops_speed(list, host);
    add_device_speed(list);
}
