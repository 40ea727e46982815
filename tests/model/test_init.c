/* metier init: what the weights are, that they depend on seed and name alone, and what is refused. */
#define _XOPEN_SOURCE 700 // popen

#include "model/files/init.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/model_check.h"
#include "arch/published/stacks.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/small_models.h"
#include "tensor/dtype.h"

/* A folder below the workplace, opened; name "a" or "b". */
struct folder {
    struct workplace place;
    struct mt_context ctx;
    struct mt_checkpoint checkpoint;
    struct mt_model_init_result result;
};

static enum mt_status init(const struct workplace *place, const char *name, const char *config,
                           struct mt_model_init_options options, struct folder *folder)
{
    char config_path[128];
    *folder = (struct folder){0};
    mt_context_init(&folder->ctx, NULL);
    (void)workplace_path(place, name, folder->place.directory, sizeof folder->place.directory);
    assert_int_equal(workplace_write(place, "config.json", config, strlen(config)), 0);
    options.config = workplace_path(place, "config.json", config_path, sizeof config_path);
    options.directory = folder->place.directory;
    return mt_model_init(&folder->ctx, &options, &folder->result);
}

static void make(const struct workplace *place, const char *name, const char *config,
                 struct mt_model_init_options options, struct folder *folder)
{
    if (init(place, name, config, options, folder) != MT_OK) fail_msg("%s", folder->ctx.message);
    assert_int_equal(mt_checkpoint_open(&folder->ctx, folder->place.directory, &folder->checkpoint), MT_OK);
}

/* Closes a folder and removes it with everything in it. */
static void discard(struct folder *folder)
{
    mt_checkpoint_close(&folder->checkpoint);
    assert_int_equal(folder->ctx.live_bytes, 0);
    workplace_clear(&folder->place);
    (void)rmdir(folder->place.directory);
}

static void same_weights(const struct folder *a, const struct folder *b)
{
    assert_int_equal(a->checkpoint.tensor_count, b->checkpoint.tensor_count);
    for (size_t i = 0; i < a->checkpoint.tensor_count; i++) {
        const struct mt_safetensors_tensor *left = a->checkpoint.tensors[i].info;
        const struct mt_safetensors_tensor *right = b->checkpoint.tensors[i].info;
        assert_string_equal(left->name, right->name);
        assert_int_equal(left->bytes, right->bytes);
        assert_memory_equal(left->data, right->data, (size_t)left->bytes);
    }
}

static void fits_its_config(void **state)
{
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        struct folder folder;
        struct mt_hf_config config;
        struct mt_model_check check;
        const char *text = small_model_config(model);
        make(*state, "a", text, (struct mt_model_init_options){.deviation = -1.0, .dtype = MT_HF_BFLOAT16},
             &folder);
        assert_int_equal(mt_hf_config_read(&folder.ctx, "config.json", text, strlen(text), &config), MT_OK);
        mt_checkpoint_close(&folder.checkpoint); // experts may lie together: seen one by one
        assert_int_equal(mt_stacks_open(&folder.ctx, folder.place.directory, &config, &folder.checkpoint),
                         MT_OK);
        assert_int_equal(mt_model_check_checkpoint(&folder.ctx, &config, &folder.checkpoint, &check), MT_OK);
        assert_int_equal(check.missing.count + check.unexpected.count + check.wrong.count, 0);
        mt_model_check_free(&check);
        mt_hf_config_free(&config);
        discard(&folder);
    }
}

static double element(const struct mt_safetensors_tensor *tensor, int64_t index)
{
    const void *data = tensor->data;
    return tensor->dtype == MT_SAFETENSORS_F32 ? (double)((const float *)data)[index]
                                               : (double)mt_bf16_to_float(((const uint16_t *)data)[index]);
}

static bool contains(const char *text, const char *part)
{
    return strstr(text, part) != NULL;
}

/* Norms 1, biases 0, matrices normal with the config's deviation; the correction bias in f32 whatever else.
 */
static void values(void **state)
{
    static const struct mt_arch *const models[] = {&mt_arch_phimoe, &mt_arch_deepseek_v3};
    for (size_t m = 0; m < 2; m++) {
        struct folder folder;
        double squares = 0.0;
        double sum = 0.0;
        double count = 0.0;
        make(*state, "a", small_model_config(models[m]),
             (struct mt_model_init_options){.deviation = -1.0, .dtype = MT_HF_BFLOAT16}, &folder);
        for (size_t i = 0; i < folder.checkpoint.tensor_count; i++) {
            const struct mt_safetensors_tensor *tensor = folder.checkpoint.tensors[i].info;
            bool correction = contains(tensor->name, "e_score_correction_bias");
            assert_int_equal(tensor->dtype, correction ? MT_SAFETENSORS_F32 : MT_SAFETENSORS_BF16);
            if (tensor->rank == 2) {
                for (int64_t e = 0; e < tensor->dim[0] * tensor->dim[1]; e++) {
                    double value = element(tensor, e);
                    sum += value;
                    squares += value * value;
                    count += 1.0;
                }
                continue;
            }
            double wanted = contains(tensor->name, "bias") ? 0.0 : 1.0;
            for (int64_t e = 0; e < tensor->dim[0]; e++) assert_true(element(tensor, e) == wanted);
        }
        assert_true(fabs(sum / count) < 5.0 * 0.3 / sqrt(count));
        assert_true(fabs(sqrt(squares / count) / 0.3 - 1.0) < 0.02);
        discard(&folder);
    }
}

static double deviation_of(const struct folder *folder, const char *name)
{
    const struct mt_safetensors_tensor *tensor = mt_checkpoint_find(&folder->checkpoint, name);
    assert_non_null(tensor);
    double squares = 0.0;
    int64_t count = tensor->dim[0] * tensor->dim[1];
    for (int64_t e = 0; e < count; e++) squares += element(tensor, e) * element(tensor, e);
    return sqrt(squares / (double)count);
}

/* The option, else initializer_range, else 0.02. */
static void deviation(void **state)
{
    static const char plain[] =
        "{\"model_type\": \"olmoe\", \"hidden_size\": 32, \"intermediate_size\": 4,"
        " \"max_position_embeddings\": 64, \"num_attention_heads\": 2, \"num_experts\": 3,"
        " \"num_experts_per_tok\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 200}";
    static const char embedding[] = "model.embed_tokens.weight";
    struct folder folder;
    make(*state, "a", plain, (struct mt_model_init_options){.deviation = -1.0}, &folder);
    assert_true(fabs(deviation_of(&folder, embedding) / 0.02 - 1.0) < 0.05);
    assert_int_equal(mt_checkpoint_find(&folder.checkpoint, embedding)->dtype, MT_SAFETENSORS_F32);
    discard(&folder);
    make(*state, "a", plain, (struct mt_model_init_options){.deviation = 1.5}, &folder);
    assert_true(fabs(deviation_of(&folder, embedding) / 1.5 - 1.0) < 0.05);
    discard(&folder);
    make(*state, "a", plain, (struct mt_model_init_options){.deviation = 0.0}, &folder);
    assert_true(deviation_of(&folder, embedding) == 0.0);
    discard(&folder);
}

/* The same bytes for any number of threads and shards; other ones for another seed; bf16 is f32 rounded. */
static void seed_and_name_alone(void **state)
{
    const char *config = small_model_config(&mt_arch_deepseek_v3);
    struct mt_model_init_options options = {.seed = 11, .deviation = -1.0, .threads = 1};
    struct folder one;
    struct folder other;
    make(*state, "a", config, options, &one);
    assert_int_equal(one.checkpoint.shard_count, 1);
    options.threads = 4;
    options.shard_bytes = 30000;
    make(*state, "b", config, options, &other);
    assert_true(other.checkpoint.shard_count > 3);
    assert_int_equal(other.result.files, other.checkpoint.shard_count);
    assert_int_equal(other.result.bytes, one.checkpoint.data_bytes);
    same_weights(&one, &other);
    discard(&other);

    options.dtype = MT_HF_BFLOAT16;
    make(*state, "b", config, options, &other);
    const struct mt_safetensors_tensor *wide = mt_checkpoint_find(&one.checkpoint, "lm_head.weight");
    const struct mt_safetensors_tensor *narrow = mt_checkpoint_find(&other.checkpoint, "lm_head.weight");
    for (int64_t e = 0; e < wide->dim[0] * wide->dim[1]; e++) {
        float value = (float)element(wide, e);
        assert_int_equal(((const uint16_t *)narrow->data)[e], mt_float_to_bf16(value));
    }
    discard(&other);

    options.dtype = MT_HF_FLOAT32;
    options.seed = 12;
    make(*state, "b", config, options, &other);
    narrow = mt_checkpoint_find(&other.checkpoint, "lm_head.weight");
    assert_memory_not_equal(narrow->data, wide->data, 64);
    discard(&other);
    discard(&one);
}

/* A tensor's values do not change when the model around it does. */
static void order_does_not_matter(void **state)
{
    const struct mt_model_init_options options = {.seed = 11, .deviation = 0.5, .threads = 1};
    static const char name[] = "model.layers.1.self_attn.v_proj.weight";
    struct folder olmoe;
    struct folder qwen;
    make(*state, "a", small_model_config(&mt_arch_olmoe), options, &olmoe);
    make(*state, "b", small_model_config(&mt_arch_qwen3_moe), options, &qwen);
    const struct mt_safetensors_tensor *left = mt_checkpoint_find(&olmoe.checkpoint, name);
    const struct mt_safetensors_tensor *right = mt_checkpoint_find(&qwen.checkpoint, name);
    assert_memory_equal(left->data, right->data, (size_t)left->bytes); // 8 rows there, 12 here
    discard(&olmoe);
    discard(&qwen);
}

static void refusals(void **state)
{
    const char *config = small_model_config(&mt_arch_mixtral);
    const struct mt_model_init_options options = {.deviation = -1.0};
    struct folder folder;
    struct folder again;
    make(*state, "a", config, options, &folder);
    assert_int_equal(init(*state, "a", config, options, &again), MT_ERR_USAGE);
    assert_true(contains(again.ctx.message, "already has model.safetensors"));
    // Weights gone, the config still there: the same one may stay, another is not overwritten.
    char path[160];
    (void)workplace_path(&folder.place, "model.safetensors", path, sizeof path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(init(*state, "a", small_model_config(&mt_arch_olmoe), options, &again), MT_ERR_USAGE);
    assert_true(contains(again.ctx.message, "already exists and differs"));
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(init(*state, "a", config, options, &again), MT_OK);
    assert_int_equal(again.ctx.live_bytes, 0);
    discard(&folder);
    assert_int_equal(workplace_write(*state, "file", "", 0), 0);
    assert_int_equal(init(*state, "file/c", config, options, &folder), MT_ERR_IO);
    assert_true(contains(folder.ctx.message, "cannot make the folder"));
    assert_int_not_equal(init(*state, "a", "{}", options, &folder), MT_OK);
    assert_true(contains(folder.ctx.message, "model_type"));
    assert_int_equal(folder.ctx.live_bytes, 0);
}

static enum mt_status init_once(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    char path[128];
    const struct mt_model_init_options options = {
        .config = workplace_path(place, "start.json", path, sizeof path),
        .directory = place->directory,
        .deviation = -1.0,
        .threads = 1,
        .shard_bytes = 20000,
    };
    enum mt_status status = mt_model_init(ctx, &options, NULL);
    if (status != MT_OK) assert_true(workplace_entries(place) <= 2); // the start, and at most its copy
    return status;
}

static void every_allocation_may_fail(void **state)
{
    const char *config = small_model_config(&mt_arch_olmoe);
    assert_int_equal(workplace_write(*state, "start.json", config, strlen(config)), 0);
    assert_every_allocation_may_fail(init_once, *state, 11);
}

// ------------------------------------------------------------------ as a program

static void program(const struct workplace *place, const char *arguments, int status, const char *said)
{
    char command[1024];
    char text[8192];
    (void)snprintf(command, sizeof command, "cd %s && %s init %s 2>&1", place->directory,
                   getenv("METIER_PROGRAM"), arguments);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): the command is ours
    assert_non_null(pipe);
    text[fread(text, 1, sizeof text - 1, pipe)] = '\0';
    int code = pclose(pipe);
    if (!WIFEXITED(code) || WEXITSTATUS(code) != status || strstr(text, said) == NULL) {
        fail_msg("%s: expected %d and '%s' in:\n%s", arguments, status, said, text);
    }
}

static void verb(void **state)
{
    const char *config = small_model_config(&mt_arch_olmoe);
    if (getenv("METIER_PROGRAM") == NULL) {
        printf("SKIPPED: METIER_PROGRAM does not name the program\n");
        skip();
    }
    assert_int_equal(workplace_write(*state, "config.json", config, strlen(config)), 0);
    program(*state, "--config config.json --seed 3 --dtype bf16 --out .", 0,
            ".: 16344 parameters, 32688 bytes, 1 file");
    program(*state, "--config config.json --out .", 2, "already has model.safetensors");
    program(*state, "--out .", 2, "--config FILE is missing");
    program(*state, "--config config.json", 2, "--out DIR is missing");
    program(*state, "--config config.json --out . --dtype f8", 2, "expected f32, bf16 or f16");
    program(*state, "--config config.json --out . --std -1", 2, "--std must not be negative");
    program(*state, "--config config.json --out . --seed -1", 2, "--seed must not be negative");
    program(*state, "--config none.json --out .", 1, "none.json");
    program(*state, "--help", 0, "initializer_range");
}

int main(void)
{
#define AT_A_PLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)
    const struct CMUnitTest tests[] = {
        AT_A_PLACE(fits_its_config),
        AT_A_PLACE(values),
        AT_A_PLACE(deviation),
        AT_A_PLACE(seed_and_name_alone),
        AT_A_PLACE(order_does_not_matter),
        AT_A_PLACE(refusals),
        AT_A_PLACE(every_allocation_may_fail),
        AT_A_PLACE(verb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
