/* Whether a run can go on: every key that decides the result must be what it was. */
#include <stdio.h>
#include <string.h>

#include "formats/printable.h"
#include "train/settings_parts.h"

/* A key's value in both settings, as text. */
struct comparison {
    struct mt_byte_list before;
    struct mt_byte_list now;
};

static enum mt_status append_value(const struct mt_settings_row *row,
                                   const struct mt_train_settings *settings, struct mt_byte_list *text)
{
    if (row->kind == MT_SETTING_SOURCES) {
        return mt_settings_append_sources(settings->sources, settings->source_count, 0, text);
    }
    return mt_settings_append_value(row, settings, text);
}

static enum mt_status compare_texts(struct mt_context *ctx, const char *name, const char *before,
                                    const char *now)
{
    if (strcmp(before, now) == 0) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "%s was %s when this run began and is %s now: set it back to go on, or begin another run "
                   "in another folder (out)",
                   name, mt_printable(before).text, mt_printable(now).text);
}

/* Lists of files are too long to show. */
static enum mt_status compare_sources(struct mt_context *ctx, const char *name, const char *before,
                                      const char *now)
{
    if (strcmp(before, now) == 0) return MT_OK;
    return mt_fail(ctx, MT_ERR_USAGE,
                   "%s is not what it was when this run began (%s; now %s): set it back to go on, or begin "
                   "another run in another folder (out)",
                   name, mt_printable(before).text, mt_printable(now).text);
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
    return row->kind == MT_SETTING_SOURCES ? compare_sources(ctx, row->name, was, is)
                                           : compare_texts(ctx, row->name, was, is);
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
        status = compare_texts(ctx, name, was, is);
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

enum mt_status mt_train_settings_continue(struct mt_context *ctx, const char *saved,
                                          const struct mt_train_settings *settings)
{
    struct mt_train_settings before;
    struct mt_arena arena;
    mt_arena_init(&arena, ctx, 16384);
    enum mt_status status =
        mt_train_settings_parse(ctx, "the saved settings", saved, strlen(saved), NULL, 0, &arena, &before);
    if (status == MT_OK) status = compare_all(ctx, &before, settings);
    mt_arena_free(&arena);
    return status;
}
