/* Rows a model has read, in what its cells are trained on. */
#include "compare/read_rows.h"

#include <inttypes.h>
#include <unistd.h>

#include "text/row_identity.h"

enum mt_status mt_read_rows_add(const struct mt_cell_job *job, struct mt_row_hashes *rows)
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
                   " rows are rows that the model %s has read (its " MT_ROWS_READ_FILE
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
