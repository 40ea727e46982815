/*
 * Answers labelled right or wrong by hand (tests/eval/labelled), judged as `metier eval --answers` judges
 * them: the task file's stop texts, extraction and comparison. Every disagreement is printed; the share that
 * is judged as labelled has a floor. Tests src/eval/answers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/grade.h"
#include "support/cmocka_all.h"

#define ARENA_BYTES 16384

/* A set and the task files that judge it. */
struct labelled {
    const char *file;
    const char *tasks[8]; // the one whose `subtasks` have the row's task, or the only one
    double floor;
    size_t rows; // at least
};

/* Task files and their graders, opened once. */
struct judges {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_task tasks[8];
    struct mt_grader graders[8];
    size_t count;
};

static void open_judges(struct judges *judges, const char *const *names)
{
    memset(judges, 0, sizeof *judges);
    mt_context_init(&judges->ctx, NULL);
    mt_arena_init(&judges->arena, &judges->ctx, ARENA_BYTES);
    for (; names[judges->count] != NULL; judges->count++) {
        char path[512];
        struct mt_task *task = &judges->tasks[judges->count];
        (void)snprintf(path, sizeof path, "%s/%s.yaml", getenv("METIER_TASKS"), names[judges->count]);
        assert_int_equal(mt_task_read(&judges->ctx, path, NULL, 0, &judges->arena, task), MT_OK);
        assert_int_equal(mt_grader_open(&judges->ctx, task, NULL, &judges->graders[judges->count]), MT_OK);
    }
}

static void close_judges(struct judges *judges)
{
    for (size_t i = 0; i < judges->count; i++) mt_grader_free(&judges->graders[i]);
    mt_arena_free(&judges->arena);
    assert_int_equal(judges->ctx.live_bytes, 0);
}

static struct mt_text field(const struct mt_row *row, const char *name)
{
    const struct mt_row_field *found = mt_row_field(row, name);
    return found != NULL ? (struct mt_text){.text = found->text, .bytes = found->bytes} : mt_text_of(NULL);
}

/* The judge of a row: by the name of its task, where there are several. */
static const struct mt_grader *judge_of(const struct judges *judges, const struct mt_row *row)
{
    struct mt_text name = field(row, "task");
    (void)mt_text_take(&name, "bbh_");
    for (size_t i = 0; i < judges->count && judges->count > 1; i++) {
        const char *const *subtasks = judges->tasks[i].subtasks;
        for (size_t k = 0; subtasks != NULL && subtasks[k] != NULL; k++) {
            if (mt_text_is(name, subtasks[k])) return &judges->graders[i];
        }
    }
    if (judges->count > 1) print_message("no task file has '%.*s'\n", (int)name.bytes, name.text);
    assert_int_equal(judges->count, 1);
    return &judges->graders[0];
}

/* True when the row is judged as labelled. */
static bool check_row(struct judges *judges, const struct mt_row *row)
{
    struct mt_task_sample sample;
    struct mt_byte_list found = {.ctx = &judges->ctx};
    struct mt_outcome outcome;
    struct mt_text answer = field(row, "answer");
    struct mt_text gold = field(row, "gold");
    struct mt_text options = field(row, "options");
    bool right = mt_text_is(field(row, "right"), "true");
    mt_sample_init(&judges->ctx, &sample);
    assert_int_equal(mt_byte_list_append(&sample.answer, gold.text, gold.bytes), MT_OK);
    sample.choice_count = options.bytes > 0 ? (size_t)strtoul(options.text, NULL, 10) : 0;
    sample.gold = options.bytes > 0 && gold.bytes > 0 ? gold.text[0] - 'A' : -1;
    sample.right = sample.gold >= 0 ? (uint32_t)1 << sample.gold : 0;
    assert_int_equal(mt_grade(judge_of(judges, row), &sample, answer, &found, &outcome), MT_OK);
    // Without a gold the answer says nothing, or several things.
    bool same = gold.bytes > 0 ? (outcome.score == 1.0) == right : found.count == 0;
    if (!same)
        printf("line %llu, labelled %s: right is '%.*s', read '%.*s' in:\n%.*s\n\n",
               (unsigned long long)row->line, right ? "right" : "wrong", (int)gold.bytes, gold.text,
               (int)found.count, (const char *)found.data, (int)answer.bytes, answer.text);
    mt_byte_list_free(&found);
    mt_sample_free(&sample);
    return same;
}

static void check_set(const struct labelled *set)
{
    struct judges judges;
    struct mt_dataset *dataset = NULL;
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_row row;
    char path[512];
    open_judges(&judges, set->tasks);
    (void)snprintf(path, sizeof path, "%s/eval/labelled/%s.jsonl", getenv("METIER_TESTS"), set->file);
    assert_int_equal(mt_dataset_open(&judges.ctx, path, &options, &dataset), MT_OK);
    mt_row_init(&judges.ctx, &row);
    uint64_t rows = mt_dataset_rows(dataset);
    uint64_t same = 0;
    for (uint64_t i = 0; i < rows; i++) {
        assert_int_equal(mt_dataset_read(dataset, i, &row), MT_OK);
        same += check_row(&judges, &row) ? 1 : 0;
    }
    double share = (double)same / (double)rows;
    printf("%s: %llu of %llu judged as labelled, %.2f %%\n", set->file, (unsigned long long)same,
           (unsigned long long)rows, 100.0 * share);
    mt_row_free(&row);
    mt_dataset_close(dataset);
    close_judges(&judges);
    assert_true(rows >= set->rows);
    assert_true(share >= set->floor);
}

static void test_math(void **state)
{
    (void)state;
    check_set(&(struct labelled){.file = "math", .tasks = {"math500_chat"}, .floor = 0.98, .rows = 500});
}

static void test_numbers(void **state)
{
    (void)state;
    check_set(&(struct labelled){.file = "numbers", .tasks = {"gsm8k_chat"}, .floor = 0.955, .rows = 200});
}

static void test_letters(void **state)
{
    (void)state;
    check_set(&(struct labelled){.file = "letters", .tasks = {"gpqa_chat"}, .floor = 0.97, .rows = 300});
}

static void test_bbh(void **state)
{
    (void)state;
    check_set(&(struct labelled){.file = "bbh",
                                 .tasks = {"bbh_chat_letters", "bbh_chat_truth", "bbh_chat_yes_no",
                                           "bbh_chat_validity", "bbh_chat_numbers", "bbh_chat_words",
                                           "bbh_chat_brackets"},
                                 .floor = 0.97,
                                 .rows = 150});
}

/* Where an answer ends: chat models say the question again and leave the marks of their templates, base
 * models go on with the next question. */
static void test_ends(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "Sure!\n\n**Question:** How many apples?\n\n**Answer:** 8 apples.",
        "Let me restate the Question: how many apples? There are 5+3 = 8. The answer is 8.",
        "**Question:** How many apples?\n\n**Solution:** 5+3=8 apples.",
        "The answer is 8.\n\nQuestion: Tom has 3.\nAnswer: 3",
        "5+3 = 8\nQuestion: Tom has 3.\nAnswer: 3",
        "The answer is 8. Question: Tom has 3. The answer is 3.",
        "The answer is 8.<|eot_id|>The answer is 3.",
        "The answer is 8.<end_of_turn>\nThe answer is 3.",
        "The answer is 8.<｜end▁of▁sentence｜>The answer is 3.",
        "The answer is 8.\n<|user|>\nTom has 3\n<|assistant|>\nThe answer is 3.",
        "The answer is 8.[INST] Tom [/INST] The answer is 3.",
        "The answer is 8.<|end|>The answer is 3.",
        "<|im_start|>assistant\nThe answer is 8.<|im_end|>The answer is 3.",
        "<|start_header_id|>assistant<|end_header_id|>\n\nThe answer is 8.<|eot_id|>The answer is 3.",
    };
    struct judges judges;
    open_judges(&judges, (const char *const[]){"gsm8k_chat", NULL});
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct mt_task_sample sample;
        struct mt_byte_list found = {.ctx = &judges.ctx};
        struct mt_outcome outcome;
        mt_sample_init(&judges.ctx, &sample);
        assert_int_equal(mt_byte_list_append_text(&sample.answer, "8"), MT_OK);
        assert_int_equal(mt_grade(&judges.graders[0], &sample, mt_text_of(texts[i]), &found, &outcome),
                         MT_OK);
        if (outcome.score != 1.0)
            print_message("read '%.*s' in:\n%s\n", (int)found.count, (const char *)found.data, texts[i]);
        assert_true(outcome.score == 1.0);
        mt_byte_list_free(&found);
        mt_sample_free(&sample);
    }
    close_judges(&judges);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_math), cmocka_unit_test(test_numbers), cmocka_unit_test(test_letters),
        cmocka_unit_test(test_bbh),  cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
