/* One rule per kind of instruction, each as the authors' program checks it. */
#include <string.h>

#include "eval/answers/pattern.h"
#include "eval/instructions/instructions.h"
#include "eval/livebench/python.h"
#include "formats/text/json.h"
#include "formats/text/utf8.h"
#include "formats/tokenizer/unicode.h"

#define MOST_NUMBER 1000000

/* An answer and the values of the instruction it is held against. */
struct check {
    struct mt_context *ctx;
    struct mt_python *python; // texts in lower case
    struct mt_text answer;
    const struct mt_json_node *values;
};

static enum mt_following following_if(bool followed)
{
    return followed ? MT_FOLLOWED : MT_NOT_FOLLOWED;
}

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

/* Holds a count between `low` and `high` against value `key` in the way value `relation` says. */
static enum mt_status related(const struct check *check, const char *relation, const char *key, size_t low,
                              size_t high, enum mt_following *following)
{
    size_t bound = 0;
    const char *way = NULL;
    enum mt_status status = number_in(check, key, &bound);
    if (status == MT_OK) status = mt_json_get_string(check->values, relation, &way);
    if (status != MT_OK) return status;
    bool less = strcmp(way, "less than") == 0;
    if (!less && strcmp(way, "at least") != 0)
        return mt_json_fail(check->values, "has a relation that is neither 'less than' nor 'at least'");
    *following = following_if((low < bound) == less);
    if ((low < bound) != (high < bound)) *following = MT_FOLLOWING_OPEN;
    return MT_OK;
}

// ------------------------------------------------------------------ patterns

/* How often a pattern has to occur. */
enum how {
    ONCE,     // or more
    NEVER,    //
    AT_LEAST, // the number among the values
    RELATED,  // to that number as the value `relation` says
    ALL_OF,   // once or more, with each keyword of a list
    NONE_OF,  // never, with any of them
};

/* One instruction. */
struct rule {
    const char *kind;
    enum mt_status (*check)(const struct check *check,
                            enum mt_following *following); // NULL: a pattern decides
    const char *before;
    const char *keyword; // key of the pattern between `before` and `behind`; NULL: none
    const char *behind;
    enum how how;
    const char *number; // key
};

/* How often a keyword occurs. It is a pattern, as for the authors; one that makes no sense is a text. */
static enum mt_status count_keyword(const struct check *check, const struct rule *rule,
                                    struct mt_text keyword, size_t *count)
{
    struct mt_byte_list whole = {.ctx = check->ctx};
    enum mt_status status = mt_byte_list_append_text(&whole, rule->before);
    if (status == MT_OK) status = mt_byte_list_append(&whole, keyword.text, keyword.bytes);
    if (status == MT_OK) status = mt_byte_list_append(&whole, rule->behind, strlen(rule->behind) + 1);
    if (status == MT_OK)
        status = mt_livebench_count(check->ctx, (const char *)whole.data, mt_text_of(""), "", check->answer,
                                    count);
    mt_byte_list_free(&whole);
    if (status != MT_ERR_USAGE) return status;
    return mt_livebench_count(check->ctx, rule->before, keyword, rule->behind, check->answer, count);
}

static enum mt_status judge_words(const struct check *check, const struct rule *rule, bool *followed)
{
    struct mt_json_node list;
    size_t occurring = 0;
    enum mt_status status = mt_json_get_array(check->values, rule->keyword, &list);
    size_t words = status == MT_OK ? mt_json_count(&list) : 0;
    for (size_t i = 0; i < words && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(&list, i);
        const char *word = NULL;
        size_t count = 0;
        status = mt_json_as_string(&item, &word);
        if (status == MT_OK) status = count_keyword(check, rule, mt_text_of(word), &count);
        occurring += count > 0 ? 1 : 0;
    }
    *followed = occurring == (rule->how == ALL_OF ? words : 0);
    return status;
}

static enum mt_status judge_pattern(const struct check *check, const struct rule *rule,
                                    enum mt_following *following)
{
    struct mt_text keyword = mt_text_of("");
    size_t wanted = 1;
    size_t count = 0;
    bool followed = false;
    enum mt_status status = MT_OK;
    if (rule->how == ALL_OF || rule->how == NONE_OF) {
        status = judge_words(check, rule, &followed);
        *following = following_if(followed);
        return status;
    }
    if (rule->keyword != NULL) status = text_in(check, rule->keyword, &keyword);
    if (status == MT_OK && rule->how == AT_LEAST) status = number_in(check, rule->number, &wanted);
    if (status == MT_OK) status = count_keyword(check, rule, keyword, &count);
    if (status == MT_OK && rule->how == RELATED)
        return related(check, "relation", rule->number, count, count, following);
    *following = following_if(rule->how == NEVER ? count == 0 : count >= wanted);
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
static enum mt_status number_paragraphs(const struct check *check, enum mt_following *following)
{
    struct cut cut = {0};
    size_t wanted = 0;
    enum mt_status status = number_in(check, "num_paragraphs", &wanted);
    if (status == MT_OK) status = cut_up(check, "(*LF)(*UCP)\\s?\\*\\*\\*\\s?", 0, &cut);
    *following = following_if(cut.filled == wanted && !cut.empty_inside);
    return status;
}

/* What stands before the first mark or white space of a text, behind the quotes it begins with. */
static struct mt_text first_word(struct mt_text text)
{
    size_t bytes = 0;
    while (mt_text_take(&text, "'")) continue;
    while (mt_text_take(&text, "\"")) continue;
    while (bytes < text.bytes && strchr(".,?!'\"", text.text[bytes]) == NULL) {
        size_t length = 0;
        if (mt_unicode_is_space(mt_utf8_decode((const uint8_t *)text.text + bytes, &length))) break;
        bytes += length;
    }
    return (struct mt_text){.text = text.text, .bytes = bytes};
}

/* Paragraphs between empty lines: as many as asked for, and number `nth_paragraph` begins with the word. */
static enum mt_status paragraph_first_word(const struct check *check, enum mt_following *following)
{
    struct cut cut = {0};
    const char *word = "";
    size_t wanted = 0;
    size_t nth = 0;
    enum mt_status status = number_in(check, "num_paragraphs", &wanted);
    if (status == MT_OK) status = number_in(check, "nth_paragraph", &nth);
    if (status == MT_OK) status = mt_json_get_string(check->values, "first_word", &word);
    if (status == MT_OK) status = cut_up(check, "\\n\\n", nth, &cut);
    struct mt_text first = mt_python_lower(check->python, first_word(cut.nth));
    struct mt_text asked = mt_python_lower(check->python, mt_text_of(word));
    bool begins = mt_text_same(first, asked);
    *following = following_if(cut.filled == wanted && nth <= cut.filled && cut.nth.bytes > 0 && begins);
    return status;
}

/* Two different texts between ******; an empty one only at the ends. */
static enum mt_status two_responses(const struct check *check, enum mt_following *following)
{
    struct cut cut;
    enum mt_status status = cut_up(check, "\\*{6}", 0, &cut);
    *following =
        following_if(cut.filled == 2 && !cut.empty_inside && !mt_text_same(cut.first[0], cut.first[1]));
    return status;
}

// ------------------------------------------------------------------ others

/* The values are looked at; where sentences end a trained splitter says (NLTK's Punkt). */
static enum mt_status number_sentences(const struct check *check, enum mt_following *following)
{
    return related(check, "relation", "num_sentences", 0, SIZE_MAX, following);
}

static enum mt_status number_bullets(const struct check *check, enum mt_following *following)
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
    *following = following_if(total == wanted);
    return status;
}

/* The first match of a pattern at or behind *from that holds more than white space without its marks; *from
 * moves behind it. False: there is none. */
static bool next_filled(struct mt_pattern *pattern, const struct check *check, char first, char last,
                        size_t *from)
{
    struct mt_pattern_match match;
    struct mt_text answer = check->answer;
    while (mt_pattern_find(pattern, answer.text, answer.bytes, *from, &match)) {
        struct mt_text inner = {.text = answer.text + match.from, .bytes = match.to - match.from};
        *from = match.to;
        while (inner.bytes > 0 && inner.text[inner.bytes - 1] == last) inner.bytes--;
        while (inner.bytes > 0 && inner.text[0] == first) inner = mt_text_from(inner, 1);
        if (mt_livebench_stripped(inner).bytes > 0) return true;
    }
    return false;
}

/* How many matches there are that hold something. */
static enum mt_status count_filled(const struct check *check, const char *text, char first, char last,
                                   size_t *count)
{
    struct mt_pattern *pattern = NULL;
    size_t from = 0;
    enum mt_status status = mt_pattern_create(check->ctx, text, &pattern);
    if (status != MT_OK) return status;
    while (next_filled(pattern, check, first, last, &from)) ++*count;
    status = mt_pattern_status(pattern);
    mt_pattern_free(pattern);
    return status;
}

/* <<...>> on a line, with something in it. */
static enum mt_status has_title(const struct check *check, enum mt_following *following)
{
    size_t count = 0;
    enum mt_status status =
        count_filled(check, "(*LF)<<(?:[^\\n]+>>|[^\\n]*+(*SKIP)(*FAIL))", '<', '>', &count);
    *following = following_if(count > 0);
    return status;
}

/* *...* on a line, and **...**, which counts as both, as there. */
static enum mt_status number_highlights(const struct check *check, enum mt_following *following)
{
    size_t wanted = 0;
    size_t count = 0;
    enum mt_status status = number_in(check, "num_highlights", &wanted);
    if (status == MT_OK) status = count_filled(check, "\\*[^\\n*]*+\\*", '*', '*', &count);
    if (status == MT_OK) status = count_filled(check, "\\*\\*[^\\n*]*+\\*\\*", '*', '*', &count);
    *following = following_if(count >= wanted);
    return status;
}

static enum mt_status has_postscript(const struct check *check, enum mt_following *following)
{
    const struct rule written = {.before = "(?i)", .behind = ""};
    struct mt_text marker = {0};
    size_t count = 0;
    enum mt_status status = text_in(check, "postscript_marker", &marker);
    if (status != MT_OK) return status;
    if (mt_text_is(marker, "P.S.")) marker = mt_text_of("p\\.\\s?s\\.");
    if (mt_text_is(marker, "P.P.S")) marker = mt_text_of("p\\.\\s?p\\.\\s?s");
    status = count_keyword(check, &written, marker, &count);
    *following = following_if(count > 0);
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

static enum mt_status is_json(const struct check *check, enum mt_following *following)
{
    *following = following_if(mt_livebench_is_json(without_fences(check->answer)));
    return MT_OK;
}

static enum mt_status is_quoted(const struct check *check, enum mt_following *following)
{
    struct mt_text text = mt_livebench_stripped(check->answer);
    *following = following_if(text.bytes > 1 && text.text[0] == '"' && text.text[text.bytes - 1] == '"');
    return MT_OK;
}

static enum mt_status repeats_prompt(const struct check *check, enum mt_following *following)
{
    struct mt_text prompt = {0};
    enum mt_status status = text_in(check, "prompt_to_repeat", &prompt);
    prompt = mt_python_lower(check->python, prompt);
    struct mt_text text = mt_python_lower(check->python, mt_livebench_stripped(check->answer));
    bool begins = text.bytes >= prompt.bytes && memcmp(text.text, prompt.text, prompt.bytes) == 0;
    *following = following_if(begins);
    return status;
}

static enum mt_status ends_with(const struct check *check, enum mt_following *following)
{
    struct mt_text phrase = {0};
    enum mt_status status = text_in(check, "end_phrase", &phrase);
    phrase = mt_python_lower(check->python, phrase);
    struct mt_text text = mt_livebench_stripped(check->answer);
    while (text.bytes > 0 && text.text[text.bytes - 1] == '"') text.bytes--;
    while (mt_text_take(&text, "\"")) continue;
    text = mt_python_lower(check->python, text);
    bool ends = text.bytes >= phrase.bytes &&
                memcmp(text.text + text.bytes - phrase.bytes, phrase.text, phrase.bytes) == 0;
    *following = following_if(ends);
    return status;
}

/* One of three sentences, with their full stop. */
static enum mt_status is_constrained(const struct check *check, enum mt_following *following)
{
    static const char *const options[] = {"My answer is yes.", "My answer is no.", "My answer is maybe."};
    bool found = false;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        found = found || mt_text_find(check->answer, 0, options[i]) < check->answer.bytes;
    *following = following_if(found);
    return MT_OK;
}

/* A letter, or another character, which is counted too: the harness draws a letter in its place. */
static enum mt_status letter_frequency(const struct check *check, enum mt_following *following)
{
    struct mt_text letter = {0};
    enum mt_status status = text_in(check, "letter", &letter);
    if (status != MT_OK) return status;
    if (mt_python_length(letter) != 1)
        return mt_json_fail(check->values, "has a letter that is not one character");
    letter = mt_python_lower(check->python, letter);
    struct mt_text text = mt_python_lower(check->python, check->answer);
    size_t count = 0;
    for (size_t at = 0; letter.bytes > 0 && at + letter.bytes <= text.bytes; at++)
        count += memcmp(text.text + at, letter.text, letter.bytes) == 0 ? 1 : 0;
    return related(check, "let_relation", "let_frequency", count, count, following);
}

static enum mt_status capital_words(const struct check *check, enum mt_following *following)
{
    size_t low = 0;
    size_t high = 0;
    enum mt_status status = mt_capital_words(check->ctx, check->answer, &low, &high);
    if (status != MT_OK) return status;
    return related(check, "capital_relation", "capital_frequency", low, high, following);
}

/* All letters in one case, as str.isupper and str.islower have it; which language it is stays open. */
static enum mt_status one_case(const struct check *check, const char *wanted, const char *others,
                               enum mt_following *following)
{
    size_t cased = 0;
    size_t other = 0;
    enum mt_status status = mt_livebench_count(check->ctx, wanted, mt_text_of(""), "", check->answer, &cased);
    if (status == MT_OK)
        status = mt_livebench_count(check->ctx, others, mt_text_of(""), "", check->answer, &other);
    *following = cased > 0 && other == 0 ? MT_FOLLOWING_OPEN : MT_NOT_FOLLOWED;
    return status;
}

static enum mt_status english_capital(const struct check *check, enum mt_following *following)
{
    return one_case(check, "\\p{Uppercase}", "[\\p{Lowercase}\\p{Lt}]", following);
}

static enum mt_status english_lowercase(const struct check *check, enum mt_following *following)
{
    return one_case(check, "\\p{Lowercase}", "[\\p{Uppercase}\\p{Lt}]", following);
}

static enum mt_status response_language(const struct check *check, enum mt_following *following)
{
    const char *language = NULL;
    *following = MT_FOLLOWING_OPEN;
    return mt_json_get_string(check->values, "language", &language);
}

// ------------------------------------------------------------------ all of them

// \w of Python's re, whatever PCRE2 counts among words, and a border of words. NLTK counts words with
// another.
#define WORD   "[\\p{L}\\p{N}_]"
#define NLTKS  "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]"
#define BORDER "(?:(?<=" WORD ")(?!" WORD ")|(?<!" WORD ")(?=" WORD "))"

static const struct rule rules[] = {
    {"keywords:existence", NULL, "(?i)", "keywords", "", ALL_OF, NULL}, // also within words, as there
    {"keywords:forbidden_words", NULL, "(?i)" BORDER, "forbidden_words", BORDER, NONE_OF, NULL},
    {"keywords:frequency", NULL, "(?i)", "keyword", "", RELATED, "frequency"},
    {"keywords:letter_frequency", .check = letter_frequency},
    {"language:response_language", .check = response_language},
    {"punctuation:no_comma", NULL, ",", NULL, "", NEVER, NULL},
    {"length_constraints:number_words", NULL, NLTKS "+", NULL, "", RELATED, "num_words"},
    {"length_constraints:number_sentences", .check = number_sentences},
    {"length_constraints:number_paragraphs", .check = number_paragraphs},
    {"length_constraints:nth_paragraph_first_word", .check = paragraph_first_word},
    {"detectable_format:number_bullet_lists", .check = number_bullets},
    {"detectable_format:number_highlighted_sections", .check = number_highlights},
    {"detectable_format:multiple_sections", NULL, "\\s?", "section_spliter", "\\s?\\d+\\s?", AT_LEAST,
     "num_sections"},
    {"detectable_format:title", .check = has_title},
    {"detectable_format:json_format", .check = is_json},
    {"detectable_format:constrained_response", .check = is_constrained},
    // Where none closes on a line, no later one on it does.
    {"detectable_content:number_placeholders", NULL, "\\[[^\\]\\n]*+(?:\\]|(*SKIP)(*FAIL))", NULL, "",
     AT_LEAST, "num_placeholders"},
    {"detectable_content:postscript", .check = has_postscript},
    {"combination:two_responses", .check = two_responses},
    {"combination:repeat_prompt", .check = repeats_prompt},
    {"change_case:capital_word_frequency", .check = capital_words},
    {"change_case:english_capital", .check = english_capital},
    {"change_case:english_lowercase", .check = english_lowercase},
    {"startend:end_checker", .check = ends_with},
    {"startend:quotation", .check = is_quoted},
};

enum mt_status mt_instruction_check(struct mt_context *ctx, const char *kind,
                                    const struct mt_json_node *values, struct mt_text answer, bool *known,
                                    enum mt_following *following)
{
    struct mt_python python;
    struct check check = {.ctx = ctx, .python = &python, .answer = answer, .values = values};
    size_t i = 0;
    while (i < sizeof rules / sizeof rules[0] && strcmp(rules[i].kind, kind) != 0) i++;
    *known = i < sizeof rules / sizeof rules[0];
    if (!*known) return MT_OK;
    mt_python_open(&python, ctx);
    // The values are looked at even where there is no answer: a broken row is found by any run.
    enum mt_status status = rules[i].check != NULL ? rules[i].check(&check, following)
                                                   : judge_pattern(&check, &rules[i], following);
    enum mt_status closed = mt_python_close(&python);
    if (mt_livebench_stripped(answer).bytes == 0) *following = MT_NOT_FOLLOWED;
    return status == MT_OK ? closed : status;
}

enum mt_status mt_instructions_each(struct mt_context *ctx, const struct mt_row *row,
                                    mt_instruction_visit *visit, void *self, size_t *count)
{
    struct mt_json_node values;
    *count = mt_row_items(row, "instruction_id_list");
    if (*count == 0) return mt_row_fail(row, "instruction_id_list is missing or empty");
    if (!mt_row_value(row, "kwargs", &values) || mt_json_kind(&values) != MT_JSON_ARRAY ||
        mt_json_count(&values) != *count)
        return mt_row_fail(row, "kwargs must be a list as long as instruction_id_list");
    values.file = "kwargs"; // in messages, behind the row's place
    for (size_t i = 0; i < *count; i++) {
        struct mt_json_node own = mt_json_element(&values, i);
        const char *kind = NULL;
        size_t bytes = 0;
        bool known = false;
        if (!mt_row_item(row, "instruction_id_list", i, &kind, &bytes))
            return mt_row_fail(row, "instruction_id_list must hold names");
        enum mt_status status = mt_json_expect_object(&own);
        if (status == MT_OK) status = visit(self, ctx, i, kind, &own, &known);
        if (status != MT_OK)
            return mt_fail_within(ctx, status, "%s:%llu", row->file, (unsigned long long)row->line);
        if (!known) return mt_row_fail(row, "there is no rule for the instruction '%.100s'", kind);
    }
    return MT_OK;
}
