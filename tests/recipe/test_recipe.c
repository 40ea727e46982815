/* Recipes: what is refused, who gives how many rows, and rows out of files. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "recipe/write.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define ARENA_BYTES 16384
#define SOURCE      "title: t\ntask: gsm8k\ndata: d.jsonl\nresponse: r\n"

static const char *share(const char *part, char *path, size_t bytes)
{
    const char *tasks = getenv("METIER_TASKS");
    assert_non_null(tasks);
    (void)snprintf(path, bytes, "%s/../%s", tasks, part);
    return path;
}

// ------------------------------------------------------------------ reading

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"title: t\ntusk: gsm8k\n", "r:2: there is no key 'tusk'; did you mean 'task'?"},
        {"task: gsm8k\ndata: d\nresponse: r\n", "r: the key 'title' is missing"},
        {"title: t\ntask: gsm8k\nresponse: r\n", "the key 'data' is missing (or 'sources', of a mixture)"},
        {"title: t\ntask: gsm8k\ndata: d\n", "the key 'response' is missing"},
        {"title: t\ndata: d\nresponse: r\ndomain: math\n", "the key 'prompt' is missing"},
        {"title: t\ndata: d\nresponse: r\nprompt: p\n", "the key 'domain' is missing"},
        {SOURCE "completion: c\n", "r:5: there is no key 'completion'; did you mean 'response'?"},
        {SOURCE "domain: math\n", "r:5: domain has no effect together with task"},
        {"title: t\ndata: d\nresponse: r\nprompt: p\ndomain: math\nanswer: a\n", "r:6: answer means nothing"},
        {SOURCE "prompt: '{a'\n", "r:5: prompt: a brace that does not close"},
        {SOURCE "rows: id 5\n", "r:5: rows is 'FIELD LOW-HIGH'"},
        {SOURCE "fields: a\n", "r:5: fields is not of the form"},
        {SOURCE "fields: a=,b=c\n", "r:5: fields is not of the form"},
        {SOURCE "count: -1\n", "r:5: count is -1, expected WHOLE NUMBER >= 0"},
        {SOURCE "sources: [a]\n", "r:2: a mixture has no key 'task': its sources do"},
        {"title: t\nsources: []\n", "r:2: sources is empty"},
        {"title: t\nsources: a\n", "r:2: sources is "},
        {"title: t\nsources:\n  - recipe: a\n    weigth: 2\n",
         "r:4: a source has no key 'weigth'; did you mean 'weight'?"},
        {"title: t\nsources:\n  - weight: 2\n", "a source has no recipe"},
        {"title: t\nsources:\n  - recipe: a\n    weight: 2\n    count: 3\n", "count"},
        {"title: t\nsources:\n  - recipe: a\n    weight: 0\n", "r:4: weight is 0, expected NUMBER > 0"},
        {"title: t\ncount: 5\nsources:\n  - recipe: a\n    count: 6\n",
         "r:2: count is less than its sources'"},
        {"title: t\nsources: [[a]]\n", "sources holds a list"},
        {"\x01\x02", "r:"},
        {"title: [", "r:"},
    };
    struct mt_context ctx;
    struct mt_arena arena;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mt_recipe recipe;
        enum mt_status status =
            mt_recipe_read(&ctx, "r", rows[i].text, strlen(rows[i].text), &arena, &recipe);
        assert_int_not_equal(status, MT_OK);
        if (strstr(ctx.message, rows[i].message) == NULL) print_message("%zu: %s\n", i, ctx.message);
        assert_non_null(strstr(ctx.message, rows[i].message));
    }
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

/* All that come along are read, and name tasks that are there. */
static void test_every_file(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_arena arena;
    char folder[4096];
    int files = 0;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    DIR *directory = opendir(share("recipes", folder, sizeof folder));
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char name[300];
        const struct mt_recipe *recipe = NULL;
        const struct mt_recipe *const *leaves = NULL;
        size_t count = 0;
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        enum mt_status status = mt_recipe_resolve(&ctx, folder, name, &arena, &recipe);
        if (status != MT_OK) print_message("%s\n", ctx.message);
        assert_int_equal(status, MT_OK);
        assert_string_equal(recipe->name, name);
        assert_int_equal(mt_recipe_leaves(recipe, &arena, &leaves, &count), MT_OK);
        for (size_t i = 0; i < count; i++) {
            struct mt_task_list list = {0};
            if (leaves[i]->task == NULL) continue;
            assert_int_equal(mt_task_resolve(&ctx, getenv("METIER_TASKS"), leaves[i]->task, &arena, &list),
                             MT_OK);
        }
        files++;
    }
    (void)closedir(directory);
    assert_true(files >= 20);
    const struct mt_recipe *recipe = NULL;
    assert_int_equal(mt_recipe_resolve(&ctx, folder, "gsm9k", &arena, &recipe), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "did you mean 'gsm8k'?"));
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ shares

/* Sources of a mixture, and mixtures of them, by name. */
struct kitchen {
    struct mt_recipe leaves[4];
    struct mt_recipe_part parts[4];
    struct mt_recipe mixture;
};

static void prepare(struct kitchen *kitchen, size_t count, const int64_t *counts, const double *weights)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    *kitchen = (struct kitchen){0};
    for (size_t i = 0; i < count; i++) {
        kitchen->leaves[i].name = names[i];
        kitchen->parts[i] = (struct mt_recipe_part){
            .name = names[i], .recipe = &kitchen->leaves[i], .count = counts[i], .weight = weights[i]};
    }
    kitchen->mixture =
        (struct mt_recipe){.name = "mixture", .sources = kitchen->parts, .source_count = count};
}

static void assert_shares(const struct mt_recipe *recipe, int64_t wanted, const int64_t *available,
                          const int64_t *expected, size_t count)
{
    struct mt_context ctx;
    int64_t taken[4] = {0};
    mt_context_init(&ctx, NULL);
    assert_int_equal(mt_recipe_share(&ctx, recipe, wanted, available, taken), MT_OK);
    for (size_t i = 0; i < count; i++) assert_int_equal(taken[i], expected[i]);
    assert_int_equal(ctx.live_bytes, 0);
}

static void test_shares(void **state)
{
    (void)state;
    struct kitchen k;
    const int64_t none[4] = {0};
    const double ones[4] = {1, 1, 1, 1};
    // One source.
    prepare(&k, 3, none, ones);
    assert_shares(&k.leaves[0], 0, (const int64_t[]){7}, (const int64_t[]){7}, 1);
    assert_shares(&k.leaves[0], 3, (const int64_t[]){7}, (const int64_t[]){3}, 1);
    assert_shares(&k.leaves[0], 30, (const int64_t[]){7}, (const int64_t[]){7}, 1);
    // Equal shares; what does not divide goes to the first; without a count all.
    assert_shares(&k.mixture, 10, (const int64_t[]){100, 100, 100}, (const int64_t[]){4, 3, 3}, 3);
    assert_shares(&k.mixture, 0, (const int64_t[]){5, 0, 9}, (const int64_t[]){5, 0, 9}, 3);
    // Who has less leaves the rest to the others, again and again.
    assert_shares(&k.mixture, 30, (const int64_t[]){2, 100, 12}, (const int64_t[]){2, 16, 12}, 3);
    assert_shares(&k.mixture, 30, (const int64_t[]){2, 3, 4}, (const int64_t[]){2, 3, 4}, 3);
    // Weights.
    prepare(&k, 3, none, (const double[]){1, 2, 1});
    assert_shares(&k.mixture, 100, (const int64_t[]){1000, 1000, 1000}, (const int64_t[]){25, 50, 25}, 3);
    assert_shares(&k.mixture, 100, (const int64_t[]){1000, 10, 1000}, (const int64_t[]){45, 10, 45}, 3);
    // A count first, then weights; a count nobody can give is the others'.
    prepare(&k, 3, (const int64_t[]){60, 0, 0}, (const double[]){1, 3, 1});
    assert_shares(&k.mixture, 100, (const int64_t[]){1000, 1000, 1000}, (const int64_t[]){60, 30, 10}, 3);
    assert_shares(&k.mixture, 100, (const int64_t[]){20, 1000, 1000}, (const int64_t[]){20, 60, 20}, 3);
    // Fewer than the counts: by the counts.
    prepare(&k, 3, (const int64_t[]){60, 30, 0}, ones);
    assert_shares(&k.mixture, 9, (const int64_t[]){1000, 1000, 1000}, (const int64_t[]){6, 3, 0}, 3);
    // Counts without a total.
    assert_shares(&k.mixture, 0, (const int64_t[]){1000, 7, 5}, (const int64_t[]){60, 7, 5}, 3);
}

static void test_nested_shares(void **state)
{
    (void)state;
    struct kitchen inner;
    struct kitchen k;
    const double ones[4] = {1, 1, 1, 1};
    prepare(&inner, 2, (const int64_t[]){0, 0}, (const double[]){3, 1});
    inner.mixture.count = 40;
    prepare(&k, 2, (const int64_t[]){0, 0}, ones);
    k.parts[0].recipe = &inner.mixture; // its two sources, then b
    k.mixture.count = 100;
    assert_shares(&k.mixture, 0, (const int64_t[]){500, 500, 500}, (const int64_t[]){30, 10, 60}, 3);
    assert_shares(&k.mixture, 20, (const int64_t[]){500, 500, 500}, (const int64_t[]){8, 2, 10}, 3);
    assert_shares(&k.mixture, 0, (const int64_t[]){0, 500, 500}, (const int64_t[]){0, 40, 60}, 3);
}

static void test_refused_shares(void **state)
{
    (void)state;
    struct kitchen k;
    struct mt_context ctx;
    int64_t taken[4] = {0};
    mt_context_init(&ctx, NULL);
    prepare(&k, 2, (const int64_t[]){0, 0}, (const double[]){1, 2});
    assert_int_equal(mt_recipe_share(&ctx, &k.mixture, 0, (const int64_t[]){5, 5}, taken), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "the weight of b means nothing without a count to share"));
}

// ------------------------------------------------------------------ rows

static const char tasks_text[] = "title: sums\ndomain: math\ndata: test.jsonl\nprompt: 'Q: {q}\n\n  A:'\n"
                                 "answer: '{a|after:#|trim}'\nextract: [last_number]\ncompare: math\n";
static const char recipe_text[] =
    "title: sums to train on\ntask: sums\ndata: [not-there.jsonl, train.jsonl]\nfields: q=question\n"
    "response: ' {a} '\n";
static const char train_rows[] =
    "{\"question\": \"What is 1 + 1?\", \"a\": \"two # 2\"}\n"
    "{\"question\": \"What is 2 + 2?\", \"a\": \"four # 4\"}\n" // in the test, in other words
    "no json\n"
    "{\"question\": \"What is 3 + 3?\", \"a\": \"six #\"}\n" // without an answer
    "{\"question\": \"What is 4 + 4?\", \"a\": \"eight # 8\"}\n"
    "{\"query\": \"What is 5 + 5?\", \"a\": \"ten # 10\"}\n"; // of another name
static const char test_questions[] = "{\"q\": \"what IS 2+2\", \"a\": \"# 4\"}\n";

static void put(const struct workplace *place, const char *name, const char *text)
{
    assert_int_equal(workplace_write(place, name, text, strlen(text)), 0);
}

static void lay_table(const struct workplace *place)
{
    put(place, "sums.yaml", tasks_text);
    put(place, "train-sums.yaml", recipe_text);
    put(place, "train.jsonl", train_rows);
    put(place, "test.jsonl", test_questions);
}

static enum mt_status make_rows(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    char out[4096];
    char removed[4096];
    struct mt_arena arena;
    struct mt_recipe_report report;
    const struct mt_recipe *recipe = NULL;
    const struct mt_recipe_options options = {
        .tasks = place->directory,
        .data = place->directory,
        .out = workplace_path(place, "rows.jsonl", out, sizeof out),
        .overlaps = workplace_path(place, "removed.jsonl", removed, sizeof removed),
        .seed = 3,
        .words = MT_RECIPE_WORDS};
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    enum mt_status status = mt_recipe_resolve(ctx, place->directory, "train-sums", &arena, &recipe);
    if (status == MT_OK) status = mt_recipe_write(ctx, recipe, &options, &arena, &report);
    if (status == MT_OK) {
        assert_int_equal(report.source_count, 1);
        assert_int_equal(report.sources[0].rows, 6);
        assert_int_equal(report.sources[0].unusable, 3);
        assert_non_null(strstr(report.sources[0].problem, "train.jsonl:3: "));
        assert_int_equal(report.sources[0].overlapping, 1);
        assert_int_equal(report.wholes[0], 1);
        assert_int_equal(report.runs[0], 0);
        assert_int_equal(report.written, 2);
    }
    mt_arena_free(&arena);
    return status;
}

static void assert_holds(const struct workplace *place, const char *name, const char *expected)
{
    struct mt_context ctx;
    char path[4096];
    void *data = NULL;
    size_t bytes = 0;
    mt_context_init(&ctx, NULL);
    assert_int_equal(
        mt_file_read_all(&ctx, workplace_path(place, name, path, sizeof path), 1 << 20, &data, &bytes),
        MT_OK);
    if (bytes != strlen(expected) || memcmp(data, expected, bytes) != 0)
        print_message("%.*s\n", (int)bytes, (const char *)data);
    assert_int_equal(bytes, strlen(expected));
    assert_memory_equal(data, expected, bytes);
    mt_release(&ctx, data, bytes);
}

static void test_rows(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    lay_table(place);
    enum mt_status status = make_rows(&ctx, place);
    if (status != MT_OK) print_message("%s\n", ctx.message);
    assert_int_equal(status, MT_OK);
    assert_int_equal(ctx.live_bytes, 0);
    assert_holds(
        place, "rows.jsonl",
        "{\"prompt\": \"Q: What is 1 + 1?\\nA:\", \"completion\": \"two # 2\", \"domain\": \"math\", "
        "\"task\": \"sums\", \"source\": \"train-sums\", \"id\": \"0\"}\n"
        "{\"prompt\": \"Q: What is 4 + 4?\\nA:\", \"completion\": \"eight # 8\", \"domain\": \"math\", "
        "\"task\": \"sums\", \"source\": \"train-sums\", \"id\": \"4\"}\n");
    assert_holds(
        place, "removed.jsonl",
        "{\"source\": \"train-sums\", \"id\": \"1\", \"task\": \"sums\", \"test_id\": \"0\", \"by\": "
        "\"question\", \"words\": \"what is 2 + 2\", \"prompt\": \"Q: What is 2 + 2?\\nA:\"}\n");
    workplace_clear(place);
}

static void test_memory(void **state)
{
    const struct workplace *place = *state;
    lay_table(place);
    assert_every_allocation_may_fail(make_rows, place, 50);
    workplace_clear(place);
}

/* Where nothing is left, nothing is written. */
static void test_nothing_left(void **state)
{
    const struct workplace *place = *state;
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    lay_table(place);
    put(place, "train.jsonl", test_questions);
    put(place, "train-sums.yaml", "title: t\ntask: sums\ndata: train.jsonl\nresponse: r\n");
    int before = workplace_entries(place);
    assert_int_equal(make_rows(&ctx, place), MT_ERR_USAGE);
    assert_non_null(strstr(ctx.message, "no row is left to train on"));
    assert_int_equal(workplace_entries(place), before + 1); // what was removed is listed
    workplace_clear(place);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_every_file),
        cmocka_unit_test(test_shares),         cmocka_unit_test(test_nested_shares),
        cmocka_unit_test(test_refused_shares), cmocka_unit_test(test_rows),
        cmocka_unit_test(test_memory),         cmocka_unit_test(test_nothing_left),
    };
    return cmocka_run_group_tests(tests, workplace_open, workplace_close);
}
