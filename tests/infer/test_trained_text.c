/*
 * The text that was trained is the text that is evaluated: of every recipe that comes along, with the rows of
 * share/samples, the ids that training has of a row are those that its task is asked with. Every kind of
 * task is among them: choices, written answers, numbers, programs; with examples and system messages, too.
 * Tests src/text/example.c.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/session.h"
#include "recipe/source.h"
#include "support/cmocka_all.h"
#include "support/workplace.h"

#define ARENA_BYTES 65536
#define PATH_BYTES  4096

/* Answers begin with a space that is the template's, and end in text that is no special token. */
static const char joined[] =
    "{% for m in messages %}{% if m.role == 'system' %}System: {{ m.content }}\n"
    "{% elif m.role == 'user' %}User: {{ m.content }}\n{% else %}Assistant: {{ m.content }}\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

/* The same, with prompts and answers encoded apart. */
static const char starting[] =
    "{#- metier: encode apart -#}{{- bos_token -}}{% for m in messages %}{% if m.role == 'system' %}"
    "{{- m.content + '\\n' -}}{% elif m.role == 'user' %}{{- 'Q: ' + m.content + '\\n' -}}{% else %}{{- 'A:' "
    "-}}"
    "{% generation %}{{- ' ' + m.content + '\\n' -}}{% endgeneration %}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{- 'A:' -}}{% endif %}";

/* Files that are written before, and those that come along. */
static const char *const templates[] = {"plain",   "chatml",       "deepseek-v2",   "mixtral",
                                        "phi-3.5", "joined.jinja", "starting.jinja"};
static const char *const models[] = {"models/small-deepseek-v2", "models/tiny-mixtral"};

/* A model's texts, without the model. */
struct bench {
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_tokenizer *tokenizer;
    struct mt_session session;
    struct mt_example trained;
    struct mt_id_list ids; // as evaluated
    int rows, choices, shots;
};

static const char *share(const char *part, char path[PATH_BYTES])
{
    const char *tasks = getenv("METIER_TASKS");
    assert_non_null(tasks);
    (void)snprintf(path, PATH_BYTES, "%s/../%s", tasks, part);
    return path;
}

static void check(const struct bench *bench, enum mt_status status)
{
    if (status != MT_OK) fail_msg("%s", bench->ctx.message);
}

static void open_bench(struct bench *bench, const struct workplace *place, const char *model,
                       const char *template, bool spaced)
{
    char folder[PATH_BYTES];
    char path[PATH_BYTES];
    struct mt_hf_config config = {0};
    struct mt_session *session = &bench->session;
    *bench = (struct bench){0};
    mt_context_init(&bench->ctx, NULL);
    mt_arena_init(&bench->arena, &bench->ctx, ARENA_BYTES);
    mt_example_init(&bench->ctx, &bench->trained);
    bench->ids.ctx = &bench->ctx;
    share(model, folder);
    check(bench, mt_tokenizer_load(&bench->ctx, folder, &bench->tokenizer));
    check(bench, mt_hf_config_read_folder(&bench->ctx, folder, &config));
    *session = (struct mt_session){.ctx = &bench->ctx,
                                   .tokenizer = bench->tokenizer,
                                   .answer = {.ctx = &bench->ctx},
                                   .conversation = {.ctx = &bench->ctx},
                                   .form = {.talks = true, .spaced = spaced}};
    check(bench, mt_special_ids_find(&bench->ctx, bench->tokenizer, folder, &config, &session->special));
    mt_hf_config_free(&config);
    bool file = strchr(template, '.') != NULL && strcmp(template, "phi-3.5") != 0;
    session->form.template = file ? workplace_path(place, template, path, sizeof path) : template;
    check(bench, mt_text_form_open(&bench->ctx, &session->form, getenv("METIER_TEMPLATES"), folder,
                                   &session->template));
    const struct mt_example_options options = {
        .tokenizer = bench->tokenizer, .template = session->template, .special = session->special};
    check(bench, mt_example_maker_create(&bench->ctx, &options, &session->maker));
}

static void close_bench(struct bench *bench)
{
    mt_example_maker_free(bench->session.maker);
    mt_chat_template_free(bench->session.template);
    mt_byte_list_free(&bench->session.answer);
    mt_conversation_free(&bench->session.conversation);
    mt_tokenizer_free(bench->tokenizer);
    mt_example_free(&bench->trained);
    mt_id_list_free(&bench->ids);
    mt_arena_free(&bench->arena);
    assert_int_equal(bench->ctx.live_bytes, 0);
}

// ------------------------------------------------------------------ what training has

/* Reads a row of JSON as training does. */
static void train_on(struct bench *bench, const char *json, size_t bytes)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    const struct mt_example_source source = {.form = MT_FORM_AUTO};
    struct mt_dataset *dataset = NULL;
    struct mt_row row;
    mt_row_init(&bench->ctx, &row);
    check(bench, mt_dataset_open_memory(&bench->ctx, "row", json, bytes, &options, &dataset));
    check(bench, mt_dataset_read(dataset, 0, &row));
    check(bench, mt_example_make(bench->session.maker, &source, &row, &bench->trained));
    mt_row_free(&row);
    mt_dataset_close(dataset);
}

static void train_on_pair(struct bench *bench, struct mt_text prompt, struct mt_text completion, bool spaced)
{
    struct mt_json_text json;
    mt_json_text_init(&json, &bench->ctx);
    mt_json_text_format(&json, "{\"prompt\": ");
    mt_json_text_bytes(&json, prompt.text, prompt.bytes);
    mt_json_text_format(&json, ", \"completion\": ");
    struct mt_byte_list text = {.ctx = &bench->ctx};
    if (spaced) check(bench, mt_byte_list_append(&text, " ", 1));
    check(bench, mt_byte_list_append(&text, completion.text, completion.bytes));
    mt_json_text_bytes(&json, text.data, text.count);
    check(bench, mt_json_text_format(&json, "}\n"));
    train_on(bench, json.bytes, json.length);
    assert_true(bench->trained.spaced == spaced);
    mt_byte_list_free(&text);
    mt_json_text_free(&json);
}

/* The first id that is trained on. Labels are of the next token. */
static size_t first_trained(const struct mt_example *example)
{
    size_t i = 0;
    while (i < example->labels.count && example->labels.data[i] == MT_NO_LABEL) i++;
    return i + 1;
}

// ------------------------------------------------------------------ what an evaluation asks

static void assert_same_ids(const struct bench *bench, size_t count, const char *what)
{
    assert_true(count <= bench->trained.ids.count);
    for (size_t i = 0; i < count; i++) {
        if (bench->ids.data[i] != bench->trained.ids.data[i])
            fail_msg("%s: %s: id %zu is %d, %d was trained", bench->session.form.template, what, i,
                     bench->ids.data[i], bench->trained.ids.data[i]);
    }
}

/* A continuation, with whatever spaces the task has in front of it. */
static void ask_choice(struct bench *bench, struct mt_text prompt, struct mt_text continuation,
                       const char *what)
{
    struct mt_answer_place place;
    check(bench, mt_session_encode_answer(&bench->session, prompt, continuation, &bench->ids, &place));
    if (place.prompt != first_trained(&bench->trained))
        fail_msg("%s: %s: the answer begins at id %zu, trained at %zu", bench->session.form.template, what,
                 place.prompt, first_trained(&bench->trained));
    assert_true(place.answered > place.prompt);
    assert_same_ids(bench, place.answered, what);
    // Behind it is only what ends an answer, all of it is trained on.
    for (size_t i = place.prompt; i < place.answered; i++)
        assert_int_equal(bench->trained.labels.data[i - 1], bench->ids.data[i]);
    bench->choices++;
}

/* What asks for an answer in writing. */
static void ask_written(struct bench *bench, struct mt_text prompt, const char *what)
{
    bench->ids.count = 0;
    check(bench, mt_session_encode_said(&bench->session, prompt.text, prompt.bytes, &bench->ids));
    assert_int_equal(bench->ids.count, first_trained(&bench->trained));
    assert_same_ids(bench, bench->ids.count, what);
}

static void ask(struct bench *bench, const struct mt_task *task, const struct mt_task_sample *sample,
                struct mt_text response)
{
    struct mt_text prompt = mt_text_in(&sample->prompt);
    ask_written(bench, prompt, task->name);
    ask_choice(bench, prompt, response, task->name);
    if (task->kind != MT_TASK_CHOOSE || sample->gold < 0) return;
    struct mt_byte_list text = {.ctx = &bench->ctx};
    struct mt_prompt_names names = mt_sample_names(task, sample);
    names.choice = sample->gold;
    check(bench, mt_prompt_render(task->continuation, &sample->row, &names, &text));
    ask_choice(bench, prompt, mt_text_in(&text), task->name);
    mt_byte_list_free(&text);
}

// ------------------------------------------------------------------ every recipe

/* Rows of a source, asked as the recipe's own task asks. */
static void ask_source(struct bench *bench, const struct mt_source *source, bool spaced)
{
    struct mt_source_row row;
    mt_source_row_init(&bench->ctx, &row);
    for (size_t f = 0; f < source->file_count; f++) {
        const struct mt_source_file *file = &source->files[f];
        size_t count = file->data != NULL ? mt_task_data_count(file->data) : 0;
        for (size_t i = 0; i < count; i++) {
            if (mt_source_read(source, f, i, &row) != MT_OK) continue;
            train_on_pair(bench, mt_text_in(&row.sample.prompt), mt_text_in(&row.response), spaced);
            ask(bench, &file->task, &row.sample, mt_text_in(&row.response));
            bench->rows++;
        }
    }
    mt_source_row_free(&row);
}

static void ask_recipe(struct bench *bench, const char *name, bool spaced)
{
    char recipes[PATH_BYTES];
    char tasks[PATH_BYTES];
    char samples[PATH_BYTES];
    const struct mt_recipe *recipe = NULL;
    const struct mt_recipe *const *leaves = NULL;
    size_t count = 0;
    share("samples", samples);
    share("tasks", tasks);
    check(bench, mt_recipe_resolve(&bench->ctx, share("recipes", recipes), name, &bench->arena, &recipe));
    check(bench, mt_recipe_leaves(recipe, &bench->arena, &leaves, &count));
    for (size_t i = 0; i < count; i++) {
        struct mt_source source;
        check(bench, mt_source_open(&bench->ctx, leaves[i], tasks, samples, true, &bench->arena, &source));
        ask_source(bench, &source, spaced);
        mt_source_close(&source);
    }
}

static void ask_recipes(struct bench *bench, bool spaced)
{
    char path[PATH_BYTES];
    DIR *folder = opendir(share("recipes", path));
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        size_t length = strlen(entry->d_name);
        if (length < 6 || strcmp(entry->d_name + length - 5, ".yaml") != 0) continue;
        char name[256];
        (void)snprintf(name, sizeof name, "%.*s", (int)length - 5, entry->d_name);
        ask_recipe(bench, name, spaced);
    }
    (void)closedir(folder);
}

static void write_templates(const struct workplace *place)
{
    assert_int_equal(workplace_write(place, "joined.jinja", joined, sizeof joined - 1), 0);
    assert_int_equal(workplace_write(place, "starting.jinja", starting, sizeof starting - 1), 0);
}

static void test_recipes(void **state)
{
    const struct workplace *place = *state;
    write_templates(place);
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (size_t t = 0; t < sizeof templates / sizeof templates[0]; t++) {
            struct bench bench;
            open_bench(&bench, place, models[m], templates[t], false);
            ask_recipes(&bench, false);
            assert_true(bench.rows > 40);
            assert_true(bench.choices > bench.rows); // of rows, and of choices
            close_bench(&bench);
        }
    }
}

/* A run whose answers began with a space is asked with it, whatever the task writes. */
static void test_spaces(void **state)
{
    const struct workplace *place = *state;
    static const char *const spaced[] = {"plain", "chatml", "starting.jinja"};
    write_templates(place);
    for (size_t t = 0; t < sizeof spaced / sizeof spaced[0]; t++) {
        struct bench bench;
        open_bench(&bench, place, models[0], spaced[t], true);
        ask_recipe(&bench, "glue_sst2", true);
        ask_recipe(&bench, "gsm8k", true);
        assert_true(bench.rows > 2);
        close_bench(&bench);
    }
}

// ------------------------------------------------------------------ every task, with examples

static void ask_task(struct bench *bench, struct mt_task *task, const char *samples)
{
    struct mt_task_data *data = NULL;
    struct mt_task_sample sample;
    int64_t shots = task->few_shot;
    if (!mt_task_data_exists(task, samples)) return;
    mt_sample_init(&bench->ctx, &sample);
    if (task->few_shot_data != NULL && shots == 0) task->few_shot = 1;
    if (mt_task_data_open(&bench->ctx, task, samples, &data) != MT_OK) { // a sample without examples
        task->few_shot = shots;
        check(bench, mt_task_data_open(&bench->ctx, task, samples, &data));
    }
    bench->shots += task->few_shot > 0 ? 1 : 0;
    for (size_t i = 0; i < mt_task_data_count(data); i++) {
        check(bench, mt_task_data_sample(data, i, &sample));
        struct mt_text answer = mt_text_trimmed(mt_text_in(&sample.answer));
        if (answer.bytes == 0) continue;
        train_on_pair(bench, mt_text_in(&sample.prompt), answer, false);
        ask_written(bench, mt_text_in(&sample.prompt), task->name);
        ask_choice(bench, mt_text_in(&sample.prompt), answer, task->name);
        bench->rows++;
    }
    mt_task_data_close(data);
    mt_sample_free(&sample);
}

static void test_tasks(void **state)
{
    const struct workplace *place = *state;
    static const char *const names[] = {"mmlu",      "bbh",  "gsm8k", "humaneval",     "mbpp",      "math500",
                                        "livebench", "glue", "gpqa",  "mmlu_pro_math", "mmlu_chat", "numina"};
    char tasks[PATH_BYTES];
    char samples[PATH_BYTES];
    struct bench bench;
    share("tasks", tasks);
    share("samples", samples);
    write_templates(place);
    open_bench(&bench, place, models[0], "joined.jinja", false);
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        struct mt_task_list list = {0};
        int before = bench.rows;
        check(&bench, mt_task_resolve(&bench.ctx, tasks, names[n], &bench.arena, &list));
        for (size_t i = 0; i < list.count; i++) ask_task(&bench, &list.tasks[i], samples);
        if (bench.rows == before) fail_msg("no row of %s", names[n]);
    }
    assert_true(bench.shots > 5); // with examples
    close_bench(&bench);
}

// ------------------------------------------------------------------ messages

/* What generate and chat have of a conversation with a system message is how it was trained. */
static void test_messages(void **state)
{
    const struct workplace *place = *state;
    static const char said[] =
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
        "\"user\", \"content\": \"Is it so?\"}";
    static const char answered[] = ", {\"role\": \"assistant\", \"content\": \"yes\"}]}\n";
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    write_templates(place);
    for (size_t t = 0; t < sizeof templates / sizeof templates[0]; t++) {
        struct bench bench;
        struct mt_dataset *dataset = NULL;
        struct mt_row row;
        char json[512];
        open_bench(&bench, place, models[0], templates[t], false);
        mt_row_init(&bench.ctx, &row);
        int length = snprintf(json, sizeof json, "%s%s", said, answered);
        train_on(&bench, json, (size_t)length);
        length = snprintf(json, sizeof json, "%s]}\n", said);
        check(&bench, mt_dataset_open_memory(&bench.ctx, "row", json, (size_t)length, &options, &dataset));
        check(&bench, mt_dataset_read(dataset, 0, &row));
        bench.ids.count = 0;
        check(&bench, mt_session_encode_row(&bench.session, &row, &bench.ids));
        assert_int_equal(bench.ids.count, first_trained(&bench.trained));
        assert_same_ids(&bench, bench.ids.count, "messages");
        mt_row_free(&row);
        mt_dataset_close(dataset);
        close_bench(&bench);
    }
}

#define IN_WORKPLACE(test) cmocka_unit_test_setup_teardown(test, workplace_open, workplace_close)

int main(void)
{
    const struct CMUnitTest tests[] = {IN_WORKPLACE(test_recipes), IN_WORKPLACE(test_spaces),
                                       IN_WORKPLACE(test_tasks), IN_WORKPLACE(test_messages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
