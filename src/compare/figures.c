/* The table of figures. */
#include "compare/figures.h"

static const struct mt_compare_figure_row rows[MT_COMPARE_FIGURES] = {
    [MT_COMPARE_ACCURACY] = {"accuracy", "exact %", "100 · exact answers / held-out problems of the domain",
                             1, 100.0, 1},
    [MT_COMPARE_ACCURACY_OTHERS] = {"accuracy_others", "exact others %",
                                    "mean over the other domains of 100 · exact answers / problems", 1, 100.0,
                                    1},
    [MT_COMPARE_LOSS] = {"loss", "L_h", "mean cross-entropy of the answers' tokens, own domain", -1, 1.0, 4},
    [MT_COMPARE_LOSS_OTHERS] = {"loss_others", "L_h others", "the same, mean over the other domains", -1, 1.0,
                                4},
    [MT_COMPARE_MAXVIO] = {"maxvio", "MaxVio", "(max_j load_j - mean) / mean over the held-out data", -1, 1.0,
                           3},
    [MT_COMPARE_MAXVIO_BATCH] = {"maxvio_batch", "MaxVio batch", "the same in batches of tokens, their mean",
                                 -1, 1.0, 3},
    [MT_COMPARE_ENTROPY] = {"entropy", "load entropy", "-Σ_j q_j ln q_j, q the shares of the loads", 1, 1.0,
                            3},
    [MT_COMPARE_OVERLAP] = {"overlap", "overlap",
                            "share of a token's nearest inputs that go to another expert first", -1, 1.0, 4},
    [MT_COMPARE_SILHOUETTE] = {"silhouette", "silhouette",
                               "mean (b - a) / max(a, b) of inputs, labelled by the first choice", 1, 1.0, 4},
    [MT_COMPARE_OVERLAP_OUT] = {"overlap_outputs", "overlap out",
                                "the overlap of expert outputs, by angle, labelled by expert", -1, 1.0, 4},
    [MT_COMPARE_SILHOUETTE_OUT] = {"silhouette_outputs", "silhouette out",
                                   "the silhouette of expert outputs, by angle, labelled by expert", 1, 1.0,
                                   4},
    [MT_COMPARE_RV_TOKEN] = {"rv_token", "rv token",
                             "1/N Σ_i 1/(n-1) Σ_j (P_ij - mean_j P_ij)²: the authors' code", 1, 1.0, 5},
    [MT_COMPARE_RV_EXPERT] = {"rv_expert", "rv expert",
                              "1/n Σ_j var_i(s_ij) of the weights after top-k: the paper's L_v", 1, 1.0, 5},
    [MT_COMPARE_ABS_COS] = {"abs_cos", "|cos|", "mean |cos| between two expert outputs of a token", -1, 1.0,
                            4},
    [MT_COMPARE_INFORMATION] = {"information", "information",
                                "nats that the expert tells about the domain; at most ln of their number", 1,
                                1.0, 4},
    [MT_COMPARE_GINI] = {"gini", "Gini", "Σ_ij |c_i - c_j| / (2 n Σ_j c_j) of the loads", -1, 1.0, 4},
    [MT_COMPARE_EFFECTIVE] = {"effective_experts", "experts a token",
                              "1 / mean over tokens and layers of Σ_j (s_ij / Σ_m s_im)²; at most k", 0, 1.0,
                              3},
    [MT_COMPARE_EXPERTS_90] = {"experts_90", "experts for 90 %",
                               "the fewest experts that serve 90 % of the slots, over n", 0, 1.0, 3},
    [MT_COMPARE_LOAD_MIN] = {"load_min", "min load", "min_j load_j / mean", 1, 1.0, 3},
    [MT_COMPARE_LOAD_MAX] = {"load_max", "max load", "max_j load_j / mean", -1, 1.0, 3},
    [MT_COMPARE_PATH_ENTROPY] = {"path_entropy", "path entropy",
                                 "-Σ_ab p_ab ln p_ab, p_ab: first choices a in a layer and b in the next", 0,
                                 1.0, 3},
    [MT_COMPARE_PATH_INFORMATION] = {"path_information", "path information",
                                     "Σ_ab p_ab ln(p_ab / (p_a p_b)); 0: layers choose independently", 0, 1.0,
                                     3},
    [MT_COMPARE_ROUTER_COS] = {"router_cos", "router cos", "mean over pairs of cos of the router's rows", 0,
                               1.0, 4},
    [MT_COMPARE_ROUTER_ABS_COS] = {"router_abs_cos", "router |cos|", "the same of |cos|", -1, 1.0, 4},
    [MT_COMPARE_ERC_DIAGONAL] =
        {"erc_diagonal", "ERC diagonal",
         "share of i with M_ii the largest of its row and column, M_ij = ‖R_i W_j‖ of "
         "the router's rows and the experts' gates",
         1, 1.0, 3},
    [MT_COMPARE_ERC_DOMINANCE] = {"erc_dominance", "ERC dominance", "mean M_ii / mean of the other M_ij", 1,
                                  1.0, 3},
    [MT_COMPARE_SAME_EXPERTS] = {"same_experts", "same experts %",
                                 "100 · tokens whose set of experts is that of weights as stored / tokens", 1,
                                 100.0, 2},
    [MT_COMPARE_SAME_SLOTS] = {"same_slots", "same slots %",
                               "100 · mean over tokens of |A ∩ B| / k, B of weights as stored", 1, 100.0, 2},
    [MT_COMPARE_MAXVIO_MIX] =
        {"maxvio_mix", "MaxVio mix",
         "MaxVio of Σ_d A_dj, A_dj: expert j's share of the slots of domain d, over all "
         "domains trained on together",
         -1, 1.0, 3},
    [MT_COMPARE_ENTROPY_MIX] = {"entropy_mix", "load entropy mix", "load entropy of the same", 1, 1.0, 3},
    [MT_COMPARE_LOAD_MIN_MIX] = {"load_min_mix", "min load mix", "min_j load_j / mean of the same", 1, 1.0,
                                 3},
    [MT_COMPARE_SECONDS] = {"seconds_per_step", "s/step", "median over steps of the seconds a step took", -1,
                            1.0, 4},
    [MT_COMPARE_PROCESSOR] = {"processor_seconds_per_step", "cpu s/step",
                              "median over steps of the processors' seconds, all together", -1, 1.0, 4},
    [MT_COMPARE_MEMORY] = {"memory_bytes", "memory MiB", "the most that was held while training", -1,
                           1.0 / (1 << 20), 0},
};

bool mt_compare_is_of_domain(enum mt_compare_figure figure)
{
    switch (figure) {
    case MT_COMPARE_ACCURACY_OTHERS:
    case MT_COMPARE_LOSS_OTHERS:
    case MT_COMPARE_INFORMATION:
    case MT_COMPARE_MAXVIO_MIX:
    case MT_COMPARE_ENTROPY_MIX:
    case MT_COMPARE_LOAD_MIN_MIX: return false;
    default: return !mt_compare_is_time(figure);
    }
}

bool mt_compare_is_time(enum mt_compare_figure figure)
{
    return figure == MT_COMPARE_SECONDS || figure == MT_COMPARE_PROCESSOR || figure == MT_COMPARE_MEMORY;
}

const struct mt_compare_figure_row *mt_compare_figure_row(enum mt_compare_figure figure)
{
    return &rows[figure];
}
