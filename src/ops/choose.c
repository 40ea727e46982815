/* Choosing a device by trying those that could be it. */
#define _POSIX_C_SOURCE 200809L // pthread_sigmask
#include "ops/choose.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "ops/card.h"

#define NAME_BYTES 64

/* Whether a device can be made here. Threads that a driver starts for it leave signals to those who wait. */
static enum mt_status try_device(struct mt_context *ctx, const char *name)
{
    struct mt_device *device = NULL;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    enum mt_status status = mt_device_create(ctx, name, 0, &device);
    mt_device_destroy(device);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

static enum mt_status find_device(struct mt_context *ctx, enum mt_device_use use, const char **name)
{
    *name = "cpu";
    for (const struct mt_device_kind *kind = mt_device_kind_there(mt_device_kinds); kind != NULL;
         kind = mt_device_kind_there(kind + 1)) {
        if (kind->automatic != use) continue;
        enum mt_status status = try_device(ctx, kind->name);
        if (status == MT_OK) {
            *name = kind->name;
            return MT_OK;
        }
        if (status != MT_ERR_UNSUPPORTED)
            return mt_fail_within(ctx, status, "device auto (cpu computes without a GPU)");
        ctx->message[0] = '\0'; // there is none that can be used, which is no failure
    }
    return MT_OK;
}

/* All ranks compute on one kind of device: sums over ranks would otherwise mix roundings. */
static enum mt_status compare_ranks(struct mt_context *ctx, struct mt_comm *comm, const char *name)
{
    char first[NAME_BYTES] = "";
    char mine[NAME_BYTES] = "";
    enum mt_status status = MT_OK;
    (void)snprintf(mine, sizeof mine, "%s", name);
    memcpy(first, mine, sizeof first);
    mt_comm_broadcast(comm, first, sizeof first, 0);
    if (memcmp(first, mine, sizeof first) != 0)
        status = mt_fail(ctx, MT_ERR_USAGE,
                         "this rank would compute on %s and rank 0 on %s; name a device that all have, such "
                         "as cpu",
                         mine, first);
    return mt_comm_agree(comm, ctx, status);
}

enum mt_status mt_device_choose(struct mt_context *ctx, struct mt_comm *comm, const char *asked,
                                enum mt_device_use use, const char **name)
{
    *name = asked;
    enum mt_status status =
        mt_device_is_automatic(asked) ? find_device(ctx, use, name) : try_device(ctx, asked);
    if (comm == NULL) return status;
    status = mt_comm_agree(comm, ctx, status);
    return status == MT_OK ? compare_ranks(ctx, comm, *name) : status;
}

bool mt_device_is_automatic(const char *asked)
{
    return strcmp(asked, MT_DEVICE_AUTO) == 0;
}

// ------------------------------------------------------------------ what is left idle

/* Whether the program was built with any device for GPUs. */
static bool is_built_in(void)
{
    const struct mt_device_kind *kind = mt_device_kind_there(mt_device_kinds);
    while (kind != NULL && kind->automatic == MT_USE_ASKED) kind = mt_device_kind_there(kind + 1);
    return kind != NULL;
}

bool mt_card_is_idle(struct mt_context *ctx, char text[MT_MESSAGE_BYTES])
{
    struct mt_nvidia_card card;
    const char *name = NULL;
    text[0] = '\0';
    if (!mt_card_find(&card)) return false;
    if (!mt_card_is_recent(&card)) {
        (void)snprintf(text, MT_MESSAGE_BYTES,
                       "%s (compute capability %d.%d) cannot run metier: it needs %d.0 or newer", card.name,
                       card.major, card.minor, MT_CARD_LEAST_MAJOR);
    } else if (!is_built_in()) {
        (void)snprintf(text, MT_MESSAGE_BYTES,
                       "this machine has an %s, and this metier was built without CUDA: scripts/install "
                       "--cuda builds it in",
                       card.name);
    } else if (mt_device_choose(ctx, NULL, "cuda", MT_USE_EXACT, &name) != MT_OK) {
        (void)snprintf(text, MT_MESSAGE_BYTES, "%s is not used: %.900s", card.name, ctx->message);
        ctx->message[0] = '\0';
    }
    return text[0] != '\0';
}

void mt_device_warn_idle(const struct mt_device *device, FILE *stream)
{
    char text[MT_MESSAGE_BYTES];
    struct mt_log log;
    if (!mt_device_on_host(device)) return;
    mt_log_init(&log, stream, MT_LOG_WARNING);
    if (mt_card_is_idle(mt_device_context(device), text)) mt_log_warning(&log, "%s", text);
}
