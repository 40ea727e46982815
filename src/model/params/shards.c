/* Asking the ranks that share the experts for what they hold, and answering. */
#include "model/params/shards.h"

#define PIECE    262144 // numbers of one answer: 1 MiB
#define RELEASED (-1)

/* What the first rank wants, told to all. */
struct request {
    int64_t array; // RELEASED: nothing any more
    int64_t param; // its place in the list of trained ones
    int64_t first, count;
};

void mt_shards_ask(const struct mt_params *params, const struct mt_param *param, enum mt_shard_array array,
                   int64_t first, int64_t count, float *values)
{
    for (int64_t done = 0; done < count; done += PIECE) {
        struct request request = {.array = (int64_t)array,
                                  .param = param - params->trained,
                                  .first = first + done,
                                  .count = count - done < PIECE ? count - done : PIECE};
        mt_comm_broadcast(params->expert_ranks, &request, sizeof request, 0);
        mt_comm_hand_over(params->expert_ranks, param->owner, NULL, values + done,
                          (size_t)request.count * sizeof *values);
    }
}

enum mt_status mt_shards_read_value(const struct mt_params *params, const struct mt_param *param,
                                    int64_t first, int64_t count, float *values)
{
    if (mt_param_is_here(param)) {
        return mt_device_download(params->device, values, (const float *)param->value.data + first,
                                  (size_t)count * sizeof *values);
    }
    mt_shards_ask(params, param, MT_SHARD_VALUES, first, count, values);
    return MT_OK;
}

/* One answer, by way of `room` where the host cannot read the device's memory. */
static enum mt_status answer(const struct mt_params *params, const void *const arrays[MT_SHARD_ARRAYS],
                             const struct request *request, float *room)
{
    const struct mt_param *param = &params->trained[request->param];
    ptrdiff_t offset = (float *)param->value.data - (float *)params->masters.data;
    const float *source = (const float *)arrays[request->array] + offset + request->first;
    if (room != NULL) {
        enum mt_status status =
            mt_device_download(params->device, room, source, (size_t)request->count * sizeof *room);
        if (status != MT_OK) return status;
        source = room;
    }
    mt_comm_hand_over(params->expert_ranks, param->owner, source, NULL,
                      (size_t)request->count * sizeof *source);
    return MT_OK;
}

enum mt_status mt_shards_serve(const struct mt_params *params, const struct mt_tensor *first,
                               const struct mt_tensor *second)
{
    struct mt_context *ctx = mt_device_context(params->device);
    const void *const arrays[MT_SHARD_ARRAYS] = {params->masters.data, first->data, second->data};
    const size_t room_bytes = PIECE * sizeof(float);
    void *room = NULL;
    enum mt_status status = MT_OK;
    if (!mt_device_on_host(params->device)) status = mt_allocate(ctx, room_bytes, &room);
    // A device may still be at work on what is asked for.
    if (status == MT_OK) status = mt_device_synchronise(params->device);
    while (status == MT_OK) {
        struct request request;
        mt_comm_broadcast(params->expert_ranks, &request, sizeof request, 0);
        if (request.array == RELEASED) break;
        if (params->trained[request.param].owner != mt_comm_rank(params->expert_ranks)) continue;
        status = answer(params, arrays, &request, room);
    }
    mt_release(ctx, room, room_bytes);
    return status;
}

void mt_shards_release(const struct mt_params *params)
{
    struct request request = {.array = RELEASED};
    if (params->expert_ranks == NULL) return;
    mt_comm_broadcast(params->expert_ranks, &request, sizeof request, 0);
}
