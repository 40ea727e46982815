/*
 * What src/comm/cards.c does with NCCL's library, on one card with one rank, which sends to itself.
 *     one_card DEVICE      every call; results are compared with the host's
 * METIER_NCCL names the library where it is not found. On the cpu only a stand-in of it works (nccl_double).
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/cards.h"
#include "comm/comm.h"
#include "metier/buffer.h"
#include "metier/ops.h"
#include "ops/streams.h"

enum { ROUNDS = 50, MANY = (16 << 20) + 7, FEWER = (1 << 18) + 7 };

struct place {
    struct mt_context *ctx;
    struct mt_device *device, *sender;
    struct mt_cards *cards;
    struct mt_buffer sent, received, total;
    size_t numbers; // of each buffer: on a card so many that sends take longer than calls
    float *host;    // [numbers]
    int faults;
};

static void report(struct place *place, bool right, const char *what)
{
    printf("%-4s %s\n", right ? "ok" : "FAIL", what);
    if (!right) place->faults++;
}

/* In a thread of its own; one that fails ends the program. */
static void failed(void *self, const char *reason)
{
    (void)self;
    (void)fprintf(stderr, "one_card: the connection of the card failed: %s\n", reason);
    _Exit(1);
}

// ------------------------------------------------------------------ the library

/* The file that the loader took. */
static void print_library(const struct place *place)
{
    char line[4096];
    const char *found = "?";
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        const char *path = strchr(line, '/');
        if (path == NULL || strstr(path, "nccl") == NULL || strstr(path, ".so") == NULL) continue;
        line[strcspn(line, "\n")] = '\0';
        found = path;
        break;
    }
    if (maps != NULL) (void)fclose(maps);
    int version = mt_cards_version(place->cards);
    printf("%s; NCCL %d.%d.%d from %s\n", mt_device_description(place->device), version / 10000,
           version / 100 % 100, version % 100, found);
}

static enum mt_status connect(struct place *place)
{
    struct mt_cards_id id;
    enum mt_status status = mt_cards_open(
        place->ctx, &(struct mt_cards_options){.ranks = 1, .failed = failed, .self = place}, &place->cards);
    if (status == MT_OK && mt_device_on_host(place->device) && !mt_cards_send_host_memory(place->cards))
        status = mt_fail(place->ctx, MT_ERR_UNSUPPORTED, "NCCL sends only memory of GPUs");
    if (status == MT_OK) status = mt_cards_make_id(place->cards, &id);
    return status == MT_OK ? mt_cards_connect(place->cards, &id) : status;
}

static enum mt_status open_place(struct place *place, const char *device)
{
    enum mt_status status = mt_device_create(place->ctx, device, 0, &place->device);
    if (status != MT_OK) return status;
    place->numbers = mt_device_on_host(place->device) ? FEWER : MANY;
    size_t bytes = place->numbers * sizeof(float);
    status = mt_device_create_beside(place->device, &place->sender);
    if (status == MT_OK) status = mt_device_buffer_create(place->device, bytes, &place->sent);
    if (status == MT_OK) status = mt_device_buffer_create(place->device, bytes, &place->received);
    if (status == MT_OK) status = connect(place);
    if (status == MT_OK) print_library(place);
    return status;
}

static void close_place(struct place *place)
{
    mt_cards_close(place->cards);
    mt_buffer_release(&place->sent);
    mt_buffer_release(&place->received);
    mt_buffer_release(&place->total);
    mt_device_destroy(place->sender);
    mt_device_destroy(place->device);
}

/* The card sends itself the first bytes of what is to be sent. */
static enum mt_status send(struct place *place, size_t bytes)
{
    const size_t at = 0;
    return mt_cards_exchange(place->cards,
                             &(struct mt_exchange){.send = place->sent.data,
                                                   .send_at = &at,
                                                   .send_bytes = &bytes,
                                                   .receive = place->received.data,
                                                   .receive_at = &at,
                                                   .receive_bytes = &bytes},
                             mt_device_stream(place->sender));
}

// ------------------------------------------------------------------ checks

static struct mt_tensor numbers(const struct mt_buffer *buffer)
{
    return mt_tensor_1d(buffer->data, MT_F32, (int64_t)(buffer->bytes / sizeof(float)));
}

static enum mt_status fill(struct place *place, const struct mt_buffer *buffer, float value)
{
    return mt_fill(place->device, &(struct mt_fill_args){.y = numbers(buffer), .value = value});
}

/* Bytes arrive, and those behind them stay. */
static enum mt_status check_bytes(struct place *place)
{
    const size_t sizes[] = {1, 7, 4096, ((size_t)1 << 20) + 3, place->numbers * sizeof(float)};
    unsigned char *bytes = (unsigned char *)place->host;
    size_t all = place->numbers * sizeof(float);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        char what[64];
        bool right = true;
        for (size_t i = 0; i < all; i++) bytes[i] = (unsigned char)(i * 31 + i / 977 + k);
        enum mt_status status = fill(place, &place->received, 0.0f);
        if (status == MT_OK) status = mt_device_upload(place->device, place->sent.data, bytes, all);
        if (status == MT_OK) status = mt_device_follow(place->sender, place->device);
        if (status == MT_OK) status = send(place, sizes[k]);
        if (status == MT_OK) status = mt_device_follow(place->device, place->sender);
        memset(bytes, 255, all);
        if (status == MT_OK) status = mt_device_download(place->device, bytes, place->received.data, all);
        if (status != MT_OK) return status;
        for (size_t i = 0; i < all; i++)
            right = right && bytes[i] == (i < sizes[k] ? (unsigned char)(i * 31 + i / 977 + k) : 0);
        (void)snprintf(what, sizeof what, "%zu bytes, sent and received", sizes[k]);
        report(place, right, what);
    }
    return MT_OK;
}

/* total += what arrives, of which each time something else is sent: nothing but events orders the streams. */
static enum mt_status issue_round(struct place *place)
{
    struct mt_tensor sent = numbers(&place->sent);
    enum mt_status status =
        mt_axpby(place->device, &(struct mt_axpby_args){.x = sent, .y = sent, .alpha = 2.0f});
    if (status == MT_OK) status = mt_device_follow(place->sender, place->device);
    if (status == MT_OK) status = send(place, place->numbers * sizeof(float));
    if (status == MT_OK) status = mt_device_follow(place->device, place->sender);
    if (status != MT_OK) return status;
    return mt_axpby(place->device, &(struct mt_axpby_args){.x = numbers(&place->received),
                                                           .y = numbers(&place->total),
                                                           .alpha = 1.0f,
                                                           .beta = 1.0f});
}

/* After `rounds` rounds that began with sent 1 and total 0: 2 + 4 + … */
static enum mt_status check_total(struct place *place, int rounds, const char *what)
{
    float expected = 0.0f;
    bool right = true;
    for (int i = 1; i <= rounds; i++) expected += ldexpf(1.0f, i);
    enum mt_status status =
        mt_device_download(place->device, place->host, place->total.data, place->numbers * sizeof(float));
    for (size_t i = 0; i < place->numbers; i++) right = right && place->host[i] == expected;
    if (status == MT_OK) report(place, right, what);
    return status;
}

static enum mt_status begin_rounds(struct place *place)
{
    enum mt_status status = fill(place, &place->sent, 1.0f);
    return status == MT_OK ? fill(place, &place->total, 0.0f) : status;
}

static enum mt_status check_order(struct place *place)
{
    enum mt_status status = begin_rounds(place);
    for (int i = 0; status == MT_OK && i < ROUNDS; i++) status = issue_round(place);
    if (status != MT_OK) return status;
    return check_total(place, ROUNDS, "50 sends between ops of another stream, ordered by events alone");
}

/* Metier itself sends nothing in recordings so far. */
static enum mt_status check_recorded(struct place *place)
{
    struct mt_recording *recording = NULL;
    if (!mt_device_records(place->device)) {
        printf("     a recorded send: not tried, the device %s does not record\n",
               mt_device_name(place->device));
        return MT_OK;
    }
    enum mt_status status = mt_device_record_begin(place->device);
    if (status != MT_OK) return status;
    enum mt_status issued = issue_round(place);
    status = mt_device_record_end(place->device, &recording);
    if (issued != MT_OK) status = issued;
    if (status == MT_OK) status = begin_rounds(place);
    for (int i = 0; status == MT_OK && i < ROUNDS; i++) status = mt_device_replay(place->device, recording);
    if (status == MT_OK) status = check_total(place, ROUNDS, "a send in a recording, replayed 50 times");
    mt_recording_free(recording);
    return status;
}

/* A bucket's way, by the calls of src/train: each version is sent, then they are added up in order. */
static enum mt_status check_sum(struct place *place)
{
    enum { RANKS = 3 };
    const size_t share = place->numbers / 8;
    struct mt_comm *comm = NULL;
    struct mt_comm_transfer *transfer = NULL;
    const size_t bytes = share * sizeof(float);
    float *versions = place->received.data;
    enum mt_status status = mt_comm_open_alone(place->ctx, &comm);
    if (status == MT_OK) status = mt_comm_use_cards_alone(comm, mt_device_on_host(place->device));
    if (status == MT_OK) status = mt_comm_transfer_create(comm, &transfer);
    for (size_t i = 0; i < RANKS * share; i++)
        place->host[i] = (i / share == 1 ? -1.0f : 1.0f) * (float)(1 + i % 977) * 1e5f / 3.0f;
    if (status == MT_OK)
        status = mt_device_upload(place->device, place->sent.data, place->host, RANKS * bytes);
    if (status == MT_OK) status = mt_device_follow(place->sender, place->device);
    for (int r = 0; status == MT_OK && r < RANKS; r++)
        mt_comm_transfer_start(transfer,
                               &(struct mt_comm_load){.send = (float *)place->sent.data + (size_t)r * share,
                                                      .send_bytes = &bytes,
                                                      .receive = versions + (size_t)r * share,
                                                      .receive_bytes = &bytes,
                                                      .is_sum = true,
                                                      .on_cards = true,
                                                      .stream = mt_device_stream(place->sender)});
    struct mt_tensor own = mt_tensor_1d((float *)place->sent.data + share, MT_F32, (int64_t)share);
    if (status == MT_OK)
        status =
            mt_rank_sum(place->sender,
                        &(struct mt_rank_sum_args){
                            .x = mt_tensor_2d(versions, MT_F32, RANKS, (int64_t)share), .y = own, .own = 1});
    if (status == MT_OK) status = mt_device_follow(place->device, place->sender);
    float *got = place->host + RANKS * share;
    if (status == MT_OK) status = mt_device_download(place->device, got, own.data, bytes);
    bool right = status == MT_OK && mt_comm_sent_bytes(comm) == 0;
    for (size_t i = 0; i < share; i++) {
        double sum = 0.0;
        for (int r = 0; r < RANKS; r++) sum += (double)place->host[(size_t)r * share + i];
        right = right && got[i] == (float)sum;
    }
    if (status == MT_OK) report(place, right, "versions of a share, sent and added up");
    mt_comm_transfer_free(transfer);
    mt_comm_close(comm);
    return status;
}

/* What only a broken connection calls in the product; by the library's own names. */
static void check_abort(struct place *place)
{
    int (*make_id)(struct mt_cards_id * id) = NULL;
    int (*open)(void **communicator, int ranks, struct mt_cards_id id, int rank) = NULL;
    int (*end)(void *communicator) = NULL;
    const char *file = getenv("METIER_NCCL");
    void *library = dlopen(file != NULL && file[0] != '\0' ? file : "libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
    void *symbol[] = {NULL, NULL, NULL};
    struct mt_cards_id id;
    void *communicator = NULL;
    if (library == NULL) {
        report(place, false, "the library is not there a second time");
        return;
    }
    symbol[0] = dlsym(library, "ncclGetUniqueId");
    symbol[1] = dlsym(library, "ncclCommInitRank");
    symbol[2] = dlsym(library, "ncclCommAbort");
    memcpy(&make_id, &symbol[0], sizeof make_id);
    memcpy(&open, &symbol[1], sizeof open);
    memcpy(&end, &symbol[2], sizeof end);
    bool opened = make_id(&id) == 0 && open(&communicator, 1, id, 0) == 0;
    report(place, opened, "a second communicator beside the first");
    double began = mt_clock_seconds();
    bool ended = opened && end(communicator) == 0;
    double took = mt_clock_seconds() - began;
    report(place, ended, "the second one aborted");
    printf("     which took %.3f s\n", took);
    (void)dlclose(library);
}

static enum mt_status check(struct place *place)
{
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(place->ctx, place->numbers, sizeof *place->host, &memory);
    place->host = memory;
    if (status == MT_OK)
        status = mt_device_buffer_create(place->device, place->numbers * sizeof(float), &place->total);
    if (status == MT_OK) status = check_bytes(place);
    if (status == MT_OK) status = check_order(place);
    if (status == MT_OK) status = check_recorded(place);
    if (status == MT_OK) status = check_sum(place);
    if (status == MT_OK) check_abort(place);
    if (status == MT_OK) status = check_order(place); // the first is still in order
    mt_cards_close(place->cards);
    place->cards = NULL;
    if (status == MT_OK) status = connect(place);
    if (status == MT_OK) status = check_order(place);
    if (status == MT_OK) printf("     these after the abort, and after closing and opening again\n");
    mt_release(place->ctx, memory, place->numbers * sizeof *place->host);
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct place place = {.ctx = &ctx};
    if (argc != 2) {
        (void)fprintf(stderr, "usage: one_card DEVICE\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    mt_context_init(&ctx, NULL);
    enum mt_status status = open_place(&place, argv[1]);
    if (status == MT_OK) status = check(&place);
    if (status != MT_OK) (void)fprintf(stderr, "one_card: %s\n", ctx.message);
    close_place(&place);
    if (status == MT_OK) printf("one_card: %s\n", place.faults == 0 ? "all is well" : "something is wrong");
    return status == MT_OK && place.faults == 0 ? 0 : 1;
}
