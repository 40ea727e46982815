/* Opening everything that generating text needs. */
#include "infer/session.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "infer/engine_room.h"
#include "model/adapters/adapter.h"
#include "model/chosen_experts.h"
#include "model/kept.h"

#define CONTEXT_TOKENS    4096
#define ARENA_BLOCK_BYTES 4096

// ------------------------------------------------------------------ opening

/* The room of a sequence must be known before the model is opened. */
static enum mt_status choose_context(struct mt_session *session, const struct mt_session_options *options)
{
    struct mt_hf_config config = {0};
    session->context = options->context;
    if (options->context > 0) return MT_OK;
    enum mt_status status = mt_hf_config_read_folder(session->ctx, options->directory, &config);
    if (status != MT_OK) return status;
    session->context = CONTEXT_TOKENS + options->answers;
    if (config.max_position_embeddings > 0 && config.max_position_embeddings < session->context)
        session->context = config.max_position_embeddings;
    mt_hf_config_free(&config);
    return MT_OK;
}

/* Experts that a file does not list are taken away. */
static enum mt_status prune(struct mt_session *session, const char *path)
{
    struct mt_arena arena;
    const struct mt_model_desc *desc = mt_model_description(session->model);
    const bool *const *kept = NULL;
    const bool *const *others = NULL;
    if (path == NULL) return MT_OK;
    mt_arena_init(&arena, session->ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = mt_kept_experts_read(session->ctx, path, desc, &arena, &kept);
    // Groups that keep different numbers would fill slots with experts that are gone.
    if (status == MT_OK && desc->router.groups > 1) {
        struct mt_kept equal;
        status = mt_kept_of_flags(session->ctx, desc, kept, &arena, &equal);
    }
    if (status == MT_OK) status = mt_chosen_experts_others(desc, kept, &arena, &others);
    if (status == MT_OK) status = mt_pruning_begin(session->model, others, &session->pruning);
    mt_arena_free(&arena);
    return status == MT_OK ? MT_OK : mt_fail_within(session->ctx, status, "prune");
}

/* Ranks that share experts have room for each other's batches: the least that any of them has. */
static enum mt_status agree_on_room(struct mt_session *session, struct mt_comm *ranks,
                                    struct mt_engine_options *engine, enum mt_status status)
{
    if (ranks == NULL) return status;
    int64_t least[2] = {-engine->slots, -engine->pass_tokens};
    status = mt_comm_agree(ranks, session->ctx, status);
    if (status == MT_OK) mt_comm_max_i64(ranks, least, 2);
    engine->slots = -least[0];
    engine->pass_tokens = -least[1];
    return status;
}

static enum mt_status open_model(struct mt_session *session, const struct mt_session_options *options)
{
    struct mt_engine_options engine = {.slots = options->slots, .positions = session->context};
    struct mt_engine_place place = {
        .threads = options->threads, .directory = options->directory, .limit = options->memory};
    struct mt_adapter adapter = {0};
    enum mt_status status = MT_OK;
    if (options->adapter != NULL) {
        status = mt_adapter_open_for(session->ctx, options->adapter, options->directory, &adapter);
        if (status == MT_OK) mt_adapter_select(&adapter, &place.model.selection);
    }
    if (status == MT_OK && options->quantise != NULL)
        status = mt_quantise_parse(session->ctx, options->quantise, &place.model.selection.quantise);
    if (options->quantise_cache) place.model.selection.quantise.cache = true;
    place.model.selection.log = options->log;
    if (options->beside != NULL) {
        session->device = options->beside->device;
        session->device_borrowed = true;
        place.model.selection.shared = mt_model_params(options->beside->model);
    } else if (status == MT_OK) {
        status = mt_device_create(session->ctx, options->device, options->threads, &session->device);
    }
    place.model.expert_ranks = options->expert_ranks;
    if (status == MT_OK) status = mt_engine_choose_room(session->device, &place, &engine);
    status = agree_on_room(session, options->expert_ranks, &engine, status);
    session->slots = engine.slots;
    session->pass_tokens = engine.pass_tokens;
    struct mt_model_options model = place.model;
    mt_engine_model_options(&engine, &model);
    if (status == MT_OK) model.activations = mt_device_activations(session->device);
    if (status == MT_OK) status = mt_model_open(session->device, options->directory, &model, &session->model);
    if (status == MT_OK && options->adapter != NULL)
        status = mt_adapter_apply(&adapter, mt_model_params(session->model));
    if (status == MT_OK) status = prune(session, options->prune);
    if (status == MT_OK) status = mt_engine_create(session->model, &engine, &session->engine);
    mt_adapter_close(&adapter);
    return status;
}

static enum mt_status add_stop(struct mt_session *session, int64_t id)
{
    if (id < 0 || id > INT32_MAX) return MT_OK;
    for (size_t i = 0; i < session->stop_ids.count; i++) {
        if (session->stop_ids.data[i] == id) return MT_OK;
    }
    return mt_id_list_append(&session->stop_ids, (int32_t)id);
}

/* What ends a text: generation_config.json's list, or where it has none config.json's; and the eos token. */
static enum mt_status find_stops(struct mt_session *session, const char *directory)
{
    char path[4096];
    const struct mt_hf_config *config = mt_model_description(session->model)->config;
    int length = snprintf(path, sizeof path, "%s/generation_config.json", directory);
    enum mt_status status = MT_OK;
    if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0) {
        status = mt_hf_generation_read(session->ctx, path, NULL, 0, &session->generation);
        session->has_generation = status == MT_OK;
    }
    bool listed = session->has_generation && session->generation.eos_count > 0;
    const int64_t *eos = listed ? session->generation.eos : config->eos;
    size_t count = listed ? session->generation.eos_count : config->eos_count;
    for (size_t i = 0; status == MT_OK && i < count; i++) status = add_stop(session, eos[i]);
    return status == MT_OK ? add_stop(session, session->special.eos) : status;
}

/* How plain texts begin, and whether tokenizer_config.json wants it otherwise. */
static enum mt_status choose_beginning(struct mt_session *session)
{
    const struct mt_special_ids *special = &session->special;
    enum mt_bos_rule rule = session->form.bos;
    struct mt_id_list ids = {.ctx = session->ctx};
    if (rule == MT_BOS_YES && special->bos < 0)
        return mt_fail(session->ctx, MT_ERR_USAGE, "%s: the model has no token that begins a text",
                       session->directory);
    session->bos_unheard = false;
    session->beginning =
        (struct mt_text_beginning){.rule = rule, .id = special->bos >= 0 ? special->bos : special->eos};
    if (rule != MT_BOS_TOKENIZER && mt_session_talks(session))
        return mt_fail(
            session->ctx, MT_ERR_USAGE,
            "--bos is for plain texts (--template none): a chat template says how a conversation begins");
    if (rule != MT_BOS_TOKENIZER || mt_session_talks(session) || !special->asks_bos || special->bos < 0)
        return MT_OK;
    enum mt_status status = mt_session_encode_text(session, "", 0, &ids);
    session->bos_unheard = ids.count == 0 || ids.data[0] != special->bos;
    mt_id_list_free(&ids);
    return status;
}

/* Writes a word out, to see which tokens the template uses. It may not like the word. */
static enum mt_status try_template(struct mt_session *session)
{
    struct mt_turn turn = {.role = MT_ROLE_USER, .text = "x", .bytes = 1};
    const struct mt_conversation conversation = {.ctx = session->ctx, .turns = &turn, .count = 1};
    struct mt_id_list ids = {.ctx = session->ctx};
    enum mt_status status = mt_example_prompt(session->maker, &conversation, &ids);
    mt_id_list_free(&ids);
    return status == MT_ERR_USAGE || status == MT_ERR_FORMAT ? MT_OK : status;
}

static enum mt_status open_template(struct mt_session *session)
{
    const struct mt_text_form *form = &session->form;
    struct mt_context *ctx = session->ctx;
    enum mt_status status =
        mt_text_form_open(ctx, form, session->templates, session->directory, &session->template);
    if (status != MT_OK || session->template == NULL) return status;
    struct mt_example_options example = {
        .tokenizer = session->tokenizer, .template = session->template, .special = session->special};
    // What a model's own template writes its authors have seen, and what a run was trained with, the run.
    bool known = mt_chat_template_is_models(session->template) ||
                 (form->trained != NULL && !mt_text_form_differs(form));
    if (!known) example.foreign = &session->foreign;
    status = mt_example_maker_create(ctx, &example, &session->maker);
    return status == MT_OK ? try_template(session) : status;
}

enum mt_status mt_session_set_form(struct mt_session *session, const struct mt_text_form *form)
{
    mt_example_maker_free(session->maker);
    mt_chat_template_free(session->template);
    session->maker = NULL;
    session->template = NULL;
    session->foreign.count = 0;
    enum mt_status status = mt_text_form_copy(&session->arena, form, &session->form);
    if (status == MT_OK) status = open_template(session);
    return status == MT_OK ? choose_beginning(session) : status;
}

bool mt_session_talks(const struct mt_session *session)
{
    return session->template != NULL && session->form.talks;
}

static enum mt_status open_texts(struct mt_session *session, const struct mt_session_options *options)
{
    struct mt_context *ctx = session->ctx;
    const struct mt_hf_config *config = mt_model_description(session->model)->config;
    enum mt_status status = mt_arena_copy_text(&session->arena, options->directory,
                                               strlen(options->directory), &session->directory);
    if (status == MT_OK && options->templates != NULL)
        status = mt_arena_copy_text(&session->arena, options->templates, strlen(options->templates),
                                    &session->templates);
    if (status == MT_OK) status = mt_tokenizer_load(ctx, options->directory, &session->tokenizer);
    if (status == MT_OK) status = mt_token_scratch_create(ctx, session->tokenizer, &session->scratch);
    if (status == MT_OK)
        status = mt_special_ids_find(ctx, session->tokenizer, options->directory, config, &session->special);
    if (status == MT_OK) status = find_stops(session, options->directory);
    const struct mt_text_form plain = {.name = MT_TEXT_FORM_NONE, .why = "asked for"};
    return status == MT_OK ? mt_session_set_form(session, options->form != NULL ? options->form : &plain)
                           : status;
}

enum mt_status mt_session_open(struct mt_context *ctx, const struct mt_session_options *options,
                               struct mt_session *session)
{
    *session = (struct mt_session){.ctx = ctx,
                                   .stop_ids = {.ctx = ctx},
                                   .conversation = {.ctx = ctx},
                                   .foreign = {.ctx = ctx},
                                   .answer = {.ctx = ctx}};
    mt_arena_init(&session->arena, ctx, ARENA_BLOCK_BYTES);
    enum mt_status status = choose_context(session, options);
    if (status == MT_OK) status = open_model(session, options);
    if (status == MT_OK) status = open_texts(session, options);
    if (status == MT_ERR_MEMORY)
        status = mt_fail(ctx, status,
                         "out of memory: %.800s; what helps: fewer sequences at a time (--batch, --slots), a "
                         "shorter --context, a higher --memory",
                         ctx->message);
    if (status != MT_OK) mt_session_close(session);
    return status;
}

void mt_session_close(struct mt_session *session)
{
    if (session->ctx == NULL) return;
    mt_example_maker_free(session->maker);
    mt_conversation_free(&session->conversation);
    mt_byte_list_free(&session->foreign);
    mt_byte_list_free(&session->answer);
    mt_arena_free(&session->arena);
    mt_chat_template_free(session->template);
    mt_token_scratch_free(session->scratch);
    mt_tokenizer_free(session->tokenizer);
    mt_hf_generation_free(&session->generation);
    mt_id_list_free(&session->stop_ids);
    mt_engine_destroy(session->engine);
    (void)mt_pruning_end(&session->pruning); // the model goes, too
    mt_model_close(session->model);
    if (!session->device_borrowed) mt_device_destroy(session->device);
    *session = (struct mt_session){0};
}

struct mt_sampling mt_session_sampling(const struct mt_session *session)
{
    const struct mt_hf_generation *said = &session->generation;
    struct mt_sampling sampling = {.top_p = 1.0, .repetition_penalty = 1.0};
    if (!session->has_generation) return sampling;
    sampling.repetition_penalty = said->repetition_penalty;
    if (!said->do_sample) return sampling;
    sampling.temperature = said->temperature;
    sampling.top_p = said->top_p > 0.0 ? said->top_p : 1.0;
    sampling.top_k = said->top_k;
    return sampling;
}

// ------------------------------------------------------------------ prompts

enum mt_status mt_session_encode_text(struct mt_session *session, const char *text, size_t bytes,
                                      struct mt_id_list *ids)
{
    return mt_plain_text_encode(session->tokenizer, session->scratch, &session->beginning, text, bytes, ids);
}

enum mt_status mt_session_encode_conversation(struct mt_session *session,
                                              const struct mt_conversation *conversation,
                                              struct mt_id_list *ids)
{
    if (session->maker == NULL)
        return mt_fail(session->ctx, MT_ERR_USAGE, "messages need a chat template: give --template NAME");
    if (!mt_session_talks(session)) session->talked_plainly = true;
    return mt_example_prompt(session->maker, conversation, ids);
}

enum mt_status mt_session_encode_answer(struct mt_session *session, struct mt_text prompt,
                                        struct mt_text answer, struct mt_id_list *ids,
                                        struct mt_answer_place *place)
{
    while (answer.bytes > 0 && answer.text[0] == ' ') answer = mt_text_from(answer, 1);
    session->answer.count = 0;
    enum mt_status status = MT_OK;
    if (session->form.spaced) status = mt_byte_list_append(&session->answer, " ", 1);
    if (status == MT_OK) status = mt_byte_list_append(&session->answer, answer.text, answer.bytes);
    if (status != MT_OK) return status;
    struct mt_turn turns[2] = {{.role = MT_ROLE_USER, .text = prompt.text, .bytes = prompt.bytes},
                               {.role = MT_ROLE_ASSISTANT,
                                .text = (const char *)session->answer.data,
                                .bytes = session->answer.count}};
    const struct mt_conversation conversation = {.ctx = session->ctx, .turns = turns, .count = 2};
    return mt_example_answer(session->maker, &conversation, ids, place);
}

enum mt_status mt_session_encode_said(struct mt_session *session, const char *text, size_t bytes,
                                      struct mt_id_list *ids)
{
    if (!mt_session_talks(session)) return mt_session_encode_text(session, text, bytes, ids);
    struct mt_turn turn = {.role = MT_ROLE_USER, .text = text, .bytes = bytes};
    const struct mt_conversation conversation = {.ctx = session->ctx, .turns = &turn, .count = 1};
    return mt_session_encode_conversation(session, &conversation, ids);
}

static enum mt_status encode_messages(struct mt_session *session, const struct mt_row *row,
                                      const char *column, struct mt_id_list *ids)
{
    struct mt_conversation *conversation = &session->conversation;
    struct mt_json_node list = {0};
    mt_conversation_clear(conversation);
    enum mt_status status = MT_OK;
    if (mt_row_value(row, column, &list)) status = mt_conversation_read(conversation, row, &list);
    if (status == MT_OK) status = mt_conversation_read_tools(conversation, row, "tools");
    if (status == MT_OK && conversation->tools == NULL)
        status = mt_conversation_read_tools(conversation, row, "functions");
    if (status != MT_OK) return status;
    return mt_session_encode_conversation(session, conversation, ids);
}

enum mt_status mt_session_encode_row(struct mt_session *session, const struct mt_row *row,
                                     struct mt_id_list *ids)
{
    const struct mt_row_field *messages = mt_row_field(row, "messages");
    const struct mt_row_field *prompt = mt_row_field(row, "prompt");
    if (messages != NULL && messages->kind == MT_FIELD_OTHER)
        return encode_messages(session, row, "messages", ids);
    if (prompt != NULL && prompt->kind == MT_FIELD_OTHER) return encode_messages(session, row, "prompt", ids);
    if (prompt == NULL) return mt_row_fail(row, "neither \"messages\" nor a \"prompt\"");
    return mt_session_encode_said(session, prompt->text, prompt->bytes, ids);
}
