/* The tree of a mathematical text above sums: ratios, sets, relations, lists, the whole. */
#include <ctype.h>
#include <string.h>

#include "eval/math/nodes.h"
#include "eval/math/parse.h"
#include "eval/math/value.h"

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
    if (all->count == 2 && node->kind == MT_MATH_TEXT && all->last->kind != MT_MATH_TEXT) {
        all->kind = MT_MATH_RELATION; // "Domain: (0, 1)"
        all->relations[0] = '=';
        return all;
    }
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
    if (parser->failed) return NULL;
    bool minus = node->kind == MT_MATH_GROUP && mt_math_take(parser, '-'); // R - {2}
    if (!minus && !mt_math_take_command(parser, "setminus")) return node;
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
    if (parser->failed || name == NULL) // "2^9 mod 7 = 1" tells how
        return parser->failed || mt_math_is_sign(parser, '=') ? mt_node_fail(parser) : value;
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

static bool takes_or(struct mt_math_parser *parser)
{
    static const char *const words[] = {"or", ", or", "oder", "ou"};
    bool text = false;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && parser->token.kind == MT_TOKEN_TEXT; i++)
        text = text || mt_token_spells(&parser->token, words[i]);
    if (text) mt_math_advance(parser);
    return text || mt_math_take_command(parser, "or") || mt_math_take_command(parser, "oder");
}

static bool takes_and(struct mt_math_parser *parser)
{
    bool text = parser->token.kind == MT_TOKEN_TEXT && mt_token_joins(&parser->token) &&
                !mt_token_spells(&parser->token, "to");
    if (text) mt_math_advance(parser);
    return text || mt_math_take(parser, ',') || mt_math_take_command(parser, "and") ||
           mt_math_take_command(parser, "und");
}

/* What separates the parts of a list, the most of several. */
enum separator {
    NO_SEPARATOR,
    SEPARATOR_AND, // a comma as well
    SEPARATOR_LINE,
    SEPARATOR_OR,
};

static enum separator take_separator(struct mt_math_parser *parser)
{
    enum separator taken = NO_SEPARATOR;
    enum separator next = SEPARATOR_AND;
    while (next != NO_SEPARATOR) {
        next = NO_SEPARATOR;
        if (takes_or(parser)) {
            next = SEPARATOR_OR;
        } else if (takes_and(parser)) {
            next = SEPARATOR_AND;
        } else if (mt_math_take(parser, ';')) {
            next = SEPARATOR_LINE;
        }
        if (next > taken) taken = next;
    }
    return taken;
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
    mt_node_rename(all, symbol, name);
    return all->count == 1 ? all->first : all;
}

/* True for an equation that names the symbol. */
static bool is_value_of(const struct mt_math_node *node, int64_t symbol)
{
    return node->kind == MT_MATH_RELATION && node->relations[0] == '=' && node->count == 2 &&
           node->first->kind == MT_MATH_SYMBOL && node->first->symbol == symbol;
}

/* "x=1, y=2 or x=3, y=4": each part gives values to the same several names. */
static bool are_solutions(const struct mt_math_node *parts)
{
    for (const struct mt_math_node *part = parts->first; part != NULL; part = part->next) {
        if (part->count < 2 || part->count != parts->first->count) return false;
        for (const struct mt_math_node *name = parts->first->first; name != NULL; name = name->next) {
            int found = 0;
            for (const struct mt_math_node *each = part->first; each != NULL; each = each->next)
                found += name->first != NULL && is_value_of(each, name->first->symbol) ? 1 : 0;
            if (found != 1) return false;
        }
    }
    return parts->count > 1;
}

/* "x \ne 1, x \ne 2", "x \ne 1, 2": the line without these; others stay. */
static struct mt_math_node *without_values(struct mt_math_parser *parser, struct mt_math_node *list)
{
    if (parser->failed) return NULL;
    const struct mt_math_node *name = list->first->first;
    if (list->first->kind != MT_MATH_RELATION || name->kind != MT_MATH_SYMBOL) return list;
    for (const struct mt_math_node *child = list->first; child != NULL; child = child->next) {
        bool relation = child->kind == MT_MATH_RELATION;
        if (relation && (child->count != 2 || child->relations[0] != 'n' ||
                         child->first->kind != MT_MATH_SYMBOL || child->first->symbol != name->symbol))
            return list;
        if (mt_math_varies(relation ? child->last : child)) return list;
    }
    struct mt_math_node *values = mt_node_new(parser, MT_MATH_GROUP);
    struct mt_math_node *line = mt_node_meant(parser, "real numbers", 12);
    struct mt_math_node *next = NULL;
    for (struct mt_math_node *child = list->first; child != NULL && values != NULL; child = next) {
        next = child->next;
        child->next = NULL;
        struct mt_math_node *value = child->kind == MT_MATH_RELATION ? child->last : child;
        if (value->kind == MT_MATH_EITHER) { // ±1 are two
            struct mt_math_node *other = mt_node_new(parser, MT_MATH_SUM);
            if (other == NULL) return NULL;
            *other = *value->first;
            other->next = NULL;
            mt_node_adopt(values, other);
            value->kind = MT_MATH_NEGATIVE;
        }
        mt_node_adopt(values, value);
    }
    if (parser->failed) return NULL;
    values->open = '{';
    values->close = '}';
    return mt_node_without(parser, line, values);
}

/* Relations with separators between; one alone is itself. */
static struct mt_math_node *list_of(struct mt_math_parser *parser)
{
    struct mt_math_node *node = mt_parse_relation(parser);
    enum separator between = parser->failed ? NO_SEPARATOR : take_separator(parser);
    if (parser->failed) return NULL;
    bool two =
        node->kind == MT_MATH_RELATION && node->relations[0] == 'n' && node->last->kind == MT_MATH_EITHER;
    if (between == NO_SEPARATOR)
        return two ? without_values(parser, mt_node_wrap(parser, MT_MATH_GROUP, node)) : node;
    struct mt_math_node *parts = mt_node_new(parser, MT_MATH_GROUP);
    struct mt_math_node *part = mt_node_wrap(parser, MT_MATH_GROUP, node);
    bool choice = false;
    while (!parser->failed && between != NO_SEPARATOR) {
        choice = choice || between == SEPARATOR_OR;
        if (between > SEPARATOR_AND) {
            mt_node_adopt(parts, part);
            part = mt_node_new(parser, MT_MATH_GROUP);
        }
        mt_node_adopt(part, mt_parse_relation(parser));
        between = parser->failed ? NO_SEPARATOR : take_separator(parser);
    }
    mt_node_adopt(parts, part);
    if (parser->failed) return NULL;
    if (are_solutions(parts)) return parts;
    struct mt_math_node *list = mt_node_new(parser, MT_MATH_GROUP);
    if (list == NULL) return NULL;
    list->flag = choice;
    for (part = parts->first; part != NULL; part = part->next) {
        struct mt_math_node *next = NULL;
        for (struct mt_math_node *child = part->first; child != NULL; child = next) {
            next = child->next;
            child->next = NULL;
            mt_node_adopt(list, child);
        }
    }
    return without_values(parser, list);
}

struct mt_math_node *mt_parse_list(struct mt_math_parser *parser)
{
    struct mt_math_node *list = list_of(parser);
    return parser->failed ? NULL : without_element(list);
}

struct mt_math_node *mt_parse_such_that(struct mt_math_parser *parser, struct mt_math_node *chosen)
{
    struct mt_math_node *list = list_of(parser);
    if (parser->failed) return NULL;
    // {k\pi | k \in Z} is k\pi for whole k; of {x | x > 3} the condition says all.
    if (!is_element(list) || chosen == NULL || chosen->kind == MT_MATH_SYMBOL) return without_element(list);
    struct mt_math_node *both = mt_node_pair(parser, MT_MATH_GROUP, chosen, list);
    return parser->failed ? NULL : without_element(both);
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
