/* metier objective, for people: a line per term, then what the router did. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "cli/objective/objective.h"
#include "cli/shared/table.h"

#define NUMBER_BYTES 32

const char *objective_gradient_of(enum mt_term term)
{
    switch (mt_term_info(term)->path) {
    case MT_PATH_ROWS: return "expert_outputs";
    case MT_PATH_ROUTER_ROWS: return "router_weight";
    case MT_PATH_LOGITS: break;
    }
    return "logits";
}

static const char *number_text(double value, char text[NUMBER_BYTES])
{
    if (isnan(value)) return "-"; // not measured
    (void)snprintf(text, NUMBER_BYTES, "%.6g", value);
    return text;
}

static void print_heading(const struct objective_question *question, const struct objective_record *record,
                          const struct objective_answer *answer)
{
    const struct mt_objective_arrays *arrays = &record->arrays;
    printf("%s: %s", record->path, mt_counted((uint64_t)arrays->tokens, "token", "tokens").text);
    if (record->mask != NULL) printf(" (%" PRId64 " counted)", record->counted);
    printf(", %s, %d per token", mt_counted((uint64_t)arrays->experts, "expert", "experts").text,
           question->router.slots);
    if (arrays->width > 0) printf(", width %" PRId64, arrays->width);
    printf("\nmethod %s, router %s, %s\n\n", question->config.method, question->router_name, answer->device);
}

static enum mt_status print_terms(struct mt_context *ctx, const struct objective_question *question,
                                  const struct objective_answer *answer)
{
    static const struct cli_column columns[] = {
        {"term", false},        {"value", true},         {"weight", true},
        {"contribution", true}, {"gradient norm", true}, {"gradient in", false},
    };
    const struct mt_objective_results *results = &answer->results;
    struct cli_table table;
    cli_table_init(&table, ctx, columns, 6);
    enum mt_status status = MT_OK;
    for (int term = 0; term < MT_TERM_COUNT && status == MT_OK; term++) {
        if (!mt_term_is_on(&question->config, (enum mt_term)term)) continue;
        char value[NUMBER_BYTES];
        char weight[NUMBER_BYTES];
        char contribution[NUMBER_BYTES];
        char gradient[NUMBER_BYTES];
        const char *cells[] = {mt_term_name((enum mt_term)term),
                               number_text(results->loss[term], value),
                               number_text(results->weight[term], weight),
                               number_text(results->loss[term] * results->weight[term], contribution),
                               number_text(results->report.gradient[term], gradient),
                               objective_gradient_of((enum mt_term)term)};
        status = cli_table_row(&table, cells);
    }
    char total[NUMBER_BYTES];
    const char *cells[] = {"total", NULL, NULL, number_text(results->total, total), NULL, NULL};
    if (status == MT_OK) status = cli_table_row(&table, cells);
    if (status == MT_OK) cli_table_print(&table, stdout);
    cli_table_free(&table);
    return status;
}

static void print_load(const struct objective_question *question, const struct objective_record *record,
                       const struct objective_answer *answer)
{
    const struct mt_layer_report *report = &answer->results.report;
    double experts = record->arrays.experts;
    printf("\nMaxVio   %.4f  (largest load over the mean, less 1", report->max_violation);
    // Where slots are dropped the mean falls, and with it the bound.
    if (answer->dropped == 0) printf("; at most n/k - 1 = %.4f", experts / question->router.slots - 1.0);
    printf(")\n");
    printf("         %.4f  as the authors' code counts it: largest |load - mean| over the mean\n",
           report->max_violation_code);
    printf("entropy  %.4f  of the loads, in nats; ln n = %.4f when balanced\n", report->load_entropy,
           log(experts));
}

/* Each line of a text with a word before it. */
static void print_lines(FILE *stream, const char *before, const char *text)
{
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        (void)fprintf(stream, "%s%.*s\n", before, (int)length, text);
        text += length;
        if (*text == '\n') text++;
    }
}

enum mt_status objective_print_text(struct mt_context *ctx, const struct objective_question *question,
                                    const struct objective_record *record,
                                    const struct objective_answer *answer)
{
    print_heading(question, record, answer);
    enum mt_status status = print_terms(ctx, question, answer);
    if (status != MT_OK) return status;
    print_load(question, record, answer);
    if (answer->notes[0] != '\0') printf("\n");
    print_lines(stdout, "note: ", answer->notes);
    if (question->out_path != NULL) printf("\nwritten: %s\n", question->out_path);
    (void)fflush(stdout); // so that warnings come after it on a terminal
    print_lines(stderr, "metier objective: warning: ", answer->warnings);
    return MT_OK;
}
