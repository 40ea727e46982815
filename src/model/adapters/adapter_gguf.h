/*
 * An adapter as llama.cpp reads it: one GGUF file with
 *
 *     blk.L.NAME.weight.lora_a [r,in] and .lora_b [out,r]     of a linear layer
 *     blk.L.ffn_gate_exps.weight.lora_a [n,r,in], ...         of all routed experts of a layer
 *
 * Pairs that llama.cpp leaves out, or stops at, are known by architecture (mt_model_loaders).
 */
#ifndef MT_MODEL_ADAPTER_GGUF_H
#define MT_MODEL_ADAPTER_GGUF_H

#include "model/adapters/adapter.h"

struct mt_adapter_gguf_options {
    const char *adapter;      // the folder to read
    const char *model;        // the folder of the model it is for
    const char *path;         // the file to write, whole or not at all
    bool drop;                // leave out what llama.cpp has no place for; otherwise that is refused
    const struct mt_log *log; // a warning says what was left out; borrowed; NULL: silent
};

/* Writes an adapter as a GGUF file. */
enum mt_status mt_adapter_to_gguf(struct mt_context *ctx, const struct mt_adapter_gguf_options *options);

#endif
