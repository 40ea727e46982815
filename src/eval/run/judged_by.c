/* Naming who judges. */
#include "eval/run/judged_by.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "judging.h"

#define SHORT_DIGITS 12

const char *mt_judging_rules(void)
{
    return METIER_JUDGING;
}

/* With its end, so that no two lists of texts are the same bytes; NULL is none of them. */
static void add_text(struct mt_digest *digest, const char *text)
{
    mt_digest_add(digest, text != NULL ? text : "\x01", text != NULL ? strlen(text) + 1 : 1);
}

static void add_texts(struct mt_digest *digest, const char *const *texts)
{
    for (; texts != NULL && *texts != NULL; texts++) add_text(digest, *texts);
    add_text(digest, NULL);
}

static void add_number(struct mt_digest *digest, int64_t number)
{
    mt_digest_add(digest, &number, sizeof number);
}

/* What the task's keys say of how an answer is found and judged. */
static void add_judging(struct mt_digest *digest, const struct mt_task *task)
{
    const char *const texts[] = {task->program, task->tests, task->given, task->calls};
    add_number(digest, task->compare);
    add_texts(digest, task->stop);
    add_texts(digest, task->choice_labels);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) add_text(digest, texts[i]);
    add_texts(digest, task->command);
    for (size_t f = 0; f < task->filter_count; f++) {
        const struct mt_task_filter *filter = &task->filters[f];
        add_text(digest, filter->name);
        for (size_t i = 0; i < filter->extract_count; i++) {
            add_number(digest, filter->extract[i].kind);
            add_number(digest, filter->extract[i].first);
            add_text(digest, filter->extract[i].pattern);
            add_texts(digest, filter->extract[i].words);
        }
        for (size_t i = 0; i < filter->normalize_count; i++) add_number(digest, filter->normalize[i]);
    }
}

enum mt_status mt_judged_by_find(struct mt_context *ctx, const struct mt_task *task, bool scores,
                                 struct mt_judged_by *by)
{
    struct mt_digest *digest = NULL;
    enum mt_status status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    if (!scores) add_judging(digest, task);
    const struct mt_digest_text keys = mt_digest_finish(digest);
    mt_digest_free(digest);
    (void)snprintf(by->judge, sizeof by->judge, "rules %.12s, task version %" PRId64 ", keys %.*s",
                   METIER_JUDGING, task->version, SHORT_DIGITS, keys.digits);
    status = mt_digest_create(ctx, &digest);
    if (status != MT_OK) return status;
    if (scores) add_text(digest, task->continuation);
    if (!scores) add_number(digest, task->max_tokens);
    if (!scores) add_texts(digest, task->stop);
    by->asked = mt_digest_finish(digest);
    mt_digest_free(digest);
    return MT_OK;
}
