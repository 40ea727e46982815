/* Single values: at points, else by structure. */
#include <string.h>
#include <strings.h>

#include "eval/math/compare.h"
#include "eval/math/units.h"
#include "eval/math/value.h"

#define MOST_WORK ((int64_t)1 << 26) // of one comparison

bool mt_math_same_letters(struct mt_math_comparison *all, const char *a, size_t a_bytes, const char *b,
                          size_t b_bytes)
{
    struct mt_byte_list one = {.ctx = all->ctx};
    struct mt_byte_list other = {.ctx = all->ctx};
    enum mt_status status = mt_math_fold(a, a_bytes, &one);
    if (status == MT_OK) status = mt_math_fold(b, b_bytes, &other);
    if (status != MT_OK) all->point.numbers.status = status;
    bool same = status == MT_OK && one.count > 0 && one.count == other.count &&
                memcmp(one.data, other.data, one.count) == 0;
    mt_byte_list_free(&one);
    mt_byte_list_free(&other);
    return same;
}

bool mt_math_begin(struct mt_math_comparison *all)
{
    struct mt_numbers *numbers = &all->point.numbers;
    all->spent += numbers->work;
    numbers->work = 0;
    numbers->failed = numbers->status != MT_OK || all->spent > MOST_WORK;
    return !numbers->failed;
}

bool mt_math_same_tree(const struct mt_math_node *a, const struct mt_math_node *b)
{
    if (a == NULL || b == NULL) return a == b;
    bool text = a->text == b->text || (a->text != NULL && b->text != NULL && strcmp(a->text, b->text) == 0);
    if (!text || a->kind != b->kind || a->flag != b->flag || a->symbol != b->symbol || a->call != b->call ||
        a->open != b->open || a->close != b->close || a->count != b->count ||
        memcmp(a->relations, b->relations, sizeof a->relations) != 0)
        return false;
    if (a->kind == MT_MATH_NUMBER && !mt_rational_equal(&a->number, &b->number)) return false;
    const struct mt_math_node *other = b->first;
    for (const struct mt_math_node *child = a->first; child != NULL; child = child->next) {
        if (!mt_math_same_tree(child, other)) return false;
        other = other->next;
    }
    return true;
}

static bool has_size(const struct mt_math_node *node)
{
    bool found = node->kind == MT_MATH_CALL && node->call == MT_CALL_ABS;
    for (const struct mt_math_node *child = node->first; child != NULL && !found; child = child->next)
        found = has_size(child);
    return found;
}

enum agreement {
    NOT_KNOWN, // too few points where both have a value
    SAME,
    DIFFERENT,
};

/* Values at points: all must agree. `real`: where one leaves the real numbers does not count. */
static enum agreement agreement_of(struct mt_math_comparison *all, const struct mt_math_node *a,
                                   const struct mt_math_node *b, int a_sign, int b_sign, bool real)
{
    bool varies = mt_math_varies(a) || mt_math_varies(b);
    struct mt_math_point *point = &all->point;
    int compared = 0;
    point->real = real;
    for (point->index = 0; point->index < (varies ? MT_MATH_POINTS : 1); point->index++) {
        struct mt_value one;
        struct mt_value other;
        point->sign = a_sign;
        bool first = mt_math_begin(all) && mt_math_value_at(point, a, &one);
        point->sign = b_sign;
        bool second = mt_math_begin(all) && mt_math_value_at(point, b, &other);
        if (first != second && !real) return NOT_KNOWN;
        if (!first || !second) continue;
        bool same = mt_value_same(&point->numbers, &one, &other);
        if (!same && !point->numbers.failed) return DIFFERENT;
        compared += same ? 1 : 0;
    }
    return compared >= (varies ? 2 : 1) ? SAME : NOT_KNOWN;
}

/* The same node over parts that are the same answers. */
static bool same_structure(struct mt_math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b)
{
    if (mt_math_same_tree(a, b)) return true;
    if (a->kind != b->kind || a->call != b->call || a->flag != b->flag || a->count != b->count ||
        a->count == 0 || a->kind == MT_MATH_GROUP || a->kind == MT_MATH_RELATION || a->kind == MT_MATH_UNIT)
        return false;
    return mt_math_same_children(all, a, b);
}

/* ln(xy) is ln x + ln y where these are real, and that decides where there are such points; but ln|x| is not
 * ln x. What has no value, or too large a one, is the same where it is written the same. */
static bool same_value(struct mt_math_comparison *all, const struct mt_math_node *a,
                       const struct mt_math_node *b, int a_sign, int b_sign)
{
    enum agreement agreement = NOT_KNOWN;
    if (!has_size(a) && !has_size(b)) agreement = agreement_of(all, a, b, a_sign, b_sign, true);
    if (agreement == NOT_KNOWN) agreement = agreement_of(all, a, b, a_sign, b_sign, false);
    if (mt_math_is_broken(all)) return false;
    return agreement == SAME || (agreement == NOT_KNOWN && a_sign == b_sign && same_structure(all, a, b));
}

// ------------------------------------------------------------------ what stands around a value

struct peeled {
    const struct mt_math_node *value;
    struct mt_unit unit;
    bool percent;
    bool degree;
    bool negative; // -(5 cm) is (-5) cm; the sign is put back with the scale
};

static bool is_around(const struct mt_math_node *node)
{
    return (node->kind == MT_MATH_UNIT || node->kind == MT_MATH_PERCENT || node->kind == MT_MATH_DEGREE) &&
           node->count == 1;
}

static struct peeled peel(struct mt_numbers *numbers, const struct mt_math_node *node)
{
    struct peeled result = {.value = node};
    result.unit.scale = result.unit.factor = mt_rational_make(numbers, 1, 1);
    bool more = true;
    while (more) {
        const struct mt_math_node *value = result.value;
        bool negative = value->kind == MT_MATH_NEGATIVE && value->count == 1 && is_around(value->first);
        if (value->kind == MT_MATH_UNIT && value->count == 1)
            mt_unit_read(numbers, value->text, &result.unit);
        result.percent = result.percent || value->kind == MT_MATH_PERCENT;
        result.degree = result.degree || value->kind == MT_MATH_DEGREE;
        result.negative = result.negative != negative;
        more = negative || is_around(value);
        if (more) result.value = value->first;
    }
    return result;
}

/* What a peeled value is multiplied with; the nodes are the caller's. */
struct scaled {
    struct mt_math_node product, number, value;
};

static const struct mt_math_node *scaled_value(struct mt_numbers *numbers, const struct peeled *peeled,
                                               bool units, struct scaled *made)
{
    struct mt_rational scale = peeled->unit.factor;
    struct mt_rational one = mt_rational_make(numbers, 1, 1);
    if (units) scale = mt_rational_multiply(numbers, scale, peeled->unit.scale);
    if (peeled->negative) scale = mt_rational_multiply(numbers, scale, mt_rational_make(numbers, -1, 1));
    if (mt_rational_equal(&scale, &one)) return peeled->value;
    // Reading never changes a tree: the copy of the old root borrows its children.
    made->value = *peeled->value;
    made->value.next = NULL;
    made->number = (struct mt_math_node){.kind = MT_MATH_NUMBER, .number = scale, .next = &made->value};
    made->product = (struct mt_math_node){
        .kind = MT_MATH_PRODUCT, .first = &made->number, .last = &made->value, .count = 2};
    return &made->product;
}

/* "The function is even", "an ellipse": the words that answer. */
static const char *core_of(const char *text)
{
    static const char *const articles[] = {"a ", "an ", "the ", "all "};
    if (strpbrk(text, "0123456789") != NULL) return text; // its words are not the answer
    const char *is = strstr(text, " is ");
    while (is != NULL) {
        text = is + 4;
        is = strstr(text, " is ");
    }
    for (size_t i = 0; i < sizeof articles / sizeof articles[0]; i++) {
        if (strncasecmp(text, articles[i], strlen(articles[i])) == 0) return text + strlen(articles[i]);
    }
    return text;
}

static bool is_infinite(const struct mt_math_node *node)
{
    return node->kind == MT_MATH_INFINITY ||
           (node->kind == MT_MATH_NEGATIVE && node->first->kind == MT_MATH_INFINITY);
}

static bool is_radian(const struct mt_unit *unit)
{
    return unit->count == 1 && strcmp(unit->parts[0].name, "radian") == 0;
}

bool mt_math_same_single(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b, int a_sign, int b_sign)
{
    struct mt_numbers *numbers = &all->point.numbers;
    struct scaled scaled_a;
    struct scaled scaled_b;
    if (!mt_math_begin(all)) return !mt_math_is_broken(all) && mt_math_same_tree(a, b);
    struct peeled one = peel(numbers, a);
    struct peeled other = peel(numbers, b);
    if (numbers->failed || !mt_unit_same(&one.unit, &other.unit)) return false;
    if (one.degree != other.degree && is_radian(one.degree ? &other.unit : &one.unit))
        return same_value(all, a, b, a_sign, b_sign);
    bool sign_a = one.percent || one.degree;
    bool sign_b = other.percent || other.degree;
    if ((sign_a && !sign_b && other.unit.count > 0) || (sign_b && !sign_a && one.unit.count > 0))
        return false;
    bool units = one.unit.count > 0 && other.unit.count > 0;
    const struct mt_math_node *left = scaled_value(numbers, &one, units, &scaled_a);
    const struct mt_math_node *right = scaled_value(numbers, &other, units, &scaled_b);
    if (numbers->failed) return false;
    if (left->kind == MT_MATH_TEXT && right->kind == MT_MATH_TEXT) {
        const char *said = core_of(left->text);
        const char *right_words = core_of(right->text);
        return mt_math_same_letters(all, said, strlen(said), right_words, strlen(right_words));
    }
    if (is_infinite(left) || is_infinite(right))
        return left->kind == right->kind && is_infinite(left) == is_infinite(right);
    if (same_value(all, left, right, a_sign, b_sign)) return true;
    // 50% is 50 to some and 0.5 to others, 180° may be π: where only one side has the sign, both will do.
    bool sign_differs = one.percent != other.percent || one.degree != other.degree;
    return sign_differs && !mt_math_is_broken(all) && same_value(all, a, b, a_sign, b_sign);
}
