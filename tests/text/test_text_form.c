/* Which form, and why; the record of it, both ways, and records that make no sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"
#include "text/text_form.h"

#define ARENA_BYTES 4096

/* As versions that had files of keys wrote them. */
#define WITH_KEYS(name, rows)                                                                                \
    "{\"text_form\": 1, \"template\": \"" name "\", \"keys\": \"start = \\\"\\\"\\n\", \"rows\": \"" rows    \
    "\", \"bos\": \"yes\", \"space\": true}"

/* A run with an adapter, and a model beside it: RUN/adapter, MODEL. */
struct bench {
    struct mt_context ctx;
    struct mt_arena arena;
    const struct workplace *place;
    char model[128], adapter[128];
    struct mt_text_form form;
};

static void make_folder(const struct workplace *place, const char *name)
{
    char path[256];
    assert_int_equal(mkdir(workplace_path(place, name, path, sizeof path), 0700), 0);
}

static void open_bench(struct bench *bench, void **state)
{
    *bench = (struct bench){.place = *state};
    mt_context_init(&bench->ctx, NULL);
    mt_arena_init(&bench->arena, &bench->ctx, ARENA_BYTES);
    make_folder(bench->place, "model");
    make_folder(bench->place, "run");
    make_folder(bench->place, "run/adapter");
    (void)workplace_path(bench->place, "model", bench->model, sizeof bench->model);
    (void)workplace_path(bench->place, "run/adapter", bench->adapter, sizeof bench->adapter);
}

static void close_bench(struct bench *bench)
{
    mt_arena_free(&bench->arena);
    assert_int_equal(bench->ctx.live_bytes, 0);
    workplace_remove_folder(bench->place, "run/adapter");
    workplace_remove_folder(bench->place, "run");
    workplace_remove_folder(bench->place, "model");
}

static void put(const struct bench *bench, const char *name, const char *text)
{
    assert_int_equal(workplace_write(bench->place, name, text, strlen(text)), 0);
}

static void put_record(struct bench *bench, const char *name, const struct mt_form_record *record)
{
    struct mt_json_text text;
    mt_json_text_init(&text, &bench->ctx);
    assert_int_equal(mt_form_record_put(&text, record), MT_OK);
    assert_int_equal(workplace_write(bench->place, name, text.bytes, text.length), 0);
    mt_json_text_free(&text);
}

static enum mt_status find(struct bench *bench, const char *given, const char *fixed, bool own)
{
    const struct mt_form_request request = {.model = bench->model,
                                            .adapter = bench->adapter,
                                            .given = given,
                                            .by = "--template says so",
                                            .fixed = fixed,
                                            .own = own};
    return mt_text_form_find(&bench->arena, &request, &bench->form);
}

static void expect(struct bench *bench, const char *name, bool talks, const char *why)
{
    if (strcmp(bench->form.name, name) != 0 || strcmp(bench->form.why, why) != 0)
        fail_msg("%s, because %s; expected %s, because %s", bench->form.name, bench->form.why, name, why);
    assert_true(bench->form.talks == talks);
}

// ------------------------------------------------------------------ the choice

/* Nothing known; then what an adapter brings, its run's config, the run's record, its own: each before the
 * one that came before it. */
static void test_order(void **state)
{
    struct bench bench;
    open_bench(&bench, state);
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "none", false, "no record of the form the adapter was trained in");
    assert_null(bench.form.trained);
    assert_int_equal(find(&bench, NULL, NULL, true), MT_OK);
    expect(&bench, "none", false, "the model has no chat template");
    put(&bench, "run/adapter/chat_template.jinja", "{{ messages }}");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "chat_template.jinja", true, "the adapter brings it");
    put(&bench, "run/config.yaml", "data:\n    template: chatml\n");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "chatml", true, "the run was trained with it");
    put(&bench, "run/text_form.json", WITH_KEYS("alpaca", "answers"));
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "alpaca", true, "the run was trained with it");
    assert_string_equal(bench.form.template, "alpaca");
    put_record(&bench, "run/adapter/text_form.json",
               &(struct mt_form_record){.name = "mine.jinja", .answers = true, .spaced = true});
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "mine.jinja", true, "the run was trained with it");
    assert_true(bench.form.spaced);
    assert_non_null(strstr(bench.form.template, "adapter/chat_template.jinja"));
    assert_false(mt_text_form_differs(&bench.form));
    assert_int_equal(find(&bench, NULL, "none", false), MT_OK);
    expect(&bench, "none", false, "the task fixes its text");
    char sentence[MT_FORM_SENTENCE_BYTES];
    assert_string_equal(mt_text_form_warning(&bench.form, sentence),
                        "put as none (the task fixes its text), and the run was trained as mine.jinja");
    assert_int_equal(find(&bench, "chatml", "none", false), MT_OK);
    expect(&bench, "chatml", true, "--template says so");
    assert_true(mt_text_form_differs(&bench.form));
    assert_int_equal(find(&bench, "model", NULL, false), MT_OK);
    expect(&bench, "mine.jinja", true, "--template says so");
    close_bench(&bench);
}

/* A run on a model without a chat template trained with `plain`, whatever its settings call that. */
static void test_standing_in(void **state)
{
    struct bench bench;
    open_bench(&bench, state);
    put(&bench, "run/config.yaml", "data:\n    template: model\n");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "plain", true, "the run was trained with it");
    assert_string_equal(bench.form.template, "plain");
    put(&bench, "model/chat_template.jinja", "{{ messages }}");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "model", true, "the run was trained with it");
    close_bench(&bench);
}

/* A template in Jinja is the adapter's; the model's own, where they are the same; and missed, where neither
 * is there. */
static void test_jinja(void **state)
{
    struct bench bench;
    const struct mt_form_record record = {
        .name = "model", .options = "a=b", .date = "2001-02-03", .answers = true};
    open_bench(&bench, state);
    put_record(&bench, "run/adapter/text_form.json", &record);
    assert_int_equal(find(&bench, NULL, NULL, false), MT_ERR_FORMAT);
    assert_non_null(strstr(bench.ctx.message, "names a chat template (model)"));
    put(&bench, "run/adapter/chat_template.jinja", "{{ 'x' }}");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    assert_non_null(strstr(bench.form.template, "adapter/chat_template.jinja"));
    assert_string_equal(bench.form.options, "a=b");
    put(&bench, "model/chat_template.jinja", "{{ 'y' }}");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    assert_non_null(strstr(bench.form.template, "adapter/chat_template.jinja"));
    put(&bench, "model/chat_template.jinja", "{{ 'x' }}");
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    assert_string_equal(bench.form.template, "model");
    close_bench(&bench);
}

/* Whole texts are gone on with, and begin as they did; messages can still be written out. */
static void test_texts(void **state)
{
    struct bench bench;
    open_bench(&bench, state);
    put(&bench, "run/adapter/text_form.json", WITH_KEYS("plain", "texts"));
    assert_int_equal(find(&bench, NULL, NULL, false), MT_OK);
    expect(&bench, "none", false, "the run was trained on whole texts");
    assert_int_equal(bench.form.bos, MT_BOS_YES);
    assert_null(bench.form.template);
    assert_int_equal(find(&bench, NULL, NULL, true), MT_OK);
    assert_string_equal(bench.form.template, "model");
    assert_false(bench.form.talks);
    close_bench(&bench);
}

// ------------------------------------------------------------------ records

static void test_hostile(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"", "text_form.json"},
        {"[]", "text_form.json"},
        {"{}", "text_form"},
        {"{\"text_form\": 2, \"template\": \"plain\", \"rows\": \"answers\"}", "a newer metier wrote it"},
        {"{\"text_form\": 1, \"rows\": \"answers\"}", "does not name a template"},
        {"{\"text_form\": 1, \"template\": \"../../x.jinja\", \"rows\": \"answers\"}",
         "does not name a template"},
        {"{\"text_form\": 1, \"template\": \"/etc/passwd\", \"rows\": \"answers\"}",
         "does not name a template"},
        {"{\"text_form\": 1, \"template\": \"\\u001b[2J\", \"rows\": \"answers\"}",
         "does not name a template"},
        {"{\"text_form\": 1, \"template\": 3, \"rows\": \"answers\"}", "template is"},
        {"{\"text_form\": 1, \"template\": \"a\"}", "rows"},
        {"{\"text_form\": 1, \"template\": \"a\", \"rows\": \"all\"}", "not answers, texts or both"},
        {"{\"text_form\": 1, \"template\": \"a\", \"rows\": \"texts\", \"bos\": \"so\"}",
         "a bos that is not tokenizer"},
        {"{\"text_form\": 1, \"template\": \"a\", \"rows\": \"texts\", \"space\": 1}", "space is"},
        {"{\"text_form\": 1, \"text_form\": 1}", "text_form"},
    };
    struct bench bench;
    open_bench(&bench, state);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put(&bench, "run/adapter/text_form.json", rows[i].text);
        assert_int_not_equal(find(&bench, NULL, NULL, false), MT_OK);
        if (strstr(bench.ctx.message, rows[i].message) == NULL) fail_msg("%zu: %s", i, bench.ctx.message);
        assert_int_equal(find(&bench, "chatml", NULL, false), MT_OK); // somebody knows better
    }
    // Without the file of keys, nobody can write the same.
    put(&bench, "run/adapter/text_form.json", WITH_KEYS("mine.tmpl", "answers"));
    assert_int_equal(find(&bench, NULL, NULL, false), MT_ERR_USAGE);
    assert_non_null(strstr(bench.ctx.message, "text_form.json: mine.tmpl is a file of keys"));
    assert_int_equal(find(&bench, "chatml", NULL, false), MT_OK);
    assert_int_equal(find(&bench, "mine.tmpl", NULL, false), MT_ERR_USAGE);
    close_bench(&bench);
}

/* A record that was cut anywhere is refused, never half believed. */
static void test_cut(void **state)
{
    struct bench bench;
    struct mt_json_text text;
    open_bench(&bench, state);
    mt_json_text_init(&text, &bench.ctx);
    const struct mt_form_record record = {.name = "a", .options = "a=b", .answers = true, .texts = true};
    assert_int_equal(mt_form_record_put(&text, &record), MT_OK);
    for (size_t bytes = 0; bytes + 2 < text.length; bytes++) {
        assert_int_equal(workplace_write(bench.place, "run/adapter/text_form.json", text.bytes, bytes), 0);
        assert_int_not_equal(find(&bench, NULL, NULL, false), MT_OK);
    }
    mt_json_text_free(&text);
    close_bench(&bench);
}

static enum mt_status find_all(struct mt_context *ctx, const void *self)
{
    const struct bench *bench = self;
    struct mt_arena arena;
    struct mt_text_form form;
    struct mt_text_form copy;
    const struct mt_form_request request = {.model = bench->model, .adapter = bench->adapter};
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_text_form_find(&arena, &request, &form);
    if (status == MT_OK) status = mt_text_form_copy(&arena, &form, &copy);
    mt_arena_free(&arena);
    return status;
}

static void test_memory(void **state)
{
    struct bench bench;
    open_bench(&bench, state);
    put(&bench, "model/chat_template.jinja", "{{ messages }}");
    put_record(&bench, "run/adapter/text_form.json", &(struct mt_form_record){.name = "a", .answers = true});
    assert_every_allocation_may_fail(find_all, &bench, 1);
    close_bench(&bench);
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {IN_WORKPLACE(test_order),   IN_WORKPLACE(test_standing_in),
                                       IN_WORKPLACE(test_jinja),   IN_WORKPLACE(test_texts),
                                       IN_WORKPLACE(test_hostile), IN_WORKPLACE(test_cut),
                                       IN_WORKPLACE(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
