/* The teacher of metier recipe: an endpoint that answers, a sandbox that judges programs. */
#include <stdio.h>
#include <string.h>

#include "cli/recipe/recipe.h"

#define PROGRAM_SECONDS 60  // of an answer that is run
#define DRAWN           0.8 // temperature where a question may be asked again
#define MOST_SAMPLES    100
#define MOST_NEW        1000000

static enum mt_status check(struct mt_context *ctx, const struct recipe_arguments *arguments,
                            struct mt_http_options *http)
{
    if (arguments->model == NULL)
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--teacher-model NAME is missing: the teacher, as the endpoint calls it");
    const struct cli_limit limits[] = {{"--slots", arguments->slots, 1, MT_HTTP_MOST_PARALLEL},
                                       {"--samples", arguments->samples, 1, MOST_SAMPLES},
                                       {"--max-new", arguments->max_new, 0, MOST_NEW}};
    enum mt_status status = cli_check_limits(ctx, limits, 3);
    return status == MT_OK ? cli_endpoint_http(ctx, &arguments->endpoint, arguments->slots, http) : status;
}

/* As a line of JSON: what a teacher's answers depend on besides its question. Not where it is. */
static enum mt_status note_settings(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                    double temperature, struct recipe_teacher *teacher)
{
    struct mt_text_writer text = {.text = {.ctx = ctx}};
    mt_text_put_string(&text, "{\"model\": ", mt_text_of(arguments->model));
    mt_text_put_number(&text, ", \"temperature\": ", temperature);
    mt_text_put_number(&text, ", \"top_p\": ", arguments->top_p);
    mt_text_putf(&text, ", \"seed\": %lld, \"max_tokens\": %lld}", (long long)arguments->seed,
                 (long long)arguments->max_new);
    enum mt_status status = text.status;
    if (status == MT_OK && text.text.count >= sizeof teacher->settings)
        status = mt_fail(ctx, MT_ERR_USAGE, "--teacher-model is too long");
    if (status == MT_OK)
        (void)snprintf(teacher->settings, sizeof teacher->settings, "%.*s", (int)text.text.count,
                       (const char *)text.text.data);
    mt_byte_list_free(&text.text);
    return status;
}

/* Programs are run only in a sandbox, unless somebody says otherwise by name. */
static enum mt_status open_judge(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                 const struct mt_recipe *recipe, const char *tasks, struct mt_arena *arena,
                                 struct recipe_teacher *teacher)
{
    const struct mt_recipe *const *leaves = NULL;
    size_t count = 0;
    const char *runs = NULL;
    enum mt_status status = mt_recipe_leaves(recipe, arena, &leaves, &count);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct mt_task_list list = {0};
        if (leaves[i]->task == NULL) continue;
        status = mt_task_resolve(ctx, tasks, leaves[i]->task, arena, &list);
        if (status == MT_OK && mt_task_runs_programs(&list.tasks[0])) runs = list.tasks[0].name;
    }
    if (status != MT_OK || runs == NULL) return status;
    teacher->judge = (struct mt_sandbox_judge){.ctx = ctx, .options = mt_sandbox_defaults()};
    teacher->judge.options.seconds = PROGRAM_SECONDS;
    teacher->judge.options.without_sandbox = arguments->without_sandbox;
    mt_sandbox_adopt_orphans();
    mt_sandbox_cgroups_open(&teacher->cgroups, MT_CGROUP_ROOT, MT_CGROUP_OWN);
    teacher->judge.options.cgroups = &teacher->cgroups;
    teacher->face = mt_sandbox_code_judge(&teacher->judge);
    teacher->teacher.judge = &teacher->face;
    status = mt_sandbox_judge_check(&teacher->judge);
    return status == MT_OK ? MT_OK
                           : mt_fail_within(ctx, status, "task %s runs programs that a model wrote", runs);
}

enum mt_status recipe_teacher_open(struct mt_context *ctx, const struct recipe_arguments *arguments,
                                   const struct mt_recipe *recipe, const char *tasks, struct mt_arena *arena,
                                   struct recipe_teacher *teacher)
{
    double temperature = arguments->temperature;
    struct mt_endpoint_options options = {
        .model = arguments->model, .top_p = arguments->top_p, .seed = (uint64_t)arguments->seed};
    *teacher = (struct recipe_teacher){0};
    enum mt_status status = check(ctx, arguments, &options.http);
    if (temperature < 0.0) temperature = arguments->samples > 1 ? DRAWN : 0.0;
    options.temperature = temperature;
    if (status == MT_OK) status = mt_endpoint_create(ctx, &options, &teacher->endpoint);
    if (status == MT_OK) status = note_settings(ctx, arguments, temperature, teacher);
    if (status == MT_OK) status = open_judge(ctx, arguments, recipe, tasks, arena, teacher);
    if (status != MT_OK) return status;
    teacher->teacher.answerer = mt_endpoint_answerer(teacher->endpoint);
    teacher->teacher.settings = teacher->settings;
    teacher->teacher.samples = arguments->samples;
    teacher->teacher.max_tokens = arguments->max_new;
    teacher->teacher.fill = arguments->fill;
    (void)fprintf(stderr, "questions go to %s, the teacher is %s\n",
                  mt_endpoint_place(teacher->endpoint, false), arguments->model);
    return MT_OK;
}

void recipe_teacher_close(struct recipe_teacher *teacher)
{
    mt_endpoint_destroy(teacher->endpoint);
    if (teacher->teacher.judge != NULL) mt_sandbox_cgroups_close(&teacher->cgroups);
}
