/* adapter_config.json being written: what the adapter targets, in PEFT's words. */
#ifndef MT_MODEL_ADAPTER_CONFIG_WRITE_H
#define MT_MODEL_ADAPTER_CONFIG_WRITE_H

#include "model/adapters/adapter.h"

struct mt_adapter_targets {
    struct mt_arena *arena; // borrowed
    const struct mt_model_desc *desc;
    enum mt_adapter_layout layout;
    const char **modules; // adapted through target_modules
    size_t module_count;
    const char **parameters; // adapted through target_parameters
    size_t parameter_count;
    size_t capacity; // of each
    bool gate_up;    // some stack of gate and up is adapted
    bool wrapped;    // PEFT adapts something as a parameter, where it can have no dropout
};

/* Prepares empty lists with room for `capacity` names each; the layout is not auto. */
enum mt_status mt_adapter_targets_open(struct mt_adapter_targets *targets, struct mt_arena *arena,
                                       size_t capacity, const struct mt_model_desc *desc,
                                       enum mt_adapter_layout layout);

/* A linear layer with a pair of its own. */
enum mt_status mt_adapter_target_module(struct mt_adapter_targets *targets, const char *module,
                                        enum mt_model_part part);

/* The stacked gate_up_proj or down_proj of a layer. */
enum mt_status mt_adapter_target_stack(struct mt_adapter_targets *targets, int64_t layer, bool gate_up);

/* Writes the file. */
enum mt_status mt_adapter_write_config(const struct mt_adapter_targets *targets,
                                       const struct mt_adapter_write_options *options, const char *path);

#endif
