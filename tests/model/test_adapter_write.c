/* Adapters written and read back: every layout, subsets of experts, PEFT's own stacks, failures on the way.
 */
#include <stdio.h>
#include <string.h>

#include "arch/published/stacks.h"
#include "base/files/file.h"
#include "formats/safetensors/safetensors_writer.h"
#include "formats/text/json.h"
#include "model/adapters/adapter.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"

static const char *const everything[] = {"*", NULL};

static const struct mt_train_selection all_pairs = {
    .lora = everything, .lora_rank = 3, .lora_alpha = 7.0, .lora_dropout = 0.1};

#define COPY_FLOATS 100000

/* Writes what is drawn, loads what the adapter says, and expects the same pairs with the same values. */
static void expect_round_trip(const struct workplace *place, struct opened_model *opened,
                              const struct mt_train_selection *selection, enum mt_adapter_layout layout)
{
    static float values[COPY_FLOATS];
    char names[512][160];
    char path[128];
    struct mt_adapter adapter;
    struct mt_train_selection read = {0};
    assert_int_equal(opened_model_load(opened, selection), MT_OK);
    drawn_adapter_fill(&opened->params, 0.5f);
    size_t count = opened->params.trained_count;
    size_t copied = 0;
    assert_true(count <= 512 && opened->params.trained_elements <= COPY_FLOATS);
    for (size_t i = 0; i < count; i++) {
        const struct mt_param *param = &opened->params.trained[i];
        size_t elements = (size_t)mt_tensor_count(&param->value);
        (void)snprintf(names[i], sizeof names[i], "%s", param->name);
        memcpy(values + copied, param->value.data, elements * sizeof(float));
        copied += elements;
    }
    assert_int_equal(drawn_adapter_write(place, "adapter", &opened->params, &opened->desc, selection, layout),
                     MT_OK);

    (void)workplace_path(place, "adapter", path, sizeof path);
    if (mt_adapter_open(&opened->ctx, path, &opened->desc, &adapter) != MT_OK)
        fail_msg("%s", opened->ctx.message);
    assert_int_equal(adapter.rank, 3);
    assert_true(adapter.alpha == 7.0);
    assert_true(adapter.dropout == 0.1);
    mt_adapter_select(&adapter, &read);
    assert_int_equal(opened_model_load(opened, &read), MT_OK);
    assert_int_equal(opened->params.trained_count, count);
    assert_int_equal(mt_adapter_apply(&adapter, &opened->params), MT_OK);
    copied = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_param *param = &opened->params.trained[i];
        size_t elements = (size_t)mt_tensor_count(&param->value);
        assert_string_equal(param->name, names[i]);
        assert_memory_equal(param->value.data, values + copied, elements * sizeof(float));
        copied += elements;
    }
    mt_adapter_close(&adapter);
    workplace_remove_folder(place, "adapter");
}

static void round_trips(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        assert_int_equal(opened_model_make(place, model, MT_HF_BFLOAT16, &opened), 0);
        expect_round_trip(place, &opened, &all_pairs, MT_ADAPTER_PER_EXPERT);
        expect_round_trip(place, &opened, &all_pairs, MT_ADAPTER_VLLM);
        if (model != &mt_arch_deepseek) expect_round_trip(place, &opened, &all_pairs, MT_ADAPTER_FUSED);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* Some experts of some layers, gate without up, down alone: what has no pair is zero in a stack. */
static void subsets(void **state)
{
    static const bool some[7] = {false, true, false, false, true, false, false};
    const bool *experts[8] = {NULL, some};
    static const char *const routed[] = {"routed_experts", NULL};
    static const char *const gate[] = {"*.experts.*.gate_proj", "router", NULL};
    static const char *const down[] = {"*.layers.0.*.experts.*.down_proj", NULL};
    const char *const *const lists[] = {routed, gate, down};
    const struct workplace *place = *state;
    struct opened_model opened;
    assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(opened.desc.experts, 7);
    assert_true(opened.desc.layers <= 8);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        for (int layout = MT_ADAPTER_AUTO; layout < MT_ADAPTER_LAYOUTS; layout++) {
            struct mt_train_selection selection = all_pairs;
            selection.lora = lists[i];
            selection.experts = i == 0 ? experts : NULL;
            expect_round_trip(place, &opened, &selection, (enum mt_adapter_layout)layout);
        }
    }
    assert_int_equal(opened_model_close(place, &opened), 0);
}

/* What PEFT and vLLM read of the config. */
static void configs(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    assert_int_equal(opened_model_make(place, &mt_arch_mixtral, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &all_pairs), MT_OK);
    for (int layout = MT_ADAPTER_PER_EXPERT; layout <= MT_ADAPTER_FUSED; layout++) {
        struct mt_json json;
        struct mt_json_node list;
        struct mt_json_node pattern;
        char path[128];
        const char *text = NULL;
        double number = -1.0;
        assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &all_pairs,
                                             (enum mt_adapter_layout)layout),
                         MT_OK);
        (void)workplace_path(place, "adapter/" MT_ADAPTER_CONFIG, path, sizeof path);
        assert_int_equal(mt_json_read(&opened.ctx, path, &mt_json_file_limits, &json), MT_OK);
        struct mt_json_node root = mt_json_root(&json);
        assert_int_equal(mt_json_get_string(&root, "base_model_name_or_path", &text), MT_OK);
        assert_string_equal(text, "somewhere/\"quoted\"");
        assert_int_equal(mt_json_get_real(&root, "lora_dropout", 0.0, 1.0, &number), MT_OK);
        assert_true(number == 0.0); // PEFT refuses any other with parameters
        assert_int_equal(mt_json_get_array(&root, "target_modules", &list), MT_OK);
        struct mt_json_node first = mt_json_element(&list, 0);
        assert_int_equal(mt_json_as_string(&first, &text), MT_OK);
        bool fused = layout == MT_ADAPTER_FUSED;
        assert_string_equal(text, fused ? "k_proj" : "gate");
        assert_int_equal(mt_json_count(&list), fused ? 4 : 8); // q, k, v, o; gate, w1, w2, w3
        assert_true(mt_json_has(&root, "target_parameters") == fused);
        assert_int_equal(mt_json_get_object(&root, "rank_pattern", &pattern), MT_OK);
        assert_int_equal(mt_json_count(&pattern), fused ? 2 : 0); // a module's own, then the stacks'
        void *position = NULL;
        struct mt_json_node entry;
        while (fused && mt_json_next(&pattern, &position, &entry)) text = entry.key;
        if (fused) assert_string_equal(text, "model.layers.0.self_attn.q_proj|mlp.experts.gate_up_proj");
        mt_json_free(&json);
        workplace_remove_folder(place, "adapter");
    }
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static void refusals(void **state)
{
    static const char *const router[] = {"router", NULL};
    static const char *const attention[] = {"attention", NULL};
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection mixed = all_pairs;
    mixed.lora = attention;
    mixed.full = router;
    assert_int_equal(opened_model_make(place, &mt_arch_deepseek, MT_HF_FLOAT32, &opened), 0);
    const char *message = opened.ctx.message;
    assert_int_equal(opened_model_load(&opened, &mixed), MT_OK);
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &mixed, MT_ADAPTER_PER_EXPERT),
        MT_ERR_USAGE);
    assert_non_null(strstr(message, "which is trained in full"));
    assert_int_equal(opened_model_load(&opened, &(struct mt_train_selection){0}), MT_OK);
    assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &all_pairs,
                                         MT_ADAPTER_PER_EXPERT),
                     MT_ERR_USAGE);
    assert_non_null(strstr(message, "no LoRA pairs to write"));
    assert_int_equal(opened_model_load(&opened, &all_pairs), MT_OK);
    assert_int_equal(
        drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &all_pairs, MT_ADAPTER_FUSED),
        MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(message, "no class for this model"));
    for (int again = 0; again < 2; again++) { // the second time it is there already
        assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &all_pairs,
                                             MT_ADAPTER_PER_EXPERT),
                         again == 0 ? MT_OK : MT_ERR_USAGE);
    }
    assert_non_null(strstr(message, "exists and is not empty"));
    workplace_remove_folder(place, "adapter");
    assert_int_equal(drawn_adapter_write(place, "no/such/place", &opened.params, &opened.desc, &all_pairs,
                                         MT_ADAPTER_PER_EXPERT),
                     MT_ERR_IO);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

/* A stack as PEFT draws it, gate and up sharing A: read as two pairs of the full rank. */
static void shared_stack(void **state)
{
    enum { RANK = 2, EXPERTS = 7, WIDTH = 24, INNER = 10 };
    static const struct mt_safetensors_spec specs[] = {
        {"base_model.model.model.layers.1.mlp.experts.lora_A.weight", MT_SAFETENSORS_F32, 2, {14, WIDTH}},
        {"base_model.model.model.layers.1.mlp.experts.lora_B.weight", MT_SAFETENSORS_F32, 2, {2 * INNER, 14}},
    };
    static const char config[] =
        "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3, \"target_parameters\": "
        "[\"mlp.experts.gate_up_proj\"]}";
    float a[RANK * EXPERTS * WIDTH];
    float b[2 * INNER * RANK * EXPERTS];
    float read_a[RANK * WIDTH];
    float read_b[INNER * RANK];
    char path[128];
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_adapter adapter;
    struct mt_safetensors_writer writer;
    for (size_t i = 0; i < sizeof a / sizeof *a; i++) a[i] = (float)i + 1.0f;
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) b[i] = 1000.0f + (float)i;
    assert_int_equal(opened_model_make(place, &mt_arch_olmoe, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(workplace_write(place, MT_ADAPTER_CONFIG, config, sizeof config - 1), 0);
    (void)workplace_path(place, MT_ADAPTER_WEIGHTS, path, sizeof path);
    assert_int_equal(mt_safetensors_writer_open(&opened.ctx, path, specs, 2, NULL, 0, &writer), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, a, sizeof a), MT_OK);
    assert_int_equal(mt_safetensors_writer_write(&writer, b, sizeof b), MT_OK);
    assert_int_equal(mt_safetensors_writer_finish(&writer), MT_OK);
    assert_int_equal(mt_adapter_open(&opened.ctx, place->directory, &opened.desc, &adapter), MT_OK);
    assert_int_equal(adapter.module_count, 2 * EXPERTS);
    const struct mt_adapter_pair *up = mt_adapter_find(&adapter, "model.layers.1.mlp.experts.5.up_proj");
    assert_non_null(up);
    mt_adapter_read_pair(&adapter, up, RANK, read_a, read_b);
    for (int k = 0; k < RANK; k++) {
        for (int i = 0; i < WIDTH; i++) assert_true(read_a[k * WIDTH + i] == a[(5 * RANK + k) * WIDTH + i]);
        for (int o = 0; o < INNER; o++) {
            assert_true(read_b[o * RANK + k] == b[(INNER + o) * RANK * EXPERTS + k * EXPERTS + 5]);
        }
    }
    mt_adapter_close(&adapter);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static enum mt_status write_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    static const char *const some[] = {"*.layers.1.*", NULL};
    struct mt_train_selection selection = all_pairs;
    struct mt_hf_config config = {0};
    struct mt_model_desc desc;
    struct mt_checkpoint checkpoint = {0};
    struct mt_device *device = NULL;
    struct mt_params params = {0};
    char path[128];
    int entries = workplace_entries(place);
    selection.lora = some;
    enum mt_status status =
        mt_hf_config_read(ctx, workplace_path(place, "config.json", path, sizeof path), NULL, 0, &config);
    if (status == MT_OK) status = mt_model_describe(ctx, &config, &desc);
    if (status == MT_OK) status = mt_stacks_open(ctx, place->directory, &config, &checkpoint);
    if (status == MT_OK) status = mt_device_create(ctx, "cpu", 1, &device);
    if (status == MT_OK) status = mt_params_load(device, &desc, &checkpoint, &selection, &params);
    if (status == MT_OK)
        status = drawn_adapter_write(place, "adapter", &params, &desc, &selection, MT_ADAPTER_FUSED);
    mt_params_free(&params);
    mt_device_destroy(device);
    mt_checkpoint_close(&checkpoint);
    mt_hf_config_free(&config);
    if (status == MT_OK) workplace_remove_folder(place, "adapter");
    // After a failure neither the folder nor a part of it is left.
    return workplace_entries(place) == entries ? status : MT_ERR_INTERNAL;
}

static void every_allocation_may_fail(void **state)
{
    assert_int_equal(small_model_make(*state, small_model_config(&mt_arch_deepseek_v3), MT_HF_FLOAT32, 1), 0);
    assert_every_allocation_may_fail(write_once, *state, 21);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(round_trips), AT_A_PLACE(subsets),      AT_A_PLACE(configs),
        AT_A_PLACE(refusals),    AT_A_PLACE(shared_stack), AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
