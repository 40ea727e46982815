/* Cases of rope: both layouts, both directions, one token, none, odd sizes, padded rows, in place, views. */
#include "ops/case_files.h"
#include "ops/rope_tables.h"

enum { X, Y, POSITIONS, COSINE, SINE, DY, DX };
enum { LAYOUT, INVERSE, START, WIDTH, LENGTH };

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    fill_positions(&t[POSITIONS], c->param[LENGTH]);
    fill_rope_tables(&t[COSINE], &t[SINE]);
}

static enum mt_status rotate(struct mt_device *device, const struct op_case *c, struct mt_tensor *t,
                             const struct mt_tensor *x, const struct mt_tensor *y, bool inverse)
{
    int64_t start = c->param[START];
    int64_t width = c->param[WIDTH];
    return mt_rope(device, &(struct mt_rope_args){
                               .x = mt_tensor_columns(x, start, width),
                               .y = mt_tensor_columns(y, start, width),
                               .positions = t[POSITIONS],
                               .cosine = t[COSINE],
                               .sine = t[SINE],
                               .layout = (enum mt_rope_layout)c->param[LAYOUT],
                               .inverse = inverse,
                           });
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return rotate(device, c, t, &t[X], &t[Y], c->param[INVERSE] != 0);
}

static enum mt_status forward_in_place(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return rotate(device, c, t, &t[X], &t[X], c->param[INVERSE] != 0);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return rotate(device, c, t, &t[DY], &t[DX], c->param[INVERSE] == 0);
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t heads, int64_t width,
                           enum mt_rope_layout layout, bool inverse, enum mt_dtype dtype, int64_t padding)
{
    struct op_case *c =
        case_new(list, MT_OP_rope, "T=%d H=%d D=%d %s%s %s%s", (int)tokens, (int)heads, (int)width,
                 layout == MT_ROPE_HALF ? "half" : "interleaved", inverse ? " inverse" : "",
                 mt_dtype_name(dtype), padding != 0 ? " padded" : "");
    int64_t dims[] = {tokens, heads, width};
    c->param[LAYOUT] = layout;
    c->param[INVERSE] = inverse;
    c->param[WIDTH] = width;
    c->param[LENGTH] = 29;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "x", SLOT_INPUT, dtype, 3, dims);
    case_slot(c, "y", SLOT_OUTPUT, dtype, 3, dims);
    case_index(c, "positions", 1, &tokens);
    case_input(c, "cosine", 2, (int64_t[]){31, width / 2});
    case_input(c, "sine", 2, (int64_t[]){31, width / 2});
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dx", X);
    c->slot[COSINE].fill = FILL_CUSTOM;
    c->slot[SINE].fill = FILL_CUSTOM;
    c->slot[X].row_padding = padding;
    c->slot[Y].row_padding = 2 * padding;
    c->slot[DX].row_padding = padding;
    return c;
}

/* y is x itself, and a run of columns of wider heads: the rest must stay as it was. */
static struct op_case *add_in_place(struct case_list *list, int64_t tokens, int64_t heads, int64_t before,
                                    int64_t width, enum mt_rope_layout layout, bool inverse)
{
    struct op_case *c = case_new(list, MT_OP_rope, "T=%d H=%d D=%d of %d %s%s in place", (int)tokens,
                                 (int)heads, (int)width, (int)(before + width),
                                 layout == MT_ROPE_HALF ? "half" : "interleaved", inverse ? " inverse" : "");
    int64_t dims[] = {tokens, heads, before + width};
    c->param[LAYOUT] = layout;
    c->param[INVERSE] = inverse;
    c->param[START] = before;
    c->param[WIDTH] = width;
    c->param[LENGTH] = 29;
    c->no_gradient = true;
    c->fill = fill;
    c->forward = forward_in_place;
    case_slot(c, "x", SLOT_UPDATED, MT_F32, 3, dims);
    case_input(c, "unused", 1, &width);
    case_index(c, "positions", 1, &tokens);
    case_input(c, "cosine", 2, (int64_t[]){31, width / 2});
    case_input(c, "sine", 2, (int64_t[]){31, width / 2});
    c->slot[COSINE].fill = FILL_CUSTOM;
    c->slot[SINE].fill = FILL_CUSTOM;
    return c;
}

static void make_speed(struct op_case *c, int64_t tokens, int64_t heads, int64_t positions)
{
    c->only_speed = true;
    c->param[LENGTH] = positions;
    c->slot[COSINE].dim[0] = positions;
    c->slot[SINE].dim[0] = positions;
    // The heads in and out; the tables are small beside them.
    c->bytes = (double)(tokens * heads * c->param[WIDTH]) * 4 * 2;
}

void cases_rope(struct case_list *list)
{
    add(list, 1, 1, 2, MT_ROPE_HALF, false, MT_F32, 0);
    add(list, 1, 3, 2, MT_ROPE_INTERLEAVED, false, MT_F32, 0);
    add(list, 7, 3, 10, MT_ROPE_HALF, false, MT_F32, 3);
    add(list, 7, 3, 10, MT_ROPE_INTERLEAVED, true, MT_F32, 3);
    add(list, 37, 5, 64, MT_ROPE_INTERLEAVED, false, MT_F32, 0);
    add(list, 67, 4, 128, MT_ROPE_HALF, true, MT_F32, 1);
    add(list, 5, 2, 6, MT_ROPE_HALF, false, MT_BF16, 0)->no_gradient = true;
    add(list, 5, 2, 6, MT_ROPE_INTERLEAVED, false, MT_F16, 0)->no_gradient = true;
    add(list, 9, 3, 64, MT_ROPE_HALF, false, MT_BF16, 8);
    add(list, 9, 3, 64, MT_ROPE_INTERLEAVED, true, MT_BF16, 8);
    add(list, 9, 3, 72, MT_ROPE_HALF, false, MT_F32, 0); // half of it is no eights
    add(list, 0, 2, 6, MT_ROPE_HALF, false, MT_F32, 0)->no_gradient = true;
    add_in_place(list, 131, 4, 0, 66, MT_ROPE_HALF, false);
    add_in_place(list, 131, 4, 0, 66, MT_ROPE_INTERLEAVED, true);
    add_in_place(list, 33, 5, 12, 8, MT_ROPE_HALF, true);
    add_in_place(list, 33, 5, 7, 10, MT_ROPE_INTERLEAVED, false);
    add_in_place(list, 33, 5, 128, 64, MT_ROPE_INTERLEAVED, true)->slot[X].dtype = MT_BF16;
    add_in_place(list, 33, 5, 16, 64, MT_ROPE_HALF, false);

    make_speed(add(list, 4096, 32, 128, MT_ROPE_HALF, false, MT_F32, 0), 4096, 32, 1024);
    make_speed(add_in_place(list, 4096, 32, 0, 128, MT_ROPE_HALF, false), 4096, 32, 1024);
    make_speed(add_in_place(list, 4096, 16, 128, 64, MT_ROPE_INTERLEAVED, false), 4096, 16, 1024);
    make_speed(add_in_place(list, 4096, 16, 0, 64, MT_ROPE_INTERLEAVED, false), 4096, 16, 1024);
}
