/*
 * LiveBench's judges of puzzles and column types (livebench/process_results: zebra_puzzle, spatial,
 * web_of_lies_v2, cta), and which judge a row has.
 */
#include <stdio.h>
#include <string.h>

#include "eval/livebench/contests.h"
#include "eval/livebench/livebench.h"
#include "formats/text/utf8.h"

#define LAST_BOLD       3 // of spatial: how many of the last bold words may be the answer
#define MOST_LIES       3 // of web_of_lies: answers
#define NEW_ZEBRA_SINCE "2024-11-25"

static const char *const latex_marks[] = {"\\text{", "}", "\\", NULL};

static double truth(bool right)
{
    return right ? 1.0 : 0.0;
}

/* text.strip().lower(). */
static struct mt_text plain(struct mt_python *python, struct mt_text text)
{
    return mt_python_lower(python, mt_livebench_stripped(text));
}

/* The box of an answer, after "\\fbox" has become "\\boxed" where two backslashes stand before it. */
static bool boxed(struct mt_python *python, struct mt_text *answer, struct mt_text *inner)
{
    *answer = mt_python_replace(python, *answer, "\\\\fbox{", "\\\\boxed{");
    return mt_python_boxed(python, *answer, inner);
}

// ------------------------------------------------------------------ column types

static double judge_column_type(struct mt_python *python, const struct mt_livebench_question *question)
{
    struct mt_text said = question->answer;
    if (mt_text_find(said, 0, "\\boxed{") < said.bytes) {
        if (!mt_python_boxed(python, said, &said)) return 0.0;
        said = mt_python_without(python, said, latex_marks);
    }
    said = mt_python_words_only(python, plain(python, said));
    struct mt_text right = mt_python_words_only(python, plain(python, question->truth));
    if (mt_text_same(said, right)) return 1.0;
    // The end of the answer will do.
    if (right.bytes == 0 || said.bytes < right.bytes) return 0.0;
    return truth(mt_text_same(mt_text_from(said, said.bytes - right.bytes), right));
}

// ------------------------------------------------------------------ spatial

/* The next match of **([^*]+)** at or behind *at. */
static bool next_bold(struct mt_text text, size_t *at, struct mt_text *word)
{
    for (size_t i = mt_text_find(text, *at, "**"); i < text.bytes; i = mt_text_find(text, i + 1, "**")) {
        size_t end = mt_text_find(text, i + 2, "*");
        if (end == i + 2 || !mt_text_has(text, end, "**")) continue;
        *word = (struct mt_text){.text = text.text + i + 2, .bytes = end - i - 2};
        *at = end + 2;
        return true;
    }
    return false;
}

static bool is_spatial(struct mt_text word, struct mt_text right)
{
    static const char *const numbers[] = {
        "zero",     "one",     "two",     "three",     "four",     "five",     "six",
        "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
        "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"};
    static const char *const shapes[] = {"tetrahedra", "tetrahedron", "triangle", "square"};
    if (mt_text_same(word, right)) return true;
    for (int i = 0; i <= 20; i++) {
        const char digits[3] = {(char)('0' + (i < 10 ? i : i / 10)), (char)(i < 10 ? '\0' : '0' + i % 10),
                                '\0'};
        if (mt_text_is(word, numbers[i]) && mt_text_is(right, digits)) return true;
    }
    // "equilateral triangle" is a triangle, "circle square triangle" is not.
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct mt_text shape = mt_text_of(shapes[i]);
        if (mt_text_same(right, shape) && mt_python_in(shape, word) &&
            mt_python_length(word) < 2 * shape.bytes + 5)
            return true;
    }
    return false;
}

static double judge_spatial(struct mt_python *python, const struct mt_livebench_question *question)
{
    static const char *const marks[] = {"\\textbf{", "\\mathbf{", "\\text{", "}", NULL};
    struct mt_text answer = question->answer;
    struct mt_text right = plain(python, question->truth);
    struct mt_text last[LAST_BOLD];
    struct mt_text word;
    size_t count = 0;
    if (mt_text_same(answer, question->truth)) return 1.0;
    for (size_t at = 0; next_bold(answer, &at, &word); count++) last[count % LAST_BOLD] = word;
    for (size_t i = 0; i < count && i < LAST_BOLD; i++) {
        if (is_spatial(plain(python, last[i]), right)) return 1.0;
    }
    if (!boxed(python, &answer, &word)) return 0.0;
    return truth(mt_text_same(mt_python_without(python, word, marks), question->truth));
}

// ------------------------------------------------------------------ zebra puzzles

/* The next run of \w at or behind *at, between the marks where they are not empty. */
static bool next_word(struct mt_text text, size_t *at, const char *mark, struct mt_text *word)
{
    const uint8_t *data = (const uint8_t *)text.text;
    size_t bytes = 0;
    for (size_t i = *at; i < text.bytes; i += mt_utf8_length(data[i])) {
        size_t from = i + strlen(mark);
        size_t end = from;
        if (!mt_text_has(text, i, mark)) continue;
        while (end < text.bytes && mt_python_is_word(mt_utf8_decode(data + end, &bytes))) end += bytes;
        if (end == from || !mt_text_has(text, end, mark)) continue;
        *word = (struct mt_text){.text = text.text + from, .bytes = end - from};
        *at = end + strlen(mark);
        return true;
    }
    return false;
}

/* The rule of the first puzzles, with one answer: the last word in ***, else the last word. */
static double judge_old_zebra(struct mt_python *python, const struct mt_livebench_question *question)
{
    static const char *const digits[] = {"one", "two",   "three", "four", "five",
                                         "six", "seven", "eight", "nine"};
    struct mt_text word = mt_text_of("");
    struct mt_text right = mt_python_lower(python, question->truth);
    bool found = false;
    for (size_t at = 0; next_word(question->answer, &at, "***", &word);) found = true;
    for (size_t at = 0; !found && next_word(question->answer, &at, "", &word);) continue;
    struct mt_text lower = mt_python_lower(python, word);
    if (mt_text_same(lower, right)) return 1.0;
    if (word.bytes == 1 && word.text[0] >= '1' && word.text[0] <= '9' &&
        mt_text_is(right, digits[word.text[0] - '1']))
        return 1.0;
    static const char movies[] = " movies";
    size_t length = sizeof movies - 1;
    return truth(right.bytes == lower.bytes + length && mt_text_has(right, lower.bytes, movies) &&
                 mt_text_same((struct mt_text){.text = right.text, .bytes = lower.bytes}, lower));
}

/* The pieces between commas of all solutions of an answer. */
struct pieces {
    struct mt_text solution; // the only one; NULL text: there are several, or none
    size_t solutions;
    size_t count; // of pieces
};

static void count_pieces(struct mt_text text, const char *before, struct pieces *pieces)
{
    struct mt_text solution;
    for (size_t at = 0; mt_python_next_between(text, &at, before, "</solution>", &solution);) {
        pieces->solution = solution;
        pieces->solutions++;
        pieces->count += 1 + mt_python_count(solution, ",");
    }
}

/* True when a piece of the answer holds the right word. */
static bool holds(struct mt_python *python, struct mt_text said, struct mt_text right)
{
    static const char *const position[] = {"position", NULL};
    right = mt_python_replace(python, plain(python, right), "-", " ");
    said = mt_python_replace(python, plain(python, said), "-", " ");
    return mt_python_in(right, mt_python_without(python, said, position));
}

/*
 * Of the right words in order, how many the pieces hold. `before` finds the solutions where there are
 * several, whose last pieces count.
 */
static size_t count_right(struct mt_python *python, const struct mt_livebench_question *question,
                          const struct pieces *pieces, const char *before, size_t words)
{
    struct mt_split truth = {.rest = question->truth};
    struct mt_text right;
    struct mt_text said;
    struct mt_text solution = pieces->solution;
    size_t skip = pieces->solutions > 1 && pieces->count > words ? pieces->count - words : 0;
    size_t hits = 0;
    size_t at = 0;
    bool more = pieces->solutions <= 1 ||
                mt_python_next_between(question->answer, &at, before, "</solution>", &solution);
    while (more && !truth.over) {
        struct mt_split split = {.rest = solution};
        while (mt_python_split(&split, ",", &said)) {
            if (skip > 0) {
                skip--;
            } else if (mt_python_split(&truth, ",", &right)) {
                hits += holds(python, said, right) ? 1 : 0;
            }
        }
        more = pieces->solutions > 1 &&
               mt_python_next_between(question->answer, &at, before, "</solution>", &solution);
    }
    return hits;
}

static double judge_zebra(struct mt_python *python, const struct mt_livebench_question *question)
{
    if (strcmp(question->released, NEW_ZEBRA_SINCE) < 0) return judge_old_zebra(python, question);
    const char *before = "<solution>";
    struct mt_text answer = question->answer;
    struct pieces pieces = {0};
    size_t words = 1 + mt_python_count(question->truth, ",");
    count_pieces(answer, before, &pieces);
    if (pieces.solutions == 0) before = "</solution>";
    if (pieces.solutions == 0) count_pieces(answer, before, &pieces);
    if (pieces.solutions == 0 && boxed(python, &answer, &pieces.solution)) {
        pieces.solution = mt_python_without(python, pieces.solution, latex_marks);
        pieces.solutions = 1;
    }
    if (python->raised) return 0.0;
    if (pieces.solutions == 0) {
        pieces.solution = mt_python_last_line(answer);
        if (mt_python_count(pieces.solution, ",") != words - 1) return 0.0;
        pieces.solutions = 1;
    }
    size_t hits = count_right(python, question, &pieces, before, words);
    return (truth(hits == words) + (double)hits / (double)words) / 2.0;
}

// ------------------------------------------------------------------ web of lies

static const char *const lies[] = {"yes", "no", "unknown"};

/* The last three of yes, no and unknown among the bold words, joined; false: there are none. */
static bool bold_lies(struct mt_python *python, struct mt_text answer, struct mt_text *joined)
{
    static const char *const marks[] = {",", ".", NULL};
    int last[MOST_LIES];
    size_t count = 0;
    struct mt_text bold;
    char text[64];
    for (size_t at = 0; mt_python_next_between(answer, &at, "**", "**", &bold);) {
        struct mt_text word;
        for (bold = mt_livebench_stripped(bold); bold.bytes > 0; bold = mt_livebench_stripped(bold)) {
            size_t end = 0;
            while (end < bold.bytes) { // up to white space, which is what stripping leaves off
                size_t next = end + mt_utf8_length((uint8_t)bold.text[end]);
                struct mt_text one = {.text = bold.text + end, .bytes = next - end};
                if (mt_livebench_stripped(one).bytes == 0) break;
                end = next;
            }
            word = (struct mt_text){.text = bold.text, .bytes = end};
            bold = mt_text_from(bold, end);
            word = mt_python_without(python, plain(python, word), marks);
            for (int i = 0; i < MOST_LIES; i++) {
                if (mt_text_is(word, lies[i])) last[count++ % MOST_LIES] = i;
            }
        }
    }
    size_t kept = count < MOST_LIES ? count : MOST_LIES;
    size_t length = 0;
    for (size_t i = 0; i < kept; i++) {
        const char *lie = lies[last[(count - kept + i) % MOST_LIES]];
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? ", " : "", lie);
    }
    const char *copy = NULL;
    if (count > 0 && python->status == MT_OK)
        python->status = mt_arena_copy_text(&python->arena, text, length, &copy);
    *joined = (struct mt_text){.text = copy != NULL ? copy : "", .bytes = copy != NULL ? length : 0};
    return count > 0;
}

/* The three words in a row whose first occurrence is the last; false: there are none. */
static bool plain_lies(struct mt_python *python, struct mt_text answer, struct mt_text *found)
{
    struct mt_text lower = mt_python_lower(python, answer);
    bool any = false;
    size_t best = 0;
    for (int i = 0; i < MOST_LIES * MOST_LIES * MOST_LIES; i++) {
        char three[40];
        int length = snprintf(three, sizeof three, "%s, %s, %s", lies[i / 9], lies[i / 3 % 3], lies[i % 3]);
        size_t at = mt_text_find(lower, 0, three);
        if (at == lower.bytes || (any && at <= best)) continue;
        *found = (struct mt_text){.text = lower.text + at, .bytes = (size_t)length};
        best = at;
        any = true;
    }
    return any;
}

static double judge_lies(struct mt_python *python, const struct mt_livebench_question *question)
{
    struct mt_text answer = question->answer;
    struct mt_text said = mt_text_of("");
    struct mt_text box;
    bool found = false;
    static const char *const opening[] = {"<solution>", "</solution>"}; // some close one to open it
    for (int i = 0; i < 2 && !found; i++) {
        for (size_t at = 0; mt_python_next_between(answer, &at, opening[i], "</solution>", &said);)
            found = true;
    }
    if (!found) found = bold_lies(python, answer, &said);
    if (!found || mt_livebench_stripped(said).bytes == 0) {
        answer = mt_python_replace(python, answer, "\\\\boxed{\\\\textbf{", "\\\\boxed{");
        answer = mt_python_replace(python, answer, "\\\\fbox{", "\\\\boxed{");
        answer = mt_python_replace(python, answer, "\\textbf{", "\\boxed{");
        if (mt_python_boxed(python, answer, &box)) {
            said = box;
            found = true;
        }
    }
    if (python->raised || (!found && !plain_lies(python, answer, &said))) return 0.0;
    struct mt_text right = mt_python_lower(python, question->truth);
    if (said.bytes > 0 && mt_text_same(said, right)) return 1.0;
    size_t words = 0;
    for (int i = 0; i < MOST_LIES; i++) words += mt_python_count(said, lies[i]);
    return truth(words == MOST_LIES && mt_python_in(right, said));
}

// ------------------------------------------------------------------ rows

typedef double judge(struct mt_python *python, const struct mt_livebench_question *question);

static struct mt_text field_of(const struct mt_row *row, const char *name)
{
    const struct mt_row_field *field = mt_row_field(row, name);
    bool text = field != NULL && field->kind == MT_FIELD_TEXT;
    return (struct mt_text){.text = text ? field->text : "", .bytes = text ? field->bytes : 0};
}

/* The judge of a task, or of the contest that a subtask (amc_12a, usamo) begins with. */
static judge *judge_named(struct mt_text name)
{
    static const struct {
        const char *name;
        judge *judge;
    } judges[] = {{"cta", judge_column_type},
                  {"spatial", judge_spatial},
                  {"zebra_puzzle", judge_zebra},
                  {"web_of_lies_v2", judge_lies},
                  {"amc", mt_livebench_judge_contest},
                  {"smc", mt_livebench_judge_contest},
                  {"aime", mt_livebench_judge_aime},
                  {"imo", mt_livebench_judge_olympiad},
                  {"usamo", mt_livebench_judge_olympiad},
                  {"olympiad", mt_livebench_judge_olympiad}};
    struct mt_split split = {.rest = name};
    struct mt_text first;
    struct mt_text second = mt_text_of("");
    (void)mt_python_split(&split, "_", &first);
    (void)mt_python_split(&split, "_", &second);
    for (size_t i = 0; i < sizeof judges / sizeof judges[0]; i++) {
        if (mt_text_is(name, judges[i].name) || mt_text_is(first, judges[i].name)) return judges[i].judge;
    }
    if (mt_python_in(mt_text_of("zebra_puzzle"), name)) return judge_zebra;
    return mt_text_is(second, "amc") ? mt_livebench_judge_contest : NULL;
}

enum mt_status mt_livebench_answer(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                   double *score)
{
    struct mt_python python;
    struct mt_text subtask = field_of(row, "subtask");
    judge *judging = judge_named(subtask.bytes > 0 ? subtask : field_of(row, "task"));
    const struct mt_row_field *right = mt_row_field(row, "ground_truth");
    struct mt_livebench_question question = {.released = ""};
    char released[16];
    *score = 0.0;
    if (judging == NULL)
        return mt_row_fail(row, "metier has no judge for this task and subtask of LiveBench");
    if (right == NULL || right->kind != MT_FIELD_TEXT) return mt_row_fail(row, "ground_truth must be a text");
    struct mt_text date = field_of(row, "livebench_release_date");
    (void)snprintf(released, sizeof released, "%.*s", (int)(date.bytes < 10 ? date.bytes : 10), date.text);
    question.released = released;
    question.truth = (struct mt_text){.text = right->text, .bytes = right->bytes};
    (void)mt_row_item(row, "turns", 0, &question.text.text, &question.text.bytes);
    mt_python_open(&python, ctx);
    question.answer = answer;
    *score = judging(&python, &question);
    if (python.raised || python.status != MT_OK) *score = 0.0;
    return mt_python_close(&python);
}

enum mt_status mt_livebench_judge(struct mt_context *ctx, mt_livebench_rule *rule, const struct mt_row *row,
                                  struct mt_text answer, double *score)
{
    struct mt_python python;
    mt_python_open(&python, ctx);
    answer = mt_python_without_thoughts(&python, answer);
    enum mt_status status = python.status == MT_OK ? rule(ctx, row, answer, score) : python.status;
    (void)mt_python_close(&python);
    return status;
}
