/* The last answer's tokens by expert: in colours on a terminal, as a list elsewhere. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/chat/chat.h"
#include "formats/text/printable.h"

#define HUES 12

/* Backgrounds of a terminal with 256 colours that black letters are legible on. */
static const int hues[HUES] = {210, 215, 221, 186, 150, 114, 115, 117, 111, 147, 183, 218};

/* The expert with the largest weight of a token in a layer of the trace; -1: it was not computed. */
static int first_expert(const struct mt_routing_trace *trace, int64_t position, int layer)
{
    if (position >= trace->tokens) return -1;
    size_t at = ((size_t)position * (size_t)trace->layers + (size_t)layer) * (size_t)trace->slots;
    int best = 0;
    for (int k = 1; k < trace->slots; k++)
        best = trace->weight[at + (size_t)k] > trace->weight[at + (size_t)best] ? k : best;
    return trace->expert[at + (size_t)best];
}

static void show_token(const struct mt_routing_trace *trace, int64_t position, int layer, const char *text,
                       size_t bytes, bool colours)
{
    int expert = first_expert(trace, position, layer);
    if (colours && expert >= 0) printf("\033[30;48;5;%dm", hues[expert % HUES]);
    (void)mt_show_text(stdout, text, bytes);
    if (colours) printf("\033[0m");
    if (colours || expert < 0) return;
    size_t at = ((size_t)position * (size_t)trace->layers + (size_t)layer) * (size_t)trace->slots;
    printf("\t");
    for (int k = 0; k < trace->slots; k++)
        printf("%s%d %.2f", k > 0 ? ", " : "", trace->expert[at + (size_t)k],
               (double)trace->weight[at + (size_t)k]);
    printf("\n");
}

/* The experts with the largest weights in the answer, most often used first. */
static enum mt_status show_legend(const struct chat *chat, int layer)
{
    const struct mt_routing_trace *trace = &chat->trace;
    int experts = mt_routing_log_experts(chat->log);
    void *memory = NULL;
    enum mt_status status = mt_allocate_array(chat->ctx, (size_t)experts, sizeof(int64_t), &memory);
    if (status != MT_OK) return status;
    int64_t *uses = memory;
    for (size_t i = 0; i < chat->answer.ids.count; i++) {
        int expert = first_expert(trace, (int64_t)(chat->ids.count + i), layer);
        if (expert >= 0 && expert < experts) uses[expert]++;
    }
    printf("\n");
    for (int shown = 0; shown < HUES; shown++) {
        int most = 0;
        for (int expert = 1; expert < experts; expert++) most = uses[expert] > uses[most] ? expert : most;
        if (uses[most] == 0) break;
        printf("\033[30;48;5;%dm %d \033[0m %" PRId64 "  ", hues[most % HUES], most, uses[most]);
        uses[most] = 0;
    }
    mt_release(chat->ctx, memory, (size_t)experts * sizeof(int64_t));
    return MT_OK;
}

enum mt_status chat_show_experts(struct chat *chat, int64_t layer)
{
    const struct mt_routing_trace *trace = &chat->trace;
    struct mt_byte_list text = {.ctx = chat->ctx};
    enum mt_status status = MT_OK;
    if (chat->log == NULL || trace->ctx == NULL || chat->answer.ids.count == 0) {
        (void)fprintf(stderr, chat->log == NULL ? "(no layer of the model has experts)\n"
                                                : "(there is no answer yet)\n");
        return MT_OK;
    }
    int which = layer < 0 ? trace->layers / 2 : -1;
    for (int i = 0; i < trace->layers; i++)
        which = mt_routing_log_loads(chat->log, i).layer == layer ? i : which;
    if (which < 0) {
        (void)fprintf(stderr, "(layer %" PRId64 " has no experts; layer %" PRId64 " to %" PRId64 " have)\n",
                      layer, mt_routing_log_loads(chat->log, 0).layer,
                      mt_routing_log_loads(chat->log, trace->layers - 1).layer);
        return MT_OK;
    }
    bool colours = isatty(STDOUT_FILENO) == 1 && getenv("NO_COLOR") == NULL;
    printf("layer %" PRId64 ", %s\n", mt_routing_log_loads(chat->log, which).layer,
           colours ? "each token in the colour of the expert with the largest weight"
                   : "experts and weights:");
    for (size_t i = 0; i < chat->answer.ids.count && status == MT_OK; i++) {
        text.count = 0;
        status = mt_tokenizer_decode(chat->session.tokenizer, chat->ctx, &chat->answer.ids.data[i], 1,
                                     MT_DECODE_SKIP_UNKNOWN, &text);
        if (status == MT_OK)
            show_token(trace, (int64_t)(chat->ids.count + i), which, (const char *)text.data, text.count,
                       colours);
    }
    if (colours && status == MT_OK) status = show_legend(chat, which);
    printf("\n");
    mt_byte_list_free(&text);
    return status;
}
