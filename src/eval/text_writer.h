/* A text in the making, whose first failure stays: what writes many small parts asks once, at the end. */
#ifndef MT_EVAL_TEXT_WRITER_H
#define MT_EVAL_TEXT_WRITER_H

#include "eval/run/results.h"

struct mt_text_writer {
    struct mt_byte_list text;
    enum mt_status status;
};

static inline void mt_put(struct mt_text_writer *writer, const char *text)
{
    if (writer->status == MT_OK) writer->status = mt_byte_list_append_text(&writer->text, text);
}

/* `before` as it is, then a quoted string of JSON; NULL: an empty one. */
static inline void mt_put_string(struct mt_text_writer *writer, const char *before, const char *text)
{
    struct mt_text whole = {.text = text != NULL ? text : "", .bytes = text != NULL ? strlen(text) : 0};
    mt_put(writer, before);
    if (writer->status == MT_OK) writer->status = mt_results_append_string(&writer->text, whole);
}

/* `before` as it is, then a number. */
static inline void mt_put_number(struct mt_text_writer *writer, const char *before, double number)
{
    mt_put(writer, before);
    if (writer->status == MT_OK) writer->status = mt_results_append_number(&writer->text, number);
}

#endif
