/* Between the files that read and write adapters. */
#ifndef MT_MODEL_ADAPTER_PARTS_H
#define MT_MODEL_ADAPTER_PARTS_H

#include "model/adapters/adapter.h"
#include "model/params/params.h"

/* Reads adapter_config.json; refuses what would change the result and is not done here. */
enum mt_status mt_adapter_read_config(struct mt_adapter *adapter, const char *path);

/* Most pairs a stack can hold. */
size_t mt_adapter_stack_most(const struct mt_model_desc *desc);

/* Appends the pairs of the stack's matrices to adapter->pairs, which has room for them. */
enum mt_status mt_adapter_add_stack(struct mt_adapter *adapter, const struct mt_model_desc *desc,
                                    const struct mt_safetensors_tensor *a,
                                    const struct mt_safetensors_tensor *b, int64_t layer);

/* True for a matrix of this letter of some routed expert's map ("gate_proj") in a layer. */
bool mt_adapter_is_of_map(const struct mt_param *param, int64_t layer, const char *map, char letter);

/* An adapter as parameters of the model it is for, on the processor. */
struct mt_adapter_base {
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_adapter adapter;
    struct mt_train_selection selection; // the adapter's
    struct mt_device *device;
    struct mt_params params;
};

/* Opens both folders. The caller closes, also after a failure. */
enum mt_status mt_adapter_base_open(struct mt_context *ctx, const char *adapter, const char *model,
                                    struct mt_adapter_base *base);
void mt_adapter_base_close(struct mt_adapter_base *base);

/* Whether all of A and B is zero: such a pair does nothing, and gets no gradient. */
bool mt_adapter_pair_is_zero(const struct mt_adapter_pair *pair);

#endif
