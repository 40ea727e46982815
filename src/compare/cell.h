/*
 * One cell of a comparison: a method trained from a model on a domain with a seed, then measured, then
 * evaluated with every benchmark. OUT/cells/NAME/run is the training run, OUT/cells/NAME/eval/TASK what
 * metier eval writes of a benchmark, OUT/cells/NAME/cell.json what came out, and inputs.json beside it what
 * the files held that it was made from. cell.json is there once the cell is trained and measured, and is
 * written again after every benchmark: what it has is not repeated.
 *
 * A base is a cell without training: the model as it is, evaluated with every benchmark. A start is the model
 * before the first step, measured like a cell: one for each domain that is trained on. Tables show both as
 * one row, `base`.
 */
#ifndef MT_COMPARE_CELL_H
#define MT_COMPARE_CELL_H

#include <stdio.h>

#include "base/log.h"
#include "comm/comm.h"
#include "compare/asking/askings.h"
#include "compare/figures.h"
#include "compare/settings/settings.h"
#include "compare/tasks.h"
#include "eval/run/task_judge.h"
#include "formats/fingerprint.h"

#define MT_COMPARE_MOST_POINTS 400 // of a cell's picture of tokens

/* A token in the plane of its layer's first two principal components. */
struct mt_cell_point {
    double x, y;
    int expert; // its first choice
};

/* What came of a benchmark. */
struct mt_cell_task {
    bool known;
    double value;     // the task's own metric, or the mean over its parts
    double low, high; // 95 % interval over questions
    size_t samples;
    const char *form;  // that its texts had, and why; NULL: not known
    bool form_differs; // from the one the cell was trained in
};

/* Held-out problems of what it was trained on, asked besides the end of training; means over its parts. */
struct mt_cell_probe {
    double accuracy, loss; // NaN: not known
};

struct mt_cell_result {
    bool known;    // trained and measured; else it failed, or is still to come
    bool complete; // and evaluated with every benchmark
    double took;   // seconds so far, without those that a kill made void; for --dry-run
    struct mt_cell_task task[MT_COMPARE_MOST_TASKS]; // as the comparison numbers them
    double figure[MT_COMPARE_FIGURES]; // of a mix the means over its parts, where a figure is of a domain
    // The same of each domain it was trained on, as settings number them; NaN: not of a domain, or of another
    double by_domain[MT_COMPARE_MOST_DOMAINS][MT_COMPARE_FIGURES];
    double accuracy[MT_COMPARE_MOST_DOMAINS]; // of each domain, likewise; of a mix the mean over its parts
    double loss[MT_COMPARE_MOST_DOMAINS];
    struct mt_cell_probe pruned[MT_COMPARE_MOST_PROBES]; // as settings.prune has them
    struct mt_cell_probe at[MT_COMPARE_MOST_PROBES];     // as settings.at
    struct mt_cell_asked *asked; // [mt_compare_askings], in the arena; NULL: nothing is asked
    size_t steps;
    double *maxvio;        // [steps], in the arena: mean over layers, while training
    double *training_loss; // [steps], in the arena: L_h of each step
    size_t experts;
    double *share; // [domains, experts], in the arena: of a domain's slots in the last MoE layer, an
                   // expert's; of a mix the mean over its parts
    size_t points;
    struct mt_cell_point *point; // [points], in the arena
    int64_t point_layer;         // the layer whose inputs these are
};

struct mt_cell {
    bool base;                          // no training: only `model` counts
    bool start;                         // no training: measured at once; `method` does not count
    size_t model, method, domain, seed; // places in the settings
    const char *name;                   // METHOD-DOMAIN-sSEED; of several models MODEL-METHOD-...
    const char *folder;                 // OUT/cells/NAME
    struct mt_cell_result result;
    const char *failure; // a sentence; NULL: none
};

/* What all cells share. */
struct mt_cell_job {
    struct mt_context *ctx;
    const struct mt_compare_settings *settings;
    const char *device;                   // what computes; borrowed
    const char *templates;                // folder of the chat templates that come along
    const char *data;                     // folder of the benchmarks' files
    const char *task_files, *recipes;     // folders of the task files and recipes that come along
    FILE *terminal;                       // what a recipe gave is told there; NULL: nobody listens
    const struct mt_compare_tasks *tasks; // borrowed
    struct mt_task_judge *judge;          // of their programs; borrowed
    const struct mt_log *log;             // borrowed
    struct mt_arena *arena;               // where results go
    int64_t threads;                      // of this process; 0: as many as the machine has
    struct mt_comm *ranks;                // that train every cell together; NULL: this process alone
    int held;                             // OUT, while cells are run (base/files/folder_lock.h)
    bool signals;                         // SIGINT, SIGTERM end training after the step at hand
    uint64_t stop_after;                  // this step training is left, as by a signal; for tests. 0: never
    // After every step of training, and while questions of a benchmark are answered:
    void (*stepped)(void *self, uint64_t step, uint64_t steps);
    void (*asked)(void *self, size_t task, size_t done, size_t questions);
    void *self;
};

/* True when the cell is evaluated with a benchmark: all with a base, none with a start, else what its domain
 * asks for. */
bool mt_cell_asks(const struct mt_cell_job *job, const struct mt_cell *cell, size_t task);

/* The folder and name of a cell, in the arena. */
enum mt_status mt_cell_name(const struct mt_cell_job *job, struct mt_cell *cell);

/* The settings a cell is trained with; texts are in the arena. */
struct mt_train_settings;
enum mt_status mt_cell_training(const struct mt_cell_job *job, const struct mt_cell *cell,
                                struct mt_arena *arena, struct mt_train_settings *training);

/* A checksum of all that was said about the cell; what the files named in it hold is noted beside it. How
 * benchmarks are asked is noted with each of them. Texts are in the arena. */
enum mt_status mt_cell_identify(const struct mt_cell_job *job, const struct mt_cell *cell,
                                struct mt_arena *arena, struct mt_digest_text *identity);

/* Refuses settings of training that cannot be; *steps: how many there will be, 0: as the data says. */
enum mt_status mt_cell_check(const struct mt_cell_job *job, const struct mt_cell *cell, int64_t *steps);

/* Notes everything the cell is trained on, what its experts are chosen by, and what it is measured on. */
enum mt_status mt_cell_add_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  const struct mt_train_settings *training, struct mt_fingerprint *inputs);

/*
 * Refuses a cell that is done when the files it was made from hold something else now; those that are gone do
 * not matter any more. `inputs` collects checksums over all cells, so that each file is read once. *known:
 * the cell says what they held.
 */
enum mt_status mt_cell_check_inputs(const struct mt_cell_job *job, const struct mt_cell *cell,
                                    struct mt_fingerprint *inputs, bool *known);

/*
 * Refuses a key of the objective that all cells are given and none has a use for. `cells`: one of each
 * method, all of them checked.
 */
enum mt_status mt_cell_check_shared(const struct mt_cell_job *job, const struct mt_cell *cells, size_t count);

/* Reads cell.json if it is there; refuses one that was made under other settings. */
enum mt_status mt_cell_read(const struct mt_cell_job *job, struct mt_cell *cell);

/* The same status on all ranks that train a cell together, the worst; of this process alone its own. */
enum mt_status mt_cell_agree(const struct mt_cell_job *job, enum mt_status status);

/*
 * Trains, measures, evaluates, as far as that is not done; writes cell.json, and reads it back. *signal: what
 * interrupted it, else 0; with *interrupted it is not complete. Ranks that train together all call it, and
 * get the same status; the first of them evaluates and writes (cell_run.c).
 */
enum mt_status mt_cell_run(const struct mt_cell_job *job, struct mt_cell *cell, bool *interrupted,
                           int *signal);

/* cell->failure as OUT/cells/NAME/failure.txt, for other ranks; without one the file is removed, or none is
 * read. */
enum mt_status mt_cell_failure_write(const struct mt_cell_job *job, const struct mt_cell *cell);
enum mt_status mt_cell_failure_read(const struct mt_cell_job *job, struct mt_cell *cell);

/* Writes cell->result as cell.json; `identity`: checksum of the settings it was made under. */
enum mt_status mt_cell_file_write(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  const char *identity);

/* Reads it, if it is there; refuses one of another identity. */
enum mt_status mt_cell_file_read(const struct mt_cell_job *job, struct mt_cell *cell, const char *identity);

/*
 * Evaluates with the benchmarks that are not done, and writes cell.json after each. `training`: the settings
 * of the run that made what is evaluated; of a base its template counts. All ranks of the cell call it, share
 * the samples and, as in training, the experts.
 */
enum mt_status mt_cell_evaluate(const struct mt_cell_job *job, struct mt_cell *cell,
                                const struct mt_train_settings *training, const char *identity,
                                bool *interrupted, int *signal);

/*
 * Where the rows of a domain lie, which is none of several: what it is measured with, and what cells of a
 * seed are trained on (its place in the settings). OUT/data for built-in problems, and for the parts of a
 * file that is divided into training and test. The one place that decides it.
 */
enum mt_status mt_cell_test_data(const struct mt_cell_job *job, size_t domain, const char **path);
enum mt_status mt_cell_train_data(const struct mt_cell_job *job, size_t domain, size_t seed,
                                  const char **path);

#endif
