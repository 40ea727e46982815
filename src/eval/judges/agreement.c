/* Agreement: the figures, and as JSON in the summary of a run. */
#include "eval/judges/agreement.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/rng.h"
#include "eval/answers/metric.h"
#include "formats/text/json.h"

static const enum mt_judge pair_judges[MT_JUDGE_PAIRS][2] = {
    [MT_PAIR_RULE_LLM] = {MT_JUDGE_RULE, MT_JUDGE_LLM},
    [MT_PAIR_RULE_HUMAN] = {MT_JUDGE_RULE, MT_JUDGE_HUMAN},
    [MT_PAIR_LLM_HUMAN] = {MT_JUDGE_LLM, MT_JUDGE_HUMAN},
};

const char *mt_judge_name(enum mt_judge judge)
{
    static const char *const names[MT_JUDGES] = {"rule", "llm", "human"};
    return names[judge];
}

const char *mt_judge_pair_name(enum mt_judge_pair pair)
{
    static const char *const names[MT_JUDGE_PAIRS] = {"rule-llm", "rule-human", "llm-human"};
    return names[pair];
}

// ------------------------------------------------------------------ two judges

/* NaN where both gave one and the same verdict throughout: then chance alone explains everything. */
static double cohen(const size_t table[2][2])
{
    double both = (double)table[1][1];
    double first = (double)table[1][0];
    double second = (double)table[0][1];
    double neither = (double)table[0][0];
    double n = both + first + second + neither;
    double observed = (both + neither) / n;
    double expected = ((both + first) * (both + second) + (neither + first) * (neither + second)) / (n * n);
    // The verdicts are constant exactly when the products are n² as whole numbers; no rounding decides.
    if ((first == 0 && second == 0) && (both == 0 || neither == 0)) return NAN;
    return (observed - expected) / (1 - expected);
}

/* Draws the answers again, with replacement, and takes the percentiles of kappa. */
static void bootstrap(struct mt_agreement_pair *pair)
{
    double values[MT_RESAMPLES];
    size_t count = 0;
    const size_t *cells = &pair->table[0][0];
    for (uint64_t round = 0; round < MT_RESAMPLES; round++) {
        size_t drawn[2][2] = {{0}};
        for (uint64_t i = 0; i < pair->both; i++) {
            size_t at = (size_t)mt_rng_below(MT_RESAMPLING_SEED, round, i, pair->both);
            int cell = 0;
            while (at >= cells[cell]) at -= cells[cell++];
            drawn[cell / 2][cell % 2]++;
        }
        double value = cohen((const size_t(*)[2])drawn);
        if (!isnan(value)) values[count++] = value;
    }
    if (count < 2) {
        pair->why = "too few answers for an interval";
        return;
    }
    mt_metric_interval(values, count, &pair->low, &pair->high);
}

void mt_agreement_of_table(struct mt_agreement_pair *pair)
{
    const size_t(*table)[2] = (const size_t(*)[2])pair->table;
    pair->both = table[0][0] + table[0][1] + table[1][0] + table[1][1];
    pair->raw = pair->kappa = pair->low = pair->high = NAN;
    pair->why = NULL;
    if (pair->both == 0) {
        pair->why = "no answer was judged by both";
        return;
    }
    pair->raw = (double)(table[0][0] + table[1][1]) / (double)pair->both;
    pair->kappa = cohen(table);
    if (isnan(pair->kappa)) {
        pair->why = "both gave every answer the same verdict: kappa is not defined";
        return;
    }
    bootstrap(pair);
}

// ------------------------------------------------------------------ three judges

struct mt_agreement_three mt_agreement_of_counts(const size_t counts[4])
{
    struct mt_agreement_three three = {.kappa = NAN};
    double correct = 0; // verdicts
    double pairs = 0;   // of judges that agree, 3 to an answer
    for (int c = 0; c < 4; c++) {
        three.all += counts[c];
        correct += c * (double)counts[c];
        pairs += (c == 0 || c == 3 ? 3.0 : 1.0) * (double)counts[c];
    }
    if (three.all == 0) {
        three.why = "no answer was judged by all three";
        return three;
    }
    if (counts[0] == three.all || counts[3] == three.all) {
        three.why = "all three gave every answer the same verdict: kappa is not defined";
        return three;
    }
    double n = (double)three.all;
    double share = correct / (3 * n);
    double expected = share * share + (1 - share) * (1 - share);
    three.kappa = (pairs / (3 * n) - expected) / (1 - expected);
    return three;
}

// ------------------------------------------------------------------ a run

static bool decided(enum mt_verdict verdict)
{
    return verdict == MT_VERDICT_CORRECT || verdict == MT_VERDICT_INCORRECT;
}

static void count_sample(const struct mt_judged_sample *sample, struct mt_agreement *agreement,
                         size_t counts[4])
{
    const enum mt_verdict *verdicts = sample->verdicts;
    bool all = true;
    int correct = 0;
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        agreement->shares[judge].verdicts[verdicts[judge]]++;
        all = all && decided(verdicts[judge]);
        correct += verdicts[judge] == MT_VERDICT_CORRECT ? 1 : 0;
    }
    if (all) counts[correct]++;
    for (int pair = 0; pair < MT_JUDGE_PAIRS; pair++) {
        enum mt_verdict first = verdicts[pair_judges[pair][0]];
        enum mt_verdict second = verdicts[pair_judges[pair][1]];
        if (!decided(first) || !decided(second)) continue;
        agreement->pairs[pair].table[first == MT_VERDICT_CORRECT][second == MT_VERDICT_CORRECT]++;
    }
}

void mt_agreement_compute(const struct mt_judged_run *run, const struct mt_judged_task *task,
                          struct mt_agreement *agreement)
{
    size_t counts[4] = {0};
    *agreement = (struct mt_agreement){0};
    for (size_t i = 0; i < run->count; i++) {
        const struct mt_judged_task *one = &run->tasks[i];
        if (task != NULL && one != task) continue;
        for (size_t k = 0; k < one->count; k++) count_sample(&one->samples[k], agreement, counts);
    }
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        struct mt_judge_share *share = &agreement->shares[judge];
        size_t correct = share->verdicts[MT_VERDICT_CORRECT];
        size_t all = correct + share->verdicts[MT_VERDICT_INCORRECT];
        share->accuracy = all > 0 ? (double)correct / (double)all : NAN;
    }
    for (int pair = 0; pair < MT_JUDGE_PAIRS; pair++) mt_agreement_of_table(&agreement->pairs[pair]);
    agreement->three = mt_agreement_of_counts(counts);
}

// ------------------------------------------------------------------ as JSON

static void put_note(struct mt_text_writer *writer, const char *why)
{
    if (why == NULL) return;
    mt_text_put_string(writer, ", \"note\": ", mt_text_of(why));
}

static void put_share(struct mt_text_writer *writer, const struct mt_judge_share *share)
{
    for (int verdict = MT_VERDICT_CORRECT; verdict < MT_VERDICTS; verdict++)
        mt_text_putf(writer, "%s\"%s\": %zu", verdict == MT_VERDICT_CORRECT ? "{" : ", ",
                     mt_verdict_name((enum mt_verdict)verdict), share->verdicts[verdict]);
    mt_text_put_number(writer, ", \"accuracy\": ", share->accuracy);
    mt_text_put(writer, "}");
}

static void put_pair(struct mt_text_writer *writer, const struct mt_agreement_pair *pair)
{
    mt_text_putf(writer, "{\"both\": %zu, \"both_correct\": %zu, \"only_first\": %zu", pair->both,
                 pair->table[1][1], pair->table[1][0]);
    mt_text_putf(writer, ", \"only_second\": %zu, \"both_incorrect\": %zu", pair->table[0][1],
                 pair->table[0][0]);
    mt_text_put_number(writer, ", \"agreement\": ", pair->raw);
    mt_text_put_number(writer, ", \"cohen_kappa\": ", pair->kappa);
    mt_text_put_number(writer, ", \"cohen_kappa_ci95\": [", pair->low);
    mt_text_put_number(writer, ", ", pair->high);
    mt_text_put(writer, "]");
    put_note(writer, pair->why);
    mt_text_put(writer, "}");
}

static void put_agreement(struct mt_text_writer *writer, const struct mt_agreement *agreement)
{
    mt_text_put(writer, "{\"judges\": {");
    for (int judge = 0; judge < MT_JUDGES; judge++) {
        mt_text_put_string(writer, judge == 0 ? "" : ", ", mt_text_of(mt_judge_name((enum mt_judge)judge)));
        mt_text_put(writer, ": ");
        put_share(writer, &agreement->shares[judge]);
    }
    mt_text_put(writer, "}, \"pairs\": {");
    for (int pair = 0; pair < MT_JUDGE_PAIRS; pair++) {
        mt_text_put_string(writer, pair == 0 ? "" : ", ",
                           mt_text_of(mt_judge_pair_name((enum mt_judge_pair)pair)));
        mt_text_put(writer, ": ");
        put_pair(writer, &agreement->pairs[pair]);
    }
    mt_text_put_number(writer, "}, \"all\": {\"judged\": ", (double)agreement->three.all);
    mt_text_put_number(writer, ", \"fleiss_kappa\": ", agreement->three.kappa);
    put_note(writer, agreement->three.why);
    mt_text_put(writer, "}}");
}

static void put_run(struct mt_text_writer *writer, const struct mt_judged_run *run)
{
    struct mt_agreement agreement;
    mt_text_put(writer, "{\n    \"tasks\": {");
    for (size_t i = 0; i < run->count; i++) {
        mt_text_put_string(writer, i == 0 ? "\n      " : ",\n      ", mt_text_of(run->tasks[i].name));
        mt_text_put(writer, ": ");
        mt_agreement_compute(run, &run->tasks[i], &agreement);
        put_agreement(writer, &agreement);
    }
    mt_text_put(writer, "\n    },\n    \"overall\": ");
    mt_agreement_compute(run, NULL, &agreement);
    put_agreement(writer, &agreement);
    mt_text_put(writer, "\n  }");
}

// ------------------------------------------------------------------ in the summary

struct member_scan {
    const char *text;
    size_t bytes;
    size_t at;
};

static void skip_space(struct member_scan *scan)
{
    while (scan->at < scan->bytes && strchr(" \t\r\n", scan->text[scan->at]) != NULL) scan->at++;
}

/* Past a string that begins here. */
static void skip_string(struct member_scan *scan)
{
    scan->at++;
    while (scan->at < scan->bytes && scan->text[scan->at] != '"')
        scan->at += scan->text[scan->at] == '\\' ? 2 : 1;
    if (scan->at < scan->bytes) scan->at++;
}

/* Past a value: to the comma or brace after it. */
static void skip_value(struct member_scan *scan)
{
    int depth = 0;
    while (scan->at < scan->bytes) {
        char byte = scan->text[scan->at];
        if (byte == '"') {
            skip_string(scan);
            continue;
        }
        if (depth == 0 && (byte == ',' || byte == '}')) return;
        depth += byte == '{' || byte == '[' ? 1 : 0;
        depth -= byte == '}' || byte == ']' ? 1 : 0;
        scan->at++;
    }
}

/* Where the value of a member begins and ends; false: the object has none, *end is where its brace is. */
static bool find(struct member_scan *scan, const char *name, size_t *begin, size_t *end, bool *empty)
{
    *empty = true;
    skip_space(scan);
    scan->at++; // the brace
    skip_space(scan);
    while (scan->at < scan->bytes && scan->text[scan->at] == '"') {
        size_t key = scan->at + 1;
        *empty = false;
        skip_string(scan);
        size_t length = scan->at - key - 1;
        skip_space(scan);
        scan->at++; // the colon
        skip_space(scan);
        *begin = scan->at;
        skip_value(scan);
        *end = scan->at;
        if (length == strlen(name) && memcmp(scan->text + key, name, length) == 0) return true;
        if (scan->at < scan->bytes && scan->text[scan->at] == ',') scan->at++;
        skip_space(scan);
    }
    *end = scan->at;
    return false;
}

enum mt_status mt_json_member_set(const char *text, size_t bytes, const char *name,
                                  const struct mt_byte_list *value, struct mt_byte_list *out)
{
    struct member_scan scan = {.text = text, .bytes = bytes};
    size_t begin = 0;
    size_t end = 0;
    bool empty = false;
    bool found = find(&scan, name, &begin, &end, &empty);
    // White space before what follows stays before it.
    size_t stop = end;
    while (stop > 0 && strchr(" \t\r\n", text[stop - 1]) != NULL) stop--;
    enum mt_status status = mt_byte_list_append(out, text, found ? begin : stop);
    if (!found) {
        if (status == MT_OK) status = mt_byte_list_append_text(out, empty ? "\n  \"" : ",\n  \"");
        if (status == MT_OK) status = mt_byte_list_append_text(out, name);
        if (status == MT_OK) status = mt_byte_list_append_text(out, "\": ");
    }
    if (status == MT_OK) status = mt_byte_list_append(out, value->data, value->count);
    if (status == MT_OK && empty) status = mt_byte_list_append_text(out, "\n");
    return status == MT_OK ? mt_byte_list_append(out, text + stop, bytes - stop) : status;
}

/* The summary as it is; "{}" where there is none, as of a run that has not finished. */
static enum mt_status read_summary(struct mt_context *ctx, const char *path, struct mt_byte_list *text)
{
    struct mt_json json = {0};
    void *data = NULL;
    size_t bytes = 0;
    if (access(path, F_OK) != 0) return mt_byte_list_append_text(text, "{}\n");
    enum mt_status status = mt_file_read_all(ctx, path, mt_json_file_limits.max_bytes, &data, &bytes);
    if (status == MT_OK) status = mt_json_parse(ctx, path, data, bytes, &mt_json_file_limits, &json);
    if (status == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        status = mt_json_expect_object(&root);
    }
    if (status == MT_OK) status = mt_byte_list_append(text, data, bytes);
    mt_json_free(&json);
    mt_release(ctx, data, bytes);
    return status;
}

enum mt_status mt_agreement_store(struct mt_context *ctx, const struct mt_judged_run *run)
{
    struct mt_text_writer writer = {.text = {.ctx = ctx}};
    struct mt_byte_list before = {.ctx = ctx};
    struct mt_byte_list after = {.ctx = ctx};
    char *path = NULL;
    put_run(&writer, run);
    enum mt_status status = writer.status;
    if (status == MT_OK) status = mt_path_join(ctx, run->folder, "results.json", &path);
    if (status == MT_OK) status = read_summary(ctx, path, &before);
    if (status == MT_OK)
        status =
            mt_json_member_set((const char *)before.data, before.count, "agreement", &writer.text, &after);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, after.data, after.count);
    mt_path_release(ctx, path);
    mt_byte_list_free(&after);
    mt_byte_list_free(&before);
    mt_byte_list_free(&writer.text);
    return status;
}

/* Is there a file of verdicts? */
static enum mt_status look_for_verdicts(struct mt_context *ctx, const char *folder, bool *found)
{
    *found = false;
    DIR *directory = opendir(folder);
    if (directory == NULL) return mt_fail(ctx, MT_ERR_IO, "%s: cannot read it: %s", folder, strerror(errno));
    for (struct dirent *entry = readdir(directory); entry != NULL && !*found; entry = readdir(directory))
        *found = strncmp(entry->d_name, "judge_", 6) == 0 || strncmp(entry->d_name, "review_", 7) == 0;
    (void)closedir(directory);
    return MT_OK;
}

enum mt_status mt_agreement_refresh(struct mt_context *ctx, const char *folder)
{
    struct mt_judged_run run;
    bool judged = false;
    enum mt_status status = look_for_verdicts(ctx, folder, &judged);
    if (status != MT_OK || !judged) return status;
    status = mt_judged_run_read(ctx, folder, NULL, &run);
    if (status == MT_OK) status = mt_agreement_store(ctx, &run);
    mt_judged_run_free(&run);
    return status;
}
