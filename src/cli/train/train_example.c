/*
 * metier train --dry-run: one example as the model will see it. What is trained on is coloured and underlined
 * on a terminal, and stands between [[ and ]] elsewhere.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/train/train.h"

#define MOST_TOKENS_SHOWN 400 // from the beginning and from the end, together

/* How the text is printed: marks, and the line it is on. */
struct view {
    const char *begin, *end;
    bool trained;    // now
    bool line_start; // nothing stands on this line yet
};

static void put(struct view *view, char byte)
{
    if (view->line_start) printf("  ");
    view->line_start = false;
    if (byte == '\n') {
        // Colours do not reach over the end of a line.
        printf("%s\n", view->trained && view->begin[0] == '\033' ? view->end : "");
        view->line_start = true;
        return;
    }
    bool control = ((unsigned char)byte < ' ' && byte != '\t') || byte == 127;
    (void)putchar(control ? '?' : byte);
}

static void switch_to(struct view *view, bool trained)
{
    if (view->trained == trained) return;
    if (view->line_start) printf("  ");
    view->line_start = false;
    printf("%s", trained ? view->begin : view->end);
    view->trained = trained;
}

static void put_text(struct view *view, const struct mt_byte_list *text, size_t from)
{
    for (size_t i = from; i < text->count; i++) {
        bool again = view->line_start && view->trained && view->begin[0] == '\033';
        if (again) printf("  %s", view->begin);
        if (again) view->line_start = false;
        put(view, (char)text->data[i]);
    }
}

/* Whether a token is trained on: labels are those of the next one. */
static bool is_trained(const struct mt_example *example, size_t index)
{
    return index > 0 && example->labels.data[index - 1] != MT_NO_LABEL;
}

static enum mt_status print_tokens(const struct mt_corpus *corpus, struct mt_token_stream *stream,
                                   struct mt_byte_list *text, struct view *view)
{
    const struct mt_example *example = &corpus->first;
    size_t count = example->ids.count;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        size_t before = text->count;
        if (count > MOST_TOKENS_SHOWN && i == MOST_TOKENS_SHOWN / 2) {
            size_t left_out = count - MOST_TOKENS_SHOWN;
            switch_to(view, false);
            printf("%s  ... %zu tokens are not shown ...\n", view->line_start ? "" : "\n", left_out);
            view->line_start = true;
            i += left_out;
        }
        status = mt_token_stream_push(stream, example->ids.data[i], text);
        // Part of a character shows when it is whole, as what its last token is.
        if (text->count > before) switch_to(view, is_trained(example, i));
        put_text(view, text, before);
    }
    size_t before = text->count;
    if (status == MT_OK) status = mt_token_stream_end(stream, text);
    put_text(view, text, before);
    switch_to(view, false);
    if (!view->line_start) printf("\n");
    return status;
}

enum mt_status train_print_example(struct mt_context *ctx, const struct mt_corpus *corpus)
{
    bool terminal = isatty(STDOUT_FILENO) != 0;
    struct view view = {
        .begin = terminal ? "\033[4;32m" : "[[", .end = terminal ? "\033[0m" : "]]", .line_start = true};
    struct mt_byte_list text = {.ctx = ctx};
    struct mt_token_stream *stream = NULL;
    if (corpus->first.ids.count == 0) return MT_OK;
    printf("\nan example, as the model will see it (%s, by %s); %s is trained on\n", corpus->first_place,
           mt_chat_template_name(corpus->template),
           terminal ? "\033[4;32mthis\033[0m" : "what stands in [[ ]]");
    enum mt_status status = mt_token_stream_create(ctx, corpus->tokenizer, MT_DECODE_SKIP_UNKNOWN, &stream);
    if (status == MT_OK) status = print_tokens(corpus, stream, &text, &view);
    mt_token_stream_free(stream);
    mt_byte_list_free(&text);
    return status;
}
