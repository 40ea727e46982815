/*
 * Cases of ortho, of two kinds.
 *
 * "rows": the whole way a gradient takes. Rows X give their Gram matrix (combine_forward), that gives the
 * losses; backward the coupling, applied to the rows (combine_backward). Finite differences are in X. The
 * gradient arriving at every loss is SCALE.
 *
 * "gram": the op alone, on Gram matrices made here; larger, and with all that strides and aliasing allow.
 */
#include "base/rng.h"
#include "ops/case_files.h"
#include "tensor/dtype.h"

#define SCALE 0.75f

enum { FORM, WITH_WEIGHT, WITH_MASK, PRINTED, IN_PLACE }; // param
enum { EPSILON, GATE };                                   // real

struct setting {
    enum mt_ortho_form form;
    float epsilon;
    bool weight, mask, printed, in_place;
};

static const char *const form_names[] = {"pairwise", "span", "cosine", "signed"};

static void describe(struct op_case *c, const struct setting *setting)
{
    c->backward_op = MT_OP_ortho_backward;
    c->param[FORM] = setting->form;
    c->param[WITH_WEIGHT] = setting->weight;
    c->param[WITH_MASK] = setting->mask;
    c->param[PRINTED] = setting->printed;
    c->param[IN_PLACE] = setting->in_place;
    c->real[EPSILON] = setting->epsilon;
    c->real[GATE] = 0.25f; // of weights uniform in [0, 1)
}

/* Every third token is left out. */
static void fill_mask(struct mt_tensor *mask)
{
    for (int64_t i = 0; i < mask->dim[0]; i++) ((int32_t *)mask->data)[i] = i % 3 == 1 ? 0 : 1 + (int32_t)i;
}

static enum mt_status run_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor gram,
                                  struct mt_tensor weight, struct mt_tensor mask, struct mt_tensor loss,
                                  struct mt_tensor sum, struct mt_tensor rows)
{
    struct mt_ortho_forward_args args = {.gram = gram,
                                         .loss = loss,
                                         .sum = sum,
                                         .rows = rows,
                                         .form = (enum mt_ortho_form)c->param[FORM],
                                         .epsilon = c->real[EPSILON],
                                         .gate = c->real[GATE]};
    if (c->param[WITH_WEIGHT]) args.weight = weight;
    if (c->param[WITH_MASK]) args.mask = mask;
    return mt_ortho_forward(device, &args);
}

static enum mt_status run_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor gram,
                                   struct mt_tensor weight, struct mt_tensor mask, struct mt_tensor coupling,
                                   struct mt_tensor factor)
{
    struct mt_ortho_backward_args args = {.gram = gram,
                                          .coupling = coupling,
                                          .factor = factor,
                                          .form = (enum mt_ortho_form)c->param[FORM],
                                          .epsilon = c->real[EPSILON],
                                          .gate = c->real[GATE],
                                          .scale = SCALE,
                                          .printed_gradient = c->param[PRINTED] != 0};
    if (c->param[WITH_WEIGHT]) args.weight = weight;
    if (c->param[WITH_MASK]) args.mask = mask;
    return mt_ortho_backward(device, &args);
}

// ------------------------------------------------------------------ from rows to their gradient

enum { ROWS, ROW_OF_SLOT, NOTHING, WEIGHT, MASK, Y, GRAM, LOSS, DLOSS, DY, COUPLING, DROWS, DNOTHING };

static void rows_fill(const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    int64_t slots = t[ROW_OF_SLOT].dim[1];
    for (int64_t i = 0; i < t[ROW_OF_SLOT].dim[0]; i++) {
        for (int64_t s = 0; s < slots; s++) {
            // One slot in eleven has no row.
            int64_t pair = i * slots + s;
            ((int32_t *)t[ROW_OF_SLOT].data)[pair] = pair % 11 == 9 ? -1 : (int32_t)pair;
        }
        mt_store(t[DLOSS].dtype, t[DLOSS].data, i, (double)SCALE);
    }
    fill_mask(&t[MASK]);
}

static enum mt_status rows_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_combine_forward_args args = {
        .rows = t[ROWS], .row_of_slot = t[ROW_OF_SLOT], .weight = t[NOTHING], .y = t[Y], .gram = t[GRAM]};
    enum mt_status status = mt_combine_forward(device, &args);
    if (status != MT_OK) return status;
    struct mt_tensor none = {0};
    return run_forward(device, c, t[GRAM], t[WEIGHT], t[MASK], t[LOSS], none, none);
}

static enum mt_status rows_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor none = {0};
    enum mt_status status = run_backward(device, c, t[GRAM], t[WEIGHT], t[MASK], t[COUPLING], none);
    if (status != MT_OK) return status;
    struct mt_combine_backward_args args = {.dy = t[DY],
                                            .rows = t[ROWS],
                                            .row_of_slot = t[ROW_OF_SLOT],
                                            .weight = t[NOTHING],
                                            .coupling = t[COUPLING],
                                            .drows = t[DROWS],
                                            .dweight = t[DNOTHING]};
    return mt_combine_backward(device, &args);
}

static struct op_case *add_rows(struct case_list *list, int64_t tokens, int64_t slots, int64_t width,
                                struct setting setting)
{
    struct op_case *c =
        case_new(list, MT_OP_ortho_forward, "%s rows N=%d k=%d d=%d eps=%g%s%s", form_names[setting.form],
                 (int)tokens, (int)slots, (int)width, (double)setting.epsilon,
                 setting.weight ? " +weight" : "", setting.mask ? " +mask" : "");
    int64_t rows[] = {tokens * slots, width};
    int64_t chosen[] = {tokens, slots};
    int64_t wide[] = {tokens, width};
    int64_t square[] = {tokens, slots, slots};
    describe(c, &setting);
    c->fill = rows_fill;
    c->forward = rows_forward;
    c->backward = rows_backward;
    case_input(c, "rows", 2, rows);
    case_index(c, "row_of_slot", 2, chosen);
    case_input(c, "nothing", 2, chosen); // combine's weight: zeros
    c->slot[NOTHING].scale = 0.0;
    case_input(c, "weight", 2, chosen);
    c->slot[WEIGHT].fill = FILL_UNIFORM;
    case_index(c, "mask", 1, chosen);
    case_output(c, "y", 2, wide);
    case_output(c, "gram", 3, square);
    case_output(c, "loss", 1, chosen);
    case_grad_in(c, "dloss", LOSS);
    c->slot[DLOSS].fill = FILL_CUSTOM;
    case_input(c, "dy", 2, wide);
    c->slot[DY].scale = 0.0;
    case_grad_out(c, "coupling", GRAM);
    c->slot[COUPLING].no_numeric = true; // a step between; symmetric, so not the slope of one entry
    case_grad_out(c, "drows", ROWS);
    c->slot[DROWS].role = SLOT_GRAD_SUM; // rows of no slot are untouched
    c->slot[DROWS].scale = 0.0;
    case_grad_out(c, "dnothing", NOTHING);
    return c;
}

// ------------------------------------------------------------------ from Gram matrices to couplings

enum { G_GRAM, G_WEIGHT, G_MASK, G_LOSS, G_COUPLING, G_SUM, G_ROWS, G_FACTOR };

/* Gram matrices of rows that overlap as experts' outputs do: noise plus something in common. */
static void gram_fill(const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor *gram = &t[G_GRAM];
    int k = (int)gram->dim[1];
    int width = 2 * k + 3;
    double rows[MT_MAX_SLOTS * (2 * MT_MAX_SLOTS + 3)];
    for (int64_t i = 0; i < gram->dim[0]; i++) {
        for (int e = 0; e < k * width; e++) {
            double common = (double)mt_rng_normal(5, (uint64_t)i, (uint64_t)(e % width));
            rows[e] = (double)mt_rng_normal(4, (uint64_t)i, (uint64_t)e) + 0.3 * common;
        }
        for (int s = 0; s < k; s++) {
            for (int m = 0; m < k; m++) {
                double dot = 0.0;
                for (int j = 0; j < width; j++) dot += rows[s * width + j] * rows[m * width + j];
                mt_store(gram->dtype, gram->data, i * gram->stride[0] + s * gram->stride[1] + m, dot);
                if (!c->param[IN_PLACE]) continue;
                struct mt_tensor *coupling = &t[G_COUPLING];
                mt_store(coupling->dtype, coupling->data,
                         i * coupling->stride[0] + s * coupling->stride[1] + m, dot);
            }
        }
    }
    fill_mask(&t[G_MASK]);
}

static enum mt_status gram_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return run_forward(device, c, t[G_GRAM], t[G_WEIGHT], t[G_MASK], t[G_LOSS], t[G_SUM], t[G_ROWS]);
}

static enum mt_status gram_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_tensor gram = c->param[IN_PLACE] ? t[G_COUPLING] : t[G_GRAM];
    return run_backward(device, c, gram, t[G_WEIGHT], t[G_MASK], t[G_COUPLING], t[G_FACTOR]);
}

static struct op_case *add_gram(struct case_list *list, int64_t tokens, int64_t slots, struct setting setting)
{
    struct op_case *c = case_new(list, MT_OP_ortho_forward, "%s gram N=%d k=%d eps=%g%s%s%s%s",
                                 form_names[setting.form], (int)tokens, (int)slots, (double)setting.epsilon,
                                 setting.weight ? " +weight" : "", setting.mask ? " +mask" : "",
                                 setting.printed ? " printed" : "", setting.in_place ? " in place" : "");
    int64_t chosen[] = {tokens, slots};
    int64_t square[] = {tokens, slots, slots};
    describe(c, &setting);
    c->fill = gram_fill;
    c->forward = gram_forward;
    c->backward = gram_backward;
    c->no_gradient = true; // single entries of a symmetric matrix; the cases with rows have it
    case_input(c, "gram", 3, square);
    c->slot[G_GRAM].fill = FILL_CUSTOM;
    case_input(c, "weight", 2, chosen);
    c->slot[G_WEIGHT].fill = FILL_UNIFORM;
    case_index(c, "mask", 1, chosen);
    case_output(c, "loss", 1, chosen);
    case_grad_out(c, "coupling", G_GRAM);
    case_slot(c, "sum", SLOT_OUTPUT, MT_F64, 1, (int64_t[]){1});
    case_slot(c, "rows", SLOT_OUTPUT, MT_F64, 1, (int64_t[]){1});
    case_slot(c, "factor", SLOT_INPUT, MT_F64, 1, (int64_t[]){1});
    if (setting.in_place) {
        c->slot[G_COUPLING].role = SLOT_GRAD_SUM;
        c->slot[G_COUPLING].fill = FILL_CUSTOM;
    }
    return c;
}

// ------------------------------------------------------------------ the list

static const float usual_epsilon[] = {1e-8f, 1e-6f, 1e-12f, 1e-12f}; // of each form

static void add_speed(struct case_list *list, int64_t tokens, int64_t slots, enum mt_ortho_form form)
{
    struct op_case *c =
        add_gram(list, tokens, slots, (struct setting){.form = form, .epsilon = usual_epsilon[form]});
    double square = (double)(tokens * slots * slots) * 4;
    c->only_speed = true;
    c->bytes = square + (double)tokens * 4;
    c->backward_bytes = 2 * square;
}

/* Every option with every form. */
static void add_options(struct case_list *list, enum mt_ortho_form form)
{
    struct setting plain = {.form = form, .epsilon = usual_epsilon[form]};
    for (int options = 1; options < 8; options++) {
        struct setting setting = plain;
        setting.weight = (options & 1) != 0;
        setting.mask = (options & 2) != 0;
        setting.in_place = (options & 4) != 0;
        add_gram(list, 19, 6, setting);
    }
    struct setting full = {.form = form, .epsilon = 0.5f, .weight = true, .mask = true};
    struct op_case *c = add_gram(list, 21, 5, full);
    c->slot[G_GRAM].row_padding = 3;
    c->slot[G_WEIGHT].row_padding = 2;
    c->slot[G_COUPLING].row_padding = 1;
    full.in_place = true;
    c = add_gram(list, 21, 5, full);
    c->slot[G_COUPLING].row_padding = 3;
    for (int slot = G_GRAM; slot <= G_COUPLING; slot++) { // other types go to ref
        if (slot == G_MASK) continue;
        full.in_place = false;
        add_gram(list, 5, 3, full)->slot[slot].dtype = MT_F64;
    }
}

void cases_ortho(struct case_list *list)
{
    for (int i = 0; i < 4; i++) {
        enum mt_ortho_form form = (enum mt_ortho_form)i;
        struct setting plain = {.form = form, .epsilon = usual_epsilon[form]};
        struct setting exact = {.form = form};
        struct setting full = {.form = form, .epsilon = 0.5f, .weight = true, .mask = true}; // ε to be seen
        add_rows(list, 3, 1, 4, plain);
        add_rows(list, 5, 2, 7, plain);
        add_rows(list, 4, 3, 5, exact);
        add_rows(list, 7, 6, 9, full);
        add_rows(list, 3, 8, 21, plain);
        add_rows(list, 2, 9, 4, full); // more rows than dimensions: they cannot be independent
        for (int64_t slots = 1; slots <= 10; slots++) {
            add_gram(list, 33, slots, plain);
            add_gram(list, 1, slots, full);
        }
        add_gram(list, 0, 4, full);
        add_gram(list, 6, 22, full);
        add_gram(list, 3, MT_MAX_SLOTS, plain);
        add_gram(list, 1500, 6, full); // enough for several threads
        add_gram(list, 40, 6, (struct setting){.form = form, .epsilon = 100.0f});
        add_options(list, form);
        add_speed(list, 4096, 2, form);
        add_speed(list, 4096, 6, form);
        add_speed(list, 4096, 7, form);
        add_speed(list, 16384, 8, form);
    }
    struct setting printed = {.form = MT_ORTHO_PAIRWISE, .epsilon = 0.5f, .printed = true};
    add_gram(list, 19, 6, printed);
    printed.weight = true;
    printed.mask = true;
    printed.in_place = true;
    add_gram(list, 1500, 7, printed);
}
