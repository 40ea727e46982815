/* A table, the command and its settings. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/amount.h"
#include "model/files/card.h"
#include "train/trainer_internal.h"

#define LINE_BYTES 512

struct lines {
    struct mt_arena *arena;
    struct mt_byte_list text;
    enum mt_status status;
};

static void put(struct lines *lines, const char *text)
{
    if (lines->status == MT_OK) lines->status = mt_byte_list_append_text(&lines->text, text);
}

static void put_row(struct lines *lines, const char *what, const char *value)
{
    put(lines, "| ");
    put(lines, what);
    put(lines, " | ");
    put(lines, value);
    put(lines, " |\n");
}

static void put_trained(struct lines *lines, const struct mt_trainer *trainer)
{
    const struct mt_train_settings *settings = trainer->settings;
    char line[LINE_BYTES];
    (void)snprintf(line, sizeof line, "LoRA pairs of rank %d, alpha %g, on", trainer->selection.lora_rank,
                   trainer->selection.lora_alpha);
    put(lines, "| trained | ");
    put(lines, settings->train == MT_TRAIN_FULL ? "the weights of" : line);
    for (size_t i = 0; settings->targets[i] != NULL; i++) {
        const char *name = NULL;
        if (lines->status == MT_OK) lines->status = mt_card_name(lines->arena, settings->targets[i], &name);
        put(lines, i > 0 ? ", `" : " `");
        put(lines, name != NULL ? name : "");
        put(lines, "`");
    }
    put(lines, " |\n");
}

static void put_data(struct lines *lines, const struct mt_train_settings *settings)
{
    put(lines, "| data | ");
    for (size_t i = 0; i < settings->source_count; i++) {
        const char *name = NULL;
        if (lines->status == MT_OK)
            lines->status = mt_card_name(lines->arena, settings->sources[i].path, &name);
        put(lines, i > 0 ? ", `" : "`");
        put(lines, name != NULL ? name : "");
        put(lines, "`");
    }
    put(lines, " |\n");
}

enum mt_status mt_trainer_card(const struct mt_trainer *trainer, bool best, struct mt_arena *arena,
                               const char **text)
{
    const struct mt_train_settings *settings = trainer->settings;
    const struct mt_run_numbers *numbers = &trainer->numbers;
    const char *brief = "";
    char line[LINE_BYTES];
    struct lines lines = {.arena = arena, .text = {.ctx = trainer->ctx}};
    lines.status = mt_train_settings_brief(trainer->ctx, settings, arena, &brief);
    put(&lines, "| | |\n|---|---|\n");
    put_row(&lines, "method", settings->objective.method);
    put_trained(&lines, trainer);
    put_data(&lines, settings);
    uint64_t step = best ? numbers->best_step : numbers->step;
    (void)snprintf(line, sizeof line, "%s of %" PRId64 " examples%s", mt_counted(step, "step", "steps").text,
                   settings->examples, best ? ": the best on held-out data" : "");
    put_row(&lines, "length", line);
    if (numbers->best_step > 0) {
        (void)snprintf(line, sizeof line, "%.4f nats a token, after step %" PRIu64, numbers->best_loss,
                       numbers->best_step);
        put_row(&lines, "lowest loss on held-out data", line);
    }
    put(&lines, "\nThe command:\n\n    metier train run.yaml out=run\n\n"
                "with this `run.yaml`:\n\n```yaml\n");
    put(&lines, brief);
    put(&lines, "```\n");
    if (lines.status == MT_OK)
        lines.status = mt_arena_copy_text(arena, (const char *)lines.text.data, lines.text.count, text);
    mt_byte_list_free(&lines.text);
    return lines.status;
}
