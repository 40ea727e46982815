/* Questions in parts. */
#include "eval/run/prefixes.h"

/* Where a part belongs. */
struct asked_parts {
    const struct mt_answer_listener *listener;
    struct mt_choice_question *parts; // [count]
    size_t *owner;                    // [count]: the question a part is of
    size_t *open;                     // [questions]: its parts without an answer; 0: the listener has heard
    size_t count;
};

static enum mt_status answered(void *self, size_t index)
{
    struct asked_parts *asked = self;
    size_t owner = asked->owner[index];
    if (asked->open[owner] == 0 || --asked->open[owner] > 0) return MT_OK;
    return asked->listener->answered(asked->listener->self, owner);
}

static enum mt_status failed(void *self, size_t index, const char *why)
{
    struct asked_parts *asked = self;
    size_t owner = asked->owner[index];
    if (asked->open[owner] == 0) return MT_OK;
    asked->open[owner] = 0;
    return asked->listener->failed(asked->listener->self, owner, why);
}

static bool go_on(void *self, int64_t tokens)
{
    const struct asked_parts *asked = self;
    return asked->listener->go_on(asked->listener->self, tokens);
}

static void fill(struct asked_parts *asked, const struct mt_choice_question *questions, size_t count)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        const struct mt_choice_question *question = &questions[i];
        size_t pieces = question->prefixes != NULL ? question->count : 1;
        asked->open[i] = pieces;
        for (size_t k = 0; k < pieces; k++, used++) {
            struct mt_choice_question *part = &asked->parts[used];
            *part = *question;
            asked->owner[used] = i;
            if (question->prefixes == NULL) continue;
            part->prefix = question->prefixes[k];
            part->prefixes = NULL;
            part->continuations = question->continuations + k;
            part->scores = question->scores + k;
            part->count = 1;
        }
    }
}

enum mt_status mt_score_choices(struct mt_context *ctx, const struct mt_answerer *answerer,
                                const struct mt_choice_question *questions, size_t count,
                                const struct mt_answer_listener *listener)
{
    struct asked_parts asked = {.listener = listener};
    const struct mt_answer_listener own = {
        .self = &asked, .answered = answered, .failed = failed, .go_on = go_on};
    bool parted = false;
    for (size_t i = 0; i < count; i++) {
        parted = parted || questions[i].prefixes != NULL;
        asked.count += questions[i].prefixes != NULL ? questions[i].count : 1;
    }
    if (!parted) return answerer->score(answerer->self, questions, count, listener);
    void *memory[3] = {NULL};
    enum mt_status status = mt_allocate_array(ctx, asked.count, sizeof *asked.parts, &memory[0]);
    if (status == MT_OK) status = mt_allocate_array(ctx, asked.count, sizeof *asked.owner, &memory[1]);
    if (status == MT_OK) status = mt_allocate_array(ctx, count, sizeof *asked.open, &memory[2]);
    asked.parts = memory[0];
    asked.owner = memory[1];
    asked.open = memory[2];
    if (status == MT_OK) {
        fill(&asked, questions, count);
        status = answerer->score(answerer->self, asked.parts, asked.count, &own);
    }
    mt_release(ctx, memory[0], asked.count * sizeof *asked.parts);
    mt_release(ctx, memory[1], asked.count * sizeof *asked.owner);
    mt_release(ctx, memory[2], count * sizeof *asked.open);
    return status;
}
