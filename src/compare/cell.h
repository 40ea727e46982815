/*
 * One cell of a comparison: a method trained on a domain with a seed, then measured. OUT/cells/NAME/run is
 * the training run, OUT/cells/NAME/cell.json what was measured, and inputs.json beside it what the files held
 * that it was made from; once cell.json is there, the cell is done and is read, not repeated.
 */
#ifndef MT_COMPARE_CELL_H
#define MT_COMPARE_CELL_H

#include "base/log.h"
#include "compare/figures.h"
#include "compare/settings.h"
#include "formats/fingerprint.h"

#define MT_COMPARE_MOST_POINTS 400 // of a cell's picture of tokens

/* A token in the plane of its layer's first two principal components. */
struct mt_cell_point {
    double x, y;
    int expert; // its first choice
};

struct mt_cell_result {
    bool known; // else it failed, or is still to come
    double figure[MT_COMPARE_FIGURES];
    double accuracy[MT_COMPARE_MOST_DOMAINS]; // of each domain, as settings number them
    double loss[MT_COMPARE_MOST_DOMAINS];
    size_t steps;
    double *maxvio; // [steps], in the arena: mean over layers, while training
    size_t points;
    struct mt_cell_point *point; // [points], in the arena
    int64_t point_layer;         // the layer whose inputs these are
};

struct mt_cell {
    size_t method, domain, seed; // places in the settings
    const char *name;            // METHOD-DOMAIN-sSEED
    const char *folder;          // OUT/cells/NAME
    struct mt_cell_result result;
    const char *failure; // a sentence; NULL: none
};

/* What all cells share. */
struct mt_cell_job {
    struct mt_context *ctx;
    const struct mt_compare_settings *settings;
    const char *device;       // what computes; borrowed
    const char *templates;    // folder of the chat templates that come along
    const struct mt_log *log; // borrowed
    struct mt_arena *arena;   // where results go
    int held;                 // OUT, while cells are run (base/files/folder_lock.h)
    bool signals;             // SIGINT, SIGTERM end training after the step at hand
    uint64_t stop_after;      // this step training is left, as by a signal; for tests. 0: never
    // After every step of training:
    void (*stepped)(void *self, uint64_t step, uint64_t steps);
    void *self;
};

/* The folder and name of a cell, in the arena. */
enum mt_status mt_cell_name(const struct mt_cell_job *job, struct mt_cell *cell);

/* Refuses settings of training that cannot be; *steps: how many there will be, 0: as the data says. */
enum mt_status mt_cell_check(const struct mt_cell_job *job, const struct mt_cell *cell, int64_t *steps);

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

/* Trains, measures, writes cell.json, and reads it back. *signal: what interrupted it, else 0; with
 * *interrupted nothing was measured. */
enum mt_status mt_cell_run(const struct mt_cell_job *job, struct mt_cell *cell, bool *interrupted,
                           int *signal);

/* Writes cell->result as cell.json; `identity`: checksum of the settings it was made under. */
enum mt_status mt_cell_file_write(const struct mt_cell_job *job, const struct mt_cell *cell,
                                  const char *identity);

/* Reads it, if it is there; refuses one of another identity. */
enum mt_status mt_cell_file_read(const struct mt_cell_job *job, struct mt_cell *cell, const char *identity);

/* Where a domain's problems lie: OUT/data for built-in ones. */
enum mt_status mt_cell_data(const struct mt_cell_job *job, const struct mt_compare_domain *domain, bool test,
                            const char **path);

#endif
