/* What a sample holds, and a checksum of it. */
#include "eval/tasks/sample.h"

void mt_sample_init(struct mt_context *ctx, struct mt_task_sample *sample)
{
    *sample =
        (struct mt_task_sample){.prompt = {.ctx = ctx}, .answer = {.ctx = ctx}, .choice_text = {.ctx = ctx}};
    sample->input_text.ctx = ctx;
    mt_row_init(ctx, &sample->row);
}

void mt_sample_free(struct mt_task_sample *sample)
{
    mt_row_free(&sample->row);
    mt_byte_list_free(&sample->prompt);
    mt_byte_list_free(&sample->answer);
    mt_byte_list_free(&sample->choice_text);
    mt_byte_list_free(&sample->input_text);
}

static void add_text(struct mt_digest *digest, const void *text, size_t bytes)
{
    uint64_t length = bytes; // so that no two lists of texts are the same bytes
    mt_digest_add(digest, &length, sizeof length);
    mt_digest_add(digest, text, bytes);
}

enum mt_status mt_sample_sum(struct mt_context *ctx, const struct mt_task_sample *sample,
                             struct mt_digest_text *sum)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    add_text(digest, sample->row.source, sample->row.source_bytes);
    add_text(digest, sample->answer.data, sample->answer.count);
    for (size_t i = 0; i < sample->choice_count; i++)
        add_text(digest, sample->choices[i].text, sample->choices[i].bytes);
    *sum = mt_digest_finish(digest);
    mt_digest_free(digest);
    return MT_OK;
}

struct mt_prompt_names mt_sample_names(const struct mt_task *task, const struct mt_task_sample *sample)
{
    return (struct mt_prompt_names){.choices = sample->choice_count > 0 ? sample->choices : NULL,
                                    .choice_count = sample->choice_count,
                                    .subtask = task->subtask,
                                    .choice = -1};
}
