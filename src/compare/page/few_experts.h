/*
 * What few experts answer, as sentences: they follow from the figures alone. The page and the terminal begin
 * with them where cells were asked with few experts (prune as a map).
 */
#ifndef MT_COMPARE_PAGE_FEW_EXPERTS_H
#define MT_COMPARE_PAGE_FEW_EXPERTS_H

#include "compare/summary.h"

#define MT_FEW_TEXT_BYTES 768

/* Chosen by the first score, for the domain that is asked where that was done; the fewest experts. */
struct mt_few_experts {
    size_t column;       // whole answers with them
    double kept, all;    // experts of a layer
    const char *score;   // "reap"
    const char *by;      // "for the domain that is asked"
    const char *by_name; // "own"
};

/* False where no cell and no base was asked so. */
bool mt_few_experts(const struct mt_comparison *comparison, size_t model, struct mt_few_experts *few);

enum mt_few_verdict {
    MT_FEW_AHEAD,  // a method beyond chance above the reference
    MT_FEW_BEHIND, // the best other method beyond chance below it
    MT_FEW_CHANCE, // nothing beyond chance, or too few seeds to say
    MT_FEW_BEFORE, // of the models before training
    MT_FEW_NOTHING // there is nothing to say
};

/* The best other method against the reference, of one model. */
enum mt_few_verdict mt_few_methods(const struct mt_comparison *comparison, size_t model,
                                   char headline[MT_FEW_TEXT_BYTES], char text[MT_FEW_TEXT_BYTES]);

/* Several models before training, next to each other. */
enum mt_few_verdict mt_few_models(const struct mt_comparison *comparison, char headline[MT_FEW_TEXT_BYTES],
                                  char text[MT_FEW_TEXT_BYTES]);

#endif
