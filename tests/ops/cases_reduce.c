/* Cases of reduce: every kind and type, padded rows, accumulation, NaN and infinities, empty tensors. */
#include <math.h>

#include "ops/case_files.h"
#include "tensor/dtype.h"

enum { X, OUT };
enum { KIND, ACCUMULATE, SPECIALS };
enum { SPECIALS_NONE, SPECIALS_INF, SPECIALS_NAN };

static void fill_specials(const struct op_case *c, struct mt_tensor *t)
{
    int64_t width = t[X].dim[t[X].rank - 1];
    double special = c->param[SPECIALS] == SPECIALS_NAN ? (double)NAN : (double)-INFINITY;
    if (width < 8) return;
    mt_store(t[X].dtype, t[X].data, 1, special);
    mt_store(t[X].dtype, t[X].data, width - 1, special);
    mt_store(t[X].dtype, t[X].data, width / 2, (double)-INFINITY);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return mt_reduce(device, &(struct mt_reduce_args){
                                 .x = t[X],
                                 .out = t[OUT],
                                 .kind = (enum mt_reduce_kind)c->param[KIND],
                                 .accumulate = c->param[ACCUMULATE] != 0,
                             });
}

static struct op_case *add(struct case_list *list, int rank, const int64_t *dims, enum mt_reduce_kind kind,
                           bool accumulate, int specials, enum mt_dtype dtype, int64_t padding)
{
    static const char *const kinds[] = {"sum", "sum of squares", "max abs", "nonfinite"};
    static const char *const contents[] = {"", " with inf", " with NaN"};
    struct op_case *c = case_new(list, MT_OP_reduce, "[%d,%d] %s %s%s%s%s", rank == 1 ? 1 : (int)dims[0],
                                 (int)dims[rank - 1], mt_dtype_name(dtype), kinds[kind], contents[specials],
                                 accumulate ? " accumulate" : "", padding != 0 ? " padded" : "");
    c->param[KIND] = kind;
    c->param[ACCUMULATE] = accumulate;
    c->param[SPECIALS] = specials;
    c->tolerance = 1e-12;
    c->forward = forward;
    if (specials != SPECIALS_NONE) c->fill = fill_specials;
    case_slot(c, "x", SLOT_INPUT, dtype, rank, dims);
    case_slot(c, "out", accumulate ? SLOT_UPDATED : SLOT_OUTPUT, MT_F64, 1, (int64_t[]){1});
    c->slot[X].row_padding = padding;
    return c;
}

void cases_reduce(struct case_list *list)
{
    for (int number = MT_REDUCE_SUM; number <= MT_REDUCE_NONFINITE; number++) {
        enum mt_reduce_kind kind = (enum mt_reduce_kind)number;
        add(list, 1, (int64_t[]){1}, kind, false, SPECIALS_NONE, MT_F32, 0);
        add(list, 1, (int64_t[]){100003}, kind, false, SPECIALS_NONE, MT_F32, 0);
        add(list, 2, (int64_t[]){9, 33}, kind, true, SPECIALS_NONE, MT_F32, 3);
        add(list, 2, (int64_t[]){3, 9001}, kind, false, SPECIALS_INF, MT_F32, 1);
        add(list, 2, (int64_t[]){300, 100}, kind, true, SPECIALS_NAN, MT_F32, 0);
        add(list, 2, (int64_t[]){9, 3333}, kind, false, SPECIALS_NONE, MT_BF16, 5);
        add(list, 2, (int64_t[]){9, 3333}, kind, false, SPECIALS_INF, MT_F16, 0);
        add(list, 2, (int64_t[]){5, 7}, kind, false, SPECIALS_NONE, MT_F64, 2);
        add(list, 2, (int64_t[]){0, 8}, kind, false, SPECIALS_NONE, MT_F32, 0);
        add(list, 2, (int64_t[]){0, 8}, kind, true, SPECIALS_NONE, MT_F32, 0);

        // Only read: memcpy's figure counts what is read and what is written.
        struct op_case *speed = add(list, 2, (int64_t[]){8192, 2048}, kind, false, SPECIALS_NONE, MT_F32, 0);
        speed->only_speed = true;
        speed->bytes = 8192.0 * 2048.0 * 4;
    }
}
