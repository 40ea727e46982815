/* Entries of `tasks`: parts, limits, budgets, what cannot be; memory. Tests src/compare/tasks.c. */
#include <stdio.h>
#include <string.h>

#include "compare/tasks.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

static void write_file(const struct workplace *place, const char *name, const char *text)
{
    char path[256];
    FILE *file = fopen(workplace_path(place, name, path, sizeof path), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A task that is written, one that is chosen, and a group of three, one of which has no data. */
static void write_tasks(const struct workplace *place)
{
    write_file(place, "write.yaml",
               "title: w\ndomain: math\ndata: w.jsonl\nprompt: \"{q}\"\nanswer: \"{a}\"\nmax_tokens: 7\n"
               "metrics: [exact_match]\n");
    write_file(place, "choose.yaml",
               "title: c\ndomain: math\ndata: c.jsonl\nprompt: \"{q}\"\nanswer: \"{a}\"\nkind: choose\n"
               "choices: [x, y]\nmetrics: [acc]\n");
    write_file(place, "absent.yaml",
               "title: n\ndomain: math\ndata: n.jsonl\nprompt: \"{q}\"\nanswer: \"{a}\"\n"
               "metrics: [exact_match]\n");
    write_file(place, "all.yaml", "title: all\ndomain: math\nmembers: [write, absent, choose]\n");
    write_file(place, "w.jsonl",
               "{\"q\": \"1\", \"a\": \"1\"}\n{\"q\": \"2\", \"a\": \"2\"}\n{\"q\": \"3\", \"a\": \"3\"}\n");
    write_file(place, "c.jsonl", "{\"q\": \"1\", \"a\": \"A\"}\n{\"q\": \"2\", \"a\": \"B\"}\n");
}

static enum mt_status find(struct mt_context *ctx, struct mt_arena *arena, const struct workplace *place,
                           const char *tasks, struct mt_compare_tasks *found)
{
    static struct mt_compare_settings settings;
    char text[512];
    int length =
        snprintf(text, sizeof text, "model: m\nout: o\nmethods: [aux]\ndomains: [math]\ntasks: %s\n", tasks);
    enum mt_status status =
        mt_compare_settings_read(ctx, "t", text, (size_t)length, NULL, 0, arena, &settings);
    if (status != MT_OK) return status;
    return mt_compare_tasks_find(&settings, place->directory, place->directory, arena, found);
}

static void entries_are_found(void **state)
{
    const struct workplace *place = *state;
    static struct mt_compare_tasks found;
    struct mt_context ctx;
    struct mt_arena arena;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 4096);
    write_tasks(place);
    enum mt_status status =
        find(&ctx, &arena, place,
             "[write, {task: write, name: twice, max_tokens: [5, 9], limit: 2}, {task: all, limit: 3}]\n"
             "evaluation: {skip_missing: true, max_tokens: [11, 12]}",
             &found);
    if (status != MT_OK) fail_msg("%s", ctx.message);
    static const struct {
        const char *name, *metric;
        size_t questions, parts;
        double written;
    } expected[] = {
        {"write@11", "exact_match", 3, 1, 33}, {"write@12", "exact_match", 3, 1, 36},
        {"twice@5", "exact_match", 2, 1, 10},  {"twice@9", "exact_match", 2, 1, 18},
        {"all@11", "mean", 3, 2, 22},          {"all@12", "mean", 3, 2, 24},
    };
    assert_int_equal(found.count, 6);
    for (size_t i = 0; i < 6; i++) {
        const struct mt_compare_task *task = &found.task[i];
        assert_string_equal(task->name, expected[i].name);
        assert_string_equal(task->metric, expected[i].metric);
        assert_int_equal(task->questions, expected[i].questions);
        assert_int_equal(task->list.count, expected[i].parts);
        assert_true(task->written == expected[i].written);
        assert_true(task->writes);
        for (size_t k = 0; k < i; k++) assert_string_not_equal(task->asking, found.task[k].asking);
    }
    assert_int_equal(found.task[0].list.tasks[0].max_tokens, 11);
    // The first part gets what cannot be divided.
    assert_int_equal(found.task[4].list.tasks[0].most, 2);
    assert_int_equal(found.task[4].list.tasks[1].most, 1);
    // Choices are one column, whatever an answer may be long.
    status = find(&ctx, &arena, place, "[choose]\nevaluation.max_tokens: [11, 12]", &found);
    assert_int_equal(status, MT_OK);
    assert_int_equal(found.count, 1);
    assert_string_equal(found.task[0].name, "choose");
    assert_int_equal(found.task[0].max_tokens, 0);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *tasks, *message;
    } cases[] = {
        {"[wrote]", "t: there is no task 'wrote'"},
        {"[all]", "t: task absent: there is no"},
        {"[absent]\nevaluation.skip_missing: true", "t: task absent: no data"},
        {"[{task: choose, max_tokens: 3}]", "max_tokens means nothing: its choices are scored"},
        {"[{task: write, shots: 3}]", "names no file of examples for shots"},
    };
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static struct mt_compare_tasks found;
        struct mt_context ctx;
        struct mt_arena arena;
        mt_context_init(&ctx, NULL);
        mt_arena_init(&arena, &ctx, 4096);
        assert_int_equal(find(&ctx, &arena, place, cases[i].tasks, &found), MT_ERR_USAGE);
        if (strstr(ctx.message, cases[i].message) == NULL)
            fail_msg("\"%s\" does not say \"%s\"", ctx.message, cases[i].message);
        mt_arena_free(&arena);
    }
}

static enum mt_status find_all(struct mt_context *ctx, const void *self)
{
    static struct mt_compare_tasks found;
    struct mt_arena arena;
    mt_arena_init(&arena, ctx, 4096);
    enum mt_status status = find(ctx, &arena, self, "[{task: write, max_tokens: [5, 9]}, choose]", &found);
    mt_arena_free(&arena);
    return status;
}

static void memory_may_run_out(void **state)
{
    assert_every_allocation_may_fail(find_all, *state, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(entries_are_found),
                                       cmocka_unit_test(mistakes_are_named),
                                       cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests(tests, workplace_open, workplace_close);
}
