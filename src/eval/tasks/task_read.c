/* Task files: a table of keys, and how ways, steps and metrics are read. */
#include <stddef.h>
#include <string.h>

#include "eval/tasks/prompt.h"
#include "eval/tasks/task.h"
#include "formats/text/printable.h"
#include "formats/text/yaml_name.h"

#define WHITE " \t\r\n"

static const char *const domain_names[MT_DOMAINS] = {"language", "reasoning", "science", "math", "code"};

const char *mt_domain_name(enum mt_task_domain domain)
{
    return domain_names[domain];
}

// ------------------------------------------------------------------ values

enum mt_status mt_task_set_template(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    void *target)
{
    const struct mt_yaml_node *node = entry->node;
    const char *standard = NULL;
    memcpy(&standard, (char *)target + entry->row->offset, sizeof standard);
    if (node->kind != MT_YAML_SCALAR) return mt_key_refuse(reader, entry);
    if (mt_yaml_is_nothing(node) || node->text[strspn(node->text, WHITE)] == '\0') {
        if (!mt_key_is_required(entry->row) && standard == NULL) return MT_OK;
        return mt_key_fail(reader, entry, NULL, "%s is empty, expected %s", entry->name, entry->row->values);
    }
    if (mt_prompt_check(reader->ctx, node->text) != MT_OK) {
        (void)mt_fail_within(reader->ctx, MT_ERR_USAGE, "%s", entry->name);
        return mt_key_fail_within(reader, entry);
    }
    memcpy((char *)target + entry->row->offset, &node->text, sizeof node->text);
    return MT_OK;
}

/* The texts of a list within a value. */
static enum mt_status read_texts(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 const char *const **texts)
{
    const struct mt_key_row row = {.kind = MT_KEY_TEXTS, .values = entry->row->values};
    struct mt_key_entry here = *entry;
    here.row = &row;
    return mt_key_store(reader, &here, texts);
}

/* One way: a name, or a map of one: regex: PATTERN, first_regex: PATTERN, words: [..]. */
static enum mt_status read_way(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                               const struct mt_yaml_node *node, struct mt_extract_step *step)
{
    const struct mt_yaml_node *value = node;
    const char *name = node->text;
    if (node->kind == MT_YAML_MAP && node->count == 1) {
        value = node->first;
        name = value->key;
    } else if (node->kind != MT_YAML_SCALAR) {
        return mt_key_fail(reader, entry, node, "expected the name of a way, or one with its value");
    }
    struct mt_printable shown = mt_printable(name);
    step->first = strcmp(name, "first_regex") == 0;
    step->kind = step->first ? MT_EXTRACT_REGEX : mt_extract_named(name);
    if (step->kind == MT_EXTRACT_KINDS)
        return mt_key_fail(reader, entry, node, "unknown way to extract '%s'", shown.text);
    bool needs = step->kind == MT_EXTRACT_REGEX || step->kind == MT_EXTRACT_WORDS;
    if (needs != (value != node))
        return mt_key_fail(reader, entry, node,
                           needs ? "a value is missing after '%s'" : "no value may follow '%s'", shown.text);
    const struct mt_key_row words = {.values = "LIST OF TEXTS"};
    const struct mt_key_entry given = {.name = "words", .row = &words, .node = value};
    if (step->kind == MT_EXTRACT_WORDS) return read_texts(reader, &given, &step->words);
    if (step->kind != MT_EXTRACT_REGEX) return MT_OK;
    if (value->kind != MT_YAML_SCALAR)
        return mt_key_fail(reader, entry, value, "a pattern is expected after '%s'", shown.text);
    struct mt_extractor *trial = NULL;
    step->pattern = value->text;
    enum mt_status status = mt_extractor_create(reader->ctx, step, 1, &trial);
    mt_extractor_free(trial);
    return status == MT_OK ? MT_OK : mt_fail_within(reader->ctx, status, "%s:%d", reader->file, value->line);
}

static enum mt_status set_ways(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                               void *target)
{
    struct mt_task_filter *filter = target;
    const struct mt_yaml_node *node = entry->node;
    if (node->kind != MT_YAML_LIST || node->count == 0) return mt_key_refuse(reader, entry);
    enum mt_status status = MT_OK;
    struct mt_extract_step *steps = mt_arena_array(reader->arena, node->count, sizeof *steps, &status);
    if (status != MT_OK) return status;
    size_t count = 0;
    for (const struct mt_yaml_node *item = node->first; item != NULL && status == MT_OK; item = item->next)
        status = read_way(reader, entry, item, &steps[count++]);
    filter->extract = steps;
    filter->extract_count = count;
    return status;
}

static enum mt_status set_steps(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                void *target)
{
    struct mt_task_filter *filter = target;
    const char *const *names = NULL;
    size_t count = entry->node->count;
    enum mt_status status = read_texts(reader, entry, &names);
    enum mt_normalize_step *steps = mt_arena_array(reader->arena, count + 1, sizeof *steps, &status);
    if (status != MT_OK) return status;
    for (size_t i = 0; i < count; i++) {
        steps[i] = mt_normalize_named(names[i]);
        if (steps[i] == MT_NORMALIZE_STEPS)
            return mt_key_fail(reader, entry, NULL, "unknown step of normalize '%s'",
                               mt_printable(names[i]).text);
    }
    filter->normalize = steps;
    filter->normalize_count = count;
    return MT_OK;
}

static const struct mt_key_row filter_rows[] = {
    {"extract", MT_KEY_OWN, 0, "LIST OF WAYS", "required",
     .meaning = "how this filter finds the answer; the first way that finds one counts", .set = set_ways},
    {"normalize", MT_KEY_OWN, 0, "LIST OF STEPS", "the task's",
     .meaning = "applied to both answers before they are compared", .set = set_steps},
    {0},
};
static const struct mt_key_part filter_parts[] = {{.rows = filter_rows}, {0}};
static const struct mt_keys filter_keys = {.parts = filter_parts, .loose = true};

static enum mt_status set_extract(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  void *target)
{
    return set_ways(reader, entry, &((struct mt_task *)target)->filters[0]);
}

static enum mt_status set_normalize(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    void *target)
{
    struct mt_task *task = target;
    enum mt_status status = set_steps(reader, entry, &task->filters[0]);
    for (size_t i = 1; i < MT_MOST_FILTERS; i++) {
        task->filters[i].normalize = task->filters[0].normalize;
        task->filters[i].normalize_count = task->filters[0].normalize_count;
    }
    return status;
}

/* A map of names to filters, in its order. */
static enum mt_status set_filters(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                  void *target)
{
    struct mt_task *task = target;
    const struct mt_yaml_node *node = entry->node;
    enum mt_status status = MT_OK;
    if (node->kind != MT_YAML_MAP || node->count == 0) return mt_key_refuse(reader, entry);
    if (node->count > MT_MOST_FILTERS)
        return mt_key_fail(reader, entry, NULL, "more than %d filters", MT_MOST_FILTERS);
    task->filter_count = 0;
    for (const struct mt_yaml_node *item = node->first; item != NULL && status == MT_OK; item = item->next) {
        struct mt_task_filter *filter = &task->filters[task->filter_count++];
        if (strcspn(item->key, ", ") != strlen(item->key) || item->key[0] == '\0')
            return mt_key_fail(reader, entry, item, "a filter's name is a word without commas");
        if (item->kind != MT_YAML_MAP)
            return mt_key_fail(reader, entry, item, "expected a map with the key extract");
        filter->name = item->key;
        struct mt_keys_reader within = mt_keys_reader_within(reader, &filter_keys, filter);
        status = mt_keys_read_map(&within, item, entry->word);
        if (status == MT_OK && mt_keys_given(&within, "extract") == NULL)
            return mt_key_fail(reader, entry, item, "the key 'extract' is missing");
    }
    return status;
}

/* What stands between an example's prompt and its answer: white space, or nothing at all. */
static enum mt_status set_separator(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    void *target)
{
    const struct mt_yaml_node *node = entry->node;
    if (node->kind != MT_YAML_SCALAR || mt_yaml_is_nothing(node)) {
        bool empty = node->kind == MT_YAML_SCALAR && node->quoted;
        if (!empty) return mt_key_refuse(reader, entry);
    }
    ((struct mt_task *)target)->separator = node->text;
    return MT_OK;
}

static enum mt_status add_metric(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                 void *target)
{
    struct mt_task *task = target;
    const char *name = entry->node->kind == MT_YAML_SCALAR ? entry->node->text : "";
    enum mt_metric_kind metric = mt_metric_named(name);
    if (metric == MT_METRIC_KINDS)
        return mt_key_fail(reader, entry, NULL, "unknown metric '%s'", mt_printable(name).text);
    if (task->metric_count == MT_TASK_MOST_METRICS)
        return mt_key_fail(reader, entry, NULL, "more than %d metrics", MT_TASK_MOST_METRICS);
    task->metrics[task->metric_count++] = metric;
    return MT_OK;
}

// ------------------------------------------------------------------ the table

#define AT(field) offsetof(struct mt_task, field)

static const struct mt_key_row rows[] = {
    {"title", MT_KEY_NAME, AT(title), "TEXT", "required", .meaning = "what the task is, in one line"},
    {"comparable", MT_KEY_TEXT, AT(comparable), "TEXT", "none",
     .meaning = "the published figures that this task's are comparable with"},
    {"hub", MT_KEY_TEXT, AT(hub), "\"DATASET TASK QUESTIONS\"", "none",
     .meaning = "data set, task and number of questions on Hugging Face's hub, for metier eval --card"},
    {"domain", MT_KEY_CHOICE, AT(domain), "language|reasoning|science|math|code", "required",
     .meaning = "the domain its figure counts for"},
    {"version", MT_KEY_WHOLE, AT(version), "WHOLE NUMBER", "1",
     .meaning = "raise it when a change of the file changes figures", .most = 1e12},
    {"members", MT_KEY_TEXTS, AT(members), "LIST OF NAMES", "none",
     .meaning = "for a group: its tasks; no other key except title and domain"},
    {"subtasks", MT_KEY_TEXTS, AT(subtasks), "LIST OF NAMES", "none",
     .meaning = "for a family: one task per name; {subtask} is the name in data and templates"},
    {"data", MT_KEY_LIST, AT(data), "PATH", "required",
     .meaning = "file below the data folder; may end in .gz; a * stands for shards; of several, the first "
                "that exists"},
    {"format", MT_KEY_CHOICE, AT(format), "by-name|jsonl|json|csv|tsv|parquet|arrow", "by-name",
     .meaning = "format of that file"},
    {"columns", MT_KEY_TEXT, AT(columns), "a,b,c", "none",
     .meaning = "names of the columns, for a table without a header line"},
    {"fields", MT_KEY_TEXT, AT(fields), "a=x,b=y", "none",
     .meaning = "the file's names for the fields: field a is its x, if there is one"},
    {"rows", MT_KEY_TEXT, AT(rows), "FIELD LOW-HIGH", "all",
     .meaning = "only rows whose field is a whole number in this range; or FIELD is TEXT ({subtask}: its "
                "name, also with spaces for _); or FIELD from TEXT to TEXT, such as dates"},
    {"id", MT_KEY_TEXT, AT(id), "FIELD", "row number", .meaning = "the field that identifies a row"},
    {"form", MT_KEY_TEXT, AT(form), "none|NAME", "open",
     .meaning =
         "the form of its published text: none (plain text) or a chat template; open: the form of the run"},
    {"description", MT_KEY_OWN, AT(description), "TEMPLATE", "none",
     .meaning = "text before examples and question", .set = mt_task_set_template},
    {"prompt", MT_KEY_OWN, AT(prompt), "TEMPLATE", "required", .meaning = "the question as the model gets it",
     .set = mt_task_set_template},
    {"clean", MT_KEY_CHOICE, AT(clean), "none|wikihow", "none",
     .meaning =
         "wikihow: prompts and choices without \" [title]\", brackets and double spaces, as for HellaSwag"},
    {"answer", MT_KEY_OWN, AT(answer), "TEMPLATE", "required", .meaning = "the right answer",
     .set = mt_task_set_template},
    {"unanswered", MT_KEY_CHOICE, AT(unanswered), "warn|leave_out", "warn",
     .meaning = "leave out rows without a right answer: with a warning, or without one"},
    {"choices", MT_KEY_TEXTS, AT(choices), "LIST OF TEXTS", "none",
     .meaning = "the same choices for every row"},
    {"choice_fields", MT_KEY_TEXTS, AT(choice_fields), "LIST OF FIELDS", "none",
     .meaning = "fields that hold the choices"},
    {"choice_list", MT_KEY_TEXT, AT(choice_list), "FIELD", "none",
     .meaning = "a field with a list of choices, or an object of labels and choices; rows without it use "
                "choice_fields"},
    {"choice_label_list", MT_KEY_TEXT, AT(choice_label_list), "FIELD", "none",
     .meaning = "a field with the labels of the row's choices; `answer` is one of them"},
    {"choice_drop", MT_KEY_TEXT, AT(choice_drop), "TEXT", "none",
     .meaning = "leave out choices with this text"},
    {"choice_text", MT_KEY_OWN, AT(choice_text), "TEMPLATE", "{choice}", .meaning = "text of every choice",
     .set = mt_task_set_template},
    {"choice_labels", MT_KEY_TEXTS, AT(choice_labels), "LIST OF TEXTS", "A, B, ...",
     .meaning = "the value of `answer` for each choice"},
    {"answer_is", MT_KEY_CHOICE, AT(answer_is), "open|letter|or_index|text|index|number|flags|many", "open",
     .meaning = "how `answer` names a choice: by letter, text, index from 0 or number from 1; flags: a line "
                "per choice, one of them 1; many: several are 1, and their share of the probability is the "
                "score; or_index: by label or letter, else by index (copies of a data set differ); open: by "
                "label, or by letter or text, whichever fits"},
    {"shuffle", MT_KEY_CHOICE, AT(shuffle), "false|true|harness", "false",
     .meaning = "mix the choices by seed and row (before, the first is the right one); harness: as "
                "lm-evaluation-harness does (the last is)"},
    {"kind", MT_KEY_CHOICE, AT(kind), "generate|choose", "generate",
     .meaning = "the model writes an answer, or choices get log-likelihoods"},
    {"continuation", MT_KEY_OWN, AT(continuation), "TEMPLATE", "\" {letter}\"",
     .meaning = "for kind: choose, the text that is scored", .set = mt_task_set_template},
    {"max_tokens", MT_KEY_WHOLE, AT(max_tokens), "WHOLE NUMBER >= 1", "512",
     .meaning = "maximum number of new tokens", .most = 1e12},
    {"stop", MT_KEY_TEXTS, AT(stop), "LIST OF TEXTS", "none", .meaning = "texts that end an answer"},
    {"samples", MT_KEY_WHOLE, AT(samples), "WHOLE NUMBER", "1", .meaning = "answers per question",
     .most = 1e12},
    {"extract", MT_KEY_OWN, 0, "LIST OF WAYS", "whole",
     .meaning = "ways to find the answer; the first that finds one counts", .set = set_extract},
    {"normalize", MT_KEY_OWN, 0, "LIST OF STEPS", "trim",
     .meaning = "applied to both answers before texts are compared", .set = set_normalize},
    {"filters", MT_KEY_OWN, 0, "MAP OF NAMES TO {extract, normalize}", "none",
     .meaning = "instead of extract: several ways to read an answer, each with its own figures; the first "
                "gives the sample's verdict",
     .set = set_filters, .instead = "extract"},
    {"compare", MT_KEY_CHOICE, AT(compare),
     "text|math|code|list|numbers|instructions|table|mapping|livebench|option|command|ifeval|livecodebench",
     "text", .meaning = "how to decide whether an answer is right"},
    {"program", MT_KEY_OWN, AT(program), "TEMPLATE", "none",
     .meaning = "for compare: code; the answer as a program, whose functions the tests call",
     .set = mt_task_set_template},
    {"tests", MT_KEY_OWN, AT(tests), "TEMPLATE", "none",
     .meaning = "for compare: code; must run without error, in an interpreter of its own",
     .set = mt_task_set_template},
    {"given", MT_KEY_OWN, AT(given), "TEMPLATE", "none",
     .meaning = "for compare: code; runs before the tests: the task's own solution, helpers, imports",
     .set = mt_task_set_template},
    {"calls", MT_KEY_OWN, AT(calls), "TEMPLATE", "see docs/sandbox.md",
     .meaning = "for compare: code; names the tests take from the answer: name=name_in_answer ...",
     .set = mt_task_set_template},
    {"command", MT_KEY_TEXTS, AT(command), "LIST OF TEXTS", "none",
     .meaning = "for compare: command; the judging program and its arguments, started in this file's folder"},
    {"metrics", MT_KEY_EACH, 0,
     "LIST OF acc|acc_norm|exact_match|score|f1|macro_f1|mcc|pearson|spearman|pass|"
     "prompt_level_strict_acc|inst_level_strict_acc|prompt_level_loose_acc|inst_level_loose_acc",
     "acc", .meaning = "figures to report; the last four are for compare: ifeval", .set = add_metric},
    {"pass_k", MT_KEY_WHOLE, AT(pass_k), "WHOLE NUMBER", "1", .meaning = "k of pass@k", .most = 1e12},
    {"few_shot", MT_KEY_WHOLE, AT(few_shot), "WHOLE NUMBER", "0", .meaning = "examples before the question",
     .most = 1e12},
    {"few_shot_data", MT_KEY_LIST, AT(few_shot_data), "PATH", "none",
     .meaning = "file of the examples, found like data"},
    {"few_shot_rows", MT_KEY_TEXT, AT(few_shot_rows), "FIELD LOW-HIGH", "all",
     .meaning = "like rows, for that file"},
    {"few_shot_text", MT_KEY_OWN, AT(few_shot_text), "PATH", "none",
     .meaning = "instead of few_shot_data: a text of worked examples, each beginning as the prompt does",
     .set = mt_task_set_template},
    {"few_shot_answer", MT_KEY_OWN, AT(few_shot_answer), "TEMPLATE", "the right answer",
     .meaning = "answer of an example, which is the prompt, the separator and this",
     .set = mt_task_set_template},
    {"separator", MT_KEY_OWN, 0, "TEXT", "one space",
     .meaning = "text between the prompt and the answer of an example", .set = set_separator},
    {"few_shot_pick", MT_KEY_CHOICE, AT(few_shot_pick), "drawn|first|harness", "drawn",
     .meaning = "examples: drawn by the seed, the first rows in order, or drawn for every question as "
                "lm-evaluation-harness does"},
    {"seed", MT_KEY_SEED, AT(seed), "WHOLE NUMBER", "1234",
     .meaning = "seed of shuffled choices and drawn examples"},
    {0},
};

static const struct mt_key_part parts[] = {{.rows = rows}, {0}};
const struct mt_keys mt_task_keys = {.parts = parts, .loose = true};

// ------------------------------------------------------------------ a file

/* "FIELD LOW-HIGH", "FIELD is TEXT", "FIELD from A to B", or none. */
bool mt_task_is_rule(const char *rule)
{
    if (rule == NULL) return true;
    size_t field = strcspn(rule, " ");
    const char *at = rule + field;
    if (field > 0 && field < 128 && strncmp(at, " is ", 4) == 0) return at[4] != '\0';
    const char *to = strstr(at, " to ");
    if (field > 0 && field < 128 && strncmp(at, " from ", 6) == 0)
        return to != NULL && to > at + 6 && to[4] != '\0';
    size_t spaces = strspn(at, " ");
    size_t low = strspn(at + spaces, "0123456789");
    const char *dash = at + spaces + low;
    size_t high = *dash == '-' ? strspn(dash + 1, "0123456789") : 0;
    return field > 0 && field < 128 && spaces > 0 && low > 0 && low < 18 && high > 0 && high < 18 &&
           dash[1 + high] == '\0';
}

enum mt_status mt_task_check_names(const struct mt_keys_reader *reader, const char *key,
                                   const char *const *names)
{
    const struct mt_key_entry *entry = mt_keys_given(reader, key);
    if (names != NULL && names[0] == NULL) return mt_key_fail(reader, entry, NULL, "%s is empty", key);
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        if (names[i][strspn(names[i], WHITE)] == '\0')
            return mt_key_fail(reader, entry, NULL, "%s holds an empty text", key);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(names[i], names[k]) == 0)
                return mt_key_fail(reader, entry, NULL, "%s has '%s' twice", key,
                                   mt_printable(names[i]).text);
        }
    }
    return MT_OK;
}

/* Lists that mean nothing when they are empty: a group of nobody, choices of none. */
static enum mt_status check_lists(const struct mt_keys_reader *reader)
{
    const struct mt_task *task = reader->target;
    enum mt_status status = mt_task_check_names(reader, "members", task->members);
    if (status == MT_OK) status = mt_task_check_names(reader, "subtasks", task->subtasks);
    if (status == MT_OK) status = mt_task_check_names(reader, "choice_fields", task->choice_fields);
    if (status == MT_OK) status = mt_task_check_names(reader, "choice_labels", task->choice_labels);
    if (status == MT_OK && task->choices != NULL && task->choices[0] == NULL)
        status = mt_key_fail(reader, mt_keys_given(reader, "choices"), NULL, "choices is empty");
    return status;
}

/* Refuses keys that change nothing beside the others. */
static enum mt_status check_void(const struct mt_keys_reader *reader)
{
    const struct mt_task *task = reader->target;
    bool passes = false;
    for (size_t i = 0; i < task->metric_count; i++) passes = passes || task->metrics[i] == MT_METRIC_PASS;
    bool examples = task->few_shot_data != NULL;
    bool drawn = examples && task->few_shot_pick != MT_PICK_FIRST;
    const struct {
        const char *name;
        bool now;
        const char *why;
    } rules[] = {
        {"continuation", task->kind != MT_TASK_CHOOSE, "without kind: choose"},
        {"program", task->compare != MT_COMPARE_CODE, "without compare: code"},
        {"command", task->compare != MT_COMPARE_COMMAND, "without compare: command"},
        {"normalize", mt_task_runs_programs(task) || task->compare == MT_COMPARE_COMMAND,
         "with compare: code, livecodebench or command, which compare no texts"},
        {"pass_k", !passes, "without the metric pass"},
        {"few_shot_rows", !examples, "without few_shot_data"},
        {"few_shot_answer", !examples, "without few_shot_data"},
        {"separator", !examples && task->few_shot_text == NULL, "without examples"},
        {"few_shot_pick", !examples, "without few_shot_data"},
        {"seed", !task->shuffle && !drawn, "where neither choices are shuffled nor examples drawn"},
        {"answer_is", task->shuffle, "with shuffle: the first choice is right"},
        {"answer_is",
         task->choice_label_list != NULL ||
             (task->choice_labels != NULL && task->answer_is != MT_NAMED_OR_INDEX),
         "where choices have labels"},
        {"choice_label_list", task->shuffle, "with shuffle: the first choice is right"},
        {"columns", task->format == MT_DATASET_JSONL || task->format == MT_DATASET_JSON,
         "with a format that names its fields"},
    };
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        const struct mt_key_entry *entry = mt_keys_given(reader, rules[r].name);
        if (!rules[r].now || entry == NULL) continue;
        return mt_key_fail(reader, entry, NULL, "%s means nothing %s", entry->name, rules[r].why);
    }
    return MT_OK;
}

static enum mt_status check_group(const struct mt_keys_reader *reader)
{
    for (const struct mt_key_entry *entry = reader->entries; entry != NULL; entry = entry->next) {
        if (mt_key_place_of_word("title|domain|members|version", entry->name) < 0)
            return mt_key_fail(reader, entry, NULL, "a group has no key '%s'", entry->name);
    }
    return MT_OK;
}

static enum mt_status check_required(const struct mt_keys_reader *reader)
{
    static const char *const names[] = {"title", "domain", "data", "prompt", "answer"};
    bool group = ((const struct mt_task *)reader->target)->members != NULL;
    for (size_t i = 0; i < (group ? 2 : sizeof names / sizeof names[0]); i++) {
        if (mt_keys_given(reader, names[i]) == NULL)
            return mt_key_fail(reader, NULL, NULL, "the key '%s' is missing", names[i]);
    }
    return MT_OK;
}

static enum mt_status check(const struct mt_keys_reader *reader)
{
    const struct mt_task *task = reader->target;
    enum mt_status status = check_required(reader);
    if (status == MT_OK) status = check_lists(reader);
    if (status != MT_OK) return status;
    if (task->members != NULL) return check_group(reader);
    int choices = (task->choices != NULL) + (task->choice_fields != NULL || task->choice_list != NULL);
    bool chooses = task->kind == MT_TASK_CHOOSE || task->shuffle || task->choice_labels != NULL ||
                   task->choice_label_list != NULL || mt_keys_given(reader, "answer_is") != NULL;
    bool fixed = task->choices != NULL || task->choice_fields != NULL;
    bool code = task->compare == MT_COMPARE_CODE;
    bool means = true;
    for (size_t i = 0; i < task->metric_count; i++) means = means && mt_metric_is_mean(task->metrics[i]);
    const struct mt_key_check checks[] = {
        {choices > 1, "", "choices excludes choice_fields and choice_list"},
        {choices == 0 && chooses, "", "the key 'choices' is missing (or choice_fields, or choice_list)"},
        {task->shuffle == MT_SHUFFLE_HARNESS && (!fixed || task->choice_drop != NULL), "shuffle",
         "shuffle: harness needs choices or choice_fields, the same number for every row"},
        {task->choice_labels != NULL && task->choice_label_list != NULL, "",
         "choice_labels and choice_label_list exclude each other"},
        {code && task->program == NULL, "", "the key 'program' is missing, which compare: code runs"},
        {code && task->tests == NULL, "",
         "the key 'tests' is missing, which call the program's functions from an interpreter of their own"},
        {task->compare == MT_COMPARE_COMMAND && (task->command == NULL || task->command[0] == NULL), "",
         "the key 'command' is missing: the program that judges, and its arguments"},
        {task->compare == MT_COMPARE_COMMAND && task->kind == MT_TASK_CHOOSE, "compare",
         "compare: command judges answers in writing, which kind: choose has none of"},
        {!mt_task_is_rule(task->rows) || !mt_task_is_rule(task->few_shot_rows), "",
         "rows and few_shot_rows are 'FIELD LOW-HIGH', 'FIELD is TEXT' or 'FIELD from TEXT to TEXT', as in "
         "'task_id 11-510'"},
        {task->fields != NULL && !mt_dataset_fields_valid(task->fields), "fields",
         "fields is not of the form 'name=name in the file,...'"},
        {task->few_shot > 0 && task->few_shot_data == NULL && task->few_shot_text == NULL, "",
         "the key 'few_shot_data' is missing, where the examples come from"},
        {task->few_shot_data != NULL && task->few_shot_text != NULL, "",
         "few_shot_data and few_shot_text exclude each other"},
        {task->filter_count > 1 &&
             (mt_task_runs_programs(task) || task->compare == MT_COMPARE_COMMAND || !means),
         "filters",
         "filters are for the metrics acc, exact_match and score, and not for compare: code, livecodebench "
         "or "
         "command"},
        {task->samples < 1 || task->samples > 1000 || task->pass_k < 1 || task->pass_k > task->samples, "",
         "samples must be 1 to 1000 and pass_k at most samples"},
    };
    status = mt_keys_check(reader, checks, sizeof checks / sizeof checks[0]);
    return status == MT_OK ? check_void(reader) : status;
}

static const struct mt_extract_step whole_text = {.kind = MT_EXTRACT_WHOLE};
static const struct mt_extract_step letter_first = {.kind = MT_EXTRACT_LETTER};
static const enum mt_normalize_step only_trim = MT_NORMALIZE_TRIM;
static const char *const nothing[] = {NULL};

/* Reads the text, or the file where there is none. */
static enum mt_status read_task(struct mt_keys_reader *reader, const char *text, size_t bytes,
                                const char *name)
{
    struct mt_task *task = reader->target;
    // Defaults of keys that are more than a value.
    *task = (struct mt_task){.name = name,
                             .family = name,
                             .continuation = " {letter}",
                             .stop = nothing,
                             .separator = " ",
                             .filter_count = 1};
    for (size_t i = 0; i < MT_MOST_FILTERS; i++) {
        task->filters[i] = (struct mt_task_filter){
            .extract = &whole_text, .extract_count = 1, .normalize = &only_trim, .normalize_count = 1};
    }
    enum mt_status status = mt_keys_read(reader, text, bytes, NULL, 0);
    if (task->metric_count == 0) task->metrics[task->metric_count++] = MT_METRIC_ACCURACY;
    if (task->kind == MT_TASK_CHOOSE && mt_keys_given(reader, "extract|filters") == NULL)
        task->filters[0].extract = &letter_first;
    return status == MT_OK ? check(reader) : status;
}

enum mt_status mt_task_read(struct mt_context *ctx, const char *path, const char *text, size_t bytes,
                            struct mt_arena *arena, struct mt_task *task)
{
    struct mt_keys_reader reader = {
        .ctx = ctx, .arena = arena, .file = path, .keys = &mt_task_keys, .target = task};
    size_t length = 0;
    const char *base = mt_yaml_name(path, &length);
    const char *name = NULL;
    const char *file = NULL;
    enum mt_status status = mt_arena_copy_text(arena, base, length, &name);
    if (status == MT_OK && text == NULL) status = mt_arena_copy_text(arena, path, strlen(path), &file);
    if (status == MT_OK) status = read_task(&reader, text, bytes, name);
    if (status == MT_OK) task->file = file;
    return status;
}
