/*
 * The example block as a test of the ops working together: it learns, nothing is allocated while it does, the
 * bits do not depend on threads, the cpu agrees with ref, and the whole backward agrees with a difference
 * quotient of the whole forward. Tests src/ops.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "examples/moe_block.h"

#define SEED 5

/* Trains for some steps and returns the losses. */
static void losses_of(const char *device_name, int threads, float beta, int steps, double *losses)
{
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct moe_block block;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, device_name, threads, &device), MT_OK);
    assert_int_equal(moe_block_create(device, SEED, &block), MT_OK);
    for (int step = 1; step <= steps; step++) {
        struct moe_step report;
        moe_block_draw(&block, SEED, (uint64_t)step);
        assert_int_equal(moe_block_step(&block, step, 3e-3f, 1e-2f, beta, &report), MT_OK);
        if (step == 1) mt_context_forbid_allocation(&ctx, "the test's steps");
        losses[step - 1] = report.loss;
    }
    mt_context_forbid_allocation(&ctx, NULL);
    moe_block_free(&block);
    mt_device_destroy(device);
    assert_int_equal(ctx.live_bytes, 0);
}

static void it_learns(void **state)
{
    (void)state;
    double losses[60];
    losses_of("cpu", 2, 0.1f, 60, losses);
    assert_true(losses[59] < 0.8 * losses[0]);
}

static void threads_do_not_change_bits(void **state)
{
    (void)state;
    double one[12];
    double two[12];
    double four[12];
    losses_of("cpu", 1, 0.1f, 12, one);
    losses_of("cpu", 2, 0.1f, 12, two);
    losses_of("cpu", 4, 0.1f, 12, four);
    assert_memory_equal(one, two, sizeof one);
    assert_memory_equal(one, four, sizeof one);
}

static void cpu_agrees_with_ref(void **state)
{
    (void)state;
    double cpu[2];
    double ref[2];
    losses_of("cpu", 2, 0.1f, 2, cpu);
    losses_of("ref", 1, 0.1f, 2, ref);
    for (int i = 0; i < 2; i++) assert_true(fabs(cpu[i] - ref[i]) < 1e-5 * ref[i]);
}

/*
 * Moves all expert parameters along a random direction and compares the change of loss + beta·L_o with the
 * gradient. Experts only: moving the router changes who is selected, where the loss jumps. The computation is
 * in f32, so the step is large and the tolerance wide; a forgotten term is off by far more.
 */
static void whole_gradient_is_a_slope(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_device *device = NULL;
    struct moe_block block;
    const float beta = 0.5f;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 2, &device), MT_OK);
    assert_int_equal(moe_block_create(device, SEED, &block), MT_OK);
    struct moe_step report;
    moe_block_draw(&block, SEED, 0);
    assert_int_equal(moe_block_step(&block, 1, 0.0f, 0.0f, beta, &report), MT_OK);
    float *values = block.parameters.data;
    const float *gradient = block.gradients.data;
    int64_t router_count = mt_tensor_count(&block.router);
    double expected = 0.0;
    double objective[2];
    const float step = 2e-3f;
    for (int64_t i = router_count; i < block.parameters.dim[0]; i++) {
        expected += (double)gradient[i] * (double)mt_rng_normal(SEED, 99, (uint64_t)i);
    }
    for (int side = 0; side < 2; side++) {
        float distance = side == 0 ? step : -2.0f * step; // there, and back past the start
        for (int64_t i = router_count; i < block.parameters.dim[0]; i++) {
            values[i] += distance * mt_rng_normal(SEED, 99, (uint64_t)i);
        }
        assert_int_equal(moe_block_step(&block, 1, 0.0f, 0.0f, beta, &report), MT_OK);
        objective[side] = report.loss + (double)beta * report.cosine;
    }
    double slope = (objective[0] - objective[1]) / (2.0 * (double)step);
    assert_true(fabs(expected) > 1e-3);
    assert_true(fabs(slope - expected) < 1e-2 * fabs(expected));
    moe_block_free(&block);
    mt_device_destroy(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_learns),
        cmocka_unit_test(threads_do_not_change_bits),
        cmocka_unit_test(cpu_agrees_with_ref),
        cmocka_unit_test(whole_gradient_is_a_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
