/*
 * What the machine gives a rank while all ranks want the same: the constants of metier plan.
 *
 *     machine_speed SECONDS [THREADS]
 *
 * Prints the rate of products of 1024 tokens with a weight of 512 by 512, the latency α of a message and the
 * bytes β a second that a rank sends, for as long as SECONDS each: the slowest rank's, in the units of the
 * options --flops, --latency and --bandwidth. Run it under mpirun, or alone for the rate; bench/plan-check
 * does.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "metier/buffer.h"
#include "metier/ops.h"
#include "ops/device.h"

#define TOKENS      1024
#define WIDTH       512
#define SMALL       64                  // bytes of a message that is all latency
#define LARGE       ((size_t)(4 << 20)) // for each other rank
#define PRODUCTS    8                   // between two looks at the clock
#define SMALL_TURNS 100

struct bench {
    struct mt_comm *comm;
    struct mt_device *device;
    struct mt_buffer x, weight, y;
    unsigned char *send, *receive; // [ranks,LARGE]
    size_t *bytes;                 // [ranks]
    double seconds;
};

/* Products a rank computes in a second, as operations. */
static enum mt_status measure_products(struct bench *bench, double *flops)
{
    const struct mt_gemm_args product = {.a = mt_tensor_2d(bench->x.data, MT_F32, TOKENS, WIDTH),
                                         .b = mt_tensor_2d(bench->weight.data, MT_BF16, WIDTH, WIDTH),
                                         .c = mt_tensor_2d(bench->y.data, MT_F32, TOKENS, WIDTH),
                                         .transpose_b = true,
                                         .alpha = 1.0f};
    enum mt_status status = mt_gemm(bench->device, &product); // takes its scratch
    int64_t products = 0;
    mt_comm_barrier(bench->comm);
    double start = mt_clock_seconds();
    double seconds = 0.0;
    while (status == MT_OK && seconds < bench->seconds) {
        for (int i = 0; status == MT_OK && i < PRODUCTS; i++) status = mt_gemm(bench->device, &product);
        products += PRODUCTS;
        seconds = mt_clock_seconds() - start;
    }
    *flops = 2.0 * TOKENS * WIDTH * WIDTH * (double)products / seconds;
    return status;
}

/* Seconds of an exchange of so many bytes with every other rank: the mean of as many as fit the time. */
static double measure_exchange(struct bench *bench, size_t bytes, int turns)
{
    int ranks = mt_comm_size(bench->comm);
    for (int r = 0; r < ranks; r++) bench->bytes[r] = r == mt_comm_rank(bench->comm) ? 0 : bytes;
    mt_comm_barrier(bench->comm);
    double start = mt_clock_seconds();
    double done = 0.0;
    int64_t go_on = 1;
    while (go_on) {
        for (int i = 0; i < turns; i++)
            mt_comm_exchange(bench->comm, bench->send, bench->bytes, bench->receive, bench->bytes);
        done += turns;
        go_on = mt_clock_seconds() - start < bench->seconds;
        mt_comm_broadcast(bench->comm, &go_on, sizeof go_on, 0);
    }
    return (mt_clock_seconds() - start) / done;
}

static enum mt_status open_bench(struct mt_context *ctx, struct bench *bench, int threads)
{
    size_t ranks = (size_t)mt_comm_size(bench->comm);
    void *memory[3] = {NULL};
    enum mt_status status = mt_device_create(ctx, "cpu", threads, &bench->device);
    if (status == MT_OK)
        status = mt_device_buffer_create(bench->device, TOKENS * WIDTH * sizeof(float), &bench->x);
    if (status == MT_OK) status = mt_device_buffer_create(bench->device, WIDTH * WIDTH * 2, &bench->weight);
    if (status == MT_OK)
        status = mt_device_buffer_create(bench->device, TOKENS * WIDTH * sizeof(float), &bench->y);
    if (status == MT_OK) status = mt_allocate_array(ctx, ranks, LARGE, &memory[0]);
    if (status == MT_OK) status = mt_allocate_array(ctx, ranks, LARGE, &memory[1]);
    if (status == MT_OK) status = mt_allocate_array(ctx, ranks, sizeof(size_t), &memory[2]);
    bench->send = memory[0];
    bench->receive = memory[1];
    bench->bytes = memory[2];
    if (status != MT_OK) return status;
    memset(bench->x.data, 0, TOKENS * WIDTH * sizeof(float));
    memset(bench->weight.data, 0, WIDTH * WIDTH * 2);
    return MT_OK;
}

static void close_bench(struct mt_context *ctx, struct bench *bench)
{
    size_t ranks = (size_t)mt_comm_size(bench->comm);
    mt_release(ctx, bench->send, ranks * LARGE);
    mt_release(ctx, bench->receive, ranks * LARGE);
    mt_release(ctx, bench->bytes, ranks * sizeof(size_t));
    mt_buffer_release(&bench->x);
    mt_buffer_release(&bench->weight);
    mt_buffer_release(&bench->y);
    mt_device_destroy(bench->device);
}

static enum mt_status measure(struct mt_context *ctx, struct bench *bench, int threads)
{
    double flops = 0.0;
    int others = mt_comm_size(bench->comm) - 1;
    enum mt_status status = open_bench(ctx, bench, threads);
    if (status == MT_OK) status = measure_products(bench, &flops);
    status = mt_comm_agree(bench->comm, ctx, status);
    if (status == MT_OK) {
        int64_t slowest = -(int64_t)flops;
        mt_comm_max_i64(bench->comm, &slowest, 1);
        double small = others > 0 ? measure_exchange(bench, SMALL, SMALL_TURNS) : 0.0;
        double large = others > 0 ? measure_exchange(bench, LARGE, 1) : 0.0;
        double sent = (double)others * (double)LARGE;
        double rate = large > small ? sent / (large - small) : 1e12;
        if (mt_comm_rank(bench->comm) == 0) {
            printf("--flops %.6g --latency %.4g --bandwidth %.4g\n", -(double)slowest * 1e-12,
                   others > 0 ? small / others * 1e6 : 0.0, rate * 1e-9);
        }
    }
    close_bench(ctx, bench);
    return status;
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct bench bench = {0};
    mt_context_init(&ctx, NULL);
    if (argc < 2) {
        (void)fprintf(stderr, "usage: machine_speed SECONDS [THREADS]\n");
        return 2;
    }
    bench.seconds = strtod(argv[1], NULL);
    int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1;
    enum mt_status status = mt_comm_open(&ctx, &bench.comm);
    if (status == MT_OK) status = measure(&ctx, &bench, threads);
    if (status != MT_OK) (void)fprintf(stderr, "machine_speed: %s\n", ctx.message);
    mt_comm_close(bench.comm);
    return status == MT_OK ? 0 : 1;
}
