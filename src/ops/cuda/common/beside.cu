/*
 * A second stream, with a cuBLAS of its own: while work is issued there, it takes the place of the device's
 * own. In a recording it becomes a branch.
 */
#include "ops/cuda/common/beside.cuh"

#include <utility>

static void swap_streams(struct cuda_state *state)
{
    std::swap(state->stream, state->side.stream);
    std::swap(state->blas, state->side.blas);
    std::swap(state->blas_workspace, state->side.blas_workspace);
    state->beside = !state->beside;
}

/* What is not there yet, by the first begin. */
static cudaError_t make_side(struct cuda_state *state)
{
    cudaError_t error = cudaSuccess;
    if (state->side.stream == NULL)
        error = cudaStreamCreateWithFlags(&state->side.stream, cudaStreamNonBlocking);
    if (error == cudaSuccess && state->side.done == NULL)
        error = cudaEventCreateWithFlags(&state->side.done, cudaEventDisableTiming);
    if (error == cudaSuccess && state->parting == NULL)
        error = cudaEventCreateWithFlags(&state->parting, cudaEventDisableTiming);
    return error;
}

static enum mt_status status_of(const struct mt_device *device, cudaError_t error, const char *what)
{
    if (error != cudaSuccess) (void)cudaGetLastError(); // it would be taken for the next launch's
    return cuda_status(device, error, what);
}

enum mt_status cuda_beside_begin(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaError_t error = make_side(state);
    if (error == cudaSuccess) error = cudaEventRecord(state->parting, state->stream);
    if (error == cudaSuccess) error = cudaStreamWaitEvent(state->side.stream, state->parting, 0);
    if (error == cudaSuccess) swap_streams(state);
    return status_of(device, error, "beginning work beside other work");
}

enum mt_status cuda_beside_end(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    cudaError_t error = cudaEventRecord(state->side.done, state->stream);
    swap_streams(state);
    return status_of(device, error, "ending work beside other work");
}

enum mt_status cuda_join(struct mt_device *device)
{
    struct cuda_state *state = cuda_state_of(device);
    state->joined = true;
    return status_of(device, cudaStreamWaitEvent(state->stream, state->side.done, 0),
                     "waiting for work beside other work");
}

void cuda_beside_free(struct cuda_state *state)
{
    if (state->side.done != NULL) (void)cudaEventDestroy(state->side.done);
    if (state->parting != NULL) (void)cudaEventDestroy(state->parting);
    if (state->side.stream != NULL) (void)cudaStreamDestroy(state->side.stream);
}
