/*
 * Right answers of mathematical tasks, through their task files: rows without one are left out, each is right
 * against itself, and wrong with any digit changed, where the public data is there. Tests src/eval/math.
 */
#define _GNU_SOURCE // memmem
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "eval/answers/grade.h"
#include "support/cmocka_all.h"

#define ARENA_BYTES 16384

/* Changes of a digit that leave the value: tan(7π/5) is tan(2π/5), sin(2π/5) is sin(3π/5). */
static const char *const same_anyway[] = {
    "\\tan \\frac{2\\pi}{5} > \\sin \\frac{2\\pi}{5} > \\cos \\frac{6\\pi}{5}",
    "\\tan \\frac{7\\pi}{5} > \\sin \\frac{3\\pi}{5} > \\cos \\frac{6\\pi}{5}",
};

struct tally {
    size_t golds, unequal, changed, kept;
};

static bool is_same_anyway(const char *text)
{
    for (size_t i = 0; i < sizeof same_anyway / sizeof same_anyway[0]; i++) {
        if (strcmp(text, same_anyway[i]) == 0) return true;
    }
    return false;
}

/* What a model that answers so gets. */
static bool is_right(const struct mt_grader *grader, const struct mt_task_sample *sample, const char *answer,
                     struct mt_byte_list *text)
{
    struct mt_byte_list extracted = {.ctx = grader->ctx};
    struct mt_outcome outcome;
    text->count = 0;
    assert_int_equal(mt_byte_list_append_text(text, "So it is \\boxed{"), MT_OK);
    assert_int_equal(mt_byte_list_append_text(text, answer), MT_OK);
    assert_int_equal(mt_byte_list_append_text(text, "}."), MT_OK);
    assert_int_equal(mt_grade(grader, sample, mt_text_in(text), &extracted, &outcome), MT_OK);
    mt_byte_list_free(&extracted);
    return outcome.score == 1.0;
}

static void check_gold(const struct mt_grader *grader, const struct mt_task_sample *sample,
                       struct tally *tally)
{
    static const int steps[] = {1, 5};
    struct mt_byte_list text = {.ctx = grader->ctx};
    char *gold = strndup((const char *)sample->answer.data, sample->answer.count);
    assert_non_null(gold);
    tally->golds++;
    if (!is_right(grader, sample, gold, &text)) {
        print_message("%s %s: '%s' is not itself\n", grader->task->name, sample->id, gold);
        tally->unequal++;
    }
    for (size_t at = 0; gold[at] != '\0'; at++) {
        char digit = gold[at];
        for (size_t i = 0; isdigit((unsigned char)digit) && i < sizeof steps / sizeof steps[0]; i++) {
            gold[at] = (char)('0' + (digit - '0' + steps[i]) % 10);
            tally->changed++;
            if (is_right(grader, sample, gold, &text) && !is_same_anyway(gold)) {
                print_message("%s %s: '%.*s' is also '%s'\n", grader->task->name, sample->id,
                              (int)sample->answer.count, (const char *)sample->answer.data, gold);
                tally->kept++;
            }
        }
        gold[at] = digit;
    }
    free(gold);
    mt_byte_list_free(&text);
}

/* Goes through a task's data in `folder`. */
static void check_task(struct mt_context *ctx, const char *name, const char *folder, size_t samples,
                       size_t left_out)
{
    struct mt_arena arena;
    struct mt_task_list list = {0};
    struct mt_task_data *data = NULL;
    struct mt_grader grader;
    struct mt_task_sample sample;
    struct tally tally = {0};
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    mt_sample_init(ctx, &sample);
    assert_int_equal(mt_task_resolve(ctx, getenv("METIER_TASKS"), name, &arena, &list), MT_OK);
    enum mt_status status = mt_task_data_open(ctx, &list.tasks[0], folder, &data);
    if (status != MT_OK) print_message("%s\n", ctx->message);
    assert_int_equal(status, MT_OK);
    assert_int_equal(mt_grader_open(ctx, &list.tasks[0], NULL, &grader), MT_OK);
    assert_int_equal(mt_task_data_count(data), samples);
    assert_int_equal(mt_task_data_dropped(data, false)->unanswered, left_out);
    for (size_t i = 0; i < samples; i++) {
        assert_int_equal(mt_task_data_sample(data, i, &sample), MT_OK);
        check_gold(&grader, &sample, &tally);
    }
    print_message("%-12s %5zu answers, %zu unequal to themselves; %6zu changed digits, %zu still right\n",
                  name, tally.golds, tally.unequal, tally.changed, tally.kept);
    mt_sample_free(&sample);
    mt_grader_free(&grader);
    mt_task_data_close(data);
    mt_arena_free(&arena);
    assert_int_equal(tally.unequal, 0);
    assert_int_equal(tally.kept, 0);
}

// ------------------------------------------------------------------ NuminaMath-CoT

/* Makes FOLDER/numina/test.jsonl, where the task looks; the caller closes. */
static FILE *numina_file(char *folder)
{
    char path[1024];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/numina", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/numina/test.jsonl", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    return file;
}

static void remove_numina(const char *folder)
{
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/numina/test.jsonl", folder);
    assert_int_equal(remove(path), 0);
    (void)snprintf(path, sizeof path, "%s/numina", folder);
    assert_int_equal(remove(path), 0);
    assert_int_equal(remove(folder), 0);
}

static void test_left_out(void **state)
{
    (void)state;
    struct mt_context ctx;
    char folder[] = "/tmp/metier-math-XXXXXX";
    mt_context_init(&ctx, NULL);
    FILE *file = numina_file(folder);
    (void)fputs("{\"problem\": \"p\", \"solution\": \"So it is \\\\boxed{\\\\textbf{(C)}\\\\ 36}.\"}\n"
                "{\"problem\": \"p\", \"solution\": \"A proof, which ends with 5.\"}\n"
                "{\"problem\": \"p\", \"solution\": \"An empty one: \\\\boxed{ }\"}\n"
                "{\"problem\": \"p\", \"solution\": \"Never closed: \\\\boxed{5\"}\n"
                "{\"problem\": \"p\", \"solution\": \"\\\\boxed{2^{2008}-1}\"}\n",
                file);
    assert_int_equal(fclose(file), 0);
    check_task(&ctx, "numina_cot", folder, 2, 3);
    remove_numina(folder);
    assert_int_equal(ctx.live_bytes, 0);
}

/* The public part of NuminaMath-CoT has its own names for the fields. */
static void copy_renamed(struct mt_context *ctx, const char *from, FILE *file)
{
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    const struct mt_dataset_options options = {0};
    assert_int_equal(mt_dataset_open(ctx, from, &options, &dataset), MT_OK);
    mt_row_init(ctx, &row);
    for (uint64_t i = 0; i < mt_dataset_rows(dataset); i++) {
        assert_int_equal(mt_dataset_read(dataset, i, &row), MT_OK);
        const char *response = memmem(row.source, row.source_bytes, "\"response\":", 11);
        assert_non_null(response);
        assert_int_equal(strncmp(row.source, "{\"instruction\":", 15), 0);
        (void)fprintf(file, "{\"problem\":%.*s\"solution\":%.*s\n", (int)(response - row.source - 15),
                      row.source + 15, (int)(row.source + row.source_bytes - response - 11), response + 11);
    }
    mt_row_free(&row);
    mt_dataset_close(dataset);
}

static void test_public_golds(void **state)
{
    (void)state;
    const char *data = getenv("METIER_SHARED_DATA");
    struct mt_context ctx;
    struct stat info;
    char path[1024];
    char folder[] = "/tmp/metier-math-XXXXXX";
    (void)snprintf(path, sizeof path, "%s/numina/numina_cot_2k.jsonl.gz", data != NULL ? data : "");
    if (data == NULL || stat(path, &info) != 0) {
        print_message("skipped: no public data at METIER_SHARED_DATA\n");
        skip();
    }
    mt_context_init(&ctx, NULL);
    check_task(&ctx, "math500_chat", data, 500, 0);
    check_task(&ctx, "numina", data, 1000, 0);
    check_task(&ctx, "gsm8k_chat", data, 1319, 0);
    FILE *file = numina_file(folder);
    copy_renamed(&ctx, path, file);
    assert_int_equal(fclose(file), 0);
    check_task(&ctx, "numina_cot", folder, 1925, 75);
    remove_numina(folder);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_public_golds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
