/* What metier inspect found out, for the two ways of printing it. */
#ifndef MT_CLI_INSPECT_H
#define MT_CLI_INSPECT_H

#include "arch/config.h"
#include "arch/model_check.h"
#include "arch/model_count.h"
#include "formats/safetensors/checkpoint.h"

enum inspect_weights {
    INSPECT_CONFIG_ONLY, // no weights: counts come from the config
    INSPECT_INDEX_ONLY,  // the index without its shards: names only
    INSPECT_FILES,
};

struct inspection {
    const char *directory;
    struct mt_hf_config config;
    struct mt_model_count count;
    struct mt_model_memory memory;
    enum inspect_weights weights;
    struct mt_model_check check; // zeroed with INSPECT_CONFIG_ONLY
    size_t file_count;
    size_t tensor_count;
    int64_t data_bytes; // of the files, or what the index says; -1: not known
    size_t dtype_tensors[MT_SAFETENSORS_DTYPE_COUNT];
    uint64_t dtype_bytes[MT_SAFETENSORS_DTYPE_COUNT];
};

/* True when a model could be loaded as far as names, shapes and types tell. */
bool inspect_is_sound(const struct inspection *inspection);

/* For people, on standard output. */
void inspect_print_text(const struct inspection *inspection);

/* One JSON object on standard output. */
enum mt_status inspect_print_json(struct mt_context *ctx, const struct inspection *inspection);

#endif
