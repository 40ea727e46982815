/* What stands between operators: numbers, symbols, brackets, fractions, roots, functions, matrices. */
#include <string.h>

#include "eval/math/lex.h"

struct named_call {
    const char *name;
    enum mt_math_call call;
};

static const struct named_call calls[] = {
    {"sin", MT_CALL_SIN},       {"cos", MT_CALL_COS}, {"tan", MT_CALL_TAN},       {"cot", MT_CALL_COT},
    {"sec", MT_CALL_SEC},       {"csc", MT_CALL_CSC}, {"arcsin", MT_CALL_ARCSIN}, {"arccos", MT_CALL_ARCCOS},
    {"arctan", MT_CALL_ARCTAN}, {"log", MT_CALL_LOG}, {"ln", MT_CALL_LOG},        {"lg", MT_CALL_LOG},
    {"exp", MT_CALL_EXP},       {"abs", MT_CALL_ABS}, {"floor", MT_CALL_FLOOR},   {"ceil", MT_CALL_CEIL},
};

/* {...}, or the one token TeX takes without braces. */
static struct mt_math_node *argument(struct mt_math_parser *parser)
{
    mt_math_first_digit(parser);
    if (!mt_math_take(parser, '{')) return mt_math_base(parser);
    struct mt_math_node *node = mt_math_sum(parser);
    if (!parser->failed && !mt_math_take(parser, '}')) return mt_math_fail(parser);
    return node;
}

static struct mt_math_node *two(struct mt_math_parser *parser, enum mt_math_kind kind)
{
    struct mt_math_node *node = mt_math_node(parser, kind);
    mt_math_adopt(node, argument(parser));
    if (!parser->failed) mt_math_adopt(node, argument(parser));
    return node;
}

static struct mt_math_node *call_node(struct mt_math_parser *parser, enum mt_math_call call)
{
    struct mt_math_node *node = mt_math_node(parser, MT_MATH_CALL);
    if (node != NULL) node->call = call;
    return node;
}

/* \sqrt{2}, \sqrt[3]{2}, \sqrt2, sqrt(2). */
static struct mt_math_node *root(struct mt_math_parser *parser)
{
    struct mt_math_node *node = call_node(parser, MT_CALL_SQRT);
    struct mt_math_node *degree = NULL;
    if (mt_math_take(parser, '[')) {
        degree = mt_math_sum(parser);
        if (parser->failed || !mt_math_take(parser, ']')) return mt_math_fail(parser);
    }
    bool plain = parser->token.kind == MT_TOKEN_NUMBER && parser->token.spaced; // √12 became "\sqrt 12"
    mt_math_adopt(node, plain ? mt_math_base(parser) : argument(parser));
    mt_math_adopt(node, degree);
    return node;
}

/* sin x, sin(x), \sin^2 x, \log_2 8. The argument without brackets is one product of factors. */
static struct mt_math_node *function(struct mt_math_parser *parser, enum mt_math_call call)
{
    struct mt_math_node *node = call_node(parser, call);
    struct mt_math_node *base = NULL;
    struct mt_math_node *power = NULL;
    bool more = true;
    while (!parser->failed && more) {
        if (mt_math_take(parser, '_')) {
            base = argument(parser);
        } else if (mt_math_take(parser, '^')) {
            power = argument(parser);
        } else {
            more = false;
        }
    }
    if (parser->failed || !mt_math_begins_factor(parser)) return mt_math_fail(parser);
    bool bracket = mt_math_is_sign(parser, '(') || mt_math_is_sign(parser, '{');
    struct mt_math_node *inner = bracket ? mt_math_base(parser) : mt_math_factor(parser);
    while (!parser->failed && !bracket && mt_math_begins_factor(parser) &&
           parser->token.kind != MT_TOKEN_COMMAND && !mt_math_is_sign(parser, '(')) {
        struct mt_math_node *both = mt_math_node(parser, MT_MATH_PRODUCT);
        mt_math_adopt(both, inner);
        mt_math_adopt(both, mt_math_factor(parser));
        inner = both;
    }
    mt_math_adopt(node, inner);
    mt_math_adopt(node, base);
    if (power == NULL) return node;
    struct mt_math_node *raised = mt_math_node(parser, MT_MATH_POWER);
    mt_math_adopt(raised, node);
    mt_math_adopt(raised, power);
    return raised;
}

/* \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}: rows as groups, a column or a row alone as one group. */
static struct mt_math_node *matrix(struct mt_math_parser *parser)
{
    const char *brace = parser->at;
    while (brace < parser->end && *brace != '}') brace++;
    if (!mt_math_is_sign(parser, '{') || brace == parser->end) return mt_math_fail(parser);
    bool array =
        memcmp(parser->at, "array", (size_t)(brace - parser->at) < 5 ? 0 : 5) == 0 && brace - parser->at == 5;
    parser->at = brace + 1;
    mt_math_advance(parser);
    if (array && mt_math_is_sign(parser, '{')) { // how columns are set
        while (parser->at < parser->end && *parser->at != '}') parser->at++;
        if (parser->at == parser->end) return mt_math_fail(parser);
        parser->at++;
        mt_math_advance(parser);
    }
    struct mt_math_node *rows = mt_math_node(parser, MT_MATH_GROUP);
    struct mt_math_node *row = mt_math_node(parser, MT_MATH_GROUP);
    bool single = true;
    while (!parser->failed && rows != NULL && row != NULL) {
        row->open = '(';
        row->close = ')';
        mt_math_adopt(row, mt_math_sum(parser));
        if (mt_math_take(parser, '&')) continue;
        single = single && row->count == 1;
        mt_math_adopt(rows, row);
        bool more = mt_math_take(parser, 'R');
        if (mt_math_is_command(parser, "end")) break;
        if (!more) return mt_math_fail(parser);
        row = mt_math_node(parser, MT_MATH_GROUP);
    }
    while (!parser->failed && parser->at < parser->end && *parser->at != '}') parser->at++;
    if (parser->failed || rows == NULL || parser->at == parser->end) return mt_math_fail(parser);
    parser->at++;
    mt_math_advance(parser);
    rows->open = '(';
    rows->close = ')';
    if (rows->count == 1) return rows->first;
    for (struct mt_math_node *each = rows->first; single && each != NULL; each = each->next) {
        struct mt_math_node *next = each->next;
        *each = *each->first;
        each->next = next;
    }
    return rows;
}

static struct mt_math_node *command(struct mt_math_parser *parser)
{
    struct mt_math_token token = parser->token;
    mt_math_advance(parser);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strlen(calls[i].name) == token.bytes && memcmp(calls[i].name, token.start, token.bytes) == 0) {
            return function(parser, calls[i].call);
        }
    }
    if (token.bytes == 4 && memcmp(token.start, "frac", 4) == 0) return two(parser, MT_MATH_QUOTIENT);
    if (token.bytes == 5 && memcmp(token.start, "binom", 5) == 0) return two(parser, MT_MATH_CHOOSE);
    if (token.bytes == 4 && memcmp(token.start, "sqrt", 4) == 0) return root(parser);
    if (token.bytes == 5 && memcmp(token.start, "begin", 5) == 0) return matrix(parser);
    if (token.bytes >= 5 && memcmp(token.start, "infty", 5) == 0)
        return mt_math_node(parser, MT_MATH_INFINITY);
    if (token.bytes == 8 && memcmp(token.start, "infinity", 8) == 0)
        return mt_math_node(parser, MT_MATH_INFINITY);
    bool floor = token.bytes == 6 && memcmp(token.start, "lfloor", 6) == 0;
    bool ceil = token.bytes == 5 && memcmp(token.start, "lceil", 5) == 0;
    if (!floor && !ceil) return mt_math_fail(parser);
    struct mt_math_node *node = call_node(parser, floor ? MT_CALL_FLOOR : MT_CALL_CEIL);
    mt_math_adopt(node, mt_math_sum(parser));
    if (!mt_math_is_command(parser, floor ? "rfloor" : "rceil")) return mt_math_fail(parser);
    mt_math_advance(parser);
    return node;
}

/* A list between brackets; one thing in round or bare braces is that thing. */
static struct mt_math_node *brackets(struct mt_math_parser *parser, char open)
{
    char square = open == '[' ? '[' : '\0';
    if (parser->depth >= MT_MATH_MOST_DEPTH) return mt_math_fail(parser);
    parser->depth++;
    parser->inside += open == '{' ? 0 : 1;
    mt_math_advance(parser);
    struct mt_math_node *inner = NULL;
    if (!mt_math_is_sign(parser, open == 'S' ? 'T' : ')')) inner = mt_math_list(parser);
    parser->depth--;
    parser->inside -= open == '{' ? 0 : 1;
    if (parser->failed) return NULL;
    char close = parser->token.kind == MT_TOKEN_SIGN ? parser->token.sign : '\0';
    bool fits = open == '{' ? close == '}' : (open == 'S' ? close == 'T' : close == ')' || close == ']');
    if (!fits) return mt_math_fail(parser);
    mt_math_advance(parser);
    bool bare = inner != NULL && inner->kind == MT_MATH_GROUP && inner->open == '\0';
    bool alone = inner != NULL && !bare;
    if (alone && open != 'S' && open != '[') return close == ']' ? mt_math_fail(parser) : inner;
    if (open == '{') return inner;
    struct mt_math_node *group = bare ? inner : mt_math_node(parser, MT_MATH_GROUP);
    if (alone) mt_math_adopt(group, inner);
    if (group == NULL) return mt_math_fail(parser);
    group->open = open == 'S' ? '{' : (square != '\0' ? square : '(');
    group->close = close == 'T' ? '}' : close;
    return group;
}

static struct mt_math_node *absolute(struct mt_math_parser *parser)
{
    mt_math_advance(parser);
    struct mt_math_node *node = call_node(parser, MT_CALL_ABS);
    mt_math_adopt(node, mt_math_sum(parser));
    if (!parser->failed && !mt_math_take(parser, '|')) return mt_math_fail(parser);
    return node;
}

static struct mt_math_node *words(struct mt_math_parser *parser)
{
    struct mt_math_node *node = mt_math_node(parser, MT_MATH_TEXT);
    char *text = NULL;
    enum mt_status status =
        mt_arena_copy_text(parser->arena, parser->token.start, parser->token.bytes, &text);
    if (status != MT_OK || node == NULL) {
        if (status != MT_OK) parser->status = status;
        return mt_math_fail(parser);
    }
    node->text = text;
    mt_math_advance(parser);
    return node;
}

struct mt_math_node *mt_math_base(struct mt_math_parser *parser)
{
    const struct mt_math_token token = parser->token;
    if (parser->failed) return NULL;
    switch (token.kind) {
    case MT_TOKEN_NUMBER:
    case MT_TOKEN_SYMBOL: {
        struct mt_math_node *node =
            mt_math_node(parser, token.kind == MT_TOKEN_NUMBER ? MT_MATH_NUMBER : MT_MATH_SYMBOL);
        if (node == NULL) return NULL;
        node->number = token.number;
        node->value = token.value;
        node->flag = token.exact;
        node->symbol = token.symbol;
        mt_math_advance(parser);
        return node;
    }
    case MT_TOKEN_COMMAND: return command(parser);
    case MT_TOKEN_TEXT: return words(parser);
    case MT_TOKEN_SIGN:
        if (strchr("([{S", token.sign) != NULL) return brackets(parser, token.sign);
        if (token.sign == '|') return absolute(parser);
        return mt_math_fail(parser);
    default: return mt_math_fail(parser);
    }
}

/* x_1 is a symbol of its own; the subscript of a number names its base. */
static struct mt_math_node *subscript(struct mt_math_parser *parser, struct mt_math_node *base)
{
    bool braced = mt_math_take(parser, '{');
    struct mt_math_token token = parser->token;
    bool short_name = token.kind == MT_TOKEN_SYMBOL || (token.kind == MT_TOKEN_NUMBER && token.whole);
    if (!short_name || token.bytes > 3) {
        if (token.kind != MT_TOKEN_TEXT) return mt_math_fail(parser);
    }
    mt_math_advance(parser);
    if (braced && !mt_math_take(parser, '}')) return mt_math_fail(parser);
    if (base == NULL) return NULL;
    if (base->kind == MT_MATH_SYMBOL) {
        int name = token.kind == MT_TOKEN_NUMBER ? (int)token.value : 1000 + token.symbol;
        base->symbol = base->symbol % 1000 + 1000 * (name + 1);
        return base;
    }
    struct mt_math_node *unit = mt_math_node(parser, MT_MATH_UNIT);
    char *text = NULL;
    enum mt_status status = mt_arena_copy_text(parser->arena, token.start, token.bytes, &text);
    if (status != MT_OK) parser->status = status;
    if (status != MT_OK || unit == NULL) return mt_math_fail(parser);
    unit->text = text;
    mt_math_adopt(unit, base);
    return unit;
}

static struct mt_math_node *wrap(struct mt_math_parser *parser, enum mt_math_kind kind,
                                 struct mt_math_node *child)
{
    struct mt_math_node *node = mt_math_node(parser, kind);
    mt_math_adopt(node, child);
    return node;
}

static struct mt_math_node *raise(struct mt_math_parser *parser, struct mt_math_node *base)
{
    mt_math_advance(parser);
    bool braced = mt_math_take(parser, '{');
    if (mt_math_is_command(parser, "deg")) {
        mt_math_advance(parser);
        if (braced && !mt_math_take(parser, '}')) return mt_math_fail(parser);
        return wrap(parser, MT_MATH_DEGREE, base);
    }
    struct mt_math_node *power = wrap(parser, MT_MATH_POWER, base);
    bool negative = !braced && mt_math_take(parser, '-');
    struct mt_math_node *exponent = braced ? mt_math_sum(parser) : mt_math_base(parser);
    if (braced && !parser->failed && !mt_math_take(parser, '}')) return mt_math_fail(parser);
    mt_math_adopt(power, negative ? wrap(parser, MT_MATH_NEGATIVE, exponent) : exponent);
    return power;
}

struct mt_math_node *mt_math_factor(struct mt_math_parser *parser)
{
    if (parser->depth >= MT_MATH_MOST_DEPTH) return mt_math_fail(parser);
    parser->depth++;
    struct mt_math_node *node = mt_math_base(parser);
    bool more = true;
    while (!parser->failed && more) {
        if (mt_math_is_sign(parser, '^')) {
            node = raise(parser, node);
        } else if (mt_math_take(parser, '_')) {
            node = subscript(parser, node);
        } else if (mt_math_take(parser, '!')) {
            node = wrap(parser, MT_MATH_FACTORIAL, node);
        } else if (mt_math_take(parser, '%')) {
            node = wrap(parser, MT_MATH_PERCENT, node);
        } else if (mt_math_is_command(parser, "deg")) {
            mt_math_advance(parser);
            node = wrap(parser, MT_MATH_DEGREE, node);
        } else {
            more = false;
        }
    }
    parser->depth--;
    return node;
}
