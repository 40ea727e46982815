/*
 * What layers issue beside other work does not depend on it, nor that on what is issued beside: on a device
 * that forgets what was made beside until the join, results are the same, bit by bit. Scratch of both sides
 * is planned. Tests src/ops/beside.h and src/model/layers.
 */
#include <stdlib.h>
#include <string.h>

#include "model/model_struct.h"
#include "ops/device.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/small_models.h"

#define SEQUENCES  40
#define TOKENS     600 // more than a short pass has
#define POSITIONS  16
#define VOCABULARY 53
#define REGIONS    4
#define MODELS     3

/* A region of the model's memory when the side began, and as it was when it ended. */
struct region {
    char *now, *before, *beside;
    size_t bytes;
};

struct forgetful {
    struct region region[REGIONS];
    int begun, ended, joined;
    bool begin_fails;
};

struct bench {
    struct mt_context ctx;
    struct mt_device *device;
    struct mt_model *model;
    struct forgetful forgetful;
    float logits[2][SEQUENCES * VOCABULARY]; // after each pass
};

static enum mt_status begin(struct mt_device *device)
{
    struct forgetful *forgetful = device->state;
    forgetful->begun++;
    if (forgetful->begin_fails) return mt_fail(device->ctx, MT_ERR_INTERNAL, "it cannot");
    for (int i = 0; i < REGIONS; i++) {
        struct region *r = &forgetful->region[i];
        if (r->bytes > 0) memcpy(r->before, r->now, r->bytes);
    }
    return MT_OK;
}

static enum mt_status end(struct mt_device *device)
{
    struct forgetful *forgetful = device->state;
    forgetful->ended++;
    for (int i = 0; i < REGIONS; i++) {
        struct region *r = &forgetful->region[i];
        if (r->bytes == 0) continue;
        memcpy(r->beside, r->now, r->bytes);
        memcpy(r->now, r->before, r->bytes);
    }
    return MT_OK;
}

static enum mt_status join(struct mt_device *device)
{
    struct forgetful *forgetful = device->state;
    size_t made = 0;
    forgetful->joined++;
    for (int i = 0; i < REGIONS; i++) {
        struct region *r = &forgetful->region[i];
        for (size_t at = 0; at < r->bytes; at++) {
            if (r->beside[at] == r->before[at]) continue;
            assert_int_equal(r->now[at], r->before[at]); // nobody else has written there
            r->now[at] = r->beside[at];
            made++;
        }
    }
    assert_true(made > 0);
    return MT_OK;
}

static void take_regions(struct bench *bench)
{
    const struct mt_model *model = bench->model;
    const struct mt_buffer *const buffers[REGIONS] = {&model->kept, &model->shared, &model->work,
                                                      &model->cache.buffer};
    for (int i = 0; i < REGIONS; i++) {
        struct region *r = &bench->forgetful.region[i];
        *r = (struct region){.now = buffers[i]->data, .bytes = buffers[i]->bytes};
        if (r->bytes == 0) continue;
        r->before = malloc(r->bytes);
        r->beside = malloc(r->bytes);
        assert_true(r->before != NULL && r->beside != NULL);
    }
}

static void open_bench(struct bench *bench, const struct workplace *place, bool hooked, bool lora)
{
    static const char *const everything[] = {"*", NULL};
    struct mt_model_options options = {.tokens = TOKENS,
                                       .sequences = SEQUENCES,
                                       .positions = POSITIONS,
                                       .cache = true,
                                       .logit_rows = SEQUENCES};
    if (lora)
        options.selection =
            (struct mt_train_selection){.lora = everything, .lora_rank = 3, .lora_alpha = 6.0, .seed = 5};
    memset(bench, 0, sizeof *bench);
    mt_context_init(&bench->ctx, NULL);
    assert_int_equal(mt_device_create(&bench->ctx, "cpu", 2, &bench->device), MT_OK);
    if (hooked) {
        assert_null(bench->device->state); // it would be in the way
        bench->device->state = &bench->forgetful;
        bench->device->beside_begin = begin;
        bench->device->beside_end = end;
        bench->device->join = join;
    }
    assert_int_equal(mt_model_open(bench->device, place->directory, &options, &bench->model), MT_OK);
    if (lora) drawn_adapter_fill(mt_model_params(bench->model), 0.3f);
    if (hooked) take_regions(bench);
}

static void close_bench(struct bench *bench)
{
    for (int i = 0; i < REGIONS; i++) {
        free(bench->forgetful.region[i].before);
        free(bench->forgetful.region[i].beside);
    }
    mt_model_close(bench->model);
    mt_device_destroy(bench->device);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

/* So many tokens for each of the first sequences, behind those they have. */
static enum mt_status pass(struct bench *bench, int32_t sequences, int32_t past, int32_t each, float *logits)
{
    int32_t ids[SEQUENCES * POSITIONS];
    int32_t offsets[SEQUENCES + 1] = {0};
    int32_t last[SEQUENCES];
    struct mt_cached_sequence cached[SEQUENCES];
    struct mt_model_loss loss;
    for (int32_t b = 0; b < sequences; b++) {
        cached[b] = (struct mt_cached_sequence){.slot = b, .past = past, .length = POSITIONS};
        offsets[b + 1] = offsets[b] + each;
        last[b] = offsets[b + 1] - 1;
    }
    for (int32_t i = 0; i < sequences * each; i++) ids[i] = (i * 7 + past + 3) % VOCABULARY;
    struct mt_batch batch = {.tokens = sequences * each,
                             .sequences = sequences,
                             .ids = ids,
                             .offsets = offsets,
                             .cached = cached,
                             .loss_only = true};
    struct mt_tensor target = mt_tensor_2d(logits, MT_F32, sequences, VOCABULARY);
    enum mt_status status = mt_model_forward(bench->model, &batch, &loss);
    return status == MT_OK ? mt_model_logits_of(bench->model, last, sequences, &target) : status;
}

/* A pass of many tokens, and one of so few that a latent goes to the cache beside queries; nothing is
 * allocated. */
static void run(struct bench *bench)
{
    mt_context_forbid_allocation(&bench->ctx, "a pass");
    assert_int_equal(pass(bench, SEQUENCES, 0, 3, bench->logits[0]), MT_OK);
    int with_many = bench->forgetful.joined;
    assert_int_equal(pass(bench, 4, 3, 1, bench->logits[1]), MT_OK);
    const struct mt_model_desc *desc = mt_model_description(bench->model);
    int64_t latents = desc->attention == MT_ATTENTION_LATENT ? desc->layers : 0;
    if (with_many > 0) assert_int_equal(bench->forgetful.joined, 2 * with_many + latents);
    mt_context_forbid_allocation(&bench->ctx, NULL);
}

static void test_same_bits(void **state)
{
    const struct workplace *place = *state;
    // Latent attention with queries as they are and compressed; a gate on the shared experts.
    static const struct mt_arch *const models[MODELS] = {&mt_arch_deepseek_v2, &mt_arch_deepseek_v3,
                                                         &mt_arch_qwen2_moe};
    static struct bench plain, hooked;
    for (size_t i = 0; i < 2 * MODELS; i++) {
        const struct forgetful *counts = &hooked.forgetful;
        const char *config = small_model_config(models[i / 2]);
        assert_int_equal(small_model_make(place, config, MT_HF_BFLOAT16, 11), 0);
        open_bench(&plain, place, false, i % 2 == 1);
        open_bench(&hooked, place, true, i % 2 == 1);
        run(&plain);
        hooked.forgetful.begin_fails = true;
        assert_int_equal(pass(&hooked, SEQUENCES, 0, 3, hooked.logits[0]), MT_ERR_INTERNAL);
        assert_int_equal(counts->begun, 1);
        assert_int_equal(counts->ended + counts->joined, 0);
        hooked.forgetful.begin_fails = false;
        run(&hooked);
        assert_true(counts->joined > 0);
        assert_int_equal(counts->ended, counts->joined);
        assert_int_equal(counts->begun, counts->joined + 1);
        assert_memory_equal(hooked.logits, plain.logits, sizeof plain.logits);
        close_bench(&plain);
        close_bench(&hooked);
        workplace_clear(place);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bits, workplace_open, workplace_close)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
