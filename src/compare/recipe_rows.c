/* What a domain is trained on, made by a recipe. */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "compare/prepare.h"
#include "recipe/write.h"

#define ARENA_BLOCK_BYTES 65536

/* The benchmarks of the comparison, NULL at the end: what is measured with may not be trained on. */
static enum mt_status name_tasks(const struct mt_compare_settings *settings, struct mt_arena *arena,
                                 const char *const **names)
{
    enum mt_status status = MT_OK;
    const char **list = mt_arena_array(arena, settings->entries + 1, sizeof *list, &status);
    for (size_t i = 0; status == MT_OK && i < settings->entries; i++) list[i] = settings->entry[i].task;
    *names = list;
    return status;
}

/* A line a source. */
static void tell(const struct mt_cell_job *job, const struct mt_compare_domain *domain,
                 const struct mt_recipe_report *report)
{
    if (job->terminal == NULL) return;
    for (size_t i = 0; i < report->source_count; i++) {
        const struct mt_recipe_source_report *source = &report->sources[i];
        (void)fprintf(job->terminal,
                      "%s: %s: %" PRId64 " rows, %" PRId64 " unusable, %" PRId64
                      " that overlap with test questions removed, %" PRId64
                      " read by a model or held out; %" PRId64 " drawn\n",
                      domain->name, source->recipe->name, source->rows, source->unusable, source->overlapping,
                      source->excluded, source->drawn);
    }
}

enum mt_status mt_comparison_write_recipe(const struct mt_cell_job *job,
                                          const struct mt_compare_domain *domain, uint64_t seed,
                                          const struct mt_row_hashes *exclude, const char *path)
{
    const struct mt_compare_settings *settings = job->settings;
    const struct mt_recipe *recipe = NULL;
    struct mt_recipe_report report = {0};
    struct mt_recipe_options options = {.tasks = job->task_files,
                                        .data = job->data,
                                        .out = path,
                                        .count = settings->train_problems,
                                        .seed = seed,
                                        .exclude = exclude->count > 0 ? exclude : NULL,
                                        .words = MT_RECIPE_WORDS,
                                        .skip_missing = settings->skip_missing,
                                        .log = job->log};
    struct mt_arena arena;
    if (access(path, F_OK) == 0) return MT_OK;
    if (job->data == NULL)
        return mt_fail(job->ctx, MT_ERR_USAGE,
                       "%s: the domain %s has a recipe, which needs the benchmarks' files: give "
                       "evaluation.data, or set METIER_DATA",
                       settings->file, domain->name);
    mt_arena_init(&arena, job->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = name_tasks(settings, &arena, &options.against);
    if (status == MT_OK) status = mt_recipe_resolve(job->ctx, job->recipes, domain->recipe, &arena, &recipe);
    if (status == MT_OK) status = mt_recipe_write(job->ctx, recipe, &options, &arena, &report);
    if (status == MT_OK) tell(job, domain, &report);
    mt_arena_free(&arena);
    return status;
}
