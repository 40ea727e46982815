/*
 * The tree of a mathematical text: what stands between operators (numbers, symbols, brackets, fractions,
 * roots, functions, matrices), products, sums, relations, lists. Nodes are NULL once memory is out or the
 * text is no mathematics, which every function lets pass.
 */
#include "eval/math/tree.h"

#include <ctype.h>
#include <string.h>

#include "eval/math/lex.h"

#define MOST_TEXT  4000 // bytes of an answer worth parsing
#define MOST_DEPTH 40
#define MOST_NODES 2000

/* The levels: a bare list, a sum, a base with what follows it, a base. */
static struct mt_math_node *list(struct mt_math_parser *parser);
static struct mt_math_node *sum_of(struct mt_math_parser *parser);
static struct mt_math_node *factor(struct mt_math_parser *parser);
static struct mt_math_node *base_of(struct mt_math_parser *parser);

static struct mt_math_node *new_node(struct mt_math_parser *parser, enum mt_math_kind kind)
{
    void *memory = NULL;
    parser->nodes++;
    if (parser->nodes > MOST_NODES) parser->failed = true;
    enum mt_status status = mt_arena_allocate(parser->arena, sizeof(struct mt_math_node), &memory);
    if (status != MT_OK) {
        parser->status = status;
        parser->failed = true;
        return NULL;
    }
    struct mt_math_node *node = memory;
    node->kind = kind;
    return node;
}

static void adopt(struct mt_math_node *parent, struct mt_math_node *child)
{
    if (parent == NULL || child == NULL) return;
    if (parent->last != NULL) parent->last->next = child;
    if (parent->first == NULL) parent->first = child;
    parent->last = child;
    parent->count++;
}

static struct mt_math_node *fail(struct mt_math_parser *parser)
{
    parser->failed = true;
    return NULL;
}

static bool begins_factor(const struct mt_math_parser *parser)
{
    static const char *const not_factors[] = {"le",  "ge",  "ne", "in",  "pm", "mp",
                                              "cup", "end", "or", "and", "deg"};
    switch (parser->token.kind) {
    case MT_TOKEN_NUMBER:
    case MT_TOKEN_SYMBOL: return true;
    case MT_TOKEN_COMMAND:
        for (size_t i = 0; i < sizeof not_factors / sizeof not_factors[0]; i++) {
            if (mt_math_is_command(parser, not_factors[i])) return false;
        }
        return true;
    case MT_TOKEN_SIGN: return strchr("([{S", parser->token.sign) != NULL;
    default: return false;
    }
}

/* A node over one child, and over two. */
static struct mt_math_node *wrap(struct mt_math_parser *parser, enum mt_math_kind kind,
                                 struct mt_math_node *child)
{
    struct mt_math_node *node = new_node(parser, kind);
    adopt(node, child);
    return node;
}

static struct mt_math_node *pair(struct mt_math_parser *parser, enum mt_math_kind kind,
                                 struct mt_math_node *one, struct mt_math_node *other)
{
    struct mt_math_node *node = wrap(parser, kind, one);
    adopt(node, other);
    return node;
}

/* A node with a text of its own, over a child if there is one. */
static struct mt_math_node *named(struct mt_math_parser *parser, enum mt_math_kind kind, const char *text,
                                  size_t bytes, struct mt_math_node *child)
{
    struct mt_math_node *node = wrap(parser, kind, child);
    char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(parser->arena, text, bytes, &copy);
    if (status != MT_OK) parser->status = status;
    if (status != MT_OK || node == NULL) return fail(parser);
    node->text = copy;
    return node;
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
    {"sin", MT_CALL_SIN},       {"cos", MT_CALL_COS}, {"tan", MT_CALL_TAN},       {"cot", MT_CALL_COT},
    {"sec", MT_CALL_SEC},       {"csc", MT_CALL_CSC}, {"arcsin", MT_CALL_ARCSIN}, {"arccos", MT_CALL_ARCCOS},
    {"arctan", MT_CALL_ARCTAN}, {"log", MT_CALL_LOG}, {"ln", MT_CALL_LOG},        {"lg", MT_CALL_LOG},
    {"exp", MT_CALL_EXP},       {"abs", MT_CALL_ABS}, {"floor", MT_CALL_FLOOR},   {"ceil", MT_CALL_CEIL},
};

/* {...}, or the one token TeX takes without braces. */
static struct mt_math_node *argument(struct mt_math_parser *parser)
{
    mt_math_first_digit(parser);
    if (!mt_math_take(parser, '{')) return base_of(parser);
    struct mt_math_node *node = sum_of(parser);
    if (!parser->failed && !mt_math_take(parser, '}')) return fail(parser);
    return node;
}

static struct mt_math_node *two(struct mt_math_parser *parser, enum mt_math_kind kind)
{
    struct mt_math_node *node = new_node(parser, kind);
    adopt(node, argument(parser));
    if (!parser->failed) adopt(node, argument(parser));
    return node;
}

static struct mt_math_node *call_node(struct mt_math_parser *parser, enum mt_math_call call)
{
    struct mt_math_node *node = new_node(parser, MT_MATH_CALL);
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
        if (parser->failed || !mt_math_take(parser, ']')) return fail(parser);
    }
    bool plain = parser->token.kind == MT_TOKEN_NUMBER && parser->token.spaced; // √12 became "\sqrt 12"
    adopt(node, plain ? base_of(parser) : argument(parser));
    adopt(node, degree);
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
    if (parser->failed || !begins_factor(parser)) return fail(parser);
    bool bracket = mt_math_is_sign(parser, '(') || mt_math_is_sign(parser, '{');
    struct mt_math_node *inner = bracket ? base_of(parser) : factor(parser);
    while (!parser->failed && !bracket && begins_factor(parser) && parser->token.kind != MT_TOKEN_COMMAND &&
           !mt_math_is_sign(parser, '(')) {
        inner = pair(parser, MT_MATH_PRODUCT, inner, factor(parser));
    }
    adopt(node, inner);
    adopt(node, base);
    return power != NULL ? pair(parser, MT_MATH_POWER, node, power) : node;
}

/* \begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}: rows as groups, a column or a row alone as one group. */
static struct mt_math_node *matrix(struct mt_math_parser *parser)
{
    const char *brace = parser->at;
    while (brace < parser->end && *brace != '}') brace++;
    if (!mt_math_is_sign(parser, '{') || brace == parser->end) return fail(parser);
    bool array =
        memcmp(parser->at, "array", (size_t)(brace - parser->at) < 5 ? 0 : 5) == 0 && brace - parser->at == 5;
    parser->at = brace + 1;
    mt_math_advance(parser);
    if (array && mt_math_is_sign(parser, '{')) { // how columns are set
        while (parser->at < parser->end && *parser->at != '}') parser->at++;
        if (parser->at == parser->end) return fail(parser);
        parser->at++;
        mt_math_advance(parser);
    }
    struct mt_math_node *rows = new_node(parser, MT_MATH_GROUP);
    struct mt_math_node *row = new_node(parser, MT_MATH_GROUP);
    bool single = true;
    while (!parser->failed && rows != NULL && row != NULL) {
        row->open = '(';
        row->close = ')';
        adopt(row, sum_of(parser));
        if (mt_math_take(parser, '&')) continue;
        single = single && row->count == 1;
        adopt(rows, row);
        bool more = mt_math_take(parser, 'R');
        if (mt_math_is_command(parser, "end")) break;
        if (!more) return fail(parser);
        row = new_node(parser, MT_MATH_GROUP);
    }
    while (!parser->failed && parser->at < parser->end && *parser->at != '}') parser->at++;
    if (parser->failed || rows == NULL || parser->at == parser->end) return fail(parser);
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
        if (spells(&token, calls[i].name)) return function(parser, calls[i].call);
    }
    if (spells(&token, "frac")) return two(parser, MT_MATH_QUOTIENT);
    if (spells(&token, "binom")) return two(parser, MT_MATH_CHOOSE);
    if (spells(&token, "sqrt")) return root(parser);
    if (spells(&token, "begin")) return matrix(parser);
    if (token.bytes >= 5 && memcmp(token.start, "infty", 5) == 0) return new_node(parser, MT_MATH_INFINITY);
    if (spells(&token, "infinity")) return new_node(parser, MT_MATH_INFINITY);
    bool floor = spells(&token, "lfloor");
    if (!floor && !spells(&token, "lceil")) return fail(parser);
    struct mt_math_node *node = call_node(parser, floor ? MT_CALL_FLOOR : MT_CALL_CEIL);
    adopt(node, sum_of(parser));
    return mt_math_take_command(parser, floor ? "rfloor" : "rceil") ? node : fail(parser);
}

/* A list between brackets; one thing in round or bare braces is that thing. */
static struct mt_math_node *brackets(struct mt_math_parser *parser, char open)
{
    char square = open == '[' ? '[' : '\0';
    if (parser->depth >= MOST_DEPTH) return fail(parser);
    parser->depth++;
    parser->inside += open == '{' ? 0 : 1;
    mt_math_advance(parser);
    struct mt_math_node *inner = NULL;
    if (!mt_math_is_sign(parser, open == 'S' ? 'T' : ')')) inner = list(parser);
    parser->depth--;
    parser->inside -= open == '{' ? 0 : 1;
    if (parser->failed) return NULL;
    char close = parser->token.kind == MT_TOKEN_SIGN ? parser->token.sign : '\0';
    bool fits = open == '{' ? close == '}' : (open == 'S' ? close == 'T' : close == ')' || close == ']');
    if (!fits) return fail(parser);
    mt_math_advance(parser);
    bool bare = inner != NULL && inner->kind == MT_MATH_GROUP && inner->open == '\0';
    bool alone = inner != NULL && !bare;
    if (alone && open != 'S' && open != '[') return close == ']' ? fail(parser) : inner;
    if (open == '{') return inner;
    struct mt_math_node *group = bare ? inner : new_node(parser, MT_MATH_GROUP);
    if (alone) adopt(group, inner);
    if (group == NULL) return fail(parser);
    group->open = open == 'S' ? '{' : (square != '\0' ? square : '(');
    group->close = close == 'T' ? '}' : close;
    return group;
}

static struct mt_math_node *absolute(struct mt_math_parser *parser)
{
    mt_math_advance(parser);
    struct mt_math_node *node = call_node(parser, MT_CALL_ABS);
    adopt(node, sum_of(parser));
    if (!parser->failed && !mt_math_take(parser, '|')) return fail(parser);
    return node;
}

static struct mt_math_node *words(struct mt_math_parser *parser)
{
    struct mt_math_node *node = named(parser, MT_MATH_TEXT, parser->token.start, parser->token.bytes, NULL);
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
            new_node(parser, token.kind == MT_TOKEN_NUMBER ? MT_MATH_NUMBER : MT_MATH_SYMBOL);
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
        return fail(parser);
    default: return fail(parser);
    }
}

/* x_1 is a symbol of its own; the subscript of a number names its base. */
static struct mt_math_node *subscript(struct mt_math_parser *parser, struct mt_math_node *base)
{
    bool braced = mt_math_take(parser, '{');
    struct mt_math_token token = parser->token;
    bool short_name = token.kind == MT_TOKEN_SYMBOL || (token.kind == MT_TOKEN_NUMBER && token.whole);
    if (!short_name || token.bytes > 3) {
        if (token.kind != MT_TOKEN_TEXT) return fail(parser);
    }
    mt_math_advance(parser);
    if (braced && !mt_math_take(parser, '}')) return fail(parser);
    if (base == NULL) return NULL;
    if (base->kind == MT_MATH_SYMBOL) {
        int name = token.kind == MT_TOKEN_NUMBER ? (int)token.value : 1000 + token.symbol;
        base->symbol = base->symbol % 1000 + 1000 * (name + 1);
        return base;
    }
    return named(parser, MT_MATH_UNIT, token.start, token.bytes, base);
}

static struct mt_math_node *raise(struct mt_math_parser *parser, struct mt_math_node *base)
{
    mt_math_advance(parser);
    bool braced = mt_math_take(parser, '{');
    if (mt_math_take_command(parser, "deg")) {
        if (braced && !mt_math_take(parser, '}')) return fail(parser);
        return wrap(parser, MT_MATH_DEGREE, base);
    }
    struct mt_math_node *power = wrap(parser, MT_MATH_POWER, base);
    bool negative = !braced && mt_math_take(parser, '-');
    struct mt_math_node *exponent = braced ? sum_of(parser) : base_of(parser);
    if (braced && !parser->failed && !mt_math_take(parser, '}')) return fail(parser);
    adopt(power, negative ? wrap(parser, MT_MATH_NEGATIVE, exponent) : exponent);
    return power;
}

static struct mt_math_node *factor(struct mt_math_parser *parser)
{
    if (parser->depth >= MOST_DEPTH) return fail(parser);
    parser->depth++;
    struct mt_math_node *node = base_of(parser);
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
        } else if (mt_math_take_command(parser, "deg")) {
            node = wrap(parser, MT_MATH_DEGREE, node);
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
    return spells(token, "and") || spells(token, "or");
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
            if (parser->token.kind != MT_TOKEN_NUMBER) return fail(parser);
            end = parser->token.start + parser->token.bytes;
            mt_math_advance(parser);
            if (braced && !mt_math_take(parser, '}')) return fail(parser);
        }
        if (mt_math_is_sign(parser, '/')) {
            mt_math_advance(parser);
            if (parser->token.kind == MT_TOKEN_SYMBOL) {
                end = parser->token.start + parser->token.bytes;
                mt_math_advance(parser);
            } else if (!is_unit_token(parser)) {
                return fail(parser);
            }
        }
    }
    return named(parser, MT_MATH_UNIT, start, (size_t)(end - start), value);
}

/* A whole number before a proper fraction: 3\frac{1}{2}, "3 1/2". */
static bool is_mixed(const struct mt_math_node *whole, const struct mt_math_node *fraction)
{
    if (whole == NULL || fraction == NULL || whole->kind != MT_MATH_NUMBER || !whole->flag) return false;
    if (!mt_rational_is_whole(whole->number) || fraction->kind != MT_MATH_QUOTIENT) return false;
    const struct mt_math_node *over = fraction->first;
    const struct mt_math_node *under = over->next;
    if (over->kind != MT_MATH_NUMBER || under == NULL || under->kind != MT_MATH_NUMBER) return false;
    return over->flag && under->flag && mt_rational_is_whole(over->number) &&
           mt_rational_is_whole(under->number) && over->number.over < under->number.over;
}

/* Two numbers side by side: "3 1/2" is mixed, "3 2^{1/2}" a product; anything else means nothing. */
static struct mt_math_node *after_number(struct mt_math_parser *parser, struct mt_math_node *left)
{
    struct mt_math_node *right = factor(parser);
    if (parser->failed) return NULL;
    if (right->kind == MT_MATH_POWER) return pair(parser, MT_MATH_PRODUCT, left, right);
    if (!mt_math_take(parser, '/')) return fail(parser);
    struct mt_math_node *fraction = pair(parser, MT_MATH_QUOTIENT, right, factor(parser));
    if (parser->failed || !is_mixed(left, fraction)) return fail(parser);
    return pair(parser, MT_MATH_SUM, left, fraction);
}

static struct mt_math_node *signed_factor(struct mt_math_parser *parser)
{
    if (mt_math_take(parser, '+')) return signed_factor(parser);
    if (!mt_math_is_sign(parser, '-')) return factor(parser);
    if (parser->depth >= MOST_DEPTH) return fail(parser);
    parser->depth++;
    mt_math_advance(parser);
    struct mt_math_node *negative = new_node(parser, MT_MATH_NEGATIVE);
    adopt(negative, signed_factor(parser));
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
    return pair(parser, mixed ? MT_MATH_SUM : MT_MATH_PRODUCT, left, right);
}

static struct mt_math_node *product(struct mt_math_parser *parser)
{
    struct mt_math_node *left = signed_factor(parser);
    while (!parser->failed) {
        if (mt_math_take(parser, '*')) {
            left = pair(parser, MT_MATH_PRODUCT, left, signed_factor(parser));
        } else if (mt_math_take(parser, '/')) {
            left = pair(parser, MT_MATH_QUOTIENT, left, signed_factor(parser));
        } else if (begins_factor(parser)) {
            left = next_to(parser, left);
        } else if (is_unit_token(parser)) {
            left = take_unit(parser, left);
        } else {
            return left;
        }
    }
    return left;
}

// ------------------------------------------------------------------ sums, relations, lists

static struct mt_math_node *sum_of(struct mt_math_parser *parser)
{
    if (parser->depth >= MOST_DEPTH) return fail(parser);
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
        if (minus || either || other) term = wrap(parser, minus ? MT_MATH_NEGATIVE : MT_MATH_EITHER, term);
        if (other && term != NULL) term->flag = true;
        sum = first ? term : pair(parser, MT_MATH_SUM, sum, term);
        first = false;
    }
    parser->depth--;
    return sum;
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
    return '\0';
}

static struct mt_math_node *united(struct mt_math_parser *parser)
{
    struct mt_math_node *node = sum_of(parser);
    if (!parser->failed && mt_math_take_command(parser, "in")) node = sum_of(parser); // x \in S says S
    if (parser->failed || !mt_math_is_command(parser, "cup")) return node;
    struct mt_math_node *all = new_node(parser, MT_MATH_UNION);
    adopt(all, node);
    while (!parser->failed && mt_math_take_command(parser, "cup")) adopt(all, sum_of(parser));
    return all;
}

static struct mt_math_node *relation(struct mt_math_parser *parser)
{
    struct mt_math_node *node = united(parser);
    if (parser->failed) return NULL;
    char sign = take_relation(parser);
    if (sign == '\0') return node;
    struct mt_math_node *chain = new_node(parser, MT_MATH_RELATION);
    adopt(chain, node);
    while (!parser->failed && sign != '\0') {
        if (chain == NULL || chain->count >= MT_MATH_RELATIONS) return fail(parser);
        chain->relations[chain->count - 1] = sign;
        adopt(chain, united(parser));
        sign = take_relation(parser);
    }
    return chain;
}

static bool take_separator(struct mt_math_parser *parser)
{
    bool comma = mt_math_take(parser, ',') || mt_math_take(parser, ';');
    bool word = mt_math_take_command(parser, "and") || mt_math_take_command(parser, "or");
    bool text = parser->token.kind == MT_TOKEN_TEXT && joins(&parser->token);
    if (text) mt_math_advance(parser);
    return comma || word || text;
}

static struct mt_math_node *list(struct mt_math_parser *parser)
{
    struct mt_math_node *node = relation(parser);
    if (parser->failed || !take_separator(parser)) return node;
    struct mt_math_node *all = wrap(parser, MT_MATH_GROUP, node);
    do {
        adopt(all, relation(parser));
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

static enum mt_status parse_clean(struct mt_arena *arena, const struct mt_byte_list *clean,
                                  struct mt_math_node **root)
{
    const char *text = (const char *)clean->data;
    struct mt_math_parser parser = {.arena = arena, .at = text, .end = text + clean->count};
    struct mt_math_node *node = NULL;
    if (is_words(text, clean->count)) {
        node = named(&parser, MT_MATH_TEXT, text, clean->count, NULL);
    } else {
        mt_math_advance(&parser);
        node = list(&parser);
        if (parser.token.kind != MT_TOKEN_END) parser.failed = true;
    }
    *root = parser.failed ? NULL : node;
    return parser.status;
}

enum mt_status mt_math_parse(struct mt_arena *arena, const char *text, size_t bytes,
                             struct mt_math_node **root)
{
    struct mt_byte_list clean = {.ctx = arena->ctx};
    *root = NULL;
    if (bytes == 0 || bytes > MOST_TEXT) return MT_OK;
    enum mt_status status = mt_math_clean(text, bytes, &clean);
    // Tokens point into the text: nothing of it is kept in the tree.
    if (status == MT_OK && clean.count > 0) status = parse_clean(arena, &clean, root);
    mt_byte_list_free(&clean);
    return status;
}
