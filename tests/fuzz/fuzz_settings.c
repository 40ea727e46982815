/*
 * Fuzz target: bytes as the YAML of a training run, and as a word over one. What is accepted must be written
 * as a text that reads back to the same text.
 */
// With: src/train/settings*.c src/text/example_form.c
// With: src/text/template*.c src/text/own_template.c src/text/jinja/*.c
// With: src/objective/methods.c src/objective/options.c src/objective/idle.c
// With: src/objective/config_check.c -Wl,--defsym=mt_term_name=no_term_is_named
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/settings.h"

#define MOST_WORD 200 // bytes

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
const char *no_term_is_named(enum mt_term term);

static const char least[] = "model: m\nout: o\ndata.path: d.jsonl\n";

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

/*
 * Stands for mt_term_name when fuzzing, as that would bring every op along: terms are named when their
 * coefficient cannot be, and none read from a text is such.
 */
const char *no_term_is_named(enum mt_term term)
{
    (void)term;
    abort();
}

static void read_back(struct mt_context *ctx, struct mt_arena *arena,
                      const struct mt_train_settings *settings)
{
    struct mt_train_settings again;
    const char *text = NULL;
    const char *second = NULL;
    demand(settings->model != NULL && settings->out != NULL && settings->source_count > 0);
    demand(settings->targets != NULL && settings->targets[0] != NULL && settings->freeze != NULL);
    demand(mt_train_settings_text(ctx, settings, arena, &text) == MT_OK);
    demand(mt_train_settings_parse(ctx, "text", text, strlen(text), NULL, 0, arena, &again) == MT_OK);
    demand(mt_train_settings_text(ctx, &again, arena, &second) == MT_OK);
    demand(strcmp(text, second) == 0);
    demand(mt_train_settings_continue(ctx, text, arena, &again) == MT_OK);
}

static void try_text(const char *text, size_t bytes, const char *const *words, size_t count)
{
    struct mt_context ctx;
    struct mt_arena arena;
    struct mt_train_settings settings;
    mt_context_init(&ctx, NULL);
    mt_arena_init(&arena, &ctx, 16384);
    enum mt_status status =
        mt_train_settings_parse(&ctx, "fuzz", text, bytes, words, count, &arena, &settings);
    if (status == MT_OK) read_back(&ctx, &arena, &settings);
    if (status != MT_OK) demand(ctx.message[0] != '\0');
    mt_arena_free(&arena);
    demand(ctx.live_bytes == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_text((const char *)data, size, NULL, 0);
    if (size > MOST_WORD) return 0;
    char word[MOST_WORD + 1];
    const char *const words[] = {word};
    if (size > 0) memcpy(word, data, size);
    word[size] = '\0';
    try_text(least, sizeof least - 1, words, 1);
    return 0;
}
