/* Experts that start alike: which one they are, the noise, and what is refused. */
#include "model/files/upcycle.h"

#include <math.h>
#include <string.h>

#include "model/params/params.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/small_models.h"
#include "tensor/dtype.h"

static enum mt_status upcycle(const struct workplace *place, struct mt_context *ctx, const char *name,
                              struct mt_upcycle_options options)
{
    char out[256];
    struct mt_upcycle_result result;
    options.directory = place->directory;
    options.out = workplace_path(place, name, out, sizeof out);
    enum mt_status status = mt_model_upcycle(ctx, &options, &result);
    if (status == MT_OK) assert_true(result.tensors > 0 && result.bytes > 0);
    return status;
}

/* The name of the same tensor of another expert; false: of none. */
static bool rename_expert(const char *name, int expert, char *other, size_t bytes)
{
    const char *found = strstr(name, ".experts.");
    if (found == NULL) return false;
    int before = (int)(found - name) + 9;
    const char *rest = name + before + strspn(name + before, "0123456789");
    (void)snprintf(other, bytes, "%.*s%d%s", before, name, expert, rest);
    return true;
}

/* Root mean square of a - b over that of b. */
static double distance(const struct mt_safetensors_tensor *a, const struct mt_safetensors_tensor *b)
{
    int64_t count = 1;
    double apart = 0.0;
    double size = 0.0;
    for (int i = 0; i < a->rank; i++) count *= a->dim[i];
    for (int64_t i = 0; i < count; i++) {
        double x = mt_load(mt_params_stored_type(a), a->data, i);
        double y = mt_load(mt_params_stored_type(b), b->data, i);
        apart += (x - y) * (x - y);
        size += y * y;
    }
    return sqrt(apart / size);
}

/* Every tensor of a folder against the base's: of experts that of `expert`, else its own. */
static void expect_folder(const struct workplace *place, const char *name, int expert, double low,
                          double high)
{
    struct mt_context ctx;
    struct mt_checkpoint base, made;
    char path[256], other[256];
    size_t experts = 0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_checkpoint_open(&ctx, place->directory, &base), MT_OK);
    assert_int_equal(mt_checkpoint_open(&ctx, workplace_path(place, name, path, sizeof path), &made), MT_OK);
    assert_int_equal(base.shard_count, 1);
    for (size_t i = 0; i < base.shards[0].tensor_count; i++) {
        const struct mt_safetensors_tensor *own = &base.shards[0].tensors[i];
        const struct mt_safetensors_tensor *got = mt_checkpoint_find(&made, own->name);
        assert_non_null(got);
        assert_int_equal(got->dtype, own->dtype);
        if (!rename_expert(own->name, expert, other, sizeof other)) {
            assert_memory_equal(got->data, own->data, own->bytes);
            continue;
        }
        experts++;
        double apart = distance(got, mt_checkpoint_find(&base, other));
        assert_true(apart >= low && apart <= high);
    }
    assert_true(experts > 0);
    mt_checkpoint_close(&base);
    mt_checkpoint_close(&made);
}

static void experts_are_copies(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    assert_int_equal(small_model_make(place, small_model_config(&mt_arch_deepseek_v2), MT_HF_FLOAT32, 1), 0);
    assert_int_equal(upcycle(place, &ctx, "plain", (struct mt_upcycle_options){.expert = 1}), MT_OK);
    expect_folder(place, "plain", 1, 0.0, 0.0);
    assert_int_equal(upcycle(place, &ctx, "noisy", (struct mt_upcycle_options){.noise = 0.1, .seed = 4}),
                     MT_OK);
    expect_folder(place, "noisy", 0, 0.07, 0.13);
    assert_int_equal(upcycle(place, &ctx, "over", (struct mt_upcycle_options){.expert = 10000}),
                     MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "the model has experts 0 to"));
    assert_int_not_equal(upcycle(place, &ctx, "plain", (struct mt_upcycle_options){0}), MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    workplace_remove_folder(place, "plain");
    workplace_remove_folder(place, "noisy");
}

static enum mt_status once(struct mt_context *ctx, const void *self)
{
    enum mt_status status = upcycle(self, ctx, "out", (struct mt_upcycle_options){.noise = 0.01});
    if (status == MT_OK) workplace_remove_folder(self, "out");
    return status;
}

static void every_allocation_may_fail(void **state)
{
    assert_int_equal(small_model_make(*state, small_model_config(&mt_arch_mixtral), MT_HF_BFLOAT16, 1), 0);
    assert_every_allocation_may_fail(once, *state, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(experts_are_copies, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
