/* Rows of sums over tokens, and of the terms of the objective. */
#include <math.h>

#include "ops/check/rows.h"

/* Without segments there is one: a row of sums. */
static void check_segments(struct mt_check *c, const char *name, const struct mt_tensor *sums,
                           const struct mt_tensor *segment)
{
    if (!mt_tensor_present(segment)) mt_check_2d(c, name, sums, MT_CHECK_F64, 1, MT_ANY);
}

static void column_stats_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_column_stats_forward_args *args = p;
    check_segments(c, "sum", &args->sum, &args->segment);
}

static void column_stats_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_column_stats_backward_args *args = p;
    check_segments(c, "dsum", &args->dsum, &args->segment);
}

static void slot_stats_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_slot_stats_forward_args *args = p;
    check_segments(c, "count", &args->count, &args->segment);
    if (mt_tensor_present(&args->sum) || mt_tensor_present(&args->squares) ||
        mt_tensor_present(&args->row_squares))
        mt_check_there(c, "weight", &args->weight);
}

static void slot_stats_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_slot_stats_backward_args *args = p;
    check_segments(c, "dsum", &args->dsum, &args->segment);
}

/* The logarithm of an empty sum is refused. */
static void router_zloss_more(struct mt_check *c, const void *p)
{
    (void)p;
    int64_t experts = mt_check_dim(c, 'n');
    mt_check_value(c, experts >= 1, "the number of logits' columns", (double)experts, "1 or more");
}

// ------------------------------------------------------------------ the router's rows

/* Rows, and runs of experts that divide them evenly. */
static void check_router(struct mt_check *c, enum mt_router_orth_kind kind, int groups)
{
    int64_t experts = mt_check_dim(c, 'n');
    mt_check_value(c, experts >= 1, "the number of weight's rows", (double)experts, "1 or more");
    bool known = (unsigned)kind <= MT_ROUTER_ORTH_L1;
    mt_check_value(c, known, "kind", (double)kind, "cosine or l1");
    bool fits = groups >= 0 && (groups <= 1 || kind == MT_ROUTER_ORTH_COSINE);
    mt_check_value(c, fits, "groups", (double)groups, "0 or 1, or more of them with the cosine kind");
    bool even = groups <= 1 || experts % groups == 0;
    mt_check_value(c, even, "groups", (double)groups, "a divisor of the number of experts");
}

static void router_orth_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_router_orth_forward_args *args = p;
    check_router(c, args->kind, args->groups);
}

static void router_orth_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_router_orth_backward_args *args = p;
    check_router(c, args->kind, args->groups);
    if (!mt_tensor_present(&args->squares)) mt_check_there(c, "dweight", &args->dweight);
    mt_check_value(c, isfinite(args->scale), "scale", (double)args->scale, "a finite number");
}

static void check_dominance(struct mt_check *c, float alpha)
{
    int64_t experts = mt_check_dim(c, 'n');
    mt_check_value(c, experts >= 1, "the number of squares' rows", (double)experts, "1 or more");
    bool usable = isfinite(alpha) && alpha >= 0.0f;
    mt_check_value(c, usable, "alpha", (double)alpha, "finite and not negative");
}

static void dominance_forward_more(struct mt_check *c, const void *p)
{
    check_dominance(c, ((const struct mt_dominance_forward_args *)p)->alpha);
}

static void dominance_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_dominance_backward_args *args = p;
    check_dominance(c, args->alpha);
    if (!mt_tensor_present(&args->sum)) mt_check_there(c, "coupling", &args->coupling);
}

// ------------------------------------------------------------------ ortho

static void check_ortho(struct mt_check *c, enum mt_ortho_form form, float epsilon, float gate)
{
    int64_t slots = mt_check_dim(c, 'k');
    bool some = slots >= 1 && slots <= MT_MAX_SLOTS;
    mt_check_value(c, some, "the number of gram's slots", (double)slots, "1 to 64");
    bool known = (unsigned)form <= MT_ORTHO_SIGNED;
    mt_check_value(c, known, "form", (double)form, "pairwise, span, cosine or signed");
    bool usable = isfinite(epsilon) && epsilon >= 0.0f;
    mt_check_value(c, usable, "epsilon", (double)epsilon, "finite and not negative");
    mt_check_value(c, !isnan(gate), "gate", (double)gate, "a number");
}

static void ortho_forward_more(struct mt_check *c, const void *p)
{
    const struct mt_ortho_forward_args *args = p;
    check_ortho(c, args->form, args->epsilon, args->gate);
}

static void ortho_backward_more(struct mt_check *c, const void *p)
{
    const struct mt_ortho_backward_args *args = p;
    check_ortho(c, args->form, args->epsilon, args->gate);
    mt_check_value(c, isfinite(args->scale), "scale", (double)args->scale, "a finite number");
    bool fits = !args->printed_gradient || args->form == MT_ORTHO_PAIRWISE;
    mt_check_value(c, fits, "form", (double)args->form, "pairwise with printed_gradient");
}

// ------------------------------------------------------------------ stat_values

/* `count` numbers from `first` on are among `numbers`. */
static bool is_within(int64_t first, int64_t count, int64_t numbers)
{
    return first >= 0 && count >= 0 && count <= numbers && first <= numbers - count;
}

static void check_product(struct mt_check *c, const struct mt_stat_product *product, int64_t numbers,
                          int64_t losses)
{
    bool x = is_within(product->x, product->count, numbers);
    mt_check_value(c, x, "a product's x", (double)product->x, "numbers of a layer");
    bool y = product->y == -1 || is_within(product->y, product->count, numbers);
    mt_check_value(c, y, "a product's y", (double)product->y, "numbers of a layer, or -1");
    bool over = product->over == -1 || is_within(product->over, 1, numbers);
    mt_check_value(c, over, "a product's over", (double)product->over, "a number of a layer, or -1");
    bool loss = product->loss >= 0 && product->loss < losses;
    mt_check_value(c, loss, "a product's loss", (double)product->loss, "one that has a weight");
    bool power = product->power >= 0 && product->power <= 2;
    mt_check_value(c, power, "a product's power", (double)product->power, "0 to 2");
}

static void stat_values_more(struct mt_check *c, const void *p)
{
    const struct mt_stat_values_args *args = p;
    mt_check_value(c, isfinite(args->scale), "scale", args->scale, "a finite number");
    bool few = args->products_count >= 0 && args->products_count <= MT_STAT_PRODUCTS;
    mt_check_value(c, few, "the number of products", (double)args->products_count, "0 to 32");
    for (int i = 0; few && i < args->products_count; i++)
        check_product(c, &args->products[i], args->numbers.dim[1], args->weight.dim[1]);
}

// ------------------------------------------------------------------ rows: T tokens, n experts, k of a token,
// S segments

static const struct mt_check_row rows[] = {
    MT_ROW(column_stats_forward, rows, column_stats_forward_more, {"x", MT_CHECK_STAT, "Tn"},
           {"mask", MT_CHECK_INDEX, "T?"}, {"segment", MT_CHECK_INDEX, "T? 0..S"},
           {"sum", MT_CHECK_F64, "Sn"}, {"squares", MT_CHECK_F64, "Sn?"}, {"row_squares", MT_CHECK_F64, "S?"},
           {"rows", MT_CHECK_F64, "S?"}),
    MT_ROW(column_stats_backward, dx, column_stats_backward_more, {"x", MT_CHECK_STAT, "Tn"},
           {"mask", MT_CHECK_INDEX, "T?"}, {"segment", MT_CHECK_INDEX, "T? 0..S"},
           {"dsum", MT_CHECK_F64, "Sn"}, {"dsquares", MT_CHECK_F64, "Sn?"},
           {"drow_squares", MT_CHECK_F64, "S?"}, {"dx", MT_CHECK_STAT, "Tn"}),
    MT_ROW(slot_stats_forward, rows, slot_stats_forward_more, {"expert", MT_CHECK_INDEX, "Tk -1..n"},
           {"weight", MT_CHECK_STAT, "Tk?"}, {"mask", MT_CHECK_INDEX, "T?"},
           {"segment", MT_CHECK_INDEX, "T? 0..S"}, {"count", MT_CHECK_F64, "Sn"},
           {"first", MT_CHECK_F64, "Sn?"}, {"sum", MT_CHECK_F64, "Sn?"}, {"squares", MT_CHECK_F64, "Sn?"},
           {"row_squares", MT_CHECK_F64, "S?"}, {"rows", MT_CHECK_F64, "S?"}),
    MT_ROW(slot_stats_backward, dweight, slot_stats_backward_more, {"expert", MT_CHECK_INDEX, "Tk -1..n"},
           {"weight", MT_CHECK_STAT, "Tk"}, {"mask", MT_CHECK_INDEX, "T?"},
           {"segment", MT_CHECK_INDEX, "T? 0..S"}, {"dsum", MT_CHECK_F64, "Sn"},
           {"dsquares", MT_CHECK_F64, "Sn?"}, {"drow_squares", MT_CHECK_F64, "S?"},
           {"dweight", MT_CHECK_STAT, "Tk"}),
    MT_ROW(router_zloss_forward, sum, router_zloss_more, {"logits", MT_CHECK_STAT, "Tn"},
           {"mask", MT_CHECK_INDEX, "T?"}, {"lse", MT_CHECK_STAT, "T?"}, {"sum", MT_CHECK_F64, "1"}),
    MT_ROW(router_zloss_backward, factor, router_zloss_more, {"logits", MT_CHECK_STAT, "Tn"},
           {"mask", MT_CHECK_INDEX, "T?"}, {"dlogits", MT_CHECK_STAT, "Tn"}, {"factor", MT_CHECK_F64, "1?"}),
    MT_ROW(router_orth_forward, loss, router_orth_forward_more, {"weight", MT_CHECK_FLOAT, "nD"},
           {"loss", MT_CHECK_F64, "1"}),
    MT_ROW(router_orth_backward, squares, router_orth_backward_more, {"weight", MT_CHECK_FLOAT, "nD"},
           {"dweight", MT_CHECK_FLOAT, "nD?"}, {"squares", MT_CHECK_F64, "1?"}),
    MT_ROW(dominance_forward, loss, dominance_forward_more, {"squares", MT_CHECK_STAT, "nn"},
           {"loss", MT_CHECK_F64, "1"}),
    MT_ROW(dominance_backward, sum, dominance_backward_more, {"squares", MT_CHECK_STAT, "nn"},
           {"dloss", MT_CHECK_F64, "1"}, {"coupling", MT_CHECK_STAT, "nn?"}, {"sum", MT_CHECK_F64, "1?"}),
    MT_ROW(ortho_forward, rows, ortho_forward_more, {"gram", MT_CHECK_STAT, "Tkk"},
           {"weight", MT_CHECK_STAT, "Tk?"}, {"mask", MT_CHECK_INDEX, "T?"}, {"loss", MT_CHECK_STAT, "T"},
           {"sum", MT_CHECK_F64, "1?"}, {"rows", MT_CHECK_F64, "1?"}),
    MT_ROW(ortho_backward, factor, ortho_backward_more, {"gram", MT_CHECK_STAT, "Tkk"},
           {"weight", MT_CHECK_STAT, "Tk?"}, {"mask", MT_CHECK_INDEX, "T?"},
           {"coupling", MT_CHECK_STAT, "Tkk"}, {"factor", MT_CHECK_F64, "1?"}),
    MT_ROW(joint_mass_forward, product, NULL, {"probs", MT_CHECK_STAT, "Tn"},
           {"other_probs", MT_CHECK_STAT, "Tm"}, {"expert", MT_CHECK_INDEX, "T* -1..n"},
           {"other_expert", MT_CHECK_INDEX, "T* -1..m"}, {"mask", MT_CHECK_INDEX, "T?"},
           {"product", MT_CHECK_STAT, "T"}),
    MT_ROW(joint_mass_backward, dprobs, NULL, {"probs", MT_CHECK_STAT, "Tn"},
           {"other_probs", MT_CHECK_STAT, "Tm"}, {"expert", MT_CHECK_INDEX, "T* -1..n"},
           {"other_expert", MT_CHECK_INDEX, "T* -1..m"}, {"mask", MT_CHECK_INDEX, "T?"},
           {"dproduct", MT_CHECK_F64, "1"}, {"dprobs", MT_CHECK_STAT, "Tn"}),
    // L layers of N numbers, W losses
    MT_ROW(stat_values, total, stat_values_more, {"numbers", MT_CHECK_F64, "LN"},
           {"weight", MT_CHECK_F64, "LW"}, {"gradient", MT_CHECK_F64, "LN"}, {"total", MT_CHECK_F32, "1"}),
    MT_ROW(logit_summary, log_sum, NULL, {"logits", MT_CHECK_STAT, "Tn"}, {"highest", MT_CHECK_INDEX, "T"},
           {"log_sum", MT_CHECK_F64, "T?"}),
};

const struct mt_check_family mt_check_statistics = {rows, sizeof rows / sizeof rows[0]};
