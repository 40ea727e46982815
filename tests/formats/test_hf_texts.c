/* generation_config.json and tokenizer_config.json. Tests src/formats/hf. */
#include <string.h>

#include "formats/hf/hf_generation.h"
#include "formats/hf/hf_tokenizer_config.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"

static void generation_values(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_generation generation;
    mt_context_init(&ctx, NULL);
    static const char full[] =
        "{\"bos_token_id\": 1, \"eos_token_id\": [32000, 32001, 32007], \"pad_token_id\": 32000,"
        " \"do_sample\": true, \"temperature\": 0.6, \"top_p\": 0.95, \"top_k\": 20,"
        " \"repetition_penalty\": 1.05, \"max_length\": 4096, \"transformers_version\": \"4\"}";
    assert_int_equal(mt_hf_generation_read(&ctx, "g", full, sizeof full - 1, &generation), MT_OK);
    assert_int_equal(generation.eos_count, 3);
    assert_int_equal(generation.eos[1], 32001);
    assert_true(generation.do_sample && generation.temperature == 0.6 && generation.top_p == 0.95);
    assert_int_equal(generation.top_k, 20);
    assert_int_equal(generation.max_length, 4096);
    mt_hf_generation_free(&generation);
    static const char bare[] = "{\"eos_token_id\": 2, \"temperature\": null}";
    assert_int_equal(mt_hf_generation_read(&ctx, "g", bare, sizeof bare - 1, &generation), MT_OK);
    assert_int_equal(generation.eos_count, 1);
    assert_int_equal(generation.bos, -1);
    assert_false(generation.do_sample);
    assert_true(generation.temperature == 1.0);
    mt_hf_generation_free(&generation);
    static const char *const bad[] = {
        "[]",
        "{\"temperature\": -1}",
        "{\"top_p\": 1.5}",
        "{\"eos_token_id\": [\"a\"]}",
        "{\"do_sample\": 1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mt_hf_generation_read(&ctx, "g", bad[i], strlen(bad[i]), &generation),
                         MT_ERR_FORMAT);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static const char full_tokenizer[] =
    "{\"add_bos_token\": true, \"add_eos_token\": false, \"added_tokens_decoder\": {\"0\": {\"content\": "
    "\"<unk>\"}},"
    " \"bos_token\": {\"__type\": \"AddedToken\", \"content\": \"<s>\", \"lstrip\": false}, \"eos_token\": "
    "\"</s>\","
    " \"pad_token\": null, \"unk_token\": \"<unk>\", \"model_max_length\": 1000000000000000019884624838656,"
    " \"tokenizer_class\": \"LlamaTokenizer\","
    " \"chat_template\": [{\"name\": \"default\", \"template\": \"{{ a }}\"}, {\"name\": \"rag\", "
    "\"template\": \"b\"}]}";

static void tokenizer_values(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_hf_tokenizer_config config;
    mt_context_init(&ctx, NULL);
    assert_int_equal(
        mt_hf_tokenizer_config_read(&ctx, "t", full_tokenizer, sizeof full_tokenizer - 1, &config), MT_OK);
    assert_string_equal(config.bos_token, "<s>");
    assert_string_equal(config.eos_token, "</s>");
    assert_null(config.pad_token);
    assert_true(config.has_add_bos && config.add_bos && config.has_add_eos && !config.add_eos);
    assert_true(config.model_max_length > 9e29);
    assert_int_equal(config.template_count, 2);
    assert_string_equal(mt_hf_tokenizer_config_template(&config, "default"), "{{ a }}");
    assert_string_equal(mt_hf_tokenizer_config_template(&config, "rag"), "b");
    assert_null(mt_hf_tokenizer_config_template(&config, "none"));
    mt_hf_tokenizer_config_free(&config);
    static const char single[] = "{\"chat_template\": \"x\", \"model_max_length\": 16384}";
    assert_int_equal(mt_hf_tokenizer_config_read(&ctx, "t", single, sizeof single - 1, &config), MT_OK);
    assert_string_equal(mt_hf_tokenizer_config_template(&config, "default"), "x");
    assert_false(config.has_add_bos);
    assert_true(config.model_max_length == 16384.0);
    mt_hf_tokenizer_config_free(&config);
    static const char *const bad[] = {
        "[]",
        "{\"bos_token\": 1}",
        "{\"bos_token\": {}}",
        "{\"chat_template\": 1}",
        "{\"chat_template\": [1]}",
        "{\"chat_template\": [{\"name\": \"a\"}]}",
        "{\"add_bos_token\": \"yes\"}",
        "{\"model_max_length\": -1}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mt_hf_tokenizer_config_read(&ctx, "t", bad[i], strlen(bad[i]), &config),
                         MT_ERR_FORMAT);
        assert_non_null(strstr(ctx.message, "t: "));
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status parse_once(struct mt_context *ctx, const void *self)
{
    (void)self;
    struct mt_hf_tokenizer_config config;
    enum mt_status status =
        mt_hf_tokenizer_config_read(ctx, "t", full_tokenizer, sizeof full_tokenizer - 1, &config);
    mt_hf_tokenizer_config_free(&config);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    assert_every_allocation_may_fail(parse_once, NULL, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generation_values),
        cmocka_unit_test(tokenizer_values),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
