/* Making nodes. */
#define _GNU_SOURCE // memmem
#include "eval/math/nodes.h"

#include <string.h>
#include <strings.h>

#include "eval/math/value.h"

#define MOST_NODES 2000
#define MOST_HOLES 8 // in the real numbers

struct mt_math_node *mt_node_new(struct mt_math_parser *parser, enum mt_math_kind kind)
{
    enum mt_status status = MT_OK;
    parser->nodes++;
    if (parser->nodes > MOST_NODES) parser->failed = true;
    struct mt_math_node *node = mt_arena_array(parser->numbers.arena, 1, sizeof *node, &status);
    if (status != MT_OK) {
        parser->numbers.status = status;
        parser->failed = true;
        return NULL;
    }
    node->kind = kind;
    return node;
}

void mt_node_adopt(struct mt_math_node *parent, struct mt_math_node *child)
{
    if (parent == NULL || child == NULL) return;
    if (parent->last != NULL) parent->last->next = child;
    if (parent->first == NULL) parent->first = child;
    parent->last = child;
    parent->count++;
}

struct mt_math_node *mt_node_fail(struct mt_math_parser *parser)
{
    parser->failed = true;
    return NULL;
}

struct mt_math_node *mt_node_wrap(struct mt_math_parser *parser, enum mt_math_kind kind,
                                  struct mt_math_node *child)
{
    struct mt_math_node *node = mt_node_new(parser, kind);
    mt_node_adopt(node, child);
    return node;
}

struct mt_math_node *mt_node_pair(struct mt_math_parser *parser, enum mt_math_kind kind,
                                  struct mt_math_node *one, struct mt_math_node *other)
{
    struct mt_math_node *node = mt_node_wrap(parser, kind, one);
    mt_node_adopt(node, other);
    return node;
}

struct mt_math_node *mt_node_named(struct mt_math_parser *parser, enum mt_math_kind kind, const char *text,
                                   size_t bytes, struct mt_math_node *child)
{
    struct mt_math_node *node = mt_node_wrap(parser, kind, child);
    const char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(parser->numbers.arena, text, bytes, &copy);
    if (status != MT_OK) parser->numbers.status = status;
    if (status != MT_OK || node == NULL) return mt_node_fail(parser);
    node->text = copy;
    return node;
}

void mt_node_rename(struct mt_math_node *node, int64_t from, int64_t to)
{
    if (node->kind == MT_MATH_SYMBOL && node->symbol == from) node->symbol = to;
    for (struct mt_math_node *child = node->first; child != NULL; child = child->next)
        mt_node_rename(child, from, to);
}

static struct mt_math_node *interval(struct mt_math_parser *parser, struct mt_math_node *low,
                                     struct mt_math_node *high)
{
    struct mt_math_node *group = mt_node_pair(parser, MT_MATH_GROUP, low, high);
    if (group == NULL) return mt_node_fail(parser);
    group->open = '(';
    group->close = ')';
    return group;
}

static bool is_phrase(const char *phrase, const char *text, size_t bytes)
{
    return strlen(phrase) == bytes && strncasecmp(phrase, text, bytes) == 0;
}

/* "forty-four", "one hundred and five", "two thousand". False: other words. */
static bool read_count(const char *text, size_t bytes, int64_t *value)
{
    static const struct {
        const char *word;
        int64_t value;
    } words[] = {{"zero", 0},     {"one", 1},        {"two", 2},         {"three", 3},
                 {"four", 4},     {"five", 5},       {"six", 6},         {"seven", 7},
                 {"eight", 8},    {"nine", 9},       {"ten", 10},        {"eleven", 11},
                 {"twelve", 12},  {"thirteen", 13},  {"fourteen", 14},   {"fifteen", 15},
                 {"sixteen", 16}, {"seventeen", 17}, {"eighteen", 18},   {"nineteen", 19},
                 {"twenty", 20},  {"thirty", 30},    {"forty", 40},      {"fifty", 50},
                 {"sixty", 60},   {"seventy", 70},   {"eighty", 80},     {"ninety", 90},
                 {"and", -1},     {"hundred", 100},  {"thousand", 1000}, {"million", 1000000}};
    const size_t count = sizeof words / sizeof words[0];
    int64_t total = 0;
    int64_t part = 0;
    size_t at = 0;
    bool any = false;
    while (at < bytes) {
        size_t length = 0;
        size_t i = 0;
        while (at + length < bytes && strchr(" -", text[at + length]) == NULL) length++;
        while (i < count && !is_phrase(words[i].word, text + at, length)) i++;
        if (i == count || total > 1000000000 || part > 1000000) return false;
        int64_t each = words[i].value;
        if (each == 100) part = (part == 0 ? 1 : part) * each;
        if (each >= 1000) {
            total += (part == 0 ? 1 : part) * each;
            part = 0;
        }
        if (each >= 0 && each < 100) part += each;
        any = any || each >= 0;
        at += length + 1;
    }
    *value = total + part;
    return any;
}

/* "one third", "three-quarters", "half". False: other words. */
static bool read_share(const char *text, size_t bytes, int64_t *count, int64_t *parts)
{
    static const struct {
        const char *word;
        int64_t parts;
    } words[] = {{"half", 2},   {"halves", 2},  {"third", 3},  {"thirds", 3}, {"quarter", 4}, {"quarters", 4},
                 {"fourth", 4}, {"fourths", 4}, {"fifth", 5},  {"fifths", 5}, {"sixth", 6},   {"sixths", 6},
                 {"eighth", 8}, {"eighths", 8}, {"tenth", 10}, {"tenths", 10}};
    size_t last = bytes;
    while (last > 0 && strchr(" -", text[last - 1]) == NULL) last--;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!is_phrase(words[i].word, text + last, bytes - last)) continue;
        *parts = words[i].parts;
        *count = 1;
        bool one = (last == 0 && i == 0) || (last == 2 && (text[0] == 'a' || text[0] == 'A'));
        if (one || last < 2 || memmem(text, last, "and", 3) != NULL) return one;
        return read_count(text, last - 1, count) &&
               (*count == 1) == (i % 2 == 0); // two thirds, not twenty-third
    }
    return false;
}

struct mt_math_node *mt_node_meant(struct mt_math_parser *parser, const char *text, size_t bytes)
{
    static const struct {
        const char *phrase;
        char open, close; // of what begins or ends at 0; both 0: all numbers
    } sets[] = {{"real numbers", 0, 0},
                {"reals", 0, 0},
                {"real", 0, 0},
                {"positive real numbers", '(', 0},
                {"positive reals", '(', 0},
                {"non-negative real numbers", '[', 0},
                {"nonnegative real numbers", '[', 0},
                {"nonnegative reals", '[', 0},
                {"negative real numbers", 0, ')'},
                {"negative reals", 0, ')'}};
    int64_t count = 0;
    size_t all = bytes > 4 && strncasecmp(text, "all ", 4) == 0 ? 4 : 0;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (!is_phrase(sets[i].phrase, text + all, bytes - all) || (all == 0 && i == 2)) continue;
        struct mt_math_node *zero = mt_node_new(parser, MT_MATH_NUMBER);
        struct mt_math_node *low =
            mt_node_wrap(parser, MT_MATH_NEGATIVE, mt_node_new(parser, MT_MATH_INFINITY));
        if (zero == NULL) return NULL;
        zero->number = mt_rational_make(&parser->numbers, 0, 1);
        struct mt_math_node *high = sets[i].close != 0 ? zero : mt_node_new(parser, MT_MATH_INFINITY);
        struct mt_math_node *group = interval(parser, sets[i].open != 0 ? zero : low, high);
        if (group != NULL && sets[i].open == '[') group->open = '[';
        return group;
    }
    int64_t parts = 1;
    if (read_count(text, bytes, &count) || read_share(text, bytes, &count, &parts)) {
        struct mt_math_node *number = mt_node_new(parser, MT_MATH_NUMBER);
        if (number != NULL) number->number = mt_rational_make(&parser->numbers, count, parts);
        return number;
    }
    return mt_node_named(parser, MT_MATH_TEXT, text, bytes, NULL);
}

struct mt_math_node *mt_node_copy(struct mt_math_parser *parser, const struct mt_math_node *node)
{
    struct mt_math_node *copy = mt_node_new(parser, node->kind);
    if (copy == NULL) return NULL;
    *copy = *node;
    copy->next = NULL;
    return copy;
}

static bool is_interval(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_GROUP && (node->open == '(' || node->open == '[') && node->count == 2;
}

/* An interval without another that lies in it. */
static struct mt_math_node *around(struct mt_math_parser *parser, const struct mt_math_node *from,
                                   const struct mt_math_node *hole)
{
    struct mt_math_node *first = mt_node_copy(parser, from->first);
    struct mt_math_node *second = mt_node_copy(parser, hole->first);
    struct mt_math_node *below = interval(parser, first, second);
    struct mt_math_node *third = mt_node_copy(parser, hole->last);
    struct mt_math_node *fourth = mt_node_copy(parser, from->last);
    struct mt_math_node *above = interval(parser, third, fourth);
    if (parser->failed) return NULL;
    below->open = from->open;
    below->close = hole->open == '[' ? ')' : ']';
    above->open = hole->close == ']' ? '(' : '[';
    above->close = from->close;
    return mt_node_pair(parser, MT_MATH_UNION, below, above);
}

struct mt_math_node *mt_node_without(struct mt_math_parser *parser, const struct mt_math_node *from,
                                     const struct mt_math_node *set)
{
    if (!is_interval(from)) return mt_node_fail(parser);
    if (is_interval(set)) return around(parser, from, set);
    if (set->kind != MT_MATH_GROUP || set->open != '{') return mt_node_fail(parser);
    const struct mt_math_node *points[MOST_HOLES];
    double at[MOST_HOLES];
    int count = 0;
    for (const struct mt_math_node *child = set->first; child != NULL; child = child->next) {
        double value = 0;
        struct mt_numbers *numbers = &parser->numbers;
        if (count == MOST_HOLES || !mt_math_number(numbers->arena, &numbers->status, child, &value))
            return mt_node_fail(parser);
        int place = count++;
        for (; place > 0 && at[place - 1] > value; place--) {
            at[place] = at[place - 1];
            points[place] = points[place - 1];
        }
        at[place] = value;
        points[place] = child;
    }
    struct mt_math_node *all = mt_node_new(parser, MT_MATH_UNION);
    struct mt_math_node *low = mt_node_copy(parser, from->first);
    for (int i = 0; i <= count && !parser->failed; i++) {
        struct mt_math_node *high = mt_node_copy(parser, i < count ? points[i] : from->last);
        struct mt_math_node *part = interval(parser, low, high);
        if (parser->failed) return NULL;
        if (i == 0) part->open = from->open;
        if (i == count) part->close = from->close;
        mt_node_adopt(all, part);
        if (i < count) low = mt_node_copy(parser, points[i]);
    }
    return all;
}
