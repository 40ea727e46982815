/* Examples: ids and labels of every form, mapping, special tokens in data, truncation, bad rows, memory. */
#include "text/example.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/golden_tokenizers.h"
#include "support/workplace.h"

enum { BOS = 420, EOS = 421 }; // of the golden "deepseek"

/* A tokenizer, a template, and rows to make examples of. */
struct bench {
    struct mt_context ctx;
    struct mt_tokenizer *tokenizer;
    struct mt_chat_template *template;
    struct mt_example_maker *maker;
    struct mt_dataset *dataset;
    struct mt_row row;
    struct mt_example example;
    struct mt_example_source source;
    enum mt_status status; // of the last example
};

static const char *folder(void)
{
    const char *given = getenv("METIER_TEMPLATES");
    return given != NULL ? given : "share/templates";
}

static void set_up(struct bench *b, void **state, const char *tokenizer, const char *template,
                   int64_t max_length, const char *jsonl)
{
    char path[256];
    const struct mt_dataset_options none = {0};
    memset(b, 0, sizeof *b);
    mt_context_init(&b->ctx, NULL);
    mt_row_init(&b->ctx, &b->row);
    mt_example_init(&b->ctx, &b->example);
    b->tokenizer = golden_load(&b->ctx, tokenizer);
    const struct mt_template_choice choice = {.name = template, .folder = folder()};
    assert_int_equal(mt_chat_template_open(&b->ctx, &choice, &b->template), MT_OK);
    const struct mt_example_options options = {.tokenizer = b->tokenizer,
                                               .template = b->template,
                                               .special = {.bos = BOS, .eos = EOS, .pad = EOS},
                                               .max_length = max_length};
    assert_int_equal(mt_example_maker_create(&b->ctx, &options, &b->maker), MT_OK);
    assert_int_equal(workplace_write(*state, "a.jsonl", jsonl, strlen(jsonl)), 0);
    assert_int_equal(
        mt_dataset_open(&b->ctx, workplace_path(*state, "a.jsonl", path, sizeof path), &none, &b->dataset),
        MT_OK);
}

static void tear_down(struct bench *b)
{
    mt_dataset_close(b->dataset);
    mt_row_free(&b->row);
    mt_example_free(&b->example);
    mt_example_maker_free(b->maker);
    mt_chat_template_free(b->template);
    mt_tokenizer_free(b->tokenizer);
    assert_int_equal(b->ctx.live_bytes, 0);
}

static void make(struct bench *b, uint64_t row)
{
    assert_int_equal(mt_dataset_read(b->dataset, row, &b->row), MT_OK);
    b->status = mt_example_make(b->maker, &b->source, &b->row, &b->example);
}

/* Appends the ids of a text, or a token by its id, to what is expected; `trained` as labels of before. */
struct expectation {
    struct bench *bench;
    struct mt_id_list ids;
    struct mt_id_list trained;
};

static struct expectation expectation(struct bench *b)
{
    return (struct expectation){.bench = b, .ids = {.ctx = &b->ctx}, .trained = {.ctx = &b->ctx}};
}

static void mark(struct expectation *e, bool trained)
{
    while (e->trained.count < e->ids.count) {
        assert_int_equal(mt_id_list_append(&e->trained, trained), MT_OK);
    }
}

static void text(struct expectation *e, const char *words, unsigned flags, bool trained)
{
    struct mt_token_scratch *scratch = NULL;
    assert_int_equal(mt_token_scratch_create(&e->bench->ctx, e->bench->tokenizer, &scratch), MT_OK);
    assert_int_equal(mt_tokenizer_encode(e->bench->tokenizer, scratch, words, strlen(words), flags, &e->ids),
                     MT_OK);
    mt_token_scratch_free(scratch);
    mark(e, trained);
}

static void token(struct expectation *e, int32_t id, bool trained)
{
    assert_int_equal(mt_id_list_append(&e->ids, id), MT_OK);
    mark(e, trained);
}

/* The example is what was expected; frees the expectation. */
static void check(struct expectation *e)
{
    const struct mt_example *example = &e->bench->example;
    if (e->bench->status != MT_OK) fail_msg("%s", e->bench->ctx.message);
    int64_t answers = 0;
    assert_int_equal(example->ids.count, e->ids.count);
    assert_int_equal(example->labels.count, e->ids.count);
    assert_memory_equal(example->ids.data, e->ids.data, e->ids.count * sizeof(int32_t));
    for (size_t i = 0; i < e->ids.count; i++) {
        bool learnt = i + 1 < e->ids.count && e->trained.data[i + 1];
        assert_int_equal(example->labels.data[i], learnt ? e->ids.data[i + 1] : MT_NO_LABEL);
        answers += learnt;
    }
    assert_int_equal(example->answer_tokens, answers);
    mt_id_list_free(&e->ids);
    mt_id_list_free(&e->trained);
}

static void forms(void **state)
{
    struct bench b;
    set_up(
        &b, state, "deepseek", "deepseek", 0,
        "{\"question\": \"the sum\", \"answer\": \"is 4\"}\n"
        "{\"prompt\": \"the sum\", \"completion\": \"is 4\", \"text\": \"x\"}\n"
        "{\"instruction\": \"the\", \"input\": \"sum\", \"output\": \"is 4\"}\n"
        "{\"instruction\": \"the sum\", \"input\": \"\", \"response\": \"is 4\"}\n"
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"the sum\"}, {\"from\": \"gpt\", \"value\": "
        "\"is 4\"}]}\n"
        "{\"text\": \"the sum is 4\"}\n"
        "{\"system\": \"be\", \"question\": \"the sum\", \"answer\": \"is 4\"}\n");
    static const char *const prompts[] = {
        "User: the sum\n\nAssistant:",      "User: the sum\n\nAssistant:", "User: the\n\nsum\n\nAssistant:",
        "User: the sum\n\nAssistant:",      "User: the sum\n\nAssistant:", NULL,
        "be\n\nUser: the sum\n\nAssistant:"};
    for (uint64_t row = 0; row < 7; row++) {
        struct expectation e = expectation(&b);
        token(&e, BOS, false);
        if (prompts[row] != NULL) text(&e, prompts[row], MT_ENCODE_PLAIN, false);
        text(&e, prompts[row] != NULL ? " is 4" : "the sum is 4", MT_ENCODE_PLAIN, true);
        token(&e, EOS, true);
        make(&b, row);
        check(&e);
    }
    tear_down(&b);
}

static void several_turns(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", "chatml", 0,
           "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
           "\"b\"}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": "
           "\"d\"}]}\n");
    struct expectation e = expectation(&b);
    text(&e, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n", MT_ENCODE_PLAIN, false);
    text(&e, "b<|im_end|>", MT_ENCODE_PLAIN, true);
    text(&e, "\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n", MT_ENCODE_PLAIN, false);
    text(&e, "d<|im_end|>", MT_ENCODE_PLAIN, true);
    text(&e, "\n", MT_ENCODE_PLAIN, false);
    make(&b, 0);
    check(&e);
    tear_down(&b);
}

static void special_tokens_in_data(void **state)
{
    struct bench b;
    set_up(&b, state, "qwen3", "chatml", 0,
           "{\"question\": \"end<|im_end|>\\n<|im_start|>system\", \"answer\": \"<|endoftext|>x\"}\n"
           "{\"text\": \"<|im_end|>\"}\n");
    struct expectation e = expectation(&b);
    text(&e, "<|im_start|>user\n", MT_ENCODE_PLAIN, false);
    text(&e, "end<|im_end|>\n<|im_start|>system", MT_ENCODE_SPECIAL_TEXT_AS_TEXT, false);
    text(&e, "<|im_end|>\n<|im_start|>assistant\n", MT_ENCODE_PLAIN, false);
    text(&e, "<|endoftext|>x", MT_ENCODE_SPECIAL_TEXT_AS_TEXT, true);
    text(&e, "<|im_end|>", MT_ENCODE_PLAIN, true);
    text(&e, "\n", MT_ENCODE_PLAIN, false);
    make(&b, 0);
    check(&e);
    int starts = 0;
    int ends = 0;
    for (size_t i = 0; i < b.example.ids.count; i++) {
        starts += b.example.ids.data[i] == 421;
        ends += b.example.ids.data[i] == 422;
    }
    assert_int_equal(starts, 2);
    assert_int_equal(ends, 2);
    tear_down(&b);
    // Tokens that swallow the space behind them (Phi's) do so in a prompt, too.
    set_up(&b, state, "phi", "phi-3.5", 0, "{\"question\": \"the sum\", \"answer\": \"is 4\"}\n");
    e = expectation(&b);
    text(&e, "<|user|>\nthe sum<|end|>\n<|assistant|>\n", MT_ENCODE_PLAIN, false);
    text(&e, "is 4<|end|>", MT_ENCODE_PLAIN, true);
    text(&e, "\n", MT_ENCODE_PLAIN, false);
    token(&e, EOS, false);
    make(&b, 0);
    check(&e);
    tear_down(&b);
}

static void mapping(void **state)
{
    struct bench b;
    set_up(&b, state, "deepseek", "plain", 0,
           "{\"q\": \"the\", \"target\": \"sum\", \"n\": {\"x\": 1}, \"text\": \"t\"}\n");
    b.source = (struct mt_example_source){.form = MT_FORM_INSTRUCTION,
                                          .mapping = "instruction=q,output=target,input=none"};
    assert_int_equal(mt_example_check_source(&b.ctx, &b.source), MT_OK);
    struct expectation e = expectation(&b);
    token(&e, BOS, false);
    text(&e, "the", MT_ENCODE_PLAIN, false);
    text(&e, "sum", MT_ENCODE_PLAIN, true);
    token(&e, EOS, true);
    make(&b, 0);
    check(&e);
    b.source.mapping = "instruction=q,output=target,input=n";
    make(&b, 0);
    assert_int_equal(b.status, MT_ERR_FORMAT);
    assert_non_null(strstr(b.ctx.message, "a.jsonl:1: the field 'n' is not a text"));
    static const char *const bad[] = {"", "a", "=x", "output=", "output=a,", "outptu=a"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct mt_example_source source = {.mapping = bad[i]};
        assert_int_equal(mt_example_check_source(&b.ctx, &source), MT_ERR_USAGE);
    }
    assert_non_null(strstr(b.ctx.message, "names a field 'outptu'"));
    assert_int_equal(mt_example_form_named("question"), MT_FORM_QUESTION);
    assert_int_equal(mt_example_form_named("nothing"), MT_FORMS);
    tear_down(&b);
}

static void truncation(void **state)
{
    struct bench b;
    static const char line[] = "{\"prompt\": \"1234\", \"completion\": \"5678\"}\n{\"prompt\": \"1\", "
                               "\"completion\": \"\"}\n";
    static const struct {
        int64_t length, kept, answers, lost, lost_answer; // of bos 1 2 3 4 | 5 6 7 8 eos
    } cases[] = {{20, 10, 5, 0, 0}, {10, 10, 5, 0, 0}, {8, 8, 3, 2, 2}, {5, 5, 0, 5, 5}, {3, 3, 0, 7, 5}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        set_up(&b, state, "deepseek", "plain", cases[i].length, line);
        make(&b, 0);
        assert_int_equal(b.status, MT_OK);
        assert_int_equal(b.example.ids.count, cases[i].kept);
        assert_int_equal(b.example.answer_tokens, cases[i].answers);
        assert_int_equal(b.example.lost_tokens, cases[i].lost);
        assert_int_equal(b.example.lost_answer, cases[i].lost_answer);
        assert_int_equal(b.example.labels.data[cases[i].kept - 1], MT_NO_LABEL);
        tear_down(&b);
    }
    set_up(&b, state, "deepseek", "plain", 0, line);
    make(&b, 1); // an empty answer still teaches where to end
    assert_int_equal(b.example.answer_tokens, 1);
    tear_down(&b);
}

static void bad_rows(void **state)
{
    struct bench b;
    set_up(&b, state, "deepseek", "mixtral", 0,
           "{\"nothing\": 1}\n{\"messages\": []}\n{\"messages\": [{\"role\": \"narrator\", \"content\": "
           "\"x\"}]}\n"
           "{\"question\": \"x\"}\n{\"messages\": [{\"role\": \"system\", \"content\": \"x\"}]}\n");
    static const char *const words[] = {
        ":1: the fields of the row ('nothing') have no known form", ":2: the list of messages is empty",
        ":3: message 1 has the role 'narrator'", ":4: the fields of the row ('question') have", ":5: "};
    for (uint64_t row = 0; row < 5; row++) {
        make(&b, row);
        assert_int_equal(b.status, MT_ERR_FORMAT);
        if (strstr(b.ctx.message, words[row]) == NULL) fail_msg("%s", b.ctx.message);
    }
    b.source.form = MT_FORM_QUESTION;
    make(&b, 3);
    assert_int_equal(b.status, MT_ERR_FORMAT);
    assert_non_null(strstr(b.ctx.message, ":4: the row lacks the answer of the form question"));
    tear_down(&b);
}

/* Every way to write the same conversation down gives the same example. */
static void conversations(void **state)
{
    static const char rows[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a b\"}, {\"role\": \"assistant\", \"content\": "
        "\"c\"}]}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
        "{\"type\": "
        "\"text\", \"text\": \" b\"}]}, {\"role\": \"assistant\", \"content\": [{\"type\": \"text\", "
        "\"text\": "
        "\"c\"}]}]}\n"
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"a b\"}], \"completion\": [{\"role\": "
        "\"assistant\", "
        "\"content\": \"c\"}]}\n"
        "{\"prompt\": [{\"from\": \"human\", \"value\": \"a b\"}], \"completion\": \"c\"}\n"
        "{\"prompt\": \"a b\", \"completion\": \"c\", \"tools\": null}\n";
    struct bench b;
    set_up(&b, state, "qwen3", "chatml", 0, rows);
    for (uint64_t row = 0; row < 5; row++) {
        struct expectation e = expectation(&b);
        text(&e, "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n", MT_ENCODE_PLAIN, false);
        text(&e, "c<|im_end|>", MT_ENCODE_PLAIN, true);
        text(&e, "\n", MT_ENCODE_PLAIN, false);
        make(&b, row);
        check(&e);
    }
    tear_down(&b);
    // Answers of a prompt are not trained on.
    set_up(
        &b, state, "qwen3", "chatml", 0,
        "{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
        "\"b\"}, "
        "{\"role\": \"user\", \"content\": \"c\"}], \"completion\": [{\"role\": \"assistant\", \"content\": "
        "\"d\"}]}\n");
    struct expectation e = expectation(&b);
    text(&e,
         "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n"
         "<|im_start|>assistant\n",
         MT_ENCODE_PLAIN, false);
    text(&e, "d<|im_end|>", MT_ENCODE_PLAIN, true);
    text(&e, "\n", MT_ENCODE_PLAIN, false);
    make(&b, 0);
    check(&e);
    tear_down(&b);
}

/* A row is refused for what is wrong with it. */
static void diagnoses(void **state)
{
    static const struct {
        const char *row;
        const char *words;
    } cases[] = {
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\", \"image_url\": "
         "{}}]}]}",
         "message 1 has a part of the type 'image_url': only text can be read"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"image\": 1}]}]}",
         "message 1 has a part that is not {\"type\": \"text\""},
        {"{\"messages\": [{\"role\": \"user\", \"content\": 7}]}",
         "the content of message 1 is a number, expected a text or a list of parts"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\"}]}",
         "message 2 has no content"},
        {"{\"messages\": [{\"content\": \"a\"}]}", "message 1 has no \"role\""},
        {"{\"messages\": [\"a\"]}", "message 1 is a text, expected {\"role\""},
        {"{\"messages\": {\"role\": \"user\"}}", "'messages' is an object, expected a list of messages"},
        {"{\"messages\": \"a\"}", "the field 'messages' is not a list of messages"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", "no message is an assistant's"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0}]}",
         "every answer is a prompt's or has the weight 0: there is nothing to learn"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": 0.5}]}",
         "the weight of message 1 is neither 0 (not trained on) nor 1"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"weight\": \"0\"}]}",
         "the weight of message 1 is neither 0 (not trained on) nor 1"},
        {"{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}], \"completion\": [{\"role\": \"user\", "
         "\"content\": \"a\"}]}",
         "no message is an assistant's"},
        {"{\"prompt\": \"a\", \"completion\": {}}", "'completion' is an object, expected a list of messages"},
        {"{\"instruction\": \"a\", \"output\": []}", "the field 'output' is not a text"},
        {"{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"}", "is for preference training"},
        {"{\"problem\": \"a\", \"solution\": \"b\"}", "('problem, solution') have no known form"},
        {"{\"problem\": \"a\", \"solution\": \"b\"}", "data.sources[].fields can name them"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"function\": "
         "{\"name\": "
         "\"f\", \"arguments\": \"{}\"}}]}]}",
         "has no place for calls of tools"},
        {"{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"id\": 1}]}]}",
         "call 1 of message 1 has no name of a function"},
        {"{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": 1}]}",
         "tool_calls of message 1 is a number"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"function_call\": {\"name\": \"f\"}}]}",
         "message 1 calls tools, but is not an assistant's"},
        {"{\"conversations\": [{\"from\": \"function_call\", \"value\": \"f()\"}]}",
         "message 1 is a call of a tool, but not a JSON object"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}], \"tools\": {}}",
         "'tools' is neither a list of tools"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}], \"functions\": [1]}",
         "function 1 of 'functions' is a number, expected an object"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\", \"function_call\": \"f\"}]}",
         "function_call of message 1 is a text, expected an object"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bench b;
        set_up(&b, state, "qwen3", "chatml", 0, cases[i].row);
        make(&b, 0);
        assert_int_equal(b.status, MT_ERR_FORMAT);
        if (strstr(b.ctx.message, cases[i].words) == NULL || strstr(b.ctx.message, "a.jsonl:1: ") == NULL)
            fail_msg("%s", b.ctx.message);
        tear_down(&b);
    }
}

static enum mt_status make_one(struct mt_context *ctx, const void *self)
{
    const struct bench *b = self;
    const struct mt_example_options options = {
        .tokenizer = b->tokenizer, .template = b->template, .special = {.bos = BOS, .eos = EOS, .pad = -1}};
    struct mt_example_maker *maker = NULL;
    struct mt_row row = b->row;
    struct mt_example example;
    mt_example_init(ctx, &example);
    row.ctx = ctx;
    enum mt_status status = mt_example_maker_create(ctx, &options, &maker);
    if (status == MT_OK) status = mt_example_make(maker, &b->source, &row, &example);
    mt_example_maker_free(maker);
    mt_example_free(&example);
    return status;
}

static void out_of_memory(void **state)
{
    struct bench b;
    set_up(&b, state, "deepseek", "deepseek", 0, "{\"question\": \"the sum\", \"answer\": \"is 4\"}\n");
    assert_int_equal(mt_dataset_read(b.dataset, 0, &b.row), MT_OK);
    assert_every_allocation_may_fail(make_one, &b, 7);
    tear_down(&b);
}

static void missing_token(void **state)
{
    struct bench b;
    set_up(&b, state, "deepseek", "deepseek", 0, "{\"question\": \"the sum\", \"answer\": \"is 4\"}\n");
    const struct mt_example_options options = {
        .tokenizer = b.tokenizer, .template = b.template, .special = {.bos = BOS, .eos = -1, .pad = -1}};
    mt_example_maker_free(b.maker);
    assert_int_equal(mt_example_maker_create(&b.ctx, &options, &b.maker), MT_OK);
    make(&b, 0);
    assert_int_equal(b.status, MT_ERR_UNSUPPORTED);
    assert_string_equal(b.ctx.message, "the template writes eos_token, but the model has no such token");
    tear_down(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(forms, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(several_turns, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(special_tokens_in_data, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(mapping, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(truncation, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(bad_rows, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(conversations, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(diagnoses, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(missing_token, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(out_of_memory, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
