/* metier/model.h: texts as ids, and back. */
#include <string.h>

#include "library/lm.h"

void mt_lm_texts_init(struct mt_lm *lm)
{
    lm->texts.ids.ctx = lm->ctx;
    lm->texts.text.ctx = lm->ctx;
    mt_example_init(lm->ctx, &lm->texts.example);
    mt_row_init(lm->ctx, &lm->texts.row);
}

void mt_lm_texts_close(struct mt_lm *lm)
{
    struct mt_lm_texts *texts = &lm->texts;
    mt_example_maker_free(texts->maker);
    mt_chat_template_free(texts->template);
    mt_example_free(&texts->example);
    mt_row_free(&texts->row);
    mt_id_list_free(&texts->ids);
    mt_byte_list_free(&texts->text);
    mt_token_scratch_free(texts->scratch);
    mt_tokenizer_free(texts->tokenizer);
}

static enum mt_status open_tokenizer(struct mt_lm *lm)
{
    struct mt_lm_texts *texts = &lm->texts;
    const struct mt_hf_config *config = mt_model_description(lm->model)->config;
    if (texts->scratch != NULL) return MT_OK;
    enum mt_status status = MT_OK;
    if (texts->tokenizer == NULL) status = mt_tokenizer_load(lm->ctx, lm->folder, &texts->tokenizer);
    if (status == MT_OK)
        status = mt_special_ids_find(lm->ctx, texts->tokenizer, lm->folder, config, &texts->special);
    if (status == MT_OK) status = mt_token_scratch_create(lm->ctx, texts->tokenizer, &texts->scratch);
    return status;
}

static enum mt_status open_maker(struct mt_lm *lm)
{
    struct mt_lm_texts *texts = &lm->texts;
    const struct mt_form_request request = {.model = lm->folder,
                                            .given = lm->template_name != NULL ? lm->template_name : "model",
                                            .by = "the options say so"};
    struct mt_text_form form;
    enum mt_status status = open_tokenizer(lm);
    if (status != MT_OK || texts->maker != NULL) return status;
    status = mt_text_form_find(&lm->arena, &request, &form);
    if (status == MT_OK && texts->template == NULL)
        status = mt_text_form_open(lm->ctx, &form, lm->templates, lm->folder, &texts->template);
    texts->form_name = form.name;
    const struct mt_example_options options = {.tokenizer = texts->tokenizer,
                                               .template = texts->template,
                                               .special = texts->special,
                                               .vocabulary = mt_model_description(lm->model)->vocabulary};
    return status == MT_OK ? mt_example_maker_create(lm->ctx, &options, &texts->maker) : status;
}

static enum mt_status hand_out(struct mt_context *ctx, const struct mt_id_list *found, int32_t *ids,
                               size_t capacity, size_t *count)
{
    *count = found->count;
    if (found->count > capacity)
        return mt_fail(ctx, MT_ERR_LIMIT, "the text has %zu tokens; there is room for %zu", found->count,
                       capacity);
    if (found->count > 0) memcpy(ids, found->data, found->count * sizeof *ids);
    return MT_OK;
}

enum mt_status mt_lm_encode(struct mt_lm *lm, const char *text, size_t bytes, int32_t *ids, size_t capacity,
                            size_t *count)
{
    enum mt_status status = mt_given(NULL, "mt_lm_encode", "lm", lm);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_encode", "text", text);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_encode", "count", count);
    if (status == MT_OK && capacity > 0) status = mt_given(lm->ctx, "mt_lm_encode", "ids", ids);
    if (status == MT_OK) status = open_tokenizer(lm);
    if (status != MT_OK) return status;
    struct mt_lm_texts *texts = &lm->texts;
    int32_t beginning = texts->special.bos >= 0 ? texts->special.bos : texts->special.eos;
    texts->ids.count = 0;
    status = mt_plain_text_encode(texts->tokenizer, texts->scratch,
                                  &(struct mt_text_beginning){.rule = MT_BOS_TOKENIZER, .id = beginning},
                                  text, bytes, &texts->ids);
    return status == MT_OK ? hand_out(lm->ctx, &texts->ids, ids, capacity, count) : status;
}

/* What an adapter or a model that is trained on such rows brings along. */
static void note_form(struct mt_lm_texts *texts)
{
    struct mt_form_record *form = &texts->form;
    const struct mt_chat_template *template = texts->template;
    form->name = mt_chat_template_stands_in(template) ? "plain" : texts->form_name;
    form->texts |= texts->example.text;
    form->answers |= !texts->example.text;
    if (texts->example.text) form->bos = mt_example_beginning(&texts->example, &texts->special);
    texts->answers += texts->example.text ? 0 : 1;
    texts->spaced += texts->example.spaced ? 1 : 0;
    form->spaced = texts->spaced > 0 && texts->spaced == texts->answers;
}

enum mt_status mt_lm_describe_form(struct mt_lm *lm, struct mt_trained_texts *trained)
{
    const struct mt_lm_texts *texts = &lm->texts;
    struct mt_json_text text;
    *trained = (struct mt_trained_texts){0};
    if (texts->form.name == NULL) return MT_OK;
    if (texts->form.answers && !mt_chat_template_is_models(texts->template))
        trained->chat_template = mt_chat_template_jinja(texts->template);
    mt_json_text_init(&text, lm->ctx);
    enum mt_status status = mt_form_record_put(&text, &texts->form);
    if (status == MT_OK) status = mt_arena_copy_text(&lm->arena, text.bytes, text.length, &trained->form);
    mt_json_text_free(&text);
    return status;
}

enum mt_status mt_lm_encode_row(struct mt_lm *lm, const char *json, size_t bytes, int32_t *ids,
                                int32_t *labels, size_t capacity, size_t *count)
{
    enum mt_status status = mt_given(NULL, "mt_lm_encode_row", "lm", lm);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_encode_row", "json", json);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_encode_row", "count", count);
    if (status == MT_OK && capacity > 0) status = mt_given(lm->ctx, "mt_lm_encode_row", "ids", ids);
    if (status == MT_OK && capacity > 0) status = mt_given(lm->ctx, "mt_lm_encode_row", "labels", labels);
    if (status != MT_OK) return status;
    struct mt_lm_texts *texts = &lm->texts;
    struct mt_dataset *dataset = NULL;
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    const struct mt_example_source source = {.form = MT_FORM_AUTO};
    status = open_maker(lm);
    if (status == MT_OK) status = mt_dataset_open_memory(lm->ctx, "row", json, bytes, &options, &dataset);
    if (status != MT_OK) return status;
    if (mt_dataset_rows(dataset) != 1)
        status = mt_fail(lm->ctx, MT_ERR_FORMAT, "expected one row of JSON, found %llu",
                         (unsigned long long)mt_dataset_rows(dataset));
    if (status == MT_OK) status = mt_dataset_read(dataset, 0, &texts->row);
    if (status == MT_OK) status = mt_example_make(texts->maker, &source, &texts->row, &texts->example);
    if (status == MT_OK) note_form(texts);
    if (status == MT_OK) status = hand_out(lm->ctx, &texts->example.labels, labels, capacity, count);
    if (status == MT_OK) status = hand_out(lm->ctx, &texts->example.ids, ids, capacity, count);
    mt_dataset_close(dataset);
    return status;
}

enum mt_status mt_lm_decode(struct mt_lm *lm, const int32_t *ids, size_t count, char *text, size_t capacity,
                            size_t *bytes)
{
    enum mt_status status = mt_given(NULL, "mt_lm_decode", "lm", lm);
    if (status == MT_OK && count > 0) status = mt_given(lm->ctx, "mt_lm_decode", "ids", ids);
    if (status == MT_OK && capacity > 0) status = mt_given(lm->ctx, "mt_lm_decode", "text", text);
    if (status == MT_OK) status = mt_given(lm->ctx, "mt_lm_decode", "bytes", bytes);
    if (status == MT_OK) status = open_tokenizer(lm);
    if (status != MT_OK) return status;
    struct mt_lm_texts *texts = &lm->texts;
    texts->text.count = 0;
    status = mt_tokenizer_decode(texts->tokenizer, lm->ctx, ids, count, MT_DECODE_SKIP_SPECIAL, &texts->text);
    if (status != MT_OK) return status;
    *bytes = texts->text.count;
    if (texts->text.count >= capacity)
        return mt_fail(lm->ctx, MT_ERR_LIMIT, "the text has %zu bytes and a NUL; there is room for %zu",
                       *bytes, capacity);
    if (*bytes > 0) memcpy(text, texts->text.data, *bytes);
    text[*bytes] = '\0';
    return MT_OK;
}
