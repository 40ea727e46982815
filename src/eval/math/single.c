/* Single values: exactly, else at exact points, else in double, else by structure. */
#include <string.h>
#include <strings.h>

#include "eval/math/compare.h"
#include "eval/math/units.h"
#include "eval/math/value.h"

#define MOST_WORK    ((int64_t)1 << 26) // of one comparison
#define EXACT_POINTS 3
#define SMALLEST     1e-250

static void weaken(struct mt_math_comparison *all, enum mt_math_verdict verdict)
{
    if (verdict < all->verdict) all->verdict = verdict;
}

bool mt_math_same_letters(struct mt_math_comparison *all, const char *a, size_t a_bytes, const char *b,
                          size_t b_bytes)
{
    struct mt_byte_list one = {.ctx = all->ctx};
    struct mt_byte_list other = {.ctx = all->ctx};
    enum mt_status status = mt_math_fold(a, a_bytes, &one);
    if (status == MT_OK) status = mt_math_fold(b, b_bytes, &other);
    if (status != MT_OK) all->exact.numbers.status = status;
    bool same = status == MT_OK && one.count > 0 && one.count == other.count &&
                memcmp(one.data, other.data, one.count) == 0;
    mt_byte_list_free(&one);
    mt_byte_list_free(&other);
    weaken(all, MT_MATH_BY_LETTERS);
    return same;
}

bool mt_math_begin_exact(struct mt_math_comparison *all)
{
    struct mt_numbers *numbers = &all->exact.numbers;
    all->spent += numbers->work;
    numbers->work = 0;
    all->exact.atom_count = all->exact.root_count = 0;
    numbers->failed = numbers->status != MT_OK || all->spent > MOST_WORK;
    return !numbers->failed;
}

/* Values in double at points: all must agree. Returns at how many there are such; -1: some do not agree.
 * `real`: where one leaves the real numbers does not count. */
static int agreeing(const struct mt_math_node *a, const struct mt_math_node *b, int a_sign, int b_sign,
                    bool real)
{
    int compared = 0;
    for (int point = 0; point < MT_MATH_POINTS; point++) {
        double complex one = 0;
        double complex other = 0;
        bool first =
            real ? mt_math_real_at(a, point, a_sign, &one) : mt_math_value_at(a, point, a_sign, &one);
        bool second =
            real ? mt_math_real_at(b, point, b_sign, &other) : mt_math_value_at(b, point, b_sign, &other);
        if (first != second && !real) return -1;
        if (!first || !second) continue;
        double size = cabs(one) > cabs(other) ? cabs(one) : cabs(other);
        if (size < SMALLEST) continue; // exact forms know 0: this is an underflow
        if (!mt_math_is_close(one, other, size)) return -1;
        compared++;
    }
    return compared;
}

static bool same_numbers(struct mt_math_comparison *all, const struct mt_math_node *a,
                         const struct mt_math_node *b, int a_sign, int b_sign)
{
    bool sizes = mt_math_has_size(a) || mt_math_has_size(b); // ln|x| is not ln x
    int compared = sizes ? 0 : agreeing(a, b, a_sign, b_sign, true);
    if (compared == 0 || compared == 1) compared = agreeing(a, b, a_sign, b_sign, false);
    weaken(all, MT_MATH_BY_NUMBER);
    return compared >= 2;
}

static enum mt_exact_verdict exact_verdict(struct mt_math_comparison *all, const struct mt_math_node *a,
                                           const struct mt_math_node *b, int a_sign, int b_sign, int point)
{
    struct mt_exact *exact = &all->exact;
    if (!mt_math_begin_exact(all)) return MT_EXACT_UNKNOWN;
    exact->point = point;
    exact->sign = a_sign;
    struct mt_exact_form left = mt_exact_of(exact, a);
    exact->sign = b_sign;
    struct mt_exact_form right = mt_exact_of(exact, b);
    return mt_exact_compare(exact, left, right);
}

/* The same node over parts that are the same answers. */
static bool same_structure(struct mt_math_comparison *all, const struct mt_math_node *a,
                           const struct mt_math_node *b)
{
    if (mt_math_same_tree(a, b)) return true;
    if (a->kind != b->kind || a->call != b->call || a->flag != b->flag || a->count != b->count ||
        a->count == 0 || a->kind == MT_MATH_GROUP || a->kind == MT_MATH_RELATION || a->kind == MT_MATH_UNIT)
        return false;
    const struct mt_math_node *other = b->first;
    for (const struct mt_math_node *child = a->first; child != NULL; child = child->next) {
        if (!mt_math_same_answer(all, child, other)) return false;
        other = other->next;
    }
    return true;
}

static bool same_value(struct mt_math_comparison *all, const struct mt_math_node *a,
                       const struct mt_math_node *b, int a_sign, int b_sign)
{
    enum mt_exact_verdict verdict = exact_verdict(all, a, b, a_sign, b_sign, 0);
    if (verdict == MT_EXACT_CLOSE) weaken(all, MT_MATH_BY_NUMBER);
    if (mt_math_is_broken(all)) return false;
    if (verdict != MT_EXACT_UNKNOWN) return verdict != MT_EXACT_UNEQUAL;
    // (x+1)^1000 has too many terms, but an exact value for every x.
    int points = 0;
    do {
        points++;
        verdict = exact_verdict(all, a, b, a_sign, b_sign, points);
    } while (verdict == MT_EXACT_EQUAL && points < EXACT_POINTS);
    if (mt_math_is_broken(all)) return false;
    if (verdict != MT_EXACT_UNKNOWN) return verdict == MT_EXACT_EQUAL;
    return same_numbers(all, a, b, a_sign, b_sign) || (a_sign == b_sign && same_structure(all, a, b));
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
    struct mt_numbers *numbers = &all->exact.numbers;
    struct scaled scaled_a;
    struct scaled scaled_b;
    if (!mt_math_begin_exact(all)) return !mt_math_is_broken(all) && mt_math_same_tree(a, b);
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
