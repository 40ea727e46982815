/* metier train --dry-run and --keys: the run before it is one, and what can be set. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "arch/model_count.h"
#include "base/amount.h"
#include "cli/shared/links.h"
#include "cli/shared/memory.h"
#include "cli/shared/short_number.h"
#include "cli/shared/table.h"
#include "cli/train/train.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 4096
#define MOST_TOKENS_SHOWN 400 // from the beginning and from the end, together

// ------------------------------------------------------------------ an example as the model sees it

/* How the text is printed: marks, and the line it is on. */
struct view {
    const char *begin, *end;
    bool trained;    // now
    bool line_start; // nothing stands on this line yet
};

static void put(struct view *view, char byte)
{
    if (view->line_start) printf("  ");
    view->line_start = false;
    if (byte == '\n') {
        // Colours do not reach over the end of a line.
        printf("%s\n", view->trained && view->begin[0] == '\033' ? view->end : "");
        view->line_start = true;
        return;
    }
    (void)putchar(byte);
}

static void switch_to(struct view *view, bool trained)
{
    if (view->trained == trained) return;
    if (view->line_start) printf("  ");
    view->line_start = false;
    printf("%s", trained ? view->begin : view->end);
    view->trained = trained;
}

/* Whole characters: a stream of tokens holds parts of one back. */
static void put_text(struct view *view, const struct mt_byte_list *text, size_t from)
{
    if (text->count > from) mt_make_printable((char *)text->data + from, text->count - from, true);
    for (size_t i = from; i < text->count; i++) {
        bool again = view->line_start && view->trained && view->begin[0] == '\033';
        if (again) printf("  %s", view->begin);
        if (again) view->line_start = false;
        put(view, (char)text->data[i]);
    }
}

/* Whether a token is trained on: labels are those of the next one. */
static bool is_trained(const struct mt_example *example, size_t index)
{
    return index > 0 && example->labels.data[index - 1] != MT_NO_LABEL;
}

static enum mt_status print_tokens(const struct mt_corpus *corpus, struct mt_token_stream *stream,
                                   struct mt_byte_list *text, struct view *view)
{
    const struct mt_example *example = &corpus->first;
    size_t count = example->ids.count;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        size_t before = text->count;
        if (count > MOST_TOKENS_SHOWN && i == MOST_TOKENS_SHOWN / 2) {
            size_t left_out = count - MOST_TOKENS_SHOWN;
            switch_to(view, false);
            printf("%s  ... %zu tokens are not shown ...\n", view->line_start ? "" : "\n", left_out);
            view->line_start = true;
            i += left_out;
        }
        status = mt_token_stream_push(stream, example->ids.data[i], text);
        // Part of a character shows when it is whole, as what its last token is.
        if (text->count > before) switch_to(view, is_trained(example, i));
        put_text(view, text, before);
    }
    size_t before = text->count;
    if (status == MT_OK) status = mt_token_stream_end(stream, text);
    put_text(view, text, before);
    switch_to(view, false);
    if (!view->line_start) printf("\n");
    return status;
}

static enum mt_status train_print_example(struct mt_context *ctx, const struct mt_corpus *corpus)
{
    bool terminal = isatty(STDOUT_FILENO) != 0;
    struct view view = {
        .begin = terminal ? "\033[4;32m" : "[[", .end = terminal ? "\033[0m" : "]]", .line_start = true};
    struct mt_byte_list text = {.ctx = ctx};
    struct mt_token_stream *stream = NULL;
    if (corpus->first.ids.count == 0) return MT_OK;
    printf("\nan example, as the model will see it (%s, by %s); %s is trained on\n",
           mt_printable(corpus->first_place).text, mt_printable(mt_chat_template_name(corpus->template)).text,
           terminal ? "\033[4;32mthis\033[0m" : "what stands in [[ ]]");
    enum mt_status status = mt_token_stream_create(ctx, corpus->tokenizer, MT_DECODE_SKIP_UNKNOWN, &stream);
    if (status == MT_OK) status = print_tokens(corpus, stream, &text, &view);
    mt_token_stream_free(stream);
    mt_byte_list_free(&text);
    return status;
}

static void print_counts(const char *what, const struct mt_batch_counts *counts)
{
    printf("  %-12s %s, %s, of which %" PRIu64 " in answers; %s\n", what,
           mt_counted(counts->examples, "example", "examples").text,
           mt_counted(counts->tokens, "token", "tokens").text, counts->answer_tokens,
           mt_counted(counts->steps, "step", "steps").text);
    if (counts->truncated > 0) {
        printf("  %-12s longer than max_length: %s, losing %s, %" PRIu64 " of answers\n", "",
               mt_counted(counts->truncated, "example", "examples").text,
               mt_counted(counts->lost_tokens, "token", "tokens").text, counts->lost_answer);
    }
    if (counts->without_answer > 0)
        printf("  %-12s %s no answer within max_length: left out\n", "",
               mt_counted(counts->without_answer, "row has", "rows have").text);
    if (counts->bad_rows > 0)
        printf("  %-12s %s: left out\n", "", mt_counted(counts->bad_rows, "bad row", "bad rows").text);
}

static void print_data(const struct mt_train_settings *settings, const struct mt_run_outline *outline)
{
    printf("\ndata\n");
    print_counts("an epoch", &outline->length.epoch);
    if (outline->held_out.steps > 0) print_counts("held out", &outline->held_out);
    uint64_t epoch_steps = outline->length.epoch_steps;
    double epochs = epoch_steps > 0 ? (double)outline->length.steps / (double)epoch_steps : 0.0;
    printf("  %-12s %s, %.3g epoch%s; at most %s in a micro-batch\n", "the run",
           mt_counted(outline->length.steps, "step", "steps").text, epochs, epochs == 1.0 ? "" : "s",
           mt_counted((uint64_t)settings->tokens, "token", "tokens").text);
    if (outline->steps_done > 0)
        printf("  %-12s %s done: a start goes on from there\n", "",
               mt_counted(outline->steps_done, "step is", "steps are").text);
}

static enum mt_status print_trainable(struct mt_context *ctx, const struct mt_run_outline *outline)
{
    static const struct cli_column columns[] = {
        {"  trainable", false}, {"tensors", true}, {"numbers", true}, {"share", true}};
    const struct mt_params *params = outline->params;
    struct cli_table table;
    printf("\n");
    cli_table_init(&table, ctx, columns, 4);
    for (int part = 0; part < MT_MODEL_PART_COUNT; part++) {
        int64_t tensors = 0;
        int64_t numbers = 0;
        for (size_t i = 0; i < params->trained_count; i++) {
            if ((int)params->trained[i].part != part) continue;
            tensors++;
            numbers += mt_tensor_count(&params->trained[i].value);
        }
        if (tensors == 0) continue;
        cli_table_add(&table, "  %s\t%" PRId64 "\t%" PRId64 "\t%.1f %%",
                      mt_model_part_name((enum mt_model_part)part), tensors, numbers,
                      100.0 * (double)numbers / (double)params->trained_elements);
    }
    enum mt_status status = cli_table_print(&table, stdout);
    struct mt_model_count count;
    mt_model_count(outline->desc->config, &count);
    printf("  %s, of %" PRId64 " in the model: %.3g %%\n",
           mt_counted((uint64_t)params->trained_elements, "trainable number", "trainable numbers").text,
           count.all, 100.0 * (double)params->trained_elements / (double)count.all);
    return status;
}

/* Whether a term alone would be alive, and through what. */
static void print_term(struct mt_context *ctx, const struct mt_train_settings *settings,
                       const struct mt_run_outline *outline, enum mt_term term)
{
    struct mt_objective_config alone = settings->objective;
    int routers = 0;
    int experts = 0;
    int inner = 0;
    int gates = 0;
    for (int t = 0; t < MT_TERM_COUNT; t++) {
        if (t != (int)term) alone.coefficient[t] = 0.0;
    }
    for (int i = 0; i < outline->moe_layers; i++) {
        routers += outline->paths[i].router ? 1 : 0;
        experts += outline->paths[i].experts ? 1 : 0;
        inner += outline->paths[i].inner ? 1 : 0;
        gates += outline->paths[i].gates ? 1 : 0;
    }
    enum mt_status status =
        mt_objective_check_live(ctx, &alone, &outline->desc->router, outline->paths, outline->moe_layers, "");
    enum mt_term_path path = mt_term_info(term)->path;
    bool direct = routers > 0;
    if (path == MT_PATH_OUTPUTS) direct = experts > 0;
    if (path == MT_PATH_INNER) direct = inner > 0;
    if (path == MT_PATH_GATES) direct = gates + routers > 0;
    const char *state = status != MT_OK ? "DEAD" : direct ? "live" : "live through layers below alone";
    printf("  %-12s coefficient %-8g %s", mt_term_name(term), alone.coefficient[term], state);
    printf(": the router is trainable in %d, experts in %d of %s", routers, experts,
           mt_counted((uint64_t)outline->moe_layers, "layer", "layers").text);
    if (path == MT_PATH_INNER) printf(", their gate or up projections in %d", inner);
    if (path == MT_PATH_GATES) printf(", their gate projections in %d", gates);
    printf("\n");
}

static void print_objective(struct mt_context *ctx, const struct mt_train_settings *settings,
                            const struct mt_run_outline *outline)
{
    const char *unasked =
        ", as no method is given (docs/lab/results.md); method: paper asks for the paper's objective";
    printf("\nobjective: %s%s\n", settings->objective.method, settings->method_given ? "" : unasked);
    bool any = false;
    for (int term = 0; !settings->task_only && term < MT_TERM_COUNT; term++) {
        if (!mt_term_is_on(&settings->objective, (enum mt_term)term)) continue;
        print_term(ctx, settings, outline, (enum mt_term)term);
        any = true;
    }
    if (!any) printf("  no term besides L_h\n");
    if (!settings->task_only && mt_selection_has_bias(&settings->objective)) {
        if (settings->objective.bias_rule == MT_BIAS_QUANTILE)
            printf("  each router's bias becomes what would have balanced the step before\n");
        else
            printf("  each router's bias moves by %g a step\n", settings->objective.bias_rate);
    }
    if (outline->bias_file != NULL)
        printf("  the routers' biases are written as %s, which only metier reads\n", outline->bias_file);
    const char *danger = settings->task_only ? NULL : mt_objective_danger(&settings->objective);
    if (danger != NULL) printf("  warning: %s\n", danger);
}

static void print_layout(const struct mt_train_settings *settings, const struct mt_run_outline *outline)
{
    enum mt_adapter_layout layout = mt_adapter_layout_for(outline->desc, settings->layout);
    const char *sentence = "";
    if (settings->train != MT_TRAIN_LORA) return;
    printf("\nadapter: written in the %s layout\n", mt_adapter_layout_name(layout));
    for (int i = 0; sentence != NULL; i++) {
        sentence = mt_adapter_layout_warning(outline->params, outline->desc, layout, i);
        if (sentence != NULL) printf("  warning: %s\n", sentence);
    }
}

/* What ranks send to each other, and how long that takes. */
static enum mt_status print_messages(struct mt_context *ctx, const struct mt_run_outline *outline)
{
    struct mt_arena arena;
    struct cli_links links;
    if (outline->layout.ranks == 1) return MT_OK;
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = cli_links_read(ctx, &arena, NULL, &links);
    if (status == MT_OK) printf("\nmessages of a step, if all went over one link (%s)\n", links.file);
    if (status == MT_OK) status = cli_links_print(ctx, &links, outline->desc->config, &outline->layout);
    mt_arena_free(&arena);
    return status;
}

enum mt_status cli_train_print_outline(struct mt_context *ctx, const struct mt_run_outline *outline)
{
    const struct mt_train_settings *settings = outline->settings;
    struct mt_run_memory memory;
    printf("%s", outline->settings_text);
    print_data(settings, outline);
    mt_run_memory(outline, &memory);
    if (outline->spread[0] != '\0') printf("\nparallel.experts: auto: %s\n", outline->spread);
    cli_print_memory(&memory);
    enum mt_status status = print_messages(ctx, outline);
    if (status == MT_OK) status = cli_print_fit(ctx, settings, outline->fit, &outline->bound);
    if (status == MT_OK) status = print_trainable(ctx, outline);
    if (status == MT_OK) print_objective(ctx, settings, outline);
    if (status == MT_OK) print_layout(settings, outline);
    return status == MT_OK ? train_print_example(ctx, outline->corpus) : status;
}

enum mt_status cli_train_print_keys(struct mt_context *ctx)
{
    static const struct cli_column columns[] = {
        {"key", false}, {"values", false}, {"default", false}, {"meaning", false}};
    struct cli_table table;
    struct mt_key key = {0};
    cli_table_init(&table, ctx, columns, 4);
    while (mt_key_next(&mt_train_keys, &key))
        cli_table_row(&table, (const char *[]){key.name, key.row->values, key.standard, key.row->meaning});
    return cli_table_print(&table, stdout);
}
