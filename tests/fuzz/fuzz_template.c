/*
 * Fuzz target: bytes as a chat template, then conversations written out with it. Every piece must be
 * readable, and what is trained on must be an assistant's.
 */
// With: src/text/template*.c src/text/jinja/*.c src/text/jinja/*/*.c
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/template.h"

#define TURNS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A broken promise ends the process, which is how a fuzzer learns of it. */
static void demand(bool held)
{
    if (!held) abort();
}

static void walk_pieces(const struct mt_piece_list *pieces)
{
    volatile char last = 0;
    for (size_t i = 0; i < pieces->count; i++) {
        const struct mt_piece *piece = &pieces->data[i];
        bool text = piece->kind == MT_PIECE_TEMPLATE || piece->kind == MT_PIECE_CONTENT;
        for (size_t j = 0; text && j < piece->bytes; j++) last = piece->text[j];
    }
    (void)last;
}

static void render(struct mt_context *ctx, const struct mt_chat_template *template,
                   const struct mt_turn *turns, size_t count, bool generate)
{
    struct mt_piece_list pieces = {.ctx = ctx};
    enum mt_status status = mt_chat_template_render(template, turns, count, generate, &pieces);
    walk_pieces(&pieces);
    bool answered = false;
    for (size_t i = 0; i < count; i++) answered = answered || turns[i].role == MT_ROLE_ASSISTANT;
    for (size_t i = 0; i < pieces.count; i++) demand(answered || !pieces.data[i].trained);
    if (status != MT_OK) demand(ctx->message[0] != '\0');
    mt_piece_list_free(&pieces);
}

static void render_all(struct mt_context *ctx, const struct mt_chat_template *template)
{
    static const struct mt_turn turns[TURNS] = {
        {.role = MT_ROLE_SYSTEM, .text = " be brief\n", .bytes = 10},
        {.role = MT_ROLE_USER, .text = "add", .bytes = 3, .input = "1 {eos} 2", .input_bytes = 9},
        {.role = MT_ROLE_ASSISTANT, .text = " 3 ", .bytes = 3},
        {.role = MT_ROLE_USER, .text = "", .bytes = 0},
        {.role = MT_ROLE_ASSISTANT, .text = "\n", .bytes = 1},
    };
    struct mt_piece_list pieces = {.ctx = ctx};
    for (size_t first = 0; first < TURNS; first++) {
        for (size_t count = 0; first + count <= TURNS; count++) {
            render(ctx, template, turns + first, count, false);
            render(ctx, template, turns + first, count, true);
        }
    }
    demand(mt_chat_template_render_text(template, "words", 5, &pieces) == MT_OK);
    walk_pieces(&pieces);
    mt_piece_list_free(&pieces);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mt_context ctx;
    struct mt_chat_template *template = NULL;
    mt_context_init(&ctx, NULL);
    if (mt_chat_template_parse(&ctx, "fuzz", (const char *)data, size, &template) == MT_OK) {
        render_all(&ctx, template);
        mt_chat_template_free(template);
    } else {
        demand(ctx.message[0] != '\0');
    }
    demand(ctx.live_bytes == 0);
    return 0;
}
