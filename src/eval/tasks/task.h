/*
 * A task: where questions come from, how they are put, and how answers are found and judged. A task is a YAML
 * file of share/tasks (docs/evaluation.md lists the keys); nothing about a task is in code.
 *
 * A file describes one task, a family (`subtasks`: the same description for many files, "{subtask}" standing
 * for the name in `data`, `few_shot_data` and templates), or a group (`members`: names of other files).
 */
#ifndef MT_EVAL_TASK_H
#define MT_EVAL_TASK_H

#include "base/arena.h"
#include "eval/answers/extract.h"
#include "eval/answers/metric.h"
#include "eval/answers/normalize.h"
#include "formats/data/dataset.h"
#include "formats/keys/keys.h"

/* The key `clean`: what data sets leave in their texts and published prompts do not have, taken out of
 * prompts and choices as they are filled in. */
enum mt_task_clean {
    MT_CLEAN_NOTHING,
    MT_CLEAN_WIKIHOW, // as lm-evaluation-harness cleans HellaSwag's
};

/* Cleans a text in place; returns its bytes, which are no more than before. */
size_t mt_clean_text(enum mt_task_clean way, char *text, size_t bytes);

enum mt_task_domain {
    MT_DOMAIN_LANGUAGE,
    MT_DOMAIN_REASONING,
    MT_DOMAIN_SCIENCE,
    MT_DOMAIN_MATH,
    MT_DOMAIN_CODE,
    MT_DOMAINS
};

enum mt_task_kind {
    MT_TASK_GENERATE, // the model writes, an answer is extracted
    MT_TASK_CHOOSE,   // every choice gets a log-likelihood, the highest is the answer
};

enum mt_task_compare {
    MT_COMPARE_TEXT,          // normalised texts
    MT_COMPARE_MATH,          // answer_math.h
    MT_COMPARE_CODE,          // `program` passes `tests`
    MT_COMPARE_LIST,          // items between commas: the share of edits not needed
    MT_COMPARE_NUMBERS,       // both are numbers, for correlations; nothing is right or wrong
    MT_COMPARE_INSTRUCTIONS,  // the row's instructions are followed (livebench.h)
    MT_COMPARE_TABLE,         // the table the question asks for (likewise)
    MT_COMPARE_MAPPING,       // a dict of names: F1 over its pairs (likewise)
    MT_COMPARE_LIVEBENCH,     // puzzles and contests, by LiveBench's own rules (likewise)
    MT_COMPARE_OPTION,        // "(B) text": the letter, the text or both
    MT_COMPARE_COMMAND,       // a program says so (judges/judge_command.h)
    MT_COMPARE_IFEVAL,        // the row's instructions, each by itself (instructions.h)
    MT_COMPARE_LIVECODEBENCH, // a program passes the row's cases (row_cases.h)
};

enum mt_task_pick {
    MT_PICK_DRAWN,   // examples by the seed
    MT_PICK_FIRST,   // the first rows, in order
    MT_PICK_HARNESS, // as lm-evaluation-harness draws them: others for every question (python_random.h)
};

enum mt_task_shuffle {
    MT_SHUFFLE_NOT,
    MT_SHUFFLE_ROW,     // mix the choices, by seed and row; the answer is the first before
    MT_SHUFFLE_HARNESS, // as lm-evaluation-harness mixes them: one stream of numbers over all rows in their
                        // order (python_random.h); the answer is the last before
};

/* How `answer` names the right one of several choices. */
enum mt_answer_naming {
    MT_NAMED_OPENLY,   // by a label where choices have some, else by letter or by its text, whichever fits
    MT_NAMED_LETTER,   // A, B, ...
    MT_NAMED_OR_INDEX, // by a label of the task or A, B, ...; or 0, 1, ...: copies of a data set differ
    MT_NAMED_TEXT,     // the choice's own text
    MT_NAMED_INDEX,    // 0, 1, ...
    MT_NAMED_NUMBER,   // 1, 2, ...
    MT_NAMED_FLAGS,    // a line for each choice, one of them 1 or true
    MT_NAMED_MANY,     // the same, of which several may be: the score is their share of all probability
};

/* Rows without a right answer are no samples, and are counted. */
enum mt_unanswered {
    MT_UNANSWERED_WARN,
    MT_UNANSWERED_LEAVE_OUT, // on purpose: no warning
};

#define MT_TASK_MOST_METRICS 4
#define MT_TASK_MOST_FIGURES (MT_TASK_MOST_METRICS * MT_MOST_FILTERS)

/* One way to read an answer, by name: "strict-match". */
struct mt_task_filter {
    const char *name; // NULL: the task has one way, which needs none
    const struct mt_extract_step *extract;
    size_t extract_count;
    const enum mt_normalize_step *normalize;
    size_t normalize_count;
};

/* All texts live in the arena the task was read with. The key of a field is its name. */
struct mt_task {
    const char *name;   // of the file; a subtask's is NAME_SUBTASK
    const char *family; // the file's own name
    const char *asked;  // the name it was resolved from
    const char *file;   // it was read from; NULL: from memory
    const char *title;
    const char *comparable; // whose published figures its own can stand beside; NULL: nobody's
    const char
        *hub; // "openai/gsm8k gsm8k 1319": data set, task and questions on Hugging Face's hub; NULL: none
    enum mt_task_domain domain;
    int64_t version;
    const char *const *members;  // NULL: not a group
    const char *const *subtasks; // NULL: not a family
    const char *subtask;         // the one in hand; NULL: none
    const char *const *data; // below the folder of data: the first that is there; never NULL but of a group
    enum mt_dataset_format format;
    const char *columns;
    const char *fields; // "a=x,b=y": a file may call the field a x; NULL: as templates do
    const char *rows; // only rows whose field is so: "FIELD LOW-HIGH", "FIELD is TEXT" or "FIELD from A to B"
    const uint64_t
        *picked; // [picked_count] rows of the file, instead of a rule; NULL: none are picked. No key
    size_t picked_count;
    const char *id;          // the field that names a row; NULL: its number
    const char *form;        // that its published text has: MT_TEXT_FORM_NONE, or a chat template; NULL: open
    const char *description; // a template before examples and prompt; NULL: none
    const char *prompt;      // with {choice} in it: one for every choice
    enum mt_task_clean clean;
    const char *answer;
    enum mt_unanswered unanswered;
    const char *const *choices;       // the same for every row
    const char *const *choice_fields; // or the fields that hold them
    const char *choice_list;          // or the field that holds a list, or an object of labels and texts
    const char *choice_label_list;    // the field that holds the labels of a row's choices; NULL: none
    const char *choice_drop;          // a choice of that text is none; NULL: all are
    const char *choice_text;          // a template of {choice}; NULL: as the row has it
    const char *const *choice_labels; // what `answer` says for choice 0, 1, ...; NULL: nothing fixed
    enum mt_answer_naming answer_is;  // how `answer` names a choice
    enum mt_task_shuffle shuffle;
    enum mt_task_kind kind;
    const char *continuation; // of CHOOSE: what is scored, a template
    int64_t max_tokens;
    const char *const *stop; // never NULL
    int64_t samples;         // answers per question
    // Every answer is read in each of these ways; the first one's verdict is the sample's.
    struct mt_task_filter filters[MT_MOST_FILTERS];
    size_t filter_count;
    enum mt_task_compare compare;
    const char *program;        // of CODE: a template with {completion}, what runs as the answer
    const char *tests;          // of CODE: what must then run through, in an interpreter of its own
    const char *given;          // of CODE: what runs before the tests there; NULL: nothing
    const char *calls;          // of CODE: the names tests take from the answer; NULL: see code_trial.h
    const char *const *command; // of COMMAND: a program and its arguments, started in the folder of the file
    enum mt_metric_kind metrics[MT_TASK_MOST_METRICS];
    size_t metric_count;
    int64_t pass_k; // of pass@k; see mt_task_metric_k
    int64_t few_shot;
    const char *const *few_shot_data; // likewise; NULL: none
    const char *few_shot_rows;        // as `rows`
    const char *few_shot_text;        // or a file of worked examples, each beginning with "Q: "; NULL: none
    const char *separator;            // between the prompt and the answer of an example
    const char *few_shot_answer;      // of an example, a template; NULL: the right answer
    enum mt_task_pick few_shot_pick;
    uint64_t seed;
    int64_t most; // samples, where whoever asks wants no more; 0: all. No key
};

/*
 * Reads a task file, or `text` where it is not NULL. The end of `path` names the task. Unknown, doubled and
 * missing keys are refused as "FILE:LINE: ..." with the nearest key.
 */
enum mt_status mt_task_read(struct mt_context *ctx, const char *path, const char *text, size_t bytes,
                            struct mt_arena *arena, struct mt_task *task);

/* A list of tasks to run: names resolved, groups and families taken apart. */
struct mt_task_list {
    struct mt_task *tasks; // in the arena
    size_t count;
    size_t capacity;
};

/*
 * Appends the tasks a name stands for: a file (with a slash or ending in .yaml), NAME.yaml in `folder`, or
 * FAMILY_SUBTASK, where FAMILY may be a group that holds the family. A name nobody has is refused with the
 * nearest one.
 */
enum mt_status mt_task_resolve(struct mt_context *ctx, const char *folder, const char *name,
                               struct mt_arena *arena, struct mt_task_list *list);

/*
 * Asks for so many answers to each question of a task that has the metric pass, and for pass@1 and pass@k of
 * them. False: the task has not, and is left as it is.
 */
bool mt_task_take_samples(struct mt_task *task, int64_t samples, int64_t k);

/* True when answers to the task are programs, which are judged by running them. */
static inline bool mt_task_runs_programs(const struct mt_task *task)
{
    return task->compare == MT_COMPARE_CODE || task->compare == MT_COMPARE_LIVECODEBENCH;
}

/* k of a metric that is pass@k: pass_k, and 1 where another pass follows. */
int64_t mt_task_metric_k(const struct mt_task *task, size_t metric);

/* Figures of a task: each metric by the first filter, then by the others. */
size_t mt_task_figures(const struct mt_task *task);

const char *mt_domain_name(enum mt_task_domain domain);

/* Every key of task files. */
extern const struct mt_keys mt_task_keys;

// For other files with such keys (recipe/recipe.h).

/* A key's `.set` for a template: refuses what is none. An empty one is as if the key were not there; it is
 * refused where the key is required or has a default. */
enum mt_status mt_task_set_template(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    void *target);

/* Refuses a list of names that is empty, or holds an empty text or one name twice; a key that was not given
 * is fine. */
enum mt_status mt_task_check_names(const struct mt_keys_reader *reader, const char *key,
                                   const char *const *names);

/* True when a text is what `rows` may be; NULL is. */
bool mt_task_is_rule(const char *rule);

#endif
