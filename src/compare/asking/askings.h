/*
 * What cells are asked with fewer experts: an asking is one way to do so, and every cell has its outcome by
 * domain. Settings list them: prune as a map (a score, whose data, how many stay), experts_per_token,
 * silence.
 *
 * Asked are held-out problems of every domain the cell was trained on, each with its own choice of experts.
 */
#ifndef MT_COMPARE_ASKINGS_H
#define MT_COMPARE_ASKINGS_H

#include "compare/settings/settings.h"

enum mt_asking_kind {
    MT_ASK_KEPT,   // prune: the best experts alone
    MT_ASK_SLOTS,  // experts_per_token: fewer a token
    MT_ASK_SILENT, // silence: none of the routed ones
    MT_ASK_KINDS
};

#define MT_ASKING_NAME_BYTES 48

struct mt_compare_asking {
    enum mt_asking_kind kind;
    enum mt_expert_score score; // of MT_ASK_KEPT, this and the next two
    enum mt_compare_by by;
    size_t keep;                     // place in settings.pruning.keep
    int64_t slots;                   // of MT_ASK_SLOTS
    char name[MT_ASKING_NAME_BYTES]; // "reap_own_25%", "2", "routed": one of its kind's
};

/* How many the settings list, and the one of a number: those of prune first, the amounts changing fastest,
 * then whose data, then the scores. */
size_t mt_compare_askings(const struct mt_compare_settings *settings);
struct mt_compare_asking mt_compare_asking(const struct mt_compare_settings *settings, size_t number);

/* The number of an asking of prune, by places in settings.pruning. */
size_t mt_compare_asking_kept(const struct mt_compare_settings *settings, size_t score, size_t by,
                              size_t keep);

/* The place of a way to choose in settings.pruning; settings.pruning.bys: it is not asked. */
size_t mt_compare_by_place(const struct mt_compare_settings *settings, enum mt_compare_by by);

/* "pruned", "experts_per_token", "silenced": keys of cell.json and compare.json. */
const char *mt_asking_key(enum mt_asking_kind kind);

/* A domain's held-out problems, asked so. */
struct mt_cell_answer {
    double accuracy, loss;
    double served; // of MT_ASK_KEPT: share of the slots of the domain's training data, mean over layers, that
                   // the experts kept serve where none is taken away; NaN of others
};

/* Outcome of an asking: NaN where it is not known, or of another kind. */
struct mt_cell_asked {
    struct mt_cell_answer mean; // over the domains
    double experts;             // that stay in a layer, or a token has
    double together;            // of MT_ASK_KEPT: experts that any of the domains keeps, mean over layers
    double jaccard; // of it: |A ∩ B| / |A ∪ B| of two domains' experts, mean over pairs and layers
    struct mt_cell_answer domain[MT_COMPARE_MOST_DOMAINS]; // as settings number them
};

#endif
