/* Tokens of cleaned mathematics, and the state of the parser that takes them. */
#ifndef MT_EVAL_MATH_LEX_H
#define MT_EVAL_MATH_LEX_H

#include "eval/math/tree.h"

enum mt_math_token_kind {
    MT_TOKEN_END,
    MT_TOKEN_NUMBER,
    MT_TOKEN_SYMBOL,  // one letter, or a Greek one
    MT_TOKEN_COMMAND, // \frac, or a word that is a function's name
    MT_TOKEN_TEXT,    // \text{...}
    MT_TOKEN_UNIT,    // a word of the list of units
    MT_TOKEN_WORD,    // some other word
    MT_TOKEN_SIGN,    // one character
    MT_TOKEN_UNKNOWN,
};

struct mt_math_token {
    enum mt_math_token_kind kind;
    const char *start;
    size_t bytes;
    struct mt_rational number;
    bool whole; // digits alone
    int64_t symbol;
    char sign;
    bool spaced; // white space before it
};

struct mt_math_parser {
    struct mt_numbers numbers; // and the arena
    const char *begin;
    const char *at;
    const char *end;
    struct mt_math_token token; // the next one
    int inside;                 // brackets open: a comma there always separates
    int bars;                   // set: a bar closes what is open, and opens nothing
    int depth;
    int nodes;
    bool failed; // not mathematics
};

/* Reads the next token. */
void mt_math_advance(struct mt_math_parser *parser);

/* Replaces a number of several digits by its first: \frac12, and puts the rest back. */
void mt_math_first_digit(struct mt_math_parser *parser);

bool mt_math_is_sign(const struct mt_math_parser *parser, char sign);
bool mt_math_is_command(const struct mt_math_parser *parser, const char *name);

/* Takes the sign, or the command, when it comes next. */
bool mt_math_take(struct mt_math_parser *parser, char sign);
bool mt_math_take_command(struct mt_math_parser *parser, const char *name);

#endif
