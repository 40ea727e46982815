/* Recipe files: a table of keys, and what cannot be beside what. */
#include <stddef.h>
#include <string.h>

#include "formats/text/yaml_name.h"
#include "recipe/recipe.h"

#define AT(field)   offsetof(struct mt_recipe, field)
#define PART(field) offsetof(struct mt_recipe_part, field)
#define MOST_ROWS   1e12

// ------------------------------------------------------------------ parts of a mixture

static const struct mt_key_row part_rows[] = {
    {"recipe", MT_KEY_NAME, PART(name), "NAME", "required", .meaning = "another recipe",
     .also = "name|source|path"},
    {"count", MT_KEY_WHOLE, PART(count), "WHOLE NUMBER >= 0", "0",
     .meaning = "number of its rows; 0: by its weight", .most = MOST_ROWS, .also = "limit|max_samples"},
    {"weight", MT_KEY_NUMBER, PART(weight), "NUMBER > 0", "1",
     .meaning = "its share of the rows that counts leave", .most = 1e6, .instead = "count"},
    {0},
};

static const struct mt_key_part part_parts[] = {{.rows = part_rows}, {0}};
static const struct mt_keys part_keys = {.parts = part_parts, .what = "a source has"};

/* A name, or a map of a part's keys. */
static enum mt_status read_part(const struct mt_keys_reader *reader, const struct mt_key_entry *list,
                                const struct mt_yaml_node *node, struct mt_recipe_part *part)
{
    static const struct mt_yaml_node no_keys = {.kind = MT_YAML_MAP};
    const struct mt_key_entry name = {.name = "recipe", .row = part_rows, .node = node, .word = list->word};
    struct mt_keys_reader members = mt_keys_reader_within(reader, &part_keys, part);
    if (node->kind == MT_YAML_LIST || mt_yaml_is_nothing(node))
        return mt_key_fail(reader, list, node, "sources holds %s, expected a name or a map with a recipe",
                           mt_yaml_kind_text(node));
    bool map = node->kind == MT_YAML_MAP;
    enum mt_status status = mt_keys_read_map(&members, map ? node : &no_keys, list->word);
    if (status == MT_OK && !map) status = mt_key_store(&members, &name, part);
    if (status == MT_OK && part->name == NULL)
        status = mt_key_fail(reader, list, node, "a source has no recipe");
    return status;
}

static enum mt_status set_sources(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  void *target)
{
    struct mt_recipe *recipe = target;
    const struct mt_yaml_node *node = entry->node;
    enum mt_status status = MT_OK;
    if (node->kind != MT_YAML_LIST || node->count == 0)
        return mt_key_fail(reader, entry, NULL, "sources is %s, expected a list of recipes",
                           node->kind == MT_YAML_LIST ? "empty" : mt_yaml_kind_text(node));
    recipe->source_count = node->count;
    recipe->sources = mt_arena_array(reader->arena, node->count, sizeof *recipe->sources, &status);
    const struct mt_yaml_node *item = node->first;
    for (size_t i = 0; i < node->count && status == MT_OK; i++, item = item->next)
        status = read_part(reader, entry, item, &recipe->sources[i]);
    return status;
}

// ------------------------------------------------------------------ the table

static const struct mt_key_row rows[] = {
    {"title", MT_KEY_NAME, AT(title), "TEXT", "required", .meaning = "what the recipe is, in one line"},
    {"count", MT_KEY_WHOLE, AT(count), "WHOLE NUMBER >= 0", "0",
     .meaning = "maximum number of rows, drawn by the seed; 0: all", .most = MOST_ROWS,
     .also = "limit|max_samples"},
    {"against", MT_KEY_LIST, AT(against), "LIST OF TASKS", "the tasks of its sources",
     .meaning = "more tasks whose test questions must not be in the rows"},
    {"sources", MT_KEY_OWN, 0, "LIST", "none",
     .meaning = "for a mixture: other recipes, as names or maps of recipe, count, weight", .set = set_sources,
     .also = "recipes|mixture|members", .members = &part_keys},
    {"task", MT_KEY_TEXT, AT(task), "NAME", "none",
     .meaning = "for a source: the task that gives prompt, choices and judge"},
    {"data", MT_KEY_LIST, AT(data), "PATH", "required",
     .meaning = "for a source: training file below the data folder, with {subtask} for each name; may end in "
                ".gz; of several, the first that exists; a folder: each .json file below it is a row"},
    {"format", MT_KEY_CHOICE, AT(format), "by-name|jsonl|json|csv|tsv|parquet|arrow", "by-name",
     .meaning = "format of that file"},
    {"columns", MT_KEY_TEXT, AT(columns), "a,b,c", "none",
     .meaning = "names of the columns, for a table without a header line"},
    {"fields", MT_KEY_TEXT, AT(fields), "a=x,b=y", "none",
     .meaning = "the file's names for the fields: field a is its x"},
    {"rows", MT_KEY_TEXT, AT(rows), "FIELD LOW-HIGH", "all",
     .meaning = "only rows whose field is a whole number in this range; or FIELD is TEXT ({subtask}: its "
                "name, also with spaces for _)"},
    {"id", MT_KEY_TEXT, AT(id), "FIELD", "row number", .meaning = "the field that identifies a row"},
    {"subtasks", MT_KEY_TEXTS, AT(subtasks), "LIST OF NAMES", "the task's",
     .meaning = "one file per name; {subtask} is the name in data and templates"},
    {"prompt", MT_KEY_OWN, AT(prompt), "TEMPLATE", "the task's", .meaning = "the question as in training",
     .set = mt_task_set_template},
    {"answer", MT_KEY_OWN, AT(answer), "TEMPLATE", "the task's", .meaning = "the right answer, for the judge",
     .set = mt_task_set_template},
    {"response", MT_KEY_OWN, AT(response), "TEMPLATE", "required",
     .meaning = "what the model is to write; {choice} and {letter} are the right choice's",
     .set = mt_task_set_template, .also = "completion|output|target"},
    {"domain", MT_KEY_CHOICE, AT(domain), "language|reasoning|science|math|code", "required",
     .meaning = "domain of a source without a task"},
    {0},
};

static const struct mt_key_part parts[] = {
    {.rows = rows}, {.rows = part_rows, .prefix = "sources[].", .of_elements = true}, {0}};
const struct mt_keys mt_recipe_keys = {.parts = parts, .loose = true};

// ------------------------------------------------------------------ a file

/* Keys that belong to the other kind of recipe. */
static enum mt_status check_kind(const struct mt_keys_reader *reader)
{
    const struct mt_recipe *recipe = reader->target;
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        bool of_both = mt_key_place_of_word("title|count|against|sources", entry->name) >= 0;
        if (recipe->sources != NULL && !of_both)
            return mt_key_fail(reader, entry, NULL, "a mixture has no key '%s': its sources do", entry->name);
        if (recipe->task != NULL && strcmp(entry->name, "domain") == 0)
            return mt_key_fail(reader, entry, NULL,
                               "domain has no effect together with task, which has its own");
        if (recipe->task == NULL && strcmp(entry->name, "answer") == 0)
            return mt_key_fail(reader, entry, NULL, "answer means nothing without task, which judges");
    }
    return MT_OK;
}

static enum mt_status check_required(const struct mt_keys_reader *reader)
{
    const struct mt_recipe *recipe = reader->target;
    const struct {
        const char *name;
        bool now;
    } names[] = {{"title", true},
                 {"data", recipe->sources == NULL},
                 {"response", recipe->sources == NULL},
                 {"prompt", recipe->sources == NULL && recipe->task == NULL},
                 {"domain", recipe->sources == NULL && recipe->task == NULL}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].now && mt_keys_given(reader, names[i].name) == NULL)
            return mt_key_fail(reader, NULL, NULL, "the key '%s' is missing%s", names[i].name,
                               i == 1 ? " (or 'sources', of a mixture)" : "");
    }
    return MT_OK;
}

static enum mt_status check(const struct mt_keys_reader *reader)
{
    const struct mt_recipe *recipe = reader->target;
    enum mt_status status = check_kind(reader);
    if (status == MT_OK) status = check_required(reader);
    if (status == MT_OK) status = mt_task_check_names(reader, "subtasks", recipe->subtasks);
    if (status != MT_OK) return status;
    int64_t counted = 0;
    for (size_t i = 0; i < recipe->source_count; i++) counted += recipe->sources[i].count;
    const struct mt_key_check checks[] = {
        {recipe->count > 0 && counted > recipe->count, "count",
         "count is less than its sources' counts are in all"},
        {!mt_task_is_rule(recipe->rows), "rows",
         "rows is 'FIELD LOW-HIGH' or 'FIELD is TEXT', as in 'task_id 601-974'"},
        {recipe->fields != NULL && !mt_dataset_fields_valid(recipe->fields), "fields",
         "fields is not of the form 'name=name in the file,...'"},
    };
    return mt_keys_check(reader, checks, sizeof checks / sizeof checks[0]);
}

enum mt_status mt_recipe_read(struct mt_context *ctx, const char *path, const char *text, size_t bytes,
                              struct mt_arena *arena, struct mt_recipe *recipe)
{
    struct mt_keys_reader reader = {
        .ctx = ctx, .arena = arena, .file = path, .keys = &mt_recipe_keys, .target = recipe};
    size_t length = 0;
    const char *base = mt_yaml_name(path, &length);
    *recipe = (struct mt_recipe){0};
    enum mt_status status = mt_arena_copy_text(arena, base, length, &recipe->name);
    if (status == MT_OK && text == NULL)
        status = mt_arena_copy_text(arena, path, strlen(path), &recipe->file);
    if (status == MT_OK) status = mt_keys_read(&reader, text, bytes, NULL, 0);
    return status == MT_OK ? check(&reader) : status;
}
