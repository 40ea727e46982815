/*
 * The tree of a mathematical text: what stands between operators (numbers, symbols, brackets, fractions,
 * roots, functions, matrices), products, sums, relations, lists. Nodes are NULL once memory is out or the
 * text is no mathematics, which every function lets pass.
 */
#include "eval/math/tree.h"

#include <ctype.h>
#include <string.h>

#include "eval/math/lex.h"
#include "eval/math/nodes.h"

#define MOST_TEXT  4000 // bytes of an answer worth parsing
#define MOST_DEPTH 40

/* The levels: a bare list, a sum, a base with what follows it, a base. */
static struct mt_math_node *list(struct mt_math_parser *parser);
static struct mt_math_node *relation(struct mt_math_parser *parser);
static struct mt_math_node *sum_of(struct mt_math_parser *parser);
static struct mt_math_node *factor(struct mt_math_parser *parser);
static struct mt_math_node *base_of(struct mt_math_parser *parser);

static bool begins_factor(const struct mt_math_parser *parser)
{
    static const char *const not_factors[] = {"le",     "ge",    "ne",       "in",    "pm",   "mp",
                                              "cup",    "cap",   "end",      "or",    "and",  "deg",
                                              "approx", "over",  "choose",   "mid",   "pmod", "mod",
                                              "rfloor", "rceil", "setminus", "equiv", "usd"};
    switch (parser->token.kind) {
    case MT_TOKEN_NUMBER:
    case MT_TOKEN_SYMBOL: return true;
    case MT_TOKEN_COMMAND:
        for (size_t i = 0; i < sizeof not_factors / sizeof not_factors[0]; i++) {
            if (mt_math_is_command(parser, not_factors[i])) return false;
        }
        return true;
    case MT_TOKEN_SIGN:
        return strchr("([{S", parser->token.sign) != NULL || (parser->token.sign == '|' && parser->bars == 0);
    default: return false;
    }
}

static bool spells(const struct mt_math_token *token, const char *word)
{
    return strlen(word) == token->bytes && memcmp(word, token->start, token->bytes) == 0;
}

// ------------------------------------------------------------------ between operators

struct named_call {
    const char *name;
    enum mt_math_call call;
};

static const struct named_call calls[] = {
    {"sin", MT_CALL_SIN},       {"cos", MT_CALL_COS},       {"tan", MT_CALL_TAN},
    {"cot", MT_CALL_COT},       {"sec", MT_CALL_SEC},       {"csc", MT_CALL_CSC},
    {"arcsin", MT_CALL_ARCSIN}, {"arccos", MT_CALL_ARCCOS}, {"arctan", MT_CALL_ARCTAN},
    {"log", MT_CALL_LOG},       {"ln", MT_CALL_LOG},        {"exp", MT_CALL_EXP},
    {"abs", MT_CALL_ABS},       {"floor", MT_CALL_FLOOR},   {"ceil", MT_CALL_CEIL},
};

static const char *const currencies[] = {"usd", "eur", "gbp"};

/* {...}, or the one token TeX takes without braces. */
static struct mt_math_node *argument(struct mt_math_parser *parser)
{
    mt_math_first_digit(parser);
    if (!mt_math_take(parser, '{')) return base_of(parser);
    struct mt_math_node *node = sum_of(parser);
    if (!parser->failed && !mt_math_take(parser, '}')) return mt_node_fail(parser);
    return node;
}

static struct mt_math_node *two(struct mt_math_parser *parser, enum mt_math_kind kind)
{
    struct mt_math_node *node = mt_node_new(parser, kind);
    mt_node_adopt(node, argument(parser));
    if (!parser->failed) mt_node_adopt(node, argument(parser));
    return node;
}

static struct mt_math_node *call_node(struct mt_math_parser *parser, enum mt_math_call call)
{
    struct mt_math_node *node = mt_node_new(parser, MT_MATH_CALL);
    if (node != NULL) node->call = call;
    return node;
}

/* \sqrt{2}, \sqrt[3]{2}, \sqrt2, sqrt(2). */
static struct mt_math_node *root(struct mt_math_parser *parser)
{
    struct mt_math_node *node = call_node(parser, MT_CALL_SQRT);
    struct mt_math_node *degree = NULL;
    if (mt_math_take(parser, '[')) {
        degree = sum_of(parser);
        if (parser->failed || !mt_math_take(parser, ']')) return mt_node_fail(parser);
    }
    bool plain = parser->token.kind == MT_TOKEN_NUMBER && parser->token.spaced; // √12 became "\sqrt 12"
    mt_node_adopt(node, plain ? base_of(parser) : argument(parser));
    mt_node_adopt(node, degree);
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
            bool negative = mt_math_take(parser, '-');
            power = argument(parser);
            if (negative) power = mt_node_wrap(parser, MT_MATH_NEGATIVE, power);
        } else {
            more = false;
        }
    }
    if (parser->failed || !begins_factor(parser)) return mt_node_fail(parser);
    bool bracket = mt_math_is_sign(parser, '(') || mt_math_is_sign(parser, '{');
    struct mt_math_node *inner = bracket ? base_of(parser) : factor(parser);
    while (!parser->failed && !bracket && begins_factor(parser) && parser->token.kind != MT_TOKEN_COMMAND &&
           !mt_math_is_sign(parser, '(')) {
        inner = mt_node_pair(parser, MT_MATH_PRODUCT, inner, factor(parser));
    }
    mt_node_adopt(node, inner);
    mt_node_adopt(node, base);
    if (parser->failed || power == NULL) return node;
    bool inverse = power->kind == MT_MATH_NEGATIVE && power->first->kind == MT_MATH_NUMBER;
    int64_t count = 0;
    inverse = inverse && mt_rational_small(&power->first->number, &count) && count == 1;
    if (!inverse || (call != MT_CALL_SIN && call != MT_CALL_COS && call != MT_CALL_TAN))
        return mt_node_pair(parser, MT_MATH_POWER, node, power);
    node->call =
        call == MT_CALL_SIN ? MT_CALL_ARCSIN : (call == MT_CALL_COS ? MT_CALL_ARCCOS : MT_CALL_ARCTAN);
    return node;
}

/* \lg is the logarithm to base 10. */
static struct mt_math_node *common_logarithm(struct mt_math_parser *parser)
{
    struct mt_math_node *node = function(parser, MT_CALL_LOG);
    struct mt_math_node *base = mt_node_new(parser, MT_MATH_NUMBER);
    if (parser->failed || node->kind != MT_MATH_CALL || node->count != 1) return mt_node_fail(parser);
    base->number = mt_rational_make(&parser->numbers, 10, 1);
    mt_node_adopt(node, base);
    return node;
}

/* \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}: rows as groups, a column or a row alone as one group. */
static struct mt_math_node *matrix(struct mt_math_parser *parser)
{
    const char *brace = parser->at;
    while (brace < parser->end && *brace != '}') brace++;
    if (!mt_math_is_sign(parser, '{') || brace == parser->end) return mt_node_fail(parser);
    struct mt_math_token name = {.start = parser->at, .bytes = (size_t)(brace - parser->at)};
    bool array = spells(&name, "array");
    bool lines = spells(&name, "cases") || spells(&name, "aligned") || spells(&name, "gathered");
    parser->at = brace + 1;
    mt_math_advance(parser);
    if (array && mt_math_is_sign(parser, '{')) { // how columns are set
        while (parser->at < parser->end && *parser->at != '}') parser->at++;
        if (parser->at == parser->end) return mt_node_fail(parser);
        parser->at++;
        mt_math_advance(parser);
    }
    struct mt_math_node *rows = mt_node_new(parser, MT_MATH_GROUP);
    struct mt_math_node *row = mt_node_new(parser, MT_MATH_GROUP);
    bool single = true;
    while (!parser->failed && rows != NULL && row != NULL) {
        row->open = '(';
        row->close = ')';
        mt_node_adopt(row, lines ? relation(parser) : sum_of(parser));
        if (mt_math_take(parser, '&')) continue;
        single = single && row->count == 1;
        mt_node_adopt(rows, row);
        bool more = mt_math_take(parser, 'R');
        if (lines) more = mt_math_take(parser, ',') || more;
        if (mt_math_is_command(parser, "end")) break;
        if (!more) return mt_node_fail(parser);
        row = mt_node_new(parser, MT_MATH_GROUP);
    }
    while (!parser->failed && parser->at < parser->end && *parser->at != '}') parser->at++;
    if (parser->failed || rows == NULL || parser->at == parser->end) return mt_node_fail(parser);
    parser->at++;
    mt_math_advance(parser);
    rows->open = lines ? '\0' : '(';
    rows->close = lines ? '\0' : ')';
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
        if (spells(&token, calls[i].name)) return function(parser, calls[i].call);
    }
    if (spells(&token, "lg")) return common_logarithm(parser);
    if (spells(&token, "frac")) return two(parser, MT_MATH_QUOTIENT);
    if (spells(&token, "binom")) return two(parser, MT_MATH_CHOOSE);
    if (spells(&token, "sqrt")) return root(parser);
    if (spells(&token, "begin")) return matrix(parser);
    if (token.bytes >= 5 && memcmp(token.start, "infty", 5) == 0)
        return mt_node_new(parser, MT_MATH_INFINITY);
    if (spells(&token, "infinity")) return mt_node_new(parser, MT_MATH_INFINITY);
    for (size_t i = 0; i < sizeof currencies / sizeof currencies[0]; i++) {
        if (!spells(&token, currencies[i])) continue;
        struct mt_math_node *amount =
            parser->token.kind == MT_TOKEN_NUMBER || mt_math_is_command(parser, "frac")
                ? factor(parser)
                : mt_node_fail(parser);
        return mt_node_named(parser, MT_MATH_UNIT, currencies[i], strlen(currencies[i]), amount);
    }
    bool floor = spells(&token, "lfloor");
    if (!floor && !spells(&token, "lceil")) return mt_node_fail(parser);
    struct mt_math_node *node = call_node(parser, floor ? MT_CALL_FLOOR : MT_CALL_CEIL);
    mt_node_adopt(node, sum_of(parser));
    return mt_math_take_command(parser, floor ? "rfloor" : "rceil") ? node : mt_node_fail(parser);
}

/* The sets that a condition chooses from: {x | x > 3} says x > 3. */
static struct mt_math_node *condition(struct mt_math_parser *parser, struct mt_math_node *inner)
{
    bool bar =
        mt_math_is_sign(parser, '|') || mt_math_is_sign(parser, ':') || mt_math_is_command(parser, "mid");
    if (parser->failed || !bar) return inner;
    mt_math_advance(parser);
    struct mt_math_node *chosen = list(parser);
    return parser->failed || mt_math_take(parser, 'T') ? chosen : mt_node_fail(parser);
}

/* A list between brackets; one thing in round or bare braces is that thing. */
static struct mt_math_node *brackets(struct mt_math_parser *parser, char open)
{
    if (parser->depth >= MOST_DEPTH) return mt_node_fail(parser);
    int bars = parser->bars;
    parser->depth++;
    parser->inside += open == '{' ? 0 : 1;
    parser->bars = open == 'S' ? 1 : (open == '{' ? bars : 0);
    mt_math_advance(parser);
    struct mt_math_node *inner = NULL;
    if (!mt_math_is_sign(parser, open == 'S' ? 'T' : ')')) inner = list(parser);
    parser->depth--;
    parser->inside -= open == '{' ? 0 : 1;
    if (parser->failed) return NULL;
    struct mt_math_node *chosen = open == 'S' ? condition(parser, inner) : inner;
    parser->bars = bars;
    if (parser->failed || chosen != inner) return chosen;
    char close = parser->token.kind == MT_TOKEN_SIGN ? parser->token.sign : '\0';
    bool fits = open == '{' ? close == '}' : (open == 'S' ? close == 'T' : close == ')' || close == ']');
    if (!fits) return mt_node_fail(parser);
    mt_math_advance(parser);
    bool bare = inner != NULL && inner->kind == MT_MATH_GROUP && inner->open == '\0';
    bool alone = inner != NULL && !bare;
    bool matrix = alone && inner->kind == MT_MATH_GROUP; // in brackets of their own
    if (alone && open != 'S' && (open != '[' || matrix))
        return close == ']' && !matrix ? mt_node_fail(parser) : inner;
    if (open == '{') return inner;
    if (open == 'S' && inner == NULL) return mt_node_named(parser, MT_MATH_TEXT, "empty", 5, NULL);
    struct mt_math_node *group = bare ? inner : mt_node_new(parser, MT_MATH_GROUP);
    if (alone) mt_node_adopt(group, inner);
    if (group == NULL) return mt_node_fail(parser);
    group->open = open == 'S' ? '{' : open;
    group->close = close == 'T' ? '}' : close;
    return group;
}

static struct mt_math_node *absolute(struct mt_math_parser *parser)
{
    if (parser->depth >= MOST_DEPTH) return mt_node_fail(parser);
    int bars = parser->bars;
    parser->bars = 1;
    parser->depth++;
    mt_math_advance(parser);
    struct mt_math_node *node = call_node(parser, MT_CALL_ABS);
    mt_node_adopt(node, sum_of(parser));
    parser->bars = bars;
    parser->depth--;
    if (!parser->failed && !mt_math_take(parser, '|')) return mt_node_fail(parser);
    return node;
}

static struct mt_math_node *words(struct mt_math_parser *parser)
{
    struct mt_math_node *node = mt_node_meant(parser, parser->token.start, parser->token.bytes);
    if (node != NULL) mt_math_advance(parser);
    return node;
}

static struct mt_math_node *base_of(struct mt_math_parser *parser)
{
    const struct mt_math_token token = parser->token;
    if (parser->failed) return NULL;
    switch (token.kind) {
    case MT_TOKEN_NUMBER:
    case MT_TOKEN_SYMBOL: {
        struct mt_math_node *node =
            mt_node_new(parser, token.kind == MT_TOKEN_NUMBER ? MT_MATH_NUMBER : MT_MATH_SYMBOL);
        if (node == NULL) return NULL;
        node->number = token.number;
        node->symbol = token.symbol;
        mt_math_advance(parser);
        return node;
    }
    case MT_TOKEN_COMMAND: return command(parser);
    case MT_TOKEN_TEXT: return words(parser);
    case MT_TOKEN_SIGN:
        if (strchr("([{S", token.sign) != NULL) return brackets(parser, token.sign);
        if (token.sign == '|') return absolute(parser);
        return mt_node_fail(parser);
    default: return mt_node_fail(parser);
    }
}

/* A number of its own for every name (FNV-1a). */
static int64_t name_hash(const char *text, size_t bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++) {
        if (strchr(" {}", text[i]) == NULL) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    }
    return (int64_t)hash;
}

/* x_1 is a symbol of its own; the subscript of a number names its base. */
static struct mt_math_node *subscript(struct mt_math_parser *parser, struct mt_math_node *base)
{
    const char *start = parser->token.start;
    const char *end = start + parser->token.bytes;
    if (mt_math_is_sign(parser, '{')) {
        int open = 1;
        start = parser->at;
        for (end = start; end < parser->end; end++) {
            open += *end == '{' ? 1 : 0;
            open -= *end == '}' ? 1 : 0;
            if (open == 0) break;
        }
        if (end == parser->end) return mt_node_fail(parser);
        parser->at = end + 1;
    } else if (parser->token.kind == MT_TOKEN_END || parser->token.kind == MT_TOKEN_SIGN) {
        return mt_node_fail(parser);
    }
    mt_math_advance(parser);
    if (base == NULL || end == start) return mt_node_fail(parser);
    if (base->kind != MT_MATH_SYMBOL)
        return mt_node_named(parser, MT_MATH_UNIT, start, (size_t)(end - start), base);
    base->symbol = base->symbol % 1000 + 1000 * (1 + name_hash(start, (size_t)(end - start)));
    return base;
}

/* 20°C is a temperature. */
static struct mt_math_node *degrees(struct mt_math_parser *parser, struct mt_math_node *base)
{
    bool celsius = spells(&parser->token, "C");
    if (!celsius && !spells(&parser->token, "F")) return mt_node_wrap(parser, MT_MATH_DEGREE, base);
    mt_math_advance(parser);
    const char *name = celsius ? "celsius" : "fahrenheit";
    return mt_node_named(parser, MT_MATH_UNIT, name, strlen(name), base);
}

static struct mt_math_node *raise(struct mt_math_parser *parser, struct mt_math_node *base)
{
    mt_math_advance(parser);
    bool braced = mt_math_take(parser, '{');
    if (mt_math_take_command(parser, "deg")) {
        if (braced && !mt_math_take(parser, '}')) return mt_node_fail(parser);
        return degrees(parser, base);
    }
    struct mt_math_node *power = mt_node_wrap(parser, MT_MATH_POWER, base);
    bool negative = !braced && mt_math_take(parser, '-');
    struct mt_math_node *exponent = braced ? sum_of(parser) : base_of(parser);
    if (braced && !parser->failed && !mt_math_take(parser, '}')) return mt_node_fail(parser);
    mt_node_adopt(power, negative ? mt_node_wrap(parser, MT_MATH_NEGATIVE, exponent) : exponent);
    return power;
}

static struct mt_math_node *factor(struct mt_math_parser *parser)
{
    if (parser->depth >= MOST_DEPTH) return mt_node_fail(parser);
    parser->depth++;
    struct mt_math_node *node = base_of(parser);
    bool more = true;
    while (!parser->failed && more) {
        if (mt_math_is_sign(parser, '^')) {
            node = raise(parser, node);
        } else if (mt_math_take(parser, '_')) {
            node = subscript(parser, node);
        } else if (mt_math_take(parser, '!')) {
            node = mt_node_wrap(parser, MT_MATH_FACTORIAL, node);
        } else if (mt_math_take(parser, '%')) {
            node = mt_node_wrap(parser, MT_MATH_PERCENT, node);
        } else if (mt_math_take_command(parser, "deg")) {
            node = degrees(parser, node);
        } else {
            more = false;
        }
    }
    parser->depth--;
    return node;
}

// ------------------------------------------------------------------ products

/* "and" and "or" between answers separate them. */
static bool joins(const struct mt_math_token *token)
{
    return spells(token, "and") || spells(token, "or") || spells(token, ", and") || spells(token, ", or");
}

static bool is_unit_token(const struct mt_math_parser *parser)
{
    enum mt_math_token_kind kind = parser->token.kind;
    if (kind == MT_TOKEN_UNIT) return true;
    if (kind == MT_TOKEN_WORD) return parser->token.spaced;
    if (kind != MT_TOKEN_TEXT) return false;
    return !joins(&parser->token);
}

/* The units after a value: "cm", "square feet", "km/h", "\text{ m}^2". The texts run from one token to the
 * last. */
static struct mt_math_node *take_unit(struct mt_math_parser *parser, struct mt_math_node *value)
{
    const char *start = parser->token.start;
    const char *end = start;
    while (!parser->failed && is_unit_token(parser)) {
        end = parser->token.start + parser->token.bytes;
        mt_math_advance(parser);
        if (mt_math_take(parser, '^')) {
            bool braced = mt_math_take(parser, '{');
            (void)mt_math_take(parser, '-');
            if (parser->token.kind != MT_TOKEN_NUMBER) return mt_node_fail(parser);
            end = parser->token.start + parser->token.bytes;
            mt_math_advance(parser);
            if (braced && !mt_math_take(parser, '}')) return mt_node_fail(parser);
        }
        if (mt_math_is_sign(parser, '/')) {
            mt_math_advance(parser);
            if (parser->token.kind == MT_TOKEN_SYMBOL) {
                end = parser->token.start + parser->token.bytes;
                mt_math_advance(parser);
            } else if (!is_unit_token(parser)) {
                return mt_node_fail(parser);
            }
        }
    }
    struct mt_math_token all = {.start = start, .bytes = (size_t)(end - start)};
    if (spells(&all, "percent")) return mt_node_wrap(parser, MT_MATH_PERCENT, value);
    if (spells(&all, "degrees") || spells(&all, "degree")) return mt_node_wrap(parser, MT_MATH_DEGREE, value);
    return mt_node_named(parser, MT_MATH_UNIT, start, all.bytes, value);
}

/* A whole number before a fraction of whole numbers: 3\frac{1}{2}, "3 1/2". */
static bool is_mixed(const struct mt_math_node *whole, const struct mt_math_node *fraction)
{
    int64_t parts[3] = {0};
    if (whole == NULL || fraction == NULL || whole->kind != MT_MATH_NUMBER) return false;
    if (fraction->kind != MT_MATH_QUOTIENT || fraction->count != 2) return false;
    const struct mt_math_node *over = fraction->first;
    const struct mt_math_node *under = over->next;
    if (over->kind != MT_MATH_NUMBER || under->kind != MT_MATH_NUMBER) return false;
    return mt_rational_small(&whole->number, &parts[0]) && mt_rational_small(&over->number, &parts[1]) &&
           mt_rational_small(&under->number, &parts[2]);
}

/* Two numbers side by side: "3 1/2" is mixed, "3 2^{1/2}" a product; anything else means nothing. */
static struct mt_math_node *after_number(struct mt_math_parser *parser, struct mt_math_node *left)
{
    struct mt_math_node *right = factor(parser);
    if (parser->failed) return NULL;
    if (right->kind == MT_MATH_POWER) return mt_node_pair(parser, MT_MATH_PRODUCT, left, right);
    if (!mt_math_take(parser, '/')) return mt_node_fail(parser);
    struct mt_math_node *fraction = mt_node_pair(parser, MT_MATH_QUOTIENT, right, factor(parser));
    if (parser->failed || !is_mixed(left, fraction)) return mt_node_fail(parser);
    return mt_node_pair(parser, MT_MATH_SUM, left, fraction);
}

static struct mt_math_node *signed_factor(struct mt_math_parser *parser)
{
    if (mt_math_take(parser, '+')) return signed_factor(parser);
    if (!mt_math_is_sign(parser, '-')) return factor(parser);
    if (parser->depth >= MOST_DEPTH) return mt_node_fail(parser);
    parser->depth++;
    mt_math_advance(parser);
    struct mt_math_node *negative = mt_node_new(parser, MT_MATH_NEGATIVE);
    mt_node_adopt(negative, signed_factor(parser));
    parser->depth--;
    return negative;
}

/* Multiplication without a sign. */
static struct mt_math_node *next_to(struct mt_math_parser *parser, struct mt_math_node *left)
{
    bool number = parser->token.kind == MT_TOKEN_NUMBER;
    if (number && left != NULL && left->kind == MT_MATH_NUMBER) return after_number(parser, left);
    bool fraction = mt_math_is_command(parser, "frac");
    struct mt_math_node *right = factor(parser);
    if (parser->failed) return NULL; // `right` may be without its parts
    bool mixed = fraction && is_mixed(left, right);
    return mt_node_pair(parser, mixed ? MT_MATH_SUM : MT_MATH_PRODUCT, left, right);
}

static struct mt_math_node *product(struct mt_math_parser *parser)
{
    struct mt_math_node *left = signed_factor(parser);
    while (!parser->failed) {
        if (mt_math_take(parser, '*')) {
            left = mt_node_pair(parser, MT_MATH_PRODUCT, left, signed_factor(parser));
        } else if (mt_math_take(parser, '/')) {
            left = mt_node_pair(parser, MT_MATH_QUOTIENT, left, signed_factor(parser));
        } else if (begins_factor(parser)) {
            left = next_to(parser, left);
        } else if (is_unit_token(parser)) {
            left = take_unit(parser, left);
            if (parser->token.kind == MT_TOKEN_NUMBER)
                return mt_node_fail(parser); // words between numbers are no unit
        } else {
            return left;
        }
    }
    return left;
}

// ------------------------------------------------------------------ sums, relations, lists

static struct mt_math_node *sum_of(struct mt_math_parser *parser)
{
    if (parser->depth >= MOST_DEPTH) return mt_node_fail(parser);
    parser->depth++;
    struct mt_math_node *sum = NULL;
    bool first = true;
    while (!parser->failed) {
        bool plus = mt_math_is_sign(parser, '+');
        bool minus = mt_math_is_sign(parser, '-');
        bool either = mt_math_is_command(parser, "pm");
        bool other = mt_math_is_command(parser, "mp");
        bool sign = plus || minus || either || other;
        if (!first && !sign) break;
        if (sign) mt_math_advance(parser);
        struct mt_math_node *term = product(parser);
        if (minus || either || other)
            term = mt_node_wrap(parser, minus ? MT_MATH_NEGATIVE : MT_MATH_EITHER, term);
        if (other && term != NULL) term->flag = true;
        bool unit = !first && !parser->failed && term->kind == MT_MATH_UNIT; // of the whole sum
        const char *text = unit ? term->text : NULL;
        if (unit) term = term->first;
        sum = first ? term : mt_node_pair(parser, MT_MATH_SUM, sum, term);
        if (unit) sum = mt_node_named(parser, MT_MATH_UNIT, text, strlen(text), sum);
        first = false;
    }
    bool over = !parser->failed && mt_math_take_command(parser, "over");
    bool choose = !parser->failed && !over && mt_math_take_command(parser, "choose");
    if (over || choose)
        sum = mt_node_pair(parser, over ? MT_MATH_QUOTIENT : MT_MATH_CHOOSE, sum, sum_of(parser));
    parser->depth--;
    return sum;
}

/* 3:2 is a fraction, 1:2:3 keeps its order. In a set a colon means "such that". */
static struct mt_math_node *ratio(struct mt_math_parser *parser)
{
    struct mt_math_node *node = sum_of(parser);
    if (parser->failed || parser->bars > 0 || !mt_math_is_sign(parser, ':')) return node;
    struct mt_math_node *all = mt_node_wrap(parser, MT_MATH_GROUP, node);
    while (!parser->failed && mt_math_take(parser, ':')) mt_node_adopt(all, sum_of(parser));
    if (parser->failed) return NULL;
    all->open = all->close = ':';
    bool zero = node->kind == MT_MATH_NUMBER && mt_rational_sign(&node->number) == 0;
    if (all->count == 2 && !zero) all->kind = MT_MATH_QUOTIENT;
    return all;
}

/* The sign of a relation that comes next, taken; 0: none. */
static char take_relation(struct mt_math_parser *parser)
{
    if (mt_math_take(parser, '=')) return '=';
    if (mt_math_take(parser, '<')) return '<';
    if (mt_math_take(parser, '>')) return '>';
    if (mt_math_take_command(parser, "le")) return 'l';
    if (mt_math_take_command(parser, "ge")) return 'g';
    if (mt_math_take_command(parser, "ne")) return 'n';
    if (mt_math_take_command(parser, "approx")) return 'a';
    return '\0';
}

/* A set, perhaps without some elements. */
static struct mt_math_node *set_of(struct mt_math_parser *parser)
{
    struct mt_math_node *node = ratio(parser);
    if (parser->failed || !mt_math_take_command(parser, "setminus")) return node;
    struct mt_math_node *without = ratio(parser);
    return parser->failed ? NULL : mt_node_reals_without(parser, node, without);
}

static struct mt_math_node *united(struct mt_math_parser *parser)
{
    struct mt_math_node *node = set_of(parser);
    bool element = !parser->failed && (node->kind == MT_MATH_SYMBOL || node->kind == MT_MATH_GROUP);
    if (element && mt_math_take_command(parser, "in")) node = set_of(parser); // x \in S says S
    if (parser->failed || !mt_math_is_command(parser, "cup")) return node;
    struct mt_math_node *all = mt_node_new(parser, MT_MATH_UNION);
    mt_node_adopt(all, node);
    while (!parser->failed && mt_math_take_command(parser, "cup")) mt_node_adopt(all, set_of(parser));
    return all;
}

static struct mt_math_node *relation(struct mt_math_parser *parser)
{
    struct mt_math_node *node = united(parser);
    if (parser->failed) return NULL;
    char sign = take_relation(parser);
    if (sign == '\0') return node;
    struct mt_math_node *chain = mt_node_new(parser, MT_MATH_RELATION);
    mt_node_adopt(chain, node);
    while (!parser->failed && sign != '\0') {
        if (chain == NULL || chain->count >= MT_MATH_RELATIONS) return mt_node_fail(parser);
        chain->relations[chain->count - 1] = sign;
        mt_node_adopt(chain, united(parser));
        sign = take_relation(parser);
    }
    return chain;
}

static bool take_separator(struct mt_math_parser *parser)
{
    bool taken = false;
    bool more = true;
    while (more) {
        more = mt_math_take(parser, ',') || mt_math_take(parser, ';') ||
               mt_math_take_command(parser, "and") || mt_math_take_command(parser, "or");
        if (!more && parser->token.kind == MT_TOKEN_TEXT && joins(&parser->token)) {
            mt_math_advance(parser);
            more = true;
        }
        taken = taken || more;
    }
    return taken;
}

static struct mt_math_node *list(struct mt_math_parser *parser)
{
    struct mt_math_node *node = relation(parser);
    if (parser->failed || !take_separator(parser)) return node;
    struct mt_math_node *all = mt_node_wrap(parser, MT_MATH_GROUP, node);
    do {
        mt_node_adopt(all, relation(parser));
    } while (!parser->failed && take_separator(parser));
    return all;
}

// ------------------------------------------------------------------ the whole

/* Words alone: "Evelyn", "neither even nor odd". Letters that could be symbols are not. */
static bool is_words(const char *text, size_t bytes)
{
    size_t run = 0;
    size_t longest = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (isalpha((unsigned char)text[i])) {
            run++;
        } else if (strchr(" .,'-\"", text[i]) != NULL) {
            run = 0;
        } else {
            return false;
        }
        longest = run > longest ? run : longest;
    }
    bool pi = bytes == 2 && memcmp(text, "pi", 2) == 0;
    bool no = bytes == 2 && tolower(text[0]) == 'n' && tolower(text[1]) == 'o';
    bool infinity = bytes == 8 && memcmp(text, "infinity", 8) == 0;
    return (longest >= 3 && !pi && !infinity) || no;
}

enum mt_status mt_math_parse(struct mt_arena *arena, const char *text, size_t bytes,
                             struct mt_math_node **root)
{
    struct mt_math_parser parser = {
        .numbers = {.arena = arena}, .begin = text, .at = text, .end = text + bytes};
    struct mt_math_node *node = NULL;
    *root = NULL;
    if (bytes == 0 || bytes > MOST_TEXT) return MT_OK;
    if (is_words(text, bytes)) {
        node = mt_node_meant(&parser, text, bytes);
    } else {
        mt_math_advance(&parser);
        node = list(&parser);
        if (parser.token.kind != MT_TOKEN_END) parser.failed = true;
    }
    // Tokens point into the text: nothing of it is kept in the tree.
    *root = parser.failed ? NULL : node;
    return parser.numbers.status;
}
