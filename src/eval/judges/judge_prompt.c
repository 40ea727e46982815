/* Asking for a verdict, finding it. */
#include "eval/judges/judge_prompt.h"

#include <string.h>

#define MARK_DIGITS 12

enum place { QUESTION, REFERENCE, ANSWER, MARK, PLACES };

static const char *const place_names[PLACES] = {"{question}", "{reference}", "{answer}", "{mark}"};

enum mt_status mt_judge_prompt_check(struct mt_context *ctx, const char *file, const char *template)
{
    for (int place = 0; place < MARK; place++) {
        if (strstr(template, place_names[place]) == NULL)
            return mt_fail(ctx, MT_ERR_FORMAT, "%s: the prompt has no %s in it", file, place_names[place]);
    }
    return MT_OK;
}

static enum mt_status mark_of(struct mt_context *ctx, const struct mt_judged_sample *sample,
                              char mark[MARK_DIGITS + 1])
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    mt_digest_add(digest, sample->question, strlen(sample->question));
    mt_digest_add(digest, sample->reference, strlen(sample->reference));
    mt_digest_add(digest, sample->answer, strlen(sample->answer));
    struct mt_digest_text text = mt_digest_finish(digest);
    mt_digest_free(digest);
    memcpy(mark, text.digits, MARK_DIGITS);
    mark[MARK_DIGITS] = '\0';
    return MT_OK;
}

enum mt_status mt_judge_prompt_render(struct mt_context *ctx, const char *template,
                                      const struct mt_judged_sample *sample, struct mt_byte_list *out)
{
    char mark[MARK_DIGITS + 1];
    const char *const values[PLACES] = {sample->question, sample->reference, sample->answer, mark};
    enum mt_status status = mark_of(ctx, sample, mark);
    while (*template != '\0' && status == MT_OK) {
        int place = 0;
        while (place < PLACES && strncmp(template, place_names[place], strlen(place_names[place])) != 0)
            place++;
        if (place < PLACES) {
            status = mt_byte_list_append_text(out, values[place]);
            template += strlen(place_names[place]);
            continue;
        }
        size_t plain = 1 + strcspn(template + 1, "{");
        status = mt_byte_list_append(out, template, plain);
        template += plain;
    }
    return status;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n';
}

enum mt_verdict mt_judge_prompt_verdict(const char *text, size_t bytes)
{
    static const struct {
        const char *word;
        enum mt_verdict verdict;
    } words[] = {
        {"CORRECT", MT_VERDICT_CORRECT}, {"INCORRECT", MT_VERDICT_INCORRECT}, {"UNSURE", MT_VERDICT_UNSURE}};
    while (bytes > 0 && is_space(text[bytes - 1])) bytes--;
    size_t start = bytes;
    while (start > 0 && text[start - 1] != '\n') start--;
    while (start < bytes && is_space(text[start])) start++;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t length = strlen(words[i].word);
        if (bytes - start == length && memcmp(text + start, words[i].word, length) == 0)
            return words[i].verdict;
    }
    return MT_VERDICT_UNREADABLE;
}
