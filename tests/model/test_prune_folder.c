/* Folders with fewer experts: which bytes they have, that they compute what the masked model does, and what
 * is refused. Tests src/model/files/shrink.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "arch/published/stacks.h"
#include "base/files/file.h"
#include "base/rng.h"
#include "model/adapters/router_bias.h"
#include "model/chosen_experts.h"
#include "model/files/adapted.h"
#include "model/files/merge.h"
#include "support/cmocka_all.h"
#include "support/drawn_adapter.h"
#include "support/every_allocation.h"
#include "support/opened_model.h"
#include "support/published_folder.h"

#define MOST_LAYERS  4
#define MOST_EXPERTS 16

static const char *const everything[] = {"*", NULL};

static const struct mt_train_selection all_pairs = {.lora = everything, .lora_rank = 3, .lora_alpha = 7.0};

/* A choice of experts, other ones in every layer; groups keep equally many. */
struct choice {
    bool flags[MOST_LAYERS][MOST_EXPERTS];
    const bool *layer[MOST_LAYERS];
    struct mt_arena arena;
    struct mt_kept kept;
};

static void choose(struct mt_context *ctx, const struct mt_model_desc *desc, int keep, struct choice *choice)
{
    int groups = desc->router.groups > 1 ? desc->router.groups : 1;
    int size = desc->experts / groups;
    memset(choice, 0, sizeof *choice);
    assert_true(desc->layers <= MOST_LAYERS && desc->experts <= MOST_EXPERTS);
    for (int64_t i = 0; i < desc->layers; i++) {
        choice->layer[i] = choice->flags[i];
        for (int n = 0; n < keep; n++) {
            int at = (int)mt_rng_below(7, (uint64_t)i, (uint64_t)n, (uint64_t)size);
            int group = n % groups;
            while (choice->flags[i][group * size + at]) at = (at + 1) % size;
            choice->flags[i][group * size + at] = true;
        }
    }
    mt_arena_init(&choice->arena, ctx, 1024);
    if (mt_kept_of_flags(ctx, desc, choice->layer, &choice->arena, &choice->kept) != MT_OK)
        fail_msg("%s", ctx->message);
    assert_int_equal(choice->kept.keep, keep);
}

/* The small model of an architecture; with 16 experts where groups of the usual 8 could lose none. */
static const char *config_of(const struct mt_arch *arch, char *text, size_t bytes)
{
    static const char eight[] = "\"n_routed_experts\": 8";
    const char *config = small_model_config(arch);
    const char *found = strstr(config, eight);
    if (found == NULL) return config;
    (void)snprintf(text, bytes, "%.*s\"n_routed_experts\": 16%s", (int)(found - config), config,
                   found + sizeof eight - 1);
    return text;
}

static int keep_of(const struct mt_model_desc *desc)
{
    return desc->experts == 16 ? 8 : desc->router.slots + 1;
}

struct paths {
    char coded[128], adapter[128], out[128];
};

static struct mt_merge_options options_for(const struct workplace *place, struct paths *paths)
{
    (void)workplace_path(place, "coded", paths->coded, sizeof paths->coded);
    (void)workplace_path(place, "adapter", paths->adapter, sizeof paths->adapter);
    return (struct mt_merge_options){.directory = place->directory,
                                     .out = workplace_path(place, "out", paths->out, sizeof paths->out),
                                     .threads = 1};
}

static void clean(const struct workplace *place)
{
    workplace_remove_folder(place, "adapter");
    workplace_remove_folder(place, "coded");
    workplace_remove_folder(place, "out");
}

static void make(const struct workplace *place, const char *config, enum mt_hf_float dtype,
                 struct opened_model *opened)
{
    assert_int_equal(small_model_make(place, config, dtype, 3), 0);
    assert_int_equal(opened_model_open(place, opened), 0);
}

/* Writes the folder and holds it against the masked model. */
static void prune(struct opened_model *opened, const struct mt_merge_options *options, double most)
{
    struct mt_merge_result result;
    struct mt_merge_difference difference;
    if (mt_merge(&opened->ctx, options, &result) != MT_OK) fail_msg("%s", opened->ctx.message);
    if (options->adapter == NULL) assert_true(result.bytes < result.bytes_before);
    if (mt_merge_verify(opened->device, options, &result, &difference) != MT_OK)
        fail_msg("%s: %s", opened->config.arch->name, opened->ctx.message);
    if (!(difference.peak_largest <= most))
        fail_msg("%s: %g apart", opened->config.arch->name, difference.peak_largest);
}

// ------------------------------------------------------------------ bytes

/* What a tensor of the pruned folder was called before; the row of a router is asked for apart. */
static void old_name(const struct mt_model_tensor *tensor, const struct mt_kept *kept,
                     const struct mt_hf_config *config, char *name, size_t bytes)
{
    struct mt_model_tensors walk = mt_model_tensors_begin(config);
    struct mt_model_tensor old;
    (void)snprintf(name, bytes, "%s", tensor->name);
    const char *projection = strrchr(tensor->name, '.'); // ".weight"
    while (projection > tensor->name && projection[-1] != '.') projection--;
    while (tensor->expert >= 0 && mt_model_tensors_next(&walk, &old)) {
        const char *of_old = strrchr(old.name, '.');
        while (of_old > old.name && of_old[-1] != '.') of_old--;
        if (old.layer == tensor->layer && old.expert == kept->expert[tensor->layer][tensor->expert] &&
            strcmp(of_old, projection) == 0)
            (void)snprintf(name, bytes, "%s", old.name);
    }
}

/* Every tensor has the bytes and the type it had, routers those of their rows that stayed. */
static void expect_bytes(struct opened_model *opened, const char *out, const struct mt_kept *kept)
{
    struct mt_hf_config config;
    struct mt_checkpoint pruned;
    struct mt_model_tensor tensor;
    if (mt_hf_config_read_folder(&opened->ctx, out, &config) != MT_OK) fail_msg("%s", opened->ctx.message);
    assert_int_equal(mt_stacks_open(&opened->ctx, out, &config, &pruned), MT_OK);
    assert_int_equal(config.experts, kept->keep);
    struct mt_model_tensors walk = mt_model_tensors_begin(&config);
    size_t count = 0;
    while (mt_model_tensors_next(&walk, &tensor)) {
        char name[MT_MODEL_NAME_BYTES];
        const struct mt_safetensors_tensor *now = mt_checkpoint_find(&pruned, tensor.name);
        assert_non_null(now);
        old_name(&tensor, kept, &opened->config, name, sizeof name);
        const struct mt_safetensors_tensor *before = mt_checkpoint_find(&opened->checkpoint, name);
        assert_non_null(before);
        assert_int_equal(now->dtype, before->dtype);
        for (int64_t i = 0; i < now->dim[0]; i++) {
            int64_t old = tensor.part == MT_PART_ROUTER ? kept->expert[tensor.layer][i] : i;
            assert_true(opened_model_same_rows(now, i, before, old, 1));
        }
        count++;
    }
    assert_int_equal(pruned.tensor_count, count);
    mt_checkpoint_close(&pruned);
    mt_hf_config_free(&config);
}

/* Every architecture in f32 and bf16, in several files. */
static void every_architecture(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < 2 * (size_t)MT_ARCH_COUNT; at++) {
        char text[2048];
        struct opened_model opened;
        struct choice choice;
        struct paths paths;
        struct mt_merge_options options = options_for(place, &paths);
        double rate = 0.0;
        make(place, config_of(mt_archs[at / 2], text, sizeof text), at % 2 ? MT_HF_BFLOAT16 : MT_HF_FLOAT32,
             &opened);
        choose(&opened.ctx, &opened.desc, keep_of(&opened.desc), &choice);
        options.kept = &choice.kept;
        options.shard_bytes = 20000;
        prune(&opened, &options, 1e-6);
        expect_bytes(&opened, options.out, &choice.kept);
        assert_int_equal(mt_adapted_speed(opened.device, options.out, NULL, 130, &rate), MT_OK);
        assert_true(rate > 0.0);
        mt_arena_free(&choice.arena);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* Another expert in the last layer: most tokens do not see it, and the others tell. */
static void few_tokens_are_wrong(void **state)
{
    static const char config[] =
        "{\"model_type\": \"mixtral\", \"hidden_size\": 24, \"intermediate_size\": 20,"
        " \"max_position_embeddings\": 256, \"num_attention_heads\": 6, \"num_experts_per_tok\": 2,"
        " \"num_hidden_layers\": 2, \"num_key_value_heads\": 2, \"num_local_experts\": 16,"
        " \"rms_norm_eps\": 1e-05, \"vocab_size\": 53, \"initializer_range\": 0.3}";
    const struct workplace *place = *state;
    struct opened_model opened;
    struct choice choice;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    struct mt_merge_result result;
    struct mt_merge_difference difference;
    make(place, config, MT_HF_FLOAT32, &opened);
    choose(&opened.ctx, &opened.desc, 12, &choice);
    options.kept = &choice.kept;
    assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
    bool *last = choice.flags[opened.desc.layers - 1];
    int gone = 0;
    int other = 0;
    while (!last[gone]) gone++;
    while (last[other]) other++;
    last[gone] = false;
    last[other] = true;
    assert_int_equal(mt_kept_of_flags(&opened.ctx, &opened.desc, choice.layer, &choice.arena, &choice.kept),
                     MT_OK);
    assert_int_equal(mt_merge_verify(opened.device, &options, &result, &difference), MT_ERR_NUMERIC);
    assert_true(difference.median <= 1e-6 && difference.peak_most > 1e-6);
    assert_true(difference.beyond > 2 && difference.beyond < difference.tokens / 2);
    mt_arena_free(&choice.arena);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

static void file_of_those_kept(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct choice choice;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    const bool *const *flags = NULL;
    char path[192];
    make(place, small_model_config(&mt_arch_mixtral), MT_HF_FLOAT32, &opened);
    choose(&opened.ctx, &opened.desc, 2, &choice);
    options.kept = &choice.kept;
    assert_int_equal(mt_merge(&opened.ctx, &options, NULL), MT_OK);
    (void)snprintf(path, sizeof path, "%s/" MT_KEPT_FILE, options.out);
    if (mt_kept_experts_read(&opened.ctx, path, &opened.desc, &choice.arena, &flags) != MT_OK)
        fail_msg("%s", opened.ctx.message);
    for (int64_t i = 0; i < opened.desc.layers; i++)
        assert_memory_equal(flags[i], choice.flags[i], (size_t)opened.desc.experts * sizeof(bool));
    mt_arena_free(&choice.arena);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

// ------------------------------------------------------------------ codes

static const struct published_folder formats[] = {
    {.format = MT_QUANTISED_FP8},
    {.format = MT_QUANTISED_NF4},
    {.format = MT_QUANTISED_NF4, .nested = true},
    {.format = MT_QUANTISED_MXFP4},
};

/* Every part of an expert's codes has the bytes it had. */
static void expect_codes(struct mt_context *ctx, const char *coded, const char *out,
                         const struct mt_kept *kept)
{
    struct mt_hf_config config;
    struct mt_checkpoint before;
    struct mt_checkpoint now;
    struct mt_model_tensor tensor;
    size_t compared = 0;
    assert_int_equal(mt_hf_config_read_folder(ctx, coded, &config), MT_OK);
    assert_int_equal(mt_stacks_open(ctx, coded, &config, &before), MT_OK);
    assert_int_equal(mt_stacks_open(ctx, out, &config, &now), MT_OK);
    struct mt_model_tensors walk = mt_model_tensors_begin(&config);
    while (mt_model_tensors_next(&walk, &tensor)) {
        struct mt_published_names names;
        struct mt_published_names renamed;
        int64_t place = tensor.expert < 0 ? 0 : mt_kept_place(kept, tensor.layer, tensor.expert);
        struct mt_model_tensor other = tensor;
        if (place < 0 || tensor.part == MT_PART_ROUTER) continue;
        if (tensor.expert >= 0) {
            const char *projection = strstr(tensor.name, ".experts.") + strlen(".experts.");
            int prefix = (int)(projection - tensor.name);
            projection = strchr(projection, '.');
            (void)snprintf(other.name, sizeof other.name, "%.*s%lld%s", prefix, tensor.name, (long long)place,
                           projection);
        }
        mt_published_names(config.quant.method, tensor.name, &names);
        mt_published_names(config.quant.method, other.name, &renamed);
        for (int i = 0; i < MT_PUBLISHED_PARTS; i++) {
            const struct mt_safetensors_tensor *old = mt_checkpoint_find(&before, names.text[i]);
            const struct mt_safetensors_tensor *new = mt_checkpoint_find(&now, renamed.text[i]);
            assert_true((old == NULL) == (new == NULL));
            if (old == NULL) continue;
            assert_int_equal(old->dtype, new->dtype);
            assert_int_equal(old->bytes, new->bytes);
            assert_true(opened_model_same_rows(new, 0, old, 0, old->dim[0]));
            compared++;
        }
    }
    assert_true(compared > 20);
    mt_checkpoint_close(&now);
    mt_checkpoint_close(&before);
    mt_hf_config_free(&config);
}

static void codes_are_copied(void **state)
{
    const struct workplace *place = *state;
    const struct mt_arch *const archs[] = {&mt_arch_qwen2_moe, &mt_arch_deepseek_v3, &mt_arch_mixtral,
                                           &mt_arch_glm4_moe_lite};
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        char text[2048];
        struct opened_model opened;
        struct choice choice;
        struct paths paths;
        struct mt_merge_options options = options_for(place, &paths);
        make(place, config_of(archs[i], text, sizeof text), MT_HF_BFLOAT16, &opened);
        assert_int_equal(published_folder_make(&opened.ctx, place->directory, paths.coded, &formats[i]), 0);
        choose(&opened.ctx, &opened.desc, keep_of(&opened.desc), &choice);
        options.directory = paths.coded;
        options.kept = &choice.kept;
        prune(&opened, &options, 1e-6);
        expect_codes(&opened.ctx, paths.coded, options.out, &choice.kept);
        mt_arena_free(&choice.arena);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* The config with one text for another. */
static const char *with_text(const char *config, const char *old, const char *new, char *text, size_t bytes)
{
    const char *found = strstr(config, old);
    assert_non_null(found);
    (void)snprintf(text, bytes, "%.*s%s%s", (int)(found - config), config, new, found + strlen(old));
    return text;
}

/* A router in nf4: rows of whole blocks of 64 stay as they are, others are refused. */
static void routers_in_nf4(void **state)
{
    const struct workplace *place = *state;
    for (int i = 0; i < 3; i++) {
        const struct published_folder format = {
            .format = MT_QUANTISED_NF4, .nested = i == 1, .routers = true};
        const char *config = small_model_config(&mt_arch_qwen2_moe);
        char wide[2048];
        char text[2048];
        struct opened_model opened;
        struct choice choice;
        struct paths paths;
        struct mt_merge_options options = options_for(place, &paths);
        if (i < 2)
            config = with_text(config, "\"hidden_size\": 24", "\"hidden_size\": 192", wide, sizeof wide);
        // Weights that do not magnify a last digit as much as the narrow model's would.
        config =
            with_text(config, "\"initializer_range\": 0.3", "\"initializer_range\": 0.05", text, sizeof text);
        make(place, config, MT_HF_BFLOAT16, &opened);
        assert_int_equal(published_folder_make(&opened.ctx, place->directory, paths.coded, &format), 0);
        choose(&opened.ctx, &opened.desc, 4, &choice);
        options.directory = paths.coded;
        options.kept = &choice.kept;
        if (i < 2) {
            prune(&opened, &options, 1e-6);
        } else {
            assert_int_equal(mt_merge(&opened.ctx, &options, NULL), MT_ERR_UNSUPPORTED);
            assert_non_null(strstr(opened.ctx.message, "mlp.gate.weight: is in nf4, and a row of 24"));
        }
        mt_arena_free(&choice.arena);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

// ------------------------------------------------------------------ adapters, biases

/* The adapter on top of the masked model; its pairs of routers and experts in both layouts, its biases. */
static void with_an_adapter(void **state)
{
    const struct workplace *place = *state;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        char text[2048];
        struct opened_model opened;
        struct choice choice;
        struct paths paths;
        struct mt_merge_options options = options_for(place, &paths);
        struct mt_train_selection selection = all_pairs;
        bool fused = mt_archs[at] != &mt_arch_deepseek && at % 2 == 0;
        selection.biases = mt_archs[at] != &mt_arch_phimoe;
        make(place, config_of(mt_archs[at], text, sizeof text), MT_HF_FLOAT32, &opened);
        assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
        drawn_adapter_fill(&opened.params, 0.05f);
        for (int64_t i = 0; i < opened.desc.layers; i++) {
            float *bias = opened.params.layer[i].correction.data;
            for (int e = 0; bias != NULL && e < opened.desc.experts; e++) bias[e] = 0.01f * (float)(e % 5);
        }
        assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &selection,
                                             fused ? MT_ADAPTER_FUSED : MT_ADAPTER_PER_EXPERT),
                         MT_OK);
        choose(&opened.ctx, &opened.desc, keep_of(&opened.desc), &choice);
        options.kept = &choice.kept;
        options.adapter = paths.adapter;
        prune(&opened, &options, 1e-5);
        mt_arena_free(&choice.arena);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* One that was trained on experts in int8, and one on top of a folder in codes: both end in floats. */
static void with_an_adapter_of_codes(void **state)
{
    const struct workplace *place = *state;
    for (int i = 0; i < 2; i++) {
        struct opened_model opened;
        struct choice choice;
        struct paths paths;
        struct mt_merge_options options = options_for(place, &paths);
        struct mt_train_selection selection = all_pairs;
        struct mt_merge_result result;
        if (i == 0)
            selection.quantise = (struct mt_quantise_options){
                .on = true, .format = MT_QUANTISED_INT8, .part = {[MT_PART_EXPERTS] = true}};
        make(place, small_model_config(&mt_arch_olmoe), MT_HF_FLOAT32, &opened);
        assert_int_equal(opened_model_load(&opened, &selection), MT_OK);
        drawn_adapter_fill(&opened.params, 0.05f);
        assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &selection,
                                             MT_ADAPTER_PER_EXPERT),
                         MT_OK);
        if (i == 1) {
            assert_int_equal(published_folder_make(&opened.ctx, place->directory, paths.coded, &formats[0]),
                             0);
            options.directory = paths.coded;
        }
        choose(&opened.ctx, &opened.desc, 4, &choice);
        options.kept = &choice.kept;
        options.adapter = paths.adapter;
        prune(&opened, &options, 0.1);
        workplace_remove_folder(place, "out");
        assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
        assert_int_equal(result.codes, 0);
        mt_arena_free(&choice.arena);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* Biases in a file beside the weights lose theirs. */
static void biases_beside(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct choice choice;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    struct mt_safetensors file;
    struct mt_hf_config config;
    struct mt_model_desc desc;
    float values[MOST_LAYERS * MOST_EXPERTS] = {0};
    float now[MOST_LAYERS * MOST_EXPERTS] = {0};
    char path[128];
    make(place, small_model_config(&mt_arch_qwen3_moe), MT_HF_FLOAT32, &opened);
    int n = opened.desc.experts;
    for (int i = 0; i < (int)opened.desc.layers * n; i++) values[i] = 0.01f * (float)(i % 9);
    (void)workplace_path(place, MT_ROUTER_BIAS_OF_MODEL, path, sizeof path);
    assert_int_equal(mt_router_bias_write(&opened.ctx, &opened.desc, values, path), MT_OK);
    choose(&opened.ctx, &opened.desc, 4, &choice);
    options.kept = &choice.kept;
    prune(&opened, &options, 1e-6);
    assert_int_equal(mt_hf_config_read_folder(&opened.ctx, options.out, &config), MT_OK);
    assert_int_equal(mt_model_describe(&opened.ctx, &config, &desc), MT_OK);
    if (mt_router_bias_open(&opened.ctx, options.out, MT_ROUTER_BIAS_OF_MODEL, &desc, &file) != MT_OK)
        fail_msg("%s", opened.ctx.message);
    assert_int_equal(file.tensor_count, 2);
    mt_router_bias_read(&file, 4, now);
    for (int64_t i = 0; i < desc.layers; i++) {
        for (int e = 0; choice.kept.expert[i] != NULL && e < 4; e++)
            assert_true(now[i * 4 + e] == values[i * n + choice.kept.expert[i][e]]);
    }
    mt_safetensors_close(&file);
    mt_hf_config_free(&config);
    mt_arena_free(&choice.arena);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

// ------------------------------------------------------------------ configs

static void read_config(struct mt_context *ctx, const char *out, char *text, size_t bytes)
{
    char path[192];
    void *file = NULL;
    size_t read = 0;
    (void)snprintf(path, sizeof path, "%s/config.json", out);
    assert_int_equal(mt_file_read_all(ctx, path, bytes - 1, &file, &read), MT_OK);
    memcpy(text, file, read);
    text[read] = '\0';
    mt_release(ctx, file, read);
}

#define WITH_GROUPS(groups, chosen, more)                                                                    \
    "{\"model_type\": \"deepseek_v3\", \"first_k_dense_replace\": 1, \"hidden_size\": 24,"                   \
    " \"intermediate_size\": 44, \"kv_lora_rank\": 14, \"max_position_embeddings\": 64,"                     \
    " \"moe_intermediate_size\": 10, \"n_group\": " groups ", \"n_routed_experts\": 12,"                     \
    " \"num_experts\": 12, \"n_shared_experts\": 2, \"num_attention_heads\": 3,"                             \
    " \"num_experts_per_tok\": 3, \"num_hidden_layers\": 3, \"num_key_value_heads\": 3,"                     \
    " \"q_lora_rank\": null, \"qk_nope_head_dim\": 10, \"qk_rope_head_dim\": 6, \"topk_group\": " chosen     \
        more ", \"v_head_dim\": 12, \"vocab_size\": 53, \"initializer_range\": 0.3}"

/* Keys that hang on the number of experts: all spellings; groups that limit nothing become one. */
static void keys_of_the_config(void **state)
{
    static const struct {
        const char *config;
        int keep;
        const char *expected[4];
    } cases[] = {
        {WITH_GROUPS("3", "2", ""), 6, {"\"n_group\": 3,", "\"topk_group\": 2,", "_experts\": 6,", NULL}},
        {WITH_GROUPS("3", "3", ""),
         7,
         {"\"n_group\": 1,", "\"topk_group\": 1,", "\"num_experts\": 7,", NULL}},
        {WITH_GROUPS("1", "1", ""), 5, {"\"n_group\": 1,", "\"n_routed_experts\": 5,", NULL}},
    };
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct opened_model opened;
        struct choice choice;
        struct paths paths;
        struct mt_merge_options options = options_for(place, &paths);
        char text[2048];
        make(place, cases[i].config, MT_HF_FLOAT32, &opened);
        choose(&opened.ctx, &opened.desc, cases[i].keep, &choice);
        options.kept = &choice.kept;
        prune(&opened, &options, 1e-6);
        read_config(&opened.ctx, options.out, text, sizeof text);
        for (int e = 0; cases[i].expected[e] != NULL; e++) {
            if (strstr(text, cases[i].expected[e]) == NULL)
                fail_msg("no %s in %s", cases[i].expected[e], text);
        }
        assert_null(strstr(text, "\": 12, \"n"));
        mt_arena_free(&choice.arena);
        clean(place);
        assert_int_equal(opened_model_close(place, &opened), 0);
    }
}

/* Layers that predict further tokens go: here the last, which the config does not count any more. */
static void layers_that_predict_further(void **state)
{
    const struct workplace *place = *state;
    const char *whole = WITH_GROUPS("1", "1", "");
    char text[2048];
    char found[2048];
    struct opened_model opened;
    struct choice choice;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    struct mt_merge_result result;
    struct mt_checkpoint pruned;
    assert_int_equal(small_model_make(place, whole, MT_HF_FLOAT32, 3), 0);
    (void)with_text(whole, "\"num_hidden_layers\": 3",
                    "\"num_hidden_layers\": 2, \"num_nextn_predict_layers\": 1", text, sizeof text);
    assert_int_equal(workplace_write(place, "config.json", text, strlen(text)), 0);
    assert_int_equal(opened_model_open(place, &opened), 0);
    choose(&opened.ctx, &opened.desc, 4, &choice);
    options.kept = &choice.kept;
    prune(&opened, &options, 1e-6);
    workplace_remove_folder(place, "out");
    assert_int_equal(mt_merge(&opened.ctx, &options, &result), MT_OK);
    assert_true(result.further > 36);
    read_config(&opened.ctx, options.out, found, sizeof found);
    assert_non_null(strstr(found, "\"num_nextn_predict_layers\": 0"));
    assert_int_equal(mt_checkpoint_open(&opened.ctx, options.out, &pruned), MT_OK);
    for (size_t i = 0; i < pruned.tensor_count; i++)
        assert_null(strstr(pruned.tensors[i].info->name, "model.layers.2."));
    mt_checkpoint_close(&pruned);
    mt_arena_free(&choice.arena);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

// ------------------------------------------------------------------ what is refused

/* Choices that no folder can have, by their sentences. */
static void choices_refused(void **state)
{
    static const struct {
        const char *config;
        const char *flags[2]; // of the two layers with experts
        const char *said;
    } cases[] = {
        {WITH_GROUPS("3", "2", ""), {"110011000110", "110011000110"}, NULL},
        {WITH_GROUPS("3", "2", ""), {"111011000100", "110011000110"}, "layer 1 keeps 3 experts of group 0"},
        {WITH_GROUPS("3", "2", ""), {"110011000110", "110011000111"}, "and layer 2 7: a model folder has"},
        {WITH_GROUPS("3", "2", ""),
         {"110011000100", "110011000100"},
         "5 experts is not possible with n_group 3"},
        {WITH_GROUPS("3", "2", ""), {"100010000100", "100010000100"}, "judges a group by its best two"},
        {WITH_GROUPS("3", "1", ""), {"110011000110", "110011000110"}, "in the 1 groups a token chooses from"},
        {WITH_GROUPS("1", "1", ""),
         {"100010000000", "100010000000"},
         "layer 1: keeping 2 experts is too few"},
        {WITH_GROUPS("1", "1", ""), {"111000000000", "000000000000"}, "and layer 2 0"},
    };
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_context ctx;
        struct mt_hf_config config;
        struct mt_model_desc desc;
        struct mt_arena arena;
        struct mt_kept kept;
        bool flags[2][12];
        const bool *layers[3] = {NULL, flags[0], flags[1]};
        (void)place;
        mt_context_init(&ctx, NULL);
        mt_arena_init(&arena, &ctx, 1024);
        assert_int_equal(
            mt_hf_config_read(&ctx, "config.json", cases[i].config, strlen(cases[i].config), &config), MT_OK);
        assert_int_equal(mt_model_describe(&ctx, &config, &desc), MT_OK);
        for (int e = 0; e < 24; e++) flags[e / 12][e % 12] = cases[i].flags[e / 12][e % 12] == '1';
        enum mt_status status = mt_kept_of_flags(&ctx, &desc, layers, &arena, &kept);
        assert_int_equal(status, cases[i].said == NULL ? MT_OK : MT_ERR_USAGE);
        if (cases[i].said != NULL && strstr(ctx.message, cases[i].said) == NULL)
            fail_msg("'%s' is not in '%s'", cases[i].said, ctx.message);
        mt_arena_free(&arena);
        mt_hf_config_free(&config);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void codes_that_name_experts(void **state)
{
    static const char config[] = "{\"a\": 1, \"quantization_config\": {\"quant_method\": \"fp8\", "
                                 "\"modules_to_not_convert\": [\"model.layers.0.mlp.experts.3.up_proj\"]}}";
    const struct mt_config_number number = {.key = "a", .value = 2};
    struct mt_config_change change = {.number = &number, .number_count = 1, .renumbered = "mlp.experts"};
    struct mt_context ctx;
    struct mt_json_text text;
    (void)state;
    mt_context_init(&ctx, NULL);
    mt_json_text_init(&text, &ctx);
    assert_int_equal(mt_config_changed(&ctx, config, strlen(config), &change, &text), MT_ERR_UNSUPPORTED);
    assert_non_null(strstr(ctx.message, "names single experts (mlp.experts.3"));
    change.renumbered = "block.experts";
    assert_int_equal(mt_config_changed(&ctx, config, strlen(config), &change, &text), MT_OK);
    assert_memory_equal(text.bytes, "{\"a\": 2, ", 9);
    mt_json_text_free(&text);
}

struct trial {
    const struct mt_merge_options *options;
};

static enum mt_status run_trial(struct mt_context *ctx, const void *self)
{
    const struct trial *trial = self;
    struct mt_merge_result result;
    struct stat info;
    enum mt_status status = mt_merge(ctx, trial->options, &result);
    if (status != MT_OK) assert_int_not_equal(stat(trial->options->out, &info), 0);
    return status;
}

/* Without memory there is nothing at the target. */
static void without_memory(void **state)
{
    const struct workplace *place = *state;
    struct opened_model opened;
    struct choice choice;
    struct paths paths;
    struct mt_merge_options options = options_for(place, &paths);
    make(place, small_model_config(&mt_arch_mixtral), MT_HF_FLOAT32, &opened);
    assert_int_equal(opened_model_load(&opened, &all_pairs), MT_OK);
    drawn_adapter_fill(&opened.params, 0.05f);
    assert_int_equal(drawn_adapter_write(place, "adapter", &opened.params, &opened.desc, &all_pairs,
                                         MT_ADAPTER_PER_EXPERT),
                     MT_OK);
    choose(&opened.ctx, &opened.desc, 2, &choice);
    options.kept = &choice.kept;
    options.adapter = paths.adapter;
    const struct trial trial = {.options = &options};
    assert_every_allocation_may_fail(run_trial, &trial, 20);
    mt_arena_free(&choice.arena);
    clean(place);
    assert_int_equal(opened_model_close(place, &opened), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_architecture, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(few_tokens_are_wrong, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(file_of_those_kept, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(codes_are_copied, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(routers_in_nf4, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(layers_that_predict_further, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(with_an_adapter, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(with_an_adapter_of_codes, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(biases_beside, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(keys_of_the_config, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(choices_refused, workplace_open, workplace_close),
        cmocka_unit_test(codes_that_name_experts),
        cmocka_unit_test_setup_teardown(without_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
