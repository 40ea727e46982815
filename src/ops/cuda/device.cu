/* The CUDA device: memory, copies, recordings, and the table of what it has. */
#include <cstdio>
#include <cstring>

#include "metier/version.h"
#include "ops/cuda/common/beside.cuh"
#include "ops/cuda/common/gpu.cuh"
#include "ops/cuda/products/gemm.cuh"

extern "C" {
#include "base/clock.h"
}

static void fill_buffer(struct mt_device *device, void *data, size_t bytes, enum mt_memory_kind kind,
                        void (*release)(struct mt_buffer *buffer), struct mt_buffer *buffer)
{
    buffer->data = data;
    buffer->bytes = bytes;
    buffer->kind = kind;
    buffer->owned = true;
    buffer->owner = device;
    buffer->release = release;
}

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
    fill_buffer(device, data, bytes, MT_MEMORY_DEVICE, release_device_memory, buffer);
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
        return mt_fail(device->ctx, MT_ERR_MEMORY, "cannot allocate %zu bytes of pinned host memory", bytes);
    }
    if (error != cudaSuccess) return cuda_status(device, error, "allocating pinned host memory");
    fill_buffer(device, data, bytes, MT_MEMORY_PINNED, release_pinned_memory, buffer);
    return MT_OK;
}

static enum mt_status synchronise(struct mt_device *device)
{
    if (cuda_state_of(device)->recording)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED, "cannot wait for the device during a recording");
    return cuda_status(device, cudaStreamSynchronize(cuda_stream(device)), "waiting for the device");
}

static enum mt_status enter(struct mt_device *device)
{
    return cuda_status(device, cudaSetDevice(cuda_state_of(device)->gpu), "choosing a GPU");
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

// ------------------------------------------------------------------ two devices on one GPU

static void *stream_of(const struct mt_device *device)
{
    return cuda_stream(device);
}

/* An event that is recorded again is another one for those that wait from then on. */
static enum mt_status follow(struct mt_device *device, struct mt_device *other)
{
    struct cuda_state *state = cuda_state_of(device);
    struct cuda_state *ahead = cuda_state_of(other);
    cudaError_t error = cudaSuccess;
    if (ahead->reached == NULL) error = cudaEventCreateWithFlags(&ahead->reached, cudaEventDisableTiming);
    if (error == cudaSuccess) error = cudaEventRecord(ahead->reached, ahead->stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(state->stream, ahead->reached, 0);
    state->joined = true;
    return cuda_status(device, error, "waiting for another stream");
}

static void CUDART_CB note_time(void *when)
{
    *static_cast<double *>(when) += mt_clock_seconds();
}

static enum mt_status add_time(struct mt_device *device, double *when)
{
    return cuda_status(device, cudaLaunchHostFunc(cuda_stream(device), note_time, when), "noting the time");
}

// ------------------------------------------------------------------ recordings

// They are CUDA graphs: the stream takes launches down, and a graph of them starts with one call.

static enum mt_status record_begin(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaError_t error = cudaStreamBeginCapture(state->stream, cudaStreamCaptureModeThreadLocal);
    state->recording = error == cudaSuccess;
    return cuda_status(device, error, "beginning to record");
}

/* Ends the capture whatever came of it: the stream must work again. */
static enum mt_status record_end(struct mt_device *device, void **recorded)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    state->recording = false;
    cudaError_t error = cudaStreamEndCapture(state->stream, &graph);
    if (error == cudaSuccess) error = cudaGraphInstantiate(&ready, graph, 0);
    if (graph != NULL) (void)cudaGraphDestroy(graph);
    *recorded = ready;
    if (error != cudaSuccess) (void)cudaGetLastError(); // it would be taken for the next launch's
    return cuda_status(device, error, "recording");
}

static enum mt_status replay(struct mt_device *device, void *recorded)
{
    cudaError_t error = cudaGraphLaunch(static_cast<cudaGraphExec_t>(recorded), cuda_stream(device));
    return cuda_status(device, error, "starting what was recorded");
}

static void release_recorded(struct mt_device *, void *recorded)
{
    (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(recorded));
}

// ------------------------------------------------------------------ the device

static void destroy_state(struct mt_device *device)
{
    struct cuda_state *state = static_cast<struct cuda_state *>(device->state);
    if (state == NULL) return;
    cuda_products_end(state);
    cuda_beside_free(state);
    (void)cudaFree(state->counters);
    if (state->reached != NULL) (void)cudaEventDestroy(state->reached);
    if (state->stream != NULL && !state->borrowed) (void)cudaStreamDestroy(state->stream);
    mt_release(device->ctx, state, sizeof *state);
    device->state = NULL;
}

#define MT_CUDA_WRAP(name)                                                                                   \
    static enum mt_status run_##name(struct mt_device *device, const void *args)                             \
    {                                                                                                        \
        return mt_cuda_##name(device, static_cast<const struct mt_##name##_args *>(args));                   \
    }                                                                                                        \
    static size_t scratch_##name(const struct mt_device *device, const void *args)                           \
    {                                                                                                        \
        if (mt_cuda_##name##_scratch == NULL) return 0;                                                      \
        return mt_cuda_##name##_scratch(device, static_cast<const struct mt_##name##_args *>(args));         \
    }
MT_OP_LIST(MT_CUDA_WRAP)

static void fill_table(struct mt_device *device)
{
#define MT_CUDA_ENTRY(name) device->impl[MT_OP_##name][0] = {run_##name, scratch_##name, NULL};
    MT_OP_LIST(MT_CUDA_ENTRY)
#undef MT_CUDA_ENTRY
    for (bool &own : device->own) own = true;
}

/* The stream of whoever asked for the device, or one of its own. */
static enum mt_status take_stream(struct mt_device *device, struct cuda_state *state)
{
    cudaError_t error = cudaGetDevice(&state->gpu);
    state->borrowed = device->place != NULL;
    if (error == cudaSuccess && state->borrowed) {
        state->stream = static_cast<cudaStream_t>(device->place->stream);
    } else if (error == cudaSuccess) {
        error = cudaStreamCreateWithFlags(&state->stream, cudaStreamNonBlocking);
    }
    return cuda_status(device, error, "creating a stream");
}

static enum mt_status init(struct mt_device *device, bool bf16)
{
    struct cuda_gpu gpu;
    void *memory = NULL;
    enum mt_status status = cuda_find_gpu(device, &gpu);
    if (status != MT_OK) return status;
    status = mt_allocate_array(device->ctx, 1, sizeof(struct cuda_state), &memory);
    if (status != MT_OK) return status;
    device->state = memory;
    device->destroy_state = destroy_state;
    struct cuda_state *state = static_cast<struct cuda_state *>(memory);
    state->bf16 = bf16;
    status = take_stream(device, state);
    if (status != MT_OK) return status;
    const cudaDeviceProp &properties = gpu.properties;
    state->multiprocessors = properties.multiProcessorCount;
    state->shared_bytes = properties.sharedMemPerBlockOptin;
    state->hopper = gpu.hopper;
    state->poses = gpu.poses;
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
    device->enter = enter;
    device->memory_room = cuda_memory_room;
    device->follow = follow;
    device->add_time = add_time;
    device->stream = stream_of;
    // The other one asks for the experts' offsets, and a borrowed stream may be one that cannot be recorded.
    if (bf16 && !state->borrowed) {
        device->record_begin = record_begin;
        device->record_end = record_end;
        device->replay = replay;
        device->release_recorded = release_recorded;
        device->beside_begin = cuda_beside_begin;
        device->beside_end = cuda_beside_end;
        device->join = cuda_join;
    }
    fill_table(device);
    (void)snprintf(device->description, sizeof device->description, "%s, %.36s, %ssm_%d%d%s, products in %s",
                   device->name, properties.name, gpu.poses ? "passing for " : "", properties.major,
                   properties.minor, properties.major == 9 && !gpu.hopper ? " (general kernels)" : "",
                   bf16 ? "bf16" : "f32");
    return MT_OK;
}

// Host threads do not matter here.

static enum mt_status init_f32(struct mt_device *device, int)
{
    return init(device, false);
}

/* The same device, whose products round f32 operands to bf16 and run on the tensor cores; sums stay f32. */
static enum mt_status init_bf16(struct mt_device *device, int)
{
    return init(device, true);
}

const struct mt_device_module mt_device_module_cuda = {
    {MT_VERSION_MAJOR, MT_VERSION_MINOR, MT_VERSION_PATCH},
    MT_OP_COUNT,
    sizeof(struct mt_device),
    init_f32,
    init_bf16,
};
