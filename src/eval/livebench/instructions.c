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

static struct mt_text text_of(const char *text)
{
    return (struct mt_text){.text = text, .bytes = strlen(text)};
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
    *text = mt_livebench_stripped(text_of(found));
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

static enum mt_status found(const struct check *check, const char *pattern, bool *followed)
{
    size_t count = 0;
    enum mt_status status = mt_livebench_count(check->ctx, pattern, check->answer, &count);
    *followed = count > 0;
    return status;
}

// ------------------------------------------------------------------ words

/* How many of the words in list `key` occur. */
static enum mt_status count_words(const struct check *check, const char *key, const char *before,
                                  const char *behind, size_t *words, size_t *occurring)
{
    struct mt_json_node list;
    enum mt_status status = mt_json_get_array(check->values, key, &list);
    *words = status == MT_OK ? mt_json_count(&list) : 0;
    *occurring = 0;
    for (size_t i = 0; i < *words && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(&list, i);
        const char *word = NULL;
        size_t count = 0;
        status = mt_json_as_string(&item, &word);
        if (status == MT_OK)
            status =
                mt_livebench_count_literal(check->ctx, before, text_of(word), behind, check->answer, &count);
        *occurring += count > 0 ? 1 : 0;
    }
    return status;
}

/* Also within other words, as there. */
static enum mt_status has_keywords(const struct check *check, bool *followed)
{
    size_t words = 0;
    size_t occurring = 0;
    enum mt_status status = count_words(check, "keywords", "(?i)", "", &words, &occurring);
    *followed = occurring == words;
    return status;
}

/* Only whole words: "art" is not in "party". */
static enum mt_status lacks_words(const struct check *check, bool *followed)
{
    size_t words = 0;
    size_t occurring = 0;
    enum mt_status status = count_words(check, "forbidden_words", "(?i)(?<![\\p{L}\\p{N}_])",
                                        "(?![\\p{L}\\p{N}_])", &words, &occurring);
    *followed = occurring == 0;
    return status;
}

static enum mt_status keyword_often(const struct check *check, bool *followed)
{
    struct mt_text word = {0};
    size_t count = 0;
    enum mt_status status = text_in(check, "keyword", &word);
    if (status == MT_OK)
        status = mt_livebench_count_literal(check->ctx, "(?i)", word, "", check->answer, &count);
    return status == MT_OK ? related(check, "frequency", count, followed) : status;
}

static enum mt_status no_comma(const struct check *check, bool *followed)
{
    *followed = memchr(check->answer.text, ',', check->answer.bytes) == NULL;
    return MT_OK;
}

// ------------------------------------------------------------------ lengths

static enum mt_status number_words(const struct check *check, bool *followed)
{
    size_t count = 0;
    enum mt_status status = mt_livebench_count(check->ctx, "[\\p{L}\\p{N}_]+", check->answer, &count);
    return status == MT_OK ? related(check, "num_words", count, followed) : status;
}

static enum mt_status number_sentences(const struct check *check, bool *followed)
{
    return related(check, "num_sentences", mt_livebench_sentences(check->answer), followed);
}

/* Paragraphs between ***: none empty but before the first and behind the last divider. */
static enum mt_status number_paragraphs(const struct check *check, bool *followed)
{
    struct mt_pattern *divider = NULL;
    size_t wanted = 0;
    size_t filled = 0;
    size_t from = 0;
    bool more = true;
    bool empty_inside = false;
    enum mt_status status = number_in(check, "num_paragraphs", &wanted);
    if (status == MT_OK) status = mt_pattern_create(check->ctx, "(*LF)(*UCP)\\s?\\*\\*\\*\\s?", &divider);
    if (status != MT_OK) return status;
    for (size_t i = 0; more; i++) {
        struct mt_text piece = mt_livebench_next_piece(divider, check->answer, &from, &more);
        bool empty = mt_livebench_stripped(piece).bytes == 0;
        filled += empty ? 0 : 1;
        empty_inside = empty_inside || (empty && i > 0 && more);
    }
    status = mt_pattern_status(divider);
    mt_pattern_free(divider);
    *followed = filled == wanted && !empty_inside;
    return status;
}

/* Paragraphs between empty lines: as many as asked for, and number `nth_paragraph` begins with the word. */
static enum mt_status paragraph_first_word(const struct check *check, bool *followed)
{
    struct mt_pattern *divider = NULL;
    struct mt_text chosen = {.text = "", .bytes = 0};
    struct mt_text word = {0};
    size_t wanted = 0;
    size_t nth = 0;
    size_t filled = 0;
    size_t from = 0;
    size_t begins = 0;
    bool more = true;
    enum mt_status status = number_in(check, "num_paragraphs", &wanted);
    if (status == MT_OK) status = number_in(check, "nth_paragraph", &nth);
    if (status == MT_OK) status = text_in(check, "first_word", &word);
    if (status == MT_OK) status = mt_pattern_create(check->ctx, "\\n\\n", &divider);
    if (status != MT_OK) return status;
    for (size_t i = 1; more; i++) {
        struct mt_text piece = mt_livebench_next_piece(divider, check->answer, &from, &more);
        filled += mt_livebench_stripped(piece).bytes > 0 ? 1 : 0;
        if (i == nth) chosen = mt_livebench_stripped(piece);
    }
    status = mt_pattern_status(divider);
    mt_pattern_free(divider);
    if (status == MT_OK)
        status = mt_livebench_count_literal(check->ctx, "(?i)\\A'*\"*", word, "(?=[.,?!'\"\\s]|\\z)", chosen,
                                            &begins);
    *followed = filled == wanted && nth <= filled && chosen.bytes > 0 && begins > 0;
    return status;
}

// ------------------------------------------------------------------ forms

static enum mt_status number_bullets(const struct check *check, bool *followed)
{
    size_t wanted = 0;
    size_t stars = 0;
    size_t dashes = 0;
    enum mt_status status = number_in(check, "num_bullets", &wanted);
    // The authors' ^\s* goes over empty lines, too, which counts the same and takes longer.
    if (status == MT_OK)
        status = mt_livebench_count(check->ctx, "(?m)^[^\\S\\n]*+\\*[^*].*$", check->answer, &stars);
    if (status == MT_OK)
        status = mt_livebench_count(check->ctx, "(?m)^[^\\S\\n]*+-.*$", check->answer, &dashes);
    *followed = stars + dashes == wanted;
    return status;
}

static enum mt_status number_sections(const struct check *check, bool *followed)
{
    struct mt_text splitter = {0};
    size_t wanted = 0;
    size_t count = 0;
    enum mt_status status = text_in(check, "section_spliter", &splitter);
    if (status == MT_OK) status = number_in(check, "num_sections", &wanted);
    if (status == MT_OK)
        status =
            mt_livebench_count_literal(check->ctx, "\\s?", splitter, "\\s?\\d+\\s?", check->answer, &count);
    *followed = count >= wanted;
    return status;
}

static enum mt_status number_placeholders(const struct check *check, bool *followed)
{
    size_t wanted = 0;
    size_t count = 0;
    enum mt_status status = number_in(check, "num_placeholders", &wanted);
    // Where none closes on a line, no later one on it does.
    if (status == MT_OK)
        status =
            mt_livebench_count(check->ctx, "\\[[^\\]\\n]*+(?:\\]|(*SKIP)(*FAIL))", check->answer, &count);
    *followed = count >= wanted;
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
    if (status != MT_OK) return status;
    if (marker.bytes == 4 && memcmp(marker.text, "P.S.", 4) == 0)
        return found(check, "(?i)p\\.\\s?s\\.", followed);
    if (marker.bytes == 5 && memcmp(marker.text, "P.P.S", 5) == 0)
        return found(check, "(?i)p\\.\\s?p\\.\\s?s", followed);
    status = mt_livebench_count_literal(check->ctx, "(?i)", marker, "", check->answer, &count);
    *followed = count > 0;
    return status;
}

static struct mt_text without_fences(struct mt_text text)
{
    static const char *const opening[] = {"```json", "```Json", "```JSON", "```"};
    text = mt_livebench_stripped(text);
    for (size_t i = 0; i < sizeof opening / sizeof opening[0]; i++) {
        size_t bytes = strlen(opening[i]);
        if (text.bytes < bytes || memcmp(text.text, opening[i], bytes) != 0) continue;
        text.text += bytes;
        text.bytes -= bytes;
    }
    if (text.bytes >= 3 && memcmp(text.text + text.bytes - 3, "```", 3) == 0) text.bytes -= 3;
    return mt_livebench_stripped(text);
}

static enum mt_status is_json(const struct check *check, bool *followed)
{
    *followed = mt_livebench_is_json(without_fences(check->answer));
    return MT_OK;
}

/* Two different texts between ******; an empty one only at the ends. */
static enum mt_status two_responses(const struct check *check, bool *followed)
{
    struct mt_pattern *divider = NULL;
    struct mt_text filled[2] = {{0}, {0}};
    size_t count = 0;
    size_t from = 0;
    bool more = true;
    bool empty_inside = false;
    enum mt_status status = mt_pattern_create(check->ctx, "\\*{6}", &divider);
    if (status != MT_OK) return status;
    for (size_t i = 0; more; i++) {
        struct mt_text piece = mt_livebench_next_piece(divider, check->answer, &from, &more);
        piece = mt_livebench_stripped(piece);
        empty_inside = empty_inside || (piece.bytes == 0 && i > 0 && more);
        if (piece.bytes == 0) continue;
        if (count < 2) filled[count] = piece;
        count++;
    }
    status = mt_pattern_status(divider);
    mt_pattern_free(divider);
    *followed =
        count == 2 && !empty_inside &&
        (filled[0].bytes != filled[1].bytes || memcmp(filled[0].text, filled[1].text, filled[0].bytes) != 0);
    return status;
}

static enum mt_status repeats_prompt(const struct check *check, bool *followed)
{
    struct mt_text prompt = {0};
    size_t count = 0;
    enum mt_status status = text_in(check, "prompt_to_repeat", &prompt);
    if (status == MT_OK)
        status = mt_livebench_count_literal(check->ctx, "(?i)\\A\\s*", prompt, "", check->answer, &count);
    *followed = count > 0;
    return status;
}

static enum mt_status ends_with(const struct check *check, bool *followed)
{
    struct mt_text phrase = {0};
    size_t count = 0;
    enum mt_status status = text_in(check, "end_phrase", &phrase);
    if (status == MT_OK)
        status = mt_livebench_count_literal(check->ctx, "(?i)", phrase, "\"*\\s*\\z", check->answer, &count);
    *followed = count > 0;
    return status;
}

static enum mt_status is_quoted(const struct check *check, bool *followed)
{
    struct mt_text text = mt_livebench_stripped(check->answer);
    *followed = text.bytes > 1 && text.text[0] == '"' && text.text[text.bytes - 1] == '"';
    return MT_OK;
}

// ------------------------------------------------------------------ all of them

static const struct rule {
    const char *name;
    enum mt_status (*check)(const struct check *check, bool *followed);
} rules[] = {
    {"keywords:existence", has_keywords},
    {"keywords:forbidden_words", lacks_words},
    {"keywords:frequency", keyword_often},
    {"punctuation:no_comma", no_comma},
    {"length_constraints:number_words", number_words},
    {"length_constraints:number_sentences", number_sentences},
    {"length_constraints:number_paragraphs", number_paragraphs},
    {"length_constraints:nth_paragraph_first_word", paragraph_first_word},
    {"detectable_format:number_bullet_lists", number_bullets},
    {"detectable_format:multiple_sections", number_sections},
    {"detectable_format:title", has_title},
    {"detectable_format:json_format", is_json},
    {"detectable_content:number_placeholders", number_placeholders},
    {"detectable_content:postscript", has_postscript},
    {"combination:two_responses", two_responses},
    {"combination:repeat_prompt", repeats_prompt},
    {"startend:end_checker", ends_with},
    {"startend:quotation", is_quoted},
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
    enum mt_status status = rules[i].check(&check, followed);
    if (mt_livebench_stripped(answer).bytes == 0) *followed = false;
    return status;
}

enum mt_status mt_livebench_instructions(struct mt_context *ctx, const struct mt_row *row,
                                         struct mt_text answer, double *score)
{
    struct mt_json_node values;
    size_t count = mt_row_items(row, "instruction_id_list");
    size_t followed = 0;
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
