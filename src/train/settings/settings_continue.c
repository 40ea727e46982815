/* Whether a run can go on: every key that decides the result must be what it was. */
#include <string.h>

#include "formats/text/printable.h"
#include "objective/options.h"
#include "ops/choose.h"
#include "train/settings/settings.h"

/* A key's value in both settings, as text. */
struct comparison {
    struct mt_byte_list before;
    struct mt_byte_list now;
};

/* Appends a key's value, and its end. */
static enum mt_status append_value(const struct mt_key *key, const struct mt_train_settings *settings,
                                   struct mt_byte_list *text)
{
    text->count = 0;
    enum mt_status status = mt_key_append(key, settings, text);
    // A message is one line.
    while (text->count > 0 && text->data[text->count - 1] == '\n') text->count--;
    for (size_t i = 0; i < text->count; i++) {
        if (text->data[i] == '\n') text->data[i] = ' ';
    }
    return status == MT_OK ? mt_byte_list_append(text, "", 1) : status;
}

/* A key of paths may name the same files elsewhere. */
static bool is_of_paths(const struct mt_key *key)
{
    return strcmp(key->name, "data.sources") == 0 || strstr(key->row->values, "FOLDER") != NULL ||
           strstr(key->row->values, "FILE") != NULL;
}

static enum mt_status compare_key(struct mt_context *ctx, const struct mt_key *key,
                                  const struct mt_train_settings *before, const struct mt_train_settings *now,
                                  struct comparison *texts)
{
    enum mt_status status = append_value(key, before, &texts->before);
    if (status == MT_OK) status = append_value(key, now, &texts->now);
    if (status != MT_OK) return status;
    const char *was = (const char *)texts->before.data;
    const char *is = (const char *)texts->now.data;
    if (strcmp(was, is) == 0) return MT_OK;
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "%s was %s when this run began and is %s now: set it back to go on%s, or begin another run "
        "in another folder (out)",
        key->name, mt_printable(was).text, mt_printable(is).text,
        is_of_paths(key) ? " (where the files have only moved, with a link at the old place)" : "");
}

/* The objective's keys come last: where the seed or the method differ, theirs do, too. */
static enum mt_status compare_all(struct mt_context *ctx, const struct mt_train_settings *before,
                                  const struct mt_train_settings *now)
{
    struct comparison texts = {.before = {.ctx = ctx}, .now = {.ctx = ctx}};
    enum mt_status status = MT_OK;
    for (int objective = 0; objective < 2; objective++) {
        struct mt_key key = {0};
        while (status == MT_OK && mt_key_next(&mt_train_keys, &key)) {
            if (key.row->may_differ || !mt_key_is_written(&key)) continue;
            if ((key.part->prefix != NULL) != (objective != 0)) continue;
            status = compare_key(ctx, &key, before, now, &texts);
        }
    }
    mt_byte_list_free(&texts.before);
    mt_byte_list_free(&texts.now);
    return status;
}

/* Going on elsewhere would change the roundings in the middle of a run. */
static enum mt_status keep_device(const struct mt_train_settings *before, struct mt_arena *arena,
                                  struct mt_train_settings *settings)
{
    const char *copy = NULL;
    if (strcmp(settings->device, MT_DEVICE_AUTO) != 0) return MT_OK;
    enum mt_status status = mt_arena_copy_text(arena, before->device, strlen(before->device), &copy);
    if (status == MT_OK) settings->device = copy;
    return status;
}

/* What was chosen to fit, once, stays: batch.tokens decides bits, and recompute how fast the run is. */
static void keep_choice(const struct mt_train_settings *before, struct mt_train_settings *settings)
{
    if (settings->tokens == 0) settings->tokens = before->tokens;
    if (settings->recompute == MT_TRAIN_RECOMPUTE_AUTO) settings->recompute = before->recompute;
    if (settings->expert_ranks == 0) settings->expert_ranks = before->expert_ranks;
}

/*
 * Where no method is named, a run keeps the one it began with: the default may have been another then. Keys
 * of the objective that are given change its row as they did.
 */
static enum mt_status keep_method(struct mt_context *ctx, const struct mt_train_settings *before,
                                  struct mt_train_settings *settings)
{
    struct mt_objective_config plain;
    struct mt_objective_config kept;
    struct mt_key key = {0};
    if (settings->method_given) return MT_OK;
    enum mt_status status = mt_objective_config_method(ctx, settings->objective.method, &plain);
    if (status == MT_OK) status = mt_objective_config_method(ctx, before->objective.method, &kept);
    while (status == MT_OK && mt_key_next(&mt_train_keys, &key)) {
        char standard[MT_KEY_NAME_BYTES];
        char now[MT_KEY_NAME_BYTES];
        if (key.part->prefix == NULL || !mt_key_is_written(&key)) continue;
        int index = (int)(key.row - mt_objective_rows);
        mt_objective_key_value(&plain, index, standard, sizeof standard);
        mt_objective_key_value(&settings->objective, index, now, sizeof now);
        if (strcmp(now, standard) != 0) status = mt_objective_config_set(ctx, &kept, key.row->name, now);
    }
    if (status != MT_OK) return status;
    settings->objective = kept;
    settings->task_only = before->task_only;
    return MT_OK;
}

enum mt_status mt_train_settings_continue(struct mt_context *ctx, const char *saved, struct mt_arena *arena,
                                          struct mt_train_settings *settings)
{
    struct mt_train_settings before;
    struct mt_arena aside;
    mt_arena_init(&aside, ctx, 16384);
    enum mt_status status = mt_train_settings_read_saved(ctx, saved, &aside, &before);
    if (status == MT_OK) keep_choice(&before, settings);
    if (status == MT_OK) status = keep_method(ctx, &before, settings);
    if (status == MT_OK) status = compare_all(ctx, &before, settings);
    if (status == MT_OK) status = keep_device(&before, arena, settings);
    mt_arena_free(&aside);
    return status;
}
