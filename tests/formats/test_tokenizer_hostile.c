/*
 * Tokenizer files that are cut, changed or absurd: a sentence each, never a crash; and no memory. Tests
 * src/formats/tokenizer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tokenizer/tokenizer.h"
#include "support/blocks.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"
#include "support/golden_tokenizers.h"

#define LOOP_BYTES      200000
#define QUADRATIC_BYTES 100000
#define BLOCKS_PER_BYTE 1000 // its square would be two hundred times that; a logarithm is allowed

/* A tokenizer with a part of every kind. */
static const char small[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"single_word\":false,\"lstrip\":"
    "false,"
    "\"rstrip\":true,\"normalized\":false,\"special\":true},{\"id\":7,\"content\":\"Ab\",\"single_word\":"
    "true,"
    "\"lstrip\":true,\"rstrip\":false,\"normalized\":true,\"special\":false}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":\"Replace\","
    "\"pattern\":"
    "{\"Regex\":\"x+\"},\"content\":\"a\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"
    "\"[\\\\p{L}&&[^\\\\p{Han}]]+\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"Metaspace\","
    "\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"split\":true}]},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\","
    "\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[],\"special_tokens\":{\"<s>\":{\"id\":\"<s>\","
    "\"ids\":[6],"
    "\"tokens\":[\"<s>\"]}}},"
    "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\","
    "\"replacement\":\"_\",\"prepend_scheme\":\"first\"}]},"
    "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"byte_fallback\":true,\"vocab\":{\"?\":0,\"a\":1,\"b\":"
    "2,\"ab\":3,"
    "\"_\":4,\"_ab\":5},\"merges\":[\"a b\",[\"_\",\"ab\"]]}}";

static const char text[] =
    "ab ab xb <s>  \xC3\xA9 Ab, e\xCC\x81 \xF0\x9F\x98\x80 aaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbb";

/* Loads, encodes and decodes; returns the first failure. */
static enum mt_status use_all(struct mt_context *ctx, struct mt_tokenizer *tokenizer)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    struct mt_byte_list decoded = {.ctx = ctx};
    enum mt_status status = mt_token_scratch_create(ctx, tokenizer, &scratch);
    if (status == MT_OK) {
        status = mt_tokenizer_encode(tokenizer, scratch, text, sizeof text - 1, MT_ENCODE_ADD_SPECIAL, &ids);
    }
    if (status == MT_OK) {
        status = mt_tokenizer_decode(tokenizer, ctx, ids.data, ids.count, MT_DECODE_SKIP_UNKNOWN, &decoded);
    }
    mt_token_scratch_free(scratch);
    mt_id_list_free(&ids);
    mt_byte_list_free(&decoded);
    return status;
}

static enum mt_status try_json(struct mt_context *ctx, const char *json, size_t bytes)
{
    struct mt_tokenizer *tokenizer = NULL;
    enum mt_status status = mt_tokenizer_load_json(ctx, "small.json", json, bytes, &tokenizer);
    if (status == MT_OK) status = use_all(ctx, tokenizer);
    mt_tokenizer_free(tokenizer);
    return status;
}

static enum mt_status try_tiktoken(struct mt_context *ctx, const char *model, size_t bytes,
                                   const char *config)
{
    struct mt_tokenizer *tokenizer = NULL;
    enum mt_status status = mt_tokenizer_load_tiktoken(ctx, "tiktoken.model", model, bytes, config,
                                                       config != NULL ? strlen(config) : 0, &tokenizer);
    if (status == MT_OK) status = use_all(ctx, tokenizer);
    mt_tokenizer_free(tokenizer);
    return status;
}

static void json_cut_anywhere(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    if (try_json(&ctx, small, sizeof small - 1) != MT_OK) fail_msg("%s", ctx.message);
    for (size_t bytes = 0; bytes < sizeof small - 1; bytes++) {
        char *cut = malloc(bytes + 1); // its own block, so that a read past its end is seen
        assert_non_null(cut);
        memcpy(cut, small, bytes);
        assert_int_not_equal(try_json(&ctx, cut, bytes), MT_OK);
        assert_string_not_equal(ctx.message, "");
        free(cut);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void json_changed_anywhere(void **state)
{
    (void)state;
    static const char values[] = {'\0', '"', '9', '}', ' ', (char)0xFF};
    struct mt_context ctx;
    char changed[sizeof small];
    mt_context_init(&ctx, NULL);
    for (size_t at = 0; at < sizeof small - 1; at++) {
        for (size_t i = 0; i < sizeof values; i++) {
            memcpy(changed, small, sizeof small);
            changed[at] = values[i];
            ctx.message[0] = '\0';
            enum mt_status status = try_json(&ctx, changed, sizeof small - 1);
            if (status != MT_OK) assert_string_not_equal(ctx.message, "");
            assert_int_equal(ctx.live_bytes, 0);
        }
    }
}

/* The small tokenizer with `from` replaced by `to` must be refused with `said` in the message. */
static void refused(const char *from, const char *to, enum mt_status expected, const char *said)
{
    char changed[2 * sizeof small];
    const char *place = strstr(small, from);
    assert_non_null(place);
    int before = (int)(place - small);
    (void)snprintf(changed, sizeof changed, "%.*s%s%s", before, small, to, place + strlen(from));
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    enum mt_status status = try_json(&ctx, changed, strlen(changed));
    if (status != expected || strstr(ctx.message, said) == NULL) {
        fail_msg("'%s' for '%s': %s: %s", to, from, mt_status_text(status), ctx.message);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void json_refusals(void **state)
{
    (void)state;
    refused("\"a b\"", "\"a c\"", MT_ERR_FORMAT, "merges[0] merges 'a' and 'c'");
    refused("\"a b\"", "\"b a\"", MT_ERR_FORMAT, "merges 'b' and 'a'");
    refused("\"a b\"", "\"a b b\"", MT_ERR_FORMAT, "two tokens");
    refused("[\"_\",\"ab\"]", "[\"_\",\"ab\",\"a\"]", MT_ERR_FORMAT, "merges[1]");
    refused("\"ab\":3", "\"ab\":2", MT_ERR_FORMAT, "two tokens have the id 2");
    refused("\"ab\":3", "\"ab\":-1", MT_ERR_FORMAT, "model.vocab.ab");
    refused("\"ab\":3", "\"ab\":16000000", MT_ERR_FORMAT, "ids up to 16000000");
    refused("\"ab\":3", "\"ab\":99999999999999", MT_ERR_FORMAT, "model.vocab.ab");
    refused("\"ab\":3", "\"ab\":\"3\"", MT_ERR_FORMAT, "model.vocab.ab");
    refused("\"type\":\"BPE\"", "\"type\":\"Unigram\"", MT_ERR_UNSUPPORTED, "'Unigram'");
    refused("\"type\":\"BPE\"", "\"type\":\"BPE\",\"dropout\":0.5", MT_ERR_UNSUPPORTED, "dropout");
    refused("\"type\":\"NFC\"", "\"type\":\"Nmt\"", MT_ERR_UNSUPPORTED, "normalizer type 'Nmt'");
    refused("\"type\":\"Split\"", "\"type\":\"UnicodeScripts\"", MT_ERR_UNSUPPORTED, "'UnicodeScripts'");
    refused("\"type\":\"ByteFallback\"", "\"type\":\"CTC\"", MT_ERR_UNSUPPORTED, "decoder type 'CTC'");
    refused("\"type\":\"TemplateProcessing\"", "\"type\":\"BertProcessing\"", MT_ERR_UNSUPPORTED,
            "'BertProcessing'");
    refused("\"Isolated\"", "\"Sideways\"", MT_ERR_FORMAT, "'Sideways'");
    refused("\"Regex\":\"x+\"", "\"Regex\":\"(\"", MT_ERR_FORMAT, "cannot be compiled");
    refused("\"Regex\":\"x+\"", "\"Regex\":\"[[:punct:]]\"", MT_ERR_UNSUPPORTED, "POSIX class");
    refused("\"Regex\":\"x+\"", "\"Regex\":\"x{2}+\"", MT_ERR_UNSUPPORTED, "{...}+");
    refused("\"Regex\":\"x+\"", "\"Regex\":\"\\\\p{Klingon}\"", MT_ERR_UNSUPPORTED, "p{Klingon}");
    refused("\"Regex\":\"x+\"", "\"Regex\":\"[[[[[[[[[[[[x]]]]]]]]]]]]\"", MT_ERR_UNSUPPORTED,
            "nested too deeply");
    refused("\"id\":6", "\"id\":2", MT_ERR_FORMAT, "another token's");
    refused("\"id\":6", "\"id\":7", MT_ERR_FORMAT, "two added tokens have the id 7");
    refused("\"content\":\"<s>\"", "\"content\":\"a\"", MT_ERR_FORMAT, "the vocabulary gives it 1");
    refused("\"ids\":[6]", "\"ids\":[900]", MT_ERR_FORMAT, "900");
    refused("\"replacement\":\"_\"", "\"replacement\":\"__\"", MT_ERR_FORMAT, "one character");
    refused("\"version\":\"1.0\"", "\"version\":\"2.0\"", MT_ERR_FORMAT, "2.0");
    refused("\"vocab\"", "\"words\"", MT_ERR_FORMAT, "vocab");
}

/* A pattern that takes exponential time ends with a sentence. */
static void patterns_that_never_end(void **state)
{
    (void)state;
    refused("\"Regex\":\"x+\"", "\"Regex\":\"(?:b+)+[cd]\"", MT_ERR_UNSUPPORTED, "too much work");
    refused("\"Regex\":\"x+\"", "\"Regex\":\"(?:b|bb|bbb|b+)*[cd]\"", MT_ERR_UNSUPPORTED, "too much work");
}

/* Splits as GPT-2, Llama 3 and GPT-4o do, with merges that make one long word of a run of letters. */
static const char *const real_splits[] = {
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\\\p{L}+| ?\\\\p{N}+| ?[^\\\\s\\\\p{L}\\\\p{N}]+|\\\\s+(?!\\\\S)|\\\\s+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}|"
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+",
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*"
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{Lu}\\\\p{Lt}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]+"
    "[\\\\p{Ll}\\\\p{Lm}\\\\p{Lo}\\\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\\\p{N}{1,3}|"
    " ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n/]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+",
};

/* A tokenizer that splits by a pattern, as JSON has it, and knows some letters. The caller frees. */
static struct mt_tokenizer *load_split(struct mt_context *ctx, const char *pattern)
{
    static const char head[] =
        "{\"version\":\"1.0\",\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":"
        "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"";
    static const char tail[] =
        "\"},\"behavior\":\"Isolated\",\"invert\":false},\"post_processor\":null,\"decoder\":null,"
        "\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"a\":1,\"b\":2,\"aa\":3,"
        "\"aaaa\":"
        "4,\" \":5,\"  \":6,\"    \":7,\"1\":8,\"\\n\":9,\"\\n\\n\":10,\"ab\":11,\"abab\":12},\"merges\":["
        "[\"a\",\"a\"],[\"aa\",\"aa\"],[\" \",\" \"],[\"  \",\"  \"],[\"\\n\",\"\\n\"],[\"a\",\"b\"],[\"ab\","
        "\"ab\"]]}}";
    struct mt_byte_list json = {.ctx = ctx};
    struct mt_tokenizer *tokenizer = NULL;
    assert_int_equal(mt_byte_list_append_text(&json, head), MT_OK);
    assert_int_equal(mt_byte_list_append_text(&json, pattern), MT_OK);
    assert_int_equal(mt_byte_list_append_text(&json, tail), MT_OK);
    enum mt_status status =
        mt_tokenizer_load_json(ctx, "loop.json", (const char *)json.data, json.count, &tokenizer);
    if (status != MT_OK) print_message("%s\n", ctx->message);
    assert_int_equal(status, MT_OK);
    mt_byte_list_free(&json);
    return tokenizer;
}

/* `bytes` of a piece again and again. */
static enum mt_status encode_loop(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                  const char *piece, size_t bytes)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    struct mt_byte_list loop = {.ctx = ctx};
    while (loop.count < bytes) assert_int_equal(mt_byte_list_append_text(&loop, piece), MT_OK);
    assert_int_equal(mt_token_scratch_create(ctx, tokenizer, &scratch), MT_OK);
    enum mt_status status = mt_tokenizer_encode(tokenizer, scratch, loop.data, loop.count, 0, &ids);
    mt_token_scratch_free(scratch);
    mt_id_list_free(&ids);
    mt_byte_list_free(&loop);
    return status;
}

/* What a model in a loop writes takes work linear in its length, whatever it repeats. */
static void texts_that_loop(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "a",  "A",  " ", "\n", "a ", " a", "1",  "1,", "\r\n",         " \n",      "\t",
        "ab", "aA", "'", "'s", ".",  "{",  "\\", "/",  "The answer (", "\xC3\xA9", "e\xCC\x81"};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof real_splits / sizeof real_splits[0]; i++) {
        struct mt_tokenizer *tokenizer = load_split(&ctx, real_splits[i]);
        for (size_t k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
            uint64_t start = blocks_run();
            enum mt_status status = encode_loop(&ctx, tokenizer, pieces[k], LOOP_BYTES);
            uint64_t per_byte = (blocks_run() - start) / LOOP_BYTES;
            if (status != MT_OK || per_byte > BLOCKS_PER_BYTE)
                print_message("'%s': %" PRIu64 " blocks a byte, %s\n", pieces[k], per_byte,
                              status != MT_OK ? ctx.message : "");
            assert_int_equal(status, MT_OK);
            assert_true(per_byte <= BLOCKS_PER_BYTE);
        }
        mt_tokenizer_free(tokenizer);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

/* Patterns that are quadratic in the text, from every place in it or within one match, end with a sentence.
 */
static void patterns_that_are_quadratic(void **state)
{
    (void)state;
    static const char *const patterns[] = {"a+[cd]", "(?:a(?!.*[cd]))+[ef]", "(?:a(?=a*b?))+[ef]"};
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct mt_tokenizer *tokenizer = load_split(&ctx, patterns[i]);
        enum mt_status status = encode_loop(&ctx, tokenizer, "a", QUADRATIC_BYTES);
        if (status != MT_ERR_UNSUPPORTED || strstr(ctx.message, "too much work") == NULL)
            fail_msg("'%s': %s: %s", patterns[i], mt_status_text(status), ctx.message);
        // A short text is not the worse for it.
        assert_int_equal(encode_loop(&ctx, tokenizer, "a", 10), MT_OK);
        mt_tokenizer_free(tokenizer);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void tiktoken_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *added; // behind the 256 bytes
        const char *config;
        const char *said;
    } cases[] = {
        {"YWI= 256\n", NULL, NULL},
        {"YWI= 256\r\n\r\n", NULL, NULL},
        {"YWI= 256", NULL, NULL},
        {"YWI= 255\n", NULL, "line 257: two tokens have the id 255"},
        {"YQ== 256\n", NULL, "occurs twice"},
        {"YWI 256\n", NULL, "line 257 does not start with base64"},
        {"Y*I= 256\n", NULL, "line 257 does not start with base64"},
        {"YWJ= 256\n", NULL, "bits left over"},
        {" 256\n", NULL, "base64"},
        {"YWI=\n", NULL, "is not '<base64> <rank>'"},
        {"YWI= \n", NULL, "has no rank"},
        {"YWI= x\n", NULL, "not a number"},
        {"YWI= -1\n", NULL, "not a number"},
        {"YWI= 99999999999999999999\n", NULL, "too high"},
        {"YWI= 258\n", NULL, "beyond the number of lines"},
        {"YWI= 256\n", "{", "tokenizer_config.json"},
        {"YWI= 256\n", "[]", "tokenizer_config.json"},
        {"YWI= 256\n", "{\"added_tokens_decoder\":{\"257\":{\"content\":\"\"}}}", "content of 0 bytes"},
        {"YWI= 256\n", "{\"added_tokens_decoder\":{\"257\":{\"content\":\"x\"},\"258\":{\"content\":\"x\"}}}",
         "two ids"},
        {"YWI= 256\n", "{\"added_tokens_decoder\":{\"257\":{\"content\":\"x\"}},\"model_max_length\":1e30}",
         NULL},
    };
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char model[8192];
        size_t bytes = 0;
        for (unsigned byte = 0; byte < 256; byte++) {
            bytes += (size_t)snprintf(model + bytes, sizeof model - bytes, "%c%c== %u\n", digits[byte >> 2],
                                      digits[(byte & 3u) << 4], byte);
        }
        bytes += (size_t)snprintf(model + bytes, sizeof model - bytes, "%s", cases[i].added);
        struct mt_context ctx;
        mt_context_init(&ctx, NULL);
        enum mt_status status = try_tiktoken(&ctx, model, bytes, cases[i].config);
        bool right = cases[i].said == NULL
                         ? status == MT_OK
                         : status == MT_ERR_FORMAT && strstr(ctx.message, cases[i].said) != NULL;
        if (!right) fail_msg("case %zu: %s: %s", i, mt_status_text(status), ctx.message);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

static void tiktoken_cut_anywhere(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct golden_file model = golden_read(&ctx, "tiktoken.model");
    for (size_t bytes = 0; bytes < model.bytes; bytes += 3) {
        char *cut = malloc(bytes + 1);
        assert_non_null(cut);
        memcpy(cut, model.data, bytes);
        ctx.message[0] = '\0';
        struct mt_tokenizer *tokenizer = NULL;
        enum mt_status status =
            mt_tokenizer_load_tiktoken(&ctx, "tiktoken.model", cut, bytes, NULL, 0, &tokenizer);
        if (status != MT_OK) assert_string_not_equal(ctx.message, "");
        mt_tokenizer_free(tokenizer);
        free(cut);
    }
    golden_free(&model);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status run_json(struct mt_context *ctx, const void *self)
{
    (void)self;
    return try_json(ctx, small, sizeof small - 1);
}

static enum mt_status run_tiktoken(struct mt_context *ctx, const void *self)
{
    const struct golden_file *model = self;
    return try_tiktoken(ctx, model->data, model->bytes,
                        "{\"added_tokens_decoder\":{\"700\":{\"content\":\"[EOS]\"}}}");
}

static void no_memory(void **state)
{
    (void)state;
    struct failing_report report = fail_each_allocation(run_json, NULL);
    if (!report.ok) fail_msg("json, allocation %ld: %s", report.allocations, report.problem);
    assert_true(report.allocations > 50);
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct golden_file model = golden_read(&ctx, "tiktoken.model");
    report = fail_each_allocation(run_tiktoken, &model);
    if (!report.ok) fail_msg("tiktoken, allocation %ld: %s", report.allocations, report.problem);
    golden_free(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_cut_anywhere), cmocka_unit_test(json_changed_anywhere),
        cmocka_unit_test(json_refusals),     cmocka_unit_test(patterns_that_never_end),
        cmocka_unit_test(texts_that_loop),   cmocka_unit_test(patterns_that_are_quadratic),
        cmocka_unit_test(tiktoken_refusals), cmocka_unit_test(tiktoken_cut_anywhere),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
