/* What the figures of routing and geometry are called and how they are computed, for pages: one place for
 * runs and comparisons. docs/analysis.md has the same, with ranges. */
#ifndef MT_REPORT_FORMULAS_H
#define MT_REPORT_FORMULAS_H

struct mt_formula {
    const char *name;    // as analysis.json has it: "overlap_in"
    const char *title;   // "overlap of inputs"
    const char *formula; // with TeX between dollar signs
    int better;          // 1: more specialised or more even when higher, -1: when lower, 0: neither
};

/* NULL: there is no such figure. */
const struct mt_formula *mt_formula_of(const char *name);

/* What the letters in the formulas mean. */
#define MT_FORMULA_LETTERS                                                                                   \
    "$N$ tokens, $n$ experts, $c_j$ slots that expert $j$ serves, $\\bar{c}$ their mean, $P_{ij}$ the "      \
    "score of expert $j$ for token $i$ before top-k, $s_{ij}$ its weight after top-k (0 where not chosen), " \
    "$x_{ij}$ its output"

#endif
