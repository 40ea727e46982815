/*
 * Cases of attention_sink: one token, odd widths, padded heads, sinks far above and far below the scores,
 * narrow sinks, bf16 outputs. The finite differences are of the op alone; what q, k and v get of it is in
 * test_attention.c.
 */
#include "ops/case_files.h"

enum { OUT, LSE, SINK, DOUT, DSINK };

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_attention_sink_forward(
        device, &(struct mt_attention_sink_forward_args){.out = t[OUT], .lse = t[LSE], .sink = t[SINK]});
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_attention_sink_backward(
        device, &(struct mt_attention_sink_backward_args){
                    .dout = t[DOUT], .out = t[OUT], .lse = t[LSE], .sink = t[SINK], .dsink = t[DSINK]});
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t heads, int64_t width, double scale,
                           enum mt_dtype sink_type, int64_t padding)
{
    struct op_case *c = case_new(list, MT_OP_attention_sink_forward, "T=%d H=%d D=%d sinks %s%s%s",
                                 (int)tokens, (int)heads, (int)width, mt_dtype_name(sink_type),
                                 scale > 1 ? " large" : "", padding != 0 ? " padded" : "");
    c->backward_op = MT_OP_attention_sink_backward;
    c->tolerance = 4e-6;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "out", SLOT_UPDATED, MT_F32, 3, (int64_t[]){tokens, heads, width});
    case_slot(c, "lse", SLOT_UPDATED, MT_F32, 2, (int64_t[]){tokens, heads});
    case_slot(c, "sink", SLOT_INPUT, sink_type, 1, (int64_t[]){heads});
    c->slot[SINK].scale = scale;
    case_grad_in(c, "dout", OUT);
    case_grad_out(c, "dsink", SINK);
    c->slot[DSINK].role = SLOT_GRAD_SUM;
    c->slot[OUT].row_padding = padding;
    c->slot[DOUT].row_padding = padding;
    return c;
}

void cases_attention_sink(struct case_list *list)
{
    add(list, 1, 1, 1, 1, MT_F32, 0);
    add(list, 5, 3, 33, 1, MT_F32, 3);
    add(list, 33, 8, 64, 30, MT_F32, 0);
    add(list, 7, 4, 16, 1, MT_BF16, 0);
    add(list, 1000, 2, 24, 1, MT_F32, 0);
    add(list, 0, 4, 8, 1, MT_F32, 0)->no_gradient = true;
    case_retype(add(list, 9, 6, 64, 1, MT_BF16, 0), MT_BF16, 2, (int[]){OUT, DOUT});

    struct op_case *speed = add(list, 4096, 64, 64, 1, MT_F32, 0);
    double elements = 4096.0 * 64.0 * 64.0;
    speed->only_speed = true;
    speed->bytes = elements * 2 * 4;
    speed->backward_bytes = elements * 2 * 4;
}
