/*
 * What ranks tell each other, from the inside of each: run under mpirun with any number of ranks, or alone.
 * Every rank checks what it got and says what is wrong; the exit status is 1 when something is.
 *     ranks            everything that should work; with METIER_NCCL, by way of cards, too
 *     ranks pulse R    ranks work for different times; R of them fail half-way
 *     ranks agree R    ranks from R on (0 or 2) fail; all agree on the first, the message is its own
 *     ranks abort R    rank R aborts while the others wait
 *     ranks die R      rank R kills itself while the others wait
 *     ranks stop R     rank R stops itself while the others wait
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/rank_progress.h"

#define NUMBERS 100003 // a prime: no number of ranks divides it

static int faults;

static void expect(bool holds, const struct mt_comm *comm, const char *what)
{
    if (holds) return;
    (void)fprintf(stderr, "rank %d of %d: %s\n", mt_comm_rank(comm), mt_comm_size(comm), what);
    faults++;
}

/* What rank r brings at place i: different everywhere, and of very different sizes. */
static float number_of(int rank, size_t i)
{
    return (float)((rank % 2 == 0 ? 1.0 : -1.0) * (1.0 + (double)(i % 977)) * (rank + 1) / 3.0);
}

static void small_sums(struct mt_comm *comm)
{
    int ranks = mt_comm_size(comm);
    static double values[10000];
    static int64_t counts[10000];
    static int64_t largest[10000];
    for (size_t i = 0; i < 10000; i++) {
        values[i] = (double)number_of(mt_comm_rank(comm), i);
        counts[i] = (int64_t)i * (mt_comm_rank(comm) + 1);
        largest[i] = (i % (size_t)ranks) == (size_t)mt_comm_rank(comm) ? (int64_t)i : -1;
    }
    mt_comm_sum_f64(comm, values, 10000);
    mt_comm_sum_i64(comm, counts, 10000);
    mt_comm_max_i64(comm, largest, 10000);
    bool right = true;
    for (size_t i = 0; i < 10000; i++) {
        double sum = (double)number_of(0, i);
        for (int r = 1; r < ranks; r++) sum += (double)number_of(r, i);
        right = right && values[i] == sum && largest[i] == (int64_t)i;
        right = right && counts[i] == (int64_t)i * ranks * (ranks + 1) / 2;
    }
    expect(right, comm, "a small sum or maximum is wrong");
}

/* The shares of so many numbers follow each other, all of them, at multiples of 16. */
static bool shares_are_right(size_t count, int ranks)
{
    size_t next = 0;
    bool right = true;
    for (int r = 0; r < ranks; r++) {
        struct mt_comm_share share = mt_comm_share_of(count, r, ranks);
        right = right && share.first == next && (share.count == 0 || share.first % 16 == 0);
        right = right && share.count <= (count / (size_t)ranks / 16 + 2) * 16;
        next += share.count;
    }
    return right && next == count;
}

/* Three at once, of uneven lengths, one of them shorter than the shares: each rank's share is exact and
 * nothing else is touched; handed round, it is the same bits on every rank. */
static void large_sums(struct mt_context *ctx, struct mt_comm *comm)
{
    static const size_t counts[] = {NUMBERS, 3, 70000};
    static float values[3][NUMBERS];
    static double expected[3][NUMBERS];
    struct mt_comm_sum *sums[3] = {0};
    int ranks = mt_comm_size(comm);
    uint64_t before = mt_comm_sent_bytes(comm);
    for (int k = 0; k < 3; k++) {
        for (size_t i = 0; i < counts[k]; i++) values[k][i] = number_of(mt_comm_rank(comm), i + (size_t)k);
        if (mt_comm_sum_create(comm, counts[k], &sums[k]) != MT_OK) expect(false, comm, ctx->message);
    }
    for (int k = 0; k < 3; k++) mt_comm_sum_start(sums[k], values[k], counts[k]);
    for (int k = 0; k < 3; k++) mt_comm_sum_progress(sums[k]);
    for (int k = 0; k < 3; k++) mt_comm_sum_wait(sums[k]);
    bool right = true;
    uint64_t sent = 0;
    for (int k = 0; k < 3; k++) {
        struct mt_comm_share own = mt_comm_share_of(counts[k], mt_comm_rank(comm), ranks);
        right = right && shares_are_right(counts[k], ranks);
        for (size_t i = 0; i < counts[k]; i++) {
            expected[k][i] = 0.0;
            for (int r = 0; r < ranks; r++) expected[k][i] += (double)number_of(r, i + (size_t)k);
            bool mine = i - own.first < own.count;
            float wanted = mine ? (float)expected[k][i] : number_of(mt_comm_rank(comm), i + (size_t)k);
            right = right && values[k][i] == wanted;
        }
        // To every other rank its share, and to every other rank ours.
        sent += sizeof(float) * (counts[k] - own.count + own.count * (size_t)(ranks - 1));
        mt_comm_sum_hand_round(sums[k], values[k], counts[k]);
    }
    for (int k = 0; k < 3; k++) {
        mt_comm_sum_wait(sums[k]);
        for (size_t i = 0; i < counts[k]; i++) right = right && values[k][i] == (float)expected[k][i];
        mt_comm_sum_free(sums[k]);
    }
    expect(right, comm, "a large sum is wrong");
    expect(mt_comm_sent_bytes(comm) - before == sent, comm, "large sums sent other bytes than they say");
}

/* Rank a sends rank b a·b bytes: nothing to and from rank 0. */
static void uneven_exchange(struct mt_comm *comm)
{
    static unsigned char send[4096];
    static unsigned char receive[4096];
    size_t bytes[64];
    int ranks = mt_comm_size(comm);
    int rank = mt_comm_rank(comm);
    size_t total = 0;
    if (ranks > 16) return;
    for (int r = 0; r < ranks; r++) {
        bytes[r] = (size_t)rank * (size_t)r;
        memset(send + total, 16 * rank + r, bytes[r]);
        total += bytes[r];
    }
    mt_comm_exchange(comm, send, bytes, receive, bytes);
    const unsigned char *next = receive;
    bool right = true;
    for (int r = 0; r < ranks; r++)
        for (size_t i = 0; i < bytes[r]; i++) right = right && *next++ == 16 * r + rank;
    expect(right, comm, "an exchange brought the wrong bytes");
}

/*
 * Two parcels at once, waited for in the other order; rank a sends rank b 40,000·a·b bytes, more than a
 * library sends unasked. What a rank has for itself is nobody's: its place is left as it was.
 */
static void parcels(struct mt_context *ctx, struct mt_comm *comm, bool on_cards)
{
    enum { MOST = 1 << 20, UNTOUCHED = 251 };
    static unsigned char send[2][MOST];
    static unsigned char receive[2][MOST];
    size_t bytes[8];
    size_t total = 0;
    struct mt_comm_transfer *parcel[2] = {0};
    int ranks = mt_comm_size(comm);
    int rank = mt_comm_rank(comm);
    if (ranks > 4) return;
    memset(receive, UNTOUCHED, sizeof receive);
    for (int r = 0; r < ranks; r++) {
        bytes[r] = 40000 * (size_t)rank * (size_t)r;
        for (int k = 0; k < 2; k++) memset(send[k] + total, 100 * k + 16 * rank + r, bytes[r]);
        total += bytes[r];
    }
    uint64_t before = mt_comm_sent_of(comm, MT_COMM_EXCHANGE);
    for (int k = 0; k < 2; k++) {
        if (mt_comm_transfer_create(comm, &parcel[k]) != MT_OK) expect(false, comm, ctx->message);
        expect(mt_comm_transfer_progress(parcel[k]), comm, "a parcel was under way before it set out");
        mt_comm_transfer_start(parcel[k], &(struct mt_comm_load){.send = send[k],
                                                                 .send_bytes = bytes,
                                                                 .receive = receive[k],
                                                                 .receive_bytes = bytes,
                                                                 .on_cards = on_cards});
    }
    (void)mt_comm_transfer_progress(parcel[0]);
    bool right = true;
    for (int k = 2; k-- > 0;) {
        mt_comm_transfer_wait(parcel[k]);
        const unsigned char *next = receive[k];
        for (int r = 0; r < ranks; r++) {
            int expected = r == rank ? UNTOUCHED : 100 * k + 16 * r + rank;
            for (size_t i = 0; i < bytes[r]; i++) right = right && *next++ == expected;
        }
        mt_comm_transfer_free(parcel[k]);
    }
    expect(right, comm, "a parcel brought the wrong bytes");
    expect(mt_comm_sent_of(comm, MT_COMM_EXCHANGE) - before == 2 * (total - bytes[rank]), comm,
           "parcels sent other bytes than they say");
}

/* The cards of all ranks, and of every second one: groups of their own. */
static void by_cards(struct mt_context *ctx, struct mt_comm *comm)
{
    struct mt_comm *half = NULL;
    if (mt_comm_split(comm, mt_comm_rank(comm) % 2, &half) != MT_OK) expect(false, comm, ctx->message);
    if (mt_comm_use_cards(comm, true) != MT_OK) expect(false, comm, ctx->message);
    if (mt_comm_use_cards(half, true) != MT_OK) expect(false, comm, ctx->message);
    expect(mt_comm_has_cards(comm) == (mt_comm_size(comm) > 1), comm, "no cards");
    if (mt_comm_has_cards(comm)) parcels(ctx, comm, true);
    if (mt_comm_has_cards(half)) parcels(ctx, half, true);
    mt_comm_close(half);
}

/* Every rank's numbers, one after the other, to the first. */
static void hand_over(struct mt_comm *comm)
{
    bool right = true;
    for (int from = 1; from < mt_comm_size(comm); from++) {
        const int mine[3] = {mt_comm_rank(comm), 5, mt_comm_rank(comm) * 7};
        int received[3] = {-1, -1, -1};
        if (mt_comm_rank(comm) != 0 && mt_comm_rank(comm) != from) continue;
        mt_comm_hand_over(comm, from, mine, received, sizeof mine);
        int expected = mt_comm_rank(comm) == 0 ? from : -1;
        right = right && received[0] == expected && (expected < 0 || received[2] == 7 * expected);
    }
    expect(right, comm, "numbers were not handed over");
}

/* Rank r has 10·(r+1) items; the first `failing` ranks fail after five. All end together and know it. */
static void pulse(struct mt_context *ctx, struct mt_comm *comm, int failing)
{
    struct mt_rank_progress *pulse = NULL;
    int rank = mt_comm_rank(comm);
    int64_t ranks = mt_comm_size(comm);
    int64_t all = 5 * ranks * (ranks + 1);
    struct mt_rank_progress_state mine = {0};
    if (mt_rank_progress_create(comm, ctx, &pulse) != MT_OK) expect(false, comm, ctx->message);
    bool over = false;
    while (!over) {
        if (!mine.finished && !mine.failed) mine.done++;
        mine.finished = mine.done == 10 * (rank + 1);
        mine.failed = rank < failing && mine.done == 5;
        mine.work = 2.0 * (double)mine.done;
        over = mt_rank_progress_update(pulse, &mine);
        if (!over) mt_rank_progress_rest();
    }
    expect(failing > 0 || (mine.finished && mt_rank_progress_done(pulse) == all), comm,
           "ended before all was done");
    expect(mt_rank_progress_done(pulse) <= all &&
               mt_rank_progress_work(pulse) >= 2.0 * (double)mt_rank_progress_done(pulse) - 0.5,
           comm, "the wrong sums");
    expect(mt_rank_progress_update(pulse, &mine), comm, "what was over goes on");
    expect(failing == 0 || ranks < 2 || mt_rank_progress_done(pulse) < all, comm,
           "nobody heard of the failure");
    mt_rank_progress_free(pulse);
}

static void groups(struct mt_context *ctx, struct mt_comm *comm)
{
    struct mt_comm *half = NULL;
    int rank = mt_comm_rank(comm);
    int value = rank == mt_comm_size(comm) - 1 ? 4711 : 0;
    mt_comm_broadcast(comm, &value, sizeof value, mt_comm_size(comm) - 1);
    expect(value == 4711, comm, "a broadcast brought the wrong number");
    expect(mt_comm_host_ranks(comm) >= 1 && mt_comm_host_ranks(comm) <= mt_comm_size(comm), comm,
           "an impossible number of ranks on this machine");
    expect(mt_comm_threads(comm, 3) == 3 && (mt_comm_threads(comm, 0) >= 1) == (mt_comm_host_ranks(comm) > 1),
           comm, "a wrong number of threads");
    if (mt_comm_split(comm, rank % 2, &half) != MT_OK) expect(false, comm, ctx->message);
    int64_t sum = rank;
    int64_t expected = 0;
    mt_comm_sum_i64(half, &sum, 1);
    for (int r = rank % 2; r < mt_comm_size(comm); r += 2) expected += r;
    expect(sum == expected && mt_comm_rank(half) == rank / 2, comm, "a part of the ranks is wrong");
    mt_comm_close(half);
    mt_comm_barrier(comm);
}

static void agree(struct mt_context *ctx, struct mt_comm *comm, int failing)
{
    enum mt_status status = MT_OK;
    expect(mt_comm_agree(comm, ctx, MT_OK) == MT_OK && mt_comm_failed_rank(comm) < 0, comm, "no agreement");
    if (mt_comm_rank(comm) >= failing)
        status = mt_fail(ctx, MT_ERR_IO, "the disk of rank %d is full", mt_comm_rank(comm));
    status = mt_comm_agree(comm, ctx, status);
    char text[96];
    (void)snprintf(text, sizeof text, "%sthe disk of rank %d is full", failing > 0 ? "rank 2: " : "",
                   failing);
    expect(status == MT_ERR_IO && strcmp(ctx->message, text) == 0, comm, "agreed on something else");
    expect(mt_comm_size(comm) == 1 || mt_comm_failed_rank(comm) == failing, comm, "the wrong rank is blamed");
}

int main(int argc, char **argv)
{
    struct mt_context ctx;
    struct mt_comm *comm = NULL;
    const char *what = argc > 2 ? argv[1] : "";
    int chosen = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    mt_context_init(&ctx, NULL);
    if (mt_comm_open(&ctx, &comm) != MT_OK) {
        (void)fprintf(stderr, "%s\n", ctx.message);
        return 1;
    }
    if (argc == 1) {
        small_sums(comm);
        large_sums(&ctx, comm);
        uneven_exchange(comm);
        parcels(&ctx, comm, false);
        if (getenv("METIER_NCCL") != NULL) by_cards(&ctx, comm);
        hand_over(comm);
        groups(&ctx, comm);
    }
    if (strcmp(what, "pulse") == 0) pulse(&ctx, comm, chosen);
    if (strcmp(what, "agree") == 0) agree(&ctx, comm, chosen);
    if (strcmp(what, "abort") == 0 && mt_comm_rank(comm) == chosen)
        (void)mt_comm_abort(comm, &ctx, mt_fail(&ctx, MT_ERR_NUMERIC, "a number is none"), stderr);
    if (strcmp(what, "die") == 0 && mt_comm_rank(comm) == chosen) (void)raise(SIGKILL);
    if (strcmp(what, "stop") == 0 && mt_comm_rank(comm) == chosen) (void)raise(SIGSTOP);
    if (argc > 2) mt_comm_barrier(comm);
    mt_comm_close(comm);
    if (ctx.live_bytes != 0) faults++;
    return faults == 0 ? 0 : 1;
}
