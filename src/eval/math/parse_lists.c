/* The tree of a mathematical text above sums: ratios, sets, relations, lists, the whole. */
#include <ctype.h>
#include <string.h>

#include "eval/math/nodes.h"
#include "eval/math/parse.h"

#define MOST_TEXT 4000 // bytes of an answer worth parsing

static bool take_ratio(struct mt_math_parser *parser)
{
    bool text = parser->token.kind == MT_TOKEN_TEXT && mt_token_spells(&parser->token, "to");
    if (text) mt_math_advance(parser);
    return text || mt_math_take(parser, ':') || mt_math_take_command(parser, "to");
}

/* 3:2 is a fraction, 1:2:3 keeps its order. In a set a colon means "such that". */
static struct mt_math_node *ratio(struct mt_math_parser *parser)
{
    struct mt_math_node *node = mt_parse_sum(parser);
    if (parser->failed || parser->bars > 0 || !take_ratio(parser)) return node;
    struct mt_math_node *all = mt_node_wrap(parser, MT_MATH_GROUP, node);
    do {
        mt_node_adopt(all, mt_parse_sum(parser));
    } while (!parser->failed && take_ratio(parser));
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
    return parser->failed ? NULL : mt_node_without(parser, node, without);
}

/* A union that begins with `first`; without \cup that is all. */
static struct mt_math_node *united_with(struct mt_math_parser *parser, struct mt_math_node *first)
{
    if (parser->failed || !mt_math_is_command(parser, "cup")) return first;
    struct mt_math_node *all = mt_node_new(parser, MT_MATH_UNION);
    mt_node_adopt(all, first);
    while (!parser->failed && mt_math_take_command(parser, "cup")) mt_node_adopt(all, set_of(parser));
    return all;
}

static struct mt_math_node *united(struct mt_math_parser *parser)
{
    struct mt_math_node *node = set_of(parser);
    bool element = !parser->failed && (node->kind == MT_MATH_SYMBOL || node->kind == MT_MATH_GROUP);
    if (!element || !mt_math_take_command(parser, "in")) return united_with(parser, node);
    struct mt_math_node *first = set_of(parser);
    struct mt_math_node *set = united_with(parser, first);
    if (parser->failed) return NULL;
    bool whole = set->kind == MT_MATH_SYMBOL && (set->symbol == 'Z' || set->symbol == 'N');
    if (!whole || node->kind != MT_MATH_SYMBOL) return set; // x \in S says S
    node = mt_node_pair(parser, MT_MATH_RELATION, node, set);
    if (node != NULL) node->relations[0] = 'e';
    return node;
}

/* x \equiv 10 \pmod{7} is x = 7k + 3 for whole k; without "x \equiv" it is its value. */
static struct mt_math_node *congruence(struct mt_math_parser *parser, struct mt_math_node *name,
                                       struct mt_math_node *value)
{
    bool round = mt_math_take_command(parser, "pmod");
    if (!round && !mt_math_take_command(parser, "mod") && !mt_math_take_command(parser, "bmod"))
        return name == NULL ? value : mt_node_fail(parser);
    struct mt_math_node *modulus = mt_parse_sum(parser);
    if (parser->failed || name == NULL) return parser->failed ? NULL : value;
    int64_t rest = 0;
    int64_t size = 0;
    bool negative = value->kind == MT_MATH_NEGATIVE;
    const struct mt_math_node *whole = negative ? value->first : value;
    if (whole->kind == MT_MATH_NUMBER && modulus->kind == MT_MATH_NUMBER &&
        mt_rational_small(&whole->number, &rest) && mt_rational_small(&modulus->number, &size) && size > 0) {
        rest = (negative ? -(rest % size) + size : rest) % size;
        value = mt_node_new(parser, MT_MATH_NUMBER);
        if (value != NULL) value->number = mt_rational_make(&parser->numbers, rest, 1);
    }
    struct mt_math_node *any = mt_node_new(parser, MT_MATH_SYMBOL);
    if (any == NULL) return NULL;
    any->symbol = MT_SYMBOL_WHOLE;
    struct mt_math_node *multiples = mt_node_pair(parser, MT_MATH_PRODUCT, modulus, any);
    struct mt_math_node *all = mt_node_pair(parser, MT_MATH_SUM, multiples, value);
    struct mt_math_node *equation = mt_node_pair(parser, MT_MATH_RELATION, name, all);
    if (equation != NULL) equation->relations[0] = '=';
    return equation;
}

struct mt_math_node *mt_parse_relation(struct mt_math_parser *parser)
{
    (void)mt_math_take_command(parser, "approx"); // "≈ 3.14"
    struct mt_math_node *node = united(parser);
    if (parser->failed) return NULL;
    if (mt_math_take_command(parser, "equiv")) {
        struct mt_math_node *value = mt_parse_sum(parser);
        return parser->failed ? NULL : congruence(parser, node, value);
    }
    node = congruence(parser, NULL, node);
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
               mt_math_take_command(parser, "and") || mt_math_take_command(parser, "or") ||
               mt_math_take_command(parser, "und") || mt_math_take_command(parser, "oder");
        if (!more && parser->token.kind == MT_TOKEN_TEXT && mt_token_joins(&parser->token) &&
            !mt_token_spells(&parser->token, "to")) {
            mt_math_advance(parser);
            more = true;
        }
        taken = taken || more;
    }
    return taken;
}

/* The variable gets the name that all whole numbers, or all natural ones, have here. */
static void name_parameter(struct mt_math_node *node, int64_t symbol, int64_t name)
{
    if (node->kind == MT_MATH_SYMBOL && node->symbol == symbol) node->symbol = name;
    for (struct mt_math_node *child = node->first; child != NULL; child = child->next)
        name_parameter(child, symbol, name);
}

static bool is_element(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_RELATION && node->relations[0] == 'e';
}

/* "\pi/3 + 2k\pi, k \in Z" is the same with n for k. Alone, "n \in Z" says Z. */
static struct mt_math_node *without_element(struct mt_math_node *all)
{
    if (is_element(all)) return all->last;
    if (all->kind != MT_MATH_GROUP || all->open != '\0' || all->count < 2 || !is_element(all->last))
        return all;
    int64_t symbol = all->last->first->symbol;
    int64_t name = all->last->last->symbol == 'N' ? MT_SYMBOL_NATURAL : MT_SYMBOL_WHOLE;
    struct mt_math_node *before = all->first;
    while (before->next != all->last) before = before->next;
    before->next = NULL;
    all->last = before;
    all->count--;
    name_parameter(all, symbol, name);
    return all->count == 1 ? all->first : all;
}

struct mt_math_node *mt_parse_list(struct mt_math_parser *parser)
{
    struct mt_math_node *node = mt_parse_relation(parser);
    if (parser->failed) return NULL;
    if (!take_separator(parser)) return without_element(node);
    struct mt_math_node *all = mt_node_wrap(parser, MT_MATH_GROUP, node);
    do {
        mt_node_adopt(all, mt_parse_relation(parser));
    } while (!parser->failed && take_separator(parser));
    return parser->failed ? NULL : without_element(all);
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
        node = mt_parse_list(&parser);
        if (parser.token.kind != MT_TOKEN_END) parser.failed = true;
    }
    // Tokens point into the text: nothing of it is kept in the tree.
    *root = parser.failed ? NULL : node;
    return parser.numbers.status;
}
