/*
 * The parsed form of a template: tokens, and a tree of nodes. All of it lies in the template's arena and does
 * not change once parsed.
 */
#ifndef MT_TEXT_JINJA_AST_H
#define MT_TEXT_JINJA_AST_H

#include "base/arena.h"
#include "text/jinja/jinja.h"

// Limits of a template.
#define JINJA_TEMPLATE_BYTES (4u << 20)
#define JINJA_NODES          400000
#define JINJA_DEPTH          150 // of expressions and blocks in one another, while parsing
#define JINJA_HEIGHT         300 // of an expression: a + b + c + ... is as high as it is long

enum jinja_token_kind {
    JINJA_TOKEN_END, // of the template
    JINJA_TOKEN_DATA,
    JINJA_TOKEN_BLOCK_BEGIN,
    JINJA_TOKEN_BLOCK_END,
    JINJA_TOKEN_VARIABLE_BEGIN,
    JINJA_TOKEN_VARIABLE_END,
    JINJA_TOKEN_NAME,
    JINJA_TOKEN_STRING,
    JINJA_TOKEN_INTEGER,
    JINJA_TOKEN_REAL,
    JINJA_TOKEN_OPERATOR,
};

struct jinja_token {
    enum jinja_token_kind kind;
    int line;
    const char *text; // data, name, the text of a string, or the operator
    size_t bytes;
    int64_t integer;
    double real;
};

struct jinja_tokens {
    struct jinja_token *data;
    size_t count;
    size_t capacity;
};

enum jinja_node_kind {
    // expressions
    JINJA_CONSTANT,      // value
    JINJA_NAME,          // text
    JINJA_TUPLE_OF,      // items
    JINJA_LIST_OF,       // items
    JINJA_DICT_OF,       // items: key, value, key, value, ...
    JINJA_CONDITION,     // a if b else c; c may be NULL
    JINJA_OR,            // a or b
    JINJA_AND,           // a and b
    JINJA_NOT,           // not a
    JINJA_COMPARISON,    // a, then items: each a COMPARE_WITH
    JINJA_COMPARE_WITH,  // text: the operator; a: the operand
    JINJA_BINARY,        // a, text: the operator, b
    JINJA_UNARY,         // text: the operator, a
    JINJA_CONCATENATION, // items, joined as text
    JINJA_ATTRIBUTE,     // a.text
    JINJA_ITEM,          // a[b]
    JINJA_SLICE_OF,      // a:b:c, each may be NULL; only as b of an ITEM
    JINJA_CALL,          // a(items)
    JINJA_FILTER,        // a | text(items); a is NULL for the text of a block
    JINJA_TEST,          // a is text(items)
    // arguments, among the items of calls, filters and tests
    JINJA_KEYWORD,     // text = a
    JINJA_STAR,        // *a
    JINJA_DOUBLE_STAR, // **a
    // statements
    JINJA_DATA,       // text
    JINJA_OUTPUT,     // a
    JINJA_IF,         // a: the test, b: BODY, c: BODY or IF of what follows, or NULL
    JINJA_FOR,        // a: target, b: what is walked, c: BODY, d: BODY of else or NULL, e: the filter or NULL
    JINJA_SET,        // a: target, b: the value
    JINJA_SET_BLOCK,  // a: target, b: filter or NULL, c: BODY
    JINJA_MEMBER,     // text.member as a target of set
    JINJA_WITH,       // items: target, value, target, value, ...; c: BODY
    JINJA_MACRO_DEF,  // text: the name, items: PARAMETER, c: BODY
    JINJA_PARAMETER,  // text, a: the default or NULL
    JINJA_CALL_BLOCK, // a: CALL, items: PARAMETER, c: BODY
    JINJA_FILTER_BLOCK, // a: FILTER, c: BODY
    JINJA_GENERATION,   // c: BODY
    JINJA_BREAK,
    JINJA_CONTINUE,
    JINJA_BODY, // items: statements
};

struct jinja_node {
    enum jinja_node_kind kind;
    int line;
    int height;        // of the tree below
    bool recursive;    // of FOR
    bool wants_caller; // of MACRO_DEF and CALL_BLOCK: the body names caller, kwargs, varargs
    bool wants_kwargs;
    bool wants_varargs;
    struct mt_marked text;
    struct mt_value value;
    struct jinja_node *a, *b, *c, *d, *e;
    struct jinja_node **items;
    size_t count;
};

struct mt_jinja {
    struct mt_context *ctx; // borrowed
    struct mt_arena arena;
    const char *name;
    const struct jinja_node *body;
    bool has_generation;
};

/*
 * A parsing under way. It fails once: the first failure is kept with its sentence, and the parser then stands
 * at the end of the template, where nothing more is found. Nodes made from there on are `nothing`.
 */
struct jinja_parser {
    struct mt_context *ctx;
    struct mt_arena *arena;
    const char *name; // of the template
    enum mt_status status;
    struct jinja_node nothing;
    struct jinja_tokens tokens;
    size_t at;
    size_t nodes;
    int depth;
    int loops;      // around the current place, inside its function: break and continue need one
    int conditions; // around the current place: an unknown filter is then refused when it is reached
    bool has_generation;
    bool names_caller; // since the innermost macro began
    bool names_kwargs;
    bool names_varargs;
};

/* Grows an array inside an arena, doubling; the old one is left behind. */
enum mt_status mt_jinja_arena_grow(struct mt_arena *arena, void **items, size_t *capacity, size_t item_bytes,
                                   size_t needed);

/* Splits the text of a template into tokens, the last of which is the end. */
void mt_jinja_lex(struct jinja_parser *parser, const char *text, size_t bytes);

/* Records "NAME, line N: MESSAGE" if nothing failed before. */
void mt_jinja_parse_fail(struct jinja_parser *parser, enum mt_status status, int line, const char *format,
                         ...) __attribute__((format(printf, 4, 5)));

/* Takes a status, whose sentence is there, as the parser's own; false: it failed. */
bool mt_jinja_parse_check(struct jinja_parser *parser, enum mt_status status);

static inline bool mt_jinja_parse_failed(const struct jinja_parser *parser)
{
    return parser->status != MT_OK;
}

// The token at the current place, and steps from it.
const struct jinja_token *mt_jinja_current(const struct jinja_parser *parser);
const struct jinja_token *mt_jinja_ahead(const struct jinja_parser *parser); // the one after it
void mt_jinja_advance(struct jinja_parser *parser);
bool mt_jinja_is_operator(const struct jinja_token *token, const char *text);
bool mt_jinja_is_name(const struct jinja_token *token, const char *text);
bool mt_jinja_at_operator(const struct jinja_parser *parser, const char *text);
bool mt_jinja_skip_operator(struct jinja_parser *parser, const char *text);
bool mt_jinja_skip_name(struct jinja_parser *parser, const char *text);
void mt_jinja_expect_operator(struct jinja_parser *parser, const char *text);
struct mt_marked mt_jinja_expect_name(struct jinja_parser *parser);
void mt_jinja_expect_end(struct jinja_parser *parser, enum jinja_token_kind kind); // of a block or a variable
/* "unexpected ..." about the current token. */
void mt_jinja_unexpected(struct jinja_parser *parser, const char *expected);

bool mt_jinja_enter(struct jinja_parser *parser); // one deeper; false: too deep, or it failed before
void mt_jinja_leave(struct jinja_parser *parser);

struct jinja_node *mt_jinja_node_new(struct jinja_parser *parser, enum jinja_node_kind kind, int line);
/* Sets the height from a..e and items, when a node's children are in place; returns the node. */
struct jinja_node *mt_jinja_node_finish(struct jinja_parser *parser, struct jinja_node *node);

struct jinja_node_list {
    struct jinja_node **items;
    size_t count;
    size_t capacity;
};
void mt_jinja_node_list_add(struct jinja_parser *parser, struct jinja_node_list *list,
                            struct jinja_node *node);
/* Gives a node the items, and finishes it. */
struct jinja_node *mt_jinja_node_adopt(struct jinja_parser *parser, struct jinja_node *node,
                                       const struct jinja_node_list *list);

// Expressions. A tuple without parentheses ends before "}}", "%}", ")" or the name `end` (NULL: none).
struct jinja_node *mt_jinja_parse_expression(struct jinja_parser *parser, bool condition);
struct jinja_node *mt_jinja_parse_tuple(struct jinja_parser *parser, bool condition, const char *end);
struct jinja_node *mt_jinja_parse_target(struct jinja_parser *parser, const char *end, bool member);
/* "| name(args) | name ...", or with `first` "name(args) | ...", on `subject`, which may be NULL. */
struct jinja_node *mt_jinja_parse_filters(struct jinja_parser *parser, bool first,
                                          struct jinja_node *subject);

/* Statements, up to the end of the template. */
struct jinja_node *mt_jinja_parse_template(struct jinja_parser *parser);

// What the library has, asked by the parser.
bool mt_jinja_has_filter(struct mt_marked name);
bool mt_jinja_has_test(struct mt_marked name);

#endif
