/* The tree of a mathematical text: lists, relations, sums, products. */
#include "eval/math/parse.h"

#include <ctype.h>
#include <string.h>

#include "eval/math/lex.h"

#define MOST_TEXT 4000 // bytes of an answer worth parsing

struct mt_math_node *mt_math_node(struct mt_math_parser *parser, enum mt_math_kind kind)
{
    void *memory = NULL;
    parser->nodes++;
    if (parser->nodes > MT_MATH_MOST_NODES) parser->failed = true;
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

void mt_math_adopt(struct mt_math_node *parent, struct mt_math_node *child)
{
    if (parent == NULL || child == NULL) return;
    if (parent->last != NULL) parent->last->next = child;
    if (parent->first == NULL) parent->first = child;
    parent->last = child;
    parent->count++;
}

struct mt_math_node *mt_math_fail(struct mt_math_parser *parser)
{
    parser->failed = true;
    return NULL;
}

bool mt_math_begins_factor(const struct mt_math_parser *parser)
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

// ------------------------------------------------------------------ products

static bool is_unit_token(const struct mt_math_parser *parser)
{
    enum mt_math_token_kind kind = parser->token.kind;
    if (kind == MT_TOKEN_UNIT) return true;
    if (kind == MT_TOKEN_WORD) return parser->token.spaced;
    if (kind != MT_TOKEN_TEXT) return false;
    // "and" and "or" between answers separate them.
    const struct mt_math_token *token = &parser->token;
    bool joins = (token->bytes == 3 && memcmp(token->start, "and", 3) == 0) ||
                 (token->bytes == 2 && memcmp(token->start, "or", 2) == 0);
    return !joins;
}

/* The units after a value: "cm", "square feet", "km/h", "\text{ m}^2". The texts run from one token to the
 * last. */
static struct mt_math_node *take_unit(struct mt_math_parser *parser, struct mt_math_node *value)
{
    struct mt_math_node *unit = mt_math_node(parser, MT_MATH_UNIT);
    const char *start = parser->token.start;
    const char *end = start;
    while (!parser->failed && is_unit_token(parser)) {
        end = parser->token.start + parser->token.bytes;
        mt_math_advance(parser);
        if (mt_math_take(parser, '^')) {
            bool braced = mt_math_take(parser, '{');
            (void)mt_math_take(parser, '-');
            if (parser->token.kind != MT_TOKEN_NUMBER) return mt_math_fail(parser);
            end = parser->token.start + parser->token.bytes;
            mt_math_advance(parser);
            if (braced && !mt_math_take(parser, '}')) return mt_math_fail(parser);
        }
        if (mt_math_is_sign(parser, '/')) {
            mt_math_advance(parser);
            if (parser->token.kind == MT_TOKEN_SYMBOL) {
                end = parser->token.start + parser->token.bytes;
                mt_math_advance(parser);
            } else if (!is_unit_token(parser)) {
                return mt_math_fail(parser);
            }
        }
    }
    char *text = NULL;
    enum mt_status status = mt_arena_copy_text(parser->arena, start, (size_t)(end - start), &text);
    if (status != MT_OK || unit == NULL) {
        parser->status = status != MT_OK ? status : parser->status;
        return mt_math_fail(parser);
    }
    unit->text = text;
    mt_math_adopt(unit, value);
    return unit;
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

static struct mt_math_node *pair(struct mt_math_parser *parser, enum mt_math_kind kind,
                                 struct mt_math_node *one, struct mt_math_node *other)
{
    struct mt_math_node *node = mt_math_node(parser, kind);
    mt_math_adopt(node, one);
    mt_math_adopt(node, other);
    return node;
}

/* Two numbers side by side: "3 1/2" is mixed, "3 2^{1/2}" a product; anything else means nothing. */
static struct mt_math_node *after_number(struct mt_math_parser *parser, struct mt_math_node *left)
{
    struct mt_math_node *right = mt_math_factor(parser);
    if (parser->failed) return NULL;
    if (right->kind == MT_MATH_POWER) return pair(parser, MT_MATH_PRODUCT, left, right);
    if (!mt_math_take(parser, '/')) return mt_math_fail(parser);
    struct mt_math_node *fraction = pair(parser, MT_MATH_QUOTIENT, right, mt_math_factor(parser));
    if (parser->failed || !is_mixed(left, fraction)) return mt_math_fail(parser);
    return pair(parser, MT_MATH_SUM, left, fraction);
}

static struct mt_math_node *signed_factor(struct mt_math_parser *parser)
{
    if (mt_math_take(parser, '+')) return signed_factor(parser);
    if (!mt_math_is_sign(parser, '-')) return mt_math_factor(parser);
    if (parser->depth >= MT_MATH_MOST_DEPTH) return mt_math_fail(parser);
    parser->depth++;
    mt_math_advance(parser);
    struct mt_math_node *negative = mt_math_node(parser, MT_MATH_NEGATIVE);
    mt_math_adopt(negative, signed_factor(parser));
    parser->depth--;
    return negative;
}

/* Multiplication without a sign. */
static struct mt_math_node *next_to(struct mt_math_parser *parser, struct mt_math_node *left)
{
    bool number = parser->token.kind == MT_TOKEN_NUMBER;
    if (number && left != NULL && left->kind == MT_MATH_NUMBER) return after_number(parser, left);
    bool fraction = mt_math_is_command(parser, "frac");
    struct mt_math_node *right = mt_math_factor(parser);
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
        } else if (mt_math_begins_factor(parser)) {
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

static bool take_command(struct mt_math_parser *parser, const char *name)
{
    if (!mt_math_is_command(parser, name)) return false;
    mt_math_advance(parser);
    return true;
}

struct mt_math_node *mt_math_sum(struct mt_math_parser *parser)
{
    if (parser->depth >= MT_MATH_MOST_DEPTH) return mt_math_fail(parser);
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
        if (minus || either || other) {
            struct mt_math_node *marked = mt_math_node(parser, minus ? MT_MATH_NEGATIVE : MT_MATH_EITHER);
            if (marked != NULL) marked->flag = other;
            mt_math_adopt(marked, term);
            term = marked;
        }
        if (first) {
            sum = term;
        } else {
            sum = pair(parser, MT_MATH_SUM, sum, term);
        }
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
    if (take_command(parser, "le")) return 'l';
    if (take_command(parser, "ge")) return 'g';
    if (take_command(parser, "ne")) return 'n';
    return '\0';
}

static struct mt_math_node *united(struct mt_math_parser *parser)
{
    struct mt_math_node *node = mt_math_sum(parser);
    if (!parser->failed && take_command(parser, "in")) node = mt_math_sum(parser); // x \in S says S
    if (parser->failed || !mt_math_is_command(parser, "cup")) return node;
    struct mt_math_node *all = mt_math_node(parser, MT_MATH_UNION);
    mt_math_adopt(all, node);
    while (!parser->failed && take_command(parser, "cup")) mt_math_adopt(all, mt_math_sum(parser));
    return all;
}

static struct mt_math_node *relation(struct mt_math_parser *parser)
{
    struct mt_math_node *node = united(parser);
    if (parser->failed) return NULL;
    char sign = take_relation(parser);
    if (sign == '\0') return node;
    struct mt_math_node *chain = mt_math_node(parser, MT_MATH_RELATION);
    mt_math_adopt(chain, node);
    while (!parser->failed && sign != '\0') {
        if (chain == NULL || chain->count >= MT_MATH_RELATIONS) return mt_math_fail(parser);
        chain->relations[chain->count - 1] = sign;
        mt_math_adopt(chain, united(parser));
        sign = take_relation(parser);
    }
    return chain;
}

static bool take_separator(struct mt_math_parser *parser)
{
    bool comma = mt_math_take(parser, ',') || mt_math_take(parser, ';');
    bool word = take_command(parser, "and") || take_command(parser, "or");
    const struct mt_math_token *token = &parser->token;
    bool text = token->kind == MT_TOKEN_TEXT && ((token->bytes == 3 && memcmp(token->start, "and", 3) == 0) ||
                                                 (token->bytes == 2 && memcmp(token->start, "or", 2) == 0));
    if (text) mt_math_advance(parser);
    return comma || word || text;
}

struct mt_math_node *mt_math_list(struct mt_math_parser *parser)
{
    struct mt_math_node *node = relation(parser);
    if (parser->failed || !take_separator(parser)) return node;
    struct mt_math_node *list = mt_math_node(parser, MT_MATH_GROUP);
    mt_math_adopt(list, node);
    do {
        mt_math_adopt(list, relation(parser));
    } while (!parser->failed && take_separator(parser));
    return list;
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
        char *copy = NULL;
        node = mt_math_node(&parser, MT_MATH_TEXT);
        if (node == NULL) return parser.status;
        parser.status = mt_arena_copy_text(arena, text, clean->count, &copy);
        node->text = copy;
    } else {
        mt_math_advance(&parser);
        node = mt_math_list(&parser);
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
