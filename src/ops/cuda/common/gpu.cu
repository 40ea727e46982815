/*
 * Whether there is a GPU this program can use, and in sentences why not: no driver, one too old, no GPU or a
 * hidden one, a GPU for which no kernels were built.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "ops/cuda/common/gpu.cuh"

extern "C" {
#include "ops/card.h"
}

/* What nvidia-smi shows beyond our buffers in a training step on an H200: context, kernels, cuBLAS. */
#define CONTEXT_BYTES ((size_t)640 << 20)

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define PROBE_THREADS 64
#else
#define PROBE_THREADS 32
#endif
#define PROBE_HOPPER 64 // threads of a block, where the code that runs has Hopper's own instructions

/* A kernel like all others, to ask whether kernels run on this GPU, and which code of theirs does. */
__global__ static void __launch_bounds__(PROBE_THREADS) probe_kernel(int *target)
{
    *target = 0;
}

/* CUDA writes versions as 1000 · major + 10 · minor. */
static int version_major(int version)
{
    return version / 1000;
}

static int version_minor(int version)
{
    return version % 1000 / 10;
}

/* No driver is error 35, too: what tells them apart is the driver's version. */
static enum mt_status refuse_driver(const struct mt_device *device)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                       "device %s: there is no NVIDIA driver on this machine; install one, or compute on the "
                       "device cpu",
                       device->name);
    }
    return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                   "device %s: the NVIDIA driver knows CUDA %d.%d, this program needs %d.%d; install a newer "
                   "driver, or compute on the device cpu",
                   device->name, version_major(driver), version_minor(driver), version_major(CUDART_VERSION),
                   version_minor(CUDART_VERSION));
}

static enum mt_status refuse_absence(const struct mt_device *device)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible != NULL) {
        return mt_fail(
            device->ctx, MT_ERR_UNSUPPORTED,
            "device %s: the NVIDIA driver shows no GPU, and CUDA_VISIBLE_DEVICES is '%.60s'; unset "
            "it, or compute on the device cpu",
            device->name, visible);
    }
    return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                   "device %s: the NVIDIA driver finds no GPU; see what nvidia-smi says, or compute on the "
                   "device cpu",
                   device->name);
}

static enum mt_status count_gpus(const struct mt_device *device, int *count)
{
    *count = 0;
    cudaError_t error = cudaGetDeviceCount(count);
    if (error == cudaSuccess && *count > 0) return MT_OK;
    (void)cudaGetLastError(); // it would be taken for the next call's
    if (error == cudaErrorInsufficientDriver) return refuse_driver(device);
    if (error == cudaSuccess || error == cudaErrorNoDevice) return refuse_absence(device);
    return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                   "device %s: the NVIDIA driver does not start: %s; see what nvidia-smi says, or compute on "
                   "the device cpu",
                   device->name, cudaGetErrorString(error));
}

/* "8.0, 9.0": what the kernels were built for. */
static void name_built(char *text, size_t bytes)
{
    static const int built[] = {__CUDA_ARCH_LIST__};
    size_t used = 0;
    text[0] = '\0';
    for (int version : built) {
        int length = snprintf(text + used, bytes - used, "%s%d.%d", used > 0 ? ", " : "", version / 100,
                              version % 100 / 10);
        if (length < 0 || (size_t)length >= bytes - used) return;
        used += (size_t)length;
    }
}

/* Too old a card is refused by name; so is one for which no kernels were built. */
static enum mt_status check_kernels(const struct mt_device *device, struct cuda_gpu *gpu)
{
    cudaFuncAttributes attributes;
    const cudaDeviceProp *properties = &gpu->properties;
    struct mt_nvidia_card card = {};
    (void)snprintf(card.name, sizeof card.name, "%.95s", properties->name);
    card.major = properties->major;
    card.minor = properties->minor;
    if (!mt_card_is_recent(&card)) return mt_card_refuse(device, &card);
    cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(probe_kernel));
    gpu->hopper = error == cudaSuccess && properties->major == 9 && properties->minor == 0 &&
                  attributes.maxThreadsPerBlock == PROBE_HOPPER;
    if (error == cudaSuccess) return MT_OK;
    (void)cudaGetLastError();
    bool foreign = error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
                   error == cudaErrorUnsupportedPtxVersion || error == cudaErrorInvalidKernelImage;
    if (!foreign) return cuda_status(device, error, "asking for a kernel");
    char built[64];
    name_built(built, sizeof built);
    return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                   "device %s: %.60s has compute capability %d.%d, this program was built for %s; build with "
                   "-DMETIER_CUDA_ARCHITECTURES=%d%d (80 or more), or compute on the device cpu",
                   device->name, properties->name, properties->major, properties->minor, built,
                   properties->major, properties->minor);
}

/* Ranks of one machine take its GPUs in turns: which of them this process is, launchers say. */
static int choose_gpu(int count)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "LOCAL_RANK", // torchrun, metier launch
                                        "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (const char *name : names) {
        const char *text = getenv(name);
        char *end = NULL;
        long rank = text != NULL ? strtol(text, &end, 10) : -1;
        if (rank >= 0 && end != text && *end == '\0') return (int)(rank % count);
    }
    return 0;
}

/* The GPU passes for the card that METIER_CUDA_LEVEL names. */
static enum mt_status pose(const struct mt_device *device, struct cuda_gpu *gpu)
{
    static const struct {
        const char *name;
        int major, minor;
        size_t shared;
    } cards[] = {
        {"80", 8, 0, 163 << 10},
        {"86", 8, 6, CUDA_LEAST_SHARED},
        {"89", 8, 9, CUDA_LEAST_SHARED},
        {"120", 12, 0, CUDA_LEAST_SHARED},
    };
    const char *level = getenv("METIER_CUDA_LEVEL");
    if (level == NULL || level[0] == '\0') return MT_OK;
    for (const auto &card : cards) {
        if (strcmp(level, card.name) != 0) continue;
        cudaDeviceProp *properties = &gpu->properties;
        properties->major = card.major;
        properties->minor = card.minor;
        if (properties->sharedMemPerBlockOptin > card.shared)
            properties->sharedMemPerBlockOptin = card.shared;
        gpu->poses = true;
        gpu->hopper = false;
        return MT_OK;
    }
    return mt_fail(device->ctx, MT_ERR_USAGE,
                   "METIER_CUDA_LEVEL is '%.20s'; a GPU can pass for 80, 86, 89 or 120", level);
}

enum mt_status cuda_find_gpu(const struct mt_device *device, struct cuda_gpu *gpu)
{
    *gpu = {};
    int count = 0;
    enum mt_status status = count_gpus(device, &count);
    if (status != MT_OK) return status;
    int chosen = device->place != NULL ? device->place->gpu : choose_gpu(count);
    if (chosen < 0 || chosen >= count)
        return mt_fail(device->ctx, MT_ERR_USAGE, "device %s: there is no GPU %d, there are %d", device->name,
                       chosen, count);
    status = cuda_status(device, cudaSetDevice(chosen), "choosing a GPU");
    if (status != MT_OK) return status;
    status = cuda_status(device, cudaGetDeviceProperties(&gpu->properties, chosen),
                         "reading the GPU's properties");
    if (status == MT_OK) status = check_kernels(device, gpu);
    return status == MT_OK ? pose(device, gpu) : status;
}

enum mt_status cuda_allow_shared(const struct mt_device *device, const void *kernel, size_t bytes,
                                 const char *what)
{
    const struct cuda_state *state = cuda_state_of(device);
    cudaFuncAttributes attributes = {};
    // The driver counts what a kernel has besides, but by what the card really has.
    if (state->poses && cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess)
        return cuda_status(device, cudaGetLastError(), what);
    size_t all = bytes + attributes.sharedSizeBytes;
    if (all > state->shared_bytes)
        return mt_fail(device->ctx, MT_ERR_UNSUPPORTED,
                       "cuda: %s: needs %zu bytes of shared memory, but a block of this GPU has %zu", what,
                       all, state->shared_bytes);
    cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return cuda_status(device, error, what);
}

void cuda_memory_room(struct mt_device *, struct mt_memory_room *room)
{
    if (cudaMemGetInfo(&room->free, &room->total) != cudaSuccess) {
        (void)cudaGetLastError(); // it would be taken for the next call's
        room->free = 0;
        room->total = 0;
    }
    room->own = CONTEXT_BYTES;
}

enum mt_status cuda_refuse_bytes(const struct mt_device *device, size_t bytes)
{
    size_t available = 0;
    size_t total = 0;
    (void)cudaGetLastError(); // it would be taken for the next launch's
    if (cudaMemGetInfo(&available, &total) != cudaSuccess) (void)cudaGetLastError();
    return mt_fail(
        device->ctx, MT_ERR_MEMORY,
        "the GPU has no room for %.2f GB: %.2f of its %.2f GB are free; fewer or shorter sequences "
        "at a time need less",
        (double)bytes / 1e9, (double)available / 1e9, (double)total / 1e9);
}
