/* The summary of a run, in the layout of lm-evaluation-harness's results file. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/files/file.h"
#include "eval/run/results.h"
#include "eval/run/runner.h"

#define PATH_BYTES 4096

/* The text in the making; the first failure stays. */
struct writer {
    struct mt_byte_list text;
    enum mt_status status;
};

static void put(struct writer *writer, const char *text)
{
    if (writer->status == MT_OK) writer->status = mt_byte_list_append_text(&writer->text, text);
}

static void put_string(struct writer *writer, const char *text)
{
    struct mt_text whole = {.text = text, .bytes = strlen(text)};
    if (writer->status == MT_OK) writer->status = mt_results_append_string(&writer->text, whole);
}

static void put_number(struct writer *writer, double number)
{
    if (writer->status == MT_OK) writer->status = mt_results_append_number(&writer->text, number);
}

const char *mt_eval_metric_label(const struct mt_task *task, size_t metric, char *text, size_t bytes)
{
    enum mt_metric_kind kind = task->metrics[metric];
    if (kind == MT_METRIC_PASS) {
        (void)snprintf(text, bytes, "pass@%lld", (long long)mt_task_metric_k(task, metric));
    } else {
        (void)snprintf(text, bytes, "%s", mt_metric_name(kind));
    }
    return text;
}

double mt_eval_mean(const struct mt_task_result *results, size_t count,
                    bool (*belongs)(const struct mt_task *task, const void *self), const void *self)
{
    double sum = 0;
    double weight = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_task_result *one = &results[i];
        if (one->skipped || one->done == 0 || isnan(one->metrics[0].value) || !belongs(one->task, self))
            continue;
        sum += one->metrics[0].value * (double)one->done;
        weight += (double)one->done;
    }
    return weight > 0 ? sum / weight : NAN;
}

static void put_task(struct writer *writer, const struct mt_task_result *result)
{
    const struct mt_task *task = result->task;
    put(writer, "{\"alias\": ");
    put_string(writer, task->name);
    for (size_t i = 0; i < task->metric_count; i++) {
        char label[64];
        char name[128];
        const struct mt_metric_result *metric = &result->metrics[i];
        (void)mt_eval_metric_label(task, i, label, sizeof label);
        (void)snprintf(name, sizeof name, ", \"%s,none\": ", label);
        put(writer, name);
        put_number(writer, metric->value);
        if (!isnan(metric->error)) { // the harness's own reader expects a number, or nothing
            (void)snprintf(name, sizeof name, ", \"%s_stderr,none\": ", label);
            put(writer, name);
            put_number(writer, metric->error);
        }
        (void)snprintf(name, sizeof name, ", \"%s_ci95,none\": [", label);
        put(writer, name);
        put_number(writer, metric->low);
        put(writer, ", ");
        put_number(writer, metric->high);
        put(writer, "]");
    }
    if (result->unjudged > 0) {
        put(writer, ", \"unjudged,none\": ");
        put_number(writer, (double)result->unjudged);
    }
    if (!isnan(result->max_vio)) {
        put(writer, ", \"max_vio,none\": ");
        put_number(writer, result->max_vio);
    }
    put(writer, "}");
}

static void put_config(struct writer *writer, const struct mt_task *task)
{
    char numbers[160];
    put(writer, "{\"task\": ");
    put_string(writer, task->name);
    put(writer, ", \"description\": ");
    put_string(writer, task->title);
    put(writer, ", \"tag\": ");
    put_string(writer, mt_domain_name(task->domain));
    put(writer, ", \"dataset_path\": ");
    put_string(writer, task->data);
    put(writer, ", \"doc_to_text\": ");
    put_string(writer, task->prompt);
    put(writer, ", \"doc_to_target\": ");
    put_string(writer, task->answer);
    put(writer, ", \"output_type\": ");
    put_string(writer, task->kind == MT_TASK_CHOOSE ? "multiple_choice" : "generate_until");
    (void)snprintf(numbers, sizeof numbers,
                   ", \"num_fewshot\": %lld, \"repeats\": %lld, \"max_gen_toks\": %lld}",
                   (long long)task->few_shot, (long long)task->samples, (long long)task->max_tokens);
    put(writer, numbers);
}

enum section { RESULTS, CONFIGS, VERSIONS, SHOTS, COUNTS };

static void put_member(struct writer *writer, enum section section, const struct mt_task_result *result)
{
    char text[160] = "";
    switch (section) {
    case RESULTS: put_task(writer, result); break;
    case CONFIGS: put_config(writer, result->task); break;
    case VERSIONS: (void)snprintf(text, sizeof text, "%lld", (long long)result->task->version); break;
    case SHOTS: (void)snprintf(text, sizeof text, "%lld", (long long)result->task->few_shot); break;
    case COUNTS:
        (void)snprintf(text, sizeof text, "{\"original\": %zu, \"effective\": %zu}", result->total,
                       result->done);
        break;
    }
    put(writer, text);
}

static void put_section(struct writer *writer, const char *name, enum section section,
                        const struct mt_task_result *results, size_t count)
{
    bool first = true;
    put(writer, name);
    for (size_t i = 0; i < count; i++) {
        if (results[i].skipped) continue;
        put(writer, first ? "\n    " : ",\n    ");
        put_string(writer, results[i].task->name);
        put(writer, ": ");
        put_member(writer, section, &results[i]);
        first = false;
    }
    put(writer, "\n  },\n");
}

static bool asked_as(const struct mt_task *task, const void *self)
{
    return strcmp(task->asked, self) == 0;
}

static bool of_domain(const struct mt_task *task, const void *self)
{
    return (int)task->domain == *(const int *)self;
}

/* Means over what was asked for by one name, and over domains: the first metric, each sample weighing the
 * same. */
static void put_means(struct writer *writer, const struct mt_task_result *results, size_t count)
{
    bool first = true;
    put(writer, "  \"groups\": {");
    for (size_t i = 0; i < count; i++) {
        const char *name = results[i].task->asked;
        bool before = false;
        for (size_t k = 0; k < i; k++) before |= asked_as(results[k].task, name);
        if (before || strcmp(name, results[i].task->name) == 0) continue;
        put(writer, first ? "\n    " : ",\n    ");
        put_string(writer, name);
        put(writer, ": {\"alias\": ");
        put_string(writer, name);
        put(writer, ", \"mean,none\": ");
        put_number(writer, mt_eval_mean(results, count, asked_as, name));
        put(writer, "}");
        first = false;
    }
    put(writer, "\n  },\n  \"domains\": {");
    first = true;
    for (int domain = 0; domain < MT_DOMAINS; domain++) {
        double mean = mt_eval_mean(results, count, of_domain, &domain);
        if (isnan(mean)) continue;
        put(writer, first ? "\n    " : ",\n    ");
        put_string(writer, mt_domain_name((enum mt_task_domain)domain));
        put(writer, ": ");
        put_number(writer, mean);
        first = false;
    }
    put(writer, "\n  },\n");
}

enum mt_status mt_eval_write_summary(struct mt_context *ctx, const struct mt_eval_options *options,
                                     const struct mt_task_result *results, double seconds)
{
    struct writer writer = {.text = {.ctx = ctx}};
    size_t count = options->task_count;
    char path[PATH_BYTES];
    put(&writer, "{\n");
    put_section(&writer, "  \"results\": {", RESULTS, results, count);
    put_means(&writer, results, count);
    put_section(&writer, "  \"configs\": {", CONFIGS, results, count);
    put_section(&writer, "  \"versions\": {", VERSIONS, results, count);
    put_section(&writer, "  \"n-shot\": {", SHOTS, results, count);
    put_section(&writer, "  \"n-samples\": {", COUNTS, results, count);
    put(&writer, "  \"config\": {\"model\": \"metier\", \"model_args\": ");
    put_string(&writer, options->answerer->name);
    put(&writer, ", \"limit\": ");
    put_number(&writer, options->limit > 0 ? (double)options->limit : (double)NAN);
    put(&writer, "},\n  \"total_evaluation_time_seconds\": ");
    put_number(&writer, seconds);
    put(&writer, "\n}\n");
    int written = snprintf(path, sizeof path, "%s/results.json", options->out);
    if (written < 0 || (size_t)written >= sizeof path)
        writer.status = mt_fail(ctx, MT_ERR_USAGE, "the path of the results is too long");
    if (writer.status == MT_OK)
        writer.status = mt_file_write_all(ctx, path, writer.text.data, writer.text.count);
    mt_byte_list_free(&writer.text);
    return writer.status;
}
