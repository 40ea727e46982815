/*
 * Places in a row, as templates and keys of task files name them:
 *
 *     question           a field
 *     question.stem      a member of an object of JSON
 *     answers.0          an item of a list, from 0
 *     choices.text       of an object a member; of a list of objects that member of each, as a list
 *
 * A field that has the whole name, dots and all, comes first.
 */
#ifndef MT_EVAL_FIELD_PLACE_H
#define MT_EVAL_FIELD_PLACE_H

#include "eval/text.h"
#include "formats/data/dataset.h"

enum mt_place_kind {
    MT_PLACE_NONE,   // nothing is there
    MT_PLACE_TEXT,   // a text, or a number, a truth value or null written out
    MT_PLACE_LIST,   // items
    MT_PLACE_OBJECT, // members, which are its items by name
};

/* Lasts as long as the row is not read again. */
struct mt_field_place {
    enum mt_place_kind kind;
    struct mt_text text;      // of TEXT in a field
    bool is_json;             // what there is is in `node`, not in `text`
    struct mt_json_node node; // without a parent
    const char *rest;         // of LIST: the path in each item; "": the item itself
};

struct mt_field_place mt_field_place(const struct mt_row *row, const char *path);

/* Items of a list, members of an object; of anything else 0. */
size_t mt_field_place_count(const struct mt_field_place *place);

/* Appends a text; *is_text is false, and nothing is appended, where there is none. */
enum mt_status mt_field_place_append(const struct mt_field_place *place, struct mt_byte_list *out,
                                     bool *is_text);

/* The same of an item; *key is the member's name in an object, else NULL. */
enum mt_status mt_field_place_append_item(const struct mt_field_place *place, size_t index,
                                          struct mt_byte_list *out, bool *is_text, const char **key);

/* Appends the names a template can use for this row: "question.stem, question.choices.text, answerKey". */
enum mt_status mt_row_append_names(const struct mt_row *row, struct mt_byte_list *out);

#endif
