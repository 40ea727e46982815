/* Argument check of cross_entropy. */
#include "ops/check/check.h"

#define NO_LOWEST INT32_MIN // any negative label means "ignored"

/* An optional tensor that makes sense only together with another one. */
static enum mt_status check_needs(const struct mt_device *device, const char *name,
                                  const struct mt_tensor *tensor, const char *needed_name,
                                  const struct mt_tensor *needed)
{
    if (!mt_tensor_present(tensor) || mt_tensor_present(needed)) return MT_OK;
    return mt_fail(device->ctx, MT_ERR_USAGE, "%s is given without %s", name, needed_name);
}

static enum mt_status check_optional_1d(const struct mt_device *device, const char *name,
                                        const struct mt_tensor *tensor, enum mt_check_type type, int64_t d0)
{
    if (!mt_tensor_present(tensor)) return MT_OK;
    return mt_check_1d(device, name, tensor, type, d0);
}

static enum mt_status check_optional_2d(const struct mt_device *device, const char *name,
                                        const struct mt_tensor *tensor, enum mt_check_type type, int64_t d0,
                                        int64_t d1)
{
    if (!mt_tensor_present(tensor)) return MT_OK;
    return mt_check_2d(device, name, tensor, type, d0, d1);
}

static enum mt_status check_low_rank(const struct mt_device *device, const struct mt_cross_entropy_args *args)
{
    int64_t rank = mt_tensor_present(&args->hidden_low) ? args->hidden_low.dim[1] : 0;
    int64_t rows = args->hidden.dim[0];
    int64_t vocabulary = args->weight.dim[0];
    enum mt_status status =
        check_optional_2d(device, "hidden_low", &args->hidden_low, MT_CHECK_FLOAT, rows, MT_ANY);
    if (status != MT_OK) return status;
    status = check_needs(device, "hidden_low", &args->hidden_low, "weight_low", &args->weight_low);
    if (status != MT_OK) return status;
    status = check_needs(device, "weight_low", &args->weight_low, "hidden_low", &args->hidden_low);
    if (status != MT_OK) return status;
    status = check_needs(device, "dhidden_low", &args->dhidden_low, "hidden_low", &args->hidden_low);
    if (status != MT_OK) return status;
    status = check_needs(device, "dweight_low", &args->dweight_low, "hidden_low", &args->hidden_low);
    if (status != MT_OK) return status;
    status = check_optional_2d(device, "weight_low", &args->weight_low, MT_CHECK_FLOAT, vocabulary, rank);
    if (status != MT_OK) return status;
    status = check_optional_2d(device, "dhidden_low", &args->dhidden_low, MT_CHECK_FLOAT, rows, rank);
    if (status != MT_OK) return status;
    return check_optional_2d(device, "dweight_low", &args->dweight_low, MT_CHECK_STAT, vocabulary, rank);
}

static enum mt_status check_gradients(const struct mt_device *device,
                                      const struct mt_cross_entropy_args *args)
{
    const struct {
        const char *name;
        const struct mt_tensor *tensor;
    } gradients[] = {
        {"dhidden", &args->dhidden},         {"dweight", &args->dweight},         {"dbias", &args->dbias},
        {"dhidden_low", &args->dhidden_low}, {"dweight_low", &args->dweight_low},
    };
    int64_t rows = args->hidden.dim[0];
    int64_t width = args->hidden.dim[1];
    int64_t vocabulary = args->weight.dim[0];
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        enum mt_status status =
            check_needs(device, gradients[i].name, gradients[i].tensor, "dloss", &args->dloss);
        if (status != MT_OK) return status;
    }
    enum mt_status status = check_optional_1d(device, "dloss", &args->dloss, MT_CHECK_STAT, rows);
    if (status != MT_OK) return status;
    status = check_optional_2d(device, "dhidden", &args->dhidden, MT_CHECK_FLOAT, rows, width);
    if (status != MT_OK) return status;
    status = check_optional_2d(device, "dweight", &args->dweight, MT_CHECK_STAT, vocabulary, width);
    if (status != MT_OK) return status;
    status = check_needs(device, "dbias", &args->dbias, "bias", &args->bias);
    if (status != MT_OK) return status;
    return check_optional_1d(device, "dbias", &args->dbias, MT_CHECK_STAT, vocabulary);
}

enum mt_status mt_check_cross_entropy(const struct mt_device *device,
                                      const struct mt_cross_entropy_args *args)
{
    enum mt_status status = mt_check_2d(device, "hidden", &args->hidden, MT_CHECK_FLOAT, MT_ANY, MT_ANY);
    if (status != MT_OK) return status;
    int64_t rows = args->hidden.dim[0];
    status = mt_check_2d(device, "weight", &args->weight, MT_CHECK_FLOAT, MT_ANY, args->hidden.dim[1]);
    if (status != MT_OK) return status;
    int64_t vocabulary = args->weight.dim[0];
    if (vocabulary == 0) {
        return mt_fail(device->ctx, MT_ERR_SHAPE, "weight has no rows: the vocabulary is empty");
    }
    status = check_optional_1d(device, "bias", &args->bias, MT_CHECK_FLOAT, vocabulary);
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "loss", &args->loss, MT_CHECK_STAT, rows);
    if (status != MT_OK) return status;
    status = check_optional_1d(device, "lse", &args->lse, MT_CHECK_STAT, rows);
    if (status != MT_OK) return status;
    status = check_low_rank(device, args);
    if (status != MT_OK) return status;
    status = check_gradients(device, args);
    if (status != MT_OK) return status;
    status = mt_check_value(device, args->chunk_rows >= 0, "chunk_rows", (double)args->chunk_rows,
                            "0 (the device chooses) or more");
    if (status != MT_OK) return status;
    status = mt_check_1d(device, "labels", &args->labels, MT_CHECK_INDEX, rows);
    if (status != MT_OK) return status;
    return mt_check_range(device, "labels", &args->labels, NO_LOWEST, vocabulary);
}
