/* Contexts and continuations: where white space goes, what is shared, and what an empty context becomes. */
#include <stdio.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/golden_tokenizers.h"
#include "text/plain_text.h"

#define PHI_BEGIN 257 // <s>

struct bench {
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer;
    struct mt_token_scratch *scratch;
    struct mt_continuation_maker maker;
    struct mt_id_list prefix, ids, whole;
};

static void open_bench(struct bench *bench, const char *name, int32_t first)
{
    memset(bench, 0, sizeof *bench);
    mt_context_init(&bench->ctx, NULL);
    bench->tokenizer = golden_load(&bench->ctx, name);
    assert_int_equal(mt_token_scratch_create(&bench->ctx, bench->tokenizer, &bench->scratch), MT_OK);
    mt_continuation_maker_init(&bench->ctx, bench->tokenizer, bench->scratch,
                               (struct mt_text_beginning){.rule = MT_BOS_TOKENIZER, .id = first},
                               &bench->maker);
    bench->prefix.ctx = bench->ids.ctx = bench->whole.ctx = &bench->ctx;
}

static void close_bench(struct bench *bench)
{
    mt_continuation_maker_free(&bench->maker);
    mt_token_scratch_free(bench->scratch);
    mt_tokenizer_free(bench->tokenizer);
    mt_id_list_free(&bench->prefix);
    mt_id_list_free(&bench->ids);
    mt_id_list_free(&bench->whole);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

static enum mt_status encode(struct bench *bench, const char *context, const char *continuation)
{
    bench->ids.count = 0;
    enum mt_status status = mt_continuation_context(&bench->maker, context, strlen(context), &bench->prefix);
    if (status != MT_OK) return status;
    return mt_continuation_encode(&bench->maker, context, strlen(context), continuation, strlen(continuation),
                                  &bench->prefix, &bench->ids);
}

/* prefix and continuation together are the whole text's ids. */
static void check_whole(struct bench *bench, const char *context, const char *continuation, const char *whole)
{
    assert_int_equal(encode(bench, context, continuation), MT_OK);
    bench->whole.count = 0;
    assert_int_equal(mt_tokenizer_encode(bench->tokenizer, bench->scratch, whole, strlen(whole),
                                         MT_ENCODE_ADD_SPECIAL, &bench->whole),
                     MT_OK);
    size_t prefix = bench->prefix.count;
    assert_int_equal(prefix + bench->ids.count, bench->whole.count);
    assert_memory_equal(bench->ids.data, bench->whole.data + prefix, bench->ids.count * sizeof(int32_t));
}

static void test_white_space(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t kept;
    } cases[] = {
        {"Answer:", 7},
        {"Answer: ", 7},
        {"Answer:\n\t \v", 7},
        {"Answer:\x1c\x1f", 7},
        {"a\xc2\xa0", 1},       // no-break space
        {"a\xe2\x80\x83", 1},   // em space
        {"a\xe2\x80\x8b", 4},   // zero width space is none to Python
        {"a\xe3\x80\x80\n", 1}, // ideographic space
        {"a\xc2\x85 ", 1},      // next line
        {" ", 0},
        {"", 0},
        {"a\xff ", 2}, // not UTF-8
        {"a\x80", 2},
        {"\x80\x80", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(mt_context_bytes(cases[i].text, strlen(cases[i].text)), cases[i].kept);
}

static void test_space_moves(void **state)
{
    (void)state;
    static const char *const names[] = {"deepseek", "phi", "llama3", "qwen3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct bench bench;
        int32_t ids[16];
        size_t count = 0;
        size_t prefix = 0;
        open_bench(&bench, names[i], 1);
        check_whole(&bench, "Question: 2 + 2?\nAnswer:", " 4", "Question: 2 + 2?\nAnswer: 4");
        count = bench.ids.count;
        prefix = bench.prefix.count;
        assert_true(count > 0 && count <= 16 && prefix > 0);
        memcpy(ids, bench.ids.data, count * sizeof *ids);
        // The same, however the space between is cut.
        check_whole(&bench, "Question: 2 + 2?\nAnswer: ", "4", "Question: 2 + 2?\nAnswer: 4");
        assert_int_equal(bench.ids.count, count);
        assert_int_equal(bench.prefix.count, prefix);
        assert_memory_equal(bench.ids.data, ids, count * sizeof *ids);
        close_bench(&bench);
    }
}

/* Phi's tokenizer puts <s> in front: it belongs to the context, and is not scored. */
static void test_special(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "phi", PHI_BEGIN);
    check_whole(&bench, "yes or no:", " no", "yes or no: no");
    assert_int_equal(bench.prefix.data[0], PHI_BEGIN);
    for (size_t i = 0; i < bench.ids.count; i++) assert_int_not_equal(bench.ids.data[i], PHI_BEGIN);
    // Without a context that token is the context.
    check_whole(&bench, "", "no", "no");
    assert_int_equal(bench.prefix.count, 1);
    assert_int_equal(bench.prefix.data[0], PHI_BEGIN);
    close_bench(&bench);
}

/* The three rules, with a tokenizer that adds <s> and one that adds nothing. */
static void test_beginning(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum mt_bos_rule rule;
        bool added;
    } cases[] = {{"phi", MT_BOS_TOKENIZER, true}, {"phi", MT_BOS_YES, true},
                 {"phi", MT_BOS_NO, false},       {"qwen3", MT_BOS_TOKENIZER, false},
                 {"qwen3", MT_BOS_YES, true},     {"qwen3", MT_BOS_NO, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench bench;
        char spelt[64];
        open_bench(&bench, cases[i].name, PHI_BEGIN);
        const char *token = strcmp(cases[i].name, "phi") == 0 ? "<s>" : "<|endoftext|>";
        int32_t id = mt_tokenizer_id(bench.tokenizer, token, strlen(token));
        assert_true(id >= 0);
        bench.maker.beginning = (struct mt_text_beginning){.rule = cases[i].rule, .id = id};
        assert_int_equal(encode(&bench, "yes or no:", " no"), MT_OK);
        assert_int_equal(bench.prefix.data[0] == id, cases[i].added);
        assert_int_not_equal(bench.prefix.data[1], id);
        for (size_t k = 0; k < bench.ids.count; k++) assert_int_not_equal(bench.ids.data[k], id);
        // A text that begins with the token gets no second one.
        (void)snprintf(spelt, sizeof spelt, "%syes or no:", token);
        assert_int_equal(encode(&bench, spelt, " no"), MT_OK);
        assert_int_equal(bench.prefix.data[0], id);
        assert_int_not_equal(bench.prefix.data[1], id);
        close_bench(&bench);
    }
    assert_int_equal(mt_bos_rule_named("tokenizer"), MT_BOS_TOKENIZER);
    assert_int_equal(mt_bos_rule_named("no"), MT_BOS_NO);
    assert_int_equal(mt_bos_rule_named("maybe"), MT_BOS_RULES);
}

static void test_empty(void **state)
{
    (void)state;
    struct bench bench;
    open_bench(&bench, "llama3", 420);
    assert_int_equal(encode(&bench, "", "no"), MT_OK);
    assert_int_equal(bench.prefix.count, 1);
    assert_int_equal(bench.prefix.data[0], 420);
    assert_true(bench.ids.count > 0);
    assert_int_equal(encode(&bench, "text", ""), MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "no tokens of its own"));
    close_bench(&bench);
    open_bench(&bench, "llama3", -1);
    assert_int_equal(encode(&bench, " \n", "no"), MT_ERR_USAGE);
    close_bench(&bench);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_white_space), cmocka_unit_test(test_space_moves),
        cmocka_unit_test(test_special),     cmocka_unit_test(test_beginning),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
