/* Instruction following: one rule per instruction, each as the authors' program checks it. */
#include <string.h>

#include "eval/answers/pattern.h"
#include "eval/livebench/livebench.h"
#include "eval/livebench/text.h"
#include "formats/text/json.h"

#define MOST_NUMBER 1000000

/* An answer and the values of the instruction it is held against. */
struct check {
    struct mt_context *ctx;
    struct mt_text answer;
    const struct mt_json_node *values;
};

static enum mt_status number_in(const struct check *check, const char *key, size_t *number)
{
    int64_t value = 0;
    enum mt_status status = mt_json_get_integer(check->values, key, 0, MOST_NUMBER, &value);
    *number = (size_t)value;
    return status;
}

/* A text among the values, without white space at the ends. */
static enum mt_status text_in(const struct check *check, const char *key, struct mt_text *text)
{
    const char *found = "";
    enum mt_status status = mt_json_get_string(check->values, key, &found);
    *text = mt_livebench_stripped(mt_text_of(found));
    return status;
}

/* Holds a count against value `key` in the way `relation` says. */
static enum mt_status related(const struct check *check, const char *key, size_t count, bool *followed)
{
    size_t bound = 0;
    const char *relation = NULL;
    enum mt_status status = number_in(check, key, &bound);
    if (status == MT_OK) status = mt_json_get_string(check->values, "relation", &relation);
    if (status != MT_OK) return status;
    bool less = strcmp(relation, "less than") == 0;
    if (!less && strcmp(relation, "at least") != 0)
        return mt_json_fail(check->values, "has a relation that is neither 'less than' nor 'at least'");
    *followed = less ? count < bound : count >= bound;
    return MT_OK;
}

// ------------------------------------------------------------------ patterns

/* How often a pattern has to occur. */
enum how {
    ONCE,     // or more
    NEVER,    //
    AT_LEAST, // the number among the values
    RELATED,  // to that number as the value `relation` says
    ALL_OF,   // once or more, with each literal of a list
    NONE_OF,  // never, with any of them
};

/* One instruction. */
struct rule {
    const char *name;
    enum mt_status (*check)(const struct check *check, bool *followed); // NULL: the pattern decides
    const char *before;
    const char *literal; // key of the text between `before` and `behind`; NULL: none
    const char *behind;
    enum how how;
    const char *number; // key
};

/* The literals are a list. */
static enum mt_status judge_words(const struct check *check, const struct rule *rule, bool *followed)
{
    struct mt_json_node list;
    size_t occurring = 0;
    enum mt_status status = mt_json_get_array(check->values, rule->literal, &list);
    size_t words = status == MT_OK ? mt_json_count(&list) : 0;
    for (size_t i = 0; i < words && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(&list, i);
        const char *word = NULL;
        size_t count = 0;
        status = mt_json_as_string(&item, &word);
        if (status == MT_OK)
            status = mt_livebench_count(check->ctx, rule->before, mt_text_of(word), rule->behind,
                                        check->answer, &count);
        occurring += count > 0 ? 1 : 0;
    }
    *followed = occurring == (rule->how == ALL_OF ? words : 0);
    return status;
}

static enum mt_status judge_pattern(const struct check *check, const struct rule *rule, bool *followed)
{
    struct mt_text literal = mt_text_of("");
    size_t wanted = 1;
    size_t count = 0;
    enum mt_status status = MT_OK;
    if (rule->how == ALL_OF || rule->how == NONE_OF) return judge_words(check, rule, followed);
    if (rule->literal != NULL) status = text_in(check, rule->literal, &literal);
    if (status == MT_OK && rule->how == AT_LEAST) status = number_in(check, rule->number, &wanted);
    if (status == MT_OK)
        status = mt_livebench_count(check->ctx, rule->before, literal, rule->behind, check->answer, &count);
    if (status == MT_OK && rule->how == RELATED) return related(check, rule->number, count, followed);
    *followed = rule->how == NEVER ? count == 0 : count >= wanted;
    return status;
}

// ------------------------------------------------------------------ pieces

/* What dividers make of an answer; texts without white space at the ends. */
struct cut {
    size_t filled;           // pieces that are not empty
    bool empty_inside;       // an empty one that is neither first nor last
    struct mt_text first[2]; // of the filled ones
    struct mt_text nth;      // the piece asked for, from 1
};

static enum mt_status cut_up(const struct check *check, const char *divider, size_t nth, struct cut *cut)
{
    struct mt_pattern *pattern = NULL;
    size_t from = 0;
    bool more = true;
    *cut = (struct cut){.nth = mt_text_of("")};
    enum mt_status status = mt_pattern_create(check->ctx, divider, &pattern);
    if (status != MT_OK) return status;
    for (size_t i = 1; more; i++) {
        struct mt_text piece = mt_livebench_next_piece(pattern, check->answer, &from, &more);
        piece = mt_livebench_stripped(piece);
        if (i == nth) cut->nth = piece;
        cut->empty_inside = cut->empty_inside || (piece.bytes == 0 && i > 1 && more);
        if (piece.bytes == 0) continue;
        if (cut->filled < 2) cut->first[cut->filled] = piece;
        cut->filled++;
    }
    status = mt_pattern_status(pattern);
    mt_pattern_free(pattern);
    return status;
}

/* Paragraphs between ***: none empty but before the first and behind the last divider. */
static enum mt_status number_paragraphs(const struct check *check, bool *followed)
{
    struct cut cut = {0};
    size_t wanted = 0;
    enum mt_status status = number_in(check, "num_paragraphs", &wanted);
    if (status == MT_OK) status = cut_up(check, "(*LF)(*UCP)\\s?\\*\\*\\*\\s?", 0, &cut);
    *followed = cut.filled == wanted && !cut.empty_inside;
    return status;
}

/* Paragraphs between empty lines: as many as asked for, and number `nth_paragraph` begins with the word. */
static enum mt_status paragraph_first_word(const struct check *check, bool *followed)
{
    struct cut cut = {0};
    struct mt_text word = {0};
    size_t wanted = 0;
    size_t nth = 0;
    size_t begins = 0;
    enum mt_status status = number_in(check, "num_paragraphs", &wanted);
    if (status == MT_OK) status = number_in(check, "nth_paragraph", &nth);
    if (status == MT_OK) status = text_in(check, "first_word", &word);
    if (status == MT_OK) status = cut_up(check, "\\n\\n", nth, &cut);
    if (status == MT_OK)
        status =
            mt_livebench_count(check->ctx, "(?i)\\A'*\"*", word, "(?=[.,?!'\"\\s]|\\z)", cut.nth, &begins);
    *followed = cut.filled == wanted && nth <= cut.filled && cut.nth.bytes > 0 && begins > 0;
    return status;
}

/* Two different texts between ******; an empty one only at the ends. */
static enum mt_status two_responses(const struct check *check, bool *followed)
{
    struct cut cut;
    enum mt_status status = cut_up(check, "\\*{6}", 0, &cut);
    *followed = cut.filled == 2 && !cut.empty_inside && !mt_text_same(cut.first[0], cut.first[1]);
    return status;
}

// ------------------------------------------------------------------ others

static enum mt_status number_sentences(const struct check *check, bool *followed)
{
    return related(check, "num_sentences", mt_livebench_sentences(check->answer), followed);
}

static enum mt_status number_bullets(const struct check *check, bool *followed)
{
    // The authors' ^\s* goes over empty lines, too, which counts the same and takes longer.
    static const char *const bullets[] = {"(?m)^[^\\S\\n]*+\\*[^*].*$", "(?m)^[^\\S\\n]*+-.*$"};
    size_t wanted = 0;
    size_t total = 0;
    enum mt_status status = number_in(check, "num_bullets", &wanted);
    for (size_t i = 0; i < 2 && status == MT_OK; i++) {
        size_t count = 0;
        status = mt_livebench_count(check->ctx, bullets[i], mt_text_of(""), "", check->answer, &count);
        total += count;
    }
    *followed = total == wanted;
    return status;
}

/* <<...>> on a line, with something in it. */
static enum mt_status has_title(const struct check *check, bool *followed)
{
    struct mt_pattern *brackets = NULL;
    struct mt_pattern_match match = {0};
    struct mt_text answer = check->answer;
    enum mt_status status =
        mt_pattern_create(check->ctx, "<<(?:[^\\n]+>>|[^\\n]*+(*SKIP)(*FAIL))", &brackets);
    if (status != MT_OK) return status;
    *followed = false;
    while (!*followed && mt_pattern_find(brackets, answer.text, answer.bytes, match.to, &match)) {
        struct mt_text title = {.text = answer.text + match.from, .bytes = match.to - match.from};
        while (title.bytes > 0 && title.text[title.bytes - 1] == '>') title.bytes--;
        while (title.bytes > 0 && title.text[0] == '<')
            title = (struct mt_text){.text = title.text + 1, .bytes = title.bytes - 1};
        *followed = mt_livebench_stripped(title).bytes > 0;
    }
    status = mt_pattern_status(brackets);
    mt_pattern_free(brackets);
    return status;
}

static enum mt_status has_postscript(const struct check *check, bool *followed)
{
    struct mt_text marker = {0};
    size_t count = 0;
    enum mt_status status = text_in(check, "postscript_marker", &marker);
    bool one = mt_text_is(marker, "P.S.");
    bool two = mt_text_is(marker, "P.P.S");
    const char *pattern = one ? "(?i)p\\.\\s?s\\." : two ? "(?i)p\\.\\s?p\\.\\s?s" : "(?i)";
    if (one || two) marker = mt_text_of("");
    if (status == MT_OK) status = mt_livebench_count(check->ctx, pattern, marker, "", check->answer, &count);
    *followed = count > 0;
    return status;
}

static struct mt_text without_fences(struct mt_text text)
{
    static const char *const opening[] = {"```json", "```Json", "```JSON", "```"};
    text = mt_livebench_stripped(text);
    for (size_t i = 0; i < sizeof opening / sizeof opening[0]; i++) (void)mt_text_take(&text, opening[i]);
    if (text.bytes >= 3 && memcmp(text.text + text.bytes - 3, "```", 3) == 0) text.bytes -= 3;
    return mt_livebench_stripped(text);
}

static enum mt_status is_json(const struct check *check, bool *followed)
{
    *followed = mt_livebench_is_json(without_fences(check->answer));
    return MT_OK;
}

static enum mt_status is_quoted(const struct check *check, bool *followed)
{
    struct mt_text text = mt_livebench_stripped(check->answer);
    *followed = text.bytes > 1 && text.text[0] == '"' && text.text[text.bytes - 1] == '"';
    return MT_OK;
}

// ------------------------------------------------------------------ all of them

static const struct rule rules[] = {
    {"keywords:existence", NULL, "(?i)", "keywords", "", ALL_OF, NULL}, // also within words, as there
    {"keywords:forbidden_words", NULL, "(?i)(?<![\\p{L}\\p{N}_])", "forbidden_words", "(?![\\p{L}\\p{N}_])",
     NONE_OF, NULL}, // only whole words: "art" is not in "party"
    {"keywords:frequency", NULL, "(?i)", "keyword", "", RELATED, "frequency"},
    {"punctuation:no_comma", NULL, ",", NULL, "", NEVER, NULL},
    {"length_constraints:number_words", NULL, "[\\p{L}\\p{N}_]+", NULL, "", RELATED, "num_words"},
    {"length_constraints:number_sentences", .check = number_sentences},
    {"length_constraints:number_paragraphs", .check = number_paragraphs},
    {"length_constraints:nth_paragraph_first_word", .check = paragraph_first_word},
    {"detectable_format:number_bullet_lists", .check = number_bullets},
    {"detectable_format:multiple_sections", NULL, "\\s?", "section_spliter", "\\s?\\d+\\s?", AT_LEAST,
     "num_sections"},
    {"detectable_format:title", .check = has_title},
    {"detectable_format:json_format", .check = is_json},
    // Where none closes on a line, no later one on it does.
    {"detectable_content:number_placeholders", NULL, "\\[[^\\]\\n]*+(?:\\]|(*SKIP)(*FAIL))", NULL, "",
     AT_LEAST, "num_placeholders"},
    {"detectable_content:postscript", .check = has_postscript},
    {"combination:two_responses", .check = two_responses},
    {"combination:repeat_prompt", NULL, "(?i)\\A\\s*", "prompt_to_repeat", "", ONCE, NULL},
    {"startend:end_checker", NULL, "(?i)", "end_phrase", "\"*\\s*\\z", ONCE, NULL},
    {"startend:quotation", .check = is_quoted},
};

enum mt_status mt_livebench_follows(struct mt_context *ctx, const char *instruction,
                                    const struct mt_json_node *values, struct mt_text answer, bool *known,
                                    bool *followed)
{
    struct check check = {.ctx = ctx, .answer = answer, .values = values};
    size_t i = 0;
    while (i < sizeof rules / sizeof rules[0] && strcmp(rules[i].name, instruction) != 0) i++;
    *known = i < sizeof rules / sizeof rules[0];
    if (!*known) return MT_OK;
    // The values are looked at even where there is no answer: a broken row is found by any run.
    enum mt_status status = rules[i].check != NULL ? rules[i].check(&check, followed)
                                                   : judge_pattern(&check, &rules[i], followed);
    if (mt_livebench_stripped(answer).bytes == 0) *followed = false;
    return status;
}

enum mt_status mt_livebench_instructions(struct mt_context *ctx, const struct mt_row *row,
                                         struct mt_text answer, double *score)
{
    struct mt_json_node values;
    size_t count = mt_row_items(row, "instruction_id_list");
    size_t followed = 0;
    answer = mt_livebench_stripped(answer);
    *score = 0.0;
    if (count == 0) return mt_row_fail(row, "instruction_id_list is missing or empty");
    if (!mt_row_value(row, "kwargs", &values) || mt_json_kind(&values) != MT_JSON_ARRAY ||
        mt_json_count(&values) != count)
        return mt_row_fail(row, "kwargs must be a list as long as instruction_id_list");
    values.file = "kwargs"; // in messages, behind the row's place
    for (size_t i = 0; i < count; i++) {
        struct mt_json_node own = mt_json_element(&values, i);
        const char *name = NULL;
        size_t bytes = 0;
        bool known = false;
        bool one = false;
        if (!mt_row_item(row, "instruction_id_list", i, &name, &bytes))
            return mt_row_fail(row, "instruction_id_list must hold names");
        enum mt_status status = mt_json_expect_object(&own);
        if (status == MT_OK) status = mt_livebench_follows(ctx, name, &own, answer, &known, &one);
        if (status != MT_OK)
            return mt_fail_within(ctx, status, "%s:%llu", row->file, (unsigned long long)row->line);
        if (!known) return mt_row_fail(row, "there is no rule for the instruction '%.100s'", name);
        followed += one ? 1 : 0;
    }
    *score = ((double)followed / (double)count + (followed == count ? 1.0 : 0.0)) / 2;
    return MT_OK;
}
