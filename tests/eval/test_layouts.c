/*
 * Rows as data sets have them: nested fields, choices as lists, objects and columns, right answers as letter,
 * label, text, index, number and flags; and what becomes of rows that make no sense.
 * Tests src/eval/tasks/task_data.c.
 */
#include <stdio.h>
#include <string.h>

#include "eval/tasks/task_data.h"
#include "support/cmocka_all.h"
#include "support/every_allocation.h"
#include "support/workplace.h"

#define ARENA_BYTES 16384
#define HEAD        "title: x\ndomain: science\ndata: rows.jsonl\nkind: choose\n"

struct setup {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task task;
    struct mt_task_data *data;
    struct mt_task_sample sample;
    enum mt_status status;
};

/* Opens rows with a task; the status is that of opening. */
static void open_rows(struct setup *setup, const struct workplace *place, const char *yaml, const char *rows)
{
    *setup = (struct setup){0};
    mt_context_init(&setup->ctx, NULL);
    mt_arena_init(&setup->arena, &setup->ctx, ARENA_BYTES);
    mt_sample_init(&setup->ctx, &setup->sample);
    assert_int_equal(workplace_write(place, "rows.jsonl", rows, strlen(rows)), 0);
    setup->status = mt_task_read(&setup->ctx, "t.yaml", yaml, strlen(yaml), &setup->arena, &setup->task);
    if (setup->status == MT_OK)
        setup->status = mt_task_data_open(&setup->ctx, &setup->task, place->directory, &setup->data);
}

static void close_rows(struct setup *setup)
{
    mt_sample_free(&setup->sample);
    mt_task_data_close(setup->data);
    mt_arena_free(&setup->arena);
    assert_int_equal(setup->ctx.live_bytes, 0);
}

/* The layouts in use, each with the right choice of its only row. */
static void test_layouts(void **state)
{
    static const struct {
        const char *yaml, *row, *prompt, *right;
        int gold;
    } rows[] = {
        // ARC
        {HEAD "prompt: '{question}'\nchoice_list: choices.text\nchoice_label_list: choices.label\nanswer: "
              "'{answerKey}'\n",
         "{\"question\": \"Q\", \"choices\": {\"text\": [\"a\", \"b\", \"c\"], \"label\": [\"1\", \"2\", "
         "\"3\"]}, "
         "\"answerKey\": \"3\"}",
         "Q", "c", 2},
        // CommonsenseQA
        {HEAD "prompt: '{question.stem}'\nchoice_list: question.choices.text\nchoice_label_list: "
              "question.choices.label\nanswer: '{answerKey}'\n",
         "{\"question\": {\"stem\": \"Q\", \"choices\": [{\"label\": \"A\", \"text\": \"x\"}, {\"label\": "
         "\"B\", "
         "\"text\": \"y\"}]}, \"answerKey\": \"B\"}",
         "Q", "y", 1},
        // HellaSwag: an index in quotes; and as a number
        {HEAD "prompt: '{ctx}'\nchoice_list: endings\nanswer: '{label}'\nanswer_is: index\n",
         "{\"ctx\": \"C\", \"endings\": [\"a\", \"b\", \"c\", \"d\"], \"label\": \"2\"}", "C", "c", 2},
        {HEAD "prompt: '{ctx}'\nchoice_list: endings\nanswer: '{label}'\nanswer_is: index\n",
         "{\"ctx\": \"C\", \"endings\": [\"a\", \"b\"], \"label\": 0}", "C", "a", 0},
        {HEAD "prompt: '{ctx}'\nchoice_list: endings\nanswer: '{label}'\nanswer_is: index\n",
         "{\"ctx\": \"C\", \"endings\": [\"a\", \"b\"], \"label\": 1.0}", "C", "b", 1},
        // WinoGrande
        {HEAD
         "prompt: '{sentence}'\nchoice_fields: [option1, option2]\nanswer: '{answer}'\nanswer_is: number\n",
         "{\"sentence\": \"S\", \"option1\": \"Ann\", \"option2\": \"Bea\", \"answer\": \"2\"}", "S", "Bea",
         1},
        // TruthfulQA
        {HEAD "prompt: '{question}'\nchoice_list: mc1_targets.choices\nanswer: '{mc1_targets.labels|join}'\n"
              "answer_is: flags\n",
         "{\"question\": \"Q\", \"mc1_targets\": {\"choices\": [\"no\", \"yes\"], \"labels\": [0, 1]}}", "Q",
         "yes", 1},
        // By text, which is a number that is no place; by letter, in brackets and small
        {HEAD "prompt: '{q}'\nchoice_list: options\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"options\": [\"12\", \"17\"], \"a\": 17}", "Q", "17", 1},
        {HEAD "prompt: '{q}'\nchoice_list: options\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"options\": [\"red\", \"blue\"], \"a\": \"blue\"}", "Q", "blue", 1},
        {HEAD "prompt: '{q}'\nchoice_list: options\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"options\": [\"red\", \"blue\"], \"a\": \"(b)\"}", "Q", "blue", 1},
        {HEAD "prompt: '{q}'\nchoice_list: options\nanswer: '{a}'\nanswer_is: letter\n",
         "{\"q\": \"Q\", \"options\": [\"B\", \"A\"], \"a\": \"B\"}", "Q", "A", 1},
        // An object of labels and texts; a choice that is dropped does not move the others' labels
        {HEAD "prompt: '{q}'\nchoice_list: options\nchoice_drop: none\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"options\": {\"A\": \"x\", \"B\": \"none\", \"C\": \"z\"}, \"a\": \"C\"}", "Q", "z",
         1},
        // Items, members and a field whose name has a dot
        {HEAD "prompt: '{turns.0.text} {a.b} {list|join}'\nchoices: [x, y]\nanswer: '{answers.0}'\n",
         "{\"turns\": [{\"text\": \"T\"}], \"a.b\": \"D\", \"list\": [1, 2.5, true], \"answers\": [\"y\"]}",
         "T D 1\n2.5\ntrue", "y", 1},
    };
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct setup setup;
        open_rows(&setup, place, rows[i].yaml, rows[i].row);
        if (setup.status != MT_OK) print_message("%zu: %s\n", i, setup.ctx.message);
        assert_int_equal(setup.status, MT_OK);
        assert_int_equal(mt_task_data_sample(setup.data, 0, &setup.sample), MT_OK);
        const struct mt_task_sample *sample = &setup.sample;
        assert_int_equal(sample->gold, rows[i].gold);
        assert_true(mt_text_same(sample->choices[sample->gold], mt_text_of(rows[i].right)));
        assert_true(mt_text_same(mt_text_in(&sample->prompt), mt_text_of(rows[i].prompt)));
        close_rows(&setup);
    }
}

/* Nothing is left: the sentence says of how many rows, and why. */
static void test_nothing_left(void **state)
{
    static const struct {
        const char *yaml, *rows, *message;
    } rows[] = {
        {HEAD "prompt: '{q}'\nchoice_list: choices\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"options\": [\"x\"], \"more\": {\"deep\": 1}, \"a\": \"A\"}\n{\"q\": \"Q\", "
         "\"options\": "
         "[\"x\"], \"more\": {\"deep\": 1}, \"a\": \"B\"}\n",
         "none of 2 rows can be used: line 1: there is no field 'choices' (the row has q, options, "
         "more.deep, a) and 1 "
         "row like it"},
        {HEAD "prompt: '{q}'\nchoice_list: choices.text\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"choices\": [{\"txt\": \"x\"}], \"a\": \"A\"}",
         "there is no field 'choices.text' (the row has q, choices.txt, a)"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"a\": \"\"}", "line 1: there is no right answer"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"a\": null}", "line 1: there is no right answer"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"a\": \"z\"}", "the answer 'z' is not one of the 2 choices"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"a\": 1}", "answer_is: index counts from 0, number from 1"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\nanswer_is: index\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"a\": \"2\"}", "not one of the 2 choices (an index from 0)"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\nanswer_is: number\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"a\": \"0\"}", "not one of the 2 choices (a number from 1)"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"B\", \"A\"], \"a\": \"A\"}",
         "the letter of one choice and the text of another"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"1\", \"2\"], \"a\": \"1\"}",
         "the text of a choice, and may be the place of another"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"x\"], \"a\": \"x\"}", "the text of several choices"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{f|join}'\nanswer_is: flags\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"f\": [1, 1]}", "must say for each of the 2 choices"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{f|join}'\nanswer_is: flags\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"f\": [0, 0, 1]}", "must say for each of the 2 choices"},
        {HEAD "prompt: '{q}'\nchoice_list: c\nchoice_label_list: l\nanswer: '{a}'\n",
         "{\"q\": \"Q\", \"c\": [\"x\", \"y\"], \"l\": [\"A\"], \"a\": \"A\"}", "2 choices and 1 labels"},
        {"title: x\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\nrows: kind is law\n",
         "{\"q\": \"Q\", \"a\": \"1\", \"kind\": \"art\"}\n",
         "rows: 'kind is law' keeps none of the 1 row of"},
        {"title: x\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\nrows: day from 2024-08-02 "
         "to "
         "2025-01-31\n",
         "{\"q\": \"Q\", \"day\": \"2024-08-01T23:00:00\", \"a\": \"1\"}\n{\"q\": \"Q\", \"day\": "
         "\"2025-02-01\", \"a\": \"1\"}\n{\"q\": \"Q\", \"day\": \"2024\", \"a\": \"1\"}\n{\"q\": \"Q\", "
         "\"day\": \"\", \"a\": \"1\"}\n",
         "keeps none of the 4 rows of"},
        {"title: x\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\nrows: sort is law\n",
         "{\"q\": \"Q\", \"a\": \"1\", \"kind\": \"law\"}\n",
         "there is no field 'sort', by which rows are chosen (the row has q, a, kind)"},
        {"title: x\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\n", "", "has no rows"},
        {"title: x\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\n", "[1, 2]\n\"x\"\n",
         "none of 2 rows can be used"},
        {"title: x\ndomain: math\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\ncompare: numbers\n",
         "{\"q\": \"Q\", \"a\": \"n/a\"}", "the answer 'n/a' is not a number"},
        {"title: x\ndomain: code\ndata: rows.jsonl\nprompt: '{q}'\nanswer: '{a}'\ncompare: code\nprogram: "
         "'{completion}'\ntests: '{test}'\n",
         "{\"q\": \"Q\", \"a\": \"x\"}", "there is no field 'test'"},
    };
    const struct workplace *place = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct setup setup;
        open_rows(&setup, place, rows[i].yaml, rows[i].rows);
        assert_int_equal(setup.status, MT_ERR_FORMAT);
        if (strstr(setup.ctx.message, rows[i].message) == NULL)
            print_message("%zu: %s\n", i, setup.ctx.message);
        assert_non_null(strstr(setup.ctx.message, rows[i].message));
        close_rows(&setup);
    }
}

static const char some_rows[] = "{\"q\": \"1\", \"c\": [\"x\", \"y\"], \"a\": \"A\"}\n"
                                "{\"q\": \"2\", \"c\": [\"x\", \"y\"], \"a\": \"\"}\n"
                                "{\"q\": \"3\", \"c\": [\"x\", \"y\"]}\n"
                                "{\"q\": \"4\", \"c\": [\"x\", \"y\"], \"a\": \"B\"}\n"
                                "{\"q\": \"5\", \"c\": [], \"a\": \"B\"}\n"
                                "torn\n";
static const char some_task[] = HEAD "prompt: '{q}'\nchoice_list: c\nanswer: '{a}'\n";

/* Some rows are left: the others are counted by kind. */
static void test_some_left(void **state)
{
    const struct workplace *place = *state;
    struct setup setup;
    open_rows(&setup, place, some_task, some_rows);
    assert_int_equal(setup.status, MT_OK);
    assert_int_equal(mt_task_data_count(setup.data), 2);
    assert_int_equal(mt_task_data_row(setup.data, 1), 3);
    const struct mt_dropped_rows *dropped = mt_task_data_dropped(setup.data, false);
    assert_int_equal(dropped->count, 4);
    assert_int_equal(dropped->unanswered, 1);
    assert_int_equal(dropped->kind_count, 4);
    struct mt_byte_list why = {.ctx = &setup.ctx};
    assert_int_equal(mt_dropped_rows_describe(dropped, &why), MT_OK);
    assert_int_equal(mt_byte_list_append(&why, "", 1), MT_OK);
    assert_non_null(strstr((char *)why.data,
                           "line 2: there is no right answer; line 3: there is no field 'a' (the row "
                           "has q, c); line 5: the list 'c' is empty (the row has q, c, a); line 6: "));
    mt_byte_list_free(&why);
    close_rows(&setup);
}

static enum mt_status open_and_read(struct mt_context *ctx, const void *self)
{
    const struct workplace *place = self;
    struct mt_arena arena;
    struct mt_task task;
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    mt_sample_init(ctx, &sample);
    enum mt_status status = mt_task_read(ctx, "t.yaml", some_task, strlen(some_task), &arena, &task);
    if (status == MT_OK) status = mt_task_data_open(ctx, &task, place->directory, &data);
    if (status == MT_OK) status = mt_task_data_sample(data, 0, &sample);
    mt_sample_free(&sample);
    mt_task_data_close(data);
    mt_arena_free(&arena);
    return status;
}

static void test_every_allocation(void **state)
{
    const struct workplace *place = *state;
    assert_int_equal(workplace_write(place, "rows.jsonl", some_rows, strlen(some_rows)), 0);
    assert_every_allocation_may_fail(open_and_read, place, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_layouts, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_nothing_left, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_some_left, workplace_open, workplace_close),
        cmocka_unit_test_setup_teardown(test_every_allocation, workplace_open, workplace_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
