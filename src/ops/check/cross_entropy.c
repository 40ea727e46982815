/* Argument check of cross_entropy. */
#include "ops/check/check.h"

#define NO_LOWEST INT32_MIN // any negative label means "ignored"

/* An optional tensor that makes sense only together with another one. */
static void check_needs(struct mt_check *c, const char *name, const struct mt_tensor *tensor,
                        const char *needed_name, const struct mt_tensor *needed)
{
    if (c->status != MT_OK || !mt_tensor_present(tensor) || mt_tensor_present(needed)) return;
    c->status = mt_fail(c->device->ctx, MT_ERR_USAGE, "%s is given without %s", name, needed_name);
}

static void check_low_rank(struct mt_check *c, const struct mt_cross_entropy_args *args)
{
    int64_t rank = mt_tensor_present(&args->hidden_xa) ? args->hidden_xa.dim[1] : 0;
    int64_t rows = args->hidden.dim[0];
    int64_t vocabulary = args->weight.dim[0];
    mt_check_optional_2d(c, "hidden_xa", &args->hidden_xa, MT_CHECK_FLOAT, rows, MT_ANY);
    check_needs(c, "hidden_xa", &args->hidden_xa, "weight_b", &args->weight_b);
    check_needs(c, "weight_b", &args->weight_b, "hidden_xa", &args->hidden_xa);
    check_needs(c, "dhidden_xa", &args->dhidden_xa, "hidden_xa", &args->hidden_xa);
    check_needs(c, "dweight_b", &args->dweight_b, "hidden_xa", &args->hidden_xa);
    mt_check_optional_2d(c, "weight_b", &args->weight_b, MT_CHECK_FLOAT, vocabulary, rank);
    mt_check_optional_2d(c, "dhidden_xa", &args->dhidden_xa, MT_CHECK_FLOAT, rows, rank);
    mt_check_optional_2d(c, "dweight_b", &args->dweight_b, MT_CHECK_STAT, vocabulary, rank);
}

static void check_gradients(struct mt_check *c, const struct mt_cross_entropy_args *args)
{
    const struct {
        const char *name;
        const struct mt_tensor *tensor;
    } gradients[] = {
        {"dhidden", &args->dhidden},       {"dweight", &args->dweight},     {"dbias", &args->dbias},
        {"dhidden_xa", &args->dhidden_xa}, {"dweight_b", &args->dweight_b},
    };
    int64_t rows = args->hidden.dim[0];
    int64_t width = args->hidden.dim[1];
    int64_t vocabulary = args->weight.dim[0];
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        check_needs(c, gradients[i].name, gradients[i].tensor, "dloss", &args->dloss);
    }
    mt_check_optional_1d(c, "dloss", &args->dloss, MT_CHECK_STAT, rows);
    mt_check_optional_2d(c, "dhidden", &args->dhidden, MT_CHECK_FLOAT, rows, width);
    mt_check_optional_2d(c, "dweight", &args->dweight, MT_CHECK_STAT, vocabulary, width);
    check_needs(c, "dbias", &args->dbias, "bias", &args->bias);
    mt_check_optional_1d(c, "dbias", &args->dbias, MT_CHECK_STAT, vocabulary);
}

void mt_check_cross_entropy(struct mt_check *c, const struct mt_cross_entropy_args *args)
{
    mt_check_2d(c, "hidden", &args->hidden, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    int64_t rows = args->hidden.dim[0];
    mt_check_2d(c, "weight", &args->weight, MT_CHECK_FLOAT, MT_ANY, args->hidden.dim[1]);
    int64_t vocabulary = args->weight.dim[0];
    if (c->status == MT_OK && vocabulary == 0)
        c->status = mt_fail(c->device->ctx, MT_ERR_SHAPE, "weight has no rows: the vocabulary is empty");
    mt_check_optional_1d(c, "bias", &args->bias, MT_CHECK_FLOAT, vocabulary);
    mt_check_1d(c, "loss", &args->loss, MT_CHECK_STAT, rows);
    mt_check_optional_1d(c, "lse", &args->lse, MT_CHECK_STAT, rows);
    check_low_rank(c, args);
    check_gradients(c, args);
    mt_check_value(c, args->chunk_rows >= 0, "chunk_rows", (double)args->chunk_rows,
                   "0 (the device chooses) or more");
    mt_check_1d(c, "labels", &args->labels, MT_CHECK_INDEX, rows);
    mt_check_range(c, "labels", &args->labels, NO_LOWEST, vocabulary);
}
