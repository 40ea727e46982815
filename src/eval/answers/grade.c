/* Judging answers. */
#include "eval/answers/grade.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "eval/answers/statement.h"
#include "eval/code/row_cases.h"
#include "eval/instructions/instructions.h"
#include "eval/livebench/livebench.h"
#include "eval/math/answer_math.h"

#define MOST_ITEMS 256

enum mt_status mt_grader_open(struct mt_context *ctx, const struct mt_task *task,
                              const struct mt_code_judge *judge, struct mt_grader *grader)
{
    *grader = (struct mt_grader){.ctx = ctx, .task = task, .judge = judge};
    if (mt_task_runs_programs(task) && judge == NULL) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "task %s runs programs, and this command may not run any",
                       task->name);
    }
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < task->filter_count && status == MT_OK; i++)
        status = mt_extractor_create(ctx, task->filters[i].extract, task->filters[i].extract_count,
                                     &grader->extractors[i]);
    if (status != MT_OK) mt_grader_free(grader);
    return status;
}

void mt_grader_free(struct mt_grader *grader)
{
    for (size_t i = 0; i < MT_MOST_FILTERS; i++) {
        mt_extractor_free(grader->extractors[i]);
        grader->extractors[i] = NULL;
    }
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
            size_t best = diagonal + (mt_text_same(one.each[i], other.each[j]) ? 0 : 1);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return 1.0 - (double)row[other.count] / (double)longer;
}

// ------------------------------------------------------------------ answers

void mt_grade_choice(const struct mt_task_sample *sample, int chosen, struct mt_outcome *outcome)
{
    bool right = chosen >= 0 && (sample->right >> chosen & 1u) != 0;
    *outcome = (struct mt_outcome){.score = right ? 1.0 : 0.0,
                                   .predicted = chosen >= 0 ? (double)chosen : (double)NAN,
                                   .gold = sample->gold,
                                   .normalized = NAN,
                                   .tries = 1,
                                   .passed = right ? 1 : 0};
}

/* The share of the choices' probability that the right ones have; one log-likelihood is finite. */
static double mass_of_right(const struct mt_task_sample *sample, const struct mt_choice_question *question)
{
    double most = -INFINITY;
    double right = 0;
    double all = 0;
    for (size_t k = 0; k < question->count; k++) {
        double score = question->scores[k].log_likelihood;
        if (isfinite(score)) most = fmax(most, score);
    }
    for (size_t k = 0; k < question->count; k++) {
        if (!isfinite(question->scores[k].log_likelihood)) continue;
        double mass = exp(question->scores[k].log_likelihood - most);
        all += mass;
        if ((sample->right >> k & 1u) != 0) right += mass;
    }
    return right / all;
}

/* A choice's length as lm-evaluation-harness counts it: characters, without the space in front. */
static double length_of(struct mt_text choice)
{
    double characters = 0;
    size_t begin = choice.bytes > 0 && choice.text[0] == ' ' ? 1 : 0;
    for (size_t i = begin; i < choice.bytes; i++) {
        if (((unsigned char)choice.text[i] & 0xC0u) != 0x80u) characters++;
    }
    return characters > 0 ? characters : 1;
}

/* The likeliest choice, or the one that is likeliest for its length; -1: no log-likelihood is finite. */
static int best_of(const struct mt_choice_question *question, bool normalized)
{
    int best = -1;
    double most = -INFINITY;
    for (size_t k = 0; k < question->count; k++) {
        double score = question->scores[k].log_likelihood;
        if (normalized) score /= length_of(question->continuations[k]);
        if (!isfinite(score) || (best >= 0 && score <= most)) continue;
        best = (int)k;
        most = score;
    }
    return best;
}

int mt_grade_likeliest(const struct mt_task *task, const struct mt_task_sample *sample,
                       const struct mt_choice_question *question, struct mt_outcome *outcome)
{
    int best = best_of(question, false);
    int normalized = best_of(question, true);
    mt_grade_choice(sample, best, outcome);
    if (normalized >= 0) outcome->normalized = (sample->right >> normalized & 1u) != 0 ? 1.0 : 0.0;
    if (task->answer_is == MT_NAMED_MANY && best >= 0) outcome->score = mass_of_right(sample, question);
    return best;
}

/* The choice whose letter, or whose text where choices have labels, was extracted; -1: none. */
static int chosen_by_text(const struct mt_grader *grader, const struct mt_task_sample *sample,
                          const struct mt_byte_list *extracted)
{
    bool by_text = grader->task->choice_labels != NULL;
    for (size_t i = 0; i < sample->choice_count; i++) {
        bool letter = !by_text && extracted->count == 1 && extracted->data[0] == 'A' + i;
        bool text = by_text && mt_text_same(sample->choices[i], mt_text_in(extracted));
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
    return mt_task_runs_programs(grader->task);
}

/* Takes the letter of an option from the front of "(B) text", "b) text" or "B"; '\0': there is none. */
static char take_letter(struct mt_text *option)
{
    struct mt_text rest = *option;
    (void)mt_text_take(&rest, "(");
    if (rest.bytes == 0 || !isalpha((unsigned char)rest.text[0])) return '\0';
    char letter = (char)toupper((unsigned char)rest.text[0]);
    rest = mt_text_from(rest, 1);
    if (rest.bytes > 0 && rest.text[0] != ')' && rest.text[0] != '.') return '\0';
    if (rest.bytes > 0) rest = mt_text_trimmed(mt_text_from(rest, 1));
    *option = rest;
    return letter;
}

/* True for a stop text that is a label, "\nQuestion:"; without the line's end before it. */
static bool label_of(const char **stop)
{
    size_t length = strlen(*stop);
    bool label = length > 0 && (*stop)[length - 1] == ':';
    if (label && (*stop)[0] == '\n') ++*stop;
    return label;
}

/* Where the search for stop texts begins: behind what the model thought, and behind the question where it
 * says that again first: "**Question:** ...". */
static size_t answer_begin(struct mt_text text, const char *const *stop)
{
    static const char thought[] = "</think>";
    size_t begin = 0;
    for (size_t at = mt_text_find(text, 0, thought); at < text.bytes; at = mt_text_find(text, begin, thought))
        begin = at + sizeof thought - 1;
    size_t word = begin;
    while (word < text.bytes && strchr(" \t\r\n*#_>", text.text[word]) != NULL) word++;
    for (size_t i = 0; stop != NULL && stop[i] != NULL; i++) {
        const char *label = stop[i];
        if (label_of(&label) && mt_text_has(text, word, label)) begin = word + strlen(label);
    }
    return begin;
}

/* Where a turn ends in the templates of chat models. What only begins it may stand before it. */
static size_t turn_end(struct mt_text text)
{
    static const char *const begins[] = {"<|im_start|>", "<|start_header_id|>", "<start_of_turn>"};
    static const char *const marks[] = {"<|im_start|>",
                                        "<|start_header_id|>",
                                        "<start_of_turn>",
                                        "<|user|>",
                                        "<｜User｜>",
                                        "[INST]",
                                        "</s>",
                                        "<eos>",
                                        "<|endoftext|>",
                                        "<|end_of_text|>",
                                        "<|end|>",
                                        "<|im_end|>",
                                        "<|eot_id|>",
                                        "<|eom_id|>",
                                        "<|end_of_turn|>",
                                        "<|return|>",
                                        "<end_of_turn>",
                                        "<|END_OF_TURN_TOKEN|>",
                                        "<｜end▁of▁sentence｜>",
                                        NULL};
    size_t begin = 0;
    while (begin < text.bytes && isspace((unsigned char)text.text[begin])) begin++;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (mt_text_has(text, begin, begins[i])) begin += strlen(begins[i]);
    }
    return begin + mt_text_until(mt_text_from(text, begin), marks).bytes;
}

/* Where an answer ends: at the first of the stop texts. A label, "Question:", within a line or in markup says
 * the question again, as long as no answer is announced. */
static size_t stop_at(struct mt_text text, size_t begin, const char *const *stop)
{
    size_t announced = begin + mt_statement_announced(mt_text_from(text, begin));
    size_t end = text.bytes;
    for (size_t i = 0; stop != NULL && stop[i] != NULL; i++) {
        const char *word = stop[i];
        bool label = label_of(&word);
        size_t at = mt_text_find(text, begin, word);
        while (at < end && label && at > begin && text.text[at - 1] != '\n' &&
               (at < announced || isalnum((unsigned char)text.text[at - 1])))
            at = mt_text_find(text, at + 1, word);
        if (at < end) end = at;
    }
    return end;
}

/*
 * The part of an answer that is read: up to the task's first stop text, where a model ends and a file may go
 * on. A task whose text is fixed is read as others read it, to the letter.
 */
static struct mt_text answer_of(const struct mt_task *task, struct mt_text text)
{
    if (task->form != NULL) return mt_text_until(text, task->stop);
    size_t begin = answer_begin(text, task->stop);
    text.bytes = stop_at(text, begin, task->stop);
    if (!mt_task_runs_programs(task)) // a program may hold such a text
        text.bytes = begin + turn_end(mt_text_from(text, begin));
    return text;
}

/* What a filter finds in an answer. `wanted` are the tests of a program, else empty. */
static enum mt_status extract(const struct mt_grader *grader, size_t filter,
                              const struct mt_task_sample *sample, struct mt_text text, struct mt_text wanted,
                              struct mt_byte_list *extracted, bool *found)
{
    text = answer_of(grader->task, text);
    int choices = (int)sample->choice_count;
    struct mt_text right = mt_text_in(&sample->answer);
    // An option whose letter nobody knows is judged by its text.
    if (grader->task->compare == MT_COMPARE_OPTION && take_letter(&right) == '\0') choices = -1;
    return mt_extract_wanted(grader->extractors[filter], text.text, text.bytes, choices, wanted, extracted,
                             found);
}

/* The program in an answer, as `program` has it where the task has one. */
static enum mt_status add_program(const struct mt_grader *grader, const struct mt_task_sample *sample,
                                  struct mt_text text, struct mt_text wanted, struct mt_byte_list *extracted,
                                  struct mt_byte_list *program, int64_t *unjudged)
{
    bool found = false;
    enum mt_status status = extract(grader, 0, sample, text, wanted, extracted, &found);
    status = note_limit(status, unjudged);
    if (status != MT_OK || !found) return status;
    struct mt_prompt_names names = mt_sample_names(grader->task, sample);
    struct mt_text completion = mt_text_in(extracted);
    names.completion = &completion;
    if (grader->task->program == NULL) return mt_byte_list_append(program, completion.text, completion.bytes);
    return mt_prompt_render(grader->task->program, &sample->row, &names, program);
}

/* Tests and what they need, of the task's templates. */
static enum mt_status add_tests(const struct mt_grader *grader, const struct mt_task_sample *sample,
                                struct mt_byte_list parts[MT_TRIAL_PARTS], struct mt_code_trial *trial)
{
    const struct mt_prompt_names names = mt_sample_names(grader->task, sample);
    const char *const templates[MT_TRIAL_PARTS] = {[MT_TRIAL_GIVEN] = grader->task->given,
                                                   [MT_TRIAL_TESTS] = grader->task->tests,
                                                   [MT_TRIAL_CALLS] = grader->task->calls};
    enum mt_status status = MT_OK;
    for (int i = 0; i < MT_TRIAL_PARTS && status == MT_OK; i++) {
        if (templates[i] != NULL) status = mt_prompt_render(templates[i], &sample->row, &names, &parts[i]);
        trial->part[i] = mt_text_in(&parts[i]);
    }
    return status;
}

/* The row's cases, which may be many megabytes: they stay where they are. */
static enum mt_status add_cases(const struct mt_row *row, struct mt_byte_list parts[MT_TRIAL_PARTS],
                                struct mt_code_trial *trial)
{
    struct mt_row_cases cases;
    enum mt_status status = mt_row_cases_find(row, &cases);
    if (status == MT_OK) status = mt_row_cases_write(&cases, &parts[MT_TRIAL_CALLS]);
    trial->kind = MT_TRIAL_BY_CASES;
    trial->part[MT_TRIAL_GIVEN] = cases.public_cases;
    trial->part[MT_TRIAL_TESTS] = cases.private_cases;
    trial->part[MT_TRIAL_CALLS] = mt_text_in(&parts[MT_TRIAL_CALLS]);
    return status;
}

enum mt_status mt_grade_program(const struct mt_grader *grader, const struct mt_task_sample *sample,
                                struct mt_text text, struct mt_byte_list *extracted,
                                struct mt_byte_list parts[MT_TRIAL_PARTS], struct mt_code_trial *trial,
                                int64_t *unjudged)
{
    *trial = (struct mt_code_trial){0};
    bool cases = grader->task->compare == MT_COMPARE_LIVECODEBENCH;
    enum mt_status status =
        cases ? add_cases(&sample->row, parts, trial) : add_tests(grader, sample, parts, trial);
    if (status != MT_OK) return status;
    bool calls = trial->part[MT_TRIAL_CALLS].bytes > 0;
    struct mt_text wanted = cases ? mt_text_of("") : trial->part[calls ? MT_TRIAL_CALLS : MT_TRIAL_TESTS];
    struct mt_byte_list *program = &parts[MT_TRIAL_ANSWER];
    status = add_program(grader, sample, text, wanted, extracted, program, unjudged);
    trial->part[MT_TRIAL_ANSWER] = mt_text_in(program);
    return status;
}

void mt_grade_passed(const struct mt_code_verdict *verdicts, size_t count, struct mt_outcome *outcome)
{
    *outcome = (struct mt_outcome){.predicted = NAN, .gold = NAN, .normalized = NAN, .tries = (int64_t)count};
    for (size_t i = 0; i < count; i++) outcome->passed += verdicts[i].passed ? 1 : 0;
    outcome->score = count > 0 && verdicts[0].passed ? 1.0 : 0.0;
}

// ------------------------------------------------------------------ a judge that is a program

bool mt_grader_asks_command(const struct mt_grader *grader)
{
    return grader->task->compare == MT_COMPARE_COMMAND;
}

/* The row as its file has it where that is JSON, on one line; else its fields as texts. */
static enum mt_status put_fields(struct mt_text_writer *rows, const struct mt_row *row)
{
    struct mt_json_node value;
    size_t begin = rows->text.count;
    if (row->field_count > 0 && mt_row_value(row, row->fields[0].name, &value)) {
        if (rows->status == MT_OK)
            rows->status = mt_byte_list_append(&rows->text, row->source, row->source_bytes);
        for (size_t i = begin; i < rows->text.count; i++) {
            if (rows->text.data[i] < ' ') rows->text.data[i] = ' '; // between values: texts have none
        }
        return rows->status;
    }
    for (size_t i = 0; i < row->field_count; i++) {
        const struct mt_row_field *field = &row->fields[i];
        mt_text_put_string(rows, i > 0 ? ", " : "{", mt_text_of(field->name));
        mt_text_put_string(rows, ": ", (struct mt_text){.text = field->text, .bytes = field->bytes});
    }
    mt_text_put(rows, row->field_count > 0 ? "}" : "{}");
    return rows->status;
}

enum mt_status mt_grade_row(const struct mt_grader *grader, const struct mt_task_sample *sample,
                            struct mt_text text, struct mt_byte_list *extracted, struct mt_text_writer *rows)
{
    bool found = false;
    enum mt_status status = extract(grader, 0, sample, text, mt_text_of(""), extracted, &found);
    if (status != MT_OK && status != MT_ERR_LIMIT) return status;
    mt_text_put_string(rows, "{\"task\": ", mt_text_of(grader->task->name));
    mt_text_put_string(rows, ", \"id\": ", mt_text_of(sample->id));
    mt_text_put(rows, ", \"row\": ");
    (void)put_fields(rows, &sample->row);
    mt_text_put_string(rows, ", \"prompt\": ", mt_text_in(&sample->prompt));
    mt_text_put_string(rows, ", \"target\": ", mt_text_in(&sample->answer));
    mt_text_put_string(rows, ", \"answer\": ", text);
    if (found) mt_text_put_string(rows, ", \"extracted\": ", mt_text_in(extracted));
    mt_text_put(rows, found ? "}\n" : ", \"extracted\": null}\n");
    return rows->status;
}

void mt_grade_command(const struct mt_code_verdict *verdicts, size_t count, struct mt_outcome *outcome)
{
    *outcome = (struct mt_outcome){.score = count > 0 ? verdicts[0].score : NAN,
                                   .predicted = NAN,
                                   .gold = NAN,
                                   .normalized = NAN,
                                   .tries = (int64_t)count};
    for (size_t i = 0; i < count; i++) {
        outcome->passed += verdicts[i].passed ? 1 : 0;
        outcome->unjudged += isnan(verdicts[i].score) ? 1 : 0;
    }
}

// ------------------------------------------------------------------ judges

static enum mt_status judge_text(struct mt_context *ctx, const struct mt_byte_list *said,
                                 const struct mt_byte_list *right, struct mt_outcome *outcome)
{
    (void)ctx;
    outcome->score = mt_text_same(mt_text_in(said), mt_text_in(right)) ? 1.0 : 0.0;
    return MT_OK;
}

static enum mt_status judge_math(struct mt_context *ctx, const struct mt_byte_list *said,
                                 const struct mt_byte_list *right, struct mt_outcome *outcome)
{
    bool equal = false;
    enum mt_status status = mt_math_compare(ctx, (const char *)said->data, said->count,
                                            (const char *)right->data, right->count, &equal);
    outcome->score = equal ? 1.0 : 0.0;
    return status;
}

static enum mt_status judge_list(struct mt_context *ctx, const struct mt_byte_list *said,
                                 const struct mt_byte_list *right, struct mt_outcome *outcome)
{
    (void)ctx;
    outcome->score = similarity(said, right);
    return MT_OK;
}

static enum mt_status judge_numbers(struct mt_context *ctx, const struct mt_byte_list *said,
                                    const struct mt_byte_list *right, struct mt_outcome *outcome)
{
    (void)ctx;
    outcome->predicted = number_of(said);
    outcome->gold = number_of(right);
    outcome->score = outcome->predicted == outcome->gold ? 1.0 : 0.0;
    return MT_OK;
}

/* True when a sentence ends with the text of an option: "Bob has the green ball". */
static bool ends_with(struct mt_text sentence, struct mt_text option)
{
    if (option.bytes == 0 || sentence.bytes <= option.bytes) return mt_text_same(sentence, option);
    struct mt_text before = {.text = sentence.text, .bytes = sentence.bytes - option.bytes};
    bool denied = before.bytes > 4 && mt_text_has(before, before.bytes - 5, " not ");
    return mt_text_same(mt_text_from(sentence, before.bytes), option) && !denied &&
           before.text[before.bytes - 1] == ' ';
}

/* True when another letter stands behind that of an option: "(A) and (B)". */
static bool goes_on(struct mt_text rest)
{
    static const char *const joints[] = {",", "and ", "or ", "and/or ", "/", "&"};
    for (size_t i = 0; i < sizeof joints / sizeof joints[0]; i++) {
        struct mt_text other = rest;
        if (!mt_text_take(&other, joints[i])) continue;
        other = mt_text_trimmed(other);
        return mt_text_take(&other, "(") && other.bytes > 1 && other.text[1] == ')';
    }
    return false;
}

/* A letter decides where both have one, else the text. */
static enum mt_status judge_option(struct mt_context *ctx, const struct mt_byte_list *said,
                                   const struct mt_byte_list *right, struct mt_outcome *outcome)
{
    (void)ctx;
    struct mt_text one = mt_text_in(said);
    struct mt_text other = mt_text_in(right);
    char letter = take_letter(&one);
    char gold = take_letter(&other);
    bool letters = letter != '\0' && gold != '\0';
    bool same = letters ? letter == gold && !goes_on(one) : one.bytes > 0 && ends_with(one, other);
    outcome->score = same ? 1.0 : 0.0;
    return MT_OK;
}

/*
 * The judges, by the task's key `compare`: of two normalised texts, or of the row, where the answer is no
 * text that could be held against another; `marks` are of its instructions. Programs have none here: they are
 * run. Nor has what a program judges.
 */
static const struct judge {
    enum mt_status (*texts)(struct mt_context *ctx, const struct mt_byte_list *said,
                            const struct mt_byte_list *right, struct mt_outcome *outcome);
    mt_livebench_rule *row;
    enum mt_status (*marks)(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                            struct mt_instruction_marks *marks);
} judges[] = {
    [MT_COMPARE_TEXT] = {.texts = judge_text},
    [MT_COMPARE_MATH] = {.texts = judge_math},
    [MT_COMPARE_LIST] = {.texts = judge_list},
    [MT_COMPARE_NUMBERS] = {.texts = judge_numbers},
    [MT_COMPARE_INSTRUCTIONS] = {.row = mt_livebench_instructions},
    [MT_COMPARE_TABLE] = {.row = mt_livebench_table},
    [MT_COMPARE_MAPPING] = {.row = mt_livebench_mapping},
    [MT_COMPARE_LIVEBENCH] = {.row = mt_livebench_answer},
    [MT_COMPARE_OPTION] = {.texts = judge_option},
    [MT_COMPARE_IFEVAL] = {.marks = mt_ifeval_judge},
};

/* Instruction by instruction. An answer without a verdict on all of them counts as unjudged. */
static enum mt_status grade_marks(const struct mt_grader *grader, const struct mt_task_sample *sample,
                                  struct mt_text text, struct mt_outcome *outcome)
{
    enum mt_status status =
        judges[grader->task->compare].marks(grader->ctx, &sample->row, text, &outcome->marks);
    outcome->unjudged = (outcome->marks.strict_open | outcome->marks.loose_open) != 0 ? 1 : 0;
    outcome->score = mt_metric_follows_all(&outcome->marks, false);
    outcome->passed = outcome->score == 1.0 ? 1 : 0;
    return status;
}

/* Normalises copies of what was extracted and of the right answer, and compares them. */
static enum mt_status compare(const struct mt_grader *grader, const struct mt_task_filter *filter,
                              const struct mt_byte_list *extracted, const struct mt_byte_list *answer,
                              struct mt_outcome *outcome)
{
    struct mt_byte_list said = {.ctx = grader->ctx};
    struct mt_byte_list right = {.ctx = grader->ctx};
    enum mt_status status = mt_byte_list_append(&said, extracted->data, extracted->count);
    if (status == MT_OK) status = mt_byte_list_append(&right, answer->data, answer->count);
    if (status == MT_OK) {
        mt_normalize_text(&said, filter->normalize, filter->normalize_count);
        mt_normalize_text(&right, filter->normalize, filter->normalize_count);
        status = judges[grader->task->compare].texts(grader->ctx, &said, &right, outcome);
    }
    mt_byte_list_free(&said);
    mt_byte_list_free(&right);
    return status;
}

enum mt_status mt_grade(const struct mt_grader *grader, const struct mt_task_sample *sample,
                        struct mt_text text, struct mt_byte_list *extracted, struct mt_outcome *outcome)
{
    return mt_grade_filter(grader, 0, sample, text, extracted, outcome);
}

enum mt_status mt_grade_filter(const struct mt_grader *grader, size_t filter,
                               const struct mt_task_sample *sample, struct mt_text text,
                               struct mt_byte_list *extracted, struct mt_outcome *outcome)
{
    const struct judge *judge = &judges[grader->task->compare];
    bool found = false;
    int64_t unjudged = 0;
    *outcome = (struct mt_outcome){.predicted = NAN, .gold = NAN, .normalized = NAN, .tries = 1};
    enum mt_status status = extract(grader, filter, sample, text, mt_text_of(""), extracted, &found);
    status = note_limit(status, &unjudged);
    if (status != MT_OK) return status;
    if (judge->marks != NULL) return grade_marks(grader, sample, mt_text_in(extracted), outcome);
    if (sample->choice_count > 0) {
        mt_grade_choice(sample, found ? chosen_by_text(grader, sample, extracted) : -1, outcome);
        outcome->found = found ? 1 : 0;
        outcome->unjudged = unjudged;
        return MT_OK;
    }
    outcome->found = found ? 1 : 0;
    if (judge->row == NULL) {
        status = compare(grader, &grader->task->filters[filter], extracted, &sample->answer, outcome);
    } else if (found) {
        status =
            mt_livebench_judge(grader->ctx, judge->row, &sample->row, mt_text_in(extracted), &outcome->score);
        status = note_limit(status, &unjudged);
    }
    if (!found || unjudged > 0) outcome->score = 0.0;
    outcome->unjudged = unjudged;
    outcome->passed = outcome->score == 1.0 ? 1 : 0;
    return status;
}
