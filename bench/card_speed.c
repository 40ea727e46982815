/*
 * How fast cards send to each other, and add up what all of them have, over NCCL.
 *
 *     card_speed DEVICE [LARGEST]      sizes from 1 KB to LARGEST bytes (1 GB), four times as many each time
 *
 * Ranks are started as for metier, by a launcher (tests/comm/start-ranks). Each sends so many bytes to the
 * next and gets as many from the one before; one rank alone sends to itself. A sum is what gradients and
 * values of so many bytes need: everybody's version of a share is sent and added up, then the shares go
 * round; "link" counts the bytes that leave a card for that. What arrives is checked. METIER_NCCL names the
 * library where it is not found.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "metier/buffer.h"
#include "metier/ops.h"
#include "ops/streams.h"

enum { MOST_RANKS = 64, MOST_CALLS = 200, SMALLEST = 1024 };

struct bench {
    struct mt_context *ctx;
    struct mt_comm *comm;
    struct mt_device *device, *sender;
    struct mt_comm_transfer *transfer;
    struct mt_buffer values, versions; // f32: what is sent; what arrives
    int rank, ranks;
    size_t send_bytes[MOST_RANKS], send_at[MOST_RANKS], receive_bytes[MOST_RANKS];
};

static enum mt_status open_bench(struct bench *bench, const char *device, size_t largest)
{
    enum mt_status status = mt_comm_open(bench->ctx, &bench->comm);
    if (status != MT_OK) return status;
    bench->rank = mt_comm_rank(bench->comm);
    bench->ranks = mt_comm_size(bench->comm);
    if (bench->ranks > MOST_RANKS)
        return mt_fail(bench->ctx, MT_ERR_USAGE, "%d ranks, at most %d", bench->ranks, MOST_RANKS);
    status = mt_device_create(bench->ctx, device, 0, &bench->device);
    if (status == MT_OK) status = mt_device_create_beside(bench->device, &bench->sender);
    if (status == MT_OK) status = mt_device_buffer_create(bench->device, largest, &bench->values);
    // Shares are rounded up to 16 numbers.
    size_t versions = largest + (size_t)bench->ranks * 16 * sizeof(float);
    if (status == MT_OK) status = mt_device_buffer_create(bench->device, versions, &bench->versions);
    status = mt_comm_agree(bench->comm, bench->ctx, status);
    if (status == MT_OK) status = mt_comm_use_cards_alone(bench->comm, mt_device_on_host(bench->device));
    return status == MT_OK ? mt_comm_transfer_create(bench->comm, &bench->transfer) : status;
}

static void close_bench(struct bench *bench)
{
    mt_comm_transfer_free(bench->transfer);
    mt_comm_close(bench->comm);
    mt_buffer_release(&bench->values);
    mt_buffer_release(&bench->versions);
    mt_device_destroy(bench->sender);
    mt_device_destroy(bench->device);
}

// ------------------------------------------------------------------ what is timed

static void issue(struct bench *bench, const void *send, void *receive)
{
    mt_comm_transfer_start(bench->transfer,
                           &(struct mt_comm_load){.send = send,
                                                  .send_bytes = bench->send_bytes,
                                                  .send_at = bench->send_at,
                                                  .receive = receive,
                                                  .receive_bytes = bench->receive_bytes,
                                                  .is_sum = true,
                                                  .on_cards = true,
                                                  .stream = mt_device_stream(bench->sender)});
}

/* To the next, from the one before. */
static enum mt_status send(struct bench *bench, size_t count)
{
    for (int r = 0; r < bench->ranks; r++) {
        bench->send_at[r] = 0;
        bench->send_bytes[r] = r == (bench->rank + 1) % bench->ranks ? count * sizeof(float) : 0;
        bench->receive_bytes[r] =
            r == (bench->rank + bench->ranks - 1) % bench->ranks ? count * sizeof(float) : 0;
    }
    issue(bench, bench->values.data, bench->versions.data);
    return MT_OK;
}

/* As src/train/card_sum.c does with a bucket. */
static enum mt_status sum(struct bench *bench, size_t count)
{
    float *values = bench->values.data;
    struct mt_comm_share own = mt_comm_share_of(count, bench->rank, bench->ranks);
    for (int r = 0; r < bench->ranks; r++) {
        struct mt_comm_share share = mt_comm_share_of(count, r, bench->ranks);
        bench->send_at[r] = share.first * sizeof(float);
        bench->send_bytes[r] = share.count * sizeof(float);
        bench->receive_bytes[r] = own.count * sizeof(float);
    }
    issue(bench, values, bench->versions.data);
    enum mt_status status = MT_OK;
    if (own.count > 0)
        status =
            mt_rank_sum(bench->sender,
                        &(struct mt_rank_sum_args){
                            .x = mt_tensor_2d(bench->versions.data, MT_F32, bench->ranks, (int64_t)own.count),
                            .y = mt_tensor_1d(values + own.first, MT_F32, (int64_t)own.count),
                            .own = bench->rank});
    for (int r = 0; r < bench->ranks; r++) {
        bench->receive_bytes[r] = bench->send_bytes[r];
        bench->send_at[r] = own.first * sizeof(float);
    }
    for (int r = 0; r < bench->ranks; r++) bench->send_bytes[r] = own.count * sizeof(float);
    issue(bench, values, bench->ranks > 1 ? values : bench->versions.data); // one rank has all of it already
    return status;
}

// ------------------------------------------------------------------ measuring

/* Rank r has r+1 everywhere. */
static enum mt_status fill(struct bench *bench, size_t count)
{
    struct mt_tensor values = mt_tensor_1d(bench->values.data, MT_F32, (int64_t)count);
    enum mt_status status =
        mt_fill(bench->device, &(struct mt_fill_args){.y = values, .value = (float)(bench->rank + 1)});
    return status == MT_OK ? mt_device_synchronise(bench->device) : status;
}

/* The first and the last number. */
static enum mt_status check(struct bench *bench, const struct mt_buffer *buffer, size_t count, float expected)
{
    const size_t places[] = {0, count - 1};
    enum mt_status status = mt_device_synchronise(bench->sender);
    for (int i = 0; status == MT_OK && i < 2; i++) {
        float got = 0.0f;
        status = mt_device_download(bench->device, &got, (const float *)buffer->data + places[i], sizeof got);
        if (status == MT_OK && got != expected)
            status = mt_fail(bench->ctx, MT_ERR_NUMERIC, "of %zu numbers number %zu is %g, not %g", count,
                             places[i], (double)got, (double)expected);
    }
    return status;
}

static enum mt_status time_calls(struct bench *bench, size_t count, int calls,
                                 enum mt_status (*call)(struct bench *bench, size_t count), double *seconds)
{
    mt_comm_barrier(bench->comm);
    double began = mt_clock_seconds();
    enum mt_status status = MT_OK;
    for (int i = 0; status == MT_OK && i < calls; i++) status = call(bench, count);
    if (status == MT_OK) status = mt_device_synchronise(bench->sender);
    mt_comm_barrier(bench->comm); // the slowest rank's
    *seconds = (mt_clock_seconds() - began) / calls;
    return status;
}

static enum mt_status measure(struct bench *bench, size_t count)
{
    const double bytes = (double)(count * sizeof(float));
    const int calls = bytes * MOST_CALLS > 4e9 ? (int)(4e9 / bytes) + 1 : MOST_CALLS;
    const double ranks = bench->ranks;
    double sent = 0.0;
    double summed = 0.0;
    enum mt_status status = fill(bench, count);
    if (status == MT_OK) status = time_calls(bench, count, 2, send, &sent);
    if (status == MT_OK) status = time_calls(bench, count, calls, send, &sent);
    int before = (bench->rank + bench->ranks - 1) % bench->ranks;
    if (status == MT_OK) status = check(bench, &bench->versions, count, (float)(before + 1));
    if (status == MT_OK) status = time_calls(bench, count, 1, sum, &summed);
    if (status == MT_OK) status = check(bench, &bench->values, count, (float)(ranks * (ranks + 1.0) / 2.0));
    if (status == MT_OK) status = fill(bench, count); // sums of sums would not stay finite
    if (status == MT_OK) status = time_calls(bench, count, calls < 20 ? calls : 20, sum, &summed);
    status = mt_comm_agree(bench->comm, bench->ctx, status);
    if (status != MT_OK || bench->rank != 0) return status;
    double link = bench->ranks > 1 ? 2.0 * (ranks - 1.0) / ranks * bytes : 2.0 * bytes;
    printf("%11.0f %11.2f %9.2f %11.2f %9.2f %9.2f\n", bytes, 1e6 * sent, bytes / sent / 1e9, 1e6 * summed,
           bytes / summed / 1e9, link / summed / 1e9);
    return MT_OK;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct bench bench = {.ctx = &ctx};
    size_t largest = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : (size_t)1 << 30;
    if (argc < 2 || largest < SMALLEST) {
        (void)fprintf(stderr, "usage: card_speed DEVICE [LARGEST]\n");
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    mt_context_init(&ctx, NULL);
    enum mt_status status = open_bench(&bench, argv[1], largest);
    if (status == MT_OK && bench.rank == 0)
        printf("%d %s, %s\n      bytes   us a send      GB/s    us a sum      GB/s link GB/s\n", bench.ranks,
               bench.ranks == 1 ? "rank that sends to itself" : "ranks", mt_device_description(bench.device));
    for (size_t bytes = SMALLEST; status == MT_OK && bytes <= largest; bytes *= 4)
        status = measure(&bench, bytes / sizeof(float));
    if (status != MT_OK && bench.comm != NULL) status = mt_comm_abort(bench.comm, &ctx, status, stderr);
    if (status != MT_OK) (void)fprintf(stderr, "card_speed: %s\n", ctx.message);
    close_bench(&bench);
    return status == MT_OK ? 0 : 1;
}
