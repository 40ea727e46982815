/* Edit distance between words, by the usual table of which one row is kept. */
#include "base/nearest.h"

#include <string.h>

#define MAX_WORD 64 // longer words are never near anything

/* Edits (insert, delete, replace) that turn one word into the other. */
static int edit_distance(const char *a, const char *b)
{
    size_t length_a = strlen(a);
    size_t length_b = strlen(b);
    if (length_a >= MAX_WORD || length_b >= MAX_WORD) return MAX_WORD;
    int row[MAX_WORD + 1];
    for (size_t j = 0; j <= length_b; j++) row[j] = (int)j;
    for (size_t i = 1; i <= length_a; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= length_b; j++) {
            int replaced = diagonal + (a[i - 1] != b[j - 1]);
            int shorter = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < shorter ? replaced : shorter;
        }
    }
    return row[length_b];
}

bool mt_nearer(const char *word, const char *candidate, int *distance)
{
    int found = edit_distance(word, candidate);
    if (found >= *distance) return false;
    *distance = found;
    return true;
}
