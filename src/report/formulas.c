/* The table of figures and their formulas. */
#include "report/formulas.h"

#include <stddef.h>
#include <string.h>

#define SILHOUETTE                                                                                           \
    "mean of $\\frac{b - a}{\\max(a, b)}$, $a$ the mean distance to points of the same expert, $b$ the "     \
    "smallest mean distance to those of another"

static const struct mt_formula formulas[] = {
    {"maxvio", "MaxVio", "$\\frac{\\max_j c_j - \\bar{c}}{\\bar{c}}$", -1},
    {"entropy", "load entropy", "$-\\sum_j q_j \\ln q_j$, $q_j = c_j / \\sum_m c_m$; $\\ln n$ when even", 1},
    {"gini", "Gini of the loads", "$\\frac{\\sum_{ij} |c_i - c_j|}{2 n \\sum_j c_j}$", -1},
    {"effective_experts", "effective experts a token",
     "$1 / \\frac{1}{N} \\sum_i \\sum_j w_{ij}^2$, $w_{ij} = s_{ij} / \\sum_m s_{im}$; between 1 and $k$; "
     "harmonic mean over layers",
     0},
    {"effective_scores", "effective scores a token",
     "$1 / \\frac{1}{N} \\sum_i \\sum_j p_{ij}^2$, $p_{ij} = P_{ij} / \\sum_m P_{im}$; between 1 and $n$; "
     "harmonic mean over layers",
     0},
    {"experts_90", "experts that serve 90 %", "the fewest experts that serve 90 % of the slots, over $n$", 0},
    {"rv_expert", "routing variance (paper)", "$\\frac{1}{n} \\sum_j \\operatorname{var}_i(s_{ij})$", 1},
    {"rv_token", "routing variance (authors' code)",
     "$\\frac{1}{N} \\sum_i \\frac{1}{n-1} \\sum_j (P_{ij} - \\bar{P}_i)^2$", 1},
    {"abs_cos", "|cos| of a token's expert outputs",
     "mean over tokens and pairs of their experts of $|\\cos(x_{ij}, x_{im})|$", -1},
    {"overlap_in", "overlap of inputs", "share of a token's 10 nearest inputs whose first expert is another",
     -1},
    {"overlap_out", "overlap of outputs",
     "share of an expert output's 10 nearest outputs that another expert made", -1},
    {"silhouette_in", "silhouette of inputs", SILHOUETTE, 1},
    {"silhouette_out", "silhouette of outputs", "the same of expert outputs", 1},
    {"information", "what experts tell about domains",
     "$\\sum_{dj} \\frac{A_{dj}}{D} \\ln \\frac{A_{dj}}{\\bar{A}_j}$, $A_{dj}$ the share of domain $d$'s "
     "slots that expert $j$ serves, in nats; at most $\\ln D$ of $D$ domains",
     1},
    {"jaccard_90", "Jaccard index of two domains",
     "mean over pairs of domains of $|S_d \\cap S_e|$ over the experts in either, $S_d$ the fewest that "
     "serve "
     "90 % of domain $d$'s slots",
     0},
    {"together_90", "all domains together", "experts that are in any $S_d$, over $n$", 0},
    {"load_min", "smallest load", "$\\min_j c_j / \\bar{c}$", 1},
    {"load_max", "largest load", "$\\max_j c_j / \\bar{c}$", -1},
    {"path_entropy", "path entropy",
     "$-\\sum_{ab} p_{ab} \\ln p_{ab}$, $p_{ab}$ the share of tokens whose first choices are $a$ in a layer "
     "and $b$ in the next, in nats",
     0},
    {"path_information", "path information",
     "$\\sum_{ab} p_{ab} \\ln \\frac{p_{ab}}{p_a p_b}$; 0 where layers choose independently", 0},
    {"router_cos", "cos of the router's rows", "mean over pairs of $\\cos(R_i, R_j)$", 0},
    {"router_abs_cos", "|cos| of the router's rows", "mean over pairs of $|\\cos(R_i, R_j)|$", -1},
    {"erc_diagonal", "experts that answer their own row most",
     "share of $i$ with $M_{ii}$ the largest of its row and column, $M_{ij} = \\lVert R_i W_j \\rVert$", 1},
    {"erc_dominance", "answer to the own row over that to others",
     "mean $M_{ii}$ over mean $M_{ij}$ with $i$ and $j$ apart", 1},
    {"load_shift", "load that moved",
     "$\\frac{1}{2} \\sum_j |p_j - q_j|$, $p$ and $q$ the shares of the load now and in the base model", 0},
    {"sets_changed", "tokens with other experts", "share of tokens whose $k$ experts are another set", 0},
    {"router_change", "change of the router",
     "$\\frac{\\lVert W - W_0 \\rVert}{\\lVert W_0 \\rVert}$ of the router's weights, LoRA included", 0},
};

const struct mt_formula *mt_formula_of(const char *name)
{
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++) {
        if (strcmp(formulas[i].name, name) == 0) return &formulas[i];
    }
    return NULL;
}
