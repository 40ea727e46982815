/* Learning a tokenizer: what is learnt, that nothing but the words decides it, and that every byte comes
 * back. Tests src/formats/tokenizer/train.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer/train.h"
#include "support/cmocka_all.h"
#include "support/failing_allocator.h"

struct text {
    const void *data;
    size_t bytes;
};

/* Learns from texts; the tokenizer.json is the caller's to free. */
static enum mt_status learn(struct mt_context *ctx, const struct text *texts, size_t count, size_t tokens,
                            struct mt_json_text *json)
{
    struct mt_tokenizer_trainer *trainer = NULL;
    mt_json_text_init(json, ctx);
    enum mt_status status = mt_tokenizer_trainer_create(ctx, &trainer);
    for (size_t i = 0; status == MT_OK && i < count; i++)
        status = mt_tokenizer_trainer_add(trainer, texts[i].data, texts[i].bytes);
    if (status == MT_OK) status = mt_tokenizer_trainer_learn(trainer, tokens, NULL);
    if (status == MT_OK) status = mt_tokenizer_trainer_write(trainer, json);
    mt_tokenizer_trainer_free(trainer);
    return status;
}

static struct text words(const char *text)
{
    return (struct text){text, strlen(text)};
}

/* The tokenizer learnt from a text. */
static struct mt_tokenizer *learnt(struct mt_context *ctx, struct text text, size_t tokens)
{
    struct mt_json_text json;
    struct mt_tokenizer *tokenizer = NULL;
    if (learn(ctx, &text, 1, tokens, &json) != MT_OK) fail_msg("%s", ctx->message);
    if (mt_tokenizer_load_json(ctx, "learnt", json.bytes, json.length, &tokenizer) != MT_OK)
        fail_msg("%s", ctx->message);
    mt_json_text_free(&json);
    return tokenizer;
}

static void expect_token(const struct mt_tokenizer *tokenizer, int32_t id, const char *expected)
{
    size_t bytes = 0;
    const uint8_t *text = mt_tokenizer_token(tokenizer, id, &bytes);
    assert_non_null(text);
    if (bytes != strlen(expected) || memcmp(text, expected, bytes) != 0)
        fail_msg("token %d is '%.*s', expected '%s'", id, (int)bytes, (const char *)text, expected);
}

/* "ab" nine times, "abc" five, "bc" twice: ab (14), then abc (5), then bc (2). */
static void the_most_frequent_pair_first(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *t =
        learnt(&ctx, words("ab\nab\nab\nab\nab\nab\nab\nab\nab\nabc\nabc\nabc\nabc\nabc\nbc\nbc\n"),
               MT_TOKENIZER_LEAST + 3);
    assert_int_equal(mt_tokenizer_vocabulary_size(t), MT_TOKENIZER_LEAST + 3);
    expect_token(t, 0, "<pad>");
    expect_token(t, 1, "<bos>");
    expect_token(t, 2, "<eos>");
    expect_token(t, MT_TOKENIZER_SPECIALS + 'a', "a");
    expect_token(t, MT_TOKENIZER_LEAST, "ab");
    expect_token(t, MT_TOKENIZER_LEAST + 1, "abc");
    expect_token(t, MT_TOKENIZER_LEAST + 2, "bc");
    assert_true(mt_tokenizer_is_special(t, 2));
    mt_tokenizer_free(t);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Of equally frequent pairs the one whose bytes come first, however they come; digits are never joined. */
static void ties_and_digits(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_tokenizer *t =
        learnt(&ctx, words("yz\nyz\nxy\nxy\nab\nab\n12\n12\n12\n12\n"), MT_TOKENIZER_LEAST + 3);
    expect_token(t, MT_TOKENIZER_LEAST, "ab");
    expect_token(t, MT_TOKENIZER_LEAST + 1, "xy");
    expect_token(t, MT_TOKENIZER_LEAST + 2, "yz");
    mt_tokenizer_free(t);

    struct mt_json_text json;
    const struct text text = words("yz\nyz\nxy\nxy\nab\nab\n12\n12\n12\n12\n");
    assert_int_equal(learn(&ctx, &text, 1, MT_TOKENIZER_LEAST + 4, &json), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "the texts give only 262 tokens of 263"));
    mt_json_text_free(&json);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Text of a small alphabet, so that much of it occurs again. */
static void fill(char *text, size_t bytes, uint64_t seed)
{
    static const char letters[] = "aaabbcdeee  \n.\xC3\xA9";
    for (size_t i = 0; i < bytes; i++)
        text[i] = letters[mt_rng_words(seed, 0, i).word[0] % (sizeof letters - 1)];
}

static void the_order_of_texts_is_nothing(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_json_text json[3];
    static char data[3][20000];
    mt_context_init(&ctx, NULL);
    for (size_t i = 0; i < 3; i++) fill(data[i], sizeof data[i], i);
    const struct text forth[] = {{data[0], 20000}, {data[1], 20000}, {data[2], 20000}};
    const struct text back[] = {{data[2], 20000}, {data[1], 20000}, {data[0], 20000}};
    assert_int_equal(learn(&ctx, forth, 3, 700, &json[0]), MT_OK);
    assert_int_equal(learn(&ctx, back, 3, 700, &json[1]), MT_OK);
    assert_int_equal(learn(&ctx, back, 1, 700, &json[2]), MT_OK);
    assert_int_equal(json[0].length, json[1].length);
    assert_memory_equal(json[0].bytes, json[1].bytes, json[0].length);
    assert_true(json[2].length != json[0].length ||
                memcmp(json[2].bytes, json[0].bytes, json[0].length) != 0);
    for (int i = 0; i < 3; i++) mt_json_text_free(&json[i]);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Encodes and decodes a text; returns the number of ids. */
static size_t there_and_back(struct mt_context *ctx, const struct mt_tokenizer *tokenizer, struct text text,
                             struct text expected)
{
    struct mt_token_scratch *scratch = NULL;
    struct mt_id_list ids = {.ctx = ctx};
    struct mt_byte_list decoded = {.ctx = ctx};
    assert_int_equal(mt_token_scratch_create(ctx, tokenizer, &scratch), MT_OK);
    assert_int_equal(mt_tokenizer_encode(tokenizer, scratch, text.data, text.bytes, MT_ENCODE_PLAIN, &ids),
                     MT_OK);
    assert_int_equal(mt_tokenizer_decode(tokenizer, ctx, ids.data, ids.count, MT_DECODE_PLAIN, &decoded),
                     MT_OK);
    assert_int_equal(decoded.count, expected.bytes);
    assert_memory_equal(decoded.data, expected.data, expected.bytes);
    size_t count = ids.count;
    mt_token_scratch_free(scratch);
    mt_id_list_free(&ids);
    mt_byte_list_free(&decoded);
    return count;
}

/* Every character below U+3000, whatever the tokenizer was learnt from; bytes that are not UTF-8 come back as
 * U+FFFD. What was learnt is shorter than its bytes. */
static void every_text_comes_back(void **state)
{
    (void)state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    static const char english[] = "the cat sat on the mat; the cat sat on the mat; the other cat sat.";
    struct mt_tokenizer *t = learnt(&ctx, words(english), 270);
    assert_true(there_and_back(&ctx, t, words(english), words(english)) < (sizeof english - 1) / 2);

    struct mt_byte_list all = {.ctx = &ctx};
    for (uint32_t c = 0; c < 0x3000; c++) {
        uint8_t utf8[3] = {(uint8_t)c};
        size_t bytes = 1;
        if (c >= 0x800) {
            utf8[0] = (uint8_t)(0xE0 | c >> 12);
            utf8[1] = (uint8_t)(0x80 | (c >> 6 & 63));
            utf8[2] = (uint8_t)(0x80 | (c & 63));
            bytes = 3;
        } else if (c >= 0x80) {
            utf8[0] = (uint8_t)(0xC0 | c >> 6);
            utf8[1] = (uint8_t)(0x80 | (c & 63));
            bytes = 2;
        }
        assert_int_equal(mt_byte_list_append(&all, utf8, bytes), MT_OK);
    }
    (void)there_and_back(&ctx, t, (struct text){all.data, all.count}, (struct text){all.data, all.count});
    (void)there_and_back(&ctx, t, words("a\xFF\xC3z"), words("a\xEF\xBF\xBD\xEF\xBF\xBDz"));
    mt_byte_list_free(&all);
    mt_tokenizer_free(t);
    assert_int_equal(ctx.live_bytes, 0);
}

/* Nothing, bytes of every kind, one word of a megabyte: a tokenizer or a sentence, in no time. */
static void hostile_texts(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_json_text json;
    mt_context_init(&ctx, NULL);
    const struct text nothing = {"", 0};
    assert_int_equal(learn(&ctx, &nothing, 1, MT_TOKENIZER_LEAST, &json), MT_OK);
    mt_json_text_free(&json);
    assert_int_equal(learn(&ctx, &nothing, 1, MT_TOKENIZER_LEAST + 1, &json), MT_ERR_USAGE);
    mt_json_text_free(&json);
    assert_int_equal(learn(&ctx, &nothing, 1, MT_TOKENIZER_LEAST - 1, &json), MT_ERR_USAGE);
    mt_json_text_free(&json);
    assert_int_equal(learn(&ctx, &nothing, 1, MT_TOKENIZER_MOST + 1, &json), MT_ERR_USAGE);
    mt_json_text_free(&json);

    static uint8_t bytes[1000000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)mt_rng_words(5, 0, i).word[0];
    const struct text binary = {bytes, 50000};
    struct mt_tokenizer *t = learnt(&ctx, binary, 300);
    mt_tokenizer_free(t);

    memset(bytes, 'a', sizeof bytes);
    const struct text long_word = {bytes, sizeof bytes};
    t = learnt(&ctx, long_word, MT_TOKENIZER_LEAST + 6); // aa, aaaa, ... and the 64 a that are learnt at once
    size_t longest = 0;
    assert_non_null(mt_tokenizer_token(t, MT_TOKENIZER_LEAST + 5, &longest));
    assert_int_equal(longest, MT_TOKENIZER_LONGEST_LEARNT);
    assert_int_equal(there_and_back(&ctx, t, long_word, long_word),
                     sizeof bytes / MT_TOKENIZER_LONGEST_LEARNT);
    mt_tokenizer_free(t);
    assert_int_equal(learn(&ctx, &long_word, 1, MT_TOKENIZER_LEAST + 7, &json), MT_ERR_USAGE);
    mt_json_text_free(&json);
    assert_int_equal(ctx.live_bytes, 0);
}

static enum mt_status learn_little(struct mt_context *ctx, const void *self)
{
    struct mt_json_text json;
    enum mt_status status = learn(ctx, self, 2, 300, &json);
    mt_json_text_free(&json);
    return status;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    static char data[4000];
    fill(data, sizeof data, 9);
    const struct text texts[] = {{data, sizeof data}, {"a\xFF", 2}};
    struct failing_report report = fail_each_allocation(learn_little, texts);
    if (!report.ok) fail_msg("%s", report.problem);
    assert_true(report.allocations > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_frequent_pair_first),
        cmocka_unit_test(ties_and_digits),
        cmocka_unit_test(the_order_of_texts_is_nothing),
        cmocka_unit_test(every_text_comes_back),
        cmocka_unit_test(hostile_texts),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
