/*
 * Fuzz target: bytes as the YAML of a training run, and as a word over one. What is accepted must be written
 * as a text that reads back to the same text.
 */
// With: src/train/settings/*.c src/text/example_form.c src/arch/*.c src/arch/published/*.c -fopenmp
// With: src/text/template*.c src/text/jinja/*.c src/text/jinja/*/*.c
// With: src/objective/methods.c src/objective/options.c src/objective/config_check.c
// With: src/objective/selection/*.c src/ops/limit.c -Wl,--defsym=mt_device_context=no_device
// With: -Wl,--defsym=mt_device_on_host=no_device -Wl,--defsym=mt_device_room=no_device
// With: -Wl,--defsym=mt_op_run=no_device
// With: -Wl,--defsym=mt_term_info=no_term_info -Wl,--defsym=mt_term_name=no_term_name
// With: -Wl,--defsym=mt_term_is_on=term_is_on -Wl,--defsym=mt_objective_has_terms=has_terms
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/settings/settings.h"

#define MOST_WORD 200 // bytes

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Stand for those of src/objective/terms.c when fuzzing, as the terms would bring every op along.
const struct mt_term_info *no_term_info(enum mt_term term);
const char *no_term_name(enum mt_term term);
bool term_is_on(const struct mt_objective_config *config, enum mt_term term);
bool has_terms(const struct mt_objective_config *config);
void no_device(void); // for what needs a device, which no settings do

static const char least[] = "model: m\nout: o\ndata.path: d.jsonl\n";

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

void no_device(void)
{
    abort();
}

const struct mt_term_info *no_term_info(enum mt_term term)
{
    static const struct mt_term_info none = {.name = "none"};
    (void)term;
    return &none;
}

const char *no_term_name(enum mt_term term)
{
    return no_term_info(term)->name;
}

bool term_is_on(const struct mt_objective_config *config, enum mt_term term)
{
    return config->coefficient[term] > 0.0;
}

bool has_terms(const struct mt_objective_config *config)
{
    for (int term = 0; term < MT_TERM_COUNT; term++) {
        if (term_is_on(config, (enum mt_term)term)) return true;
    }
    return false;
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
    demand(mt_train_settings_read(ctx, "text", text, strlen(text), NULL, 0, arena, &again) == MT_OK);
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
        mt_train_settings_read(&ctx, "fuzz", text, bytes, words, count, &arena, &settings);
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
