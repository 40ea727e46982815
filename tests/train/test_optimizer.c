/* AdamW over flat memory against PyTorch's, clipping, and the search for numbers that are none. */
#include "train/optimizer.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"

enum { NUMBERS = 32 }; // two tensors of 2 and of 2 numbers, each with the gap the planner leaves after it

/* Parameters as the loader lays them out, without a model. */
struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_params params;
    struct mt_param trained[2];
    struct mt_optimizer optimizer;
};

static const struct mt_gradient_groups alone = {0};

static const struct mt_optimizer_options usual = {
    .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.1, .clip = 1.0};

static enum mt_status set_up(struct bench *b, const struct mt_optimizer_options *options)
{
    struct mt_params *params = &b->params;
    enum mt_status status = mt_device_create(&b->ctx, "cpu", 2, &b->device);
    if (status == MT_OK)
        status = mt_device_buffer_create(b->device, NUMBERS * sizeof(float), &params->masters);
    if (status == MT_OK)
        status = mt_device_buffer_create(b->device, NUMBERS * sizeof(float), &params->gradients);
    if (status != MT_OK) return status;
    params->device = b->device;
    params->trained = b->trained;
    params->trained_count = 2;
    memset(params->masters.data, 0, NUMBERS * sizeof(float));
    memset(params->gradients.data, 0, NUMBERS * sizeof(float));
    for (int i = 0; i < 2; i++) {
        b->trained[i] = (struct mt_param){
            .name = i == 0 ? "one" : "two",
            .value = mt_tensor_1d((float *)params->masters.data + 16 * i, MT_F32, 2),
            .grad = mt_tensor_1d((float *)params->gradients.data + 16 * i, MT_F32, 2),
            .layer = i,
        };
    }
    return mt_optimizer_create(params, &alone, options, &b->optimizer);
}

static void open_bench(struct bench *b, const struct mt_optimizer_options *options)
{
    memset(b, 0, sizeof *b);
    mt_context_init(&b->ctx, NULL);
    if (set_up(b, options) != MT_OK) fail_msg("%s", b->ctx.message);
}

static void release(struct bench *b)
{
    mt_optimizer_free(&b->optimizer);
    mt_buffer_release(&b->params.masters);
    mt_buffer_release(&b->params.gradients);
    mt_device_destroy(b->device);
}

static void put(const struct mt_param *param, bool gradient, float first, float second)
{
    float *numbers = gradient ? param->grad.data : param->value.data;
    numbers[0] = first;
    numbers[1] = second;
}

/* torch.optim.AdamW(lr 0.01, 0.02, 0.03; weight_decay 0.1) after clip_grad_norm_(1.0), on the same numbers.
 */
static void steps_are_those_of_torch(void **state)
{
    (void)state;
    static const float gradients[3][4] = {
        {3.0f, -4.0f, 0.0f, 12.0f}, {0.1f, 0.2f, -0.3f, 0.05f}, {-1.0f, 1.0f, 2.0f, -2.0f}};
    static const double norms[] = {13.0, 0.3774917423725128, 3.1622776985168457};
    static const float expected[3][4] = {{0.489500016f, -1.23874998f, 1.99800003f, -0.00999999978f},
                                         {0.470305711f, -1.23315179f, 2.00888681f, -0.0241668969f},
                                         {0.47075972f, -1.23922849f, 1.9929359f, -0.0268379003f}};
    struct bench b;
    open_bench(&b, &usual);
    put(&b.trained[0], false, 0.5f, -1.25f);
    put(&b.trained[1], false, 2.0f, 0.0f);
    for (uint64_t step = 1; step <= 3; step++) {
        const float *g = gradients[step - 1];
        double norm = 0.0;
        bool clipped = false;
        put(&b.trained[0], true, g[0], g[1]);
        put(&b.trained[1], true, g[2], g[3]);
        assert_int_equal(mt_optimizer_norm(&b.optimizer, &norm), MT_OK);
        assert_true(fabs(norm - norms[step - 1]) < 1e-6);
        assert_int_equal(mt_optimizer_step(&b.optimizer, step, 0.01 * (double)step, norm, &clipped), MT_OK);
        assert_int_equal(clipped, step != 2);
        for (int i = 0; i < 4; i++) {
            float got = ((const float *)b.trained[i / 2].value.data)[i % 2];
            assert_true(fabsf(got - expected[step - 1][i]) < 3e-7f);
        }
    }
    release(&b);
    assert_int_equal(b.ctx.live_bytes, 0);
}

/* Gaps between tensors stay zero, and a step allocates nothing. */
static void gaps_stay_and_nothing_is_allocated(void **state)
{
    (void)state;
    struct bench b;
    bool clipped = true;
    double norm = 0.0;
    open_bench(&b, &(struct mt_optimizer_options){.beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8});
    put(&b.trained[1], true, 1000.0f, 1.0f);
    mt_context_forbid_allocation(&b.ctx, "a step");
    assert_int_equal(mt_optimizer_norm(&b.optimizer, &norm), MT_OK);
    assert_int_equal(mt_optimizer_step(&b.optimizer, 1, 0.5, norm, &clipped), MT_OK);
    mt_context_forbid_allocation(&b.ctx, NULL);
    assert_false(clipped); // clip 0: never
    const float *masters = b.params.masters.data;
    for (int i = 0; i < NUMBERS; i++) {
        if (i == 16 || i == 17)
            assert_true(masters[i] < -0.49f);
        else
            assert_true(masters[i] == 0.0f);
    }
    release(&b);
}

static void bad_numbers_are_found(void **state)
{
    (void)state;
    struct bench b;
    const struct mt_param *bad = NULL;
    double norm = 0.0;
    open_bench(&b, &usual);
    assert_int_equal(mt_optimizer_check(&b.optimizer, &bad), MT_OK);
    assert_null(bad);
    assert_int_equal(mt_optimizer_find_bad_gradient(&b.optimizer, &bad), MT_OK);
    assert_null(bad);
    put(&b.trained[1], true, 1.0f, INFINITY);
    assert_int_equal(mt_optimizer_norm(&b.optimizer, &norm), MT_OK);
    assert_true(!isfinite(norm));
    assert_int_equal(mt_optimizer_find_bad_gradient(&b.optimizer, &bad), MT_OK);
    assert_ptr_equal(bad, &b.trained[1]);
    put(&b.trained[0], false, NAN, 0.0f);
    assert_int_equal(mt_optimizer_check(&b.optimizer, &bad), MT_OK);
    assert_ptr_equal(bad, &b.trained[0]);
    put(&b.trained[0], false, 0.0f, 0.0f);
    ((float *)b.optimizer.second.data)[17] = INFINITY;
    assert_int_equal(mt_optimizer_check(&b.optimizer, &bad), MT_OK);
    assert_ptr_equal(bad, &b.trained[1]);
    release(&b);
}

static enum mt_status create(struct mt_context *ctx, const void *self)
{
    struct bench b = {0};
    (void)self;
    b.ctx = *ctx;
    mt_context_init(&b.ctx, &ctx->allocator);
    enum mt_status status = set_up(&b, &usual);
    if (status != MT_OK) (void)mt_fail(ctx, status, "%s", b.ctx.message);
    release(&b);
    return status;
}

static void memory_may_run_out(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(create, NULL, 1);
}

static void nothing_to_learn_is_refused(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_params params = {0};
    struct mt_optimizer optimizer;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_device_create(&ctx, "cpu", 1, &params.device), MT_OK);
    assert_int_equal(mt_optimizer_create(&params, &alone, &usual, &optimizer), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "nothing is trainable"));
    mt_device_destroy(params.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_of_torch),    cmocka_unit_test(gaps_stay_and_nothing_is_allocated),
        cmocka_unit_test(bad_numbers_are_found),       cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(nothing_to_learn_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
