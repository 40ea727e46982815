/* LiveBench's judges of math_competitions and olympiad (livebench/process_results/math). */
#include "eval/livebench/contests.h"

#include "formats/text/utf8.h"

#define TAIL_OF_AIME   50 // characters at the end of an answer
#define TAIL_OF_CHOICE 20 // beside those of the choice

static const char *const latex_marks[] = {"\\text{", "}", "\\", NULL};

/* True when the last <solution> of an answer is one character, once or more, and that is the right one. */
static bool solution_repeats(struct mt_python *python, const struct mt_livebench_question *question)
{
    struct mt_text solution = mt_text_of("");
    for (size_t at = 0;
         mt_python_next_between(question->answer, &at, "<solution>", "</solution>", &solution);)
        continue;
    if (solution.bytes == 0) return false;
    size_t bytes = mt_utf8_length((uint8_t)solution.text[0]);
    for (size_t i = 0; i < solution.bytes; i += bytes) {
        if (solution.bytes - i < bytes || memcmp(solution.text + i, solution.text, bytes) != 0) return false;
    }
    solution.bytes = bytes;
    struct mt_text right = mt_python_lower(python, question->truth);
    return mt_text_same(mt_python_lower(python, solution), right);
}

// ------------------------------------------------------------------ choices

/* What every of these bytes is taken off from, at both ends. */
static struct mt_text stripped_of(struct mt_text text, char byte)
{
    while (text.bytes > 0 && text.text[0] == byte) text = mt_text_from(text, 1);
    while (text.bytes > 0 && text.text[text.bytes - 1] == byte) text.bytes--;
    return text;
}

/* The choice of that letter in the question: behind \textbf{(A) }, up to \qquad or $. */
static struct mt_text choice_of(struct mt_text question, char letter)
{
    static const char mark[] = "\\textbf{(";
    struct mt_text choice = mt_text_of("");
    for (size_t at = mt_text_find(question, 0, mark); at < question.bytes;) {
        size_t from = at + sizeof mark - 1;
        char found = from < question.bytes ? question.text[from] : '\0';
        struct mt_text rest = mt_text_from(question, from < question.bytes ? from + 1 : from);
        bool whole = found >= 'A' && found <= 'E' && mt_text_take(&rest, ")");
        if (whole && !mt_text_has(rest, 0, "}") && rest.bytes > 0) {
            size_t bytes = mt_utf8_length((uint8_t)rest.text[0]);
            struct mt_text space = {.text = rest.text, .bytes = bytes};
            if (mt_livebench_stripped(space).bytes == 0) rest = mt_text_from(rest, bytes);
        }
        whole = whole && mt_text_take(&rest, "}");
        rest.bytes = mt_text_find(rest, 0, "\n");
        size_t quad = mt_text_find(rest, 0, "\\qquad");
        size_t dollar = mt_text_find(rest, 0, "$");
        size_t end = quad < dollar ? quad : dollar;
        whole = whole && end < rest.bytes;
        if (whole && found == letter) choice = (struct mt_text){.text = rest.text, .bytes = end};
        size_t next = whole ? (size_t)(rest.text - question.text) + end + (quad < dollar ? 6 : 1) : at + 1;
        at = mt_text_find(question, next, mark);
    }
    choice = mt_livebench_stripped(choice);
    if (choice.bytes == 0) return mt_text_of("FAILURE");
    return stripped_of(stripped_of(choice, '$'), '~');
}

/* True when the last line is the letter, or has it in its first parentheses. */
static bool last_line_is(struct mt_python *python, struct mt_text answer, struct mt_text right)
{
    static const char *const stars[] = {"*", NULL};
    struct mt_text line = mt_python_last_line(answer);
    struct mt_text said = mt_python_without(python, mt_livebench_stripped(line), stars);
    if (mt_text_same(mt_python_lower(python, said), right)) return true;
    size_t open = mt_text_find(line, 0, "(");
    if (open == line.bytes || mt_text_find(line, 0, ")") == line.bytes) return false;
    said = mt_text_from(line, open + 1);
    said.bytes = mt_text_find(said, 0, "(");
    said.bytes = mt_text_find(said, 0, ")");
    return mt_text_same(mt_python_lower(python, said), right);
}

double mt_livebench_judge_contest(struct mt_python *python, const struct mt_livebench_question *question)
{
    if (question->truth.bytes != 1 || question->truth.text[0] < 'A' || question->truth.text[0] > 'E')
        return 0.0;
    const char letter = question->truth.text[0];
    const char four[] = {letter, letter, letter, letter, '\0'};
    struct mt_text right = mt_python_lower(python, question->truth);
    struct mt_text answer = question->answer;
    struct mt_text said;
    if (solution_repeats(python, question) || mt_text_find(answer, 0, four) < answer.bytes) return 1.0;
    answer = mt_python_replace(python, answer, "\\\\fbox{", "\\\\boxed{");
    if (mt_python_boxed(python, answer, &said)) {
        said = mt_python_lower(python, mt_python_without(python, said, latex_marks));
        if (mt_text_same(said, right)) return 1.0;
    }
    if (python->raised) return 0.0;
    struct mt_text choice = choice_of(question->text, letter);
    struct mt_text tail = mt_python_tail(answer, TAIL_OF_CHOICE + mt_python_length(choice));
    return mt_python_in(choice, tail) || last_line_is(python, answer, right) ? 1.0 : 0.0;
}

double mt_livebench_judge_aime(struct mt_python *python, const struct mt_livebench_question *question)
{
    bool right = solution_repeats(python, question) ||
                 mt_python_in(question->truth, mt_python_tail(question->answer, TAIL_OF_AIME));
    return right ? 1.0 : 0.0;
}

// ------------------------------------------------------------------ formulae in their places

/* Numbers of an answer. */
struct number {
    int64_t value;
    bool none;  // "NO ANSWER"
    bool other; // too large to be one of the right ones
};

struct numbers {
    struct number *each;
    size_t count, capacity;
    bool any; // not all of them are "NO ANSWER"
};

static void add_number(struct mt_python *python, struct numbers *numbers, struct mt_text text)
{
    struct number number = {0};
    number.none = !mt_python_int(text, &number.value, &number.other);
    if (python->status == MT_OK)
        numbers->each = mt_list_reserve(python->arena.ctx, numbers->each, &numbers->capacity,
                                        sizeof *numbers->each, numbers->count + 1, &python->status);
    if (python->status != MT_OK) return;
    numbers->each[numbers->count++] = number;
    numbers->any = numbers->any || !number.none;
}

/* Without "**" and ".", stripped. */
static struct mt_text bare(struct mt_python *python, struct mt_text text)
{
    static const char *const marks[] = {"**", ".", NULL};
    return mt_livebench_stripped(mt_python_without(python, text, marks));
}

/* The numbers behind the last "answer:", or in the line below. */
static void announced(struct mt_python *python, struct mt_text lower, struct numbers *numbers)
{
    static const char announcement[] = "answer:";
    static const char *const again[] = {announcement, NULL};
    static const char *const marks[] = {"$", "{", "}", "\\", "boxed", "<", ">", NULL};
    struct mt_split lines = {.rest = mt_livebench_stripped(lower)};
    struct mt_text line;
    struct mt_text said = mt_text_of("");
    struct mt_text below = mt_text_of("");
    bool next = false; // the line before was the last one with an announcement so far
    while (mt_python_split(&lines, "\n", &line)) {
        size_t at = mt_text_find(line, 0, announcement);
        if (next) below = line;
        next = at < line.bytes;
        if (!next) continue;
        said = mt_text_from(line, at + sizeof announcement - 1);
        said.bytes = mt_text_find(said, 0, announcement);
        below = mt_text_of("");
    }
    said = bare(python, said);
    if (said.bytes == 0) said = bare(python, mt_python_without(python, below, again));
    struct mt_split items = {.rest = said};
    struct mt_text item;
    while (mt_python_split(&items, ",", &item)) {
        item = mt_livebench_stripped(item);
        size_t start = item.bytes;
        while (start > 0 && item.text[start - 1] != ' ') start--;
        add_number(python, numbers, mt_python_without(python, mt_text_from(item, start), marks));
    }
}

static void in_box(struct mt_python *python, struct mt_text answer, struct numbers *numbers)
{
    struct mt_text box = answer;
    if (!mt_python_boxed(python, answer, &box)) box = answer;
    if (python->raised) return;
    struct mt_split items = {.rest = mt_livebench_stripped(mt_python_without(python, box, latex_marks))};
    struct mt_text item;
    while (mt_python_split(&items, ",", &item)) add_number(python, numbers, item);
}

/* The first run of digits. */
static struct mt_text digits_of(struct mt_text text)
{
    size_t start = 0;
    size_t end = 0;
    size_t bytes = 0;
    for (size_t at = 0; at < text.bytes; at += bytes) {
        int value = 0;
        bool digit = mt_python_is_digit(mt_utf8_decode((const uint8_t *)text.text + at, &bytes), &value);
        if (!digit && end > start) break;
        if (digit && end == start) start = at;
        if (digit) end = at + bytes;
    }
    return (struct mt_text){.text = text.text + start, .bytes = end > start ? end - start : 0};
}

/* Digits between commas; behind the last announcement only up to the first item with anything else. */
static void bare_digits(struct mt_python *python, struct mt_text text, bool strict, struct numbers *numbers)
{
    struct mt_split items = {.rest = text};
    struct mt_text item;
    for (size_t i = 0; mt_python_split(&items, ",", &item); i++) {
        if (strict) item = mt_livebench_stripped(item);
        struct mt_text digits = digits_of(item);
        bool subscript = strict && mt_text_is(digits, "\u2082"); // of a formula
        if (digits.bytes > 0 && !subscript) add_number(python, numbers, digits);
        if (strict && numbers->count > 0) python->raised = numbers->each[numbers->count - 1].none;
        if (python->raised) return;
        if (strict && i > 0 && digits.bytes < item.bytes) break;
    }
}

/* Leaves numbers only where there are any; true then. */
static bool settled(struct numbers *numbers)
{
    if (!numbers->any) numbers->count = 0;
    return numbers->any;
}

static void find_numbers(struct mt_python *python, struct mt_text answer, struct numbers *numbers)
{
    struct mt_text lower = mt_python_lower(python, answer);
    size_t last = 0;
    if (mt_text_find(lower, 0, "answer:") < lower.bytes) announced(python, lower, numbers);
    if (settled(numbers)) return;
    if (mt_text_find(answer, 0, "\\boxed") < answer.bytes) in_box(python, answer, numbers);
    if (python->raised || settled(numbers)) return;
    bare_digits(python, mt_python_last_line(lower), false, numbers);
    if (settled(numbers)) return;
    for (size_t at = mt_text_find(lower, 0, "answer:"); at < lower.bytes;
         at = mt_text_find(lower, last, "answer:"))
        last = at + 7;
    bare_digits(python, mt_text_from(lower, last), true, numbers);
}

/* Edits between the numbers and the right ones, one row of the table after the other. */
static size_t edits(const struct numbers *numbers, const struct numbers *right, size_t *row)
{
    for (size_t j = 0; j <= right->count; j++) row[j] = j;
    for (size_t i = 0; i < numbers->count; i++) {
        const struct number *said = &numbers->each[i];
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < right->count; j++) {
            bool same = !said->none && !said->other && said->value == right->each[j].value;
            size_t best = diagonal + (same ? 0 : 1);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[right->count];
}

double mt_livebench_judge_olympiad(struct mt_python *python, const struct mt_livebench_question *question)
{
    struct numbers said = {0};
    struct numbers right = {0};
    struct mt_split items = {.rest = question->truth};
    struct mt_text item;
    bool broken = false;
    double score = 0.0;
    while (mt_python_split(&items, ",", &item)) add_number(python, &right, item);
    for (size_t i = 0; i < right.count; i++) broken = broken || right.each[i].none;
    if (!broken) find_numbers(python, question->answer, &said);
    size_t *row = mt_arena_array(&python->arena, right.count + 1, sizeof *row, &python->status);
    if (row != NULL && !broken && !python->raised) {
        size_t longer = said.count > right.count ? said.count : right.count;
        score = 1.0 - (double)edits(&said, &right, row) / (double)longer;
    }
    mt_release(python->arena.ctx, said.each, said.capacity * sizeof *said.each);
    mt_release(python->arena.ctx, right.each, right.capacity * sizeof *right.each);
    return score;
}
