/* Work beside other work, on a device whose hooks only count. */
#include "ops/beside.h"

#include <string.h>

#include "ops/device.h"
#include "ops/op_test.h"

#define SIDE 70

struct bench {
    struct op_test test;
    float left[SIDE * SIDE], right[SIDE * SIDE];
    float wanted[SIDE * SIDE], got[SIDE * SIDE]; // of the first product, of the last one
};

struct counts {
    int begun, ended, joined;
    bool begin_fails;
};

static enum mt_status begin(struct mt_device *device)
{
    struct counts *counts = device->state;
    counts->begun++;
    return counts->begin_fails ? mt_fail(device->ctx, MT_ERR_INTERNAL, "it cannot") : MT_OK;
}

static enum mt_status end(struct mt_device *device)
{
    struct counts *counts = device->state;
    counts->ended++;
    return MT_OK;
}

static enum mt_status join(struct mt_device *device)
{
    struct counts *counts = device->state;
    counts->joined++;
    return MT_OK;
}

static void set_hooks(struct mt_device *device, struct counts *counts)
{
    assert_null(device->state); // it would be in the way
    device->state = counts;
    device->beside_begin = begin;
    device->beside_end = end;
    device->join = join;
}

static enum mt_status multiply(struct bench *bench, float alpha)
{
    memset(bench->got, 0, sizeof bench->got);
    struct mt_gemm_args args = {.a = mt_tensor_2d(bench->left, MT_F32, SIDE, SIDE),
                                .b = mt_tensor_2d(bench->right, MT_F32, SIDE, SIDE),
                                .c = mt_tensor_2d(bench->got, MT_F32, SIDE, SIDE),
                                .alpha = alpha};
    return mt_gemm(bench->test.device, &args);
}

static void open_bench(struct bench *bench)
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        bench->left[i] = 0.01f * (float)(i % 97);
        bench->right[i] = 1.0f - 0.02f * (float)(i % 89);
    }
    op_test_open(&bench->test, "cpu"); // its product needs scratch
    assert_int_equal(multiply(bench, 1.0f), MT_OK);
    memcpy(bench->wanted, bench->got, sizeof bench->wanted);
    op_test_close(&bench->test);
    op_test_open(&bench->test, "cpu");
}

static void close_bench(struct bench *bench)
{
    bench->test.device->state = NULL;
    op_test_close(&bench->test);
}

static void check_product(struct bench *bench)
{
    assert_int_equal(multiply(bench, 1.0f), MT_OK);
    assert_memory_equal(bench->got, bench->wanted, sizeof bench->got);
}

/* Each side has scratch of its own, which stays where it is. */
static void test_both_sides(void **state)
{
    (void)state;
    static struct bench bench;
    struct counts counts = {0};
    open_bench(&bench);
    struct mt_device *device = bench.test.device;
    set_hooks(device, &counts);
    check_product(&bench);
    const void *own = device->scratch.data;
    const void *other = NULL;
    size_t bytes = mt_device_scratch_bytes(device);
    assert_true(bytes > 0);
    for (int turn = 1; turn <= 2; turn++) {
        assert_int_equal(mt_device_beside_begin(device), MT_OK);
        check_product(&bench);
        assert_ptr_not_equal(device->scratch.data, own);
        if (turn == 2) assert_ptr_equal(device->scratch.data, other);
        other = device->scratch.data;
        assert_int_equal(mt_device_beside_end(device), MT_OK);
        assert_ptr_equal(device->scratch.data, own);
        check_product(&bench);
        assert_int_equal(counts.joined, turn - 1);
        assert_int_equal(mt_device_join(device), MT_OK);
        assert_int_equal(mt_device_join(device), MT_OK); // nothing is apart any more
        assert_int_equal(counts.begun, turn);
        assert_int_equal(counts.ended, turn);
        assert_int_equal(counts.joined, turn);
        assert_int_equal(mt_device_scratch_bytes(device), 2 * bytes);
    }
    close_bench(&bench);
}

/* Planned, the other side's scratch grows as well, and nobody is told. */
static void test_planned(void **state)
{
    (void)state;
    static struct bench bench;
    struct counts counts = {0};
    open_bench(&bench);
    struct mt_device *device = bench.test.device;
    set_hooks(device, &counts);
    mt_device_set_planning(device, true);
    assert_int_equal(mt_device_beside_begin(device), MT_OK);
    assert_int_equal(multiply(&bench, 1.0f), MT_OK);
    assert_int_equal(mt_device_beside_end(device), MT_OK);
    assert_int_equal(mt_device_join(device), MT_OK);
    mt_device_set_planning(device, false);
    assert_int_equal(counts.begun + counts.ended + counts.joined, 0);
    assert_int_equal(device->scratch.bytes, 0);
    size_t planned = mt_device_scratch_bytes(device);
    assert_true(planned > 0);
    assert_int_equal(mt_device_beside_begin(device), MT_OK);
    check_product(&bench);
    assert_int_equal(mt_device_beside_end(device), MT_OK);
    assert_int_equal(mt_device_join(device), MT_OK);
    assert_int_equal(mt_device_scratch_bytes(device), planned);
    close_bench(&bench);
}

/* A begin or an op that fails leaves the device as it was. */
static void test_failures(void **state)
{
    (void)state;
    static struct bench bench;
    for (int which = 0; which < 2; which++) {
        struct counts counts = {.begin_fails = which == 0};
        open_bench(&bench);
        struct mt_device *device = bench.test.device;
        set_hooks(device, &counts);
        check_product(&bench);
        const void *own = device->scratch.data;
        enum mt_status status = mt_device_beside_begin(device);
        assert_int_equal(status, which == 0 ? MT_ERR_INTERNAL : MT_OK);
        if (which == 1) op_test_refused(&bench.test, multiply(&bench, 0.0f), MT_ERR_USAGE, "alpha is 0");
        assert_int_equal(mt_device_beside_end(device), MT_OK);
        assert_int_equal(mt_device_join(device), MT_OK);
        assert_int_equal(counts.begun, 1);
        assert_int_equal(counts.ended, which); // what did not begin does not end
        assert_int_equal(counts.joined, which);
        assert_ptr_equal(device->scratch.data, own);
        check_product(&bench);
        // And once more, as if nothing had been.
        counts.begin_fails = false;
        assert_int_equal(mt_device_beside_begin(device), MT_OK);
        check_product(&bench);
        assert_int_equal(mt_device_beside_end(device), MT_OK);
        assert_int_equal(mt_device_join(device), MT_OK);
        assert_int_equal(counts.joined, which + 1);
        close_bench(&bench);
    }
}

/* Without hooks ops come one after the other, in one scratch. */
static void test_without(void **state)
{
    (void)state;
    static struct bench bench;
    open_bench(&bench);
    struct mt_device *device = bench.test.device;
    check_product(&bench);
    size_t bytes = mt_device_scratch_bytes(device);
    assert_int_equal(mt_device_beside_begin(device), MT_OK);
    check_product(&bench);
    assert_int_equal(mt_device_beside_end(device), MT_OK);
    assert_int_equal(mt_device_join(device), MT_OK);
    assert_int_equal(mt_device_scratch_bytes(device), bytes);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_sides), cmocka_unit_test(test_planned),
                                       cmocka_unit_test(test_failures), cmocka_unit_test(test_without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
