/* Whether a run can go on: every key that decides the result must be what it was. */
#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"
#include "ops/choose.h"
#include "train/settings/settings_parts.h"

/* A key's value in both settings, as text. */
struct comparison {
    struct mt_byte_list before;
    struct mt_byte_list now;
};

static enum mt_status append_value(const struct mt_settings_row *row,
                                   const struct mt_train_settings *settings, struct mt_byte_list *text)
{
    if (row->kind != MT_SETTING_SOURCES) return mt_settings_append_value(row, settings, text);
    enum mt_status status = mt_settings_append_sources(settings->sources, settings->source_count, 0, text);
    // A message is one line.
    while (text->count > 0 && text->data[text->count - 1] == '\n') text->count--;
    for (size_t i = 0; i < text->count; i++) {
        if (text->data[i] == '\n') text->data[i] = ' ';
    }
    return status;
}

/* A key of paths may name the same files elsewhere. */
static enum mt_status compare_texts(struct mt_context *ctx, const char *name, bool paths, const char *before,
                                    const char *now)
{
    if (strcmp(before, now) == 0) return MT_OK;
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "%s was %s when this run began and is %s now: set it back to go on%s, or begin another run "
        "in another folder (out)",
        name, mt_printable(before).text, mt_printable(now).text,
        paths ? " (where the files have only moved, with a link at the old place)" : "");
}

static bool is_of_paths(const struct mt_settings_row *row)
{
    return row->kind == MT_SETTING_SOURCES || strstr(row->values, "FOLDER") != NULL ||
           strstr(row->values, "FILE") != NULL;
}

static enum mt_status compare_row(struct mt_context *ctx, const struct mt_settings_row *row,
                                  const struct mt_train_settings *before, const struct mt_train_settings *now,
                                  struct comparison *texts)
{
    texts->before.count = 0;
    texts->now.count = 0;
    enum mt_status status = append_value(row, before, &texts->before);
    if (status == MT_OK) status = append_value(row, now, &texts->now);
    if (status == MT_OK) status = mt_byte_list_append(&texts->before, "", 1);
    if (status == MT_OK) status = mt_byte_list_append(&texts->now, "", 1);
    if (status != MT_OK) return status;
    const char *was = (const char *)texts->before.data;
    const char *is = (const char *)texts->now.data;
    return compare_texts(ctx, row->name, is_of_paths(row), was, is);
}

static enum mt_status compare_objectives(struct mt_context *ctx, const struct mt_objective_config *before,
                                         const struct mt_objective_config *now)
{
    struct mt_objective_key key;
    enum mt_status status = MT_OK;
    for (int i = 0; mt_objective_key_listed(i, &key) && status == MT_OK; i++) {
        char name[MT_SETTINGS_NAME_BYTES];
        char was[64];
        char is[64];
        if (!mt_settings_objective_key_counts(key.name)) continue;
        (void)snprintf(name, sizeof name, "objective.%s", key.name);
        mt_objective_key_value(before, i, was, sizeof was);
        mt_objective_key_value(now, i, is, sizeof is);
        status = compare_texts(ctx, name, false, was, is);
    }
    return status;
}

static enum mt_status compare_all(struct mt_context *ctx, const struct mt_train_settings *before,
                                  const struct mt_train_settings *now)
{
    struct comparison texts = {.before = {.ctx = ctx}, .now = {.ctx = ctx}};
    enum mt_status status = MT_OK;
    for (int i = 0; mt_settings_row(i) != NULL && status == MT_OK; i++) {
        const struct mt_settings_row *row = mt_settings_row(i);
        if (row->may_differ || row->kind == MT_SETTING_SOURCE) continue;
        status = compare_row(ctx, row, before, now, &texts);
    }
    mt_byte_list_free(&texts.before);
    mt_byte_list_free(&texts.now);
    return status == MT_OK ? compare_objectives(ctx, &before->objective, &now->objective) : status;
}

/* Going on elsewhere would change the roundings in the middle of a run. */
static enum mt_status keep_device(const struct mt_train_settings *before, struct mt_arena *arena,
                                  struct mt_train_settings *settings)
{
    char *copy = NULL;
    if (strcmp(settings->device, MT_DEVICE_AUTO) != 0) return MT_OK;
    enum mt_status status = mt_arena_copy_text(arena, before->device, strlen(before->device), &copy);
    if (status == MT_OK) settings->device = copy;
    return status;
}

enum mt_status mt_train_settings_continue(struct mt_context *ctx, const char *saved, struct mt_arena *arena,
                                          struct mt_train_settings *settings)
{
    struct mt_train_settings before;
    struct mt_arena aside;
    mt_arena_init(&aside, ctx, 16384);
    enum mt_status status =
        mt_train_settings_parse(ctx, "the saved settings", saved, strlen(saved), NULL, 0, &aside, &before);
    if (status == MT_OK) status = compare_all(ctx, &before, settings);
    if (status == MT_OK) status = keep_device(&before, arena, settings);
    mt_arena_free(&aside);
    return status;
}
