/* Whether the GPUs of a run's ranks send to each other themselves: parallel.transport. */
#include "ops/streams.h"
#include "train/trainer_internal.h"

#include <stdio.h>

static enum mt_status connect_cards(struct mt_trainer *trainer)
{
    struct mt_comm *const groups[] = {trainer->comm, trainer->copies_comm, trainer->expert_comm};
    bool on_host = mt_device_on_host(trainer->device);
    enum mt_status status = mt_device_enter(trainer->device);
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        status = mt_comm_agree(trainer->comm, trainer->ctx, status);
        if (status == MT_OK && groups[i] != NULL) status = mt_comm_use_cards(groups[i], on_host);
    }
    if (status == MT_OK) status = mt_device_create_beside(trainer->device, &trainer->sender);
    return mt_comm_agree(trainer->comm, trainer->ctx, status);
}

enum mt_status mt_trainer_open_cards(struct mt_trainer *trainer)
{
    enum mt_gpu_transport asked = trainer->settings->transport;
    bool idle = asked == MT_TRANSPORT_AUTO && mt_device_on_host(trainer->device);
    if (mt_comm_size(trainer->comm) == 1 || asked == MT_TRANSPORT_HOST || idle || trainer->options.plan_only)
        return MT_OK;
    enum mt_status status = connect_cards(trainer);
    if (status == MT_OK) return MT_OK;
    mt_device_destroy(trainer->sender);
    trainer->sender = NULL;
    if (asked == MT_TRANSPORT_NCCL) return mt_fail_within(trainer->ctx, status, "parallel.transport is nccl");
    (void)snprintf(trainer->no_cards, sizeof trainer->no_cards, "%.255s", trainer->ctx->message);
    return MT_OK;
}

enum mt_status mt_trainer_tell_cards(struct mt_trainer *trainer)
{
    char text[384];
    bool asked = trainer->settings->transport != MT_TRANSPORT_HOST;
    if (trainer->sender == NULL && (!asked || trainer->no_cards[0] == '\0')) return MT_OK;
    (void)snprintf(text, sizeof text, "gradients and rows travel %s%s",
                   trainer->sender != NULL ? "from card to card (NCCL)" : "through the host's memory: ",
                   trainer->sender != NULL ? "" : trainer->no_cards);
    return mt_run_log_event(trainer->run_log, trainer->numbers.step, "transport", text);
}
