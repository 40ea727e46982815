/* Edit distance between words, by the usual table of which one row is kept. */
#include "base/nearest.h"

#include <ctype.h>
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

int mt_near_enough(const char *word, int most)
{
    size_t half = (strlen(word) + 1) / 2;
    return half < (size_t)most ? (int)half : most;
}

static char plain(char letter)
{
    return letter == '-' ? '_' : (char)tolower((unsigned char)letter);
}

bool mt_is_among(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at != NULL; at = strchr(at, '|')) {
        at += *at == '|' ? 1 : 0;
        size_t i = 0;
        if (strcspn(at, "|") != length) continue;
        while (i < length && plain(at[i]) == plain(word[i])) i++;
        if (i == length) return true;
    }
    return false;
}
