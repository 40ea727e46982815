/*
 * A comparison of methods: every method from every model on every domain with every seed, each cell trained,
 * measured and evaluated once, and what is seen across cells. `metier compare`.
 *
 *     mt_comparison_open     settings -> benchmarks and cells, of which those that are done are read
 *     mt_comparison_run      the others, one after the other
 *     mt_comparison_write    compare.json; page.h shows the same
 *     mt_comparison_close
 *
 * On many ranks all make these calls. Each takes every so-many-th of the cells that are not done, alone; what
 * comes out is in files, which the first rank reads when all are through.
 */
#ifndef MT_COMPARE_COMPARE_H
#define MT_COMPARE_COMPARE_H

#include <stdio.h>

#include "comm/comm.h"
#include "compare/cell.h"

#define MT_COMPARE_DEVICE_BYTES 64

/* What is looked at of a probe (struct mt_cell_probe). */
enum mt_probe_part {
    MT_PROBE_ACCURACY,
    MT_PROBE_LOSS,
    MT_PROBE_CHANGE, // its accuracy less that of the same cell as it was at the end, whole
    MT_PROBE_PARTS
};

/* Where a probe's numbers come from. */
enum mt_probe_source {
    MT_PROBE_PRUNED, // settings.prune as a list
    MT_PROBE_AT,     // settings.at
    MT_PROBE_ASKED,  // askings.h
    MT_PROBE_SPREAD, // an asking of prune by the domain's own data less the same by the mix
};

struct mt_compare_probe {
    enum mt_probe_source source;
    size_t place;                                     // of the source
    size_t other;                                     // MT_PROBE_SPREAD: the asking that is subtracted
    struct mt_compare_figure_row row[MT_PROBE_PARTS]; // how each part is called and shown
};

struct mt_comparison {
    struct mt_context *ctx;                     // borrowed
    const struct mt_compare_settings *settings; // borrowed
    struct mt_arena arena;
    struct mt_cell_job job;
    struct mt_comm *comm; // borrowed, or of this process alone
    bool own_comm;
    struct mt_compare_tasks tasks; // benchmarks: the columns beside the fixed figures
    struct mt_compare_figure_row task_row[MT_COMPARE_MOST_TASKS]; // how each is shown
    struct mt_task_judge judge;                                   // of their programs
    struct mt_compare_probe *probe; // [probes], in the arena: those of prune, of evaluate_at, then askings
    size_t probes;
    struct mt_cell *base; // [bases], in the arena: of each model, where there are benchmarks
    size_t bases;
    struct mt_cell *start; // [starts], in the arena: the models before training, model by model, domain by
                           // domain
    size_t starts;
    struct mt_cell *cell; // [cells], in the arena: seed by seed, model by model, domain by domain, method by
                          // method
    size_t cells;
    bool *mine;    // [jobs]: not done before this start, and for this rank or share to do
    size_t kept;   // of cells, bases and starts, done before this start
    size_t failed; // likewise
    size_t absent; // for other shares to do, and not done by the end
    int64_t steps; // of a cell; 0: as its data says
    char device[MT_COMPARE_DEVICE_BYTES]; // the cells are computed on, as OUT/device says; "": none is yet
};

struct mt_comparison_options {
    const char *templates;    // folder of the chat templates that come along; borrowed
    const char *tasks;        // folder of task files; borrowed; NULL: there are none
    const char *data;         // folder of the benchmarks' files, where the settings name none; NULL: none
    const struct mt_log *log; // borrowed
    const char *recipes;      // folder of the recipes that come along; NULL: no domain has one
    FILE *terminal;           // progress; borrowed; NULL: none
    struct mt_comm *comm;     // ranks that share the cells; borrowed; NULL: this process alone
    size_t share, shares; // of one rank: only every shares-th job, from number `share` (0, 1, ...) on, for
                          // programs that share the cells without ranks; shares 0: all
    bool signals;         // SIGINT, SIGTERM end it after the step at hand
    uint64_t stop_after;  // the first cell that is trained is left after this step; for tests. 0: never
};

/* Opens a caller-owned comparison, which stays where it is and is closed whatever the outcome. Settings of
 * training that cannot be, and benchmarks that are not there, are refused before anything is computed. */
enum mt_status mt_comparison_open(struct mt_context *ctx, const struct mt_compare_settings *settings,
                                  const struct mt_comparison_options *options,
                                  struct mt_comparison *comparison);
void mt_comparison_close(struct mt_comparison *comparison); // a zeroed struct is allowed

/*
 * Runs the cells that are not done, all of them on the device the first one was computed on. One that fails
 * is noted, the others go on, and it is tried once more when they are done. *interrupted: a signal (*signal)
 * or stop_after ended it. Where benchmarks run programs and that cannot be done here, nothing is begun.
 */
enum mt_status mt_comparison_run(struct mt_comparison *comparison,
                                 const struct mt_comparison_options *options, bool *interrupted, int *signal);

/*
 * Writes compare.json: settings, every cell's figures, what is seen across them (docs/compare.md). Numbers
 * that differ from run to run stand apart, in lines that begin with "times".
 */
enum mt_status mt_comparison_write(const struct mt_comparison *comparison, const char *path);

/* The cell of a model, a method, a domain and a seed, by their places. */
struct mt_cell *mt_comparison_cell(const struct mt_comparison *comparison, size_t model, size_t method,
                                   size_t domain, size_t seed);

/* The model before training, measured with a domain that is trained on. */
const struct mt_cell *mt_comparison_start(const struct mt_comparison *comparison, size_t model,
                                          size_t domain);

/* Lists what cells are asked besides the end of training (probe_list.c): part of opening. */
enum mt_status mt_comparison_list_probes(struct mt_comparison *comparison);

/* Reads OUT/device: what the cells that are there were computed on; "" where there is none. */
enum mt_status mt_comparison_read_device(struct mt_comparison *comparison);

/* Cells are compared with each other: all are computed on one device, by whatever command. Names it on the
 * terminal. */
enum mt_status mt_comparison_choose_device(struct mt_comparison *comparison);

/* Writes OUT/device. */
enum mt_status mt_comparison_note_device(const struct mt_comparison *comparison);

/* True when a job is this rank's or share's to run. */
bool mt_comparison_owns(const struct mt_comparison *comparison, size_t number);

/* True when a base or cell has figures. */
bool mt_comparison_any_known(const struct mt_comparison *comparison);

/*
 * Of a benchmark what a cell has, or else a base, for the form its texts had: one that was not put as it was
 * trained, if there is any. NULL: nobody was asked.
 */
const struct mt_cell_task *mt_comparison_form(const struct mt_comparison *comparison, size_t task);

/* Bases, starts and cells in one row, in the order they are run; [mt_comparison_jobs]. */
size_t mt_comparison_jobs(const struct mt_comparison *comparison);
struct mt_cell *mt_comparison_job(const struct mt_comparison *comparison, size_t number);

#endif
