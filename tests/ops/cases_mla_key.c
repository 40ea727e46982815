/* Cases of mla_key: both layouts, one head, one token, none, odd widths, views into wider rows. */
#include "ops/case_files.h"
#include "ops/rope_tables.h"

enum { NOPE, SHARED, POSITIONS, COSINE, SINE, KEY, DKEY, DNOPE, DSHARED };
enum { LAYOUT, LENGTH };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_positions(&t[POSITIONS], c->param[LENGTH]);
    fill_rope_tables(&t[COSINE], &t[SINE]);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_mla_key_forward(device, &(struct mt_mla_key_forward_args){
                                          .nope = t[NOPE],
                                          .shared = t[SHARED],
                                          .positions = t[POSITIONS],
                                          .cosine = t[COSINE],
                                          .sine = t[SINE],
                                          .key = t[KEY],
                                          .layout = (enum mt_rope_layout)c->param[LAYOUT],
                                      });
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_mla_key_backward(device, &(struct mt_mla_key_backward_args){
                                           .dkey = t[DKEY],
                                           .positions = t[POSITIONS],
                                           .cosine = t[COSINE],
                                           .sine = t[SINE],
                                           .dnope = t[DNOPE],
                                           .dshared = t[DSHARED],
                                           .layout = (enum mt_rope_layout)c->param[LAYOUT],
                                       });
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t heads, int64_t plain,
                           int64_t rotated, enum mt_rope_layout layout, enum mt_dtype dtype, int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_mla_key_forward, "T=%d H=%d Dn=%d Dr=%d %s %s%s", (int)tokens, (int)heads,
                 (int)plain, (int)rotated, layout == MT_ROPE_HALF ? "half" : "interleaved",
                 mt_dtype_name(dtype), padding != 0 ? " padded" : "");
    c->backward_op = MT_OP_mla_key_backward;
    c->param[LAYOUT] = layout;
    c->param[LENGTH] = 13;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "nope", SLOT_INPUT, dtype, 3, (int64_t[]){tokens, heads, plain});
    case_slot(c, "shared", SLOT_INPUT, dtype, 2, (int64_t[]){tokens, rotated});
    case_index(c, "positions", 1, &tokens);
    case_input(c, "cosine", 2, (int64_t[]){17, rotated / 2});
    case_input(c, "sine", 2, (int64_t[]){17, rotated / 2});
    case_slot(c, "key", SLOT_OUTPUT, dtype, 3, (int64_t[]){tokens, heads, plain + rotated});
    case_grad_in(c, "dkey", KEY);
    case_grad_out(c, "dnope", NOPE);
    case_grad_out(c, "dshared", SHARED);
    c->slot[COSINE].fill = FILL_CUSTOM;
    c->slot[SINE].fill = FILL_CUSTOM;
    c->slot[NOPE].row_padding = padding;
    c->slot[SHARED].row_padding = 2 * padding;
    c->slot[KEY].row_padding = padding;
    c->slot[DNOPE].row_padding = padding;
    c->slot[DSHARED].row_padding = padding;
    return c;
}

void cases_mla_key(struct case_list *list)
{
    add(list, 1, 1, 1, 2, MT_ROPE_INTERLEAVED, MT_F32, 0);
    add(list, 5, 3, 7, 6, MT_ROPE_HALF, MT_F32, 0);
    add(list, 19, 4, 9, 10, MT_ROPE_INTERLEAVED, MT_F32, 5);
    add(list, 67, 5, 128, 64, MT_ROPE_INTERLEAVED, MT_F32, 128);
    add(list, 67, 5, 48, 32, MT_ROPE_HALF, MT_F32, 1);
    add(list, 3, 2, 0, 4, MT_ROPE_HALF, MT_F32, 0)->no_gradient = true;
    add(list, 0, 2, 4, 4, MT_ROPE_HALF, MT_F32, 0)->no_gradient = true;
    add(list, 4, 2, 5, 4, MT_ROPE_INTERLEAVED, MT_BF16, 0)->no_gradient = true;
    add(list, 4, 2, 5, 4, MT_ROPE_HALF, MT_F16, 0)->no_gradient = true;
    add(list, 21, 3, 128, 64, MT_ROPE_INTERLEAVED, MT_BF16, 8);

    // DeepSeek-V2-Lite's, 16,384 tokens, in bf16: for devices.
    struct op_case *device = add(list, 16384, 16, 128, 64, MT_ROPE_INTERLEAVED, MT_BF16, 128);
    device->only_speed = true;
    device->only_device = true;
    device->param[LENGTH] = 512;
    device->slot[COSINE].dim[0] = 512;
    device->slot[SINE].dim[0] = 512;
    device->slot[KEY].row_padding = 0;
    device->bytes = 16384.0 * (16 * 128 + 64 + 16 * 192) * 2;
    device->backward_bytes = device->bytes;

    // As in the models: nope is the first part of the kv_b output's heads, 128 of 256.
    struct op_case *c = add(list, 4096, 16, 128, 64, MT_ROPE_INTERLEAVED, MT_F32, 128);
    c->only_speed = true;
    c->param[LENGTH] = 1024;
    c->slot[COSINE].dim[0] = 1024;
    c->slot[SINE].dim[0] = 1024;
    c->slot[KEY].row_padding = 0;
    c->bytes = 4096.0 * (16 * 128 + 64 + 16 * 192) * 4;          // nope, shared in; key out
    c->backward_bytes = 4096.0 * (16 * 192 + 16 * 128 + 64) * 4; // dkey in; dnope, dshared out
}
