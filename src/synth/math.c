/* Mathematics: whole numbers, equations of one unknown, sequences. */
#include "synth/item.h"

// What numbers of a sum or difference are below.
static const int first_below[MT_SYNTH_HARDEST] = {20, 50, 100, 300, 1000};
static const int second_below[MT_SYNTH_HARDEST] = {10, 10, 20, 100, 1000};

/* "a+b=" */
static void add(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    int a = mt_synth_below(draw, first_below[difficulty - 1]);
    int b = mt_synth_below(draw, second_below[difficulty - 1]);
    mt_synth_ask(item, "%d+%d=", a, b);
    mt_synth_answer(item, "%d", a + b);
}

/* "a-b=", also below zero */
static void subtract(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    int a = mt_synth_below(draw, first_below[difficulty - 1]);
    int b = mt_synth_below(draw, second_below[difficulty - 1]);
    mt_synth_ask(item, "%d-%d=", a, b);
    mt_synth_answer(item, "%d", a - b);
}

/* "a*b=" */
static void multiply(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int first[MT_SYNTH_HARDEST] = {10, 20, 100, 100, 300};
    static const int second[MT_SYNTH_HARDEST] = {10, 10, 10, 20, 100};
    int a = mt_synth_below(draw, first[difficulty - 1]);
    int b = mt_synth_below(draw, second[difficulty - 1]);
    mt_synth_ask(item, "%d*%d=", a, b);
    mt_synth_answer(item, "%d", a * b);
}

/* "a%m=": what is left of a divided by m */
static void remainder_of(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int below[MT_SYNTH_HARDEST] = {20, 100, 1000, 1000, 10000};
    static const int most[MT_SYNTH_HARDEST] = {3, 5, 5, 9, 12};
    int a = mt_synth_below(draw, below[difficulty - 1]);
    int m = mt_synth_between(draw, 2, most[difficulty - 1]);
    mt_synth_ask(item, "%d%%%d=", a, m);
    mt_synth_answer(item, "%d", a % m);
}

/* "max 31,7,45=" or "min ...": one of several numbers */
static void extreme(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int below[MT_SYNTH_HARDEST] = {20, 100, 100, 1000, 1000};
    static const int counts[MT_SYNTH_HARDEST] = {2, 2, 3, 3, 5};
    bool largest = mt_synth_below(draw, 2) == 1;
    int best = 0;
    mt_synth_ask(item, largest ? "max " : "min ");
    for (int i = 0; i < counts[difficulty - 1]; i++) {
        int number = mt_synth_below(draw, below[difficulty - 1]);
        mt_synth_ask(item, i == 0 ? "%d" : ",%d", number);
        if (i == 0 || (largest ? number > best : number < best)) best = number;
    }
    mt_synth_ask(item, "=");
    mt_synth_answer(item, "%d", best);
}

/* "3x+4=19,x=": the solution is a whole number, the factor 1 below difficulty 3 */
static void equation(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int below[MT_SYNTH_HARDEST] = {20, 50, 10, 20, 100};
    static const int factors[MT_SYNTH_HARDEST] = {1, 1, 5, 9, 12};
    int x = mt_synth_below(draw, below[difficulty - 1]);
    int a = mt_synth_between(draw, 1, factors[difficulty - 1]);
    int b = mt_synth_below(draw, difficulty < 3 ? below[difficulty - 1] : 30);
    if (a > 1) mt_synth_ask(item, "%d", a);
    mt_synth_ask(item, "x+%d=%d,x=", b, a * x + b);
    mt_synth_answer(item, "%d", x);
}

/* "4,7,10,": the next of an arithmetic sequence, from difficulty 4 on also of a quadratic one */
static void sequence(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int start[MT_SYNTH_HARDEST] = {10, 30, 100, 100, 500};
    static const int steps[MT_SYNTH_HARDEST] = {3, 5, 9, 12, 30};
    int value = mt_synth_below(draw, start[difficulty - 1]);
    int step = mt_synth_between(draw, 1, steps[difficulty - 1]);
    int growth = difficulty < 4 ? 0 : mt_synth_below(draw, difficulty - 1);
    for (int i = 0; i < 4; i++) {
        mt_synth_ask(item, "%d,", value);
        value += step;
        step += growth;
    }
    mt_synth_answer(item, "%d", value);
}

const struct mt_synth_task mt_synth_math_tasks[] = {
    {"add", "the sum of two numbers", MT_DOMAIN_MATH, add},
    {"subtract", "the difference of two numbers", MT_DOMAIN_MATH, subtract},
    {"multiply", "the product of two numbers", MT_DOMAIN_MATH, multiply},
    {"remainder", "what a division leaves", MT_DOMAIN_MATH, remainder_of},
    {"extreme", "the largest or smallest of some numbers", MT_DOMAIN_MATH, extreme},
    {"equation", "the unknown of a linear equation", MT_DOMAIN_MATH, equation},
    {"sequence", "the next number of a sequence", MT_DOMAIN_MATH, sequence},
    {0},
};
