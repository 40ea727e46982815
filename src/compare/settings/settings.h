/*
 * What a comparison is told: one YAML file, then key=value words over it.
 *
 *     models: [models/one, {name: two, path: models/two}]
 *     out: build/compare
 *     methods: [aux, paper, {name: paper-strong, method: paper, objective.beta: 0.01}]
 *     seeds: [1, 2, 3]
 *     domains: [math, {name: law, train: law.jsonl, test: law-test.jsonl}, {name: both, of: [math, law]}]
 *     others: [code]
 *     tasks: [gsm8k, {task: mmlu, limit: 100}, {task: math500, max_tokens: [512, 1024]}]
 *     evaluation: {data: data, limit: 500}
 *     training: {steps: 100, lora.rank: 16}
 *
 * Every method is trained from every model on every domain with every seed: a cell each. What stands under
 * `training` are keys of `metier train`, the same for all; a method's own keys come over them. A table
 * (settings_keys.c) holds every key of the comparison itself.
 */
#ifndef MT_COMPARE_SETTINGS_H
#define MT_COMPARE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/expert_scores.h"
#include "compare/settings/words.h"

#define MT_COMPARE_MOST_METHODS 256 // with those of the grid
#define MT_COMPARE_MOST_SEEDS   64
#define MT_COMPARE_MOST_DOMAINS 16
#define MT_COMPARE_MOST_GRID    16 // values of one axis
#define MT_COMPARE_MOST_MODELS  16
#define MT_COMPARE_MOST_TASKS   64 // each budget of tokens counts
#define MT_COMPARE_MOST_BUDGETS 8
#define MT_COMPARE_MOST_PROBES  16 // of each kind

struct mt_compare_model {
    const char *name; // fit for a file name
    const char *path;
};

struct mt_compare_method {
    const char *name; // fit for a file name
    struct mt_compare_words words;
    bool in_grid;              // made by the grid
    double alpha, beta, gamma; // of the grid's
};

struct mt_compare_domain {
    const char *name;         // fit for a file name
    const char *train;        // a file; NULL: rows of the recipe, or built-in problems
    const char *recipe;       // makes what is trained on (docs/recipes.md); NULL: none
    const char *test;         // NULL: built-in problems; of a file or a recipe a share of it (mt_cell_data)
    bool trained;             // else only measured
    bool mix;                 // trained on its parts at once; it has no rows of its own
    const char *const *tasks; // entries its cells are evaluated with, NULL at the end; NULL: all of them
    size_t part[MT_COMPARE_MOST_DOMAINS];   // of a mix the places of its parts, else its own
    double weight[MT_COMPARE_MOST_DOMAINS]; // how often an epoch draws each row of a part
    size_t parts;
    const struct mt_compare_domain *of; // while it is read: [parts], as the mix names them
    size_t weights;                     // while it is read: of those that were given
};

/* True where rows of the domain's own are parted into what is trained on and what is held out. */
static inline bool mt_compare_divides(const struct mt_compare_domain *domain)
{
    return domain->trained && domain->test == NULL && (domain->train != NULL || domain->recipe != NULL);
}

/* True where the domain has training data of its own, which scores of experts can come from. */
static inline bool mt_compare_has_rows(const struct mt_compare_domain *domain)
{
    return domain->trained && !domain->mix;
}

/* True where the rows that the domain is trained on are drawn, and not a file's as it stands. */
static inline bool mt_compare_draws(const struct mt_compare_domain *domain)
{
    return domain->trained && !domain->mix && domain->train == NULL;
}

/* How many tokens an answer may have: one column of the tables each. */
struct mt_compare_budgets {
    int64_t tokens[MT_COMPARE_MOST_BUDGETS];
    size_t count; // 0: as the task says
};

/* An entry of `tasks`, or what those have that do not say themselves. */
struct mt_compare_entry {
    const char *name;     // of the column, fit for a file name
    const char *task;     // what metier eval is asked for: a task, a family, a group, a file
    int64_t limit;        // questions at most, spread over its parts; 0: all
    int64_t shots;        // examples before each; -1: as the task says
    const char *template; // NULL: as in training
    struct mt_compare_budgets budgets;
    bool own_budgets; // it has said so itself
};

struct mt_compare_axis {
    double value[MT_COMPARE_MOST_GRID];
    size_t count; // 0: as the method has it
};

/* When, or with how much taken away, cells are asked their problems besides the end of training. */
struct mt_compare_probes {
    int64_t value[MT_COMPARE_MOST_PROBES];
    size_t count;
};

/* Whose training data says which experts are kept, in the order of the key's words. */
enum mt_compare_by {
    MT_COMPARE_BY_OWN,   // the domain's that is asked
    MT_COMPARE_BY_MIX,   // equal shares of all domains that are trained on
    MT_COMPARE_BY_OTHER, // the domain's that comes next in the list, after the last the first
    MT_COMPARE_BYS,
};

/* Cells asked again with few experts of every layer, the best by a score: prune as a map. */
struct mt_compare_pruning {
    const char *keep[MT_COMPARE_MOST_PROBES]; // "8", "25%": as given; models have different numbers
    size_t keeps;                             // 0: prune is no map
    enum mt_expert_score score[MT_EXPERT_SCORES];
    size_t scores;
    enum mt_compare_by by[MT_COMPARE_BYS];
    size_t bys;
    int64_t rows;     // of a domain, for its scores
    int64_t mix_rows; // of each domain, for those of the mix
};

struct mt_compare_grid {
    const char *method;
    struct mt_compare_axis alpha, beta, gamma;
};

/* What stays of a cell once it is complete, in the order of the key's words. */
enum mt_compare_keep {
    MT_COMPARE_KEEP_RUNS,
    MT_COMPARE_KEEP_FIGURES, // cell.json and what was answered, not the adapter
};

/* When the rows that cells are trained on are drawn, in the order of the key's words. */
enum mt_compare_draw {
    MT_COMPARE_DRAW_ONCE, // for all cells
    MT_COMPARE_DRAW_SEED, // anew for each seed; all methods of a seed share them
};

/* What ranks of mpirun do, in the order of the key's words. */
enum mt_compare_ranks {
    MT_COMPARE_RANKS_SHARE, // each its part of the cells, alone
    MT_COMPARE_RANKS_EACH,  // all of them one cell after the other, together
};

/* All texts live in the arena the settings were read with. The key of a field is at its right. */
struct mt_compare_settings {
    const char *file;      // where they come from, for messages
    const char *out;       // out
    const char *reference; // reference: the method others are held against; must be among them
    struct mt_compare_model model[MT_COMPARE_MOST_MODELS]; // model, models
    size_t models;
    struct mt_compare_method method[MT_COMPARE_MOST_METHODS]; // methods, then the grid's
    size_t methods;
    uint64_t seed[MT_COMPARE_MOST_SEEDS]; // seeds
    size_t seeds;
    // domains, then parts of mixes that are not among them, then others
    struct mt_compare_domain domain[MT_COMPARE_MOST_DOMAINS];
    size_t domains, trained;                              // the first `trained` have cells
    struct mt_compare_entry entry[MT_COMPARE_MOST_TASKS]; // tasks; compare/tasks.h has what they stand for
    size_t entries;
    struct mt_compare_entry asking;        // evaluation.limit, .shots, .template, .max_tokens
    const char *data;                      // evaluation.data; NULL: nobody said
    int64_t context;                       // evaluation.context; 0: chosen
    bool skip_missing;                     // evaluation.skip_missing
    struct mt_compare_words training;      // training
    struct mt_compare_words training_over; // those of them that were given as words over the file
    bool methods_over;                     // methods was
    struct mt_compare_grid grid;           // grid; method NULL: none
    struct mt_compare_probes prune;        // prune: experts taken away in every layer; or
    struct mt_compare_pruning pruning;     // the same as a map: experts kept
    struct mt_compare_probes slots;        // experts_per_token: fewer than the model has
    bool silence;                          // silence: without the routed experts, too
    struct mt_compare_probes at;           // evaluate_at: steps of training; 0: before the first
    int64_t train_problems;                // problems.train: also rows a recipe is asked for
    int64_t test_problems;                 // problems.test
    int64_t problem_seed;                  // problems.seed
    enum mt_compare_draw draw;             // problems.draw
    bool allow_read_rows;                  // allow_read_rows
    int64_t difficulty;                    // problems.difficulty
    int64_t sample;                        // analysis.sample
    int64_t neighbours;                    // analysis.neighbours
    bool agreement;                        // analysis.agreement
    const char *device;                    // device
    int64_t threads;                       // threads
    enum mt_compare_ranks ranks;           // ranks
    enum mt_compare_keep keep;             // keep
};

/*
 * Reads a file, or `text` where it is not NULL, and the words over it; `path` stands in messages. Refuses as
 * "FILE:LINE: ..." with the nearest valid key.
 */
enum mt_status mt_compare_settings_read(struct mt_context *ctx, const char *path, const char *text,
                                        size_t bytes, const char *const *words, size_t word_count,
                                        struct mt_arena *arena, struct mt_compare_settings *settings);

extern const struct mt_keys mt_compare_keys;

/*
 * What cells of a domain are trained and measured on: the parts of a mix, else the domain itself. Places in
 * settings->domain, [*count]; none of them is a mix. The one place that says so.
 */
const size_t *mt_compare_parts(const struct mt_compare_settings *settings, size_t domain, size_t *count);

/* True when `part` is one of them. */
bool mt_compare_is_part(const struct mt_compare_settings *settings, size_t domain, size_t part);

/* True when a domain that is trained on is a mix. */
bool mt_compare_has_mix(const struct mt_compare_settings *settings);

/* True when cells of a domain are evaluated with an entry. */
bool mt_compare_asks(const struct mt_compare_domain *domain, const struct mt_compare_entry *entry);

/* "own", "mix", "other". */
const char *mt_compare_by_name(enum mt_compare_by by);

/* The place of the reference among the methods. */
size_t mt_compare_reference(const struct mt_compare_settings *settings);

#endif
