/* A model folder opened on a device, as far as its parameters. */
#ifndef MT_TESTS_OPENED_MODEL_H
#define MT_TESTS_OPENED_MODEL_H

#include "model/params/params.h"
#include "support/small_models.h"

struct opened_model {
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_device *device;
    struct mt_params params;
};

/* Opens the workplace's folder on the cpu device, without parameters yet; returns 0 on success. */
int opened_model_open(const struct workplace *place, struct opened_model *opened);

/* Makes a small model in the workplace first. */
int opened_model_make(const struct workplace *place, const struct mt_arch *model, enum mt_hf_float dtype,
                      struct opened_model *opened);

/* Sets the parameters up, after freeing those of an earlier call. */
enum mt_status opened_model_load(struct opened_model *opened, const struct mt_train_selection *selection);

/* Closes everything and empties the workplace; the bytes still allocated: 0 unless something leaked. */
size_t opened_model_close(const struct workplace *place, struct opened_model *opened);

/* The trained parameter of that name, or NULL. */
const struct mt_param *opened_model_trained(const struct opened_model *opened, const char *name);

/* Whether rows of two tensors of a checkpoint, of one shape, have the same bytes, wherever they lie. */
bool opened_model_same_rows(const struct mt_safetensors_tensor *a, int64_t row_a,
                            const struct mt_safetensors_tensor *b, int64_t row_b, int64_t rows);

#endif
