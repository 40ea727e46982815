/*
 * Cases of cross_entropy. One op computes loss and gradients: forward calls it for the loss alone, backward
 * with gradients. "one pass" cases do both in a single call, with every output compared.
 */
#include <math.h>

#include "base/rng.h"
#include "ops/case_files.h"
#include "tensor/dtype.h"

enum {
    HIDDEN,
    WEIGHT,
    BIAS,
    HIDDEN_LOW,
    WEIGHT_LOW,
    LABELS,
    LOSS,
    LSE,
    DLOSS,
    DHIDDEN,
    DWEIGHT,
    DBIAS,
    DHIDDEN_LOW,
    DWEIGHT_LOW,
};

enum { PRESENT, CHUNK_ROWS, LABEL_PATTERN, ONE_PASS };

// param[PRESENT]: the optional tensors of a case.
enum {
    WITH_BIAS = 1 << 0,
    WITH_LOW = 1 << 1,
    WITH_LSE = 1 << 2,
    WITH_DHIDDEN = 1 << 3,
    WITH_DWEIGHT = 1 << 4,
    WITH_DBIAS = 1 << 5,
    WITH_DHIDDEN_LOW = 1 << 6,
    WITH_DWEIGHT_LOW = 1 << 7,
    WITH_ALL = (1 << 8) - 1,
    WITH_PLAIN = WITH_LSE | WITH_DHIDDEN | WITH_DWEIGHT, // all that needs no bias and no low-rank pair
};

enum label_pattern { LABELS_MIXED, LABELS_ALL, LABELS_NONE, LABELS_FEW };

struct shape {
    int64_t rows, width, vocabulary, rank; // N, d, V, r
    int present;
    int chunk_rows;
    enum mt_dtype weight_type;
    enum label_pattern labels;
};

static void fill(const struct op_case *c, struct mt_tensor *t)
{
    int32_t *labels = t[LABELS].data;
    uint64_t vocabulary = (uint64_t)c->slot[WEIGHT].dim[0];
    for (int64_t i = 0; i < t[LABELS].dim[0]; i++) {
        bool ignored = false;
        switch ((enum label_pattern)c->param[LABEL_PATTERN]) {
        case LABELS_MIXED: ignored = i % 3 == 1; break;
        case LABELS_ALL: break;
        case LABELS_NONE: ignored = true; break;
        case LABELS_FEW: ignored = i % 11 != 4; break;
        }
        labels[i] = (int32_t)mt_rng_below(5, 6, (uint64_t)i, vocabulary);
        if (i == 0) labels[i] = 0;
        if (i == 2) labels[i] = (int32_t)vocabulary - 1;
        if (ignored) labels[i] = i % 2 == 0 ? -1 : -100;
    }
}

static enum mt_status run(struct mt_device *device, const struct op_case *c, struct mt_tensor *t,
                          bool gradients)
{
    int64_t present = c->param[PRESENT];
    struct mt_cross_entropy_args args = {.hidden = t[HIDDEN],
                                         .weight = t[WEIGHT],
                                         .labels = t[LABELS],
                                         .loss = t[LOSS],
                                         .chunk_rows = (int)c->param[CHUNK_ROWS]};
    if (present & WITH_BIAS) args.bias = t[BIAS];
    if (present & WITH_LSE) args.lse = t[LSE];
    if (present & WITH_LOW) {
        args.hidden_xa = t[HIDDEN_LOW];
        args.weight_b = t[WEIGHT_LOW];
    }
    if (gradients) {
        args.dloss = t[DLOSS];
        if (present & WITH_DHIDDEN) args.dhidden = t[DHIDDEN];
        if (present & WITH_DWEIGHT) args.dweight = t[DWEIGHT];
        if (present & WITH_DBIAS) args.dbias = t[DBIAS];
        if (present & WITH_DHIDDEN_LOW) args.dhidden_xa = t[DHIDDEN_LOW];
        if (present & WITH_DWEIGHT_LOW) args.dweight_b = t[DWEIGHT_LOW];
    }
    return mt_cross_entropy(device, &args);
}

static enum mt_status forward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return run(device, c, t, c->param[ONE_PASS] != 0);
}

static enum mt_status backward(struct mt_device *device, const struct op_case *c, struct mt_tensor *t)
{
    return run(device, c, t, true);
}

/* An optional tensor: when absent, one element nobody touches. */
static void optional(struct op_case *c, const char *name, enum slot_role role, enum mt_dtype dtype, int rank,
                     const int64_t *dims, bool present)
{
    static const int64_t one[] = {1};
    if (present) {
        case_slot(c, name, role, dtype, rank, dims);
    } else {
        case_slot(c, name, SLOT_INPUT, MT_F32, 1, one);
    }
}

static void add_gradient(struct op_case *c, const char *name, int of, bool accumulated, int bit)
{
    if (c->param[PRESENT] & bit) {
        int slot = case_grad_out(c, name, of);
        if (c->param[ONE_PASS]) {
            c->slot[slot].role = accumulated ? SLOT_UPDATED : SLOT_OUTPUT;
        } else if (accumulated) {
            c->slot[slot].role = SLOT_GRAD_SUM;
        }
    } else {
        optional(c, name, SLOT_INPUT, MT_F32, 1, NULL, false);
    }
}

static struct op_case *add(struct case_list *list, const char *what, bool one_pass, struct shape s)
{
    struct op_case *c = case_new(list, MT_OP_cross_entropy, "N=%d d=%d V=%d r=%d chunk %d weight %s %s%s",
                                 (int)s.rows, (int)s.width, (int)s.vocabulary, (int)s.rank, s.chunk_rows,
                                 mt_dtype_name(s.weight_type), what, one_pass ? " one pass" : "");
    int64_t rows[] = {s.rows};
    int64_t columns[] = {s.vocabulary};
    int64_t hidden[] = {s.rows, s.width};
    int64_t weight[] = {s.vocabulary, s.width};
    int64_t hidden_xa[] = {s.rows, s.rank};
    int64_t weight_b[] = {s.vocabulary, s.rank};
    bool low = (s.present & WITH_LOW) != 0;
    c->param[PRESENT] = s.present;
    c->param[CHUNK_ROWS] = s.chunk_rows;
    c->param[LABEL_PATTERN] = s.labels;
    c->param[ONE_PASS] = one_pass;
    c->fill = fill;
    c->forward = forward;
    c->backward = one_pass ? NULL : backward;
    c->no_gradient = one_pass;
    case_input(c, "hidden", 2, hidden);
    case_slot(c, "weight", SLOT_INPUT, s.weight_type, 2, weight);
    c->slot[WEIGHT].scale = 3.0 / sqrt((double)s.width + 1.0);
    optional(c, "bias", SLOT_INPUT, s.weight_type, 1, columns, (s.present & WITH_BIAS) != 0);
    optional(c, "hidden_xa", SLOT_INPUT, MT_F32, 2, hidden_xa, low);
    optional(c, "weight_b", SLOT_INPUT, s.weight_type, 2, weight_b, low);
    c->slot[WEIGHT_LOW].scale = 0.3;
    case_index(c, "labels", 1, rows);
    case_output(c, "loss", 1, rows);
    optional(c, "lse", SLOT_OUTPUT, MT_F32, 1, rows, (s.present & WITH_LSE) != 0);
    case_grad_in(c, "dloss", LOSS);
    if (one_pass) c->slot[DLOSS].role = SLOT_INPUT;
    add_gradient(c, "dhidden", HIDDEN, false, WITH_DHIDDEN);
    add_gradient(c, "dweight", WEIGHT, true, WITH_DWEIGHT);
    add_gradient(c, "dbias", BIAS, true, WITH_DBIAS);
    add_gradient(c, "dhidden_xa", HIDDEN_LOW, false, WITH_DHIDDEN_LOW);
    add_gradient(c, "dweight_b", WEIGHT_LOW, true, WITH_DWEIGHT_LOW);
    return c;
}

static void add_small(struct case_list *list)
{
    add(list, "", false, (struct shape){1, 8, 33, 0, WITH_PLAIN, 0, MT_F32, LABELS_ALL});
    add(list, "no rows", false, (struct shape){0, 8, 33, 0, WITH_PLAIN, 0, MT_F32, LABELS_ALL});
    add(list, "one word", false, (struct shape){4, 8, 1, 0, WITH_PLAIN, 0, MT_F32, LABELS_ALL});
    add(list, "one column", false, (struct shape){5, 1, 7, 1, WITH_ALL, 0, MT_F32, LABELS_MIXED});
    add(list, "all ignored", false, (struct shape){6, 9, 35, 3, WITH_ALL, 2, MT_BF16, LABELS_NONE});
    add(list, "everything", false, (struct shape){13, 24, 101, 5, WITH_ALL, 1, MT_F32, LABELS_MIXED});
    add(list, "everything", false, (struct shape){13, 24, 101, 5, WITH_ALL, 5, MT_BF16, LABELS_MIXED});
    add(list, "everything", false, (struct shape){13, 24, 101, 5, WITH_ALL, 1000, MT_F16, LABELS_MIXED});

    static const struct {
        const char *what;
        int present;
    } alone[] = {
        {"loss alone", 0},
        {"lse alone", WITH_LSE},
        {"dhidden alone", WITH_DHIDDEN},
        {"dweight alone", WITH_DWEIGHT},
        {"dbias alone", WITH_BIAS | WITH_DBIAS},
        {"dhidden_xa alone", WITH_LOW | WITH_DHIDDEN_LOW},
        {"dweight_b alone", WITH_LOW | WITH_DWEIGHT_LOW},
        {"bias, low pair, no gradient of theirs", WITH_BIAS | WITH_LOW | WITH_DHIDDEN},
    };
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        struct shape shape = {7, 12, 29, 4, alone[i].present, 3, MT_BF16, LABELS_MIXED};
        struct op_case *c = add(list, alone[i].what, false, shape);
        if (i < 2) c->no_gradient = true; // nothing to differentiate
        add(list, alone[i].what, true, shape);
    }
}

static void add_larger(struct case_list *list)
{
    // Several tiles of the vocabulary, the last one a single column; several chunks; nearly all ignored.
    struct shape tiles = {37, 40, 1537, 6, WITH_ALL, 9, MT_BF16, LABELS_MIXED};
    add(list, "several tiles", true, tiles);
    tiles.labels = LABELS_FEW;
    add(list, "few labels", true, tiles);
    tiles.present &= ~WITH_LSE;
    add(list, "few labels, no lse", true, tiles);
    struct op_case *c = add(list, "padded", true, tiles);
    c->slot[HIDDEN].row_padding = 3;
    c->slot[WEIGHT].row_padding = 5;
    c->slot[HIDDEN_LOW].row_padding = 1;
    c->slot[WEIGHT_LOW].row_padding = 2;
    c->slot[DHIDDEN].row_padding = 7;
    c->slot[DWEIGHT].row_padding = 9;
    c->slot[DHIDDEN_LOW].row_padding = 4;
    c->slot[DWEIGHT_LOW].row_padding = 3;

    // Logits in the hundreds: exp without care would overflow.
    struct shape sharp = {19, 33, 700, 0, WITH_PLAIN, 0, MT_F32, LABELS_MIXED};
    c = add(list, "huge logits", true, sharp);
    c->slot[HIDDEN].scale = 300.0;

    // Rows so long that a device gives a block to each, and longer than its shared memory.
    add(list, "long rows", true, (struct shape){5, 16, 8200, 0, WITH_PLAIN, 3, MT_BF16, LABELS_MIXED});
    add(list, "longer rows", true, (struct shape){3, 8, 65544, 0, WITH_PLAIN, 0, MT_BF16, LABELS_MIXED});

    // Activations in bf16: ref's part.
    c = add(list, "bf16 activations", true, (struct shape){5, 70, 40, 3, WITH_ALL, 2, MT_BF16, LABELS_MIXED});
    c->slot[HIDDEN].dtype = MT_BF16;
    c->slot[DHIDDEN].dtype = MT_BF16;
}

static void add_speed(struct case_list *list)
{
    struct shape head = {512, 2048, 102400, 0, WITH_DHIDDEN, 0, MT_BF16, LABELS_ALL};
    struct op_case *c = add(list, "loss; dhidden", false, head);
    double product = 2.0 * 512 * 2048 * 102400;
    c->only_speed = true;
    c->flops = product;
    c->backward_flops = 2 * product; // logits again, dhidden

    struct shape small = {512, 1024, 32000, 0, WITH_DHIDDEN | WITH_DWEIGHT, 0, MT_BF16, LABELS_ALL};
    c = add(list, "loss; dhidden, dweight", false, small);
    product = 2.0 * 512 * 1024 * 32000;
    c->only_speed = true;
    c->flops = product;
    c->backward_flops = 3 * product; // logits again, dhidden, dweight
}

void cases_cross_entropy(struct case_list *list)
{
    add_small(list);
    add_larger(list);
    add_speed(list);
}
