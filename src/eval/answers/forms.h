/*
 * How prose states an answer: share/answers/forms.yaml, read and compiled for one kind of value. The file is
 * part of the program; it says itself what it may hold.
 */
#ifndef MT_EVAL_FORMS_H
#define MT_EVAL_FORMS_H

#include "eval/answers/pattern.h"
#include "eval/text.h"

#define MT_FORMS_MOST 64

enum mt_statement_kind {
    MT_STATE_LETTER,
    MT_STATE_WORD,
    MT_STATE_TEXT, // a number, or whatever stands there
    MT_STATE_KINDS
};

struct mt_form {
    int rank;      // 0: the most explicit
    bool corrects; // counts only behind another statement, which it takes back: "No, it's 24"
    bool once;     // marks one of a list: several are none
    struct mt_pattern *pattern;
};

struct mt_forms {
    struct mt_form each[MT_FORMS_MOST];
    size_t count;
    struct mt_pattern *denial; // what denies the value behind it; NULL: of texts
};

/* The forms of a kind of value; `words` of WORD, NULL-terminated. The caller frees them, also after a
 * failure. */
enum mt_status mt_forms_open(struct mt_context *ctx, enum mt_statement_kind kind, const char *const *words,
                             struct mt_forms *forms);
void mt_forms_free(struct mt_forms *forms); // a zeroed struct is allowed

/* The same from a text of the caller's. What makes no sense is refused as "FILE:LINE: ...". */
enum mt_status mt_forms_read(struct mt_context *ctx, const char *file, struct mt_text text,
                             enum mt_statement_kind kind, const char *const *words, struct mt_forms *forms);

/* MT_ERR_LIMIT where a search since the last call needed too much work; pattern.h. */
enum mt_status mt_forms_status(const struct mt_forms *forms);

extern const char mt_answer_forms[]; // the file; NUL-terminated

#endif
