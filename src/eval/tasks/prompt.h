/*
 * Templates of task files: text with {field} in it, and nothing that computes.
 *
 *     {question}            a field of the row
 *     {turns.0}             the first item of a list; {question.stem} a member of an object (field_place.h)
 *     {test_list|join}      a list's items, a line each
 *     {answer|after:####}   filters, one after the other
 *     {{ and }}             braces
 *
 * Filters: trim, lower, upper, words (underscores become spaces), after:TEXT and before:TEXT (of the last and
 * the first TEXT; without it all), capitalize, boxed (what the last \boxed{} holds; without one nothing),
 * unescape (a backslash and an n become a line end), unix (line ends of DOS become those of Unix), join,
 * paren (choices as "(A) text"), full_stop (one behind a text that does not end with one), replace:FROM=TO
 * (where TO is no longer than FROM), option:FIELD, given:TEXT (stands for a value that is not empty) and
 * empty:TEXT (for one that is).
 *
 * Names every template knows: choices ("A. text" lines), letters ("A, B, C or D"), subtask; in a continuation
 * also letter and choice, in a program completion.
 */
#ifndef MT_EVAL_PROMPT_H
#define MT_EVAL_PROMPT_H

#include "eval/text.h"
#include "formats/data/dataset.h"

/* What a template can name besides the row's fields; NULL and 0: nothing of the kind. */
struct mt_prompt_names {
    const struct mt_text *choices;
    size_t choice_count;
    const char *subtask;
    int choice; // of a continuation; -1: none
    const struct mt_text *completion;
};

/* Refuses what is no template: a brace that does not close, an unknown filter. The message names no place. */
enum mt_status mt_prompt_check(struct mt_context *ctx, const char *template);

/* Appends the template filled in. A field the row has not is "FILE:LINE: ...". */
enum mt_status mt_prompt_render(const char *template, const struct mt_row *row,
                                const struct mt_prompt_names *names, struct mt_byte_list *out);

#define MT_PROMPT_BREAK "\x1F" // between the values; a separator of ASCII

/*
 * Appends what the row has in the template: the values of its fields and the choices, a break behind each.
 * That is what makes a question this one, without what the template says of all.
 */
enum mt_status mt_prompt_values(const char *template, const struct mt_row *row,
                                const struct mt_prompt_names *names, struct mt_byte_list *out);

#endif
