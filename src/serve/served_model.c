/* Opening and closing what a server answers for. */
#include "serve/served_model.h"

#include <stdio.h>
#include <string.h>

static void close_model(struct mt_served_models *models, struct mt_served_model *model)
{
    int64_t vocabulary =
        model->session.ctx != NULL ? mt_model_description(model->session.model)->vocabulary : 0;
    mt_routing_log_destroy(model->log);
    mt_release(models->ctx, model->logits, (size_t)vocabulary * sizeof *model->logits);
    mt_session_close(&model->session);
    mt_release(models->ctx, model, sizeof *model);
}

void mt_served_models_close(struct mt_served_models *models)
{
    while (models->first != NULL) { // the last first: adapters read the weights of models before them
        struct mt_served_model **last = &models->first;
        while ((*last)->next != NULL) last = &(*last)->next;
        close_model(models, *last);
        *last = NULL;
    }
}

bool mt_served_name_valid(const char *name)
{
    static const char known[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/";
    size_t bytes = strlen(name);
    return bytes > 0 && bytes < MT_SERVED_NAME_BYTES && strspn(name, known) == bytes;
}

struct mt_served_model *mt_served_models_find(const struct mt_served_models *models, const char *name)
{
    for (struct mt_served_model *model = models->first; model != NULL; model = model->next) {
        if (!model->leaving && (name == NULL || strcmp(model->name, name) == 0)) return model;
    }
    return NULL;
}

enum mt_status mt_served_models_add(struct mt_served_models *models, const char *name, const char *directory,
                                    const char *adapter, const char *base)
{
    struct mt_context *ctx = models->ctx;
    void *memory = NULL;
    void *logits = NULL;
    if (!mt_served_name_valid(name))
        return mt_fail(ctx, MT_ERR_USAGE,
                       "a model's name has up to %d letters, digits and -_.:/, and nothing else",
                       MT_SERVED_NAME_BYTES - 1);
    size_t count = 0;
    for (struct mt_served_model *other = models->first; other != NULL; other = other->next) count++;
    if (count >= MT_SERVED_MOST)
        return mt_fail(ctx, MT_ERR_USAGE, "there are %zu models and adapters already: unload one", count);
    if (mt_served_models_find(models, name) != NULL)
        return mt_fail(ctx, MT_ERR_USAGE, "there is a model '%s' already", name);
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof(struct mt_served_model), &memory);
    if (status != MT_OK) return status;
    struct mt_served_model *model = memory;
    (void)snprintf(model->name, sizeof model->name, "%s", name);
    (void)snprintf(model->base, sizeof model->base, "%s", base != NULL ? base : "");
    const struct mt_served_model *beside = base != NULL ? mt_served_models_find(models, base) : NULL;
    status = models->opener.open(models->opener.self, directory, adapter,
                                 beside != NULL ? &beside->session : NULL, &model->session);
    if (status == MT_OK) {
        size_t vocabulary = (size_t)mt_model_description(model->session.model)->vocabulary;
        status = mt_allocate_array(ctx, vocabulary, sizeof *model->logits, &logits);
        model->logits = logits;
    }
    if (status == MT_OK) status = mt_routing_log_create(&model->session, &model->log);
    if (status != MT_OK) {
        close_model(models, model);
        return status;
    }
    struct mt_served_model **end = &models->first;
    while (*end != NULL) end = &(*end)->next;
    *end = model;
    return MT_OK;
}

void mt_served_models_sweep(struct mt_served_models *models)
{
    for (struct mt_served_model **place = &models->first; *place != NULL;) {
        struct mt_served_model *model = *place;
        if (!model->leaving || model->asks > 0) {
            place = &model->next;
            continue;
        }
        *place = model->next;
        close_model(models, model);
    }
}
