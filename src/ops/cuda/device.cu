/* The CUDA device: memory, copies, and the table of what it has. */
#include <cstdio>
#include <cstring>

#include "ops/cuda/common.cuh"

static void release_device_memory(struct mt_buffer *buffer)
{
    // Nothing sensible can be done about a failing free; the next call reports a broken context.
    (void)cudaFree(buffer->data);
}

static enum mt_status buffer_create(struct mt_device *device, size_t bytes, struct mt_buffer *buffer)
{
    memset(buffer, 0, sizeof *buffer);
    void *data = NULL;
    enum mt_status status =
        cuda_status(device, cudaMalloc(&data, bytes > 0 ? bytes : 1), "allocating device memory");
    if (status != MT_OK) return status;
    buffer->data = data;
    buffer->bytes = bytes;
    buffer->kind = MT_MEMORY_DEVICE;
    buffer->owned = true;
    buffer->owner = device;
    buffer->release = release_device_memory;
    return MT_OK;
}

static enum mt_status synchronise(struct mt_device *device)
{
    return cuda_status(device, cudaStreamSynchronize(cuda_stream(device)), "waiting for the device");
}

static enum mt_status copy(struct mt_device *device, void *target, const void *source, size_t bytes,
                           cudaMemcpyKind kind, const char *what)
{
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
    if (state->stream != NULL) (void)cudaStreamDestroy(state->stream);
    mt_release(device->ctx, state, sizeof *state);
    device->state = NULL;
}

static void fill_table(struct mt_device *device)
{
    device->impl[MT_OP_rmsnorm_forward].run = mt_cuda_rmsnorm_forward;
    device->impl[MT_OP_rmsnorm_backward].run = mt_cuda_rmsnorm_backward;
    device->impl[MT_OP_rmsnorm_backward].scratch = mt_cuda_rmsnorm_backward_scratch;
    device->impl[MT_OP_swiglu_forward].run = mt_cuda_swiglu_forward;
    device->impl[MT_OP_swiglu_backward].run = mt_cuda_swiglu_backward;
    for (int op = 0; op < MT_OP_COUNT; op++) device->own[op] = device->impl[op].run != NULL;
}

extern "C" enum mt_status mt_cuda_init(struct mt_device *device, int threads)
{
    (void)threads; // host threads do not matter here
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "no usable NVIDIA GPU or driver on this machine");
    }
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(device->ctx, 1, sizeof(struct cuda_state), &memory);
    if (status != MT_OK) return status;
    device->state = memory;
    device->destroy_state = destroy_state;
    struct cuda_state *state = static_cast<struct cuda_state *>(memory);
    status = cuda_status(device, cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking),
                         "creating a stream");
    if (status != MT_OK) return status;
    cudaDeviceProp properties;
    status = cuda_status(device, cudaGetDeviceProperties(&properties, 0), "reading the device's properties");
    if (status != MT_OK) return status;
    state->multiprocessors = properties.multiProcessorCount;
    device->memory = MT_MEMORY_DEVICE;
    device->threads = 1;
    device->buffer_create = buffer_create;
    device->upload = upload;
    device->download = download;
    device->synchronise = synchronise;
    fill_table(device);
    (void)snprintf(device->description, sizeof device->description, "cuda, %.60s, sm_%d%d", properties.name,
                   properties.major, properties.minor);
    return MT_OK;
}
