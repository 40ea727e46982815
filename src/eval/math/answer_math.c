/* Comparing mathematical answers as texts: equal as they stand, by their trees, by their letters. Which
 * comparison two trees need. */
#define _GNU_SOURCE // memrchr
#include "eval/math/answer_math.h"

#include <ctype.h>
#include <string.h>

#include "eval/math/compare.h"
#include "eval/math/nodes.h"
#include "eval/text.h"

#define ARENA_BYTES 65536
#define MOST_DEPTH  100

// ------------------------------------------------------------------ trees

static bool same_groups(struct mt_math_comparison *all, const struct mt_math_node *a,
                        const struct mt_math_node *b)
{
    bool set = a->open == '{' || b->open == '{';
    if (set && (mt_math_is_bare(a) || mt_math_is_bare(b))) return mt_math_same_unordered(all, a, b);
    return !set && mt_math_same_ordered(all, a, b);
}

/* Of i, j and k one is 1 and the others are 0. */
static void set_units(struct mt_math_comparison *all, struct mt_math_node *node, int64_t unit)
{
    if (node->kind == MT_MATH_SYMBOL && node->symbol >= 'i' && node->symbol <= 'k') {
        node->kind = MT_MATH_NUMBER;
        node->number = mt_rational_make(&all->point.numbers, node->symbol == unit ? 1 : 0, 1);
    }
    for (struct mt_math_node *child = node->first; child != NULL; child = child->next)
        set_units(all, child, unit);
}

/* A column or a tuple against 3i - 2j + k. */
static bool same_vector(struct mt_math_comparison *all, const struct mt_math_node *tuple,
                        const struct mt_math_node *sum)
{
    int64_t unit = 'i';
    bool units =
        mt_math_has_symbol(sum, 'j') || (mt_math_has_symbol(sum, 'i') && mt_math_has_symbol(sum, 'k'));
    if (tuple->kind != MT_MATH_GROUP || tuple->open != '(' || tuple->close != ')') return false;
    if (tuple->count < 2 || tuple->count > 3 || sum->kind != MT_MATH_SUM || !units) return false;
    if (tuple->count == 2 && mt_math_has_symbol(sum, 'k')) return false;
    for (const struct mt_math_node *child = tuple->first; child != NULL; child = child->next) {
        struct mt_math_node *part = mt_math_copied(all, sum);
        if (part == NULL || !mt_math_begin(all)) return false;
        set_units(all, part, unit++);
        if (!mt_math_same_answer(all, part, child)) return false;
    }
    return true;
}

static bool same_by_kind(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b)
{
    bool same = false;
    bool groups = a->kind == MT_MATH_GROUP && b->kind == MT_MATH_GROUP;
    bool unordered = mt_math_is_unordered(a) || mt_math_is_unordered(b);
    if (!groups && (same_vector(all, a, b) || same_vector(all, b, a))) return true;
    if (a->kind == MT_MATH_RELATION || b->kind == MT_MATH_RELATION) {
        bool list = mt_math_is_bare(a) || mt_math_is_bare(b);
        if (!list) return mt_math_same_with_relation(all, a, b);
        return (mt_math_compare_sets(all, a, b, &same) && same) || mt_math_same_unordered(all, a, b);
    }
    if (mt_math_is_bare(a) != mt_math_is_bare(b) && mt_math_compare_sets(all, a, b, &same) && same)
        return true;
    if (groups && !(mt_math_is_unordered(a) && mt_math_is_unordered(b))) return same_groups(all, a, b);
    return unordered ? mt_math_same_unordered(all, a, b) : mt_math_same_single(all, a, b, 1, 1);
}

bool mt_math_same_answer(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b)
{
    bool same = false;
    if (a == NULL || b == NULL || mt_math_is_broken(all) || all->depth > MOST_DEPTH) return false;
    all->depth++;
    if (!mt_math_compare_named(all, a, b, &same)) same = same_by_kind(all, a, b);
    all->depth--;
    return same;
}

bool mt_math_same_children(struct mt_math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b)
{
    const struct mt_math_node *other = b->first;
    for (const struct mt_math_node *child = a->first; child != NULL; child = child->next) {
        if (!mt_math_same_answer(all, child, other)) return false;
        other = other->next;
    }
    return true;
}

struct mt_math_node *mt_math_copied(struct mt_math_comparison *all, const struct mt_math_node *node)
{
    struct mt_numbers *numbers = &all->point.numbers;
    struct mt_math_node *copy = mt_arena_array(numbers->arena, 1, sizeof *copy, &numbers->status);
    if (copy == NULL) return NULL;
    *copy = *node;
    copy->first = copy->last = copy->next = NULL;
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        struct mt_math_node *part = mt_math_copied(all, child);
        if (part == NULL) return NULL;
        if (copy->last != NULL) copy->last->next = part;
        if (copy->first == NULL) copy->first = part;
        copy->last = part;
    }
    return copy;
}

struct mt_math_node *mt_math_renamed(struct mt_math_comparison *all, const struct mt_math_node *node,
                                     int64_t from, int64_t to)
{
    struct mt_math_node *copy = mt_math_copied(all, node);
    if (copy != NULL) mt_node_rename(copy, from, to);
    return copy;
}

bool mt_math_has_symbol(const struct mt_math_node *node, int64_t symbol)
{
    bool found = node->kind == MT_MATH_SYMBOL && node->symbol == symbol;
    for (const struct mt_math_node *child = node->first; child != NULL && !found; child = child->next)
        found = mt_math_has_symbol(child, symbol);
    return found;
}

// ------------------------------------------------------------------ texts

/* Appends the text without white space, but where it keeps two words or numbers apart. */
static enum mt_status close_up(struct mt_text text, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < text.bytes && status == MT_OK; i++) {
        bool apart = out->count > 0 && i + 1 < text.bytes && isalnum(out->data[out->count - 1]) != 0 &&
                     isalnum((unsigned char)text.text[i + 1]) != 0;
        if (text.text[i] != ' ' || apart) status = mt_byte_list_append(out, text.text + i, 1);
    }
    return status;
}

static bool same_texts(struct mt_math_comparison *all, struct mt_text a, struct mt_text b)
{
    struct mt_byte_list one = {.ctx = all->ctx};
    struct mt_byte_list other = {.ctx = all->ctx};
    enum mt_status status = close_up(a, &one);
    if (status == MT_OK) status = close_up(b, &other);
    if (status != MT_OK) all->point.numbers.status = status;
    bool same = status == MT_OK && one.count > 0 && mt_text_same(mt_text_in(&one), mt_text_in(&other));
    mt_byte_list_free(&one);
    mt_byte_list_free(&other);
    return same;
}

// ------------------------------------------------------------------ arbitrary constants

#define MOST_CONSTANTS 4

/* The symbols of a tree that another has not, as they come; *shared: it has a variable that both have. False:
 * one of them does not stand for constants, or there are many. */
static bool own_constants(const struct mt_math_node *node, const struct mt_math_node *other,
                          int64_t own[MOST_CONSTANTS], int *count, bool *shared)
{
    if (node->kind == MT_MATH_SYMBOL && mt_math_has_symbol(other, node->symbol)) {
        *shared = *shared || (node->symbol >= 'a' && node->symbol <= 'z' && node->symbol != MT_SYMBOL_E);
    } else if (node->kind == MT_MATH_SYMBOL) {
        bool known = false;
        for (int i = 0; i < *count; i++) known = known || own[i] == node->symbol;
        if (!known && (*count == MOST_CONSTANTS || strchr("cCkKABD", (char)(node->symbol % 1000)) == NULL))
            return false;
        if (!known) own[(*count)++] = node->symbol;
    }
    for (const struct mt_math_node *child = node->first; child != NULL; child = child->next) {
        if (!own_constants(child, other, own, count, shared)) return false;
    }
    return true;
}

/* Ce^x and Ae^x: the same but for the names of constants. */
static bool same_but_constants(struct mt_math_comparison *all, const struct mt_math_node *a,
                               const struct mt_math_node *b)
{
    int64_t left[MOST_CONSTANTS];
    int64_t right[MOST_CONSTANTS];
    int counts[2] = {0};
    bool shared[2] = {false};
    if (!own_constants(a, b, left, &counts[0], &shared[0]) ||
        !own_constants(b, a, right, &counts[1], &shared[1]) || counts[0] != counts[1] || counts[0] == 0)
        return false;
    for (int i = 0; i < counts[0] && b != NULL; i++) b = mt_math_renamed(all, b, right[i], left[i]);
    return shared[0] && b != NULL && mt_math_same_answer(all, a, b);
}

/* "2n-1" and "2n-1, n \\in N": what stands for whole numbers may be said on one side only. */
static bool same_but_parameter(struct mt_math_comparison *all, const struct mt_math_node *a,
                               const struct mt_math_node *b)
{
    static const char letters[] = "nkm";
    static const int64_t names[] = {MT_SYMBOL_WHOLE, MT_SYMBOL_NATURAL};
    for (size_t i = 0; i < 2; i++) {
        bool said = mt_math_has_symbol(a, names[i]);
        bool both = mt_math_has_symbol(a, names[0]) + mt_math_has_symbol(a, names[1]) +
                        mt_math_has_symbol(b, names[0]) + mt_math_has_symbol(b, names[1]) >
                    1;
        if (both || said == mt_math_has_symbol(b, names[i])) continue;
        const struct mt_math_node *silent = said ? b : a;
        for (const char *letter = letters; *letter != '\0'; letter++) {
            if (!mt_math_has_symbol(silent, *letter) || mt_math_has_symbol(said ? a : b, *letter)) continue;
            const struct mt_math_node *renamed = mt_math_renamed(all, said ? a : b, names[i], *letter);
            if (renamed != NULL && mt_math_same_answer(all, renamed, silent)) return true;
        }
    }
    return false;
}

/* The trees, or where there is none the letters. */
static bool same_parts(struct mt_math_comparison *all, struct mt_text a, struct mt_text b)
{
    struct mt_math_node *left = NULL;
    struct mt_math_node *right = NULL;
    struct mt_arena *arena = all->point.numbers.arena;
    enum mt_status status = mt_math_parse(arena, a.text, a.bytes, &left);
    if (status == MT_OK) status = mt_math_parse(arena, b.text, b.bytes, &right);
    if (status != MT_OK) all->point.numbers.status = status;
    if (mt_math_is_broken(all)) return false;
    if (left != NULL && right != NULL &&
        (mt_math_same_answer(all, left, right) || same_but_constants(all, left, right) ||
         same_but_parameter(all, left, right)))
        return true;
    bool letters = left == NULL || right == NULL || left->kind == MT_MATH_TEXT || right->kind == MT_MATH_TEXT;
    if (letters && !mt_math_is_broken(all) && mt_math_same_letters(all, a.text, a.bytes, b.text, b.bytes))
        return true;
    // "\angle ABC = 30": what is no mathematics may be a name for what is.
    for (int turn = 0; turn < 2 && !mt_math_is_broken(all); turn++) {
        struct mt_text named = turn == 0 ? a : b;
        struct mt_text plain = turn == 0 ? b : a;
        if ((turn == 0 ? left : right) != NULL) continue;
        const char *equals = named.bytes > 0 ? memrchr(named.text, '=', named.bytes) : NULL;
        if (equals == NULL || (plain.bytes > 0 && memchr(plain.text, '=', plain.bytes) != NULL)) continue;
        struct mt_text value = {equals + 1, named.bytes - (size_t)(equals + 1 - named.text)};
        if (same_parts(all, turn == 0 ? value : plain, turn == 0 ? plain : value)) return true;
    }
    return false;
}

// ------------------------------------------------------------------ other readings

static bool has_text(struct mt_text text, const char *what)
{
    return mt_text_find(text, 0, what) < text.bytes;
}

/* Behind the last place of `what`; all of it: there is none. */
static struct mt_text behind_last(struct mt_text text, const char *what)
{
    for (size_t at = mt_text_find(text, 0, what); at < text.bytes; at = mt_text_find(text, 0, what))
        text = mt_text_from(text, at + strlen(what));
    return text;
}

/* "3 (mod 7)" and "x \equiv 10 (mod 7)" name a class: without a name it gets the other's, or x. */
static bool same_classes(struct mt_math_comparison *all, struct mt_text a, struct mt_text b)
{
    static const char sign[] = "\\equiv";
    struct mt_byte_list texts[2] = {{.ctx = all->ctx}, {.ctx = all->ctx}};
    const struct mt_text sides[2] = {a, b};
    enum mt_status status = MT_OK;
    for (int i = 0; i < 2 && status == MT_OK; i++) {
        struct mt_text other = sides[1 - i];
        size_t named = mt_text_find(other, 0, sign);
        struct mt_text name = named < other.bytes ? (struct mt_text){other.text, named} : mt_text_of("x");
        if (!has_text(sides[i], sign)) {
            status = mt_byte_list_append(&texts[i], name.text, name.bytes);
            if (status == MT_OK) status = mt_byte_list_append_text(&texts[i], "\\equiv ");
        }
        if (status == MT_OK) status = mt_byte_list_append(&texts[i], sides[i].text, sides[i].bytes);
    }
    if (status != MT_OK) all->point.numbers.status = status;
    bool same = status == MT_OK && same_parts(all, mt_text_in(&texts[0]), mt_text_in(&texts[1]));
    mt_byte_list_free(&texts[0]);
    mt_byte_list_free(&texts[1]);
    return same;
}

/* Appends the text with n over k for C(n, k). */
static enum mt_status spell_choice(struct mt_text text, struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    int open = 0; // brackets behind C, 0: outside
    for (size_t at = 0; at < text.bytes && status == MT_OK; at++) {
        if (open == 0 && mt_text_has(text, at, "C(")) {
            open = 1;
            at++;
            status = mt_byte_list_append_text(out, "\\binom{");
            continue;
        }
        bool inside = open > 0;
        if (inside) open += (text.text[at] == '(' ? 1 : 0) - (text.text[at] == ')' ? 1 : 0);
        const char *becomes = inside && open == 0 ? "}" : (open == 1 && text.text[at] == ',' ? "}{" : NULL);
        status = becomes != NULL ? mt_byte_list_append_text(out, becomes)
                                 : mt_byte_list_append(out, text.text + at, 1);
    }
    return status;
}

/* Where one side has what the other has not: a deduction, C(n, k). */
static bool same_otherwise(struct mt_math_comparison *all, struct mt_text a, struct mt_text b)
{
    static const char implies[] = "\\implies ";
    for (int turn = 0; turn < 2 && !mt_math_is_broken(all); turn++) {
        struct mt_text one = turn == 0 ? a : b;
        struct mt_text other = turn == 0 ? b : a;
        if (has_text(one, implies) && !has_text(other, implies) &&
            same_parts(all, behind_last(one, implies), other))
            return true;
        size_t choice = mt_text_find(one, 0, "C(") + 2; // of numbers it may be a point
        if (choice >= one.bytes || !isalpha((unsigned char)one.text[choice]) || has_text(other, "C"))
            continue;
        struct mt_byte_list spelled = {.ctx = all->ctx};
        enum mt_status status = spell_choice(one, &spelled);
        if (status != MT_OK) all->point.numbers.status = status;
        bool same = status == MT_OK && same_parts(all, mt_text_in(&spelled), other);
        mt_byte_list_free(&spelled);
        if (same) return true;
    }
    return false;
}

static bool same_read(struct mt_math_comparison *all, struct mt_text a, struct mt_text b)
{
    if (has_text(a, "mod") && has_text(b, "mod") && !has_text(a, "=") && !has_text(b, "="))
        return same_classes(all, a, b);
    return same_parts(all, a, b) || (!mt_math_is_broken(all) && same_otherwise(all, a, b));
}

// ------------------------------------------------------------------ times of day

struct time_of_day {
    int hour, minute;
    char half; // a: before noon, p: after; 0: not said
};

/* "3:45 p.m.", folded. False: no time. */
static bool read_time(struct mt_text text, struct time_of_day *time)
{
    size_t at = 0;
    int parts[2] = {0};
    for (int i = 0; i < 2; i++) {
        size_t start = at;
        for (; at < text.bytes && isdigit((unsigned char)text.text[at]) && at < start + 2; at++)
            parts[i] = 10 * parts[i] + (text.text[at] - '0');
        if (at == start || (i == 1 && at != start + 2)) return false;
        if (i == 0 && at == text.bytes) return false;
        if (i == 0 && text.text[at] != ':') break; // "6 p.m."
        at += i == 0 ? 1 : 0;
    }
    if (parts[0] > 24 || parts[1] > 59) return false;
    *time = (struct time_of_day){.hour = parts[0], .minute = parts[1]};
    char half[2] = {0};
    size_t letters = 0;
    for (; at < text.bytes; at++) {
        if (text.text[at] == '.') continue;
        if (letters == 2) return false;
        half[letters++] = text.text[at];
    }
    if (letters == 0 && memchr(text.text, ':', text.bytes) == NULL) return false;
    if (letters > 0 && ((half[0] != 'a' && half[0] != 'p') || half[1] != 'm')) return false;
    time->half = half[0];
    return true;
}

static int minutes_of(const struct time_of_day *time)
{
    int hour = time->half != '\0' ? time->hour % 12 + (time->half == 'p' ? 12 : 0) : time->hour;
    return hour * 60 + time->minute;
}

/* Times of day, where one at least says which half: the other may be of 24 hours, or leave it off. False: no
 * such times. */
static bool compare_times(struct mt_math_comparison *all, struct mt_text a, struct mt_text b, bool *same)
{
    struct mt_byte_list one = {.ctx = all->ctx};
    struct mt_byte_list other = {.ctx = all->ctx};
    struct time_of_day left;
    struct time_of_day right;
    enum mt_status status = mt_math_fold(a.text, a.bytes, &one);
    if (status == MT_OK) status = mt_math_fold(b.text, b.bytes, &other);
    if (status != MT_OK) all->point.numbers.status = status;
    bool times =
        status == MT_OK && read_time(mt_text_in(&one), &left) && read_time(mt_text_in(&other), &right);
    mt_byte_list_free(&one);
    mt_byte_list_free(&other);
    if (!times || (left.half == '\0' && right.half == '\0')) return false;
    bool left_off = left.half == '\0' || right.half == '\0';
    *same = minutes_of(&left) == minutes_of(&right) ||
            (left_off && left.hour == right.hour && left.minute == right.minute);
    return true;
}

// ------------------------------------------------------------------ a choice and its text

/* "(C) 36": the letter, and the bytes behind it that say the same in other words. */
struct choice {
    char letter; // 0: none
    bool small;  // in lower case: only a choice where the other side is one
    struct mt_text rest;
};

/* What only sets letters: braces, \text, white space. Braces are counted. */
static size_t skip_wrapping(struct mt_text text, size_t at, int *open)
{
    bool more = true;
    while (more && at < text.bytes) {
        bool face = text.bytes - at >= 5 && memcmp(text.text + at, "\\text", 5) == 0;
        more = face || strchr(" {}", text.text[at]) != NULL;
        if (text.text[at] == '{') (*open)++;
        if (text.text[at] == '}') (*open)--;
        if (more) at += face ? 5 : 1;
    }
    return at;
}

static struct choice read_choice(struct mt_text text)
{
    struct choice none = {.letter = '\0', .rest = text};
    int open = 0;
    size_t at = skip_wrapping(text, 0, &open);
    static const char *const nouns[] = {"Option ", "option ", "Choice ",   "choice ",
                                        "Answer ", "Graph ",  "Statement "};
    for (size_t i = 0; i < sizeof nouns / sizeof nouns[0]; i++) {
        if (mt_text_has(text, at, nouns[i])) at = skip_wrapping(text, at + strlen(nouns[i]), &open);
    }
    bool bracket = at < text.bytes && text.text[at] == '(';
    if (bracket) at = skip_wrapping(text, at + 1, &open);
    if (at >= text.bytes) return none;
    char letter = (char)toupper((unsigned char)text.text[at]);
    if (letter < 'A' || letter > 'J') return none;
    none.small = islower((unsigned char)text.text[at]) != 0;
    at = skip_wrapping(text, at + 1, &open);
    if (at == text.bytes && !bracket)
        return (struct choice){.letter = letter, .small = none.small, .rest = {text.text, 0}};
    if (at == text.bytes || strchr(bracket ? ")" : ").:", text.text[at]) == NULL) return none;
    at = skip_wrapping(text, at + 1, &open);
    if (mt_text_has(text, at, ",") || mt_text_has(text, at, "and ") || mt_text_has(text, at, "or "))
        return none; // "(A), (C)" are two
    size_t end = text.bytes;
    while (open > 0 && end > at && text.text[end - 1] == '}') {
        end--;
        open--;
    }
    return (struct choice){.letter = letter, .small = none.small, .rest = {text.text + at, end - at}};
}

/* A choice's letter, its text, or both, against any of these. */
static bool same_choices(struct mt_math_comparison *all, struct mt_text a, struct mt_text b)
{
    struct choice one = read_choice(a);
    struct choice other = read_choice(b);
    if (one.small && (other.letter == '\0' || other.small || other.rest.bytes == 0)) one.letter = '\0';
    if (other.small && (one.letter == '\0' || one.small || one.rest.bytes == 0)) other.letter = '\0';
    if (one.letter == '\0' && other.letter == '\0') return false;
    if (one.letter == '\0') one.rest = a;
    if (other.letter == '\0') other.rest = b;
    if (one.letter != '\0' && other.letter != '\0') {
        if (one.letter != other.letter) return false;
        if (one.rest.bytes == 0 || other.rest.bytes == 0) return true;
    }
    return one.rest.bytes > 0 && other.rest.bytes > 0 && same_parts(all, one.rest, other.rest);
}

/* The point P(1, 2) against (1, 2): without its name. */
static struct mt_text without_point(struct mt_text text, struct mt_text other)
{
    size_t bracket = 1;
    int open = 0;
    bool comma = false;
    if (text.bytes < 3 || !isupper((unsigned char)text.text[0]) || strchr("NU", text.text[0]) != NULL)
        return text;
    if (other.bytes == 0 || other.text[0] != '(') return text;
    while (bracket < text.bytes && text.text[bracket] == ' ') bracket++;
    if (bracket == text.bytes || text.text[bracket] != '(') return text;
    for (size_t i = bracket; i < text.bytes; i++) {
        open += (strchr("([{", text.text[i]) != NULL ? 1 : 0) - (strchr(")]}", text.text[i]) != NULL ? 1 : 0);
        comma = comma || (open == 1 && text.text[i] == ',');
        if (open == 0 && i + 1 < text.bytes) return text;
    }
    return open == 0 && comma ? mt_text_from(text, bracket) : text;
}

enum mt_status mt_math_compare(struct mt_context *ctx, const char *one, size_t one_bytes, const char *other,
                               size_t other_bytes, bool *equal)
{
    struct mt_arena arena;
    struct mt_math_comparison all = {.ctx = ctx, .point = {.numbers = {.arena = &arena}}};
    struct mt_byte_list left = {.ctx = ctx};
    struct mt_byte_list right = {.ctx = ctx};
    mt_arena_init(&arena, ctx, ARENA_BYTES);
    *equal = false;
    enum mt_status status = mt_math_clean(one, one_bytes, &left);
    if (status == MT_OK) status = mt_math_clean(other, other_bytes, &right);
    if (status == MT_OK) {
        struct mt_text first = mt_text_in(&left);
        struct mt_text second = mt_text_in(&right);
        struct mt_text a = without_point(first, second);
        struct mt_text b = without_point(second, first);
        *equal = same_texts(&all, a, b);
        if (!*equal && !compare_times(&all, a, b, equal)) *equal = same_read(&all, a, b);
        if (!*equal && !mt_math_is_broken(&all)) *equal = same_choices(&all, a, b);
        status = all.point.numbers.status;
    }
    mt_byte_list_free(&left);
    mt_byte_list_free(&right);
    mt_arena_free(&arena);
    return status;
}
