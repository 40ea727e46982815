/* Fuzz target: bytes as config.json (then its tensor list), generation_config.json, tokenizer_config.json. */
// With: src/arch/*.c src/arch/published/*.c
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arch/model_count.h"
#include "formats/hf/hf_generation.h"
#include "formats/hf/hf_tokenizer_config.h"

#define MOST_TENSORS 500 // a walk over more takes longer than a try should

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void walk_tensors(const struct mt_hf_config *config)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    for (int i = 0; i < MOST_TENSORS && mt_model_tensors_next(&walk, &tensor); i++) {
        demand(strlen(tensor.name) + 1 < sizeof tensor.name);
        demand(mt_model_tensor_count(&tensor) > 0);
    }
    if (config->layers * config->experts > MOST_TENSORS) return;
    struct mt_model_count count;
    struct mt_model_memory memory;
    mt_model_count(config, &count);
    demand(count.all > 0 && count.all_active > 0 && count.all_active <= count.all);
    mt_model_memory(config, 2 * count.all, 32, 4096, &memory);
    demand(memory.all_bytes > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_hf_config config;
    if (mt_hf_config_read(&ctx, "fuzz", data, size, &config) == MT_OK) {
        walk_tensors(&config);
        mt_hf_config_free(&config);
    } else {
        demand(ctx.message[0] != '\0');
    }
    struct mt_hf_generation generation;
    if (mt_hf_generation_read(&ctx, "fuzz", data, size, &generation) == MT_OK) {
        mt_hf_generation_free(&generation);
    }
    struct mt_hf_tokenizer_config tokenizer;
    if (mt_hf_tokenizer_config_read(&ctx, "fuzz", data, size, &tokenizer) == MT_OK) {
        mt_hf_tokenizer_config_free(&tokenizer);
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
