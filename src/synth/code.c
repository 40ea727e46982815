/* Code: what a line of Python says. Prompts are valid Python; only the mark ">" is ours. */
#include "synth/item.h"

#include <stdlib.h>
#include <string.h>

#define LETTERS   "abcdefghijklmnopqrstuvwxyz"
#define MOST_TEXT 12

/* `length` letters out of the first `kinds`, repetitions allowed. */
static void text_of(struct mt_synth_draw *draw, int length, int kinds, char text[MOST_TEXT + 1])
{
    for (int i = 0; i < length; i++) text[i] = LETTERS[mt_synth_below(draw, kinds)];
    text[length] = '\0';
}

/* '"fkqz"[2]>', counted from the end from difficulty 4 on, too */
static void index_of(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char text[MOST_TEXT + 1];
    int length = mt_synth_between(draw, 3, difficulty + 3);
    text_of(draw, length, 26, text);
    int at = difficulty < 4 ? mt_synth_below(draw, length) : mt_synth_between(draw, -length, length - 1);
    mt_synth_ask(item, "\"%s\"[%d]>", text, at);
    mt_synth_answer(item, "%c", text[at < 0 ? at + length : at]);
}

/* '"fkqzm"[1:3]>' */
static void slice(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char text[MOST_TEXT + 1];
    int length = mt_synth_between(draw, 3, difficulty + 3);
    text_of(draw, length, 26, text);
    int from = mt_synth_below(draw, length);
    int to = mt_synth_between(draw, from + 1, length);
    mt_synth_ask(item, "\"%s\"[%d:%d]>", text, from, to);
    mt_synth_answer(item, "%.*s", to - from, text + from);
}

/* '"fkq"[::-1]>' */
static void reverse(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char text[MOST_TEXT + 1];
    int length = mt_synth_between(draw, 2, difficulty + 2);
    text_of(draw, length, 26, text);
    mt_synth_ask(item, "\"%s\"[::-1]>", text);
    for (int i = length - 1; i >= 0; i--) mt_synth_answer(item, "%c", text[i]);
}

/* 'x=3;y=x+4;y-2>': values go from name to name */
static void assign(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int statements[MT_SYNTH_HARDEST] = {1, 1, 2, 2, 3};
    static const int below[MT_SYNTH_HARDEST] = {10, 20, 10, 30, 50};
    char names[4];
    mt_synth_choose(draw, "abcdefghknpqrstuvwxyz", 4, names);
    int value = mt_synth_below(draw, below[difficulty - 1]);
    mt_synth_ask(item, "%c=%d;", names[0], value);
    for (int i = 1; i <= statements[difficulty - 1]; i++) {
        bool last = i == statements[difficulty - 1];
        int other = mt_synth_below(draw, 10);
        bool plus = mt_synth_below(draw, 2) == 1;
        if (!last) mt_synth_ask(item, "%c=", names[i]);
        mt_synth_ask(item, "%c%c%d%s", names[i - 1], plus ? '+' : '-', other, last ? ">" : ";");
        value += plus ? other : -other;
    }
    mt_synth_answer(item, "%d", value);
}

/* 'a if 3>5 else b>', where a and b are numbers */
static void branch(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int below[MT_SYNTH_HARDEST] = {10, 30, 100, 300, 1000};
    int most = below[difficulty - 1];
    int yes = mt_synth_below(draw, most);
    int no = mt_synth_below(draw, most);
    int left = mt_synth_below(draw, most);
    int right = mt_synth_below(draw, most);
    bool greater = mt_synth_below(draw, 2) == 1;
    mt_synth_ask(item, "%d if %d%c%d else %d>", yes, left, greater ? '>' : '<', right, no);
    mt_synth_answer(item, "%d", (greater ? left > right : left < right) ? yes : no);
}

/* '"abcab".count("a")>' */
static void count(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char text[MOST_TEXT + 1];
    int length = mt_synth_between(draw, difficulty + 2, difficulty + 5);
    int found = 0;
    int first = mt_synth_below(draw, 24);
    for (int i = 0; i < length; i++) {
        text[i] = LETTERS[first + mt_synth_below(draw, 3)];
        if (text[i] == LETTERS[first]) found++;
    }
    text[length] = '\0';
    mt_synth_ask(item, "\"%s\".count(\"%c\")>", text, LETTERS[first]);
    mt_synth_answer(item, "%d", found);
}

/* '"fkqf".replace("f","x")>' */
static void replace(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    char text[MOST_TEXT + 1];
    int length = mt_synth_between(draw, 2, difficulty + 2);
    text_of(draw, length, 26, text);
    char old = text[mt_synth_below(draw, length)];
    char new = LETTERS[mt_synth_below(draw, 26)];
    mt_synth_ask(item, "\"%s\".replace(\"%c\",\"%c\")>", text, old, new);
    for (int i = 0; i < length; i++) mt_synth_answer(item, "%c", text[i] == old ? new : text[i]);
}

const struct mt_synth_task mt_synth_code_tasks[] = {
    {"index", "a character of a string", MT_DOMAIN_CODE, index_of},
    {"slice", "a part of a string", MT_DOMAIN_CODE, slice},
    {"reverse", "a string backwards", MT_DOMAIN_CODE, reverse},
    {"assign", "values passed from name to name", MT_DOMAIN_CODE, assign},
    {"branch", "a conditional expression", MT_DOMAIN_CODE, branch},
    {"count", "how often a character is in a string", MT_DOMAIN_CODE, count},
    {"replace", "a string with a character replaced", MT_DOMAIN_CODE, replace},
    {0},
};
