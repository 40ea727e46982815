/* The summary of a run, in the layout of lm-evaluation-harness's results file. */
#include "eval/run/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "base/files/file.h"
#include "eval/run/judged_by.h"
#include "eval/run/results.h"
#include "metier/version.h"

#define PATH_BYTES  4096
#define FEW_ANSWERS 0.03 // a share of answers that end early which nobody is warned of

/* The metric of a figure, with its k. */
static const char *metric_label(const struct mt_task *task, size_t figure, char *text, size_t bytes)
{
    size_t metric = figure % task->metric_count;
    enum mt_metric_kind kind = task->metrics[metric];
    if (kind == MT_METRIC_PASS) {
        (void)snprintf(text, bytes, "pass@%lld", (long long)mt_task_metric_k(task, metric));
    } else {
        (void)snprintf(text, bytes, "%s", mt_metric_name(kind));
    }
    return text;
}

/* The filter of a figure, as the harness has it: "none" where there is only one. */
static const char *filter_label(const struct mt_task *task, size_t figure)
{
    const char *name = task->filters[figure / task->metric_count].name;
    return name != NULL ? name : "none";
}

const char *mt_eval_metric_label(const struct mt_task *task, size_t figure, char *text, size_t bytes)
{
    char metric[64];
    (void)metric_label(task, figure, metric, sizeof metric);
    bool alone = task->filters[0].name == NULL;
    (void)snprintf(text, bytes, "%s%s%s", metric, alone ? "" : ",", alone ? "" : filter_label(task, figure));
    return text;
}

/* The mean over tasks of the first metric, each sample weighing the same; tasks for which `belongs` is false
 * are left out. */
static struct mt_metric_result mean_of(const struct mt_task_result *results, size_t count,
                                       bool (*belongs)(const struct mt_task *task, const void *self),
                                       const void *self)
{
    struct mt_metric_result mean = {0};
    double squares = 0; // of the tasks' errors, each times its samples
    double lone = 0;    // tasks of a single sample, which has no spread of its own
    bool shares = true;
    for (size_t i = 0; i < count; i++) {
        const struct mt_task_result *one = &results[i];
        if (one->skipped || one->done == 0 || isnan(one->metrics[0].value) || !belongs(one->task, self))
            continue;
        double n = (double)one->metrics[0].samples; // that were judged
        mean.value += one->metrics[0].value * n;
        if (one->metrics[0].samples == 1)
            lone++;
        else
            squares += pow(one->metrics[0].error * n, 2);
        shares = shares && mt_metric_is_mean(one->task->metrics[0]);
        mean.samples += one->metrics[0].samples;
    }
    if (mean.samples == 0) return (struct mt_metric_result){NAN, NAN, NAN, NAN, 0};
    mean.value /= (double)mean.samples;
    if (shares) squares += lone * mean.value * (1 - mean.value);
    mean.error = sqrt(squares) / (double)mean.samples;
    mean.low = fmax(-1.0, mean.value - MT_NORMAL_95 * mean.error);
    mean.high = fmin(1.0, mean.value + MT_NORMAL_95 * mean.error);
    if (shares) mt_metric_wilson(&mean, mean.error * mean.error * (double)mean.samples);
    return mean;
}

/* One sentence for each kind of answer that says too little, if there are more than a few. */
static void warn_of_ends(const struct mt_log *log, const struct mt_task_result *result)
{
    const struct mt_task *task = result->task;
    char cure[160];
    (void)snprintf(cure, sizeof cure,
                   "were cut at %lld tokens or for want of room: --max-new and --context give more",
                   (long long)task->max_tokens);
    const struct {
        size_t count;
        const char *what;
    } kinds[] = {
        {result->cut, cure},
        {result->unclosed, "end before the model's thinking does (no </think>): --max-new gives more room"},
        {result->empty, "are empty"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if ((double)kinds[i].count <= FEW_ANSWERS * (double)result->answers) continue;
        mt_log_warning(log, "task %s: %zu of %zu answers %s", task->name, kinds[i].count, result->answers,
                       kinds[i].what);
    }
}

void mt_eval_warn_of_answers(const struct mt_log *log, const struct mt_task_result *result, const char *why,
                             const char *problem)
{
    const char *name = result->task->name;
    bool command = result->task->compare == MT_COMPARE_COMMAND;
    if (result->failed > 0)
        mt_log_warning(log, "task %s: %s no answer, left out of the figures; the same command asks again%s%s",
                       name, mt_counted(result->failed, "question got", "questions got").text,
                       why[0] != '\0' ? "; the first, " : "", why);
    if (problem[0] != '\0')
        mt_log_warning(log, "task %s: its judge, '%s', %s", name, result->task->command[0], problem);
    warn_of_ends(log, result);
    if (result->cut_prompts > 0)
        mt_log_warning(log, "task %s: %s too long and cut at the beginning: --context gives more room", name,
                       mt_counted(result->cut_prompts, "prompt was", "prompts were").text);
    if (result->not_finite > 0)
        mt_log_warning(log, "task %s: %s not finite, and such a choice is never taken; %s as wrong", name,
                       mt_counted(result->not_finite, "log-likelihood is", "log-likelihoods are").text,
                       mt_counted(result->unscored, "question has no other and counts",
                                  "questions have no other and count")
                           .text);
    if (result->unjudged == 0) return;
    if (result->task->compare == MT_COMPARE_IFEVAL) {
        mt_log_warning(
            log,
            "task %s: %s an instruction that only another program can judge (its language, where "
            "sentences end), left out of the figures; docs/evaluation.md has a judge for all of them",
            name, mt_counted(result->unjudged, "answer has", "answers have").text);
        return;
    }
    struct mt_counted answers = mt_counted(result->unjudged, command ? "answer has" : "answer counts",
                                           command ? "answers have" : "answers count");
    mt_log_warning(
        log, "task %s: %s %s", name, answers.text,
        command ? "no verdict, and what has none is left out of the figures; the same command asks again"
                : "as wrong, unjudged: a pattern of the task needs too much work on them");
}

/* What went wrong is there where something did. */
static void put_count(struct mt_text_writer *writer, const char *name, size_t count)
{
    if (count > 0) mt_text_putf(writer, ", \"%s,none\": %zu", name, count);
}

static void put_task(struct mt_text_writer *writer, const struct mt_task_result *result)
{
    const struct mt_task *task = result->task;
    mt_text_put_string(writer, "{\"alias\": ", mt_text_of(task->name));
    for (size_t i = 0; i < mt_task_figures(task); i++) {
        char label[64];
        const char *filter = filter_label(task, i);
        const struct mt_metric_result *metric = &result->metrics[i];
        (void)metric_label(task, i, label, sizeof label);
        mt_text_putf(writer, ", \"%s,%s\": ", label, filter);
        mt_text_put_number(writer, "", metric->value);
        if (!isnan(metric->error)) { // the harness's own reader expects a number, or nothing
            mt_text_putf(writer, ", \"%s_stderr,%s\": ", label, filter);
            mt_text_put_number(writer, "", metric->error);
        }
        mt_text_putf(writer, ", \"%s_ci95,%s\": [", label, filter);
        mt_text_put_number(writer, "", metric->low);
        mt_text_put_number(writer, ", ", metric->high);
        mt_text_put(writer, "]");
    }
    for (size_t f = 0; task->filter_count > 1 && result->done > 0 && f < task->filter_count; f++) {
        mt_text_putf(writer, ", \"in_form,%s\": ", task->filters[f].name);
        mt_text_put_number(writer, "", (double)result->in_form[f] / (double)result->done);
    }
    put_count(writer, "unanswered", result->failed);
    put_count(writer, "unjudged", result->unjudged);
    put_count(writer, "cut", result->cut);
    put_count(writer, "empty", result->empty);
    put_count(writer, "unclosed", result->unclosed);
    put_count(writer, "cut_prompts", result->cut_prompts);
    put_count(writer, "not_finite", result->not_finite);
    put_count(writer, "unscored", result->unscored);
    put_count(writer, "dropped_rows", result->dropped);
    put_count(writer, "unanswered_rows", result->unanswered_rows);
    put_count(writer, "dropped_examples", result->dropped_examples);
    if (!isnan(result->max_vio)) mt_text_put_number(writer, ", \"max_vio,none\": ", result->max_vio);
    mt_text_put(writer, "}");
}

/* Which form the texts had, why, and that of the run's training. */
static void put_form(struct mt_text_writer *writer, const struct mt_text_form *form)
{
    char sentence[MT_FORM_SENTENCE_BYTES];
    if (form == NULL) return;
    mt_text_put_string(writer, ", \"form\": ", mt_text_of(form->name));
    mt_text_put_string(writer, ", \"form_why\": ", mt_text_of(form->why));
    if (form->trained != NULL) mt_text_put_string(writer, ", \"trained_form\": ", mt_text_of(form->trained));
    const char *warning = mt_text_form_warning(form, sentence);
    if (warning != NULL) mt_text_put_string(writer, ", \"form_warning\": ", mt_text_of(warning));
}

static void put_config(struct mt_text_writer *writer, const struct mt_task_result *result)
{
    const struct mt_task *task = result->task;
    const char *const members[][2] = {
        {"{\"task\": ", task->name},
        {", \"description\": ", task->title},
        {", \"tag\": ", mt_domain_name(task->domain)},
        {", \"dataset_path\": ", task->data[0]},
        {", \"doc_to_text\": ", task->prompt},
        {", \"doc_to_target\": ", task->answer},
        {", \"output_type\": ", task->kind == MT_TASK_CHOOSE ? "multiple_choice" : "generate_until"},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        mt_text_put_string(writer, members[i][0], mt_text_of(members[i][1]));
    if (task->comparable != NULL)
        mt_text_put_string(writer, ", \"comparable\": ", mt_text_of(task->comparable));
    put_form(writer, result->form);
    mt_text_putf(writer, ", \"num_fewshot\": %lld, \"repeats\": %lld, \"max_gen_toks\": %lld}",
                 (long long)task->few_shot, (long long)task->samples, (long long)task->max_tokens);
}

static void put_version(struct mt_text_writer *writer, const struct mt_task_result *result)
{
    mt_text_putf(writer, "%lld", (long long)result->task->version);
}

static void put_shots(struct mt_text_writer *writer, const struct mt_task_result *result)
{
    mt_text_putf(writer, "%lld", (long long)result->task->few_shot);
}

static void put_counts(struct mt_text_writer *writer, const struct mt_task_result *result)
{
    mt_text_putf(writer, "{\"original\": %zu, \"effective\": %zu}", result->total, result->done);
}

/* One member of the summary: an object with an entry per task. */
static void put_section(struct mt_text_writer *writer, const char *name,
                        void (*put_entry)(struct mt_text_writer *, const struct mt_task_result *),
                        const struct mt_task_result *results, size_t count)
{
    bool first = true;
    mt_text_putf(writer, "  \"%s\": {", name);
    for (size_t i = 0; i < count; i++) {
        if (results[i].skipped) continue;
        mt_text_put_string(writer, first ? "\n    " : ",\n    ", mt_text_of(results[i].task->name));
        mt_text_put(writer, ": ");
        put_entry(writer, &results[i]);
        first = false;
    }
    mt_text_put(writer, "\n  },\n");
}

static bool asked_as(const struct mt_task *task, const void *self)
{
    return strcmp(task->asked, self) == 0;
}

static bool of_domain(const struct mt_task *task, const void *self)
{
    return (int)task->domain == *(const int *)self;
}

bool mt_eval_group(const struct mt_task_result *results, size_t count, size_t first,
                   struct mt_metric_result *mean)
{
    const char *name = results[first].task->asked;
    if (strcmp(name, results[first].task->name) == 0) return false;
    for (size_t i = 0; i < first; i++) {
        if (asked_as(results[i].task, name)) return false;
    }
    *mean = mean_of(results, count, asked_as, name);
    return true;
}

static void put_groups(struct mt_text_writer *writer, const struct mt_task_result *results, size_t count)
{
    const char *before = "\n    ";
    mt_text_put(writer, "  \"groups\": {");
    for (size_t i = 0; i < count; i++) {
        struct mt_metric_result mean;
        if (!mt_eval_group(results, count, i, &mean)) continue;
        const struct mt_text name = mt_text_of(results[i].task->asked);
        mt_text_put_string(writer, before, name);
        mt_text_put_string(writer, ": {\"alias\": ", name);
        mt_text_put_number(writer, ", \"mean,none\": ", mean.value);
        if (!isnan(mean.error)) mt_text_put_number(writer, ", \"mean_stderr,none\": ", mean.error);
        mt_text_put_number(writer, ", \"mean_ci95,none\": [", mean.low);
        mt_text_put_number(writer, ", ", mean.high);
        mt_text_put(writer, "]}");
        before = ",\n    ";
    }
    mt_text_put(writer, "\n  },\n");
}

static void put_domains(struct mt_text_writer *writer, const struct mt_task_result *results, size_t count)
{
    const char *before = "\n    ";
    mt_text_put(writer, "  \"domains\": {");
    for (int domain = 0; domain < MT_DOMAINS; domain++) {
        double mean = mean_of(results, count, of_domain, &domain).value;
        if (isnan(mean)) continue;
        mt_text_put_string(writer, before, mt_text_of(mt_domain_name((enum mt_task_domain)domain)));
        mt_text_put_number(writer, ": ", mean);
        before = ",\n    ";
    }
    mt_text_put(writer, "\n  },\n");
}

enum mt_status mt_eval_write_summary(struct mt_context *ctx, const struct mt_eval_options *options,
                                     const struct mt_task_result *results, double seconds)
{
    struct mt_text_writer writer = {.text = {.ctx = ctx}};
    size_t count = options->task_count;
    size_t missing = 0;
    char path[PATH_BYTES];
    mt_text_put(&writer, "{\n");
    put_section(&writer, "results", put_task, results, count);
    put_groups(&writer, results, count);
    put_domains(&writer, results, count);
    put_section(&writer, "configs", put_config, results, count);
    put_section(&writer, "versions", put_version, results, count);
    put_section(&writer, "n-shot", put_shots, results, count);
    put_section(&writer, "n-samples", put_counts, results, count);
    mt_text_put_string(&writer, "  \"config\": {\"model\": \"metier\", \"model_args\": ",
                       mt_text_of(options->answerer->name));
    mt_text_put_string(&writer, ", \"metier_version\": ", mt_text_of(mt_version()));
    mt_text_put_string(&writer, ", \"judging_rules\": ", mt_text_of(mt_judging_rules()));
    mt_text_put_number(&writer, ", \"limit\": ", options->limit > 0 ? (double)options->limit : (double)NAN);
    for (size_t i = 0; i < count; i++) missing += results[i].skipped ? 1 : 0;
    if (missing > 0) mt_text_putf(&writer, ", \"tasks_without_data\": %zu", missing);
    if (options->unmatched > 0) mt_text_putf(&writer, ", \"unmatched_answers\": %zu", options->unmatched);
    mt_text_put_number(&writer, "},\n  \"total_evaluation_time_seconds\": ", seconds);
    mt_text_put(&writer, "\n}\n");
    int written = snprintf(path, sizeof path, "%s/results.json", options->out);
    if (written < 0 || (size_t)written >= sizeof path)
        writer.status = mt_fail(ctx, MT_ERR_USAGE, "the path of the results is too long");
    if (writer.status == MT_OK)
        writer.status = mt_file_write_all(ctx, path, writer.text.data, writer.text.count);
    mt_byte_list_free(&writer.text);
    return writer.status;
}
