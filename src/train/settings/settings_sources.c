/* Lists of files: each a path, or a map of a source's keys. */
#include <stdio.h>
#include <string.h>

#include "base/nearest.h"
#include "formats/text/printable.h"
#include "train/settings/settings_parts.h"

static enum mt_status refuse_key(const struct mt_settings_reader *reader,
                                 const struct mt_settings_entry *entry, const struct mt_yaml_node *member)
{
    const char *meant = NULL;
    int distance = mt_settings_near(member->key);
    for (int i = 0; mt_source_row(i) != NULL; i++) {
        const struct mt_settings_row *row = mt_source_row(i);
        if (mt_nearer(member->key, row->name, &distance)) meant = row->name;
        if (mt_settings_is_one_of(row->also, member->key)) {
            meant = row->name;
            distance = 0;
        }
    }
    struct mt_printable key = mt_printable(member->key);
    if (meant == NULL) {
        return mt_settings_fail_at(reader, entry, member, "a source has no key '%s'", key.text);
    }
    return mt_settings_fail_at(reader, entry, member, "a source has no key '%s'; did you mean '%s'?",
                               key.text, meant);
}

static enum mt_status read_member(const struct mt_settings_reader *reader,
                                  const struct mt_settings_entry *entry, const struct mt_yaml_node *member,
                                  struct mt_train_source *source)
{
    for (int i = 0; mt_source_row(i) != NULL; i++) {
        const struct mt_settings_row *row = mt_source_row(i);
        if (strcmp(row->name, member->key) != 0) continue;
        return mt_settings_store(reader, entry, member, row, row->name, source);
    }
    return refuse_key(reader, entry, member);
}

/* What the name of a file says about its format; MT_DATASET_BY_NAME: nothing sure. */
static enum mt_dataset_format format_of(const struct mt_train_source *source)
{
    static const struct {
        const char *ending;
        enum mt_dataset_format format;
    } endings[] = {
        {".jsonl", MT_DATASET_JSONL}, {".json", MT_DATASET_JSON}, {".csv", MT_DATASET_CSV},
        {".tsv", MT_DATASET_TSV},     {".txt", MT_DATASET_TEXT},
    };
    if (source->format != MT_DATASET_BY_NAME) return source->format;
    size_t length = strlen(source->path);
    if (length > 3 && strcmp(source->path + length - 3, ".gz") == 0) length -= 3;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t tail = strlen(endings[i].ending);
        if (length > tail && memcmp(source->path + length - tail, endings[i].ending, tail) == 0) {
            return endings[i].format;
        }
    }
    return MT_DATASET_BY_NAME;
}

/* The line of a key of a source, or of the source. */
static const struct mt_yaml_node *line_of(const struct mt_yaml_node *node, const char *key)
{
    for (const struct mt_yaml_node *member = node->first; member != NULL; member = member->next) {
        if (member->key != NULL && strcmp(member->key, key) == 0) return member;
    }
    return node;
}

static enum mt_status check_source(const struct mt_settings_reader *reader,
                                   const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                   const struct mt_train_source *source)
{
    if (source->path == NULL) return mt_settings_fail_at(reader, entry, node, "a source has no path");
    enum mt_dataset_format format = format_of(source);
    bool table = format == MT_DATASET_CSV || format == MT_DATASET_TSV;
    if (source->columns != NULL && format != MT_DATASET_BY_NAME && !table) {
        return mt_settings_fail_at(reader, entry, line_of(node, "columns"),
                                   "columns are for csv and tsv, this is %s", mt_dataset_format_name(format));
    }
    if (source->text_rows != MT_TEXT_PARAGRAPHS && format != MT_DATASET_BY_NAME &&
        format != MT_DATASET_TEXT) {
        return mt_settings_fail_at(reader, entry, line_of(node, "text_rows"),
                                   "text_rows is for text, this is %s", mt_dataset_format_name(format));
    }
    const struct mt_example_source example = {.form = source->form, .mapping = source->fields};
    if (mt_example_check_source(reader->ctx, &example) == MT_OK) return MT_OK;
    char problem[MT_MESSAGE_BYTES];
    (void)snprintf(problem, sizeof problem, "%s", reader->ctx->message);
    return mt_settings_fail_at(reader, entry, line_of(node, "fields"), "%s", problem);
}

static enum mt_status read_source(const struct mt_settings_reader *reader,
                                  const struct mt_settings_entry *entry, const struct mt_yaml_node *node,
                                  struct mt_train_source *source)
{
    enum mt_status status = MT_OK;
    for (int i = 0; mt_source_row(i) != NULL && status == MT_OK; i++) {
        status = mt_settings_store_standard(reader, mt_source_row(i), source);
    }
    if (status != MT_OK) return status;
    if (node->kind == MT_YAML_LIST || mt_yaml_is_nothing(node)) {
        return mt_settings_fail_at(reader, entry, node, "%s holds %s, expected a path or a map with a path",
                                   entry->name, mt_yaml_kind_text(node));
    }
    if (node->kind == MT_YAML_SCALAR) {
        status = mt_settings_store(reader, entry, node, mt_source_row(0), "path", source);
    }
    for (const struct mt_yaml_node *member = node->first; member != NULL && status == MT_OK;
         member = member->next) {
        status = read_member(reader, entry, member, source);
    }
    return status == MT_OK ? check_source(reader, entry, node, source) : status;
}

enum mt_status mt_settings_store_sources(const struct mt_settings_reader *reader,
                                         const struct mt_settings_entry *entry,
                                         const struct mt_settings_row *row)
{
    const struct mt_yaml_node *node = entry->node;
    bool list = row->kind == MT_SETTING_SOURCES && node->kind == MT_YAML_LIST;
    bool single = row->kind == MT_SETTING_SOURCE && node->kind == MT_YAML_SCALAR && !mt_yaml_is_nothing(node);
    bool none = mt_yaml_is_nothing(node);
    void *memory = NULL;
    if (!list && !single && !none) {
        return mt_settings_fail(reader, entry, "%s is %s, expected %s", entry->name, mt_yaml_kind_text(node),
                                row->kind == MT_SETTING_SOURCE ? "a path" : "a list of files");
    }
    size_t count = none ? 0 : (single ? 1 : node->count);
    enum mt_status status = mt_arena_allocate(reader->arena, count * sizeof(struct mt_train_source), &memory);
    if (status != MT_OK) return status;
    struct mt_train_source *sources = memory;
    const struct mt_yaml_node *item = single ? node : node->first;
    for (size_t i = 0; i < count && status == MT_OK; i++, item = item->next) {
        status = read_source(reader, entry, item, &sources[i]);
    }
    if (status != MT_OK) return status;
    char *settings = (char *)reader->settings;
    const struct mt_train_source **result = (void *)(settings + row->offset);
    *result = sources;
    memcpy(settings + row->count, &count, sizeof count);
    return MT_OK;
}

// ------------------------------------------------------------------ writing

/* One "key: value" line, where the value is not the default. */
static enum mt_status append_member(const struct mt_settings_row *row, const struct mt_train_source *source,
                                    int indent, struct mt_byte_list *text)
{
    char start[64];
    size_t line = text->count;
    (void)snprintf(start, sizeof start, "%*s%s%s: ", indent, "", row->offset == 0 ? "- " : "  ", row->name);
    enum mt_status status = mt_byte_list_append_text(text, start);
    size_t value = text->count;
    if (status == MT_OK) status = mt_settings_append_value(row, source, text);
    if (status != MT_OK) return status;
    const char *standard = row->no_standard ? "null" : row->standard;
    size_t length = text->count - value;
    if (length == strlen(standard) && memcmp(text->data + value, standard, length) == 0) {
        text->count = line;
        return MT_OK;
    }
    return mt_byte_list_append_text(text, "\n");
}

enum mt_status mt_settings_append_sources(const struct mt_train_source *sources, size_t count, int indent,
                                          struct mt_byte_list *text)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        for (int j = 0; mt_source_row(j) != NULL && status == MT_OK; j++) {
            status = append_member(mt_source_row(j), &sources[i], indent, text);
        }
    }
    return status;
}
