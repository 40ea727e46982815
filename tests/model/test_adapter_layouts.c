/*
 * The layouts of adapters: the default one against what PEFT asks for
 * (tests/model/golden/NAME/adapter_keys.txt, made by tests/parity/adapter_golden.py), vLLM's against its
 * rules; rewriting, and what is warned of. Tests src/model/adapters/adapter_layout.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/json.h"
#include "model/adapters/adapter.h"
#include "model/adapters/router_bias.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"

#define RANK       3
#define LINE_BYTES 192
#define MOST_LINES 512
#define TEXT_BYTES 65536

static const struct mt_train_selection pairs = {.lora_rank = RANK, .lora_alpha = 7.0, .lora_dropout = 0.1};

// ------------------------------------------------------------------ a list of what is in an adapter

struct lines {
    char line[MOST_LINES][LINE_BYTES];
    size_t count;
};

/* Adds a line, with * for every number between dots. */
static void add_line(struct lines *lines, const char *text)
{
    assert_true(lines->count < MOST_LINES);
    char *to = lines->line[lines->count++];
    char *end = to + LINE_BYTES - 1;
    while (*text != '\0' && to < end) {
        size_t digits = strspn(text, "0123456789");
        bool number = digits > 0 && text[-1] == '.' && text[digits] == '.';
        *to++ = number ? '*' : *text;
        text += number ? digits : 1;
    }
    *to = '\0';
}

static int compare_lines(const void *left, const void *right)
{
    return strcmp(left, right);
}

/* Appends the lines in order, equal ones once with their count, and empties the list. */
static void put_lines(struct lines *lines, const char *kind, char *text)
{
    qsort(lines->line, lines->count, LINE_BYTES, compare_lines);
    for (size_t first = 0, end = 0; first < lines->count; first = end) {
        while (end < lines->count && strcmp(lines->line[end], lines->line[first]) == 0) end++;
        size_t used = strlen(text);
        assert_true(used + LINE_BYTES + 32 < TEXT_BYTES);
        (void)snprintf(text + used, TEXT_BYTES - used, "%s%s x%zu\n", kind, lines->line[first], end - first);
    }
    lines->count = 0;
}

static void put_list(const struct mt_json_node *root, const char *key, const char *kind, struct lines *lines,
                     char *text)
{
    struct mt_json_node list;
    bool there = mt_json_has(root, key);
    if (there) assert_int_equal(mt_json_get_array(root, key, &list), MT_OK);
    for (size_t i = 0; there && i < mt_json_count(&list); i++) {
        struct mt_json_node element = mt_json_element(&list, i);
        const char *name = NULL;
        assert_int_equal(mt_json_as_string(&element, &name), MT_OK);
        add_line(lines, name);
    }
    put_lines(lines, kind, text);
}

static void put_pattern(const struct mt_json_node *root, const char *key, const char *kind, char *text)
{
    struct mt_json_node object;
    struct mt_json_node child;
    void *position = NULL;
    assert_int_equal(mt_json_get_object(root, key, &object), MT_OK);
    while (mt_json_next(&object, &position, &child)) {
        double value = 0.0;
        size_t used = strlen(text);
        assert_int_equal(mt_json_as_real(&child, 0.0, 1e9, &value), MT_OK);
        // A module with the numbers it has anyway stands before and beside the stacks, to keep PEFT from
        // warning.
        const char *bar = strchr(child.key, '|');
        if (bar == NULL && strstr(child.key, "experts") == NULL) continue;
        (void)snprintf(text + used, TEXT_BYTES - used, "%s %s %g\n", kind, bar != NULL ? bar + 1 : child.key,
                       value);
    }
}

/* The adapter in a folder of the workplace, as the golden files have it. */
static void put_adapter(const struct workplace *place, struct mt_context *ctx, const char *name, char *text)
{
    static struct lines lines;
    char path[160];
    char file[64];
    struct mt_json json;
    struct mt_safetensors stored;
    lines.count = 0;
    (void)snprintf(file, sizeof file, "%s/" MT_ADAPTER_CONFIG, name);
    (void)workplace_path(place, file, path, sizeof path);
    assert_int_equal(mt_json_read(ctx, path, &mt_json_file_limits, &json), MT_OK);
    struct mt_json_node root = mt_json_root(&json);
    put_list(&root, "target_modules", "module ", &lines, text);
    put_list(&root, "target_parameters", "parameter ", &lines, text);
    put_pattern(&root, "rank_pattern", "rank", text);
    put_pattern(&root, "alpha_pattern", "alpha", text);
    mt_json_free(&json);
    (void)snprintf(file, sizeof file, "%s/" MT_ADAPTER_WEIGHTS, name);
    (void)workplace_path(place, file, path, sizeof path);
    assert_int_equal(mt_safetensors_open(ctx, path, &stored), MT_OK);
    for (size_t i = 0; i < stored.tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &stored.tensors[i];
        char line[LINE_BYTES];
        assert_int_equal(tensor->rank, 2);
        (void)snprintf(line, sizeof line, "%s [%lld, %lld]", tensor->name, (long long)tensor->dim[0],
                       (long long)tensor->dim[1]);
        add_line(&lines, line);
    }
    put_lines(&lines, "", text);
    mt_safetensors_close(&stored);
}

// ------------------------------------------------------------------ PEFT

/* Makes the workplace a model folder with a golden model's config. */
static void make_golden_model(const struct workplace *place, const char *name, struct opened_model *opened)
{
    char path[512];
    void *config = NULL;
    size_t bytes = 0;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    (void)snprintf(path, sizeof path, "%s/%s/config.json", getenv("METIER_GOLDEN_MODELS"), name);
    assert_int_equal(mt_file_read_all(&ctx, path, 1 << 20, &config, &bytes), MT_OK);
    char *text = calloc(bytes + 1, 1);
    assert_non_null(text);
    memcpy(text, config, bytes);
    mt_release(&ctx, config, bytes);
    assert_int_equal(small_model_make(place, text, MT_HF_FLOAT32, 1), 0);
    free(text);
    assert_int_equal(opened_model_open(place, opened), 0);
}

static void peft_keys(void **state)
{
    static const char *const models[] = {"deepseek", "deepseek_v2",  "deepseek_v3",   "mixtral",   "phimoe",
                                         "olmoe",    "qwen3_moe",    "glm4_moe_lite", "qwen2_moe", "glm4_moe",
                                         "dots1",    "ernie4_5_moe", "gpt_oss"};
    static const char *const parts[] = {
        "attention", "router", "routed_experts", "shared_experts", "dense_mlp", "lm_head", "*"};
    static char text[TEXT_BYTES];
    const struct workplace *place = *state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        struct opened_model opened;
        char path[512];
        void *golden = NULL;
        size_t bytes = 0;
        text[0] = '\0';
        make_golden_model(place, models[m], &opened);
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++) {
            const char *const targets[] = {parts[p], NULL};
            struct mt_train_selection selection = pairs;
            selection.lora = targets;
            if (opened_model_load(&opened, &selection) != MT_OK) continue; // a part the model has not
            assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &selection,
                                                 MT_ADAPTER_AUTO),
                             MT_OK);
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "== %s\n", parts[p]);
            put_adapter(place, &opened.ctx, "adapter", text);
            workplace_remove_folder(place, "adapter");
        }
        (void)snprintf(path, sizeof path, "%s/%s/adapter_keys.txt", getenv("METIER_GOLDEN_MODELS"),
                       models[m]);
        assert_int_equal(mt_file_read_all(&opened.ctx, path, TEXT_BYTES, &golden, &bytes), MT_OK);
        if (bytes != strlen(text) || memcmp(golden, text, bytes) != 0)
            fail_msg("%s: PEFT asks for\n%.*s\nand gets\n%s", models[m], (int)bytes, (char *)golden, text);
        mt_release(&opened.ctx, golden, bytes);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* What auto stands for is what is written, and said in the metadata. */
static void automatic(void **state)
{
    static const char *const everything[] = {"*", NULL};
    struct mt_train_selection selection = pairs;
    const struct workplace *place = *state;
    selection.lora = everything;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        struct mt_adapter adapter;
        char path[160];
        enum mt_adapter_layout expected =
            model == &mt_arch_deepseek ? MT_ADAPTER_PER_EXPERT : MT_ADAPTER_FUSED;
        assert_int_equal(opened_model_make(place, model, MT_HF_FLOAT32, &opened), 0);
        assert_int_equal(mt_adapter_layout_for(&opened.desc, MT_ADAPTER_AUTO), expected);
        assert_int_equal(mt_adapter_layout_for(&opened.desc, MT_ADAPTER_VLLM), MT_ADAPTER_VLLM);
        assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
        drawn_adapter_fill(&opened.params, 0.5f);
        for (int layout = MT_ADAPTER_AUTO; layout < MT_ADAPTER_LAYOUTS; layout++) {
            if (model == &mt_arch_deepseek && layout == MT_ADAPTER_FUSED) continue;
            assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &selection,
                                                 (enum mt_adapter_layout)layout),
                             MT_OK);
            (void)workplace_path(place, "adapter", path, sizeof path);
            assert_int_equal(mt_adapter_open(&opened.ctx, path, &opened.desc, &adapter), MT_OK);
            assert_int_equal(adapter.layout,
                             mt_adapter_layout_for(&opened.desc, (enum mt_adapter_layout)layout));
            mt_adapter_close(&adapter);
            workplace_remove_folder(place, "adapter");
        }
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

// ------------------------------------------------------------------ vLLM

static bool is_zero(const struct mt_safetensors_tensor *tensor)
{
    const char *bytes = tensor->data;
    for (uint64_t i = 0; i < tensor->bytes; i++) {
        if (bytes[i] != 0) return false;
    }
    return true;
}

/* Every matrix fits its map of the checkpoint, with one rank; zeros are those of routed experts alone. */
static size_t count_zeros(const struct opened_model *opened, const struct mt_safetensors *file)
{
    size_t zeros = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const struct mt_safetensors_tensor *tensor = &file->tensors[i];
        const char *module = tensor->name + strlen("base_model.model.");
        const char *mark = strstr(module, ".lora_");
        char weight[LINE_BYTES];
        assert_non_null(mark);
        (void)snprintf(weight, sizeof weight, "%.*s.weight", (int)(mark - module), module);
        const struct mt_safetensors_tensor *own = mt_checkpoint_find(&opened->checkpoint, weight);
        if (own == NULL) fail_msg("%s is for %s, which the checkpoint has not", tensor->name, weight);
        bool is_a = mark[6] == 'A';
        assert_int_equal(tensor->dim[0], is_a ? RANK : own->dim[0]);
        assert_int_equal(tensor->dim[1], is_a ? own->dim[1] : RANK);
        if (!is_zero(tensor)) continue;
        assert_non_null(strstr(module, ".experts."));
        zeros++;
    }
    return zeros;
}

/* The layer's experts have all their pairs, or none has any; how many matrices there are. */
static size_t expect_whole_layer(const struct opened_model *opened, const struct mt_safetensors *file,
                                 int64_t layer)
{
    const struct mt_model_names *names = &opened->desc.names;
    const char *const maps[] = {names->gate, names->up, names->down};
    size_t found = 0;
    for (int expert = 0; expert < opened->desc.experts; expert++) {
        for (int i = 0; i < 6; i++) {
            char name[LINE_BYTES];
            (void)snprintf(name, sizeof name, "base_model.model.model.layers.%lld.%s.%d.%s.lora_%c.weight",
                           (long long)layer, names->experts, expert, maps[i / 2], i % 2 == 0 ? 'A' : 'B');
            found += mt_safetensors_find(file, name) != NULL ? 1 : 0;
        }
    }
    assert_true(found == 0 || found == 6 * (size_t)opened->desc.experts);
    return found;
}

static void expect_for_vllm(const struct workplace *place, struct opened_model *opened, const char *target)
{
    const char *const targets[] = {target, NULL};
    char path[160];
    static char text[TEXT_BYTES];
    struct mt_safetensors file;
    struct mt_train_selection selection = pairs;
    selection.lora = targets;
    assert_int_equal(opened_model_load(opened, &selection), MT_OK);
    drawn_adapter_fill(&opened->params, 0.5f);
    assert_int_equal(
        drawn_adapter_write(place, "vllm", &opened->params, &opened->desc, &selection, MT_ADAPTER_VLLM),
        MT_OK);
    (void)workplace_path(place, "vllm/" MT_ADAPTER_WEIGHTS, path, sizeof path);
    assert_int_equal(mt_safetensors_open(&opened->ctx, path, &file), MT_OK);
    for (int64_t layer = 0; layer < opened->desc.layers; layer++) {
        size_t adapted = 0;
        for (size_t i = 0; i < opened->params.trained_count; i++) {
            const struct mt_param *param = &opened->params.trained[i];
            adapted += param->expert >= 0 && param->layer == layer ? 1 : 0;
        }
        size_t found = expect_whole_layer(opened, &file, layer);
        assert_true((found > 0) == (adapted > 0));
    }
    size_t zeros = count_zeros(opened, &file);
    assert_int_equal(file.tensor_count, opened->params.trained_count + zeros);
    mt_safetensors_close(&file);
    text[0] = '\0';
    put_adapter(place, &opened->ctx, "vllm", text);
    assert_null(strstr(text, "parameter "));
    assert_null(strstr(text, "rank "));
    workplace_remove_folder(place, "vllm");
}

static void vllm_rules(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        if (model->stored.interleaved) continue; // vLLM reads PEFT's own pair, which has all experts
        assert_int_equal(opened_model_make(place, model, MT_HF_BFLOAT16, &opened), 0);
        char one[64];
        (void)snprintf(one, sizeof one, "*.experts.1.%s", opened.desc.names.up);
        expect_for_vllm(place, &opened, "*");
        expect_for_vllm(place, &opened, "routed_experts");
        expect_for_vllm(place, &opened, "router");
        expect_for_vllm(place, &opened, "attention");
        expect_for_vllm(place, &opened, "*.experts.[02].*");
        expect_for_vllm(place, &opened, one);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* How many warnings there are, and that one of them, unless it is NULL, has these words. */
static void expect_warnings(struct opened_model *opened, const char *target, enum mt_adapter_layout layout,
                            int expected, const char *words)
{
    const char *const targets[] = {target, NULL};
    struct mt_train_selection selection = pairs;
    int count = 0;
    bool found = words == NULL;
    selection.lora = targets;
    assert_int_equal(opened_model_load(opened, &selection), MT_OK);
    for (const char *sentence = ""; sentence != NULL; count++) {
        sentence = mt_adapter_layout_warning(&opened->params, &opened->desc, layout, count);
        if (sentence != NULL && words != NULL) found = found || strstr(sentence, words) != NULL;
    }
    assert_int_equal(count - 1, expected);
    assert_true(found);
}

static void warnings(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    assert_int_equal(opened_model_make(place, &mt_arch_deepseek_v3, MT_HF_FLOAT32, &opened), 0);
    expect_warnings(&opened, "attention", MT_ADAPTER_VLLM, 1, "kv_b_proj");
    expect_warnings(&opened, "*", MT_ADAPTER_VLLM, 2, "lm_head");
    expect_warnings(&opened, "routed_experts", MT_ADAPTER_VLLM, 0, NULL);
    expect_warnings(&opened, "*", MT_ADAPTER_FUSED, 0, NULL);
    expect_warnings(&opened, "shared_experts", MT_ADAPTER_PER_EXPERT, 1, "transformers 5");
    expect_warnings(&opened, "attention", MT_ADAPTER_PER_EXPERT, 0, NULL);
    assert_int_equal(opened_model_close(place, &opened), 0);
    assert_int_equal(opened_model_make(place, &mt_arch_mixtral, MT_HF_FLOAT32, &opened), 0);
    expect_warnings(&opened, "*", MT_ADAPTER_VLLM, 0, NULL);
    assert_int_equal(opened_model_close(place, &opened), 0);
    assert_int_equal(opened_model_make(place, &mt_arch_qwen2_moe, MT_HF_FLOAT32, &opened), 0);
    expect_warnings(&opened, "*", MT_ADAPTER_VLLM, 1, "lm_head");
    assert_int_equal(opened_model_close(place, &opened), 0);
    assert_int_equal(opened_model_make(place, &mt_arch_deepseek, MT_HF_FLOAT32, &opened), 0);
    expect_warnings(&opened, "*", MT_ADAPTER_PER_EXPERT, 0, NULL);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

// ------------------------------------------------------------------ rewriting

static enum mt_status rewrite(struct mt_context *ctx, const struct workplace *place, const char *from,
                              const char *to, enum mt_adapter_layout layout)
{
    char source[160];
    char target[160];
    const struct mt_adapter_rewrite_options options = {
        .adapter = workplace_path(place, from, source, sizeof source),
        .model = place->directory,
        .directory = workplace_path(place, to, target, sizeof target),
        .layout = layout};
    return mt_adapter_rewrite(ctx, &options);
}

static void expect_same_file(struct mt_context *ctx, const struct workplace *place, const char *one,
                             const char *other, const char *file)
{
    const char *const folders[] = {one, other};
    void *data[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        char name[96];
        char path[192];
        (void)snprintf(name, sizeof name, "%s/%s", folders[i], file);
        (void)workplace_path(place, name, path, sizeof path);
        assert_int_equal(mt_file_read_all(ctx, path, 1 << 24, &data[i], &bytes[i]), MT_OK);
    }
    assert_int_equal(bytes[0], bytes[1]);
    assert_memory_equal(data[0], data[1], bytes[0]);
    for (int i = 0; i < 2; i++) mt_release(ctx, data[i], bytes[i]);
}

/* From every layout to every other: what comes out is what would have been written in the first place. */
static void rewriting(void **state)
{
    static const char *const names[MT_ADAPTER_LAYOUTS] = {"auto", "each", "fused", "vllm"};
    static const char *const targets[] = {"attention", "router", "*.experts.[12].*", NULL};
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct opened_model opened;
        struct mt_train_selection selection = pairs;
        int last = MT_ADAPTER_LAYOUTS;
        selection.lora = targets;
        assert_int_equal(opened_model_make(place, model, MT_HF_BFLOAT16, &opened), 0);
        assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
        drawn_adapter_fill(&opened.params, 0.5f);
        for (int layout = MT_ADAPTER_PER_EXPERT; layout < last; layout++) {
            if (model == &mt_arch_deepseek && layout == MT_ADAPTER_FUSED) continue;
            assert_int_equal(drawn_adapter_write(place, names[layout], &opened.params, &opened.desc,
                                                 &selection, (enum mt_adapter_layout)layout),
                             MT_OK);
        }
        for (int pair = 0; pair < last * last; pair++) {
            int from = pair / last;
            int to = pair % last;
            bool skipped = model == &mt_arch_deepseek && (from == MT_ADAPTER_FUSED || to == MT_ADAPTER_FUSED);
            if (from == MT_ADAPTER_AUTO || skipped) continue;
            if (rewrite(&opened.ctx, place, names[from], "new", (enum mt_adapter_layout)to) != MT_OK)
                fail_msg("%s", opened.ctx.message);
            const char *expected = names[mt_adapter_layout_for(&opened.desc, (enum mt_adapter_layout)to)];
            expect_same_file(&opened.ctx, place, "new", expected, MT_ADAPTER_WEIGHTS);
            if (opened.desc.correction_bias)
                expect_same_file(&opened.ctx, place, "new", expected, MT_ROUTER_BIAS_OF_ADAPTER);
            workplace_remove_folder(place, "new");
        }
        for (int layout = 0; layout < last; layout++) workplace_remove_folder(place, names[layout]);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

static enum mt_status rewrite_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    int entries = workplace_entries(place);
    enum mt_status status = rewrite(ctx, place, "old", "new", MT_ADAPTER_VLLM);
    if (status == MT_OK) workplace_remove_folder(place, "new");
    return workplace_entries(place) == entries ? status : MT_ERR_INTERNAL;
}

static void every_allocation_may_fail(void **state)
{
    static const char *const targets[] = {"*.layers.1.*.experts.1.*", NULL};
    const struct workplace *place = *state;
    struct opened_model opened;
    struct mt_train_selection selection = pairs;
    selection.lora = targets;
    assert_int_equal(opened_model_make(place, &mt_arch_deepseek_v2, MT_HF_FLOAT32, &opened), 0);
    assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
    drawn_adapter_fill(&opened.params, 0.5f);
    assert_int_equal(
        drawn_adapter_write(place, "old", &opened.params, &opened.desc, &selection, MT_ADAPTER_FUSED), MT_OK);
    assert_every_allocation_may_fail(rewrite_once, place, 30);
    workplace_remove_folder(place, "old");
    assert_int_equal(opened_model_close(place, &opened), 0);
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(peft_keys), AT_A_PLACE(automatic), AT_A_PLACE(vllm_rules),
        AT_A_PLACE(warnings),  AT_A_PLACE(rewriting), AT_A_PLACE(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
