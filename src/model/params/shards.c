/* Asking the ranks that share the experts for what they hold, and answering. */
#include "model/params/shards.h"

#define PIECE    262144 // numbers of one answer: 1 MiB
#define RELEASED (-1)

/* What the first rank wants, told to all. */
struct request {
    int64_t param; // its place in the list of trained ones; RELEASED: nothing any more
    int64_t first, count;
};

static void ask(const struct mt_params *params, const struct mt_param *param, int64_t first, int64_t count,
                float *values)
{
    for (int64_t done = 0; done < count; done += PIECE) {
        struct request request = {.param = param - params->trained,
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
    ask(params, param, first, count, values);
    return MT_OK;
}

/* One answer, by way of `room` where the host cannot read the device's memory. */
static enum mt_status answer(const struct mt_params *params, const struct request *request, float *room)
{
    const struct mt_param *param = &params->trained[request->param];
    const float *source = (const float *)param->value.data + request->first;
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

enum mt_status mt_shards_serve(const struct mt_params *params)
{
    struct mt_context *ctx = mt_device_context(params->device);
    const size_t room_bytes = PIECE * sizeof(float);
    void *room = NULL;
    enum mt_status status = MT_OK;
    if (!mt_device_on_host(params->device)) status = mt_allocate(ctx, room_bytes, &room);
    // A device may still be at work on what is asked for.
    if (status == MT_OK) status = mt_device_synchronise(params->device);
    while (status == MT_OK) {
        struct request request;
        mt_comm_broadcast(params->expert_ranks, &request, sizeof request, 0);
        if (request.param == RELEASED) break;
        if (params->trained[request.param].owner != mt_comm_rank(params->expert_ranks)) continue;
        status = answer(params, &request, room);
    }
    mt_release(ctx, room, room_bytes);
    return status;
}

void mt_shards_release(const struct mt_params *params)
{
    struct request request = {.param = RELEASED};
    if (params->expert_ranks == NULL) return;
    mt_comm_broadcast(params->expert_ranks, &request, sizeof request, 0);
}
