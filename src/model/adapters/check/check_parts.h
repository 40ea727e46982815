/* Between the files that check adapters. */
#ifndef MT_MODEL_ADAPTERS_CHECK_PARTS_H
#define MT_MODEL_ADAPTERS_CHECK_PARTS_H

#include "model/adapters/check/check.h"

/* Fills the numbers of a pair whose shapes fit, and what is known of the order of its columns. */
enum mt_status mt_checked_measure(struct mt_checked_adapter *checked, struct mt_checked_pair *pair);

/* The order of all stacks together. */
void mt_checked_judge_order(struct mt_checked_adapter *checked);

/* Finds the base's module for a pair, and whether the shapes fit it. `modules` are the base's. */
struct mt_base_modules;
enum mt_status mt_checked_place(struct mt_checked_adapter *checked, const struct mt_base_modules *modules,
                                struct mt_checked_pair *pair);

/* The linear layers of the base, sorted by name. */
struct mt_base_module {
    const char *name;
    enum mt_model_part part;
    int64_t layer, expert, out, in;
};

struct mt_base_modules {
    struct mt_base_module *module; // in an arena
    size_t count;
};

enum mt_status mt_base_modules_list(struct mt_arena *arena, const struct mt_hf_config *config,
                                    struct mt_base_modules *modules);
const struct mt_base_module *mt_base_module_find(const struct mt_base_modules *modules, const char *name);

/* True for a pair of a stack. */
static inline bool mt_checked_is_stack(const struct mt_checked_pair *pair)
{
    return pair->kind == MT_CHECKED_GATE_UP || pair->kind == MT_CHECKED_DOWN;
}

#endif
