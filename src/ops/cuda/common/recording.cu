/* Recordings as CUDA graphs: the stream takes launches down, and a graph of them starts with one call. */
#include "ops/cuda/common/recording.cuh"

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

void cuda_recording_hooks(struct mt_device *device)
{
    device->record_begin = record_begin;
    device->record_end = record_end;
    device->replay = replay;
    device->release_recorded = release_recorded;
}
