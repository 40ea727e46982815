/*
 * Answers of mathematics and science, computed again from the prompts. Tests src/synth/math.c and
 * src/synth/science.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cmocka_all.h"
#include "support/synth_solvers.h"

static void print_number(char *answer, int number)
{
    (void)snprintf(answer, SOLVED_BYTES, "%d", number);
}

// ------------------------------------------------------------------ mathematics

/* "a OP b=" */
static bool arithmetic(const char *prompt, char *answer)
{
    int a, b;
    char sign;
    if (!synth_match(prompt, "#~#=", &a, &sign, &b)) return false;
    switch (sign) {
    case '+': print_number(answer, a + b); return true;
    case '-': print_number(answer, a - b); return true;
    case '*': print_number(answer, a * b); return true;
    case '%': print_number(answer, a - a / b * b); return true;
    default: return false;
    }
}

static bool extreme(const char *prompt, char *answer)
{
    int best = 0;
    char *rest = NULL;
    for (const char *at = prompt + 4; *at != '\0'; at = rest + 1) {
        int number = (int)strtol(at, &rest, 10);
        bool better = strncmp(prompt, "max", 3) == 0 ? number >= best : number <= best;
        if (at == prompt + 4 || better) best = number;
    }
    print_number(answer, best);
    return true;
}

/* Tries every x. */
static bool equation(const char *prompt, char *answer)
{
    int a = 1, b, c;
    if (!synth_match(prompt, "x+#=#,x=", &b, &c) && !synth_match(prompt, "#x+#=#,x=", &a, &b, &c))
        return false;
    for (int value = 0; value < 1000; value++) {
        if (a * value + b == c) {
            print_number(answer, value);
            return true;
        }
    }
    return false;
}

/* The next of a sequence whose second differences are constant. */
static bool sequence(const char *prompt, char *answer)
{
    int v[4];
    if (!synth_match(prompt, "#,#,#,#,", &v[0], &v[1], &v[2], &v[3])) return false;
    print_number(answer, 3 * v[3] - 3 * v[2] + v[1]);
    return v[3] - 2 * v[2] + v[1] == v[2] - 2 * v[1] + v[0];
}

static void mathematics(void **state)
{
    (void)state;
    static const struct synth_solver solvers[] = {
        {"add", arithmetic},  {"subtract", arithmetic}, {"multiply", arithmetic}, {"remainder", arithmetic},
        {"extreme", extreme}, {"equation", equation},   {"sequence", sequence},
    };
    assert_int_equal(synth_compare(MT_DOMAIN_MATH, solvers, sizeof solvers / sizeof solvers[0], 400), 0);
}

// ------------------------------------------------------------------ science

/* How often an element is in a formula. */
static int count_in(const char *formula, char element)
{
    const char *at = strchr(formula, element);
    if (at == NULL) return 0;
    int count = (int)strtol(at + 1, NULL, 10);
    return count == 0 ? 1 : count;
}

static bool atoms(const char *prompt, char *answer)
{
    char formula[MATCHED_BYTES];
    char element;
    if (!synth_match(prompt, "atoms @ ~:", formula, &element)) return false;
    print_number(answer, count_in(formula, element));
    return true;
}

static bool mass(const char *prompt, char *answer)
{
    char formula[MATCHED_BYTES];
    if (!synth_match(prompt, "mass @:", formula)) return false;
    print_number(answer, 12 * count_in(formula, 'C') + count_in(formula, 'H') + 14 * count_in(formula, 'N') +
                             16 * count_in(formula, 'O') + 32 * count_in(formula, 'S'));
    return true;
}

static bool strand(const char *prompt, char *answer)
{
    bool rna = prompt[0] == 'r';
    size_t used = 0;
    for (const char *at = prompt + 4; *at != ':'; at++) {
        switch (*at) {
        case 'A': answer[used++] = rna ? 'U' : 'T'; break;
        case 'T': answer[used++] = 'A'; break;
        case 'C': answer[used++] = 'G'; break;
        case 'G': answer[used++] = 'C'; break;
        default: return false;
        }
    }
    answer[used] = '\0';
    return true;
}

/* A unit in one common to its kind, so that a quotient converts. */
static int unit_size(const char *unit)
{
    static const struct {
        const char *unit;
        int size;
    } sizes[] = {
        {"km", 1000000}, {"m", 1000}, {"dm", 100},  {"cm", 10},   {"mm", 1},    {"t", 1000000}, {"kg", 1000},
        {"g", 1},        {"l", 1000}, {"ml", 1},    {"d", 86400}, {"h", 3600},  {"min", 60},    {"s", 1},
        {"kV", 1000},    {"V", 1},    {"MJ", 1000}, {"kJ", 1},    {"hPa", 100}, {"Pa", 1},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(unit, sizes[i].unit) == 0) return sizes[i].size;
    }
    return 0;
}

static bool convert(const char *prompt, char *answer)
{
    int number;
    char from[MATCHED_BYTES];
    char to[MATCHED_BYTES];
    if (!synth_match(prompt, "# @ in @:", &number, from, to) || unit_size(to) == 0) return false;
    long long whole = (long long)number * unit_size(from);
    print_number(answer, (int)(whole / unit_size(to)));
    return whole % unit_size(to) == 0;
}

/* The law is the one with all three letters; its first is the product of the others. */
static bool law(const char *prompt, char *answer)
{
    static const char *const laws[] = {"Fma", "URI", "PUI", "svt", "WFs", "QIt", "pmv"};
    char names[3];
    int values[2];
    if (!synth_match(prompt, "~=# ~=# ~=", &names[0], &values[0], &names[1], &values[1], &names[2]))
        return false;
    for (size_t i = 0; i < sizeof laws / sizeof laws[0]; i++) {
        if (memchr(names, laws[i][0], 3) == NULL || memchr(names, laws[i][1], 3) == NULL ||
            memchr(names, laws[i][2], 3) == NULL)
            continue;
        if (names[2] == laws[i][0])
            print_number(answer, values[0] * values[1]);
        else if (names[0] == laws[i][0])
            print_number(answer, values[0] / values[1]);
        else
            print_number(answer, values[1] / values[0]);
        return true;
    }
    return false;
}

static bool state_of(const char *prompt, char *answer)
{
    static const struct {
        const char *name;
        int melts, boils;
    } known[] = {{"water", 0, 100},    {"iron", 1538, 2862},   {"ethanol", -114, 78}, {"mercury", -39, 357},
                 {"gold", 1064, 2856}, {"lead", 327, 1749},    {"tin", 232, 2602},    {"benzene", 6, 80},
                 {"sulfur", 115, 445}, {"oxygen", -219, -183}, {"zinc", 420, 907},    {"copper", 1085, 2562}};
    char name[MATCHED_BYTES];
    int degrees;
    if (!synth_match(prompt, "@ at # C:", name, &degrees)) return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i].name) != 0) continue;
        (void)snprintf(answer, SOLVED_BYTES, "%s",
                       degrees < known[i].melts   ? "solid"
                       : degrees < known[i].boils ? "liquid"
                                                  : "gas");
        return degrees >= -273 && degrees != known[i].melts && degrees != known[i].boils;
    }
    return false;
}

/* Every pair of gametes in turn, each a letter of either parent for every gene. */
static bool cross(const char *prompt, char *answer)
{
    char parents[2][MATCHED_BYTES];
    char child[MATCHED_BYTES];
    if (!synth_match(prompt, "@ x @, @:", parents[0], parents[1], child)) return false;
    size_t genes = strlen(child) / 2;
    int all = genes == 1 ? 4 : 16;
    int alike = 0;
    for (int pair = 0; pair < all; pair++) {
        bool same = true;
        for (size_t gene = 0; gene < genes; gene++) {
            char a = parents[0][2 * gene + (size_t)(pair >> (2 * gene) & 1)];
            char b = parents[1][2 * gene + (size_t)(pair >> (2 * gene + 1) & 1)];
            char first = a < b ? a : b; // the large letter comes first
            char second = a < b ? b : a;
            if (first != child[2 * gene] || second != child[2 * gene + 1]) same = false;
        }
        if (same) alike++;
    }
    (void)snprintf(answer, SOLVED_BYTES, "%d/%d", alike, all);
    return true;
}

static void science(void **state)
{
    (void)state;
    static const struct synth_solver solvers[] = {
        {"atoms", atoms}, {"mass", mass},      {"strand", strand}, {"convert", convert},
        {"law", law},     {"state", state_of}, {"cross", cross},
    };
    assert_int_equal(synth_compare(MT_DOMAIN_SCIENCE, solvers, sizeof solvers / sizeof solvers[0], 400), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mathematics),
        cmocka_unit_test(science),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
