/* Science: formulas of chemistry and physics, units, states of matter, strands, inheritance. */
#include "synth/item.h"

#include <stddef.h>

#define ELEMENTS 5

static const struct {
    const char *symbol;
    int mass; // rounded, in u
} elements[ELEMENTS] = {{"C", 12}, {"H", 1}, {"N", 14}, {"O", 16}, {"S", 32}};

/*
 * Writes a formula of `kinds` different elements in the table's order, each at most `most` times; a 1 is not
 * written. The numbers go to counts[ELEMENTS], 0 for elements that are absent.
 */
static void formula(struct mt_synth_draw *draw, int kinds, int most, struct mt_synth_item *item, int *counts)
{
    int left = kinds;
    for (int i = 0; i < ELEMENTS; i++) {
        // Each of the elements still to come is as likely as the others to be among those still wanted.
        bool taken = mt_synth_below(draw, ELEMENTS - i) < left;
        counts[i] = taken ? mt_synth_between(draw, 1, most) : 0;
        if (!taken) continue;
        left--;
        mt_synth_ask(item, "%s", elements[i].symbol);
        if (counts[i] > 1) mt_synth_ask(item, "%d", counts[i]);
    }
}

/* "H in C2H6O:" */
static void atoms(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int kinds[MT_SYNTH_HARDEST] = {2, 2, 3, 4, 5};
    static const int most[MT_SYNTH_HARDEST] = {9, 19, 30, 40, 60};
    int counts[ELEMENTS];
    int asked = mt_synth_below(draw, kinds[difficulty - 1]); // of those that are there
    mt_synth_ask(item, "atoms ");
    formula(draw, kinds[difficulty - 1], most[difficulty - 1], item, counts);
    for (int i = 0; i < ELEMENTS; i++) {
        if (counts[i] == 0) continue;
        if (asked == 0) {
            mt_synth_ask(item, " %s:", elements[i].symbol);
            mt_synth_answer(item, "%d", counts[i]);
        }
        asked--;
    }
}

/* "mass CH4:" */
static void mass(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const int kinds[MT_SYNTH_HARDEST] = {2, 2, 3, 3, 4};
    static const int most[MT_SYNTH_HARDEST] = {3, 6, 6, 9, 12};
    int counts[ELEMENTS];
    int sum = 0;
    mt_synth_ask(item, "mass ");
    formula(draw, kinds[difficulty - 1], most[difficulty - 1], item, counts);
    for (int i = 0; i < ELEMENTS; i++) sum += counts[i] * elements[i].mass;
    mt_synth_ask(item, ":");
    mt_synth_answer(item, "%d", sum);
}

/* "dna ATG:" is TAC, the other strand; "rna ATG:" is UAC, what is read off it */
static void strand(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    bool rna = mt_synth_below(draw, 2) == 1;
    int length = mt_synth_between(draw, difficulty + 2, difficulty + 4);
    mt_synth_ask(item, rna ? "rna " : "dna ");
    for (int i = 0; i < length; i++) {
        int base = mt_synth_below(draw, 4);
        mt_synth_ask(item, "%c", "ACGT"[base]);
        mt_synth_answer(item, "%c", (rna ? "UGCA" : "TGCA")[base]);
    }
    mt_synth_ask(item, ":");
}

/* "7 km in m:", from difficulty 4 on also back */
static void convert(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const struct {
        const char *large, *small;
        int factor;
    } units[] = {
        {"km", "m", 1000},  {"m", "cm", 100}, {"cm", "mm", 10},   {"kg", "g", 1000}, {"t", "kg", 1000},
        {"l", "ml", 1000},  {"h", "min", 60}, {"min", "s", 60},   {"d", "h", 24},    {"kV", "V", 1000},
        {"MJ", "kJ", 1000}, {"dm", "cm", 10}, {"hPa", "Pa", 100},
    };
    static const int below[MT_SYNTH_HARDEST] = {10, 100, 1000, 1000, 10000};
    size_t unit = (size_t)mt_synth_below(draw, (int)(sizeof units / sizeof units[0]));
    int number = mt_synth_between(draw, 1, below[difficulty - 1] - 1);
    // Times of day and the like multiply for real: they stay small below difficulty 4.
    if (units[unit].factor % 10 != 0 || units[unit].factor == 60)
        number = 1 + number % (difficulty < 4 ? 20 : 100);
    bool back = difficulty > 3 && mt_synth_below(draw, 2) == 1;
    int product = number * units[unit].factor;
    mt_synth_ask(item, "%d %s in %s:", back ? product : number, back ? units[unit].small : units[unit].large,
                 back ? units[unit].large : units[unit].small);
    mt_synth_answer(item, "%d", back ? number : product);
}

/* "m=4 a=3 F=": a law of the form product = factor * factor, asked for any of the three from difficulty 3 on
 */
static void law(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const char laws[][3] = {
        {'F', 'm', 'a'}, // force, mass, acceleration
        {'U', 'R', 'I'}, // voltage, resistance, current
        {'P', 'U', 'I'}, // power, voltage, current
        {'s', 'v', 't'}, // distance, speed, time
        {'W', 'F', 's'}, // work, force, distance
        {'Q', 'I', 't'}, // charge, current, time
        {'p', 'm', 'v'}, // momentum, mass, speed
    };
    static const int most[MT_SYNTH_HARDEST] = {9, 12, 12, 20, 50};
    const char *names = laws[mt_synth_below(draw, (int)(sizeof laws / sizeof laws[0]))];
    int values[3];
    values[1] = mt_synth_between(draw, 1, most[difficulty - 1]);
    values[2] = mt_synth_between(draw, 1, most[difficulty - 1]);
    values[0] = values[1] * values[2];
    int asked = difficulty < 3 ? 0 : mt_synth_below(draw, 3);
    int order[2] = {asked == 0 ? 1 : 0, asked == 2 ? 1 : 2};
    mt_synth_shuffle(draw, order, 2);
    for (int i = 0; i < 2; i++) mt_synth_ask(item, "%c=%d ", names[order[i]], values[order[i]]);
    mt_synth_ask(item, "%c=", names[asked]);
    mt_synth_answer(item, "%d", values[asked]);
}

/* "water at 57 C:" is liquid */
static void state(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    static const struct {
        const char *name;
        int melts, boils; // degrees Celsius at 1 atm, rounded
    } substances[] = {
        {"water", 0, 100},      {"iron", 1538, 2862},   {"ethanol", -114, 78}, {"mercury", -39, 357},
        {"gold", 1064, 2856},   {"lead", 327, 1749},    {"tin", 232, 2602},    {"benzene", 6, 80},
        {"oxygen", -219, -183}, {"copper", 1085, 2562}, {"sulfur", 115, 445},  {"zinc", 420, 907},
    };
    static const int known[MT_SYNTH_HARDEST] = {3, 5, 8, 10, 12};
    static const char *const states[] = {"solid", "liquid", "gas"};
    int substance = mt_synth_below(draw, known[difficulty - 1]);
    int melts = substances[substance].melts;
    int boils = substances[substance].boils;
    int which = mt_synth_below(draw, 3);
    // Nothing is asked at the very point where it changes, nor below absolute zero.
    int low = which == 0 ? -270 : which == 1 ? melts + 1 : boils + 1;
    int high = which == 0 ? melts - 1 : which == 1 ? boils - 1 : boils + 1500;
    mt_synth_ask(item, "%s at %d C:", substances[substance].name, mt_synth_between(draw, low, high));
    mt_synth_answer(item, "%s", states[which]);
}

/* Of 4 children of two parents, each with `parent[i]` large letters of two, how many have `child`. */
static int quarter_share(const int *parent, int child)
{
    int share = 0;
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            if ((parent[0] > a) + (parent[1] > b) == child) share++;
        }
    }
    return share;
}

/* "Rr x rr, rr:" is 2/4: of the children of a cross, how many in 4 (16 with two genes) are so */
static void cross(struct mt_synth_draw *draw, int difficulty, struct mt_synth_item *item)
{
    int genes = difficulty < 4 ? 1 : 2;
    char letters[2];
    int parents[2][2]; // [gene][parent]: how many large letters
    int children[2];
    int share = 1;
    mt_synth_choose(draw, "ABDEFGHIJLMNQRTY", genes, letters);
    for (int gene = 0; gene < genes; gene++) {
        for (int parent = 0; parent < 2; parent++) parents[gene][parent] = mt_synth_below(draw, 3);
        children[gene] = mt_synth_below(draw, 3);
        share *= quarter_share(parents[gene], children[gene]);
    }
    for (int person = 0; person < 3; person++) {
        for (int gene = 0; gene < genes; gene++) {
            int large = person < 2 ? parents[gene][person] : children[gene];
            char big = letters[gene];
            char small = (char)(big - 'A' + 'a');
            mt_synth_ask(item, "%c%c", large > 0 ? big : small, large > 1 ? big : small);
        }
        mt_synth_ask(item, person == 0 ? " x " : person == 1 ? ", " : ":");
    }
    mt_synth_answer(item, "%d/%d", share, genes == 1 ? 4 : 16);
}

const struct mt_synth_task mt_synth_science_tasks[] = {
    {"atoms", "how many atoms a formula has of an element", MT_DOMAIN_SCIENCE, atoms},
    {"mass", "the mass of a molecule", MT_DOMAIN_SCIENCE, mass},
    {"strand", "the DNA or RNA that pairs with a strand", MT_DOMAIN_SCIENCE, strand},
    {"convert", "a quantity in another unit", MT_DOMAIN_SCIENCE, convert},
    {"law", "the third quantity of a law of physics", MT_DOMAIN_SCIENCE, law},
    {"state", "solid, liquid or gas, at a temperature", MT_DOMAIN_SCIENCE, state},
    {"cross", "how many children of a cross are so", MT_DOMAIN_SCIENCE, cross},
    {0},
};
