/*
 * metier inspect as a program: exit status, what it says, and that its JSON is JSON. Tests
 * src/cli/inspect.c.
 */
#define _XOPEN_SOURCE 700 // popen

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "arch/model_tensors.h"
#include "formats/safetensors/checkpoint_writer.h"
#include "support/cmocka_all.h"
#include "support/model_configs.h"
#include "support/workplace.h"

#define OUTPUT_BYTES 65536

struct outcome {
    int status;
    char text[OUTPUT_BYTES]; // standard output and standard error
};

static void run(const char *arguments, struct outcome *outcome)
{
    char command[512];
    (void)snprintf(command, sizeof command, "%s inspect %s 2>&1", getenv("METIER_PROGRAM"), arguments);
    FILE *pipe = popen(command, "r"); // NOLINT(cert-env33-c): the command is ours
    assert_non_null(pipe);
    size_t bytes = fread(outcome->text, 1, sizeof outcome->text - 1, pipe);
    outcome->text[bytes] = '\0';
    int status = pclose(pipe);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void expect(const struct outcome *outcome, int status, const char *said)
{
    if (outcome->status != status || strstr(outcome->text, said) == NULL) {
        fail_msg("exit %d, expected %d and '%s' in:\n%s", outcome->status, status, said, outcome->text);
    }
}

static const char small_config[] =
    "{\"model_type\": \"olmoe\", \"vocab_size\": 50, \"hidden_size\": 16, \"num_hidden_layers\": 2,"
    " \"num_attention_heads\": 4, \"intermediate_size\": 8, \"num_experts\": 8, \"num_experts_per_tok\": 2,"
    " \"max_position_embeddings\": 64}";

/* How the written weights differ from what the config asks for. */
struct deviation {
    size_t left_out;        // the last so many tensors are not written
    bool reshaped;          // the first tensor has its dimensions swapped
    bool integers;          // the first tensor is I32
    const char *additional; // one tensor more
};

static void write_model(const struct workplace *place, const struct deviation *deviation)
{
    struct mt_context ctx;
    struct mt_hf_config config;
    mt_context_init(&ctx, NULL);
    workplace_clear(place);
    assert_int_equal(workplace_write(place, "config.json", small_config, sizeof small_config - 1), 0);
    assert_int_equal(mt_hf_config_read(&ctx, "c", small_config, sizeof small_config - 1, &config), MT_OK);
    static struct mt_model_tensor tensors[256];
    static struct mt_safetensors_spec specs[256];
    size_t count = 0;
    struct mt_model_tensors walk = mt_model_tensors_begin(&config);
    while (mt_model_tensors_next(&walk, &tensors[count])) count++;
    for (size_t i = 0; i < count; i++) {
        specs[i] = (struct mt_safetensors_spec){.name = tensors[i].name,
                                                .dtype = MT_SAFETENSORS_BF16,
                                                .rank = tensors[i].rank,
                                                .dim = {tensors[i].dim[0], tensors[i].dim[1]}};
    }
    if (deviation->reshaped) memcpy(specs[0].dim, (int64_t[2]){16, 50}, sizeof(int64_t[2]));
    if (deviation->integers) specs[0].dtype = MT_SAFETENSORS_I32;
    count -= deviation->left_out;
    if (deviation->additional != NULL) {
        specs[count++] = (struct mt_safetensors_spec){
            .name = deviation->additional, .dtype = MT_SAFETENSORS_F32, .rank = 1, .dim = {3}};
    }
    struct mt_checkpoint_writer writer;
    static unsigned char zeros[65536];
    assert_int_equal(mt_checkpoint_writer_open(&ctx, place->directory, specs, count, 4000, &writer), MT_OK);
    while (writer.shard.current < writer.shard.spec_count) {
        assert_int_equal(mt_checkpoint_writer_write(&writer, zeros, (size_t)writer.shard.current_bytes),
                         MT_OK);
    }
    assert_int_equal(mt_checkpoint_writer_finish(&writer), MT_OK);
    mt_hf_config_free(&config);
}

static void complete_and_incomplete_models(void **state)
{
    const struct workplace *place = *state;
    struct outcome outcome;
    write_model(place, &(struct deviation){0});
    run(place->directory, &outcome);
    expect(&outcome, 0, "all 69 expected tensors are there, and no others");
    expect(&outcome, 0, "BF16         69 tensors");
    write_model(place, &(struct deviation){.left_out = 30});
    run(place->directory, &outcome);
    expect(&outcome, 2, "missing: 30\n");
    expect(&outcome, 2, "and 10 more");
    write_model(place, &(struct deviation){.left_out = 1});
    run(place->directory, &outcome);
    expect(&outcome, 2, "missing: 1\n    lm_head.weight\n");
    write_model(place, &(struct deviation){.reshaped = true});
    run(place->directory, &outcome);
    expect(&outcome, 2, "model.embed_tokens.weight is BF16 [16, 50], expected [50, 16] in F32, BF16 or F16");
    write_model(place, &(struct deviation){.integers = true});
    run(place->directory, &outcome);
    expect(&outcome, 2, "model.embed_tokens.weight is I32 [50, 16]");
    write_model(place, &(struct deviation){.additional = "model.stray\x1b[31m"});
    run(place->directory, &outcome);
    expect(&outcome, 0, "unexpected (not read): 1\n    model.stray?[31m\n");
}

static void json_output(void **state)
{
    const struct workplace *place = *state;
    struct outcome outcome;
    char arguments[128];
    write_model(place, &(struct deviation){.left_out = 1, .additional = "model.stray"});
    (void)snprintf(arguments, sizeof arguments, "%s --json --rank 4", place->directory);
    run(arguments, &outcome);
    assert_int_equal(outcome.status, 2);
    json_t *root = json_loads(outcome.text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_int_t missing = -1;
    json_int_t unexpected = -1;
    json_int_t rank = -1;
    int complete = -1;
    const char *source = NULL;
    assert_int_equal(json_unpack(root, "{s:{s:{s:I}, s:{s:I}, s:s}, s:{s:I}, s:b}", "weights", "missing",
                                 "count", &missing, "unexpected", "count", &unexpected, "source", &source,
                                 "lora_memory", "rank", &rank, "complete", &complete),
                     0);
    assert_int_equal(missing, 1);
    assert_int_equal(unexpected, 1);
    assert_int_equal(rank, 4);
    assert_int_equal(complete, 0);
    assert_string_equal(source, "files");
    json_decref(root);
}

static void without_weights(void **state)
{
    const struct workplace *place = *state;
    struct outcome outcome;
    for (size_t at = 0; at < MT_ARCH_COUNT; at++) {
        const struct mt_arch *model = mt_archs[at];
        const char *published = model_config_text(model);
        assert_int_equal(workplace_write(place, "config.json", published, strlen(published)), 0);
        run(place->directory, &outcome);
        expect(&outcome, 0, model->name);
        expect(&outcome, 0, "none here: the counts come from config.json");
    }
    const char *text = model_config_text(&mt_arch_qwen2_moe);
    assert_int_equal(workplace_write(place, "config.json", text, strlen(text)), 0);
    run(place->directory, &outcome);
    expect(&outcome, 0, "60 of width 1408, 1 shared of width 5632");
    text = model_config_text(&mt_arch_qwen3_moe);
    assert_int_equal(workplace_write(place, "config.json", text, strlen(text)), 0);
    static const char index[] = "{\"weight_map\": {\"model.embed_tokens.weight\": \"m.safetensors\"}}";
    assert_int_equal(workplace_write(place, "model.safetensors.index.json", index, sizeof index - 1), 0);
    run(place->directory, &outcome);
    expect(&outcome, 2, "only the index is here");
    expect(&outcome, 2, "missing: 18866");
}

static void bad_usage_and_bad_files(void **state)
{
    const struct workplace *place = *state;
    struct outcome outcome;
    char arguments[128];
    run("", &outcome);
    expect(&outcome, 2, "expected one directory");
    run("a b", &outcome);
    expect(&outcome, 2, "expected one directory");
    run("--help", &outcome);
    expect(&outcome, 0, "examples:");
    (void)snprintf(arguments, sizeof arguments, "%s --rank 0", place->directory);
    run(arguments, &outcome);
    expect(&outcome, 2, "--rank is 0");
    run(place->directory, &outcome);
    expect(&outcome, 1, "config.json");
    assert_int_equal(workplace_write(place, "config.json", "{", 1), 0);
    run(place->directory, &outcome);
    expect(&outcome, 2, "not valid JSON");
    write_model(place, &(struct deviation){0});
    assert_int_equal(workplace_write(place, "model-00001-of-00006.safetensors", "short", 5), 0);
    run(place->directory, &outcome);
    expect(&outcome, 2, "too short for a safetensors file");
}

int main(void)
{
    if (getenv("METIER_PROGRAM") == NULL) {
        printf("SKIPPED: METIER_PROGRAM does not name the program\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(complete_and_incomplete_models, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(json_output, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(without_weights, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(bad_usage_and_bad_files, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
