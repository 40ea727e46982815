/* Files of built-in problems. */
#include "compare/problems.h"

#include <stdio.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "synth/synth.h"

static enum mt_status write_problems(const struct mt_cell_job *job, const struct mt_compare_domain *domain,
                                     bool test)
{
    const struct mt_compare_settings *settings = job->settings;
    struct mt_synth_options options = {.split = test ? MT_SYNTH_TEST : MT_SYNTH_TRAIN,
                                       .seed = (uint64_t)settings->problem_seed,
                                       .difficulty = (int)settings->difficulty};
    struct mt_synth *source = NULL;
    struct mt_file_writer writer = {0};
    const char *path = NULL;
    enum mt_status status = mt_cell_data(job, domain, test, &path);
    if (status != MT_OK || access(path, F_OK) == 0) return status;
    if (!mt_synth_domain(domain->name, &options.domain))
        return mt_fail(job->ctx, MT_ERR_INTERNAL, "%s is no built-in domain", domain->name);
    status = mt_synth_create(job->ctx, &options, &source);
    if (status == MT_OK) status = mt_file_writer_open(job->ctx, path, &writer);
    int64_t count = test ? settings->test_problems : settings->train_problems;
    if (status == MT_OK) status = mt_synth_write_rows(job->ctx, &source, 1, count, &writer);
    if (status == MT_OK) status = mt_file_writer_commit(&writer);
    mt_file_writer_abandon(&writer);
    mt_synth_free(source);
    return status;
}

enum mt_status mt_compare_write_problems(const struct mt_cell_job *job)
{
    const struct mt_compare_settings *settings = job->settings;
    char folder[4096];
    int length = snprintf(folder, sizeof folder, "%s/data", settings->out);
    if (length < 0 || (size_t)length >= sizeof folder)
        return mt_fail(job->ctx, MT_ERR_USAGE, "%.100s...: the path is too long", settings->out);
    enum mt_status status = mt_folder_make(job->ctx, folder);
    for (size_t d = 0; d < settings->domains && status == MT_OK; d++) {
        const struct mt_compare_domain *domain = &settings->domain[d];
        if (domain->trained && domain->train == NULL) status = write_problems(job, domain, false);
        if (status == MT_OK && domain->test == NULL) status = write_problems(job, domain, true);
    }
    return status;
}
