/* Problems of a comparison, and rows that its models have read. */
#include "compare/prepare.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "formats/data/dataset.h"
#include "synth/synth.h"
#include "text/row_identity.h"

#define HELD_OUT_ONE_IN 10
#define PATH_BYTES      4096

// ------------------------------------------------------------------ rows that models have read

/* Adds those of all models; nothing where they are allowed. */
static enum mt_status add_read_rows(const struct mt_cell_job *job, struct mt_row_hashes *rows)
{
    const struct mt_compare_settings *settings = job->settings;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->models && status == MT_OK && !settings->allow_read_rows; i++) {
        bool present = false;
        status = mt_row_hashes_read_model(rows, settings->model[i].path, &present);
    }
    return status;
}

static enum mt_status check_file(const struct mt_comparison *comparison, const struct mt_row_hashes *rows,
                                 const char *model, const char *path)
{
    struct mt_rows_known found;
    enum mt_status status = mt_row_hashes_count(rows, path, &found);
    if (status != MT_OK || found.known == 0) return status;
    return mt_fail(comparison->ctx, MT_ERR_USAGE,
                   "%s: %" PRIu64 " of %" PRIu64
                   " rows have already been read by the model %s (its " MT_ROWS_READ_FILE
                   "), the first in line %" PRIu64 ": '%s'; leave them out (metier synth --exclude, metier "
                   "recipe --exclude), or set allow_read_rows: true",
                   path, found.known, found.rows, model, found.line, found.example.text);
}

/* What cells of a domain and a seed are trained on, part by part. */
static enum mt_status check_parts(const struct mt_comparison *comparison, const struct mt_row_hashes *rows,
                                  const struct mt_cell *cell, bool given, bool *checked)
{
    const struct mt_compare_settings *settings = comparison->settings;
    size_t count = 0;
    const size_t *parts = mt_compare_parts(settings, cell->domain, &count);
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        const struct mt_compare_domain *domain = &settings->domain[parts[i]];
        bool by_seed = settings->draw == MT_COMPARE_DRAW_SEED && mt_compare_draws(domain);
        bool *done = &checked[parts[i] * settings->seeds + (by_seed ? cell->seed : 0)];
        // Of a file that is divided what is held out counts as well.
        const char *path = given ? domain->train : NULL;
        if (*done || (given && path == NULL) || (!given && domain->train != NULL)) continue;
        *done = true;
        if (!given) status = mt_cell_train_data(&comparison->job, parts[i], cell->seed, &path);
        if (status == MT_OK && access(path, F_OK) == 0)
            status = check_file(comparison, rows, settings->model[cell->model].path, path);
    }
    return status;
}

static enum mt_status check_model(const struct mt_comparison *comparison, size_t model, bool given)
{
    const struct mt_compare_settings *settings = comparison->settings;
    struct mt_row_hashes rows = {.ctx = comparison->ctx};
    size_t bytes = settings->domains * settings->seeds;
    void *checked = NULL;
    bool present = false;
    enum mt_status status = mt_row_hashes_read_model(&rows, settings->model[model].path, &present);
    if (status == MT_OK && present) status = mt_allocate_array(comparison->ctx, bytes, 1, &checked);
    for (size_t i = 0; i < comparison->cells && status == MT_OK && present; i++) {
        const struct mt_cell *cell = &comparison->cell[i];
        if (cell->model == model && !cell->result.known)
            status = check_parts(comparison, &rows, cell, given, checked);
    }
    mt_release(comparison->ctx, checked, bytes);
    mt_row_hashes_free(&rows);
    return status;
}

enum mt_status mt_read_rows_check(const struct mt_comparison *comparison, bool given)
{
    const struct mt_compare_settings *settings = comparison->settings;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < settings->models && status == MT_OK && !settings->allow_read_rows; i++)
        status = check_model(comparison, i, given);
    return status;
}

// ------------------------------------------------------------------ problems

/* What is written, and what is drawn by nobody. */
struct preparing {
    const struct mt_cell_job *job;
    struct mt_row_hashes read; // rows that a model has read
};

// ------------------------------------------------------------------ files of built-in problems

/* What rows are drawn by that cells of a seed are trained on. */
static uint64_t drawn_by(const struct mt_compare_settings *settings, size_t seed)
{
    uint64_t own = settings->draw == MT_COMPARE_DRAW_SEED ? settings->seed[seed] : 0;
    return (uint64_t)settings->problem_seed + own;
}

static enum mt_status write_problems(const struct preparing *preparing, const char *domain,
                                     enum mt_synth_split split, uint64_t seed, const char *path)
{
    const struct mt_cell_job *job = preparing->job;
    const struct mt_compare_settings *settings = job->settings;
    bool train = split == MT_SYNTH_TRAIN;
    struct mt_synth_options options = {.split = split,
                                       .seed = seed,
                                       .difficulty = (int)settings->difficulty,
                                       .exclude = train ? &preparing->read : NULL};
    struct mt_synth *source = NULL;
    struct mt_file_writer writer = {0};
    if (access(path, F_OK) == 0) return MT_OK;
    if (!mt_synth_domain(domain, &options.domain))
        return mt_fail(job->ctx, MT_ERR_INTERNAL, "%s is not a built-in domain", domain);
    enum mt_status status = mt_synth_create(job->ctx, &options, &source);
    if (status == MT_OK) status = mt_file_writer_open(job->ctx, path, &writer);
    int64_t count = train ? settings->train_problems : settings->test_problems;
    if (status == MT_OK) status = mt_synth_write_rows(job->ctx, &source, 1, count, &writer);
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    if (status == MT_OK && mt_synth_excluded(source) > 0 && job->terminal != NULL)
        (void)fprintf(job->terminal,
                      "%s: %zu of %" PRId64 " drawn rows were replaced: a model has read them\n", path,
                      mt_synth_excluded(source), count + (int64_t)mt_synth_excluded(source));
    mt_file_writer_abandon(&writer);
    mt_synth_free(source);
    return status;
}

// ------------------------------------------------------------------ a file that is divided

/*
 * Rows for the test: one in HELD_OUT_ONE_IN, spread evenly over the file, and no more than problems.test; the
 * others are trained on.
 */
static bool is_held_out(uint64_t row, uint64_t rows, int64_t most)
{
    uint64_t count = rows / HELD_OUT_ONE_IN;
    if (count > (uint64_t)most) count = (uint64_t)most;
    if (count == 0 || rows == 0) return false;
    // The first row of every one of `count` equal stretches.
    return row == 0 || row * count / rows != (row - 1) * count / rows;
}

static enum mt_status write_part(const struct mt_cell_job *job, const char *path,
                                 const struct mt_dataset *rows, bool test)
{
    struct mt_file_writer writer = {0};
    struct mt_row row;
    uint64_t count = mt_dataset_rows(rows);
    if (access(path, F_OK) == 0) return MT_OK;
    mt_row_init(job->ctx, &row);
    enum mt_status status = mt_file_writer_open(job->ctx, path, &writer);
    for (uint64_t i = 0; i < count && status == MT_OK; i++) {
        if (is_held_out(i, count, job->settings->test_problems) != test) continue;
        status = mt_dataset_read(rows, i, &row);
        if (status == MT_ERR_FORMAT) { // the row's own failure
            mt_log_warning(job->log, "%s; left out", job->ctx->message);
            status = MT_OK;
            continue;
        }
        if (status == MT_OK) status = mt_file_writer_write(&writer, row.source, row.source_bytes);
        if (status == MT_OK) status = mt_file_writer_write(&writer, "\n", 1);
    }
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    mt_row_free(&row);
    return status;
}

/* `from`: its rows; the part that is trained on is left out where train is NULL. */
static enum mt_status divide(const struct mt_cell_job *job, const char *domain, const char *from,
                             const char *test, const char *train)
{
    struct mt_dataset *rows = NULL;
    const struct mt_dataset_options options = {0};
    enum mt_status status = mt_dataset_open(job->ctx, from, &options, &rows);
    if (status == MT_OK && !mt_dataset_has_lines(rows))
        status = mt_fail(job->ctx, MT_ERR_USAGE,
                         "%s: only a file of JSONL, Parquet or Arrow can be divided into training and test; "
                         "give the domain %s a "
                         "test: FILE",
                         from, domain);
    if (status == MT_OK && mt_dataset_rows(rows) < HELD_OUT_ONE_IN)
        status = mt_fail(job->ctx, MT_ERR_USAGE, "%s: has fewer than %d rows, too few to hold some out", from,
                         HELD_OUT_ONE_IN);
    if (status == MT_OK) status = write_part(job, test, rows, true);
    if (status == MT_OK && train != NULL) status = write_part(job, train, rows, false);
    mt_dataset_close(rows);
    return status;
}

// ------------------------------------------------------------------ what domains are trained on

/* Rows of a recipe, of which some are held out. Where each seed draws its own, it draws none of these. */
static enum mt_status write_held_out(const struct preparing *preparing, size_t number)
{
    const struct mt_cell_job *job = preparing->job;
    const struct mt_compare_settings *settings = job->settings;
    const struct mt_compare_domain *domain = &settings->domain[number];
    bool by_seed = settings->draw == MT_COMPARE_DRAW_SEED && domain->recipe != NULL;
    char rows[PATH_BYTES];
    const char *train = NULL;
    const char *test = NULL;
    enum mt_status status = mt_cell_test_data(job, number, &test);
    if (status == MT_OK && !by_seed) status = mt_cell_train_data(job, number, 0, &train);
    if (status != MT_OK) return status;
    if (domain->recipe == NULL) return divide(job, domain->name, domain->train, test, train);
    int length = snprintf(rows, sizeof rows, "%s/data/rows-%s.jsonl", settings->out, domain->name);
    if (length < 0 || (size_t)length >= sizeof rows)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", settings->out);
    status =
        mt_comparison_write_recipe(job, domain, (uint64_t)settings->problem_seed, &preparing->read, rows);
    return status == MT_OK ? divide(job, domain->name, rows, test, train) : status;
}

/* Rows of a recipe for one seed: none that a model has read, none that is held out. */
static enum mt_status draw_recipe(const struct preparing *preparing, size_t number, uint64_t seed,
                                  const char *path)
{
    const struct mt_cell_job *job = preparing->job;
    const struct mt_compare_domain *domain = &job->settings->domain[number];
    struct mt_row_hashes exclude = {.ctx = job->ctx};
    const char *test = NULL;
    if (access(path, F_OK) == 0) return MT_OK;
    if (!mt_compare_divides(domain))
        return mt_comparison_write_recipe(job, domain, seed, &preparing->read, path);
    enum mt_status status = mt_cell_test_data(job, number, &test);
    if (status == MT_OK) status = mt_row_hashes_add_file(&exclude, test);
    if (status == MT_OK) status = add_read_rows(job, &exclude);
    if (status == MT_OK) status = mt_comparison_write_recipe(job, domain, seed, &exclude, path);
    mt_row_hashes_free(&exclude);
    return status;
}

/* What the domain is trained on, as far as it is not a file as it stands. */
static enum mt_status write_training(const struct preparing *preparing, size_t number)
{
    const struct mt_compare_settings *settings = preparing->job->settings;
    const struct mt_compare_domain *domain = &settings->domain[number];
    bool by_seed = settings->draw == MT_COMPARE_DRAW_SEED;
    enum mt_status status = mt_compare_divides(domain) ? write_held_out(preparing, number) : MT_OK;
    if (domain->train != NULL || (mt_compare_divides(domain) && !by_seed)) return status;
    for (size_t s = 0; s < (by_seed ? settings->seeds : 1) && status == MT_OK; s++) {
        const char *path = NULL;
        uint64_t seed = drawn_by(settings, s);
        status = mt_cell_train_data(preparing->job, number, s, &path);
        if (status != MT_OK) break;
        status = domain->recipe != NULL ? draw_recipe(preparing, number, seed, path)
                                        : write_problems(preparing, domain->name, MT_SYNTH_TRAIN, seed, path);
    }
    return status;
}

static enum mt_status write_domain(const struct preparing *preparing, size_t number)
{
    const struct mt_compare_settings *settings = preparing->job->settings;
    const struct mt_compare_domain *domain = &settings->domain[number];
    const char *path = NULL;
    if (domain->mix) return MT_OK;
    enum mt_status status = domain->trained ? write_training(preparing, number) : MT_OK;
    if (status != MT_OK || domain->test != NULL || mt_compare_divides(domain)) return status;
    status = mt_cell_test_data(preparing->job, number, &path);
    if (status != MT_OK) return status;
    return write_problems(preparing, domain->name, MT_SYNTH_TEST, (uint64_t)settings->problem_seed, path);
}

enum mt_status mt_comparison_write_problems(const struct mt_cell_job *job)
{
    const struct mt_compare_settings *settings = job->settings;
    struct preparing preparing = {.job = job, .read = {.ctx = job->ctx}};
    char folder[PATH_BYTES];
    int length = snprintf(folder, sizeof folder, "%s/data", settings->out);
    if (length < 0 || (size_t)length >= sizeof folder)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", settings->out);
    enum mt_status status = mt_folder_make(job->ctx, folder);
    if (status == MT_OK) status = add_read_rows(job, &preparing.read);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++) status = write_domain(&preparing, d);
    mt_row_hashes_free(&preparing.read);
    return status;
}
