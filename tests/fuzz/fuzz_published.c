/*
 * Fuzz target: bytes as the weights of a quantised folder. The first byte says the format; what follows is
 * the header of a safetensors file whose length is always right, or a state of nf4 put into an otherwise
 * sound weight. What is accepted must be readable to the last code.
 */
// With: src/arch/*.c src/arch/published/*.c -fopenmp
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/model_check.h"
#include "arch/published/published.h"

#define OUT        6 // of the one matrix that is looked at
#define IN         64
#define DATA_BYTES 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static const char config_text[] =
    "{\"model_type\": \"qwen3_moe\", \"vocab_size\": 5, \"hidden_size\": 64, \"num_hidden_layers\": 1,"
    " \"num_attention_heads\": 1, \"num_key_value_heads\": 1, \"head_dim\": 6, \"intermediate_size\": 4,"
    " \"moe_intermediate_size\": 4, \"num_experts\": 2, \"num_experts_per_tok\": 1,"
    " \"max_position_embeddings\": 8}";

static void read_matrix(struct mt_context *ctx, const struct mt_published *published)
{
    struct mt_published_matrix matrix;
    float row[IN];
    volatile float last = 0.0f;
    if (mt_published_matrix_open(ctx, published, &matrix) != MT_OK) return;
    demand(matrix.matrix.in <= IN);
    for (int64_t i = 0; i < matrix.matrix.out; i++) {
        mt_dequantise_row(&matrix.matrix, i, 0, matrix.matrix.in, row);
        last = row[matrix.matrix.in - 1];
    }
    (void)last;
    mt_published_matrix_close(ctx, &matrix);
}

/* Every weight of the model, looked for in the file. */
static void walk(struct mt_context *ctx, const struct mt_hf_config *config,
                 const struct mt_checkpoint *checkpoint)
{
    struct mt_model_tensors tensors = mt_model_tensors_begin(config);
    struct mt_model_tensor tensor;
    struct mt_model_check check;
    while (mt_model_tensors_next(&tensors, &tensor)) {
        struct mt_published published;
        enum mt_status status = mt_published_find(config, checkpoint, &tensor, &published);
        demand(status == MT_OK || ctx->message[0] != '\0');
        if (status == MT_OK && published.quantised) read_matrix(ctx, &published);
    }
    if (mt_model_check_checkpoint(ctx, config, checkpoint, &check) == MT_OK) mt_model_check_free(&check);
}

static void try_file(const uint8_t *data, size_t size, enum mt_hf_quant_method method)
{
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_safetensors file;
    mt_context_init(&ctx, NULL);
    demand(mt_hf_config_read(&ctx, "config", config_text, sizeof config_text - 1, &config) == MT_OK);
    config.quant.method = method;
    if (mt_safetensors_open_memory(&ctx, "fuzz", data, size, &file) == MT_OK) {
        struct mt_checkpoint_tensor *list = calloc(file.tensor_count + 1, sizeof *list);
        for (size_t i = 0; list != NULL && i < file.tensor_count; i++) list[i].info = &file.tensors[i];
        const struct mt_checkpoint checkpoint = {.ctx = &ctx,
                                                 .shards = &file,
                                                 .shard_count = 1,
                                                 .tensors = list,
                                                 .tensor_count = file.tensor_count};
        if (list != NULL) walk(&ctx, &config, &checkpoint);
        free(list);
        mt_safetensors_close(&file);
    }
    mt_hf_config_free(&config);
    demand(ctx.live_bytes == 0);
}

/* A file of this header, with so much data as any header here needs; numbers of the data repeat the input. */
static void try_header(const char *header, size_t header_bytes, size_t data_bytes, const uint8_t *input,
                       size_t input_bytes, enum mt_hf_quant_method method)
{
    uint8_t *file = calloc(1, 8 + header_bytes + data_bytes);
    if (file == NULL) return;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
    memcpy(file + 8, header, header_bytes);
    for (size_t i = 0; input_bytes > 0 && i < data_bytes; i++)
        file[8 + header_bytes + i] = input[i % input_bytes];
    try_file(file, 8 + header_bytes + data_bytes, method);
    free(file);
}

/* nf4's parts, all sound but for the state, which is the input. */
static void try_state(const uint8_t *data, size_t size)
{
    char header[2048];
    uint8_t body[DATA_BYTES] = {0};
    size_t codes = OUT * IN / 2;
    size_t scales = OUT * IN / MT_NF4_BLOCK;
    if (size + codes + 4 * scales + sizeof mt_nf4_values > sizeof body) return;
    static const char name[] = "model.layers.0.self_attn.q_proj.weight";
    size_t end[4];
    end[0] = 4 * scales;
    end[1] = end[0] + sizeof mt_nf4_values;
    end[2] = end[1] + codes;
    end[3] = end[2] + size;
    memcpy(body + end[0], mt_nf4_values, sizeof mt_nf4_values);
    memcpy(body + end[2], data, size);
    int used = snprintf(header, sizeof header,
                        "{\"%s.absmax\":{\"dtype\":\"F32\",\"shape\":[%zu],\"data_offsets\":[0,%zu]},"
                        "\"%s.quant_map\":{\"dtype\":\"F32\",\"shape\":[16],\"data_offsets\":[%zu,%zu]},"
                        "\"%s\":{\"dtype\":\"U8\",\"shape\":[%zu,1],\"data_offsets\":[%zu,%zu]},"
                        "\"%s.quant_state.bitsandbytes__nf4\":{\"dtype\":\"U8\",\"shape\":[%zu],"
                        "\"data_offsets\":[%zu,%zu]}}",
                        name, scales, end[0], name, end[0], end[1], name, codes, end[1], end[2], name, size,
                        end[2], end[3]);
    try_header(header, (size_t)used, end[3], body, end[3], MT_HF_QUANT_NF4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum mt_hf_quant_method methods[] = {MT_HF_QUANT_FP8, MT_HF_QUANT_NF4, MT_HF_QUANT_MXFP4};
    if (size < 3) return 0;
    enum mt_hf_quant_method method = methods[data[0] % 3];
    size_t data_bytes = data[1] * (size_t)256 + data[2];
    if (data_bytes > DATA_BYTES) data_bytes = DATA_BYTES;
    try_file(data + 1, size - 1, method);
    try_header((const char *)data + 3, size - 3, data_bytes, data, size, method);
    try_state(data + 1, size - 1);
    return 0;
}
