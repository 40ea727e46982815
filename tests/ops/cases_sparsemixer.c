/* Cases of sparsemixer: evaluation and training, from a jitter that leaves one expert to one that leaves all.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/case_files.h"
#include "tensor/dtype.h"

enum { LOGITS, EXPERT, WEIGHT, DWEIGHT, DLOGITS };
enum { TRAINING, ACCUMULATE, SPECIAL };
enum { JITTER };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    static const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1.0, 1.0, -1.0};
    const struct mt_tensor *logits = &t[LOGITS];
    if (!c->param[SPECIAL]) return;
    for (int64_t i = 0; i < logits->dim[0]; i++) {
        // Row 0 is all NaN, rows 1 and 2 all zeros and all -inf; then a mixture, infinities and NaN rare.
        for (int64_t j = 0; j < logits->dim[1]; j++) {
            uint32_t draw = mt_rng_u32(9, 0, (uint64_t)(i * logits->dim[1] + j));
            double value = special[draw % 16 < 3 ? draw % 16 : 3 + draw % 5];
            if (i == 0) value = NAN;
            if (i == 1) value = 0.0;
            if (i == 2) value = -INFINITY;
            mt_store(logits->dtype, logits->data, i * logits->stride[0] + j, value);
        }
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_sparsemixer_forward(device, &(struct mt_sparsemixer_forward_args){
                                              .logits = t[LOGITS],
                                              .expert = t[EXPERT],
                                              .weight = t[WEIGHT],
                                              .jitter = c->real[JITTER],
                                              .training = c->param[TRAINING] != 0,
                                              .seed = 1234,
                                              .stream = 56,
                                          });
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_sparsemixer_backward(device, &(struct mt_sparsemixer_backward_args){
                                               .logits = t[LOGITS],
                                               .expert = t[EXPERT],
                                               .dweight = t[DWEIGHT],
                                               .dlogits = t[DLOGITS],
                                               .jitter = c->real[JITTER],
                                               .accumulate = c->param[ACCUMULATE] != 0,
                                           });
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t experts, float jitter,
                           bool training, bool accumulate)
{
    struct op_case *c = case_new(list, MT_OP_sparsemixer_forward, "%s N=%d n=%d jitter %g%s",
                                 training ? "training" : "evaluation", (int)tokens, (int)experts,
                                 (double)jitter, accumulate ? " accumulate" : "");
    int64_t shape[] = {tokens, experts};
    int64_t chosen[] = {tokens, 2};
    c->backward_op = MT_OP_sparsemixer_backward;
    c->param[TRAINING] = training;
    c->param[ACCUMULATE] = accumulate;
    c->real[JITTER] = jitter;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_input(c, "logits", 2, shape);
    case_slot(c, "expert", SLOT_OUTPUT, MT_I32, 2, chosen);
    case_output(c, "weight", 2, chosen);
    case_grad_in(c, "dweight", WEIGHT);
    case_grad_out(c, "dlogits", LOGITS);
    if (accumulate) c->slot[DLOGITS].role = SLOT_GRAD_SUM;
    // Training weighs by c, which the backward leaves out on purpose: not a gradient of the forward.
    if (training) c->no_gradient = true;
    return c;
}

void cases_sparsemixer(struct case_list *list)
{
    static const float jitters[] = {0.0f, 0.01f, 0.3f, 1.5f}; // competing: the best; few; half; nearly all
    for (int training = 0; training <= 1; training++) {
        add(list, 0, 16, 0.01f, training != 0, false)->no_gradient = true; // no element to check
        add(list, 1, 2, 0.01f, training != 0, false);
        add(list, 4, 3, 0.8f, training != 0, true);
        for (int i = 0; i < 4; i++) add(list, 130, 16, jitters[i], training != 0, i % 2 == 1);
        struct op_case *c = add(list, 1100, 17, 0.5f, training != 0, true);
        c->slot[LOGITS].row_padding = 3;
        c->slot[EXPERT].row_padding = 1;
        c->slot[WEIGHT].row_padding = 2;
        c->slot[DLOGITS].row_padding = 5;
        c = add(list, 60, 16, 0.1f, training != 0, false);
        c->param[SPECIAL] = 1;
        c->no_gradient = true; // NaN and infinities have no differences

        c = add(list, 4096, 16, 0.01f, training != 0, false);
        c->only_speed = true;
        c->bytes = 4096.0 * (16 + 4) * 4;
        c->backward_bytes = 4096.0 * (2 * 16 + 4) * 4;
    }
}
