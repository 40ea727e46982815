/* Statistics of comparisons for stats_parity.py: questions as lines on standard input, answers as lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare/stats.h"

#define MOST 1024

static size_t read_numbers(char *text, double numbers[MOST])
{
    size_t count = 0;
    for (char *word = strtok(text, " \n"); word != NULL && count < MOST; word = strtok(NULL, " \n"))
        numbers[count++] = strtod(word, NULL);
    return count;
}

/* "beta a b x", "student t freedom", "moments x...", "paired x... y...", "holm p..." */
static void answer(const char *kind, const double *numbers, size_t count)
{
    double adjusted[MOST];
    if (strcmp(kind, "beta") == 0) {
        printf("%.17g\n", mt_incomplete_beta(numbers[0], numbers[1], numbers[2]));
    } else if (strcmp(kind, "student") == 0) {
        printf("%.17g\n", mt_student_two_sided(numbers[0], numbers[1]));
    } else if (strcmp(kind, "moments") == 0) {
        struct mt_moments moments = mt_moments(numbers, count);
        printf("%.17g %.17g\n", moments.mean, moments.deviation);
    } else if (strcmp(kind, "paired") == 0) {
        struct mt_paired paired = mt_paired(numbers, numbers + count / 2, count / 2);
        printf("%.17g %.17g %.17g %.17g\n", paired.mean, paired.error, paired.t, paired.p);
    } else {
        mt_holm(numbers, count, adjusted);
        for (size_t i = 0; i < count; i++) printf("%.17g%s", adjusted[i], i + 1 < count ? " " : "\n");
    }
}

int main(void)
{
    static char line[65536];
    double numbers[MOST];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *space = strchr(line, ' ');
        if (space == NULL) return 2;
        *space = '\0';
        size_t count = read_numbers(space + 1, numbers);
        answer(line, numbers, count);
    }
    return 0;
}
