/* Stop strings in a text that grows. */
#include "infer/answer.h"

#include <string.h>

enum mt_status mt_answer_create(struct mt_context *ctx, const struct mt_tokenizer *tokenizer,
                                const char *const *stops, struct mt_answer *answer)
{
    *answer = (struct mt_answer){.stops = stops, .text = {.ctx = ctx}, .ids = {.ctx = ctx}};
    return mt_token_stream_create(ctx, tokenizer, MT_DECODE_SKIP_SPECIAL | MT_DECODE_SKIP_UNKNOWN,
                                  &answer->stream);
}

void mt_answer_free(struct mt_answer *answer)
{
    mt_token_stream_free(answer->stream);
    mt_byte_list_free(&answer->text);
    mt_id_list_free(&answer->ids);
    *answer = (struct mt_answer){0};
}

/* The first stop string that begins in text[from ...]; false: none does. */
static bool find_stop(const struct mt_answer *answer, size_t from, size_t *place)
{
    const struct mt_byte_list *text = &answer->text;
    for (size_t at = from; at < text->count; at++) {
        for (const char *const *stop = answer->stops; *stop != NULL; stop++) {
            size_t bytes = strlen(*stop);
            if (bytes == 0 || bytes > text->count - at) continue;
            if (memcmp(text->data + at, *stop, bytes) != 0) continue;
            *place = at;
            return true;
        }
    }
    return false;
}

/* True when the text from `at` to its end begins a stop string. */
static bool may_stop(const struct mt_answer *answer, size_t at)
{
    size_t rest = answer->text.count - at;
    for (const char *const *stop = answer->stops; *stop != NULL; stop++) {
        if (rest < strlen(*stop) && memcmp(answer->text.data + at, *stop, rest) == 0) return true;
    }
    return false;
}

/* Looks at what has come since the text was last settled. */
static void settle(struct mt_answer *answer)
{
    if (answer->stopped) return;
    if (answer->stops == NULL) {
        answer->settled = answer->text.count;
        return;
    }
    size_t place = 0;
    if (find_stop(answer, answer->settled, &place)) {
        answer->text.count = place;
        answer->settled = place;
        answer->stopped = true;
        return;
    }
    while (answer->settled < answer->text.count && !may_stop(answer, answer->settled)) answer->settled++;
}

enum mt_status mt_answer_push(struct mt_answer *answer, int32_t id)
{
    enum mt_status status = mt_id_list_append(&answer->ids, id);
    if (status == MT_OK) status = mt_token_stream_push(answer->stream, id, &answer->text);
    if (status == MT_OK) settle(answer);
    return status;
}

enum mt_status mt_answer_end(struct mt_answer *answer)
{
    size_t count = answer->text.count;
    enum mt_status status = mt_token_stream_end(answer->stream, &answer->text);
    if (status != MT_OK) return status;
    if (answer->stopped) {
        answer->text.count = count;
        return MT_OK;
    }
    settle(answer);
    answer->settled = answer->text.count;
    return MT_OK;
}

enum mt_status mt_answer_clear(struct mt_answer *answer)
{
    enum mt_status status = mt_token_stream_end(answer->stream, &answer->text);
    answer->text.count = 0;
    answer->ids.count = 0;
    answer->settled = 0;
    answer->stopped = false;
    return status;
}
