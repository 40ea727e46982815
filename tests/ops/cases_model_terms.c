/*
 * Cases of the ops behind the terms that look at experts' weights and at neighbouring layers: row_noise,
 * dominance and joint_mass.
 */
#include "base/rng.h"
#include "ops/case_files.h"
#include "ops/token_fill.h"
#include "tensor/dtype.h"

#define SCALE 0.75

// ------------------------------------------------------------------ row_noise: the rows, and what they
// multiply

enum { N_WEIGHT, N_X, N_Y, N_DY, N_DX };
enum { N_ACCUMULATE };
enum { N_AMOUNT };

static enum mt_status noise(struct mt_device *device, const struct op_case *c, struct mt_tensor weight,
                            struct mt_tensor x, struct mt_tensor y, bool accumulate)
{
    return mt_row_noise(device, &(struct mt_row_noise_args){.weight = weight,
                                                            .x = x,
                                                            .y = y,
                                                            .amount = c->real[N_AMOUNT],
                                                            .seed = 7,
                                                            .stream = 3,
                                                            .accumulate = accumulate});
}

static enum mt_status noise_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return noise(device, c, t[N_WEIGHT], t[N_X], t[N_Y], false);
}

static enum mt_status noise_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return noise(device, c, t[N_WEIGHT], t[N_DY], t[N_DX], c->param[N_ACCUMULATE] != 0);
}

static struct op_case *add_noise(struct case_list *list, int64_t rows, int64_t width, float amount,
                                 bool accumulate)
{
    struct op_case *c = case_new(list, MT_OP_row_noise, "n=%d d=%d amount=%g%s", (int)rows, (int)width,
                                 (double)amount, accumulate ? " accumulate" : "");
    int64_t shape[] = {rows, width};
    c->backward_op = MT_OP_row_noise;
    c->tolerance = 1e-6;
    c->param[N_ACCUMULATE] = accumulate;
    c->real[N_AMOUNT] = amount;
    c->forward = noise_forward;
    c->backward = noise_backward;
    case_input(c, "weight", 2, shape);
    case_input(c, "x", 2, shape);
    case_output(c, "y", 2, shape);
    case_grad_in(c, "dy", N_Y);
    case_grad_out(c, "dx", N_X);
    if (accumulate) c->slot[N_DX].role = SLOT_GRAD_SUM;
    return c;
}

static void add_noises(struct case_list *list)
{
    add_noise(list, 1, 5, 1.0f, false); // nobody is near
    add_noise(list, 2, 1, 1.0f, false);
    add_noise(list, 7, 9, 1.0f, true);
    add_noise(list, 8, 33, 0.5f, false);
    add_noise(list, 5, 6, 0.0f, false);
    add_noise(list, 5, 6, 1.0f, false)->slot[N_WEIGHT].scale = 0.0; // rows of zeros
    case_pad(add_noise(list, 16, 70, 1.0f, true), 3);
    case_retype(add_noise(list, 6, 20, 1.0f, false), MT_BF16, 2, (int[]){N_X, N_Y});
    case_retype(add_noise(list, 6, 20, 1.0f, false), MT_BF16, 1, (int[]){N_WEIGHT});
    struct op_case *c = add_noise(list, 64, 2048, 1.0f, true);
    c->only_speed = true;
    c->bytes = 64.0 * 64.0 * 2048.0 * 4.0; // every row against every row
}

// ------------------------------------------------------------------ dominance, of vectors' lengths

enum { D_ROWS, D_PLACE, D_NOTHING, D_SQUARES, D_LOSS, D_DLOSS, D_COUPLING, D_SUM, D_DROWS };
enum { D_ALPHA };

static void dominance_fill(const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    for (int64_t i = 0; i < t[D_PLACE].dim[0]; i++) ((int32_t *)t[D_PLACE].data)[i] = (int32_t)i;
    mt_store(t[D_DLOSS].dtype, t[D_DLOSS].data, 0, SCALE);
}

/* [n,n] as one matrix a row. */
static struct mt_tensor singles(const struct mt_tensor *matrix)
{
    return mt_tensor_3d(matrix->data, matrix->dtype, mt_tensor_count(matrix), 1, 1);
}

static enum mt_status dominance_forward(struct mt_device *device, const struct op_case *c,
                                        struct mt_tensor *t)
{
    enum mt_status status =
        mt_combine_forward(device, &(struct mt_combine_forward_args){.rows = t[D_ROWS],
                                                                     .row_of_slot = t[D_PLACE],
                                                                     .weight = t[D_NOTHING],
                                                                     .gram = singles(&t[D_SQUARES])});
    if (status != MT_OK) return status;
    return mt_dominance_forward(device, &(struct mt_dominance_forward_args){.squares = t[D_SQUARES],
                                                                            .loss = t[D_LOSS],
                                                                            .alpha = c->real[D_ALPHA]});
}

static enum mt_status dominance_backward(struct mt_device *device, const struct op_case *c,
                                         struct mt_tensor *t)
{
    enum mt_status status =
        mt_dominance_backward(device, &(struct mt_dominance_backward_args){.squares = t[D_SQUARES],
                                                                           .dloss = t[D_DLOSS],
                                                                           .coupling = t[D_COUPLING],
                                                                           .sum = t[D_SUM],
                                                                           .alpha = c->real[D_ALPHA]});
    if (status != MT_OK) return status;
    return mt_combine_backward(device, &(struct mt_combine_backward_args){.rows = t[D_ROWS],
                                                                          .row_of_slot = t[D_PLACE],
                                                                          .weight = t[D_NOTHING],
                                                                          .coupling = singles(&t[D_COUPLING]),
                                                                          .drows = t[D_DROWS]});
}

static struct op_case *add_dominance(struct case_list *list, int64_t experts, int64_t width, float alpha)
{
    struct op_case *c = case_new(list, MT_OP_dominance_forward, "n=%d d=%d alpha=%g", (int)experts,
                                 (int)width, (double)alpha);
    int64_t rows[] = {experts * experts, width};
    int64_t place[] = {experts * experts, 1};
    int64_t square[] = {experts, experts};
    c->backward_op = MT_OP_dominance_backward;
    c->real[D_ALPHA] = alpha;
    c->fill = dominance_fill;
    c->forward = dominance_forward;
    c->backward = dominance_backward;
    case_input(c, "rows", 2, rows);
    case_index(c, "place", 2, place);
    case_input(c, "nothing", 2, place);
    c->slot[D_NOTHING].scale = 0.0;
    case_output(c, "squares", 2, square);
    case_slot(c, "loss", SLOT_OUTPUT, MT_F64, 1, (int64_t[]){1});
    c->slot[case_grad_in(c, "dloss", D_LOSS)].dtype = MT_F64;
    c->slot[D_DLOSS].fill = FILL_CUSTOM;
    case_grad_out(c, "coupling", D_SQUARES);
    c->slot[D_COUPLING].no_numeric = true; // twice the slope, a step on the way to drows
    c->slot[case_grad_out(c, "sum", D_LOSS)].dtype = MT_F64;
    c->slot[D_SUM].no_numeric = true; // a norm
    case_grad_out(c, "drows", D_ROWS);
    return c;
}

static void add_dominances(struct case_list *list)
{
    add_dominance(list, 1, 3, 1.0f)->no_gradient = true; // constant 0
    add_dominance(list, 2, 3, 1.0f);
    add_dominance(list, 5, 4, 1.0f);
    add_dominance(list, 8, 3, 0.5f);
    add_dominance(list, 6, 5, 0.0f);
    add_dominance(list, 9, 2, 2.0f);
    add_dominance(list, 3, 4, 1.0f)->slot[D_ROWS].scale = 0.0; // no length, no direction
    list->items[list->count - 1].no_gradient = true;
    add_dominance(list, 33, 2, 0.9f);
    struct op_case *c = add_dominance(list, 256, 1, 1.0f);
    c->only_speed = true;
    c->bytes = 256.0 * 256.0 * 4.0;
    c->backward_bytes = 2.0 * 256.0 * 256.0 * 4.0;
}

// ------------------------------------------------------------------ joint_mass

enum { J_PROBS, J_OTHER, J_EXPERT, J_OTHER_EXPERT, J_MASK, J_SCALE, J_PRODUCT, J_DPRODUCT, J_DPROBS };
enum { J_MASKED, J_NORMALISE };

/* Different experts for each token, one slot in nine without one. */
static void choose(struct mt_tensor *expert, int64_t experts, uint64_t stream)
{
    for (int64_t i = 0; i < expert->dim[0]; i++) {
        int64_t first = (int64_t)(mt_rng_u32(5, stream, (uint64_t)i) % (uint32_t)experts);
        for (int64_t s = 0; s < expert->dim[1]; s++) {
            bool dropped = (i * expert->dim[1] + s) % 9 == 7;
            ((int32_t *)expert->data)[i * expert->stride[0] + s] =
                dropped ? -1 : (int32_t)((first + s) % experts);
        }
    }
}

static void mass_fill(const struct op_case *c, struct mt_tensor *t)
{
    choose(&t[J_EXPERT], t[J_PROBS].dim[1], 1);
    choose(&t[J_OTHER_EXPERT], t[J_OTHER].dim[1], 2);
    fill_mask((enum mask_kind)c->param[J_MASKED], &t[J_MASK]);
    mt_store(t[J_SCALE].dtype, t[J_SCALE].data, 0, SCALE);
    for (int64_t i = 0; i < t[J_DPRODUCT].dim[0]; i++)
        mt_store(t[J_DPRODUCT].dtype, t[J_DPRODUCT].data, i, SCALE);
}

static enum mt_status mass_forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_joint_mass_forward_args args = {.probs = t[J_PROBS],
                                              .other_probs = t[J_OTHER],
                                              .expert = t[J_EXPERT],
                                              .other_expert = t[J_OTHER_EXPERT],
                                              .product = t[J_PRODUCT],
                                              .normalise_rows = c->param[J_NORMALISE] != 0};
    if (c->param[J_MASKED] != MASK_NONE) args.mask = t[J_MASK];
    return mt_joint_mass_forward(device, &args);
}

static enum mt_status mass_backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_joint_mass_backward_args args = {.probs = t[J_PROBS],
                                               .other_probs = t[J_OTHER],
                                               .expert = t[J_EXPERT],
                                               .other_expert = t[J_OTHER_EXPERT],
                                               .dproduct = t[J_SCALE],
                                               .dprobs = t[J_DPROBS],
                                               .normalise_rows = c->param[J_NORMALISE] != 0};
    if (c->param[J_MASKED] != MASK_NONE) args.mask = t[J_MASK];
    return mt_joint_mass_backward(device, &args);
}

static struct op_case *add_mass(struct case_list *list, int64_t tokens, int64_t experts, int64_t slots,
                                enum mask_kind masked, bool normalise)
{
    struct op_case *c = case_new(list, MT_OP_joint_mass_forward, "N=%d n=%d k=%d%s%s", (int)tokens,
                                 (int)experts, (int)slots, mask_name(masked), normalise ? " normalised" : "");
    int64_t wide[] = {tokens, experts};
    int64_t chosen[] = {tokens, slots};
    c->backward_op = MT_OP_joint_mass_backward;
    c->tolerance = 1e-6;
    c->param[J_MASKED] = masked;
    c->param[J_NORMALISE] = normalise;
    c->fill = mass_fill;
    c->forward = mass_forward;
    c->backward = mass_backward;
    case_input(c, "probs", 2, wide);
    c->slot[J_PROBS].fill = FILL_UNIFORM;
    case_input(c, "other_probs", 2, wide);
    c->slot[J_OTHER].fill = FILL_UNIFORM;
    case_index(c, "expert", 2, chosen);
    case_index(c, "other_expert", 2, chosen);
    case_index(c, "mask", 1, wide);
    case_slot(c, "scale", SLOT_INPUT, MT_F64, 1, (int64_t[]){1});
    c->slot[J_SCALE].fill = FILL_CUSTOM;
    case_output(c, "product", 1, wide);
    case_grad_in(c, "dproduct", J_PRODUCT);
    c->slot[J_DPRODUCT].fill = FILL_CUSTOM;
    case_grad_out(c, "dprobs", J_PROBS);
    c->slot[J_DPROBS].role = SLOT_GRAD_SUM;
    return c;
}

static void add_masses(struct case_list *list)
{
    add_mass(list, 1, 1, 1, MASK_NONE, false);
    add_mass(list, 0, 4, 2, MASK_NONE, true)->no_gradient = true;
    add_mass(list, 5, 8, 2, MASK_NONE, false);
    add_mass(list, 9, 8, 3, MASK_SOME, true);
    add_mass(list, 17, 33, 6, MASK_ENDS, true);
    case_pad(add_mass(list, 40, 64, 8, MASK_SOME, true), 3);
    add_mass(list, 3000, 64, 6, MASK_SOME, true); // enough for several threads
    struct op_case *c = add_mass(list, 5, 6, 2, MASK_NONE, true);
    c->slot[J_PROBS].dtype = MT_F64; // handed to ref
    c->slot[J_DPROBS].dtype = MT_F64;
    c = add_mass(list, 16384, 64, 6, MASK_NONE, true);
    c->only_speed = true;
    c->bytes = 2.0 * 16384.0 * 64.0 * 4.0;
    c->backward_bytes = 4.0 * 16384.0 * 64.0 * 4.0;
}

void cases_model_terms(struct case_list *list)
{
    add_noises(list);
    add_dominances(list);
    add_masses(list);
}
