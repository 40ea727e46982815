/*
 * The templates that come along, to the last token: ids, labels, prompts and places of answers of odd rows
 * and of the samples, with several tokenizers, against digests in golden/templates.txt. A line is
 * "TOKENIZER TEMPLATE DIGEST...", a digest for each row; on a mismatch the line as it is now is printed.
 * The digests are those of the files of keys that these templates were before they were in Jinja.
 * Tests src/text/template_jinja.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/files/file.h"
#include "support/cmocka_all.h"
#include "support/golden_tokenizers.h"
#include "text/example_maker.h"

#define MOST_BYTES   ((size_t)64 * 1024 * 1024)
#define LINE_BYTES   4096
#define DIGEST_BYTES 6

static const char *const templates[] = {"alpaca",      "authors",     "chatml",  "deepseek",
                                        "deepseek-v2", "deepseek-v3", "llama-3", "mixtral",
                                        "moonlight",   "olmoe",       "phi-3.5", "plain"};

/* Tokenizers of this tree, and of the shared data folder where that is there. */
static const struct {
    const char *name;
    bool shared;
    struct mt_special_ids special;
} tokenizers[] = {
    {"phi", false, {.bos = 257, .eos = 756, .pad = 756}},
    {"metaspace_first_whole", false, {.bos = 1, .eos = 400, .pad = 0}},
    {"olmoe", false, {.bos = -1, .eos = 430, .pad = -1}},
    {"llama3", false, {.bos = -1, .eos = -1, .pad = -1}},
    {"deepseek_v3", true, {.bos = 0, .eos = 1, .pad = 2}},
    {"mixtral", true, {.bos = 1, .eos = 2, .pad = 0}},
};

/* Files of rows, from the folder of tests or of what comes along. */
static const struct {
    const char *path;
    const char *mapping;
} sources[] = {
    {"tests/text/golden/template_rows.jsonl", NULL},
    {"share/samples/gsm8k/train.jsonl", NULL},
    {"share/samples/math500/test.jsonl", "question=problem,answer=solution"},
    {"share/samples/flan/sni_train.jsonl", NULL},
};

static const char *root(char *path, size_t size, const char *name)
{
    const char *tests = getenv("METIER_TESTS");
    (void)snprintf(path, size, "%s/../%s", tests != NULL ? tests : "tests", name);
    return path;
}

/* NULL: the shared folder lacks it. */
static struct mt_tokenizer *load_shared(struct mt_context *ctx, const char *name)
{
    char path[512];
    const char *shared = getenv("METIER_SHARED_DATA");
    struct mt_byte_list file = {.ctx = ctx};
    struct mt_tokenizer *tokenizer = NULL;
    (void)snprintf(path, sizeof path, "%s/tokenizers/%s/tokenizer.json.gz",
                   shared != NULL ? shared : "../shared/data", name);
    gzFile packed = access(path, R_OK) == 0 ? gzopen(path, "rb") : NULL;
    if (packed == NULL) return NULL;
    int got = 0;
    do {
        assert_int_equal(mt_byte_list_reserve(&file, 1 << 20), MT_OK);
        got = gzread(packed, file.data + file.count, 1 << 20);
        assert_true(got >= 0);
        file.count += (size_t)got;
    } while (got > 0 && file.count < MOST_BYTES);
    (void)gzclose(packed);
    if (mt_tokenizer_load_json(ctx, name, file.data, file.count, &tokenizer) != MT_OK)
        fail_msg("%s", ctx->message);
    mt_byte_list_free(&file);
    return tokenizer;
}

// ------------------------------------------------------------------ digests

static void digest(uint64_t *sum, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++) *sum = (*sum ^ at[i]) * UINT64_C(0x100000001B3);
}

static void digest_number(uint64_t *sum, int64_t number)
{
    digest(sum, &number, sizeof number);
}

static void digest_ids(uint64_t *sum, const struct mt_id_list *ids)
{
    digest_number(sum, (int64_t)ids->count);
    digest(sum, ids->data, ids->count * sizeof *ids->data);
}

/* A conversation as it is asked, and where its answer lies. */
static void digest_conversation(uint64_t *sum, struct mt_example_maker *maker, const struct mt_row *row,
                                const struct mt_example_source *source)
{
    struct mt_conversation conversation = {.ctx = maker->ctx};
    struct mt_id_list ids = {.ctx = maker->ctx};
    struct mt_answer_place place = {0};
    const struct mt_row_field *text = NULL;
    if (mt_form_read(source, row, &conversation, &text) == MT_OK && text == NULL) {
        enum mt_status status = mt_example_answer(maker, &conversation, &ids, &place);
        digest_number(sum, status == MT_OK);
        if (status == MT_OK) digest_ids(sum, &ids);
        if (status == MT_OK) digest_number(sum, (int64_t)place.prompt);
        if (status == MT_OK) digest_number(sum, (int64_t)place.answered);
        ids.count = 0;
        bool answered = conversation.turns[conversation.count - 1].role == MT_ROLE_ASSISTANT;
        struct mt_conversation asked = conversation;
        if (answered) asked.count--;
        status = asked.count > 0 ? mt_example_prompt(maker, &asked, &ids) : MT_OK;
        digest_number(sum, status == MT_OK);
        if (status == MT_OK) digest_ids(sum, &ids);
    }
    mt_id_list_free(&ids);
    mt_conversation_free(&conversation);
}

/* Appends the digests of a file's rows to the line. */
static void add_file(struct mt_example_maker *maker, const char *name, const char *mapping, char *line)
{
    char path[512];
    struct mt_context *ctx = maker->ctx;
    const struct mt_dataset_options none = {0};
    const struct mt_example_source source = {.mapping = mapping};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    struct mt_example example;
    mt_row_init(ctx, &row);
    mt_example_init(ctx, &example);
    if (mt_dataset_open(ctx, root(path, sizeof path, name), &none, &dataset) != MT_OK)
        fail_msg("%s", ctx->message);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset); i++) {
        uint64_t sum = UINT64_C(0xCBF29CE484222325);
        assert_int_equal(mt_dataset_read(dataset, i, &row), MT_OK);
        enum mt_status status = mt_example_make(maker, &source, &row, &example);
        digest_number(&sum, status == MT_OK);
        if (status == MT_OK) {
            digest_ids(&sum, &example.ids);
            digest_ids(&sum, &example.labels);
            digest_number(&sum, example.answer_tokens);
        }
        digest_conversation(&sum, maker, &row, &source);
        size_t used = strlen(line);
        (void)snprintf(line + used, LINE_BYTES - used, " %0*llx", DIGEST_BYTES,
                       (unsigned long long)(sum >> (64 - 4 * DIGEST_BYTES)));
    }
    mt_dataset_close(dataset);
    mt_example_free(&example);
    mt_row_free(&row);
}

// ------------------------------------------------------------------ comparing

/* The golden line of a tokenizer and a template; NULL: there is none. Owned by `golden`, ends at a newline.
 */
static const char *find_line(const char *golden, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = golden; at != NULL && *at != '\0'; at = strchr(at, '\n'), at += at != NULL) {
        if (strncmp(at, name, length) == 0 && at[length] == ' ') return at;
    }
    return NULL;
}

static int compare_template(struct mt_context *ctx, const struct mt_example_options *options,
                            const char *name, const char *golden)
{
    char line[LINE_BYTES];
    struct mt_example_maker *maker = NULL;
    (void)snprintf(line, sizeof line, "%s", name);
    assert_int_equal(mt_example_maker_create(ctx, options, &maker), MT_OK);
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        add_file(maker, sources[i].path, sources[i].mapping, line);
    mt_example_maker_free(maker);
    const char *expected = find_line(golden, name);
    size_t length = strlen(line);
    if (expected != NULL && strncmp(expected, line, length) == 0 && expected[length] == '\n') return 0;
    printf("%s\n", line);
    return 1;
}

static int compare_tokenizer(struct mt_context *ctx, size_t number, const char *golden)
{
    const char *name = tokenizers[number].name;
    struct mt_tokenizer *tokenizer =
        tokenizers[number].shared ? load_shared(ctx, name) : golden_load(ctx, name);
    int differing = 0;
    if (tokenizer == NULL) printf("skipped: the shared data has no tokenizer %s\n", name);
    for (size_t i = 0; tokenizer != NULL && i < sizeof templates / sizeof templates[0]; i++) {
        char folder[512];
        char line[128];
        const struct mt_template_choice choice = {.name = templates[i],
                                                  .folder = root(folder, sizeof folder, "share/templates")};
        struct mt_chat_template *template = NULL;
        if (mt_chat_template_open(ctx, &choice, &template) != MT_OK) fail_msg("%s", ctx->message);
        const struct mt_example_options options = {
            .tokenizer = tokenizer, .template = template, .special = tokenizers[number].special};
        (void)snprintf(line, sizeof line, "%s %s", name, templates[i]);
        differing += compare_template(ctx, &options, line, golden);
        mt_chat_template_free(template);
    }
    mt_tokenizer_free(tokenizer);
    return differing;
}

static void as_they_were(void **state)
{
    (void)state;
    char path[512];
    struct mt_context ctx;
    struct mt_byte_list golden = {.ctx = &ctx};
    void *data = NULL;
    size_t bytes = 0;
    int differing = 0;
    mt_context_init(&ctx, NULL);
    if (mt_file_read_all(&ctx, root(path, sizeof path, "tests/text/golden/templates.txt"), 1 << 20, &data,
                         &bytes) != MT_OK)
        fail_msg("%s", ctx.message);
    assert_int_equal(mt_byte_list_append(&golden, data, bytes), MT_OK);
    assert_int_equal(mt_byte_list_append(&golden, "", 1), MT_OK);
    for (size_t i = 0; i < sizeof tokenizers / sizeof tokenizers[0]; i++)
        differing += compare_tokenizer(&ctx, i, (const char *)golden.data);
    mt_release(&ctx, data, bytes);
    mt_byte_list_free(&golden);
    assert_int_equal(differing, 0);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_they_were)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
