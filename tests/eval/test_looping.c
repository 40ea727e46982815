/*
 * Answers of models that loop: the work of every way to judge that comes along is linear in them, for every
 * loop below, counted in blocks of its code; and where a pattern needs more work than allowed, the sample
 * says so. Tests src/eval/answers.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/grade.h"
#include "eval/answers/pattern.h"
#include "eval/instructions/instructions.h"
#include "formats/text/json.h"
#include "support/blocks.h"
#include "support/cmocka_all.h"

#define ARENA_BYTES  16384
#define ANSWER_BYTES 16000
#define LIMIT_BYTES  80000 // where patterns give up
#define MOST_TASKS   64
#define MOST_SAMPLES 4 // of a task: instructions and tables differ from row to row
#define MOST_BLOCKS  (5000 * (uint64_t)ANSWER_BYTES) // twice what the slowest needs; half of a square is 8000
#define LIMIT_BLOCKS 150000000                       // twice what is needed until patterns have given up

/* What is repeated, and what stands behind the last. */
static const struct loop {
    const char *piece, *tail;
} loops[] = {
    {"#### 1", ""},
    {"#### ", "\nend"},
    {"#### ,,,,", "."},
    {"\\boxed{", ""},
    {"\\boxed{", "}"},
    {"\\boxed{\\text{", "A}}"},
    {"\\boxedx", ""},
    {"\\boxed ", ""},
    {"\\fbox{a", ""},
    {"The answer is (", ""},
    {"The answer is (", "\nend"},
    {"answer is: ", "\nend"},
    {"Answer: $", " x"},
    {"answer: ", "x\n\nend"},
    {"the final answer is a, ", "$x\nend"},
    {"score ", "9"},
    {"If 1 ", ""},
    {"\nQuestion: 1", ""},
    {"Answer: 1\nQ", ":"},
    {"0.4545...", ""},
    {"x for all x ", ""},
    {"\\begin{cases}", ""},
    {"1, & 1 \\\\ ", ""},
    {"all real numbers except ", "1"},
    {"<think>", "1"},
    {"x \\in ", "N^*"},
    {"1 < x or ", "x"},
    {"is one ", ""},
    {"1,", ""},
    {"1,111,111,", ""},
    {"1", ""},
    {"1", "x"},
    {"1/", ""},
    {"1.", ""},
    {"-", ""},
    {"9", ", 9 x"},
    {",", ""},
    {",", "."},
    {".", ""},
    {"a.", " b"},
    {"$", ""},
    {"{", ""},
    {"{", "}"},
    {"{}", ""},
    {"\\", "{"},
    {"\\frac{1}{", ""},
    {"(", ""},
    {"[", ""},
    {"[", "\n]"},
    {"[x", ""},
    {"<<", ""},
    {"<<a", ">"},
    {"**", ""},
    {"**a", ""},
    {"**A ", ""},
    {"*", "\n"},
    {"***\n", ""},
    {"\n", ""},
    {"\n", "x"},
    {"\n*", ""},
    {"\n-", ""},
    {" \n", "x"},
    {" ", "x"},
    {"a ", ""},
    {"A ", ""},
    {"A or ", ""},
    {"no, wait, ", "D."},
    {"A\n", ""},
    {"yes ", ""},
    {"True or ", ""},
    {"option ", "x"},
    {"answer for ", "x"},
    {"<solution>", ""},
    {"<solution></solution>", ""},
    {"```", ""},
    {"```\n", ""},
    {"```python\ndef ", ""},
    {"<table><tr><td>", ""},
    {"<td>1,1</td>", ""},
    {"<", ""},
    {"&", ""},
    {"a,b,c\n", ""},
    {"\"", ""},
    {"\"\",", "\n"},
    {"{\"a\": ", ""},
    {"{\"a\": 1}\n", ""},
    {"| a | b |\n", ""},
    {"Here is the format ", "x"},
    {"P. ", "x"},
    {"'a': 'b', ", ""},
    {"\xE2\x88\x92", "1"},
    {"\xC3\xA9 ", ""},
    {"x^", ""},
    {"5 cm/", ""},
    {"Section ", "x"},
};

static void write_loop(const struct loop *loop, size_t bytes, struct mt_byte_list *text)
{
    text->count = 0;
    while (text->count < bytes) assert_int_equal(mt_byte_list_append_text(text, loop->piece), MT_OK);
    assert_int_equal(mt_byte_list_append_text(text, loop->tail), MT_OK);
}

static void write_name(const char *text)
{
    for (; *text != '\0'; text++) printf(*text < ' ' ? "\\x%02x" : "%c", (unsigned char)*text);
}

struct tally {
    size_t judged, slow, unjudged;
    uint64_t worst; // blocks
};

static void note(struct tally *tally, const char *who, const struct loop *loop, uint64_t start,
                 int64_t unjudged)
{
    uint64_t blocks = blocks_run() - start;
    tally->judged++;
    if (blocks > tally->worst) tally->worst = blocks;
    if (blocks <= MOST_BLOCKS && unjudged == 0) return;
    printf("%s, '", who);
    write_name(loop->piece);
    printf("' and '");
    write_name(loop->tail);
    printf("': %" PRIu64 " blocks%s\n", blocks, unjudged > 0 ? ", unjudged" : "");
    tally->slow += blocks > MOST_BLOCKS ? 1 : 0;
    tally->unjudged += (size_t)unjudged;
}

// ------------------------------------------------------------------ tasks

static enum mt_status never(void *self, const struct mt_code_trial *trials, size_t count,
                            struct mt_code_verdict *verdicts)
{
    (void)self;
    (void)trials;
    for (size_t i = 0; i < count; i++) verdicts[i].passed = false;
    return MT_OK;
}

static void judge_loops(const struct mt_grader *grader, const struct mt_task_sample *sample,
                        struct tally *tally)
{
    struct mt_byte_list text = {.ctx = grader->ctx};
    struct mt_byte_list extracted = {.ctx = grader->ctx};
    struct mt_byte_list parts[MT_TRIAL_PARTS];
    struct mt_code_trial trial;
    for (int i = 0; i < MT_TRIAL_PARTS; i++) parts[i] = (struct mt_byte_list){.ctx = grader->ctx};
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        struct mt_outcome outcome = {0};
        write_loop(&loops[i], ANSWER_BYTES, &text);
        uint64_t start = blocks_run();
        enum mt_status status = mt_grader_runs_programs(grader)
                                    ? mt_grade_program(grader, sample, mt_text_in(&text), &extracted, parts,
                                                       &trial, &outcome.unjudged)
                                    : mt_grade(grader, sample, mt_text_in(&text), &extracted, &outcome);
        assert_int_equal(status, MT_OK);
        note(tally, grader->task->name, &loops[i], start, outcome.unjudged);
        for (int part = 0; part < MT_TRIAL_PARTS; part++) parts[part].count = 0;
    }
    for (int i = 0; i < MT_TRIAL_PARTS; i++) mt_byte_list_free(&parts[i]);
    mt_byte_list_free(&extracted);
    mt_byte_list_free(&text);
}

/* True when a task looks for answers and compares them as another does. */
static bool same_judging(const struct mt_task *a, const struct mt_task *b)
{
    bool by_row = a->compare == MT_COMPARE_INSTRUCTIONS || a->compare == MT_COMPARE_TABLE;
    if (by_row || a->compare != b->compare || a->filter_count > 1 || b->filter_count > 1 ||
        a->filters[0].extract_count != b->filters[0].extract_count)
        return false;
    for (size_t i = 0; i < a->filters[0].extract_count; i++) {
        const struct mt_extract_step *one = &a->filters[0].extract[i];
        const struct mt_extract_step *other = &b->filters[0].extract[i];
        if (one->kind != other->kind || one->kind == MT_EXTRACT_WORDS) return false;
        if (one->kind == MT_EXTRACT_REGEX && strcmp(one->pattern, other->pattern) != 0) return false;
    }
    return true;
}

static void check_task(struct mt_context *ctx, const struct mt_task *task, const char *folder,
                       struct tally *tally)
{
    struct mt_task_data *data = NULL;
    struct mt_grader grader;
    struct mt_task_sample sample;
    const struct mt_code_judge nobody = {.run = never};
    struct mt_task zero_shot = *task; // examples are of no interest
    zero_shot.few_shot = 0;
    bool by_row = task->compare == MT_COMPARE_INSTRUCTIONS || task->compare == MT_COMPARE_TABLE;
    enum mt_status status = mt_task_data_open(ctx, &zero_shot, folder, &data);
    if (status == MT_OK) status = mt_grader_open(ctx, &zero_shot, &nobody, &grader);
    if (status != MT_OK) print_message("%s\n", ctx->message);
    assert_int_equal(status, MT_OK);
    mt_sample_init(ctx, &sample);
    size_t count = mt_task_data_count(data);
    for (size_t i = 0; i < count && i < (by_row ? MOST_SAMPLES : 1); i++) {
        assert_int_equal(mt_task_data_sample(data, i, &sample), MT_OK);
        judge_loops(&grader, &sample, tally);
    }
    mt_sample_free(&sample);
    mt_grader_free(&grader);
    mt_task_data_close(data);
}

/* Files that hold one task by itself: members of a group judge like each other. */
static void test_shipped_tasks(void **state)
{
    (void)state;
    const char *tasks = getenv("METIER_TASKS");
    struct mt_context ctx;
    struct mt_arena arena;
    struct tally tally = {0};
    struct mt_task seen[MOST_TASKS];
    size_t files = 0;
    char folder[4096];
    assert_non_null(tasks);
    (void)snprintf(folder, sizeof folder, "%s/../samples", tasks);
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    DIR *directory = opendir(tasks);
    assert_non_null(directory);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char name[300];
        struct mt_task_list list = {0};
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        (void)snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        assert_int_equal(mt_task_resolve(&ctx, tasks, name, &arena, &list), MT_OK);
        if (strcmp(list.tasks[0].asked, name) != 0 && list.count > 1) continue;
        size_t at = 0;
        while (at < list.count && !mt_task_data_exists(&list.tasks[at], folder)) at++;
        if (at == list.count) continue;
        size_t before = 0;
        while (before < files && !same_judging(&seen[before], &list.tasks[at])) before++;
        if (before < files) continue;
        assert_true(files < MOST_TASKS);
        seen[files] = list.tasks[at];
        check_task(&ctx, &list.tasks[at], folder, &tally);
        files++;
    }
    (void)closedir(directory);
    printf("%zu kinds of tasks, %zu answers, the slowest %" PRIu64 " blocks\n", files, tally.judged,
           tally.worst);
    assert_true(files >= 20);
    assert_int_equal(tally.slow, 0);
    assert_int_equal(tally.unjudged, 0);
    mt_arena_free(&arena);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ instructions of LiveBench and IFEval

static void test_instructions(void **state)
{
    (void)state;
    static const char values_text[] =
        "{\"keywords\": [\"a\", \"answer\"], \"forbidden_words\": [\"a\", \"x\"], \"keyword\": \"a\","
        " \"frequency\": 3, \"relation\": \"at least\", \"num_words\": 5, \"num_sentences\": 5,"
        " \"num_paragraphs\": 5, \"nth_paragraph\": 1, \"first_word\": \"a\", \"num_bullets\": 2,"
        " \"section_spliter\": \"Section\", \"num_sections\": 2, \"num_placeholders\": 2,"
        " \"postscript_marker\": \"P.P.S\", \"prompt_to_repeat\": \"a a a\", \"end_phrase\": \"a\","
        " \"letter\": \"a\", \"let_frequency\": 3, \"let_relation\": \"at least\", \"num_highlights\": 3,"
        " \"capital_frequency\": 3, \"capital_relation\": \"at least\"}";
    static const char *const names[] = {
        "keywords:existence",
        "keywords:forbidden_words",
        "keywords:frequency",
        "keywords:letter_frequency",
        "change_case:capital_word_frequency",
        "change_case:english_capital",
        "detectable_format:constrained_response",
        "detectable_format:number_highlighted_sections",
        "punctuation:no_comma",
        "length_constraints:number_words",
        "length_constraints:number_sentences",
        "length_constraints:number_paragraphs",
        "length_constraints:nth_paragraph_first_word",
        "detectable_format:number_bullet_lists",
        "detectable_format:multiple_sections",
        "detectable_format:title",
        "detectable_format:json_format",
        "detectable_content:number_placeholders",
        "detectable_content:postscript",
        "combination:two_responses",
        "combination:repeat_prompt",
        "startend:end_checker",
        "startend:quotation",
    };
    static const struct mt_json_limits limits = {.max_bytes = 4096, .max_values = 100, .max_depth = 4};
    struct mt_context ctx;
    struct mt_json json;
    struct tally tally = {0};
    mt_context_init(&ctx, NULL);
    struct mt_byte_list text = {.ctx = &ctx};
    assert_int_equal(mt_json_parse(&ctx, "values", values_text, sizeof values_text - 1, &limits, &json),
                     MT_OK);
    struct mt_json_node values = mt_json_root(&json);
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        write_loop(&loops[i], ANSWER_BYTES, &text);
        struct mt_text answer = {.text = (const char *)text.data, .bytes = text.count};
        for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
            bool known = false;
            enum mt_following following = MT_NOT_FOLLOWED;
            uint64_t start = blocks_run();
            enum mt_status status = mt_instruction_check(&ctx, names[k], &values, answer, &known, &following);
            assert_true(known);
            note(&tally, names[k], &loops[i], start, status == MT_OK ? 0 : 1);
        }
    }
    printf("%zu answers, the slowest %" PRIu64 " blocks\n", tally.judged, tally.worst);
    assert_int_equal(tally.slow, 0);
    assert_int_equal(tally.unjudged, 0);
    mt_json_free(&json);
    mt_byte_list_free(&text);
    assert_int_equal(ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ patterns of others

/* Patterns that are quadratic, cubic or worse: they give up after a bounded work, and say so. */
static void test_limits(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        struct loop loop;
    } rows[] = {
        {"(?i)answer(?: is|:)[^\\d\\n-]*(-?\\$?[\\d,]*\\.?\\d+)", {"The answer is (", ""}},
        {"(\\d+(?:\\s*,\\s*\\d+)+)", {"1", ",x"}},
        {"(?m)^\\s*+[-+]", {"\n", ""}},
        {"(?m)^\\s*[-+]", {"\n", ""}},
        {"(a+)+$", {"a", "b"}},
        {"(?:a|a)*[bx]", {"a", "c"}},
        {"\\[.*?\\]", {"[", "\n]"}},
        {"a*a*a*[bx]", {"a", "c"}},
        {"(?s)(?:.*)*[xy]", {"\n", ""}},
    };
    struct mt_context ctx;
    mt_context_init(&ctx, NULL);
    struct mt_byte_list text = {.ctx = &ctx};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mt_pattern *pattern = NULL;
        struct mt_pattern_match match;
        assert_int_equal(mt_pattern_create(&ctx, rows[i].pattern, &pattern), MT_OK);
        write_loop(&rows[i].loop, LIMIT_BYTES, &text);
        uint64_t start = blocks_run();
        assert_false(mt_pattern_find_last(pattern, (const char *)text.data, text.count, &match));
        uint64_t blocks = blocks_run() - start;
        if (blocks > LIMIT_BLOCKS) print_message("%s: %" PRIu64 " blocks\n", rows[i].pattern, blocks);
        assert_true(blocks <= LIMIT_BLOCKS);
        enum mt_status status = mt_pattern_status(pattern);
        if (status != MT_ERR_LIMIT) print_message("%s: status %d\n", rows[i].pattern, (int)status);
        assert_int_equal(status, MT_ERR_LIMIT);
        // The next text is not the worse for it.
        assert_false(mt_pattern_find(pattern, "?", 1, 0, &match));
        assert_int_equal(mt_pattern_status(pattern), MT_OK);
        mt_pattern_free(pattern);
    }
    mt_byte_list_free(&text);
    assert_int_equal(ctx.live_bytes, 0);
}

/* More matches than any bound on their number: the last one is the last. */
static void test_last_of_many(void **state)
{
    (void)state;
    struct mt_context ctx;
    struct mt_pattern *pattern = NULL;
    struct mt_pattern_match match;
    mt_context_init(&ctx, NULL);
    struct mt_byte_list text = {.ctx = &ctx};
    for (int i = 0; i < 300000; i++) assert_int_equal(mt_byte_list_append_text(&text, "1 "), MT_OK);
    assert_int_equal(mt_byte_list_append_text(&text, "7"), MT_OK);
    assert_int_equal(mt_pattern_create(&ctx, "\\d", &pattern), MT_OK);
    assert_true(mt_pattern_find_last(pattern, (const char *)text.data, text.count, &match));
    assert_int_equal(match.from, 600000);
    assert_int_equal(mt_pattern_status(pattern), MT_OK);
    mt_pattern_free(pattern);
    mt_byte_list_free(&text);
    assert_int_equal(ctx.live_bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shipped_tasks),
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_last_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
