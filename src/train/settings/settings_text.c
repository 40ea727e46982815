/*
 * The settings as YAML: every key with its value and what it means, in the order of the table, under the
 * titles of its sections. Reading the text gives the same settings.
 */
#include <stdio.h>
#include <string.h>

#include "train/settings/settings_parts.h"

#define VALUE_COLUMN   20 // where values begin
#define MEANING_COLUMN 34 // where their meanings do
#define MEMBER_INDENT  4

struct writer {
    const struct mt_train_settings *settings;
    struct mt_byte_list text;
    char group[MT_SETTINGS_NAME_BYTES]; // that is open: "lora"; "": none
    size_t line;                        // where the present line begins
    int section;                        // whose title was written last; -1: none
};

static enum mt_status append(struct writer *writer, const char *text)
{
    return mt_byte_list_append_text(&writer->text, text);
}

/* Spaces up to a column of the present line, at least one. */
static enum mt_status append_spaces(struct writer *writer, size_t column)
{
    char spaces[64];
    size_t used = writer->text.count - writer->line;
    (void)snprintf(spaces, sizeof spaces, "%*s", used < column ? (int)(column - used) : 1, "");
    return append(writer, spaces);
}

static enum mt_status append_title(struct writer *writer, enum mt_settings_section section)
{
    if (writer->section == (int)section) return MT_OK;
    char title[96];
    (void)snprintf(title, sizeof title, "%s# %s\n", writer->section >= 0 ? "\n" : "",
                   mt_settings_section_title(section));
    writer->section = (int)section;
    return append(writer, title);
}

/* Opens the group of a dotted name where it is not open yet, and begins the line of the key: "    rank:". */
static enum mt_status begin_line(struct writer *writer, const char *name)
{
    const char *dot = strchr(name, '.');
    char group[MT_SETTINGS_NAME_BYTES];
    char text[2 * MT_SETTINGS_NAME_BYTES];
    (void)snprintf(group, sizeof group, "%.*s", dot != NULL ? (int)(dot - name) : 0, name);
    enum mt_status status = MT_OK;
    if (dot != NULL && strcmp(group, writer->group) != 0) {
        (void)snprintf(text, sizeof text, "%s:\n", group);
        status = append(writer, text);
    }
    memcpy(writer->group, group, sizeof group);
    writer->line = writer->text.count;
    (void)snprintf(text, sizeof text, "%*s%s:", dot != NULL ? MEMBER_INDENT : 0, "",
                   dot != NULL ? dot + 1 : name);
    return status == MT_OK ? append(writer, text) : status;
}

/* The meaning of a key stands beside its value, unless that is too long. */
static enum mt_status finish_line(struct writer *writer, const char *meaning)
{
    if (writer->text.count - writer->line >= MEANING_COLUMN) return append(writer, "\n");
    enum mt_status status = append_spaces(writer, MEANING_COLUMN);
    if (status == MT_OK) status = append(writer, "# ");
    if (status == MT_OK) status = append(writer, meaning);
    return status == MT_OK ? append(writer, "\n") : status;
}

static enum mt_status append_sources(struct writer *writer, const struct mt_settings_row *row)
{
    const char *settings = (const char *)writer->settings;
    const struct mt_train_source *const *sources = (const void *)(settings + row->offset);
    size_t count = 0;
    memcpy(&count, settings + row->count, sizeof count);
    enum mt_status status = begin_line(writer, row->name);
    if (status == MT_OK) status = finish_line(writer, row->meaning);
    if (status != MT_OK) return status;
    return mt_settings_append_sources(*sources, count, 2 * MEMBER_INDENT, &writer->text);
}

static enum mt_status append_objective(struct writer *writer)
{
    struct mt_objective_key key;
    enum mt_status status = MT_OK;
    for (int i = 0; mt_objective_key_listed(i, &key) && status == MT_OK; i++) {
        char name[MT_SETTINGS_NAME_BYTES];
        char value[64];
        if (!mt_settings_objective_key_counts(key.name)) continue;
        (void)snprintf(name, sizeof name, "objective.%s", key.name);
        mt_objective_key_value(&writer->settings->objective, i, value, sizeof value);
        status = begin_line(writer, name);
        if (status == MT_OK) status = append_spaces(writer, VALUE_COLUMN);
        if (status == MT_OK) status = append(writer, value);
        if (status == MT_OK) status = finish_line(writer, key.meaning);
    }
    return status;
}

/* Keys that would be refused beside others, or say what others have said already. */
static bool is_left_out(const struct mt_train_settings *settings, const struct mt_settings_row *row)
{
    if (row->kind == MT_SETTING_SOURCE) return true;
    if (settings->adapter != NULL && mt_settings_are_the_adapters(row->name)) return true;
    if (strncmp(row->name, "lora.", 5) == 0) return settings->train != MT_TRAIN_LORA;
    if (strcmp(row->name, "evaluation.sources") == 0) return settings->held_out_count == 0;
    if (strcmp(row->name, "evaluation.split") == 0) return settings->held_out_count > 0;
    return false;
}

static enum mt_status append_row(struct writer *writer, const struct mt_settings_row *row)
{
    enum mt_status status = append_title(writer, row->section);
    if (status != MT_OK) return status;
    if (row->kind == MT_SETTING_SOURCES) return append_sources(writer, row);
    status = begin_line(writer, row->name);
    if (status == MT_OK) status = append_spaces(writer, VALUE_COLUMN);
    if (status == MT_OK) status = mt_settings_append_value(row, writer->settings, &writer->text);
    if (status == MT_OK) status = finish_line(writer, row->meaning);
    if (status == MT_OK && row->kind == MT_SETTING_METHOD) status = append_objective(writer);
    return status;
}

enum mt_status mt_train_settings_text(struct mt_context *ctx, const struct mt_train_settings *settings,
                                      struct mt_arena *arena, const char **text)
{
    struct writer writer = {.settings = settings, .text = {.ctx = ctx}, .section = -1};
    char *copy = NULL;
    enum mt_status status = MT_OK;
    for (int i = 0; mt_settings_row(i) != NULL && status == MT_OK; i++) {
        if (is_left_out(settings, mt_settings_row(i))) continue;
        status = append_row(&writer, mt_settings_row(i));
    }
    if (status == MT_OK) {
        status = mt_arena_copy_text(arena, (const char *)writer.text.data, writer.text.count, &copy);
    }
    mt_byte_list_free(&writer.text);
    *text = copy;
    return status;
}
