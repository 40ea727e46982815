/* Agreement as JSON, in the summary of a run. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "eval/judges/agreement.h"
#include "eval/run/json_member.h"
#include "eval/text_writer.h"

static void put_note(struct mt_text_writer *writer, const char *why)
{
    if (why == NULL) return;
    mt_put_string(writer, ", \"note\": ", why);
}

static void put_share(struct mt_text_writer *writer, const struct mt_judge_share *share)
{
    for (int verdict = MT_VERDICT_CORRECT; verdict < MT_VERDICTS; verdict++) {
        char name[64];
        (void)snprintf(name, sizeof name, "%s\"%s\": ", verdict == MT_VERDICT_CORRECT ? "{" : ", ",
                       mt_verdict_name((enum mt_verdict)verdict));
        mt_put_number(writer, name, (double)share->verdicts[verdict]);
    }
    mt_put_number(writer, ", \"accuracy\": ", share->accuracy);
    mt_put(writer, "}");
}

static void put_pair(struct mt_text_writer *writer, const struct mt_agreement_pair *pair)
{
    mt_put_number(writer, "{\"both\": ", (double)pair->both);
    mt_put_number(writer, ", \"both_correct\": ", (double)pair->table[1][1]);
    mt_put_number(writer, ", \"only_first\": ", (double)pair->table[1][0]);
    mt_put_number(writer, ", \"only_second\": ", (double)pair->table[0][1]);
    mt_put_number(writer, ", \"both_incorrect\": ", (double)pair->table[0][0]);
    mt_put_number(writer, ", \"agreement\": ", pair->raw);
    mt_put_number(writer, ", \"cohen_kappa\": ", pair->kappa);
    mt_put_number(writer, ", \"cohen_kappa_ci95\": [", pair->low);
    mt_put_number(writer, ", ", pair->high);
    mt_put(writer, "]");
    put_note(writer, pair->why);
    mt_put(writer, "}");
}

static void put_agreement(struct mt_text_writer *writer, const struct mt_agreement *agreement)
{
    mt_put(writer, "{\"judges\": {");
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        mt_put_string(writer, judge == 0 ? "" : ", ", mt_judge_name((enum mt_judge)judge));
        mt_put(writer, ": ");
        put_share(writer, &agreement->shares[judge]);
    }
    mt_put(writer, "}, \"pairs\": {");
    for (int pair = 0; pair < MT_JUDGE_PAIRS; pair++) {
        mt_put_string(writer, pair == 0 ? "" : ", ", mt_judge_pair_name((enum mt_judge_pair)pair));
        mt_put(writer, ": ");
        put_pair(writer, &agreement->pairs[pair]);
    }
    mt_put_number(writer, "}, \"all\": {\"judged\": ", (double)agreement->three.all);
    mt_put_number(writer, ", \"fleiss_kappa\": ", agreement->three.kappa);
    put_note(writer, agreement->three.why);
    mt_put(writer, "}}");
}

static void put_run(struct mt_text_writer *writer, const struct mt_judged_run *run)
{
    struct mt_agreement agreement;
    mt_put(writer, "{\n    \"tasks\": {");
    for (size_t i = 0; i < run->count; i++) {
        mt_put_string(writer, i == 0 ? "\n      " : ",\n      ", run->tasks[i].name);
        mt_put(writer, ": ");
        mt_agreement_compute(run, &run->tasks[i], &agreement);
        put_agreement(writer, &agreement);
    }
    mt_put(writer, "\n    },\n    \"overall\": ");
    mt_agreement_compute(run, NULL, &agreement);
    put_agreement(writer, &agreement);
    mt_put(writer, "\n  }");
}

/* The summary as it is; "{}" where there is none, as of a run that has not finished. */
static enum mt_status read_summary(struct mt_context *ctx, const char *path, struct mt_byte_list *text)
{
    struct mt_json json = {0};
    void *data = NULL;
    size_t bytes = 0;
    if (access(path, F_OK) != 0) return mt_byte_list_append_text(text, "{}\n");
    enum mt_status status = mt_file_read_all(ctx, path, mt_json_file_limits.max_bytes, &data, &bytes);
    if (status == MT_OK) status = mt_json_parse(ctx, path, data, bytes, &mt_json_file_limits, &json);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        status = mt_json_expect_object(&root);
    }
    if (status == MT_OK) status = mt_byte_list_append(text, data, bytes);
    mt_json_free(&json);
    mt_release(ctx, data, bytes);
    return status;
}

enum mt_status mt_agreement_store(struct mt_context *ctx, const struct mt_judged_run *run)
{
    struct mt_text_writer writer = {.text = {.ctx = ctx}};
    struct mt_byte_list before = {.ctx = ctx};
    struct mt_byte_list after = {.ctx = ctx};
    char *path = NULL;
    put_run(&writer, run);
    enum mt_status status = writer.status;
    if (status == MT_OK) status = mt_path_join(ctx, run->folder, "results.json", &path);
    if (status == MT_OK) status = read_summary(ctx, path, &before);
    if (status == MT_OK)
        status =
            mt_json_member_set((const char *)before.data, before.count, "agreement", &writer.text, &after);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, after.data, after.count);
    mt_path_release(ctx, path);
    mt_byte_list_free(&after);
    mt_byte_list_free(&before);
    mt_byte_list_free(&writer.text);
    return status;
}

/* Is there a file of verdicts? */
static enum mt_status look_for_verdicts(struct mt_context *ctx, const char *folder, bool *found)
{
    *found = false;
    DIR *directory = opendir(folder);
    if (directory == NULL) return mt_fail(ctx, MT_ERR_IO, "%s: cannot read it: %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(directory); entry != NULL && !*found; entry = readdir(directory))
        *found = strncmp(entry->d_name, "judge_", 6) == 0 || strncmp(entry->d_name, "review_", 7) == 0;
    (void)closedir(directory);
    return MT_OK;
}

enum mt_status mt_agreement_refresh(struct mt_context *ctx, const char *folder)
{
    struct mt_judged_run run;
    bool judged = false;
    enum mt_status status = look_for_verdicts(ctx, folder, &judged);
    if (status != MT_OK || !judged) return status;
    status = mt_judged_run_read(ctx, folder, NULL, &run);
    if (status == MT_OK) status = mt_agreement_store(ctx, &run);
    mt_judged_run_free(&run);
    return status;
}
