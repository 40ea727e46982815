/*
 * Fuzz target: bytes as text_form.json, which comes along with downloaded adapters and models. What is
 * accepted is found as the form of its folder, and its record reads back as it was written.
 */
// With: src/text/form_record.c src/text/text_form.c src/text/plain_text.c src/text/template*.c
// With: src/text/jinja/*.c src/text/jinja/*/*.c
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/text_form.h"

#define ARENA_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void put(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    demand(file != NULL);
    size_t written = fwrite(bytes, 1, count, file);
    demand(fclose(file) == 0 && written == count);
}

static bool same(const char *a, const char *b)
{
    return (a == NULL) == (b == NULL) && (a == NULL || strcmp(a, b) == 0);
}

static void read_back(struct mt_arena *arena, const char *folder, const char *path,
                      const struct mt_form_record *record)
{
    struct mt_json_text text = {.ctx = arena->ctx};
    struct mt_form_record again;
    const char *found = NULL;
    demand(mt_form_record_put(&text, record) == MT_OK);
    put(path, text.bytes, text.length);
    demand(mt_form_record_read(arena, folder, &again, &found) == MT_OK && found != NULL);
    demand(same(record->name, again.name) && same(record->options, again.options) &&
           same(record->date, again.date));
    demand(record->answers == again.answers && record->texts == again.texts && record->bos == again.bos);
    mt_json_text_free(&text);
}

static void try_folder(struct mt_arena *arena, const char *folder, const char *path)
{
    struct mt_context *ctx = arena->ctx;
    const struct mt_form_request request = {.model = folder, .adapter = folder, .by = "--template"};
    struct mt_text_form form;
    struct mt_form_record record;
    struct mt_chat_template *template = NULL;
    const char *found = NULL;
    enum mt_status status = mt_text_form_find(arena, &request, &form);
    demand(status == MT_OK || ctx->message[0] != '\0');
    if (status == MT_OK && mt_text_form_open(ctx, &form, NULL, folder, &template) == MT_OK)
        mt_chat_template_free(template);
    if (mt_form_record_read(arena, folder, &record, &found) == MT_OK) read_back(arena, folder, path, &record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[64];
    char path[96];
    struct mt_context ctx;
    struct mt_arena arena;
    (void)snprintf(folder, sizeof folder, "/tmp/fuzz_form.%ld", (long)getpid());
    (void)snprintf(path, sizeof path, "%s/" MT_TEXT_FORM_FILE, folder);
    (void)mkdir(folder, 0700);
    put(path, data, size);
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, ARENA_BYTES);
    try_folder(&arena, folder, path);
    mt_arena_free(&arena);
    demand(ctx.live_bytes == 0);
    (void)remove(path);
    (void)rmdir(folder);
    return 0;
}
