/* Task files: a table of keys, and YAML values to fields. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "eval/tasks/prompt.h"
#include "eval/tasks/task.h"
#include "formats/text/printable.h"
#include "formats/text/yaml.h"

#define NEAR 4 // edits a suggestion may be away

enum value_kind { TEXT, TEMPLATE, LIST, WHOLE, FLAG, WORD, EXTRACT, NORMALIZE, METRICS, FORMAT };

struct key_row {
    const char *name;
    enum value_kind kind;
    size_t offset;
    const char *values; // of WORD the words themselves
    const char *standard;
    const char *meaning;
};

#define AT(field) offsetof(struct mt_task, field)

static const struct key_row keys[] = {
    {"title", TEXT, AT(title), "TEXT", "required", "what it is, in a line"},
    {"domain", WORD, AT(domain), "language|reasoning|science|math|code", "required",
     "the group its figure counts in"},
    {"version", WHOLE, AT(version), "WHOLE NUMBER", "1", "raised when figures change with the file"},
    {"members", LIST, AT(members), "LIST OF NAMES", "none",
     "of a group: other tasks; no other key but title and domain"},
    {"subtasks", LIST, AT(subtasks), "LIST OF NAMES", "none",
     "of a family: one task each, {subtask} in data and templates"},
    {"data", TEMPLATE, AT(data), "PATH", "required", "the file below the folder of data; .gz may follow"},
    {"format", FORMAT, AT(format), "by-name|jsonl|json|csv|tsv", "by-name", "of that file"},
    {"columns", TEXT, AT(columns), "a,b,c", "none", "of a table without a line of names"},
    {"rows", TEXT, AT(rows), "FIELD LOW-HIGH", "all", "only rows whose field is a whole number between"},
    {"id", TEXT, AT(id), "FIELD", "row number", "what names a row"},
    {"description", TEMPLATE, AT(description), "TEMPLATE", "none",
     "what stands before examples and question"},
    {"prompt", TEMPLATE, AT(prompt), "TEMPLATE", "required", "the question as the model gets it"},
    {"answer", TEMPLATE, AT(answer), "TEMPLATE", "required", "the right answer"},
    {"choices", LIST, AT(choices), "LIST OF TEXTS", "none", "the same choices for every row"},
    {"choice_fields", LIST, AT(choice_fields), "LIST OF FIELDS", "none", "fields that hold the choices"},
    {"choice_list", TEXT, AT(choice_list), "FIELD", "none", "a field that holds a list of choices"},
    {"choice_labels", LIST, AT(choice_labels), "LIST OF TEXTS", "A, B, ...",
     "what `answer` says for each choice"},
    {"shuffle", FLAG, AT(shuffle), "true|false", "false",
     "mix the choices by seed and row; the first is right before"},
    {"kind", WORD, AT(kind), "generate|choose", "generate",
     "the model writes, or choices get log-likelihoods"},
    {"continuation", TEMPLATE, AT(continuation), "TEMPLATE", "\" {letter}\"", "of choose: what is scored"},
    {"max_tokens", WHOLE, AT(max_tokens), "WHOLE NUMBER", "512", "new tokens at most"},
    {"stop", LIST, AT(stop), "LIST OF TEXTS", "none", "what ends an answer"},
    {"samples", WHOLE, AT(samples), "WHOLE NUMBER", "1", "answers per question"},
    {"extract", EXTRACT, 0, "LIST OF WAYS", "whole",
     "how the answer is found; the first that finds one counts"},
    {"normalize", NORMALIZE, 0, "LIST OF STEPS", "trim", "done to both answers before texts are compared"},
    {"compare", WORD, AT(compare), "text|math|code|list|numbers|instructions|table|mapping", "text",
     "when an answer is right"},
    {"program", TEMPLATE, AT(program), "TEMPLATE", "none",
     "of compare: code; the answer as a program, whose functions the tests call"},
    {"tests", TEMPLATE, AT(tests), "TEMPLATE", "none",
     "of compare: code; what must run through, in an interpreter of its own"},
    {"given", TEMPLATE, AT(given), "TEMPLATE", "none",
     "of compare: code; runs before the tests: the task's own solution, helpers, imports"},
    {"calls", TEMPLATE, AT(calls), "TEMPLATE", "see docs/sandbox.md",
     "of compare: code; names the tests take from the answer: name=name_in_answer ..."},
    {"metrics", METRICS, 0, "LIST OF acc|exact_match|score|f1|macro_f1|mcc|pearson|spearman|pass", "acc",
     "figures to report"},
    {"pass_k", WHOLE, AT(pass_k), "WHOLE NUMBER", "1", "k of pass@k"},
    {"few_shot", WHOLE, AT(few_shot), "WHOLE NUMBER", "0", "examples before the question"},
    {"few_shot_data", TEMPLATE, AT(few_shot_data), "PATH", "none", "the file they come from"},
    {"few_shot_rows", TEXT, AT(few_shot_rows), "FIELD LOW-HIGH", "all", "as rows, of that file"},
    {"few_shot_example", TEMPLATE, AT(few_shot_example), "TEMPLATE", "prompt and answer",
     "one example, with its answer"},
    {"few_shot_pick", WORD, AT(few_shot_pick), "drawn|first", "drawn",
     "examples drawn by the seed, or the first rows in order"},
    {"seed", WHOLE, AT(seed), "WHOLE NUMBER", "1234", "of shuffled choices and drawn examples"},
};

#define KEY_COUNT (sizeof keys / sizeof keys[0])

static const char *const domain_names[MT_DOMAINS] = {"language", "reasoning", "science", "math", "code"};

const char *mt_domain_name(enum mt_task_domain domain)
{
    return domain_names[domain];
}

bool mt_task_key_listed(int index, struct mt_task_key *key)
{
    if (index < 0 || (size_t)index >= KEY_COUNT) return false;
    const struct key_row *row = &keys[index];
    *key = (struct mt_task_key){row->name, row->values, row->standard, row->meaning};
    return true;
}

struct reader {
    struct mt_context *ctx;
    const char *file;
    struct mt_arena *arena;
    struct mt_task *task;
    bool given[KEY_COUNT];
    int lines[KEY_COUNT];
};

static enum mt_status fail_at(const struct reader *reader, int line, const char *what, const char *which)
{
    return mt_fail(reader->ctx, MT_ERR_USAGE, "%s:%d: %s '%s'", reader->file, line, what,
                   mt_printable(which).text);
}

static enum mt_status unknown_key(const struct reader *reader, const struct mt_yaml_node *node)
{
    const char *best = NULL;
    int distance = NEAR;
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (mt_nearer(node->key, keys[i].name, &distance)) best = keys[i].name;
    }
    return mt_fail(reader->ctx, MT_ERR_USAGE, "%s:%d: unknown key '%s'%s%s%s", reader->file, node->line,
                   mt_printable(node->key).text, best != NULL ? ", did you mean '" : "",
                   best != NULL ? best : "", best != NULL ? "'?" : "");
}

// ------------------------------------------------------------------ values

static enum mt_status copy_text(const struct reader *reader, const char *text, const char **copy)
{
    char *made = NULL;
    enum mt_status status = mt_arena_copy_text(reader->arena, text, strlen(text), &made);
    *copy = made;
    return status;
}

static enum mt_status store_list(const struct reader *reader, const struct mt_yaml_node *node,
                                 const char *const **list)
{
    void *memory = NULL;
    if (node->kind != MT_YAML_LIST) return fail_at(reader, node->line, "a list is expected for", node->key);
    enum mt_status status = mt_arena_allocate(reader->arena, (node->count + 1) * sizeof(char *), &memory);
    if (status != MT_OK) return status;
    const char **texts = memory;
    size_t count = 0;
    for (const struct mt_yaml_node *item = node->first; item != NULL && status == MT_OK; item = item->next) {
        if (item->kind != MT_YAML_SCALAR)
            return fail_at(reader, item->line, "a text is expected in", node->key);
        status = copy_text(reader, item->text, &texts[count++]);
    }
    *list = texts;
    return status;
}

static enum mt_status store_whole(const struct reader *reader, const struct mt_yaml_node *node,
                                  int64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(node->text, &end, 10);
    if (errno != 0 || end == node->text || *end != '\0' || number < 0 || number > 1000000000000)
        return fail_at(reader, node->line, "a whole number is expected, not", node->text);
    *value = number;
    return MT_OK;
}

/* The place of a word among those between bars; -1: none of them. */
static int word_place(const char *words, const char *word)
{
    int place = 0;
    size_t length = strlen(word);
    for (const char *at = words;; place++) {
        size_t bytes = strcspn(at, "|");
        if (bytes == length && memcmp(at, word, length) == 0) return place;
        if (at[bytes] == '\0') return -1;
        at += bytes + 1;
    }
}

static enum mt_status store_word(const struct reader *reader, const struct mt_yaml_node *node,
                                 const struct key_row *row, void *target)
{
    int place = word_place(row->values, node->text);
    if (place < 0) {
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s:%d: %s is '%s', expected one of %s", reader->file,
                       node->line, row->name, mt_printable(node->text).text, row->values);
    }
    if (row->kind == FLAG) {
        *(bool *)target = place == 0;
    } else {
        // Every enum of a task starts at 0 and has the size of an int.
        *(int *)target = place;
    }
    return MT_OK;
}

/* One way: a name, or a map of one: regex: PATTERN, first_regex: PATTERN, words: [..]. */
static enum mt_status store_way(const struct reader *reader, const struct mt_yaml_node *node,
                                struct mt_extract_step *step)
{
    const struct mt_yaml_node *value = node;
    const char *name = node->text;
    if (node->kind == MT_YAML_MAP && node->count == 1) {
        value = node->first;
        name = value->key;
    } else if (node->kind != MT_YAML_SCALAR) {
        return fail_at(reader, node->line, "expected the name of a way, or one with its value, in",
                       "extract");
    }
    step->first = strcmp(name, "first_regex") == 0;
    step->kind = step->first ? MT_EXTRACT_REGEX : mt_extract_named(name);
    if (step->kind == MT_EXTRACT_KINDS) return fail_at(reader, node->line, "unknown way to extract", name);
    bool needs = step->kind == MT_EXTRACT_REGEX || step->kind == MT_EXTRACT_WORDS;
    if (needs != (value != node)) {
        return fail_at(reader, node->line, needs ? "a value is missing after" : "no value may follow", name);
    }
    if (step->kind == MT_EXTRACT_WORDS) return store_list(reader, value, &step->words);
    if (step->kind != MT_EXTRACT_REGEX) return MT_OK;
    if (value->kind != MT_YAML_SCALAR)
        return fail_at(reader, value->line, "a pattern is expected after", name);
    struct mt_extractor *trial = NULL;
    enum mt_status status = copy_text(reader, value->text, &step->pattern);
    if (status == MT_OK) status = mt_extractor_create(reader->ctx, step, 1, &trial);
    mt_extractor_free(trial);
    return status == MT_OK ? MT_OK : mt_fail_within(reader->ctx, status, "%s:%d", reader->file, value->line);
}

static enum mt_status store_ways(const struct reader *reader, const struct mt_yaml_node *node)
{
    void *memory = NULL;
    if (node->kind != MT_YAML_LIST || node->count == 0)
        return fail_at(reader, node->line, "a list is expected for", node->key);
    enum mt_status status =
        mt_arena_allocate(reader->arena, node->count * sizeof(struct mt_extract_step), &memory);
    if (status != MT_OK) return status;
    struct mt_extract_step *steps = memory;
    size_t count = 0;
    for (const struct mt_yaml_node *item = node->first; item != NULL && status == MT_OK; item = item->next)
        status = store_way(reader, item, &steps[count++]);
    reader->task->extract = steps;
    reader->task->extract_count = count;
    return status;
}

static enum mt_status store_steps(const struct reader *reader, const struct mt_yaml_node *node)
{
    const char *const *names = NULL;
    void *memory = NULL;
    enum mt_status status = store_list(reader, node, &names);
    if (status == MT_OK)
        status =
            mt_arena_allocate(reader->arena, (node->count + 1) * sizeof(enum mt_normalize_step), &memory);
    if (status != MT_OK) return status;
    enum mt_normalize_step *steps = memory;
    for (size_t i = 0; i < node->count; i++) {
        steps[i] = mt_normalize_named(names[i]);
        if (steps[i] == MT_NORMALIZE_STEPS)
            return fail_at(reader, node->line, "unknown step of normalize", names[i]);
    }
    reader->task->normalize = steps;
    reader->task->normalize_count = node->count;
    return MT_OK;
}

static enum mt_status store_metrics(const struct reader *reader, const struct mt_yaml_node *node)
{
    const char *const *names = NULL;
    enum mt_status status = store_list(reader, node, &names);
    if (status != MT_OK) return status;
    if (node->count == 0 || node->count > MT_TASK_MOST_METRICS)
        return fail_at(reader, node->line, "expected one to four names for", node->key);
    for (size_t i = 0; i < node->count; i++) {
        reader->task->metrics[i] = mt_metric_named(names[i]);
        if (reader->task->metrics[i] == MT_METRIC_KINDS)
            return fail_at(reader, node->line, "unknown metric", names[i]);
    }
    reader->task->metric_count = node->count;
    return MT_OK;
}

static enum mt_status store(const struct reader *reader, const struct mt_yaml_node *node,
                            const struct key_row *row)
{
    void *target = (char *)reader->task + row->offset;
    bool scalar = row->kind != LIST && row->kind != EXTRACT && row->kind != NORMALIZE && row->kind != METRICS;
    if (scalar && node->kind != MT_YAML_SCALAR)
        return fail_at(reader, node->line, "one value is expected for", node->key);
    switch (row->kind) {
    case TEMPLATE: {
        enum mt_status status = mt_prompt_check(reader->ctx, node->text);
        if (status != MT_OK)
            return mt_fail_within(reader->ctx, status, "%s:%d: %s", reader->file, node->line, row->name);
        return copy_text(reader, node->text, target);
    }
    case TEXT: return copy_text(reader, node->text, target);
    case LIST: return store_list(reader, node, target);
    case WHOLE: return store_whole(reader, node, target);
    case FLAG:
    case WORD: return store_word(reader, node, row, target);
    case FORMAT: {
        enum mt_dataset_format format = mt_dataset_format_named(node->text);
        if (format == MT_DATASET_FORMATS) return fail_at(reader, node->line, "unknown format", node->text);
        reader->task->format = format;
        return MT_OK;
    }
    case EXTRACT: return store_ways(reader, node);
    case NORMALIZE: return store_steps(reader, node);
    default: return store_metrics(reader, node);
    }
}

// ------------------------------------------------------------------ a file

static bool given(const struct reader *reader, const char *name)
{
    for (size_t i = 0; i < KEY_COUNT; i++) {
        if (strcmp(keys[i].name, name) == 0) return reader->given[i];
    }
    return false;
}

static int line_of(const struct reader *reader, const char *name)
{
    size_t i = 0;
    while (strcmp(keys[i].name, name) != 0) i++; // a key of ours
    return reader->lines[i];
}

static enum mt_status missing(const struct reader *reader, const char *name, const char *why)
{
    return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: the key '%s' is missing%s", reader->file, name, why);
}

/* "FIELD LOW-HIGH" */
static bool is_rule(const char *rule)
{
    size_t field = strcspn(rule, " ");
    const char *at = rule + field;
    size_t spaces = strspn(at, " ");
    size_t low = strspn(at + spaces, "0123456789");
    const char *dash = at + spaces + low;
    size_t high = *dash == '-' ? strspn(dash + 1, "0123456789") : 0;
    return field > 0 && field < 128 && spaces > 0 && low > 0 && low < 18 && high > 0 && high < 18 &&
           dash[1 + high] == '\0';
}

static enum mt_status check_rules(const struct reader *reader)
{
    const struct mt_task *task = reader->task;
    bool good = (task->rows == NULL || is_rule(task->rows)) &&
                (task->few_shot_rows == NULL || is_rule(task->few_shot_rows));
    if (good) return MT_OK;
    return mt_fail(reader->ctx, MT_ERR_USAGE,
                   "%s: rows and few_shot_rows are 'FIELD LOW-HIGH', as in 'task_id 11-510'", reader->file);
}

/* Refuses keys that change nothing beside the others. */
static enum mt_status check_void(const struct reader *reader)
{
    const struct mt_task *task = reader->task;
    bool passes = false;
    for (size_t i = 0; i < task->metric_count; i++) passes = passes || task->metrics[i] == MT_METRIC_PASS;
    bool examples = task->few_shot_data != NULL;
    bool drawn = examples && task->few_shot_pick == MT_PICK_DRAWN;
    const struct {
        const char *name;
        bool now;
        const char *why;
    } rules[] = {
        {"continuation", task->kind != MT_TASK_CHOOSE, "without kind: choose"},
        {"program", task->compare != MT_COMPARE_CODE, "without compare: code"},
        {"normalize", task->compare == MT_COMPARE_CODE, "with compare: code, which compares no texts"},
        {"pass_k", !passes, "without the metric pass"},
        {"few_shot_rows", !examples, "without few_shot_data"},
        {"few_shot_example", !examples, "without few_shot_data"},
        {"few_shot_pick", !examples, "without few_shot_data"},
        {"seed", !task->shuffle && !drawn, "where neither choices are shuffled nor examples drawn"},
        {"columns", task->format == MT_DATASET_JSONL || task->format == MT_DATASET_JSON,
         "with a format that names its fields"},
    };
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        if (!rules[r].now || !given(reader, rules[r].name)) continue;
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s:%d: %s means nothing %s", reader->file,
                       line_of(reader, rules[r].name), rules[r].name, rules[r].why);
    }
    return MT_OK;
}

static enum mt_status check(const struct reader *reader)
{
    const struct mt_task *task = reader->task;
    if (!given(reader, "title")) return missing(reader, "title", "");
    if (!given(reader, "domain")) return missing(reader, "domain", "");
    if (task->members != NULL) {
        for (size_t i = 0; i < KEY_COUNT; i++) {
            bool common = strcmp(keys[i].name, "title") == 0 || strcmp(keys[i].name, "domain") == 0 ||
                          strcmp(keys[i].name, "members") == 0 || strcmp(keys[i].name, "version") == 0;
            if (reader->given[i] && !common)
                return fail_at(reader, reader->lines[i], "a group has no key", keys[i].name);
        }
        return MT_OK;
    }
    static const char *const always[] = {"data", "prompt", "answer"};
    for (size_t i = 0; i < 3; i++) {
        if (!given(reader, always[i])) return missing(reader, always[i], "");
    }
    int sources = (task->choices != NULL) + (task->choice_fields != NULL) + (task->choice_list != NULL);
    if (sources > 1)
        return mt_fail(reader->ctx, MT_ERR_USAGE,
                       "%s: choices, choice_fields and choice_list exclude each other", reader->file);
    if (sources == 0 && (task->kind == MT_TASK_CHOOSE || task->shuffle || task->choice_labels != NULL))
        return missing(reader, "choices", " (or choice_fields, or choice_list)");
    if (task->compare == MT_COMPARE_CODE && task->program == NULL)
        return missing(reader, "program", ", which compare: code runs");
    if (task->compare == MT_COMPARE_CODE && task->tests == NULL)
        return missing(reader, "tests",
                       ", which call the program's functions from an interpreter of their own");
    enum mt_status status = check_rules(reader);
    if (status != MT_OK) return status;
    if (task->few_shot > 0 && task->few_shot_data == NULL)
        return missing(reader, "few_shot_data", ", where the examples come from");
    if (task->samples < 1 || task->samples > 1000 || task->pass_k < 1 || task->pass_k > task->samples)
        return mt_fail(reader->ctx, MT_ERR_USAGE, "%s: samples must be 1 to 1000 and pass_k at most samples",
                       reader->file);
    return check_void(reader);
}

static const struct mt_extract_step whole_text = {.kind = MT_EXTRACT_WHOLE};
static const struct mt_extract_step letter_first = {.kind = MT_EXTRACT_LETTER};
static const enum mt_normalize_step only_trim = MT_NORMALIZE_TRIM;
static const char *const nothing[] = {NULL};

static enum mt_status read_root(struct reader *reader, const struct mt_yaml_node *root, const char *name)
{
    struct mt_task *task = reader->task;
    *task = (struct mt_task){.version = 1,
                             .continuation = " {letter}",
                             .max_tokens = 512,
                             .stop = nothing,
                             .samples = 1,
                             .extract = &whole_text,
                             .extract_count = 1,
                             .normalize = &only_trim,
                             .normalize_count = 1,
                             .metric_count = 1,
                             .pass_k = 1,
                             .seed = 1234};
    if (root->kind != MT_YAML_MAP)
        return fail_at(reader, root->line, "a task is a map of keys:", reader->file);
    enum mt_status status = copy_text(reader, name, &task->name);
    task->family = task->name;
    for (const struct mt_yaml_node *node = root->first; node != NULL && status == MT_OK; node = node->next) {
        size_t i = 0;
        while (i < KEY_COUNT && strcmp(keys[i].name, node->key) != 0) i++;
        if (i == KEY_COUNT) return unknown_key(reader, node);
        reader->given[i] = true;
        reader->lines[i] = node->line;
        status = store(reader, node, &keys[i]);
    }
    if (status == MT_OK && task->kind == MT_TASK_CHOOSE && !given(reader, "extract"))
        task->extract = &letter_first;
    return status == MT_OK ? check(reader) : status;
}

enum mt_status mt_task_parse(struct mt_context *ctx, const char *name, const char *text, size_t bytes,
                             struct mt_arena *arena, struct mt_task *task)
{
    struct reader reader = {.ctx = ctx, .file = name, .arena = arena, .task = task};
    struct mt_yaml_node *root = NULL;
    enum mt_status status = mt_yaml_parse(ctx, name, text, bytes, &mt_yaml_file_limits, arena, &root);
    return status == MT_OK ? read_root(&reader, root, name) : status;
}

enum mt_status mt_task_read(struct mt_context *ctx, const char *path, struct mt_arena *arena,
                            struct mt_task *task)
{
    struct reader reader = {.ctx = ctx, .file = path, .arena = arena, .task = task};
    struct mt_yaml_node *root = NULL;
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    size_t length = strlen(base);
    if (length > 5 && strcmp(base + length - 5, ".yaml") == 0) length -= 5;
    char *name = NULL;
    char *file = NULL;
    enum mt_status status = mt_arena_copy_text(arena, base, length, &name);
    if (status == MT_OK) status = mt_arena_copy_text(arena, path, strlen(path), &file);
    if (status == MT_OK) status = mt_yaml_read(ctx, path, &mt_yaml_file_limits, arena, &root);
    if (status == MT_OK) status = read_root(&reader, root, name);
    if (status == MT_OK) task->file = file;
    return status;
}
