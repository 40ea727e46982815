/* Reading a launcher's variables, each of which has to be there and possible. */
#define _DEFAULT_SOURCE // gethostname
#include "comm/tcp/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files/digest.h"
#include "metier/version.h"

#define LEAST_TOKEN 16 // characters

static enum mt_status read_number(struct mt_context *ctx, const char *name, long least, long most,
                                  int *number)
{
    const char *text = getenv(name);
    char *end = NULL;
    if (text == NULL) return mt_fail(ctx, MT_ERR_USAGE, "one of several ranks, but %s is not set", name);
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most)
        return mt_fail(ctx, MT_ERR_USAGE, "%s is '%.40s', expected %ld to %ld", name, text, least, most);
    *number = (int)value;
    return MT_OK;
}

/* torchrun's own store listens at MASTER_PORT where its variable says so: rank 0 then takes the next port. */
static enum mt_status read_port(struct mt_context *ctx, int *port)
{
    const char *store = getenv("TORCHELASTIC_USE_AGENT_STORE");
    int taken = store != NULL && strcmp(store, "True") == 0 ? 1 : 0;
    enum mt_status status = read_number(ctx, "MASTER_PORT", 1, 65535 - taken, port);
    *port += taken;
    return status;
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static enum mt_status check_token(struct mt_context *ctx, const struct mt_tcp_place *place)
{
    size_t length = strlen(place->token);
    if (length >= LEAST_TOKEN || (length == 0 && place->loopback)) return MT_OK;
    if (length > 0)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "METIER_TOKEN has %zu characters, which can be guessed: at least %d", length,
                       LEAST_TOKEN);
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "ranks that meet at %.200s need a token, or anybody could join: set METIER_TOKEN to the same "
        "secret on all of them (openssl rand -hex 16 makes one). Only at localhost it may be missing",
        place->host);
}

/* Containers of one machine may have the same name, and machines of one image, too. */
static uint64_t name_machine(void)
{
    char text[512] = "";
    (void)gethostname(text, 256);
    text[255] = '\0';
    size_t length = strlen(text);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file != NULL) {
        length += fread(text + length, 1, 64, file);
        (void)fclose(file);
    }
    return mt_digest_short(text, length, 0);
}

enum mt_status mt_tcp_place_read(struct mt_context *ctx, struct mt_tcp_place *place)
{
    const char *token = getenv("METIER_TOKEN");
    const char *host = getenv("MASTER_ADDR");
    bool slurm = getenv("RANK") == NULL && getenv("SLURM_PROCID") != NULL;
    *place = (struct mt_tcp_place){.token = token != NULL ? token : ""};
    enum mt_status status =
        read_number(ctx, slurm ? "SLURM_STEP_NUM_TASKS" : "WORLD_SIZE", 1, MT_TCP_MOST_RANKS, &place->size);
    if (status == MT_OK)
        status = read_number(ctx, slurm ? "SLURM_PROCID" : "RANK", 0, place->size - 1, &place->rank);
    if (status == MT_OK) status = read_port(ctx, &place->port);
    if (status != MT_OK) return status;
    if (host == NULL || host[0] == '\0')
        return mt_fail(ctx, MT_ERR_USAGE, "one of several ranks, but MASTER_ADDR is not set");
    if (strlen(host) >= sizeof place->host)
        return mt_fail(ctx, MT_ERR_USAGE, "MASTER_ADDR is longer than a name can be: '%.40s...'", host);
    (void)snprintf(place->host, sizeof place->host, "%s", host);
    (void)snprintf(place->build, sizeof place->build, "%s %s", mt_version(), mt_version_commit());
    place->loopback = is_loopback(host);
    place->machine = name_machine();
    return check_token(ctx, place);
}
