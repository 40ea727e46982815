/* Opening small models. */
#include "support/opened_model.h"
#include "arch/published/stacks.h"

#include <stdlib.h>
#include <string.h>

int opened_model_open(const struct workplace *place, struct opened_model *opened)
{
    char path[128];
    *opened = (struct opened_model){0};
    mt_context_init(&opened->ctx, NULL);
    (void)workplace_path(place, "config.json", path, sizeof path);
    enum mt_status status = mt_hf_config_read(&opened->ctx, path, NULL, 0, &opened->config);
    if (status == MT_OK) status = mt_model_describe(&opened->ctx, &opened->config, &opened->desc);
    if (status == MT_OK)
        status = mt_stacks_open(&opened->ctx, place->directory, &opened->config, &opened->checkpoint);
    if (status == MT_OK) status = mt_device_create(&opened->ctx, "cpu", 1, &opened->device);
    return status == MT_OK ? 0 : 1;
}

int opened_model_make(const struct workplace *place, const struct mt_arch *model, enum mt_hf_float dtype,
                      struct opened_model *opened)
{
    if (small_model_make(place, small_model_config(model), dtype, 7) != 0) return 1;
    return opened_model_open(place, opened);
}

enum mt_status opened_model_load(struct opened_model *opened, const struct mt_train_selection *selection)
{
    mt_params_free(&opened->params);
    return mt_params_load(opened->device, &opened->desc, &opened->checkpoint, selection, &opened->params);
}

size_t opened_model_close(const struct workplace *place, struct opened_model *opened)
{
    mt_params_free(&opened->params);
    mt_device_destroy(opened->device);
    mt_checkpoint_close(&opened->checkpoint);
    mt_hf_config_free(&opened->config);
    workplace_clear(place);
    return opened->ctx.live_bytes;
}

bool opened_model_same_rows(const struct mt_safetensors_tensor *a, int64_t row_a,
                            const struct mt_safetensors_tensor *b, int64_t row_b, int64_t rows)
{
    int64_t columns = 1;
    for (int axis = 1; axis < a->rank; axis++) columns *= a->dim[axis];
    size_t bytes = (size_t)(rows * columns) * mt_safetensors_dtype_bytes(a->dtype);
    char *values = malloc(2 * bytes + 1);
    if (values == NULL) return false;
    mt_safetensors_read(a, row_a * columns, rows * columns, values);
    mt_safetensors_read(b, row_b * columns, rows * columns, values + bytes);
    bool same = memcmp(values, values + bytes, bytes) == 0;
    free(values);
    return same;
}

const struct mt_param *opened_model_trained(const struct opened_model *opened, const char *name)
{
    for (size_t i = 0; i < opened->params.trained_count; i++) {
        if (strcmp(opened->params.trained[i].name, name) == 0) return &opened->params.trained[i];
    }
    return NULL;
}
