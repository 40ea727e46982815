/*
 * The answer a text states, as a person would read it. A table of forms (forms.h) says how answers are
 * given, in ranks: explicit statements ("The answer is (B)", "\boxed{B}") before conclusions ("So it is B"),
 * these before lines of their own, and these before mere mentions. Of the best rank there is, the last
 * statement counts. Several answers in one statement ("A and C") are no answer.
 */
#ifndef MT_EVAL_STATEMENT_H
#define MT_EVAL_STATEMENT_H

#include "eval/answers/forms.h"

/*
 * Appends the text in plain characters, so that patterns need not know them all: full-width letters and
 * punctuation as ASCII, quotes, dashes and minus signs of all kinds as " ' -, spaces of all kinds as one.
 * What a model thought (</think>) before it answered is left out. `text` is valid UTF-8.
 */
enum mt_status mt_statement_plain(struct mt_text text, struct mt_byte_list *plain);

/* Where an answer is announced first: a box, "Answer:", "the answer is"; text.bytes: nowhere. */
size_t mt_statement_announced(struct mt_text text);

enum mt_denial {
    MT_DENIAL_NONE,
    MT_DENIAL_FOUND,
    MT_DENIAL_OPEN, // "whether it is valid"
};

/* A text as letters and words are read in it: without marks of emphasis around words, "*not* valid"; those of
 * letters alone stay. */
struct mt_clauses {
    struct mt_byte_list text;
    struct mt_byte_list denials; // for each byte: what a denial before it makes of a value that begins there
};

/* Reads the lists of `clauses`, which are empty; the caller frees them, also after a failure. */
enum mt_status mt_clauses_read(const struct mt_forms *forms, struct mt_text plain,
                               struct mt_clauses *clauses);
void mt_clauses_free(struct mt_clauses *clauses);

/* The letter, in upper case; of the first `choices` of the alphabet (0: of all). False: none is stated. */
bool mt_statement_letter(const struct mt_forms *forms, const struct mt_clauses *clauses, int choices,
                         struct mt_text *letter);

/* One of the words, as the list spells it; "plausible=yes" in the list is another word for one of it. Where
 * there are two, "not" before one is the other. */
bool mt_statement_word(const struct mt_forms *forms, const char *const *words,
                       const struct mt_clauses *clauses, struct mt_text *word);

/* The last number that is stated, or else the last one there is: sign, digits, *10^{exponent}, or a fraction.
 * Appended, where there is one. */
enum mt_status mt_statement_number(const struct mt_forms *forms, struct mt_text plain,
                                   struct mt_byte_list *number);

/* True for what stands behind the marks in "#### 8" and "#### $1,024 in all", but not in a heading:
 * "#### 2. Multiply", "#### 2 Multiply", "#### Step 3". */
bool mt_statement_marked(struct mt_text text, size_t at);

/* The text up to a heading behind which the answer before it is only explained: "Explanation:". */
struct mt_text mt_statement_unexplained(struct mt_text text);

/* The final answer of a solution in mathematics, appended where there is one (statement_math.c). */
enum mt_status mt_statement_math(const struct mt_forms *forms, struct mt_text plain,
                                 struct mt_byte_list *answer);

/* The last text that is stated: a box, or the rest of a sentence, without markup at its ends. */
bool mt_statement_text(const struct mt_forms *forms, struct mt_text plain, struct mt_text *text);

/* What the last \boxed{} of a text holds; false: there is none. */
bool mt_statement_boxed(struct mt_text text, struct mt_text *inner);

#endif
