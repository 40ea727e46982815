/* Counters from which the blocks of a launch on Hopper take their tiles. */
#ifndef MT_OPS_CUDA_COUNTER_CUH
#define MT_OPS_CUDA_COUNTER_CUH

#include "ops/cuda/common/common.cuh"

#define CUDA_COUNTER_BYTES 256 // of scratch, for a counter of tiles

/*
 * A counter of tiles, cleared: one of the device's, or the one in scratch where launches are taken down, and
 * beside other work, which clears the device's while this launch may still count.
 */
static inline enum mt_status cuda_take_counter(struct mt_device *device, void *scratch, unsigned **counter)
{
    struct cuda_state *state = cuda_state_of(device);
    bool own = state->recording || state->beside;
    *counter = own ? static_cast<unsigned *>(scratch) : state->counters + state->next_counter;
    bool clears = own || state->next_counter == 0;
    if (!own) state->next_counter = (state->next_counter + 1) % CUDA_COUNTERS;
    if (!clears) return MT_OK;
    size_t bytes = (own ? 1 : CUDA_COUNTERS) * sizeof **counter;
    return cuda_status(device, cudaMemsetAsync(*counter, 0, bytes, cuda_stream(device)),
                       "clearing counters of tiles");
}

#endif
