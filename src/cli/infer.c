/* Options of generating, and what they open. */
#include "cli/infer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/amount.h"
#include "cli/shared/device.h"
#include "cli/shared/share.h"
#include "formats/hf/model_folder.h"
#include "formats/text/printable.h"

#define ARENA_BLOCK_BYTES 4096
#define MAX_NEW           256
#define MOST_SEQUENCES    4096

void cli_infer_settings_init(struct infer_settings *settings)
{
    *settings = (struct infer_settings){.device = MT_DEVICE_AUTO,
                                        .memory = "auto",
                                        .batch = 1,
                                        .temperature = -1.0,
                                        .top_p = -1.0,
                                        .top_k = -1,
                                        .repetition_penalty = -1.0};
}

void cli_infer_options(struct infer_settings *settings, struct cli_option *options)
{
    const struct cli_option common[INFER_OPTIONS] = {
        {"--adapter", CLI_TEXT, &settings->adapter, "DIR", "a PEFT adapter to answer with"},
        {"--quantize", CLI_TEXT, &settings->quantise, "HOW", CLI_QUANTISE_HELP},
        {"--template", CLI_TEXT, &settings->template_name, "NAME",
         "chat template: model, a name, a file, none; default that of training, else the model's own"},
        {"--template-option", CLI_LIST, &settings->template_options, "X=Y",
         "a variable of the template, as enable_thinking=false; may be given several times"},
        {"--temperature", CLI_REAL, &settings->temperature, "T", "0: always the most likely token"},
        {"--top-p", CLI_REAL, &settings->top_p, "P",
         "draw from the most likely tokens that have this probability together"},
        {"--top-k", CLI_INTEGER, &settings->top_k, "K", "draw from the K most likely tokens; 0: from all"},
        {"--repetition-penalty", CLI_REAL, &settings->repetition_penalty, "X",
         "above 1: make tokens that occurred before less likely"},
        {"--seed", CLI_INTEGER, &settings->seed, "S", "seed of the random draws (0)"},
        {"--max-new", CLI_INTEGER, &settings->max_new, "N", "maximum tokens of an answer (256)"},
        {"--stop", CLI_LIST, &settings->stops, "TEXT", "ends an answer; may be given several times"},
        {"--context", CLI_INTEGER, &settings->context, "N",
         "maximum tokens of prompt and answer together (4096, or the model's own limit)"},
        {"--memory", CLI_TEXT, &settings->memory, "LIMIT", CLI_MEMORY_HELP},
        {"--device", CLI_TEXT, &settings->device, "NAME", CLI_DEVICE_HELP},
        {"--threads", CLI_THREADS, &settings->threads, "N", "0: as many as the machine has"},
    };
    for (int i = 0; i < INFER_OPTIONS; i++) options[i] = common[i];
}

enum mt_status cli_infer_check_drawing(const struct infer_settings *settings,
                                       const struct mt_session *session, const struct cli_call *call)
{
    double temperature = cli_infer_request(settings, session).sampling.temperature;
    const struct cli_void rules[] = {
        {temperature == 0.0 && settings->temperature < 0.0, "--top-p --top-k --seed",
         "without --temperature: the model's generation_config.json asks for the most likely token"},
    };
    return cli_refuse_void(call, rules, 1);
}

enum mt_status cli_infer_check(const struct infer_settings *settings, const struct cli_call *call)
{
    struct mt_context *ctx = call->ctx;
    int64_t batch = settings->batch >= 0 ? settings->batch : 1;
    enum mt_status status =
        cli_check_limits(ctx, &(struct cli_limit){"--batch", batch, 1, MOST_SEQUENCES}, 1);
    if (status != MT_OK) return status;
    if (settings->context > INT32_MAX / batch)
        return mt_fail(ctx, MT_ERR_USAGE, "--context is %" PRId64 ", expected 1 to %" PRId64,
                       settings->context, INT32_MAX / batch);
    if (settings->bos != NULL && mt_bos_rule_named(settings->bos) == MT_BOS_RULES)
        return mt_fail(ctx, MT_ERR_USAGE, "--bos is '%s', expected tokenizer, yes or no", settings->bos);
    struct mt_memory_limit limit;
    if (!mt_memory_limit_read(settings->memory, &limit))
        return mt_fail(ctx, MT_ERR_USAGE,
                       "--memory is '%s', expected auto, an amount as 22GiB or 24GB, or a share as 90%%",
                       settings->memory);
    for (int i = 0; i < settings->stops.count; i++) {
        if (settings->stops.item[i][0] == '\0') return mt_fail(ctx, MT_ERR_USAGE, "--stop is an empty text");
    }
    const struct cli_void rules[] = {
        {settings->temperature == 0.0, "--top-p --top-k --seed",
         "with --temperature 0, which takes the most likely token"},
        {settings->template_name != NULL && !mt_chat_template_has_variables(settings->template_name),
         "--template-option", "with this --template: it has no options"},
    };
    status = cli_refuse_void(call, rules, sizeof rules / sizeof rules[0]);
    if (status == MT_OK && settings->directory != NULL)
        status = mt_model_folder_check(ctx, settings->directory);
    if (status == MT_OK && settings->adapter != NULL) status = mt_model_folder_check(ctx, settings->adapter);
    return status;
}

enum mt_status cli_infer_join_options(struct mt_arena *arena, const struct infer_settings *settings,
                                      const char **joined)
{
    const struct cli_list *list = &settings->template_options;
    struct mt_byte_list text = {.ctx = arena->ctx};
    enum mt_status status = MT_OK;
    *joined = NULL;
    for (int i = 0; i < list->count && status == MT_OK; i++) {
        if (i > 0) status = mt_byte_list_append_text(&text, ",");
        if (status == MT_OK) status = mt_byte_list_append_text(&text, list->item[i]);
    }
    if (status == MT_OK && text.count > 0)
        status = mt_arena_copy_text(arena, (const char *)text.data, text.count, joined);
    mt_byte_list_free(&text);
    return status;
}

struct mt_form_request cli_infer_asking(const struct infer_settings *settings, const char *options)
{
    return (struct mt_form_request){.model = settings->directory,
                                    .adapter = settings->adapter,
                                    .given = settings->template_name,
                                    .by = "--template says so",
                                    .options = options,
                                    .date = settings->template_date,
                                    .own = settings->own_template};
}

enum mt_bos_rule cli_infer_bos(const struct infer_settings *settings)
{
    return settings->bos != NULL ? mt_bos_rule_named(settings->bos) : MT_BOS_RULES;
}

enum mt_status cli_infer_find_form(struct mt_arena *arena, const struct infer_settings *settings,
                                   struct mt_text_form *form)
{
    const char *options = NULL;
    enum mt_status status = cli_infer_join_options(arena, settings, &options);
    const struct mt_form_request request = cli_infer_asking(settings, options);
    if (status == MT_OK) status = mt_text_form_find(arena, &request, form);
    if (status == MT_OK && settings->bos != NULL) form->bos = mt_bos_rule_named(settings->bos);
    return status;
}

/* Whether a model has a template of its own is seen once it is open. */
static enum mt_status check_template_options(const struct infer_settings *settings,
                                             struct mt_session *session)
{
    struct mt_context *ctx = session->ctx;
    bool none = session->template == NULL || mt_chat_template_stands_in(session->template);
    if (!none || settings->template_options.count == 0) return MT_OK;
    mt_session_close(session);
    return mt_fail(ctx, MT_ERR_USAGE, "--template-option means nothing here: the model has no chat template");
}

enum mt_status cli_infer_open(struct mt_context *ctx, const struct infer_settings *settings,
                              const struct mt_text_form *form, struct mt_session *session)
{
    struct mt_log log;
    struct mt_session_options options = {.directory = settings->directory,
                                         .beside = settings->beside,
                                         .log = &log,
                                         .adapter = settings->adapter,
                                         .quantise = settings->quantise,
                                         .prune = settings->prune,
                                         .form = form,
                                         .expert_ranks = settings->expert_ranks,
                                         .device = settings->device,
                                         .threads = (int)settings->threads,
                                         .slots = settings->batch >= 0 ? settings->batch : 0,
                                         .context = settings->context,
                                         .answers = settings->answers};
    struct mt_arena arena;
    mt_log_init(&log, stderr, MT_LOG_WARNING);
    (void)mt_memory_limit_read(settings->memory, &options.memory); // as cli_infer_check has seen
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_device_choose(ctx, NULL, settings->device, MT_USE_FAST, &options.device);
    if (status == MT_OK) status = cli_find_templates(&arena, form->template, &options.templates);
    if (status == MT_OK) status = mt_session_open(ctx, &options, session);
    if (status == MT_OK) status = check_template_options(settings, session);
    if (status == MT_OK && !settings->quiet) {
        cli_name_device(session->device, settings->threads,
                        settings->automatic || mt_device_is_automatic(settings->device));
        if (settings->batch < 0)
            (void)fprintf(stderr, "together: %s of %" PRId64 " tokens, prompts %" PRId64 " tokens a pass\n",
                          mt_counted((uint64_t)session->slots, "sequence", "sequences").text,
                          session->context, session->pass_tokens);
    }
    mt_arena_free(&arena);
    return status;
}

void cli_infer_tell_of_form(const struct infer_settings *settings, const struct mt_text_form *form)
{
    if (settings->quiet || (form->trained == NULL && settings->adapter == NULL)) return;
    (void)fprintf(stderr, "form: %s, because %s", mt_printable(form->name).text, form->why);
    if (mt_text_form_differs(form))
        (void)fprintf(stderr, "; the run was trained as %s", mt_printable(form->trained).text);
    if (form->record != NULL) (void)fprintf(stderr, " (%s)", mt_printable(form->record).text);
    if (form->trained == NULL && strncmp(form->why, "no record", 9) != 0)
        (void)fprintf(stderr, "; no record of the form the adapter was trained in");
    (void)fprintf(stderr, "\n");
}

enum mt_status cli_infer_open_found(struct mt_context *ctx, const struct infer_settings *settings,
                                    struct mt_session *session)
{
    struct mt_arena arena;
    struct mt_text_form form = {0};
    mt_arena_init(&arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = cli_infer_find_form(&arena, settings, &form);
    if (status == MT_OK) cli_infer_tell_of_form(settings, &form);
    if (status == MT_OK) status = cli_infer_open(ctx, settings, &form, session);
    mt_arena_free(&arena);
    return status;
}

void cli_infer_warn_of_plain(const struct mt_log *log)
{
    mt_log_warning(
        log, "the model has no chat template of its own: messages are written out plainly, one after the "
             "other; --template NAME names another");
}

void cli_infer_warn_of_texts(const struct mt_session *session, const struct mt_log *log)
{
    if (session->bos_unheard)
        mt_log_warning(log,
                       "tokenizer_config.json asks for a token that begins texts (add_bos_token), and "
                       "tokenizer.json adds none: none is added, as in transformers 5; --bos yes adds it");
    if (session->foreign.count > 0)
        mt_log_warning(log,
                       "%s writes %.*s, for which the tokenizer has no token: ordinary text to the model",
                       mt_chat_template_name(session->template), (int)session->foreign.count,
                       (const char *)session->foreign.data);
}

struct mt_generation cli_infer_request(const struct infer_settings *settings,
                                       const struct mt_session *session)
{
    struct mt_sampling sampling = mt_session_sampling(session);
    int64_t said = session->generation.max_new_tokens;
    if (settings->temperature >= 0.0) sampling.temperature = settings->temperature;
    if (settings->top_p >= 0.0) sampling.top_p = settings->top_p;
    if (settings->top_k >= 0) sampling.top_k = settings->top_k;
    if (settings->repetition_penalty >= 0.0) sampling.repetition_penalty = settings->repetition_penalty;
    sampling.seed = (uint64_t)settings->seed;
    return (struct mt_generation){
        .common = INT64_MAX,
        .sampling = sampling,
        .max_new = settings->max_new > 0 ? settings->max_new
                   : said > 0            ? said
                                         : MAX_NEW,
        .stop_ids = session->stop_ids.data,
        .stop_count = session->stop_ids.count,
    };
}
