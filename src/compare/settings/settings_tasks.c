/* Keys of benchmarks: which tasks cells are evaluated with, and how they are asked. */
#include <stddef.h>
#include <string.h>

#include "compare/settings/settings_read.h"
#include "formats/text/yaml_name.h"

#define AT(field)    offsetof(struct mt_compare_settings, field)
#define ENTRY(field) offsetof(struct mt_compare_entry, field)

/* A whole number that has no default of its own. */
static enum mt_status set_whole(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_WHOLE, .values = "WHOLE NUMBER >= 0", .most = 1e9};
    struct mt_key_entry whole = *entry;
    whole.row = &row;
    return mt_key_store(reader, &whole, (char *)target + entry->row->offset);
}

static enum mt_status add_budget(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target)
{
    static const struct mt_key_row row = {.kind = MT_KEY_WHOLE, .values = "WHOLE NUMBERS >= 1", .most = 1e6};
    struct mt_compare_budgets *budgets = (void *)((char *)target + entry->row->offset);
    struct mt_key_entry element = *entry;
    int64_t tokens = 0;
    element.row = &row;
    enum mt_status status = mt_key_store(reader, &element, &tokens);
    if (status != MT_OK) return status;
    if (budgets->count == MT_COMPARE_MOST_BUDGETS)
        return mt_key_fail(reader, entry, NULL, "%s has more than %d values", entry->name,
                           MT_COMPARE_MOST_BUDGETS);
    for (size_t i = 0; i < budgets->count; i++) {
        if (budgets->tokens[i] == tokens)
            return mt_key_fail(reader, entry, NULL, "%s has %lld twice", entry->name, (long long)tokens);
    }
    budgets->tokens[budgets->count++] = tokens;
    return MT_OK;
}

// ------------------------------------------------------------------ entries

static const struct mt_key_row entry_rows[] = {
    {"task", MT_KEY_NAME, ENTRY(task), "NAME", "required", .meaning = "a task of metier eval --list"},
    {"name", MT_KEY_NAME, ENTRY(name), "NAME", "required",
     .meaning = "name of the column; default: the task's"},
    {"limit", MT_KEY_OWN, ENTRY(limit), "WHOLE NUMBER >= 0", "evaluation.limit",
     .meaning = "maximum number of questions", .set = set_whole},
    {"shots", MT_KEY_OWN, ENTRY(shots), "WHOLE NUMBER >= 0", "evaluation.shots",
     .meaning = "examples before each question", .set = set_whole},
    {"template", MT_KEY_TEXT, ENTRY(template), "NAME", "evaluation.template", .meaning = "chat template"},
    {"max_tokens", MT_KEY_EACH, ENTRY(budgets), "NUMBERS", "evaluation.max_tokens",
     .meaning = "maximum tokens of an answer; several make a column each", .set = add_budget},
    {0},
};

static const struct mt_key_part entry_parts[] = {{.rows = entry_rows}, {0}};
static const struct mt_keys entry_keys = {.parts = entry_parts, .what = "an entry of tasks has"};

/* The last part of a path without .yaml; other names as they are. */
static enum mt_status name_of_task(const struct mt_keys_reader *reader, const char *task, const char **name)
{
    size_t length = 0;
    const char *start = mt_yaml_name(task, &length);
    return mt_arena_copy_text(reader->arena, start, length, name);
}

static enum mt_status read_entry(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 struct mt_compare_entry *made)
{
    static const struct mt_key_row row = {.kind = MT_KEY_NAME, .values = "NAME"};
    const struct mt_compare_settings *settings = reader->target;
    enum mt_status status = MT_OK;
    *made = settings->asking;
    made->budgets.count = 0;
    if (entry->node->kind == MT_YAML_MAP) {
        struct mt_keys_reader members = mt_keys_reader_within(reader, &entry_keys, made);
        status = mt_keys_read_map(&members, entry->node, entry->word);
        if (status == MT_OK && made->task == NULL)
            status = mt_key_fail(reader, entry, NULL, "an entry of tasks needs task");
    } else {
        struct mt_key_entry named = *entry;
        named.row = &row;
        status = mt_key_store(reader, &named, &made->task);
    }
    made->own_budgets = made->budgets.count > 0;
    if (!made->own_budgets) made->budgets = settings->asking.budgets;
    if (status == MT_OK && made->name == NULL) status = name_of_task(reader, made->task, &made->name);
    return status == MT_OK ? mt_compare_check_name(reader, entry, "the name of a task", made->name) : status;
}

static enum mt_status add_entry(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    struct mt_compare_settings *settings = target;
    struct mt_compare_entry made;
    if (settings->entries == MT_COMPARE_MOST_TASKS)
        return mt_key_fail(reader, entry, NULL, "more than %d tasks", MT_COMPARE_MOST_TASKS);
    enum mt_status status = read_entry(reader, entry, &made);
    for (size_t i = 0; i < settings->entries && status == MT_OK; i++) {
        if (strcmp(settings->entry[i].name, made.name) == 0)
            status = mt_key_fail(reader, entry, NULL,
                                 "two tasks are called %s; give {task: NAME, name: ANOTHER}", made.name);
    }
    if (status == MT_OK) settings->entry[settings->entries++] = made;
    return status;
}

// ------------------------------------------------------------------ the table

// What entries do not say themselves stands first: values are stored in the order of the table.
const struct mt_key_row mt_compare_task_rows[] = {
    {"evaluation.data", MT_KEY_TEXT, AT(data), "FOLDER", "$METIER_DATA",
     .meaning = "folder of the benchmarks' files, as in metier eval --data"},
    {"evaluation.limit", MT_KEY_OWN, AT(asking.limit), "WHOLE NUMBER >= 0", "0: all",
     .meaning = "maximum number of questions per entry of tasks, spread over its parts", .set = set_whole},
    {"evaluation.shots", MT_KEY_OWN, AT(asking.shots), "WHOLE NUMBER >= 0", "as the task says",
     .meaning = "examples before each question", .set = set_whole},
    {"evaluation.template", MT_KEY_TEXT, AT(asking.template), "NAME", "as in training",
     .meaning = "chat template of the questions; none: plain texts"},
    {"evaluation.max_tokens", MT_KEY_EACH, AT(asking.budgets), "NUMBERS", "as the task says",
     .meaning = "maximum tokens of a written answer; several make a column each", .set = add_budget},
    {"evaluation.context", MT_KEY_WHOLE, AT(context), "WHOLE NUMBER >= 0", "0",
     .meaning = "maximum tokens of prompt and answer; 0: 4096, or the model's own limit", .most = 1e7},
    {"evaluation.skip_missing", MT_KEY_FLAG, AT(skip_missing), "true|false", "false",
     .meaning = "leave out parts of a group that have no data, instead of refusing them"},
    {"tasks", MT_KEY_EACH, 0, "NAMES", "none",
     .meaning = "benchmarks for every cell and every base: tasks and groups of metier eval --list, or maps "
                "{task: NAME, name: N, limit: N, shots: N, template: T, max_tokens: [N, ...]}",
     .also = "benchmarks", .set = add_entry, .members = &entry_keys},
    {0},
};
