/* Judging answers. */
#include "eval/answers/grade.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/livebench/livebench.h"
#include "eval/math/answer_math.h"

#define MOST_ITEMS 256

enum mt_status mt_grader_open(struct mt_context *ctx, const struct mt_task *task,
                              const struct mt_code_judge *judge, struct mt_grader *grader)
{
    *grader = (struct mt_grader){.ctx = ctx, .task = task, .judge = judge};
    if (task->compare == MT_COMPARE_CODE && judge == NULL) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "task %s runs programs, and nothing here may run them",
                       task->name);
    }
    return mt_extractor_create(ctx, task->extract, task->extract_count, &grader->extractor);
}

void mt_grader_free(struct mt_grader *grader)
{
    mt_extractor_free(grader->extractor);
    grader->extractor = NULL;
}

/* A number as text, separators out; NaN: none. */
static double number_of(const struct mt_byte_list *text)
{
    char digits[64];
    size_t length = 0;
    for (size_t i = 0; i < text->count && length < sizeof digits - 1; i++) {
        if (text->data[i] != ',' && text->data[i] != '$') digits[length++] = (char)text->data[i];
    }
    digits[length] = '\0';
    char *end = NULL;
    double value = strtod(digits, &end);
    return end != digits && isfinite(value) ? value : NAN;
}

static bool same_text(const struct mt_byte_list *a, const struct mt_byte_list *b)
{
    return a->count == b->count && (a->count == 0 || memcmp(a->data, b->data, a->count) == 0);
}

// ------------------------------------------------------------------ lists

struct items {
    struct mt_text each[MOST_ITEMS];
    size_t count;
};

/* What stands between commas, without white space around. */
static void split(const struct mt_byte_list *text, struct items *items)
{
    const char *at = (const char *)text->data;
    const char *end = at + text->count;
    items->count = 0;
    while (at < end && items->count < MOST_ITEMS) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        const char *last = stop;
        while (at < last && *at == ' ') at++;
        while (last > at && last[-1] == ' ') last--;
        items->each[items->count++] = (struct mt_text){.text = at, .bytes = (size_t)(last - at)};
        at = stop + 1;
    }
}

/* 1 - edits / items of the longer list: 1 for the same lists, 0 for lists with nothing in common. */
static double similarity(const struct mt_byte_list *a, const struct mt_byte_list *b)
{
    struct items one;
    struct items other;
    size_t row[MOST_ITEMS + 1];
    split(a, &one);
    split(b, &other);
    size_t longer = one.count > other.count ? one.count : other.count;
    if (longer == 0) return 0.0;
    for (size_t j = 0; j <= other.count; j++) row[j] = j;
    for (size_t i = 0; i < one.count; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < other.count; j++) {
            const struct mt_text *x = &one.each[i];
            const struct mt_text *y = &other.each[j];
            bool same = x->bytes == y->bytes && memcmp(x->text, y->text, x->bytes) == 0;
            size_t best = diagonal + (same ? 0 : 1);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return 1.0 - (double)row[other.count] / (double)longer;
}

// ------------------------------------------------------------------ answers

void mt_grade_choice(const struct mt_sample *sample, int chosen, struct mt_outcome *outcome)
{
    bool right = chosen >= 0 && chosen == sample->gold;
    *outcome = (struct mt_outcome){.score = right ? 1.0 : 0.0,
                                   .predicted = chosen >= 0 ? (double)chosen : (double)NAN,
                                   .gold = sample->gold,
                                   .tries = 1,
                                   .passed = right ? 1 : 0};
}

/* The choice whose letter, or whose text where choices have labels, was extracted; -1: none. */
static int chosen_by_text(const struct mt_grader *grader, const struct mt_sample *sample,
                          const struct mt_byte_list *extracted)
{
    bool by_text = grader->task->choice_labels != NULL;
    for (size_t i = 0; i < sample->choice_count; i++) {
        const struct mt_text *choice = &sample->choices[i];
        bool letter = !by_text && extracted->count == 1 && extracted->data[0] == 'A' + i;
        bool text = by_text && choice->bytes == extracted->count &&
                    memcmp(choice->text, extracted->data, choice->bytes) == 0;
        if (letter || text) return (int)i;
    }
    return -1;
}

/* An answer whose judging took more work than allowed counts as wrong, and is counted. */
static enum mt_status note_limit(enum mt_status status, int64_t *unjudged)
{
    *unjudged = status == MT_ERR_LIMIT ? 1 : 0;
    return status == MT_ERR_LIMIT ? MT_OK : status;
}

bool mt_grader_runs_programs(const struct mt_grader *grader)
{
    return grader->task->compare == MT_COMPARE_CODE;
}

enum mt_status mt_grade_program(const struct mt_grader *grader, const struct mt_sample *sample,
                                const char *text, size_t bytes, struct mt_byte_list *extracted,
                                struct mt_byte_list parts[MT_TRIAL_PARTS], int64_t *unjudged)
{
    bool found = false;
    enum mt_status status =
        mt_extract(grader->extractor, text, bytes, (int)sample->choice_count, extracted, &found);
    status = note_limit(status, unjudged);
    if (status != MT_OK || !found) return status;
    struct mt_text completion = {.text = (const char *)extracted->data, .bytes = extracted->count};
    struct mt_prompt_names names = mt_sample_names(grader->task, sample);
    const char *const templates[MT_TRIAL_PARTS] = {[MT_TRIAL_ANSWER] = grader->task->program,
                                                   [MT_TRIAL_GIVEN] = grader->task->given,
                                                   [MT_TRIAL_TESTS] = grader->task->tests,
                                                   [MT_TRIAL_CALLS] = grader->task->calls};
    for (int i = 0; i < MT_TRIAL_PARTS && status == MT_OK; i++) {
        names.completion = i == MT_TRIAL_ANSWER ? &completion : NULL;
        if (templates[i] != NULL) status = mt_prompt_render(templates[i], &sample->row, &names, &parts[i]);
    }
    return status;
}

void mt_grade_passed(const bool *passed, size_t count, struct mt_outcome *outcome)
{
    *outcome = (struct mt_outcome){.predicted = NAN, .gold = NAN, .tries = (int64_t)count};
    for (size_t i = 0; i < count; i++) outcome->passed += passed[i] ? 1 : 0;
    outcome->score = count > 0 && passed[0] ? 1.0 : 0.0;
}

/* Compares two texts after normalising; both are changed. */
static enum mt_status compare(const struct mt_grader *grader, struct mt_byte_list *one,
                              struct mt_byte_list *gold, struct mt_outcome *outcome)
{
    const struct mt_task *task = grader->task;
    enum mt_status status = MT_OK;
    bool right = false;
    mt_normalize_text(one, task->normalize, task->normalize_count);
    mt_normalize_text(gold, task->normalize, task->normalize_count);
    switch (task->compare) {
    case MT_COMPARE_MATH:
        status = mt_math_compare(grader->ctx, (const char *)one->data, one->count, (const char *)gold->data,
                                 gold->count, &right, NULL);
        outcome->score = right ? 1.0 : 0.0;
        break;
    case MT_COMPARE_LIST: outcome->score = similarity(one, gold); break;
    case MT_COMPARE_NUMBERS:
        outcome->predicted = number_of(one);
        outcome->gold = number_of(gold);
        outcome->score = outcome->predicted == outcome->gold ? 1.0 : 0.0;
        break;
    default: outcome->score = same_text(one, gold) ? 1.0 : 0.0; break;
    }
    return status;
}

/* LiveBench's rules look at the row, not at a text that is the answer. */
static bool judged_by_row(enum mt_task_compare compare)
{
    return compare == MT_COMPARE_INSTRUCTIONS || compare == MT_COMPARE_TABLE || compare == MT_COMPARE_MAPPING;
}

static enum mt_status judge_by_row(const struct mt_grader *grader, const struct mt_sample *sample,
                                   struct mt_text answer, double *score)
{
    switch (grader->task->compare) {
    case MT_COMPARE_TABLE: return mt_livebench_table(grader->ctx, &sample->row, answer, score);
    case MT_COMPARE_MAPPING: return mt_livebench_mapping(grader->ctx, &sample->row, answer, score);
    default: return mt_livebench_instructions(grader->ctx, &sample->row, answer, score);
    }
}

enum mt_status mt_grade(const struct mt_grader *grader, const struct mt_sample *sample, const char *text,
                        size_t bytes, struct mt_byte_list *extracted, struct mt_outcome *outcome)
{
    bool found = false;
    int64_t unjudged = 0;
    *outcome = (struct mt_outcome){.predicted = NAN, .gold = NAN, .tries = 1};
    enum mt_status status =
        mt_extract(grader->extractor, text, bytes, (int)sample->choice_count, extracted, &found);
    status = note_limit(status, &unjudged);
    if (status != MT_OK) return status;
    if (sample->choice_count > 0) {
        mt_grade_choice(sample, found ? chosen_by_text(grader, sample, extracted) : -1, outcome);
        outcome->unjudged = unjudged;
        return MT_OK;
    }
    if (judged_by_row(grader->task->compare)) {
        struct mt_text answer = {.text = (const char *)extracted->data, .bytes = extracted->count};
        if (found) status = note_limit(judge_by_row(grader, sample, answer, &outcome->score), &unjudged);
        if (unjudged > 0) outcome->score = 0.0;
        outcome->unjudged = unjudged;
        outcome->passed = outcome->score == 1.0 ? 1 : 0;
        return status;
    }
    struct mt_byte_list one = {.ctx = grader->ctx};
    struct mt_byte_list gold = {.ctx = grader->ctx};
    status = mt_byte_list_append(&one, extracted->data, extracted->count);
    if (status == MT_OK) status = mt_byte_list_append(&gold, sample->answer.data, sample->answer.count);
    if (status == MT_OK) status = compare(grader, &one, &gold, outcome);
    if (!found) outcome->score = 0.0;
    mt_byte_list_free(&one);
    mt_byte_list_free(&gold);
    outcome->unjudged = unjudged;
    outcome->passed = outcome->score == 1.0 ? 1 : 0;
    return status;
}
