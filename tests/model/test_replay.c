/* Recording and replaying passes, on a device that only counts what it is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/replay.h"
#include "ops/device.h"

struct counts {
    int begun, ended, replayed, released, worked;
    bool end_fails, work_fails_recorded;
    bool recording;
};

static struct counts *counts_of(const struct mt_device *device)
{
    return device->state;
}

static enum mt_status begin(struct mt_device *device)
{
    counts_of(device)->begun++;
    counts_of(device)->recording = true;
    return MT_OK;
}

static enum mt_status end(struct mt_device *device, void **recorded)
{
    struct counts *counts = counts_of(device);
    counts->ended++;
    counts->recording = false;
    *recorded = counts;
    return counts->end_fails ? mt_fail(device->ctx, MT_ERR_INTERNAL, "it cannot") : MT_OK;
}

static enum mt_status replay_recorded(struct mt_device *device, void *recorded)
{
    assert_ptr_equal(recorded, counts_of(device));
    counts_of(device)->replayed++;
    return MT_OK;
}

static void release(struct mt_device *device, void *recorded)
{
    assert_ptr_equal(recorded, counts_of(device));
    counts_of(device)->released++;
}

static enum mt_status work(void *self)
{
    struct counts *counts = self;
    counts->worked++;
    return counts->recording && counts->work_fails_recorded ? MT_ERR_UNSUPPORTED : MT_OK;
}

struct bench {
    struct mt_context ctx;
    struct counts counts;
    struct mt_device device;
    struct mt_replay replay;
};

static void open_bench(struct bench *bench)
{
    *bench = (struct bench){0};
    mt_context_init(&bench->ctx, NULL);
    bench->device = (struct mt_device){.ctx = &bench->ctx,
                                       .name = "counter",
                                       .state = &bench->counts,
                                       .record_begin = begin,
                                       .record_end = end,
                                       .replay = replay_recorded,
                                       .release_recorded = release};
}

static enum mt_status run(struct bench *bench, int64_t tokens)
{
    return mt_replay_run(&bench->replay, &bench->device, tokens, work, &bench->counts);
}

/* The first pass runs, the second is recorded, every one from then on is replayed. */
static void test_second_is_recorded(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    for (int i = 0; i < 5; i++) assert_int_equal(run(&bench, 3), MT_OK);
    assert_int_equal(bench.counts.worked, 2);
    assert_int_equal(bench.counts.begun, 1);
    assert_int_equal(bench.counts.ended, 1);
    assert_int_equal(bench.counts.replayed, 4);
    // Another number of tokens is another pass.
    assert_int_equal(run(&bench, 4), MT_OK);
    assert_int_equal(bench.counts.worked, 3);
    assert_int_equal(bench.counts.begun, 1);
    mt_replay_free(&bench.replay);
    assert_int_equal(bench.counts.released, 1);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

/* What was recorded before the scratch moved would write to where it was. */
static void test_moved_scratch(void **state)
{
    (void)state;
    struct bench bench;
    char elsewhere = 0;
    open_bench(&bench);
    for (int i = 0; i < 3; i++) assert_int_equal(run(&bench, 1), MT_OK);
    for (int which = 0; which < 2; which++) {
        struct mt_buffer *moved = which == 0 ? &bench.device.scratch : &bench.device.scratch_beside;
        moved->data = &elsewhere;
        assert_int_equal(run(&bench, 1), MT_OK);
        assert_int_equal(bench.counts.begun, 2 + which);
        assert_int_equal(bench.counts.released, 1 + which);
        assert_int_equal(bench.counts.replayed, 3 + which);
    }
    mt_replay_free(&bench.replay);
    assert_int_equal(bench.ctx.live_bytes, 0);
}

/* A pass that cannot be recorded is run as it is, and never tried again. */
static void test_failures(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        struct bench bench;
        open_bench(&bench);
        bench.counts.end_fails = which == 0;
        bench.counts.work_fails_recorded = which == 1;
        for (int i = 0; i < 4; i++) assert_int_equal(run(&bench, 2), MT_OK);
        assert_int_equal(bench.counts.begun, 1);
        assert_int_equal(bench.counts.ended, 1);
        assert_int_equal(bench.counts.replayed, 0);
        assert_int_equal(bench.counts.worked, 5); // four, and the one that was taken down in vain
        mt_replay_free(&bench.replay);
        assert_int_equal(bench.ctx.live_bytes, 0);
    }
}

static void test_no_recording(void **state)
{
    (void)state;
    struct bench bench;
    struct mt_op_time times[MT_OP_COUNT] = {{0}};
    open_bench(&bench);
    mt_device_set_timing(&bench.device, times); // ops are waited for, one by one
    for (int i = 0; i < 3; i++) assert_int_equal(run(&bench, 1), MT_OK);
    mt_device_set_timing(&bench.device, NULL);
    assert_int_equal(run(&bench, MT_REPLAY_TOKENS + 1), MT_OK);
    assert_int_equal(run(&bench, MT_REPLAY_TOKENS + 1), MT_OK);
    bench.device.record_begin = NULL; // a device on host memory
    assert_int_equal(run(&bench, 1), MT_OK);
    assert_int_equal(run(&bench, 1), MT_OK);
    assert_int_equal(bench.counts.begun, 0);
    assert_int_equal(bench.counts.worked, 7);
    assert_int_equal(mt_device_record_begin(&bench.device), MT_ERR_UNSUPPORTED);
    mt_replay_free(&bench.replay);
}

/* Few numbers of tokens, and never more than there is room for. */
static void test_padding(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench);
    const struct {
        int64_t tokens, most, padded;
    } cases[] = {{1, 1, 1},
                 {1, 64, 1},
                 {3, 64, 4},
                 {5, 64, MT_REPLAY_STEP},
                 {MT_REPLAY_STEP, 64, MT_REPLAY_STEP},
                 {MT_REPLAY_STEP + 1, 64, 2 * MT_REPLAY_STEP},
                 {MT_REPLAY_STEP + 1, MT_REPLAY_STEP + 3, MT_REPLAY_STEP + 3},
                 {MT_REPLAY_TOKENS - 1, 1000, MT_REPLAY_TOKENS},
                 {MT_REPLAY_TOKENS + 1, 1000, MT_REPLAY_TOKENS + 1},
                 {9, 8, 9},
                 {0, 8, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mt_replay_padded(&bench.replay, &bench.device, cases[i].tokens, cases[i].most),
                         cases[i].padded);
    bench.replay.off = true;
    assert_int_equal(mt_replay_padded(&bench.replay, &bench.device, 1, 64), 1);
    bench.replay.off = false;
    bench.device.record_begin = NULL;
    assert_int_equal(mt_replay_padded(&bench.replay, &bench.device, 1, 64), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_second_is_recorded),
        cmocka_unit_test(test_moved_scratch),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_no_recording),
        cmocka_unit_test(test_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
