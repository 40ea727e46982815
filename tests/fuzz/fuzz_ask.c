/*
 * Fuzz target: bytes as the body of POST /v1/completions or, behind a first byte "c", /v1/chat/completions.
 * What is refused says why, what is accepted is within its limits, and nothing stays behind. METIER_MODEL:
 * the folder that is served, a small one.
 */
// With: src/serve/ask_read.c src/serve/ask.c src/serve/token_logs.c
// Library: the rest
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "serve/ask.h"

#define CONTEXT 128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static enum mt_status open_session(void *self, const char *directory, const char *adapter,
                                   const struct mt_session *beside, struct mt_session *session)
{
    const struct mt_text_form form = {.name = "test", .template = "plain", .talks = true, .why = "asked for"};
    const struct mt_session_options options = {.directory = directory,
                                               .adapter = adapter,
                                               .beside = beside,
                                               .form = &form,
                                               .templates = getenv("METIER_TEMPLATES"),
                                               .device = "cpu",
                                               .threads = 1,
                                               .slots = 1,
                                               .context = CONTEXT};
    return mt_session_open(self, &options, session);
}

/* Opened at the first input, and there until the process ends. */
static struct mt_served_models *served(void)
{
    static struct mt_context ctx;
    static struct mt_served_models models;
    const char *folder = getenv("METIER_MODEL");
    if (models.ctx != NULL) return &models;
    mt_context_init(&ctx, NULL);
    models = (struct mt_served_models){.ctx = &ctx, .opener = {.self = &ctx, .open = open_session}};
    if (folder == NULL) folder = "share/models/tiny-deepseek-v2";
    if (mt_served_models_add(&models, "m", folder, NULL, NULL) != MT_OK) {
        (void)fprintf(stderr, "%s\n", ctx.message);
        abort();
    }
    return &models;
}

static void read_ask(struct mt_served_models *models, bool chat, const uint8_t *body, size_t bytes)
{
    struct mt_ask ask = {0};
    models->ctx->message[0] = '\0';
    enum mt_status status = mt_ask_read(&ask, models->ctx, models, chat, body, bytes, 1);
    demand(status == MT_OK || models->ctx->message[0] != '\0');
    if (status == MT_OK) {
        demand(ask.choice_count > 0 && ask.choice_count <= MT_ASK_MOST_CHOICES);
        for (size_t i = 0; i < ask.prompt_count; i++)
            demand((int64_t)ask.prompts[i].ids.count + ask.max_new <= CONTEXT);
    }
    mt_ask_free(&ask);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_served_models *models = served();
    bool chat = size > 0 && data[0] == 'c';
    // Twice: buffers of the session that grow with the longest text have grown the first time.
    read_ask(models, chat, data + (chat ? 1 : 0), size - (chat ? 1 : 0));
    size_t held = models->ctx->live_bytes;
    read_ask(models, chat, data + (chat ? 1 : 0), size - (chat ? 1 : 0));
    demand(models->ctx->live_bytes == held);
    return 0;
}
