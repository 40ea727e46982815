/* Parameters: where they come from, what learns, how they are named, and what is refused. */
#include "model/params.h"

#include <math.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/failing_allocator.h"
#include "support/small_models.h"
#include "tensor/dtype.h"

/* A small model opened on the cpu device. */
struct opened {
    struct mt_context ctx;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint;
    struct mt_device *device;
    struct mt_params params;
};

static void open_folder(const struct workplace *place, struct opened *opened)
{
    char path[128];
    mt_context_init(&opened->ctx, NULL);
    (void)workplace_path(place, "config.json", path, sizeof path);
    assert_int_equal(mt_hf_config_read(&opened->ctx, path, &opened->config), MT_OK);
    assert_int_equal(mt_model_describe(&opened->ctx, &opened->config, &opened->desc), MT_OK);
    assert_int_equal(mt_checkpoint_open(&opened->ctx, place->directory, &opened->checkpoint), MT_OK);
    assert_int_equal(mt_device_create(&opened->ctx, "cpu", 1, &opened->device), MT_OK);
    opened->params = (struct mt_params){0};
}

static enum mt_status load(struct opened *opened, const struct mt_train_selection *selection)
{
    return mt_params_load(opened->device, &opened->desc, &opened->checkpoint, selection, &opened->params);
}

static void open_model(const struct workplace *place, enum mt_hf_model model, enum mt_hf_float dtype,
                       struct opened *opened)
{
    assert_int_equal(small_model_make(place, small_model_config(model), dtype, 7), 0);
    open_folder(place, opened);
}

static void close_model(const struct workplace *place, struct opened *opened)
{
    mt_params_free(&opened->params);
    mt_device_destroy(opened->device);
    mt_checkpoint_close(&opened->checkpoint);
    mt_hf_config_free(&opened->config);
    assert_int_equal(opened->ctx.live_bytes, 0);
    workplace_clear(place);
}

static void everything_frozen(void **state)
{
    for (int model = 0; model < MT_HF_MODEL_COUNT; model++) {
        struct opened opened;
        open_model(*state, (enum mt_hf_model)model, MT_HF_BFLOAT16, &opened);
        assert_int_equal(load(&opened, NULL), MT_OK);
        assert_int_equal(opened.params.trained_count, 0);
        assert_int_equal(opened.params.gradients.bytes, 0);
        close_model(*state, &opened);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everything_frozen, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
