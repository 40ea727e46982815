/* HumanEval and MBPP: rows to tasks, answers to programs, programs to verdicts. */
#include "eval/code_tasks.h"

#include <string.h>

// ------------------------------------------------------------------ rows

/* A field of text, copied. Absent: "" when `optional`. */
static enum mt_status copy_field(const struct mt_row *row, const char *name, bool optional,
                                 struct mt_arena *arena, const char **text)
{
    *text = "";
    const struct mt_row_field *field = mt_row_field(row, name);
    if (field == NULL && optional) return MT_OK;
    if (field == NULL) return mt_row_fail(row, "there is no '%s'", name);
    if (field->kind != MT_FIELD_TEXT) return mt_row_fail(row, "'%s' is not a text", name);
    if (memchr(field->text, '\0', field->bytes) != NULL)
        return mt_row_fail(row, "'%s' holds a zero byte", name);
    char *copy = NULL;
    enum mt_status status = mt_arena_copy_text(arena, field->text, field->bytes, &copy);
    *text = copy;
    return status;
}

/* A list of texts, each made a line. Absent: "" when `optional`. */
static enum mt_status copy_lines(const struct mt_row *row, const char *name, bool optional,
                                 struct mt_arena *arena, const char **text)
{
    *text = "";
    struct mt_json_node list;
    struct mt_json_node root = mt_json_root(&row->json);
    root.file = row->file;
    if (row->json.root == NULL || !mt_json_member(&root, name, &list)) {
        return optional ? MT_OK : mt_row_fail(row, "there is no '%s'", name);
    }
    if (mt_json_kind(&list) != MT_JSON_ARRAY) return mt_row_fail(row, "'%s' is not a list", name);
    struct mt_byte_list lines = {.ctx = row->ctx};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < mt_json_count(&list) && status == MT_OK; i++) {
        const char *line = NULL;
        struct mt_json_node element = mt_json_element(&list, i);
        if (mt_json_kind(&element) != MT_JSON_STRING)
            status = mt_row_fail(row, "'%s' holds something that is not a text", name);
        if (status == MT_OK) status = mt_json_as_string(&element, &line);
        if (status == MT_OK) status = mt_byte_list_append_text(&lines, line);
        if (status == MT_OK) status = mt_byte_list_append_text(&lines, "\n");
    }
    if (status == MT_OK && lines.count == 0 && !optional) status = mt_row_fail(row, "'%s' is empty", name);
    char *copy = NULL;
    if (status == MT_OK) status = mt_arena_copy_text(arena, (const char *)lines.data, lines.count, &copy);
    if (status == MT_OK) *text = copy;
    mt_byte_list_free(&lines);
    return status;
}

/* A name of Python's, and nothing that would be more of a program. */
static bool is_name(const char *text)
{
    if (text[0] == '\0' || (text[0] >= '0' && text[0] <= '9')) return false;
    for (const char *at = text; *at != '\0'; at++) {
        bool letter = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || *at == '_';
        if (!letter && !(*at >= '0' && *at <= '9')) return false;
    }
    return true;
}

static enum mt_status read_humaneval(const struct mt_row *row, struct mt_arena *arena,
                                     struct mt_code_task *task)
{
    enum mt_status status = copy_field(row, "prompt", false, arena, &task->prompt);
    if (status == MT_OK) status = copy_field(row, "canonical_solution", false, arena, &task->reference);
    if (status == MT_OK) status = copy_field(row, "entry_point", false, arena, &task->entry_point);
    if (status == MT_OK) status = copy_field(row, "test", false, arena, &task->tests);
    if (status == MT_OK && !is_name(task->entry_point))
        status = mt_row_fail(row, "'entry_point' is not the name of a function");
    return status;
}

static enum mt_status read_mbpp(const struct mt_row *row, struct mt_arena *arena, struct mt_code_task *task)
{
    // The sanitized file calls the words "prompt" and has imports for the tests where the other has a setup.
    const char *words = mt_row_field(row, "text") != NULL ? "text" : "prompt";
    bool imports = mt_row_field(row, "test_imports") != NULL;
    enum mt_status status = copy_field(row, words, false, arena, &task->prompt);
    if (status == MT_OK) status = copy_field(row, "code", false, arena, &task->reference);
    if (status == MT_OK && imports) status = copy_lines(row, "test_imports", true, arena, &task->setup);
    if (status == MT_OK && !imports) status = copy_field(row, "test_setup_code", true, arena, &task->setup);
    if (status == MT_OK) status = copy_lines(row, "test_list", false, arena, &task->tests);
    return status;
}

enum mt_status mt_code_task_read(const struct mt_row *row, enum mt_code_benchmark benchmark,
                                 struct mt_arena *arena, struct mt_code_task *task)
{
    *task = (struct mt_code_task){.benchmark = benchmark, .entry_point = "", .setup = ""};
    enum mt_status status = copy_field(row, "task_id", false, arena, &task->id);
    if (status != MT_OK) return status;
    return benchmark == MT_CODE_HUMANEVAL ? read_humaneval(row, arena, task) : read_mbpp(row, arena, task);
}

// ------------------------------------------------------------------ answers

const char *const *mt_code_stops(enum mt_code_benchmark benchmark)
{
    static const char *const humaneval[] = {"\nclass", "\ndef", "\n#", "\nif", "\nprint", NULL};
    static const char *const mbpp[] = {"[DONE]", NULL};
    return benchmark == MT_CODE_HUMANEVAL ? humaneval : mbpp;
}

size_t mt_code_trim(enum mt_code_benchmark benchmark, const char *answer, size_t bytes)
{
    const char *const *stops = mt_code_stops(benchmark);
    for (size_t at = 0; at < bytes; at++) {
        for (int i = 0; stops[i] != NULL; i++) {
            size_t length = strlen(stops[i]);
            if (bytes - at >= length && memcmp(answer + at, stops[i], length) == 0) return at;
        }
    }
    return bytes;
}

enum mt_status mt_code_program(const struct mt_code_task *task, const char *answer, size_t bytes,
                               struct mt_byte_list *program)
{
    bool continues = task->benchmark == MT_CODE_HUMANEVAL;
    const char *const after[] = {"\n",
                                 continues ? "" : task->setup,
                                 continues ? "" : "\n",
                                 task->tests,
                                 continues ? "\ncheck(" : "",
                                 continues ? task->entry_point : "",
                                 continues ? ")" : ""};
    enum mt_status status = continues ? mt_byte_list_append_text(program, task->prompt) : MT_OK;
    if (status == MT_OK) status = mt_byte_list_append(program, answer, bytes);
    for (size_t i = 0; i < sizeof after / sizeof after[0] && status == MT_OK; i++) {
        status = mt_byte_list_append_text(program, after[i]);
    }
    return status;
}

// ------------------------------------------------------------------ running

struct code_run {
    const struct mt_code_task *tasks;
    const struct mt_code_answer *answers;
    const struct mt_code_listener *listener;
    struct mt_code_verdict *verdicts;
};

static enum mt_status give_program(void *self, size_t index, struct mt_byte_list *text,
                                   struct mt_sandbox_options *options)
{
    (void)options;
    const struct code_run *run = self;
    const struct mt_code_answer *answer = &run->answers[index];
    return mt_code_program(&run->tasks[answer->task], answer->text, answer->bytes, text);
}

static enum mt_status take_result(void *self, size_t index, const struct mt_sandbox_result *result)
{
    struct code_run *run = self;
    run->verdicts[index] = (struct mt_code_verdict){
        .outcome = result->outcome, .exit_status = result->exit_status, .seconds = result->seconds};
    return run->listener == NULL ? MT_OK : run->listener->heard(run->listener->self, index, result);
}

enum mt_status mt_code_run(struct mt_context *ctx, const struct mt_sandbox_options *options, int at_once,
                           const struct mt_code_task *tasks, const struct mt_code_answer *answers,
                           size_t count, const struct mt_code_listener *listener,
                           struct mt_code_verdict *verdicts)
{
    struct code_run run = {.tasks = tasks, .answers = answers, .listener = listener, .verdicts = verdicts};
    const struct mt_sandbox_batch batch = {
        .count = count, .at_once = at_once, .self = &run, .program = give_program, .done = take_result};
    return mt_sandbox_run_many(ctx, options, &batch);
}
