/* Reasoning: orders, paths, places, truth, what does not belong. */
#include "synth/item.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"

/* "b>f d>b max:" is d: a chain of comparisons in random order, and which end is asked for */
static void order(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char chain[8]; // the largest first
    int links[8];
    int count = difficulty + 1;
    bool largest = mt_synth_below(draw, 2) == 1;
    mt_synth_choose(draw, LETTERS, count, chain);
    for (int i = 0; i + 1 < count; i++) links[i] = i;
    mt_synth_shuffle(draw, links, count - 1);
    for (int i = 0; i + 1 < count; i++) mt_synth_ask(item, "%c>%c ", chain[links[i]], chain[links[i] + 1]);
    mt_synth_ask(item, largest ? "max:" : "min:");
    mt_synth_answer(item, "%c", chain[largest ? 0 : count - 1]);
}

/* "ac cf fb a 2:" is f: arrows, a start, how many to follow */
static void path(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char stops[8];
    int arrows[8];
    int count = difficulty + 1;
    mt_synth_choose(draw, LETTERS, count + 1, stops);
    for (int i = 0; i < count; i++) arrows[i] = i;
    mt_synth_shuffle(draw, arrows, count);
    for (int i = 0; i < count; i++) mt_synth_ask(item, "%c%c ", stops[arrows[i]], stops[arrows[i] + 1]);
    int from = mt_synth_below(draw, count);
    int steps = mt_synth_between(draw, 1, difficulty < 4 && count - from > 2 ? 2 : count - from);
    mt_synth_ask(item, "%c %d:", stops[from], steps);
    mt_synth_answer(item, "%c", stops[from + steps]);
}

/* "prtqz left of q:" is t */
static void neighbour(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char row[16] = "";
    int count = difficulty + 3;
    bool left = mt_synth_below(draw, 2) == 1;
    mt_synth_choose(draw, LETTERS, count, row);
    int distance = difficulty < 4 ? 1 : mt_synth_between(draw, 1, 2);
    int at = mt_synth_between(draw, left ? distance : 0, left ? count - 1 : count - 1 - distance);
    mt_synth_ask(item, "%s ", row);
    if (distance > 1) mt_synth_ask(item, "%d ", distance);
    mt_synth_ask(item, "%s of %c:", left ? "left" : "right", row[at]);
    mt_synth_answer(item, "%c", row[left ? at - distance : at + distance]);
}

/* "((T&!F)|T)^F:" is T or F */
static void truth(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    int literals = difficulty + 1;
    bool value = false;
    for (int i = 2; i < literals; i++) mt_synth_ask(item, "(");
    for (int i = 0; i < literals; i++) {
        char sign = "&|^"[mt_synth_below(draw, difficulty < 3 ? 2 : 3)];
        bool negated = mt_synth_below(draw, 3) == 0;
        bool literal = mt_synth_below(draw, 2) == 1;
        bool operand = negated ? !literal : literal;
        if (i > 0) mt_synth_ask(item, "%c", sign);
        mt_synth_ask(item, "%s%c", negated ? "!" : "", literal ? 'T' : 'F');
        if (i > 0 && i + 1 < literals) mt_synth_ask(item, ")");
        if (i == 0)
            value = operand;
        else if (sign == '&')
            value = value && operand;
        else if (sign == '|')
            value = value || operand;
        else
            value = value != operand;
    }
    mt_synth_ask(item, ":");
    mt_synth_answer(item, "%c", value ? 'T' : 'F');
}

/* "odd one: 4 8 3 6:" is 3: the only odd number among even ones, or the other way round */
static void odd_one(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int below[MT_SYNTH_HARDEST] = {10, 30, 100, 100, 1000}; // even
    int count = difficulty < 3 ? 3 : difficulty + 1;
    int parity = mt_synth_below(draw, 2);
    int odd = mt_synth_below(draw, count);
    mt_synth_ask(item, "odd one");
    for (int i = 0; i < count; i++) {
        int number = 2 * mt_synth_below(draw, below[difficulty - 1] / 2) + (i == odd ? 1 - parity : parity);
        mt_synth_ask(item, " %d", number);
        if (i == odd) mt_synth_answer(item, "%d", number);
    }
    mt_synth_ask(item, ":");
}

/* The closing bracket of an opening one. */
static char closing(char opening)
{
    return opening == '(' ? ')' : opening == '[' ? ']' : '}';
}

/* "([]{": what closes it, "}" and so on: the brackets still open, from the inside out */
static void brackets(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char open[16];
    int depth = 0;
    int length = mt_synth_between(draw, difficulty + 2, 2 * difficulty + 3);
    mt_synth_ask(item, "close ");
    for (int i = 0; i < length; i++) {
        // The last one always opens, so that something is left to close.
        if (depth > 0 && i + 1 < length && (depth == 4 || mt_synth_below(draw, 2) == 1)) {
            mt_synth_ask(item, "%c", closing(open[--depth]));
        } else {
            open[depth] = "([{"[mt_synth_below(draw, 3)];
            mt_synth_ask(item, "%c", open[depth++]);
        }
    }
    mt_synth_ask(item, ":");
    while (depth > 0) mt_synth_answer(item, "%c", closing(open[--depth]));
}

const struct mt_synth_task mt_synth_reasoning_tasks[] = {
    {"order", "the largest or smallest, from comparisons", MT_DOMAIN_REASONING, order},
    {"path", "where some steps along arrows lead", MT_DOMAIN_REASONING, path},
    {"neighbour", "who stands left or right of somebody", MT_DOMAIN_REASONING, neighbour},
    {"truth", "the value of a Boolean expression", MT_DOMAIN_REASONING, truth},
    {"odd", "the one number that is odd, or even", MT_DOMAIN_REASONING, odd_one},
    {"brackets", "what closes the brackets still open", MT_DOMAIN_REASONING, brackets},
    {0},
};
