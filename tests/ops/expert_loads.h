/*
 * Rows of experts in cases: how many each has, and which experts have no matrix. A case's first numbers say
 * so; without experts it is dense: one matrix, no offsets.
 */
#ifndef MT_TESTS_EXPERT_LOADS_H
#define MT_TESTS_EXPERT_LOADS_H

#include "ops/op_case.h"

#define MOST_EXPERTS 128

enum load {
    LOAD_EVEN,
    LOAD_UNEVEN,      // a few busy experts, some tiny, some empty
    LOAD_ONE,         // everything on the last but one
    LOAD_NONE,        // no rows belong to anyone
    LOAD_NEARLY_EVEN, // within a third of each other: a router that is balanced
};

enum absent {
    ABSENT_NONE,
    ABSENT_SOME, // the first and every third after it
    ABSENT_ALL,
};

static const char *const absent_names[] = {"", " some absent", " all absent"};

enum { EXPERTS, LOAD, ABSENT, EXPERT_PARAMS }; // of a case's param

static const char *const load_names[] = {"even", "uneven", "one", "none", "nearly even"};

/* Shares that fall steeply, every eighth expert left empty: like a router early in training. */
static inline double share_of(enum load load, int e, int experts)
{
    switch (load) {
    case LOAD_EVEN: return 1.0;
    case LOAD_UNEVEN: return e % 8 == 5 ? 0.0 : 1.0 / (1.0 + (double)((e * 37 + 11) % experts));
    case LOAD_ONE: return e == (experts > 1 ? experts - 2 : 0) ? 1.0 : 0.0;
    case LOAD_NONE: return 0.0;
    case LOAD_NEARLY_EVEN: return 1.0 + 0.3 * (double)((e * 37 + 11) % experts) / (double)experts;
    }
    return 0.0;
}

/* offsets [experts + 1] of so many rows. */
static inline void fill_offsets(enum load load, int experts, int64_t rows, int32_t *offsets)
{
    double total = 0.0;
    double before = 0.0;
    for (int e = 0; e < experts; e++) total += share_of(load, e, experts);
    offsets[0] = 0;
    for (int e = 0; e < experts; e++) {
        before += share_of(load, e, experts);
        offsets[e + 1] = total > 0.0 ? (int32_t)((double)rows * before / total + 0.5) : 0;
    }
}

static inline void case_experts(struct op_case *c, int experts, enum load load, enum absent absent)
{
    c->param[EXPERTS] = experts;
    c->param[LOAD] = load;
    c->param[ABSENT] = absent;
}

static inline int experts_of(const struct op_case *c)
{
    return c->param[EXPERTS] > 0 ? (int)c->param[EXPERTS] : 1;
}

static inline int case_offsets(struct op_case *c)
{
    return case_index(c, "offsets", 1, (int64_t[]){experts_of(c) + 1});
}

static inline void fill_offsets_of(const struct op_case *c, int64_t rows, struct mt_tensor *offsets)
{
    fill_offsets((enum load)c->param[LOAD], experts_of(c), rows, offsets->data);
}

/* What an op is given of them. */
static inline struct mt_tensor offsets_of(const struct op_case *c, const struct mt_tensor *offsets)
{
    return c->param[EXPERTS] > 0 ? *offsets : (struct mt_tensor){0};
}

/* A slot of small matrices, [n, rows, columns], one after the other. */
static inline int case_matrices(struct op_case *c, const char *name, enum slot_role role, enum mt_dtype type,
                                const int64_t dims[3])
{
    int slot = case_slot(c, name, role, type, 3, dims);
    c->slot[slot].scale = 0.1;
    c->slot[slot].fill = FILL_REPEATED;
    return slot;
}

/* Such a slot's matrices, some of which may be left out. */
static inline void expert_views(enum absent absent, const struct mt_tensor *stacked,
                                struct mt_tensor view[MOST_EXPERTS])
{
    for (int64_t e = 0; e < stacked->dim[0]; e++) {
        bool left_out = absent == ABSENT_ALL || (absent == ABSENT_SOME && e % 3 == 0);
        view[e] = mt_tensor_at(stacked, e);
        if (left_out) view[e].rank = 0;
    }
}

/* Random bits for masks: which they are does not matter, those beyond the columns included. */
static inline void fill_mask(struct mt_tensor *mask)
{
    uint32_t state = 12345;
    for (int64_t row = 0; row < mask->dim[0]; row++) {
        for (int64_t w = 0; w < mask->dim[1]; w++) {
            state = state * 1664525u + 1013904223u;
            ((uint32_t *)mask->data)[row * mask->stride[0] + w] = state ^ state >> 13;
        }
    }
}

/* Those the case leaves out. */
static inline void views_of(const struct op_case *c, const struct mt_tensor *stacked,
                            struct mt_tensor view[MOST_EXPERTS])
{
    expert_views((enum absent)c->param[ABSENT], stacked, view);
}

#endif
