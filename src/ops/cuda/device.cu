/* The CUDA device: memory, copies, and the table of what it has. */
#include <cstdio>
#include <cstring>

#include "ops/cuda/common/gpu.cuh"
#include "ops/cuda/common/recording.cuh"
#include "ops/cuda/products/gemm.cuh"

static void release_device_memory(struct mt_buffer *buffer)
{
    // Nothing sensible can be done about a failing free; the next call reports a broken context.
    (void)cudaFree(buffer->data);
}

static enum mt_status buffer_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    memset(buffer, 0, sizeof *buffer);
    void *data = NULL;
    cudaError_t error = cudaMalloc(&data, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) return cuda_refuse_bytes(device, bytes);
    if (error != cudaSuccess) return cuda_status(device, error, "allocating device memory");
    buffer->data = data;
    buffer->bytes = bytes;
    buffer->kind = MT_MEMORY_DEVICE;
    buffer->owned = true;
    buffer->owner = device;
    buffer->release = release_device_memory;
    return MT_OK;
}

static void release_pinned_memory(struct mt_buffer *buffer)
{
    (void)cudaFreeHost(buffer->data);
}

static enum mt_status staging_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    memset(buffer, 0, sizeof *buffer);
    void *data = NULL;
    cudaError_t error = cudaMallocHost(&data, bytes > 0 ? bytes : 1);
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError(); // it would be the next call's
        return mt_fail(device->ctx, MT_ERR_MEMORY, "%zu bytes of pinned host memory are more than there are",
                       bytes);
    }
    if (error != cudaSuccess) return cuda_status(device, error, "allocating pinned host memory");
    buffer->data = data;
    buffer->bytes = bytes;
    buffer->kind = MT_MEMORY_PINNED;
    buffer->owned = true;
    buffer->owner = device;
    buffer->release = release_pinned_memory;
    return MT_OK;
}

static enum mt_status synchronise(struct mt_device *device)
{
    if (cuda_state_of(device)->recording)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "nothing can be waited for in a recording");
    return cuda_status(device, cudaStreamSynchronize(cuda_stream(device)), "waiting for the device");
}

static enum mt_status copy(struct mt_device *device, void *target, const void *source, size_t bytes,
                           cudaMemcpyKind kind, const char *what)
{
    if (cuda_state_of(device)->recording)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "%s: not in a recording", what);
    enum mt_status status =
        cuda_status(device, cudaMemcpyAsync(target, source, bytes, kind, cuda_stream(device)), what);
    return status != MT_OK ? status : synchronise(device);
}

static enum mt_status upload(struct mt_device *device, void *target, const void *host, size_t bytes)
{
    return copy(device, target, host, bytes, cudaMemcpyHostToDevice, "copying to the device");
}

static enum mt_status download(struct mt_device *device, void *host, const void *source, size_t bytes)
{
    return copy(device, host, source, bytes, cudaMemcpyDeviceToHost, "copying from the device");
}

static void destroy_state(struct mt_device *device)
{
    struct cuda_state *state = static_cast<struct cuda_state *>(device->state);
    if (state == NULL) return;
    cuda_products_end(state);
    (void)cudaFree(state->counters);
    if (state->stream != NULL) (void)cudaStreamDestroy(state->stream);
    mt_release(device->ctx, state, sizeof *state);
    device->state = NULL;
}

/* What this device has, in the order of metier/ops.h. */
static const struct {
    enum mt_op op;
    struct mt_op_impl impl; // {run, scratch}
} table[] = {
    {MT_OP_gemm, {mt_cuda_gemm, mt_cuda_gemm_scratch}},
    {MT_OP_grouped_gemm, {mt_cuda_grouped_gemm, mt_cuda_grouped_gemm_scratch}},
    {MT_OP_grouped_gemm_dw, {mt_cuda_grouped_gemm_dw, mt_cuda_grouped_gemm_dw_scratch}},
    {MT_OP_grouped_sum, {mt_cuda_grouped_sum, mt_cuda_grouped_sum_scratch}},
    {MT_OP_grouped_swiglu, {mt_cuda_grouped_swiglu, mt_cuda_grouped_swiglu_scratch}},
    {MT_OP_grouped_swiglu_backward,
     {mt_cuda_grouped_swiglu_backward, mt_cuda_grouped_swiglu_backward_scratch}},
    {MT_OP_lora_low, {mt_cuda_lora_low, mt_cuda_lora_low_scratch}},
    {MT_OP_lora_dlow, {mt_cuda_lora_dlow, mt_cuda_lora_dlow_scratch}},
    {MT_OP_lora_da, {mt_cuda_lora_da, mt_cuda_lora_da_scratch}},
    {MT_OP_embedding_forward, {mt_cuda_embedding_forward, NULL}},
    {MT_OP_embedding_backward, {mt_cuda_embedding_backward, NULL}},
    {MT_OP_rmsnorm_forward, {mt_cuda_rmsnorm_forward, NULL}},
    {MT_OP_rmsnorm_backward, {mt_cuda_rmsnorm_backward, mt_cuda_rmsnorm_backward_scratch}},
    {MT_OP_layernorm_forward, {mt_cuda_layernorm_forward, NULL}},
    {MT_OP_layernorm_backward, {mt_cuda_layernorm_backward, mt_cuda_layernorm_backward_scratch}},
    {MT_OP_rope, {mt_cuda_rope, NULL}},
    {MT_OP_mla_key_forward, {mt_cuda_mla_key_forward, NULL}},
    {MT_OP_mla_key_backward, {mt_cuda_mla_key_backward, NULL}},
    {MT_OP_attention_forward, {mt_cuda_attention_forward, mt_cuda_attention_forward_scratch}},
    {MT_OP_attention_backward, {mt_cuda_attention_backward, mt_cuda_attention_backward_scratch}},
    {MT_OP_swiglu_forward, {mt_cuda_swiglu_forward, NULL}},
    {MT_OP_swiglu_backward, {mt_cuda_swiglu_backward, NULL}},
    {MT_OP_bias_forward, {mt_cuda_bias_forward, NULL}},
    {MT_OP_bias_backward, {mt_cuda_bias_backward, mt_cuda_bias_backward_scratch}},
    {MT_OP_sigmoid_gate_forward, {mt_cuda_sigmoid_gate_forward, NULL}},
    {MT_OP_sigmoid_gate_backward, {mt_cuda_sigmoid_gate_backward, NULL}},
    {MT_OP_axpby, {mt_cuda_axpby, NULL}},
    {MT_OP_fill, {mt_cuda_fill, NULL}},
    {MT_OP_copy, {mt_cuda_copy, NULL}},
    {MT_OP_clamp_forward, {mt_cuda_clamp_forward, NULL}},
    {MT_OP_clamp_backward, {mt_cuda_clamp_backward, NULL}},
    {MT_OP_random_multiply, {mt_cuda_random_multiply, NULL}},
    {MT_OP_dropout_bits, {mt_cuda_dropout_bits, NULL}},
    {MT_OP_router_score_forward, {mt_cuda_router_score_forward, NULL}},
    {MT_OP_router_score_backward, {mt_cuda_router_score_backward, NULL}},
    {MT_OP_topk, {mt_cuda_topk, NULL}},
    {MT_OP_topk_weights_forward, {mt_cuda_topk_weights_forward, NULL}},
    {MT_OP_topk_weights_backward, {mt_cuda_topk_weights_backward, NULL}},
    {MT_OP_sparsemixer_forward, {mt_cuda_sparsemixer_forward, NULL}},
    {MT_OP_sparsemixer_backward, {mt_cuda_sparsemixer_backward, NULL}},
    {MT_OP_dispatch_plan, {mt_cuda_dispatch_plan, mt_cuda_dispatch_plan_scratch}},
    {MT_OP_dispatch_forward, {mt_cuda_dispatch_forward, NULL}},
    {MT_OP_dispatch_backward, {mt_cuda_dispatch_backward, NULL}},
    {MT_OP_combine_forward, {mt_cuda_combine_forward, NULL}},
    {MT_OP_combine_backward, {mt_cuda_combine_backward, NULL}},
    {MT_OP_cross_entropy, {mt_cuda_cross_entropy, mt_cuda_cross_entropy_scratch}},
    {MT_OP_adamw, {mt_cuda_adamw, NULL}},
    {MT_OP_reduce, {mt_cuda_reduce, mt_cuda_reduce_scratch}},
    {MT_OP_column_stats_forward, {mt_cuda_column_stats_forward, mt_cuda_column_stats_forward_scratch}},
    {MT_OP_column_stats_backward, {mt_cuda_column_stats_backward, NULL}},
    {MT_OP_slot_stats_forward, {mt_cuda_slot_stats_forward, mt_cuda_slot_stats_forward_scratch}},
    {MT_OP_slot_stats_backward, {mt_cuda_slot_stats_backward, NULL}},
    {MT_OP_router_zloss_forward, {mt_cuda_router_zloss_forward, mt_cuda_router_zloss_forward_scratch}},
    {MT_OP_router_zloss_backward, {mt_cuda_router_zloss_backward, NULL}},
    {MT_OP_router_orth_forward, {mt_cuda_router_orth_forward, mt_cuda_router_orth_forward_scratch}},
    {MT_OP_router_orth_backward, {mt_cuda_router_orth_backward, mt_cuda_router_orth_backward_scratch}},
    {MT_OP_ortho_forward, {mt_cuda_ortho_forward, mt_cuda_ortho_forward_scratch}},
    {MT_OP_ortho_backward, {mt_cuda_ortho_backward, mt_cuda_ortho_backward_scratch}},
    {MT_OP_slot_drop, {mt_cuda_slot_drop, NULL}},
};

static void fill_table(struct mt_device *device)
{
    for (const auto &entry : table) {
        device->impl[entry.op] = entry.impl;
        device->own[entry.op] = true;
    }
}

static enum mt_status init(struct mt_device *device, bool bf16)
{
    cudaDeviceProp properties;
    void *memory = NULL;
    enum mt_status status = cuda_find_gpu(device, &properties);
    if (status != MT_OK) return status;
    status = mt_allocate_array(device->ctx, 1, sizeof(struct cuda_state), &memory);
    if (status != MT_OK) return status;
    device->state = memory;
    device->destroy_state = destroy_state;
    struct cuda_state *state = static_cast<struct cuda_state *>(memory);
    state->bf16 = bf16;
    status = cuda_status(device, cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking),
                         "creating a stream");
    if (status != MT_OK) return status;
    state->multiprocessors = properties.multiProcessorCount;
    state->shared_bytes = properties.sharedMemPerBlockOptin;
    state->hopper = properties.major == 9 && properties.minor == 0;
    if (state->hopper) {
        size_t bytes = (CUDA_COUNTERS + CUDA_MEETINGS) * sizeof(unsigned);
        cudaError_t error = cudaMalloc(&state->counters, bytes);
        if (error == cudaSuccess) error = cudaMemsetAsync(state->counters, 0, bytes, state->stream);
        status = cuda_status(device, error, "allocating counters of tiles");
        state->meetings = state->counters + CUDA_COUNTERS;
        if (status != MT_OK) return status;
    }
    device->memory = MT_MEMORY_DEVICE;
    device->shares_addresses = true;
    device->threads = 1;
    device->activations = bf16 ? MT_BF16 : MT_F32;
    device->buffer_create = buffer_create;
    device->staging_create = staging_create;
    device->upload = upload;
    device->download = download;
    device->synchronise = synchronise;
    device->memory_room = cuda_memory_room;
    if (bf16) cuda_recording_hooks(device); // the other one asks for the experts' offsets
    fill_table(device);
    (void)snprintf(device->description, sizeof device->description, "%s, %.50s, sm_%d%d, products in %s",
                   device->name, properties.name, properties.major, properties.minor, bf16 ? "bf16" : "f32");
    return MT_OK;
}

// Host threads do not matter here.

extern "C" enum mt_status mt_cuda_init(struct mt_device *device, int)
{
    return init(device, false);
}

extern "C" enum mt_status mt_cuda_bf16_init(struct mt_device *device, int)
{
    return init(device, true);
}
