/*
 * Mathematics as people and models write it, LaTeX or plain, to a tree:
 *
 *     math/clean.c      one spelling: $, \left, \,, \dfrac, unicode signs, ... out or replaced
 *     math/respell.c    words that stand for signs, "5 out of 9", and math/qualify.c what only explains
 *     math/lex.c        tokens: numbers with their separators, symbols, commands, words
 *     math/parse.c      the tree, of nodes that math/nodes.c makes; lists and relations in math/parse_lists.c
 *
 * Depth and number of nodes are bounded; what is not understood is no failure but "not mathematics".
 */
#ifndef MT_EVAL_MATH_TREE_H
#define MT_EVAL_MATH_TREE_H

#include "base/arena.h"
#include "eval/math/rational.h"
#include "formats/text/lists.h"

enum mt_math_kind {
    MT_MATH_NUMBER,
    MT_MATH_SYMBOL,
    MT_MATH_INFINITY,
    MT_MATH_SUM,       // children added
    MT_MATH_NEGATIVE,  // of the child
    MT_MATH_EITHER,    // the child with both signs: ±
    MT_MATH_PRODUCT,   // children multiplied
    MT_MATH_QUOTIENT,  // first by second
    MT_MATH_POWER,     // first to the second
    MT_MATH_CALL,      // function `call` of the child; logarithm to a base: of two children
    MT_MATH_FACTORIAL, // of the child
    MT_MATH_CHOOSE,    // first over second
    MT_MATH_PERCENT,   // of the child
    MT_MATH_DEGREE,    // of the child
    MT_MATH_UNIT,      // the child in `text`
    MT_MATH_GROUP,     // children between `open` and `close`; open 0: a bare list
    MT_MATH_UNION,     // of the children
    MT_MATH_RELATION,  // children with `relations` between
    MT_MATH_TEXT,      // words
};

enum mt_math_call {
    MT_CALL_SQRT, // of the child, or with a second child that root
    MT_CALL_ABS,
    MT_CALL_SIN,
    MT_CALL_COS,
    MT_CALL_TAN,
    MT_CALL_COT,
    MT_CALL_SEC,
    MT_CALL_CSC,
    MT_CALL_ARCSIN,
    MT_CALL_ARCCOS,
    MT_CALL_ARCTAN,
    MT_CALL_LOG, // natural without a base, as in most of mathematics
    MT_CALL_EXP,
    MT_CALL_SINH,
    MT_CALL_COSH,
    MT_CALL_TANH,
    MT_CALL_FLOOR,
    MT_CALL_CEIL,
};

// Symbols that mean a number; letters are their code, others follow.
enum {
    MT_SYMBOL_E = 'e',
    MT_SYMBOL_I = 'i',
    MT_SYMBOL_PI = 128,
    MT_SYMBOL_WHOLE = 900,
    MT_SYMBOL_NATURAL = 901
};

#define MT_MATH_RELATIONS 4 // in a chain, at most

struct mt_math_node {
    enum mt_math_kind kind;
    struct mt_rational number; // of NUMBER
    bool flag;                 // of EITHER: ∓; of a bare GROUP: "or" stands in it
    int64_t symbol;            // a letter's code, or of MT_SYMBOL_PI on; a subscript adds thousands
    enum mt_math_call call;
    char open, close;                  // of GROUP: ( ) [ ] { }
    char relations[MT_MATH_RELATIONS]; // = < > l(≤) g(≥) n(≠) a(≈) e(∈)
    const char *text;                  // of TEXT and UNIT, NUL-terminated
    struct mt_math_node *first;
    struct mt_math_node *last;
    struct mt_math_node *next;
    int count;
};

/*
 * Parses a cleaned text into the arena. *root is NULL when it is not mathematics as known here. Fails only
 * for want of memory.
 */
enum mt_status mt_math_parse(struct mt_arena *arena, const char *text, size_t bytes,
                             struct mt_math_node **root);

/* Appends the text in the one spelling the lexer knows. */
enum mt_status mt_math_clean(const char *text, size_t bytes, struct mt_byte_list *out);

/* Parts of it. Decimals that go on, "0.4545...", get a line over what repeats. */
enum mt_status mt_math_repeat(struct mt_byte_list *out, size_t start);

/* Words and marks between numbers that are signs: "5 out of 9", "7 choose 3", "12 by 5", "^5C_2", "101 (base
 * 2)"; what "(or 70%)" says behind an answer stands beside it. */
enum mt_status mt_math_respell(struct mt_byte_list *out, size_t start);

/* What only says what letters stand for ("for some constant c") goes from behind `start`; "(n
 * \in Z)" becomes ", n \in Z"; "all real numbers except 3" becomes a set without another. */
enum mt_status mt_math_qualify(struct mt_byte_list *out, size_t start);

/* Appends what two cleaned texts are compared by when nothing else helps: no spaces, punctuation at the ends,
 * case. */
enum mt_status mt_math_fold(const char *text, size_t bytes, struct mt_byte_list *out);

#endif
