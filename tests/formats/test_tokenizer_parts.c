/*
 * Tokenizers in detail: the rules that are easily got wrong, with the ids spelled out. Tests
 * src/formats/tokenizer.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "formats/text/utf8.h"
#include "formats/tokenizer/bpe.h"
#include "formats/tokenizer/regex.h"
#include "support/cmocka_all.h"
#include "support/golden_tokenizers.h"

/* The tokens a text becomes, with '|' between, as the file writes them. */
static void tokens_of(const struct mt_tokenizer *tokenizer, struct mt_context *ctx, const char *text,
                      size_t bytes, unsigned flags, char *out, size_t out_bytes)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    assert_int_equal(mt_token_scratch_create(ctx, tokenizer, &scratch), MT_OK);
    assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, text, bytes, flags, &ids), MT_OK);
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < ids.count; i++) {
        size_t length = 0;
        const uint8_t *token = mt_tokenizer_token(tokenizer, ids.data[i], &length);
        assert_non_null(token);
        used += (size_t)snprintf(out + used, out_bytes - used, "%s%.*s", i > 0 ? "|" : "", (int)length,
                                 (const char *)token);
        assert_true(used < out_bytes);
    }
    mt_id_list_free(&ids);
    mt_token_scratch_free(scratch);
}

static void expect_tokens(const char *name, const char *text, unsigned flags, const char *expected)
{
    struct mt_context ctx;
    char tokens[512];
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = golden_load(&ctx, name);
    tokens_of(tokenizer, &ctx, text, strlen(text), flags, tokens, sizeof tokens);
    assert_string_equal(tokens, expected);
    mt_tokenizer_free(tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A tokenizer of the characters and pairs below, with other parts as given. */
static struct mt_tokenizer *make(struct mt_context *ctx, const char *parts)
{
    char json[4096];
    struct mt_tokenizer *tokenizer = NULL;
    (void)snprintf(
        json, sizeof json,
        "{%s,\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\"f\":3,\"\xC3\xA9\":4,\" \":5,"
        "\"ab\":6,\"1\":7,\"2\":8,\"12\":9,\"!\":10,\"abc\":11,\"\\n\":12,\"f\xC3\xA9\":13},"
        "\"merges\":[\"a b\",\"1 2\",\"ab c\",\"f \xC3\xA9\"]}}",
        parts);
    if (mt_tokenizer_load_json(ctx, "made", json, strlen(json), &tokenizer) != MT_OK)
        fail_msg("%s", ctx->message);
    return tokenizer;
}

static void expect_made(const char *parts, const char *text, const char *expected)
{
    struct mt_context ctx;
    char tokens[512];
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = make(&ctx, parts);
    tokens_of(tokenizer, &ctx, text, strlen(text), MT_ENCODE_PLAIN, tokens, sizeof tokens);
    assert_string_equal(tokens, expected);
    mt_tokenizer_free(tokenizer);
}

/*
 * DeepSeek's seven steps: the third one's class ":-~" holds the letters, and every step runs on every piece
 * the others left. So a word the second step kept whole is cut before its last letter; one alternation would
 * not.
 */
static void every_step_cuts_every_piece(void **state)
{
    (void)state;
    static const char steps[] = "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
                                "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s?[A-Za-z\xC3\x80-\xC3\xBF]"
                                "+\"},\"behavior\":\"Isolated\","
                                "\"invert\":false},"
                                "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"\\\\s?[!-/"
                                ":-~]+\"},\"behavior\":\"Isolated\",\"invert\":false},"
                                "{\"type\":\"Digits\",\"individual_digits\":true}]}";
    expect_made("\"pre_tokenizer\":null", "caf\xC3\xA9 ab12", "c|a|f\xC3\xA9| |ab|12");
    expect_made(steps, "caf\xC3\xA9 ab12abc!", "c|a|f|\xC3\xA9| |ab|1|2|abc|!");
    expect_tokens("deepseek", "caf\xC3\xA9", MT_ENCODE_PLAIN, "ca|f|\xC3\x83|\xC2\xA9");
}

static void special_tokens_in_text(void **state)
{
    (void)state;
    expect_tokens("phi", "<|user|> \n a", MT_ENCODE_PLAIN,
                  "<|user|>|\xE2\x96\x81"
                  "a");
    expect_tokens("phi", "a", MT_ENCODE_ADD_SPECIAL,
                  "<s>|\xE2\x96\x81"
                  "a");
    expect_tokens("phi", "", MT_ENCODE_ADD_SPECIAL, "<s>");
    expect_tokens("phi", "", MT_ENCODE_PLAIN, "");
    expect_tokens("olmoe", "a   <|endoftext|>", MT_ENCODE_PLAIN, "a|   |<|endoftext|>");
}

/* Which of several added tokens is found: leftmost, then longest; a rejected match is not tried again. */
static void added_tokens_match(void **state)
{
    (void)state;
    static const char parts[] = "\"added_tokens\":["
                                "{\"id\":6,\"content\":\"ab\",\"single_word\":false,\"lstrip\":false,"
                                "\"rstrip\":false,\"normalized\":false,"
                                "\"special\":false},"
                                "{\"id\":20,\"content\":\"abca\",\"single_word\":true,\"lstrip\":false,"
                                "\"rstrip\":false,\"normalized\":false,"
                                "\"special\":false},"
                                "{\"id\":10,\"content\":\"!\",\"single_word\":false,\"lstrip\":true,"
                                "\"rstrip\":true,\"normalized\":false,"
                                "\"special\":false}]";
    expect_made(parts, "cab", "c|ab");
    expect_made(parts, "abca", "abca");
    expect_made(parts, "abcab", "abc|ab");
    expect_made(parts, "a ! b", "a|!|b");
    expect_made(parts, "a !  ! b", "a|!|!|b");
}

static void regex_translation(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        const char *translated;
    } cases[] = {
        {"a{,3}b{2}c{2,}{", "a{0,3}b{2}c{2,}\\{"},
        {"\\h+\\v\\u0041\\x{1F600}\\.", "[0-9a-fA-F]+\\x{b}\\x{41}\\x{1f600}\\x{2e}"},
        {"(?i:x)(?m:.)(?=y)(?<!z)", "(?i:x)(?s:.)(?=y)(?<!z)"},
        {"[a[bc]]", "[\\x{61}\\x{62}\\x{63}]"},
        {"[a-c&&[^b]]", "(?:(?=(?:[^\\x{62}]))[\\x{61}-\\x{63}])"},
        {"[^a&&b]", "(?:(?!(?=[\\x{62}])[\\x{61}])(?s:.))"},
        {"[]a]", "[\\x{5d}\\x{61}]"},
        {"[a-]", "[\\x{61}\\x{2d}]"},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_byte_list out = {.ctx = &ctx};
        assert_int_equal(mt_regex_translate(&ctx, cases[i].pattern, &out), MT_OK);
        assert_int_equal(mt_byte_list_append(&out, "", 1), MT_OK);
        assert_string_equal((const char *)out.data, cases[i].translated);
        mt_byte_list_free(&out);
    }
    static const char *const refused[] = {"[a",       "\\p{L",     "\\q", "[b-a]", "(?x:a)",
                                          "(?P<n>a)", "(*ACCEPT)", "\\1", "[]",    "a\\"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct mt_byte_list out = {.ctx = &ctx};
        if (mt_regex_translate(&ctx, refused[i], &out) == MT_OK) fail_msg("%s was taken", refused[i]);
        mt_byte_list_free(&out);
    }
    assert_int_equal(ctx.live_bytes, 0);
}

static void utf8_repair(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        const char *repaired;
    } cases[] = {
        {"plain", "plain"},
        {"\xC3\xA9\xF0\x9F\x98\x80", "\xC3\xA9\xF0\x9F\x98\x80"},
        {"a\xFF\xFE", "a\xEF\xBF\xBD\xEF\xBF\xBD"},
        {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},                                 // overlong
        {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},                 // a surrogate
        {"\xF0\x9F\x98x", "\xEF\xBF\xBDx"},                                       // one maximal part
        {"\xE2\x82", "\xEF\xBF\xBD"},                                             // cut off
        {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, // past the last character
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mt_byte_list out = {.ctx = &ctx};
        size_t bytes = strlen(cases[i].bytes);
        assert_int_equal(mt_utf8_append_repaired(&out, (const uint8_t *)cases[i].bytes, bytes), MT_OK);
        assert_int_equal(mt_utf8_valid((const uint8_t *)cases[i].bytes, bytes), i < 2);
        assert_int_equal(mt_byte_list_append(&out, "", 1), MT_OK);
        assert_string_equal((const char *)out.data, cases[i].repaired);
        mt_byte_list_free(&out);
    }
}

static void byte_alphabet(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        assert_int_equal(mt_byte_level_byte(mt_byte_level_character((uint8_t)byte)), byte);
    }
    assert_int_equal(mt_byte_level_character(' '), 0x120);
    assert_int_equal(mt_byte_level_character(0xAD), 0x143);
    assert_int_equal(mt_byte_level_byte(0x144), -1);
    assert_int_equal(mt_byte_level_byte(' '), -1);
}

/* A character whose bytes are four tokens appears with the last of them, and not before. */
static void stream_waits_for_whole_characters(void **state)
{
    (void)state;
    static const char *const names[] = {"deepseek", "tiktoken", "phi"};
    static const char text[] = "a\xF0\x9F\x98\xBE"
                               "b";
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct mt_context ctx;
        struct mt_token_scratch *scratch = NULL;
        struct mt_token_stream *stream = NULL;
        mt_context_init(&ctx, NULL);
        struct mt_id_list ids = {.ctx = &ctx};
        struct mt_byte_list out = {.ctx = &ctx};
        struct mt_tokenizer *tokenizer = golden_load(&ctx, names[n]);
        assert_int_equal(mt_token_scratch_create(&ctx, tokenizer, &scratch), MT_OK);
        assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, text, sizeof text - 1, 0, &ids), MT_OK);
        assert_int_equal(mt_token_stream_create(&ctx, tokenizer, MT_DECODE_PLAIN, &stream), MT_OK);
        size_t steps = 0;
        for (size_t i = 0; i < ids.count; i++) {
            size_t before = out.count;
            assert_int_equal(mt_token_stream_push(stream, ids.data[i], &out), MT_OK);
            steps += out.count > before;
        }
        assert_true(steps >= 2);        // it does not wait for the end
        assert_true(steps < ids.count); // but it does wait
        assert_int_equal(mt_token_stream_end(stream, &out), MT_OK);
        assert_int_equal(out.count, sizeof text - 1);
        assert_memory_equal(out.data, text, out.count);
        assert_int_equal(mt_token_stream_push(stream, 1 << 30, &out), MT_ERR_USAGE);
        assert_int_equal(mt_token_stream_push(stream, -1, &out), MT_ERR_USAGE);
        mt_token_stream_free(stream);
        mt_token_scratch_free(scratch);
        mt_id_list_free(&ids);
        mt_byte_list_free(&out);
        mt_tokenizer_free(tokenizer);
        assert_int_equal(ctx.live_bytes, 0);
    }
}

/* Long words go through the heap, short ones through a scan: the same merges either way. */
static void long_words(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_token_scratch *scratch = NULL;
    mt_context_init(&ctx, NULL);
    struct mt_id_list ids = {.ctx = &ctx};
    struct mt_byte_list text = {.ctx = &ctx};
    struct mt_tokenizer *tokenizer = make(&ctx, "\"pre_tokenizer\":null");
    assert_int_equal(mt_token_scratch_create(&ctx, tokenizer, &scratch), MT_OK);
    enum { REPEATS = 30000 };
    for (int i = 0; i < REPEATS; i++) assert_int_equal(mt_byte_list_append(&text, "abcab12", 7), MT_OK);
    assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, text.data, text.count, 0, &ids), MT_OK);
    assert_int_equal(ids.count, 3 * REPEATS);
    for (size_t i = 0; i < ids.count; i += 3) {
        assert_int_equal(ids.data[i], 11);
        assert_int_equal(ids.data[i + 1], 6);
        assert_int_equal(ids.data[i + 2], 9);
    }
    mt_token_scratch_free(scratch);
    mt_id_list_free(&ids);
    mt_byte_list_free(&text);
    mt_tokenizer_free(tokenizer);
}

static void questions(void **state)
{
    (void)state;
    struct mt_context ctx;
    size_t bytes = 0;
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = golden_load(&ctx, "tiktoken");
    size_t size = mt_tokenizer_vocabulary_size(tokenizer);
    assert_int_equal(size, 700 + 256);
    int32_t eos = mt_tokenizer_id(tokenizer, "[EOS]", 5);
    assert_int_equal(eos, 701);
    assert_true(mt_tokenizer_is_special(tokenizer, eos));
    assert_false(mt_tokenizer_is_special(tokenizer, 65));
    assert_int_equal(mt_tokenizer_id(tokenizer, "<|reserved_token_710|>", 22), -1);
    assert_int_equal(mt_tokenizer_id(tokenizer, "<|reserved_token_711|>", 22), 711);
    assert_null(mt_tokenizer_token(tokenizer, (int32_t)size, &bytes));
    assert_null(mt_tokenizer_token(tokenizer, -1, &bytes));
    struct mt_tokenizer *other = golden_load(&ctx, "phi");
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = &ctx};
    assert_int_equal(mt_token_scratch_create(&ctx, other, &scratch), MT_OK);
    assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, "a", 1, 0, &ids), MT_ERR_USAGE);
    mt_token_scratch_free(scratch);
    mt_tokenizer_free(other);
    mt_tokenizer_free(tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

/* A line of a tiktoken file, of a token of one to three bytes. */
static void add_rank(struct mt_byte_list *model, const char *token, size_t bytes, int rank)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char line[32];
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; i++) bits = bits << 8 | (i < bytes ? (uint8_t)token[i] : 0);
    (void)snprintf(line, sizeof line, "%c%c%c%c %d\n", digits[bits >> 18], digits[bits >> 12 & 63],
                   bytes > 1 ? digits[bits >> 6 & 63] : '=', bytes > 2 ? digits[bits & 63] : '=', rank);
    assert_int_equal(mt_byte_list_append_text(model, line), MT_OK);
}

/* A file with so many ranks: all bytes, a token that shows which pattern cut, and bytes no text has. */
static struct mt_tokenizer *with_ranks(struct mt_context *ctx, int ranks)
{
    struct mt_byte_list model = {.ctx = ctx};
    struct mt_tokenizer *tokenizer = NULL;
    for (int rank = 0; rank < ranks; rank++) {
        const char byte = (char)rank;
        const char filler[] = {(char)(0xF8 + rank / 65536), (char)(rank / 256), (char)rank};
        if (rank < 256)
            add_rank(&model, &byte, 1, rank);
        else
            add_rank(&model, rank == 256 ? "!\n/" : filler, 3, rank);
    }
    assert_int_equal(mt_tokenizer_load_tiktoken(ctx, "made", model.data, model.count, NULL, 0, &tokenizer),
                     MT_OK);
    mt_byte_list_free(&model);
    return tokenizer;
}

static void o200k_is_known_by_its_ranks(void **state)
{
    (void)state;
    struct mt_context ctx;
    char tokens[64];
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *kimi = with_ranks(&ctx, 300);
    tokens_of(kimi, &ctx, "!\n/", 3, 0, tokens, sizeof tokens);
    assert_string_equal(tokens, "!|\n|/");
    assert_int_equal(mt_tokenizer_vocabulary_size(kimi), 300 + 256);
    mt_tokenizer_free(kimi);
    struct mt_tokenizer *o200k = with_ranks(&ctx, 199998);
    tokens_of(o200k, &ctx, "!\n/<|end|>", 10, 0, tokens, sizeof tokens);
    assert_string_equal(tokens, "!\n/|<|end|>");
    assert_int_equal(mt_tokenizer_vocabulary_size(o200k), 201088);
    assert_int_equal(mt_tokenizer_id(o200k, "<|return|>", 10), 200002);
    assert_int_equal(mt_tokenizer_id(o200k, "<|reserved_201087|>", 19), 201087);
    mt_tokenizer_free(o200k);
    assert_int_equal(ctx.live_bytes, 0);
}

struct shared_work {
    const struct mt_tokenizer *tokenizer;
    uint64_t sum; // of the ids
};

static void *encode_in_thread(void *argument)
{
    struct shared_work *work = argument;
    struct mt_context ctx;
    struct mt_token_scratch *scratch = NULL;
    mt_context_init(&ctx, NULL);
    if (mt_token_scratch_create(&ctx, work->tokenizer, &scratch) != MT_OK) return NULL;
    for (int round = 0; round < 200; round++) {
        struct mt_id_list ids = {.ctx = &ctx};
        char text[64];
        (void)snprintf(text, sizeof text, "round %d of many, caf\xC3\xA9 %d", round, round * round);
        if (mt_tokenizer_encode(work->tokenizer, scratch, text, strlen(text), 0, &ids) != MT_OK) break;
        for (size_t i = 0; i < ids.count; i++) work->sum = work->sum * 31 + (uint64_t)ids.data[i];
        mt_id_list_free(&ids);
    }
    mt_token_scratch_free(scratch);
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    struct mt_context ctx;
    pthread_t threads[THREADS];
    struct shared_work work[THREADS] = {0};
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *tokenizer = golden_load(&ctx, "deepseek");
    for (int i = 0; i < THREADS; i++) {
        work[i].tokenizer = tokenizer;
        assert_int_equal(pthread_create(&threads[i], NULL, encode_in_thread, &work[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) assert_true(work[i].sum != 0 && work[i].sum == work[0].sum);
    mt_tokenizer_free(tokenizer);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_step_cuts_every_piece),
        cmocka_unit_test(special_tokens_in_text),
        cmocka_unit_test(added_tokens_match),
        cmocka_unit_test(regex_translation),
        cmocka_unit_test(utf8_repair),
        cmocka_unit_test(byte_alphabet),
        cmocka_unit_test(stream_waits_for_whole_characters),
        cmocka_unit_test(long_words),
        cmocka_unit_test(questions),
        cmocka_unit_test(o200k_is_known_by_its_ranks),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
