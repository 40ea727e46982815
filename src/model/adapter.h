/*
 * A LoRA adapter as PEFT saves it: adapter_config.json and adapter_model.safetensors, with tensors
 * "base_model.model.MODULE.lora_A.weight" and ".lora_B.weight" (or ".lora_A.default.weight"). Beside an
 * adapted head PEFT also saves the head itself, which must then be the model's.
 *
 * An adapter says by itself which maps have a pair, of which rank and scale:
 *
 *     mt_adapter_open(ctx, directory, &adapter);
 *     mt_adapter_select(&adapter, &selection);
 *     mt_params_load(device, &desc, &checkpoint, &selection, &params);
 *     mt_adapter_apply(&adapter, &params);
 *     mt_adapter_close(&adapter);
 */
#ifndef MT_MODEL_ADAPTER_H
#define MT_MODEL_ADAPTER_H

#include "formats/safetensors.h"
#include "model/params.h"

#define MT_ADAPTER_CONFIG  "adapter_config.json"
#define MT_ADAPTER_WEIGHTS "adapter_model.safetensors"

struct mt_adapter {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;  // owns the names
    struct mt_safetensors file;
    int rank;
    double alpha; // scale = alpha / rank; PEFT's use_rslora is already in it
    double dropout;
    const char **modules; // NULL-terminated, as on disk: "model.layers.0.self_attn.q_proj"
    size_t module_count;
    const struct mt_safetensors_tensor *head; // the copy of lm_head, or NULL
};

/* Opens a folder; refuses adapters that are more than pairs of matrices. The caller closes. */
enum mt_status mt_adapter_open(struct mt_context *ctx, const char *directory, struct mt_adapter *adapter);
void mt_adapter_close(struct mt_adapter *adapter); // a zeroed struct is allowed

/* Sets lora, lora_rank, lora_alpha and lora_dropout. The adapter must outlive the use of the selection. */
void mt_adapter_select(const struct mt_adapter *adapter, struct mt_train_selection *selection);

/* Copies the adapter into parameters with exactly these pairs, of this rank and scale. */
enum mt_status mt_adapter_apply(const struct mt_adapter *adapter, struct mt_params *params);

/* Opens, applies and closes. */
enum mt_status mt_params_load_adapter(struct mt_params *params, const char *directory);

#endif
