/* Cases of adamw: the first step and a late one, decay, clipping, copies in every type, elements that never
 * moved. */
#include <stdio.h>
#include <string.h>

#include "ops/case_files.h"

enum { PARAM, GRAD, M, V, PARAM_COPY };
enum { STEP };
enum { DECAY, GRAD_SCALE };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    struct mt_adamw_args args = {
        .param = t[PARAM],
        .grad = t[GRAD],
        .m = t[M],
        .v = t[V],
        .learning_rate = 1e-3f,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .epsilon = 1e-8f,
        .weight_decay = c->real[DECAY],
        .grad_scale = c->real[GRAD_SCALE],
        .step = c->param[STEP],
    };
    if (c->slots > PARAM_COPY) args.param_copy = t[PARAM_COPY];
    return mt_adamw(device, &args);
}

/* Gradient and moments 0: nothing but decay may move. */
static void fill_zero_gradient(const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    for (int slot = GRAD; slot <= V; slot++) {
        memset(t[slot].data, 0, (size_t)mt_tensor_count(&t[slot]) * sizeof(float));
    }
}

static struct op_case *add(struct case_list *list, int rank, const int64_t *dims, int64_t step, float decay,
                           float grad_scale)
{
    struct op_case *c =
        case_new(list, MT_OP_adamw, "[%d,%d] step %d decay %g scale %g", rank == 1 ? 1 : (int)dims[0],
                 (int)dims[rank - 1], (int)step, (double)decay, (double)grad_scale);
    c->param[STEP] = step;
    c->real[DECAY] = decay;
    c->real[GRAD_SCALE] = grad_scale;
    c->tolerance = 2e-6;
    c->forward = forward;
    case_slot(c, "param", SLOT_UPDATED, MT_F32, rank, dims);
    case_slot(c, "grad", SLOT_INPUT, MT_F32, rank, dims);
    case_slot(c, "m", SLOT_UPDATED, MT_F32, rank, dims);
    c->slot[M].scale = 0.1;
    case_slot(c, "v", SLOT_UPDATED, MT_F32, rank, dims);
    c->slot[V].fill = FILL_UNIFORM;
    c->slot[V].scale = 0.01;
    return c;
}

static struct op_case *with_copy(struct op_case *c, enum mt_dtype dtype)
{
    size_t used = strlen(c->label);
    (void)snprintf(c->label + used, sizeof c->label - used, " copy %s", mt_dtype_name(dtype));
    case_slot(c, "param_copy", SLOT_OUTPUT, dtype, c->slot[PARAM].rank, c->slot[PARAM].dim);
    // A parameter on the edge between two narrow values may round either way: one unit in the last place.
    if (dtype == MT_BF16) c->slot[PARAM_COPY].tolerance = 0x1p-8;
    if (dtype == MT_F16) c->slot[PARAM_COPY].tolerance = 0x1p-11;
    return c;
}

void cases_adamw(struct case_list *list)
{
    add(list, 1, (int64_t[]){1}, 1, 0.0f, 1.0f);
    add(list, 1, (int64_t[]){20011}, 1, 0.1f, 1.0f);
    add(list, 2, (int64_t[]){7, 33}, 1000, 0.01f, 0.125f);
    add(list, 1, (int64_t[]){0}, 3, 0.0f, 1.0f);
    with_copy(add(list, 2, (int64_t[]){7, 33}, 10, 0.0f, 0.5f), MT_BF16);
    with_copy(add(list, 2, (int64_t[]){9, 36}, 10, 0.1f, 0.5f), MT_BF16);
    with_copy(add(list, 2, (int64_t[]){70, 333}, 10, 0.0f, 1e-3f), MT_F16);
    with_copy(add(list, 1, (int64_t[]){77}, 10, 0.1f, 2.0f), MT_F32);
    with_copy(add(list, 1, (int64_t[]){77}, 10, 0.1f, 2.0f), MT_F64);
    add(list, 1, (int64_t[]){100}, 5, 0.1f, 1.0f)->fill = fill_zero_gradient;

    struct op_case *speed = with_copy(add(list, 2, (int64_t[]){4096, 2048}, 10, 0.1f, 0.5f), MT_BF16);
    speed->only_speed = true;
    speed->bytes = 4096.0 * 2048.0 * (7 * 4 + 2); // param, grad, m, v in; param, m, v and the copy out
}
