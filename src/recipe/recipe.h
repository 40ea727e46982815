/*
 * Recipes: training rows out of benchmarks' training splits. A recipe is a YAML file of share/recipes. Either
 * it is a source: the task whose prompt it uses, the file of the training split and what the answer looks
 * like; or a mixture of other recipes. docs/recipes.md has the keys.
 *
 * What is about the file (data, format, columns, fields, rows, id, subtasks) is the recipe's own; what is
 * about question and answer is the task's, unless the recipe has another prompt or answer.
 */
#ifndef MT_RECIPE_RECIPE_H
#define MT_RECIPE_RECIPE_H

#include "eval/tasks/task.h"

struct mt_recipe;

/* A part of a mixture. */
struct mt_recipe_part {
    const char *name;               // as the file has it
    const struct mt_recipe *recipe; // once it is resolved
    int64_t count;                  // rows; 0: as the weight says
    double weight;
};

/* All texts live in the arena the recipe was read with. The key of a field is its name. */
struct mt_recipe {
    const char *name; // of the file
    const char *file; // it was read from; NULL: from memory
    const char *title;
    int64_t count;              // rows at most; 0: all
    const char *const *against; // tasks with whose test questions rows may not overlap, besides those of the
                                // sources; NULL: none
    // A source.
    const char *task;        // NULL: prompt and response say all
    const char *const *data; // files below the folder of data: the first that is there
    enum mt_dataset_format format;
    const char *columns;
    const char *fields;
    const char *rows;
    const char *id;
    const char *const *subtasks; // instead of the task's; NULL: those
    const char *prompt;          // templates; NULL: the task's
    const char *answer;
    const char *response;
    enum mt_task_domain domain; // of a source without a task
    // A mixture.
    struct mt_recipe_part *sources; // NULL: it is none
    size_t source_count;
};

/* Every key of recipes, and those of a mixture's parts. */
extern const struct mt_keys mt_recipe_keys;

/*
 * Reads a recipe's file, or `text` where it is not NULL; its sources are not resolved. The end of `path`
 * names it.
 */
enum mt_status mt_recipe_read(struct mt_context *ctx, const char *path, const char *text, size_t bytes,
                              struct mt_arena *arena, struct mt_recipe *recipe);

/*
 * Reads the recipe a name stands for, and all that it is mixed of: a file (with a slash or ending in .yaml),
 * or NAME.yaml in `folder`. Parts of a mixture that is a file are looked for beside it first. A name nobody
 * has is refused with the nearest one, and so are mixtures that hold themselves, and sources that come twice.
 */
enum mt_status mt_recipe_resolve(struct mt_context *ctx, const char *folder, const char *name,
                                 struct mt_arena *arena, const struct mt_recipe **recipe);

/* The sources below a recipe, itself where it is one, in order. [*count], in the arena. */
enum mt_status mt_recipe_leaves(const struct mt_recipe *recipe, struct mt_arena *arena,
                                const struct mt_recipe *const **leaves, size_t *count);

/*
 * How many rows every source gives. `available` and `taken` are [leaves], in the order of mt_recipe_leaves;
 * `wanted` of the recipe, 0: what it says itself. Parts with a count get it first; the others share what is
 * left by their weights, and one that has less leaves the rest to them. A mixture that gets less than its
 * counts are in all shares it by them. Nobody gives more than there is. Weights where nothing is to be shared
 * are refused.
 */
enum mt_status mt_recipe_share(struct mt_context *ctx, const struct mt_recipe *recipe, int64_t wanted,
                               const int64_t *available, int64_t *taken);

#endif
