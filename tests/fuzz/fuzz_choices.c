/*
 * Fuzz target: bytes as a file of choices. What is accepted can be taken, sequence by sequence, and names
 * experts that there are.
 */
// With: src/train/data/choices.c
#include <stdlib.h>
#include <string.h>

#include "train/data/choices.h"

enum { LAYERS = 2, SLOTS = 2, EXPERTS = 6, ROOM = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void take(struct mt_choices *choices, size_t number)
{
    static int32_t ids[ROOM];
    int64_t start = mt_sequence_start(&choices->index, number);
    int64_t length = mt_sequence_start(&choices->index, number + 1) - start;
    if (length > ROOM) return;
    memcpy(ids, (const char *)choices->index.ids + (size_t)start * sizeof *ids, (size_t)length * sizeof *ids);
    const int32_t offsets[2] = {0, (int32_t)length};
    struct mt_batch batch = {.tokens = length, .sequences = 1, .ids = ids, .offsets = offsets};
    demand(mt_choices_take(choices, &batch) == MT_OK);
    for (int64_t i = 0; i < length * LAYERS * SLOTS; i++)
        demand(batch.chosen[i] >= -1 && batch.chosen[i] < EXPERTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct mt_choice_shape shape = {.layers = LAYERS, .slots = SLOTS, .experts = EXPERTS};
    struct mt_context ctx;
    struct mt_choices choices;
    mt_context_init(&ctx, NULL);
    if (mt_choices_open_memory(&ctx, "fuzz", data, size, &shape, ROOM, &choices) == MT_OK) {
        for (size_t s = 0; s < choices.index.count; s++) take(&choices, s);
        mt_choices_close(&choices);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
