/*
 * Cases of embedding: ids that repeat, ids that are all the same, tables in every type, padded rows. The
 * gradient of a repeated id is summed in the order of t, so ref's bits are expected.
 */
#include "base/rng.h"
#include "ops/case_files.h"

enum { TABLE, IDS, Y, DY, DTABLE };
enum { IDS_KIND };
enum { IDS_RANDOM, IDS_EQUAL, IDS_DISTINCT };

#define EXACT 1e-30

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    int64_t vocabulary = c->slot[TABLE].dim[0];
    int32_t *ids = t[IDS].data;
    for (int64_t i = 0; i < t[IDS].dim[0]; i++) {
        if (c->param[IDS_KIND] == IDS_RANDOM) {
            ids[i] = (int32_t)mt_rng_below(3, 0, (uint64_t)i, (uint64_t)vocabulary);
        } else if (c->param[IDS_KIND] == IDS_EQUAL) {
            ids[i] = (int32_t)(vocabulary - 1);
        } else {
            ids[i] = (int32_t)(i * 7919 % vocabulary); // a prime: distinct while T <= V
        }
    }
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_embedding_forward(
        device, &(struct mt_embedding_forward_args){.table = t[TABLE], .ids = t[IDS], .y = t[Y]});
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    (void)c;
    return mt_embedding_backward(
        device, &(struct mt_embedding_backward_args){.dy = t[DY], .ids = t[IDS], .dtable = t[DTABLE]});
}

static struct op_case *add(struct case_list *list, int64_t tokens, int64_t vocabulary, int64_t width,
                           int ids_kind, enum mt_dtype table_type, int64_t padding)
{
    static const char *const kinds[] = {"random", "equal", "distinct"};
    struct op_case *c = case_new(list, MT_OP_embedding_forward, "T=%d V=%d d=%d %s ids, table %s%s",
                                 (int)tokens, (int)vocabulary, (int)width, kinds[ids_kind],
                                 mt_dtype_name(table_type), padding != 0 ? " padded" : "");
    c->backward_op = MT_OP_embedding_backward;
    c->param[IDS_KIND] = ids_kind;
    c->tolerance = EXACT;
    c->fill = fill;
    c->forward = forward;
    c->backward = backward;
    case_slot(c, "table", SLOT_INPUT, table_type, 2, (int64_t[]){vocabulary, width});
    case_index(c, "ids", 1, (int64_t[]){tokens});
    case_output(c, "y", 2, (int64_t[]){tokens, width});
    case_grad_in(c, "dy", Y);
    case_grad_out(c, "dtable", TABLE);
    c->slot[DTABLE].role = SLOT_GRAD_SUM;
    c->slot[TABLE].row_padding = padding;
    c->slot[Y].row_padding = padding;
    c->slot[DTABLE].row_padding = padding;
    return c;
}

void cases_embedding(struct case_list *list)
{
    add(list, 1, 5, 8, IDS_RANDOM, MT_F32, 0);
    add(list, 9, 4, 33, IDS_RANDOM, MT_F32, 3);
    add(list, 7, 11, 65, IDS_RANDOM, MT_BF16, 0);
    add(list, 7, 11, 17, IDS_DISTINCT, MT_F16, 1);
    add(list, 300, 3, 127, IDS_EQUAL, MT_F32, 0);
    add(list, 130, 50, 1025, IDS_RANDOM, MT_BF16, 0);
    add(list, 0, 3, 8, IDS_RANDOM, MT_F32, 0)->no_gradient = true;

    struct op_case *narrow = add(list, 6, 5, 19, IDS_RANDOM, MT_BF16, 0);
    narrow->slot[Y].dtype = MT_BF16;
    narrow->slot[DY].dtype = MT_BF16;

    struct op_case *speed = add(list, 4096, 16384, 2048, IDS_DISTINCT, MT_BF16, 0);
    double elements = 4096.0 * 2048.0;
    speed->only_speed = true;
    speed->slot[TABLE].fill = FILL_UNIFORM;
    speed->slot[DTABLE].fill = FILL_UNIFORM;
    speed->bytes = elements * (2 + 4);        // a table row in, a row of y out
    speed->backward_bytes = elements * 3 * 4; // dy in; dtable in and out, as all ids differ
}
