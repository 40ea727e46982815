/* Sums of squares over every weight: of the base, of the change, of what the adapter adds, of the rest. */
#include "model/files/merge_check.h"

#include <math.h>

#include "model/adapters/adapter.h"

struct sums {
    double base, change, expected, off;
};

struct checking {
    struct mt_context *ctx;
    struct mt_hf_config config;
    struct mt_checkpoint base, merged;
    struct mt_adapter adapter;
    bool adapted;
    struct sums sums[MT_MODEL_PART_COUNT];
    struct mt_merge_check *check;
};

static bool is_float(const struct mt_safetensors_tensor *tensor)
{
    return tensor->dtype == MT_SAFETENSORS_F32 || tensor->dtype == MT_SAFETENSORS_BF16 ||
           tensor->dtype == MT_SAFETENSORS_F16;
}

static bool same_shape(const struct mt_safetensors_tensor *a, const struct mt_safetensors_tensor *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++) same = a->dim[i] == b->dim[i];
    return same;
}

/* Adds a tensor; a [r,in], b [out,r] of its pair, or NULL. */
static void add_tensor(struct checking *c, const struct mt_model_tensor *tensor,
                       const struct mt_safetensors_tensor *base, const struct mt_safetensors_tensor *merged,
                       const float *a, const float *b)
{
    struct sums *sums = &c->sums[tensor->part];
    int64_t columns = tensor->rank == 2 ? tensor->dim[1] : 1;
    int64_t rows = mt_model_tensor_count(tensor) / columns;
    double scale = b != NULL ? c->adapter.alpha / c->adapter.rank : 0.0;
    double before = sums->change;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double value = (double)mt_adapter_value(base, i * columns + j);
            double change = (double)mt_adapter_value(merged, i * columns + j) - value;
            double expected = 0.0;
            for (int64_t k = 0; b != NULL && k < c->adapter.rank; k++)
                expected += (double)b[i * c->adapter.rank + k] * (double)a[k * columns + j];
            expected *= scale;
            sums->base += value * value;
            sums->change += change * change;
            sums->expected += expected * expected;
            sums->off += (change - expected) * (change - expected);
        }
    }
    c->check->part[tensor->part].changed += sums->change > before ? 1 : 0;
}

static enum mt_status add_pair(struct checking *c, const struct mt_model_tensor *tensor,
                               const struct mt_safetensors_tensor *base,
                               const struct mt_safetensors_tensor *merged, const struct mt_adapter_pair *pair)
{
    size_t rank = (size_t)c->adapter.rank;
    void *a = NULL;
    void *b = NULL;
    if (pair->out != tensor->dim[0] || pair->in != tensor->dim[1])
        return mt_fail(c->ctx, MT_ERR_SHAPE, "the adapter's pair for %s does not fit the base", tensor->name);
    enum mt_status status = mt_allocate_array(c->ctx, rank * (size_t)pair->in, sizeof(float), &a);
    if (status == MT_OK) status = mt_allocate_array(c->ctx, rank * (size_t)pair->out, sizeof(float), &b);
    if (status == MT_OK) {
        mt_adapter_read_pair(&c->adapter, pair, (int64_t)rank, a, b);
        add_tensor(c, tensor, base, merged, a, b);
        c->check->part[tensor->part].pairs++;
    }
    mt_release(c->ctx, a, rank * (size_t)pair->in * sizeof(float));
    mt_release(c->ctx, b, rank * (size_t)pair->out * sizeof(float));
    return status;
}

static enum mt_status look_at(struct checking *c, const struct mt_model_tensor *tensor)
{
    char module[MT_PARAMS_NAME_BYTES];
    struct mt_merge_checked *part = &c->check->part[tensor->part];
    const struct mt_safetensors_tensor *base = mt_checkpoint_find(&c->base, tensor->name);
    const struct mt_safetensors_tensor *merged = mt_checkpoint_find(&c->merged, tensor->name);
    if (base == NULL) return MT_OK; // as a head that is tied
    part->tensors++;
    if (merged == NULL || !same_shape(base, merged)) {
        part->missing++;
        return MT_OK;
    }
    if (!is_float(base) || !is_float(merged) || c->base.stacked || c->merged.stacked)
        return mt_fail(c->ctx, MT_ERR_UNSUPPORTED,
                       "%s is not stored as floats of its own: only these can be checked", tensor->name);
    mt_params_module_name(tensor->name, module, sizeof module);
    const struct mt_adapter_pair *pair =
        c->adapted && tensor->rank == 2 ? mt_adapter_find(&c->adapter, module) : NULL;
    double rounding = merged->dtype == MT_SAFETENSORS_BF16  ? 0x1p-9
                      : merged->dtype == MT_SAFETENSORS_F16 ? 0x1p-12
                                                            : 0x1p-25;
    if (rounding > c->check->rounding) c->check->rounding = rounding;
    if (pair != NULL) return add_pair(c, tensor, base, merged, pair);
    add_tensor(c, tensor, base, merged, NULL, NULL);
    return MT_OK;
}

enum mt_status mt_merge_check(struct mt_context *ctx, const char *base, const char *merged,
                              const char *adapter, struct mt_merge_check *check)
{
    struct checking c = {.ctx = ctx, .adapted = adapter != NULL, .check = check};
    struct mt_model_tensor tensor;
    *check = (struct mt_merge_check){0};
    enum mt_status status = mt_hf_config_read_folder(ctx, base, &c.config);
    if (status != MT_OK) return status;
    status = mt_checkpoint_open(ctx, base, &c.base);
    if (status == MT_OK) status = mt_checkpoint_open(ctx, merged, &c.merged);
    if (status == MT_OK && c.adapted) status = mt_adapter_open_for(ctx, adapter, base, &c.adapter);
    struct mt_model_tensors walk = mt_model_tensors_begin(&c.config);
    while (status == MT_OK && mt_model_tensors_next(&walk, &tensor)) status = look_at(&c, &tensor);
    for (int p = 0; p < MT_MODEL_PART_COUNT; p++) {
        const struct sums *sums = &c.sums[p];
        struct mt_merge_checked *part = &check->part[p];
        if (!(sums->base > 0.0)) continue;
        part->change = sqrt(sums->change / sums->base);
        part->expected = sqrt(sums->expected / sums->base);
        part->off = sqrt(sums->off / sums->base);
    }
    mt_adapter_close(&c.adapter);
    mt_checkpoint_close(&c.merged);
    mt_checkpoint_close(&c.base);
    mt_hf_config_free(&c.config);
    return status;
}
