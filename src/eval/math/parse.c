/*
 * The tree of a mathematical text: what stands between operators (numbers, symbols, brackets, fractions,
 * roots, functions, matrices), products, sums. Nodes are NULL once memory is out or the
 * text is no mathematics, which every function lets pass.
 */
#include "eval/math/parse.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "eval/math/nodes.h"
#include "eval/math/units.h"

#define MOST_DEPTH 40

/* The levels below a sum: a product, a base with what follows it, a base. */
static struct mt_math_node *product(struct mt_math_parser *parser);
static struct mt_math_node *factor(struct mt_math_parser *parser);
static struct mt_math_node *base_of(struct mt_math_parser *parser);

/* A bracket that ends [a,b[, as the French write half-open intervals. */
static bool closes_open(const struct mt_math_parser *parser)
{
    const char *next = parser->at;
    while (next < parser->end && *next == ' ') next++;
    return parser->inside > 0 && (next == parser->end || *next == ',' || memcmp(next, "\\", 1) == 0);
}

static bool begins_factor(const struct mt_math_parser *parser)
{
    static const char *const not_factors[] = {
        "le",     "ge",    "ne",       "in",    "pm",     "mp",   "cup",    "cap", "end",  "or",
        "and",    "oder",  "und",      "deg",   "approx", "over", "choose", "mid", "pmod", "mod",
        "rfloor", "rceil", "setminus", "equiv", "usd",    "to",   "eur",    "gbp", "bmod"};
    switch (parser->token.kind) {
    case MT_TOKEN_NUMBER:
    case MT_TOKEN_SYMBOL: return true;
    case MT_TOKEN_COMMAND:
        for (size_t i = 0; i < sizeof not_factors / sizeof not_factors[0]; i++) {
            if (mt_math_is_command(parser, not_factors[i])) return false;
        }
        return true;
    case MT_TOKEN_SIGN:
        if (parser->token.sign == '[' && closes_open(parser)) return false;
        return strchr("([{S", parser->token.sign) != NULL || (parser->token.sign == '|' && parser->bars == 0);
    default: return false;
    }
}

bool mt_token_spells(const struct mt_math_token *token, const char *word)
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
    {"sinh", MT_CALL_SINH},     {"cosh", MT_CALL_COSH},     {"tanh", MT_CALL_TANH},
};

static const char *const currencies[] = {"usd", "eur", "gbp"};

/* {...}, or the one token TeX takes without braces. */
static struct mt_math_node *argument(struct mt_math_parser *parser)
{
    mt_math_first_digit(parser);
    if (!mt_math_take(parser, '{')) return base_of(parser);
    struct mt_math_node *node = mt_parse_sum(parser);
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
        degree = mt_parse_sum(parser);
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
    bool array = mt_token_spells(&name, "array");
    static const char *const stacks[] = {"cases", "aligned", "align", "align*", "split", "gathered"};
    bool lines = false;
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++)
        lines = lines || mt_token_spells(&name, stacks[i]);
    if (name.bytes == 7 && tolower((unsigned char)name.start[0]) == 'v') // vmatrix: no matrix but a number
        return mt_node_fail(parser);
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
        bool word = lines && parser->token.kind == MT_TOKEN_TEXT;
        if (word && (mt_token_spells(&parser->token, "if") || mt_token_spells(&parser->token, "for")))
            mt_math_advance(parser);
        mt_node_adopt(row, lines ? mt_parse_relation(parser) : mt_parse_sum(parser));
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

/* A number of its own for every name (FNV-1a). */
static int64_t name_hash(const char *text, size_t bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++) {
        if (strchr(" {}", text[i]) == NULL) hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    }
    return (int64_t)hash;
}

/* \max(a,b) and \max\{a,b\}: a name before a set. */
static struct mt_math_node *extreme(struct mt_math_parser *parser, const struct mt_math_token *token)
{
    if (!mt_math_is_sign(parser, '(') && !mt_math_is_sign(parser, 'S')) return mt_node_fail(parser);
    struct mt_math_node *name = mt_node_new(parser, MT_MATH_SYMBOL);
    struct mt_math_node *values = base_of(parser);
    if (parser->failed || values->kind != MT_MATH_GROUP) return mt_node_fail(parser);
    name->symbol = 'm' + 1000 * (1 + name_hash(token->start, token->bytes));
    values->open = '{';
    values->close = '}';
    return mt_node_pair(parser, MT_MATH_PRODUCT, name, values);
}

static struct mt_math_node *command(struct mt_math_parser *parser)
{
    struct mt_math_token token = parser->token;
    mt_math_advance(parser);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (mt_token_spells(&token, calls[i].name)) return function(parser, calls[i].call);
    }
    if (mt_token_spells(&token, "max") || mt_token_spells(&token, "min") || mt_token_spells(&token, "gcd"))
        return extreme(parser, &token);
    if (mt_token_spells(&token, "lg")) return common_logarithm(parser);
    if (mt_token_spells(&token, "frac")) return two(parser, MT_MATH_QUOTIENT);
    if (mt_token_spells(&token, "binom")) return two(parser, MT_MATH_CHOOSE);
    if (mt_token_spells(&token, "sqrt")) return root(parser);
    if (mt_token_spells(&token, "begin")) return matrix(parser);
    if (token.bytes >= 5 && memcmp(token.start, "infty", 5) == 0)
        return mt_node_new(parser, MT_MATH_INFINITY);
    if (mt_token_spells(&token, "infinity")) return mt_node_new(parser, MT_MATH_INFINITY);
    for (size_t i = 0; i < sizeof currencies / sizeof currencies[0]; i++) {
        if (!mt_token_spells(&token, currencies[i])) continue;
        struct mt_math_node *amount =
            parser->token.kind == MT_TOKEN_NUMBER || mt_math_is_command(parser, "frac")
                ? factor(parser)
                : mt_node_fail(parser);
        return mt_node_named(parser, MT_MATH_UNIT, currencies[i], strlen(currencies[i]), amount);
    }
    bool floor = mt_token_spells(&token, "lfloor");
    if (!floor && !mt_token_spells(&token, "lceil")) return mt_node_fail(parser);
    struct mt_math_node *node = call_node(parser, floor ? MT_CALL_FLOOR : MT_CALL_CEIL);
    mt_node_adopt(node, mt_parse_sum(parser));
    return mt_math_take_command(parser, floor ? "rfloor" : "rceil") ? node : mt_node_fail(parser);
}

/* The sets that a condition chooses from: {x | x > 3} says x > 3. */
static bool at_condition(const struct mt_math_parser *parser)
{
    return mt_math_is_sign(parser, '|') || mt_math_is_sign(parser, ':') || mt_math_is_command(parser, "mid");
}

static struct mt_math_node *condition(struct mt_math_parser *parser, struct mt_math_node *inner)
{
    mt_math_advance(parser);
    struct mt_math_node *chosen = mt_parse_such_that(parser, inner);
    return parser->failed || mt_math_take(parser, 'T') ? chosen : mt_node_fail(parser);
}

/* [[1, 2], [3, 4]] is a matrix: its brackets tell nothing of intervals. */
static void round_rows(struct mt_math_node *group)
{
    if (group->open != '[') return;
    for (const struct mt_math_node *row = group->first; row != NULL; row = row->next) {
        if (row->kind != MT_MATH_GROUP || row->open != '[' || row->close != ']') return;
    }
    for (struct mt_math_node *row = group->first; row != NULL; row = row->next) {
        row->open = '(';
        row->close = ')';
    }
    group->open = '(';
    group->close = ')';
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
    if (!mt_math_is_sign(parser, open == 'S' ? 'T' : ')')) inner = mt_parse_list(parser);
    parser->depth--;
    parser->inside -= open == '{' ? 0 : 1;
    if (parser->failed) return NULL;
    bool chosen = open == 'S' && at_condition(parser);
    if (chosen) inner = condition(parser, inner);
    parser->bars = bars;
    if (parser->failed || chosen) return inner;
    char close = parser->token.kind == MT_TOKEN_SIGN ? parser->token.sign : '\0';
    bool fits = open == '{' ? close == '}' : (open == 'S' ? close == 'T' : close == ')' || close == ']');
    bool french = (open == '[' || open == ']') && close == '[';
    if (!fits && !french) return mt_node_fail(parser);
    if ((french || open == ']') && (inner == NULL || inner->kind != MT_MATH_GROUP || inner->count != 2))
        return mt_node_fail(parser);
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
    group->open = open == 'S' ? '{' : (open == ']' ? '(' : open);
    group->close = close == 'T' ? '}' : (close == '[' ? ')' : close);
    round_rows(group);
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
    mt_node_adopt(node, mt_parse_sum(parser));
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

/* "The answer is": words that lead to a value. */
static bool introduces(const struct mt_math_token *token)
{
    static const char *const ends[] = {" is", ":", " equals", " are", "="};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t length = strlen(ends[i]);
        if (token->bytes > length && memcmp(token->start + token->bytes - length, ends[i], length) == 0)
            return true;
    }
    return false;
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
    case MT_TOKEN_TEXT:
        if (introduces(&token)) {
            mt_math_advance(parser);
            if (parser->token.kind != MT_TOKEN_END) return factor(parser);
            return mt_node_fail(parser);
        }
        return words(parser);
    case MT_TOKEN_SIGN:
        if (strchr("([]{S", token.sign) != NULL) return brackets(parser, token.sign);
        if (token.sign == '|') return absolute(parser);
        return mt_node_fail(parser);
    default: return mt_node_fail(parser);
    }
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
    bool celsius = mt_token_spells(&parser->token, "C");
    if (!celsius && !mt_token_spells(&parser->token, "F")) return mt_node_wrap(parser, MT_MATH_DEGREE, base);
    mt_math_advance(parser);
    const char *name = celsius ? "celsius" : "fahrenheit";
    return mt_node_named(parser, MT_MATH_UNIT, name, strlen(name), base);
}

static struct mt_math_node *raise(struct mt_math_parser *parser, struct mt_math_node *base)
{
    mt_math_advance(parser);
    bool braced = mt_math_take(parser, '{');
    bool small_o = braced && parser->token.kind == MT_TOKEN_TEXT && mt_token_spells(&parser->token, "o");
    if (small_o) mt_math_advance(parser);
    if (small_o || mt_math_take_command(parser, "deg")) {
        if (braced && !mt_math_take(parser, '}')) return mt_node_fail(parser);
        return degrees(parser, base);
    }
    struct mt_math_node *power = mt_node_wrap(parser, MT_MATH_POWER, base);
    bool negative = !braced && mt_math_take(parser, '-');
    struct mt_math_node *exponent = braced ? mt_parse_sum(parser) : base_of(parser);
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
bool mt_token_joins(const struct mt_math_token *token)
{
    return mt_token_spells(token, "and") || mt_token_spells(token, "or") || mt_token_spells(token, ", and") ||
           mt_token_spells(token, ", or") || mt_token_spells(token, "to") ||
           mt_token_spells(token, "where") || mt_token_spells(token, "oder") ||
           mt_token_spells(token, "und") || mt_token_spells(token, "ou") || mt_token_spells(token, "et");
}

static bool is_unit_token(const struct mt_math_parser *parser)
{
    enum mt_math_token_kind kind = parser->token.kind;
    if (kind == MT_TOKEN_UNIT) return true;
    if (kind == MT_TOKEN_WORD) return parser->token.spaced;
    if (kind != MT_TOKEN_TEXT) return false;
    return !mt_token_joins(&parser->token);
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
        bool times = mt_math_is_sign(parser, '*') && parser->end - parser->at > 5 &&
                     memcmp(parser->at, "\\text", 5) == 0; // km·h^{-1}
        if (times) mt_math_advance(parser);
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
    if (mt_token_spells(&all, "percent")) return mt_node_wrap(parser, MT_MATH_PERCENT, value);
    if (mt_token_spells(&all, "degrees") || mt_token_spells(&all, "degree"))
        return mt_node_wrap(parser, MT_MATH_DEGREE, value);
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

/* \frac{\text{km}}{\text{h}} behind a number. */
static bool is_unit_fraction(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_QUOTIENT && node->count == 2 && node->first->kind == MT_MATH_TEXT &&
           node->last->kind == MT_MATH_TEXT;
}

static struct mt_math_node *per_unit(struct mt_math_parser *parser, struct mt_math_node *value,
                                     const struct mt_math_node *fraction)
{
    char text[64];
    int length = snprintf(text, sizeof text, "%s/%s", fraction->first->text, fraction->last->text);
    if (length < 0 || (size_t)length >= sizeof text) return mt_node_fail(parser);
    return mt_node_named(parser, MT_MATH_UNIT, text, (size_t)length, value);
}

/* A product; with a tuple or a matrix, of each of its parts. A name stays: f(x,y). */
static struct mt_math_node *times(struct mt_math_parser *parser, struct mt_math_node *left,
                                  struct mt_math_node *right)
{
    bool tuple = !parser->failed && right->kind == MT_MATH_GROUP && right->open == '(' && right->close == ')';
    if (!tuple || left->kind == MT_MATH_SYMBOL || left->kind == MT_MATH_GROUP || left->kind == MT_MATH_TEXT)
        return mt_node_pair(parser, MT_MATH_PRODUCT, left, right);
    for (struct mt_math_node *child = right->first; child != NULL && !parser->failed; child = child->next) {
        struct mt_math_node *scalar = mt_node_new(parser, left->kind);
        struct mt_math_node *part = mt_node_new(parser, child->kind);
        struct mt_math_node *next = child->next;
        if (scalar == NULL || part == NULL) return NULL;
        *scalar = *left;
        *part = *child;
        scalar->next = part->next = NULL;
        part = times(parser, scalar, part);
        if (part == NULL) return NULL;
        *child = *part;
        child->next = next;
    }
    return right;
}

/* Multiplication without a sign. */
static struct mt_math_node *next_to(struct mt_math_parser *parser, struct mt_math_node *left)
{
    bool number = parser->token.kind == MT_TOKEN_NUMBER;
    if (number && left != NULL && left->kind == MT_MATH_NUMBER) return after_number(parser, left);
    bool fraction = mt_math_is_command(parser, "frac");
    struct mt_math_node *right = factor(parser);
    if (parser->failed) return NULL; // `right` may be without its parts
    bool around = right->kind == MT_MATH_PERCENT || right->kind == MT_MATH_DEGREE; // 12\frac{1}{2}\%
    if (fraction && around && is_mixed(left, right->first))
        return mt_node_wrap(parser, right->kind, mt_node_pair(parser, MT_MATH_SUM, left, right->first));
    if (fraction && is_unit_fraction(right)) return per_unit(parser, left, right);
    bool mixed = fraction && is_mixed(left, right);
    return mixed ? mt_node_pair(parser, MT_MATH_SUM, left, right) : times(parser, left, right);
}

/* "7 hours 30 minutes": in the last unit. Words between numbers that are no such units are no mathematics. */
static struct mt_math_node *more_units(struct mt_math_parser *parser, struct mt_math_node *left)
{
    struct mt_numbers *numbers = &parser->numbers;
    struct mt_unit one = {.scale = mt_rational_make(numbers, 1, 1)};
    if (parser->depth >= MOST_DEPTH) return mt_node_fail(parser);
    parser->depth++;
    struct mt_math_node *right = product(parser);
    parser->depth--;
    if (parser->failed || left->kind != MT_MATH_UNIT || right->kind != MT_MATH_UNIT)
        return mt_node_fail(parser);
    one.factor = one.scale;
    struct mt_unit other = one;
    mt_unit_read(numbers, left->text, &one);
    mt_unit_read(numbers, right->text, &other);
    struct mt_math_node *ratio_of = mt_node_new(parser, MT_MATH_NUMBER);
    if (ratio_of == NULL || one.count != 1 || other.count != 1 || !mt_unit_same(&one, &other))
        return mt_node_fail(parser);
    ratio_of->number = mt_rational_divide(numbers, one.scale, other.scale);
    struct mt_math_node *scaled = mt_node_pair(parser, MT_MATH_PRODUCT, ratio_of, left->first);
    struct mt_math_node *sum = mt_node_pair(parser, MT_MATH_SUM, scaled, right->first);
    return mt_node_named(parser, MT_MATH_UNIT, right->text, strlen(right->text), sum);
}

/* A unit that is a sign, and comes next: 5', 12", 5 €, 3 \Omega; NULL: none. */
static const char *short_unit(const struct mt_math_parser *parser)
{
    if (mt_math_is_sign(parser, '\'')) return "ft";
    if (mt_math_is_sign(parser, '"')) return "in";
    if (parser->token.kind == MT_TOKEN_SYMBOL && mt_token_spells(&parser->token, "Omega")) return "ohm";
    for (size_t i = 0; i < sizeof currencies / sizeof currencies[0]; i++) {
        if (mt_math_is_command(parser, currencies[i])) return currencies[i];
    }
    return NULL;
}

static struct mt_math_node *product(struct mt_math_parser *parser)
{
    struct mt_math_node *left = signed_factor(parser);
    while (!parser->failed) {
        if (mt_math_take(parser, '*')) {
            left = times(parser, left, signed_factor(parser));
        } else if (mt_math_take(parser, '/')) {
            left = mt_node_pair(parser, MT_MATH_QUOTIENT, left, signed_factor(parser));
        } else if ((left->kind == MT_MATH_NUMBER || left->kind == MT_MATH_QUOTIENT) &&
                   short_unit(parser) != NULL) {
            const char *unit = short_unit(parser);
            mt_math_advance(parser);
            if (strcmp(unit, "ft") == 0 && mt_math_take(parser, '\'')) unit = "in";
            left = mt_node_named(parser, MT_MATH_UNIT, unit, strlen(unit), left);
        } else if (begins_factor(parser)) {
            left = next_to(parser, left);
        } else if (is_unit_token(parser)) {
            left = take_unit(parser, left);
            if (parser->token.kind == MT_TOKEN_NUMBER) return more_units(parser, left);
        } else {
            return left;
        }
    }
    return left;
}

// ------------------------------------------------------------------ sums

/* The sign is before a set: R - {2}. */
static bool takes_set(const struct mt_math_parser *parser)
{
    const char *next = parser->at;
    while (next < parser->end && *next == ' ') next++;
    return parser->end - next > 2 && memcmp(next, "\\{", 2) == 0;
}

struct mt_math_node *mt_parse_sum(struct mt_math_parser *parser)
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
        if (minus && !first && sum->kind == MT_MATH_GROUP && takes_set(parser)) break;
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
        sum = mt_node_pair(parser, over ? MT_MATH_QUOTIENT : MT_MATH_CHOOSE, sum, mt_parse_sum(parser));
    parser->depth--;
    return sum;
}
