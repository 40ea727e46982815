/* LiveBench's instruction following: which of a row's instructions an answer follows, as a score. */
#include <string.h>

#include "eval/instructions/instructions.h"
#include "eval/livebench/livebench.h"
#include "eval/livebench/text.h"

/* An answer held against one instruction after the other. */
struct following {
    struct mt_text answer;
    size_t followed;
};

/* Sentences are counted by a rule of ours. */
static enum mt_status count_sentences(const struct mt_json_node *values, struct mt_text answer,
                                      bool *followed)
{
    int64_t bound = 0;
    const char *relation = NULL;
    enum mt_status status = mt_json_get_integer(values, "num_sentences", 0, INT64_MAX, &bound);
    if (status == MT_OK) status = mt_json_get_string(values, "relation", &relation);
    if (status != MT_OK) return status;
    bool fewer = mt_livebench_sentences(answer) < (uint64_t)bound;
    *followed = answer.bytes > 0 && fewer == (strcmp(relation, "less than") == 0);
    return MT_OK;
}

enum mt_status mt_livebench_follows(struct mt_context *ctx, const char *instruction,
                                    const struct mt_json_node *values, struct mt_text answer, bool *known,
                                    bool *followed)
{
    enum mt_following following = MT_NOT_FOLLOWED;
    // Which language an answer is in nobody here can tell.
    *known = strncmp(instruction, "language:", 9) != 0 && strncmp(instruction, "change_case:", 12) != 0;
    if (!*known) return MT_OK;
    enum mt_status status = mt_instruction_check(ctx, instruction, values, answer, known, &following);
    if (status != MT_OK || !*known) return status;
    *followed = following == MT_FOLLOWED;
    if (strcmp(instruction, "length_constraints:number_sentences") == 0)
        return count_sentences(values, mt_livebench_stripped(answer), followed);
    return MT_OK;
}

static enum mt_status visit(void *self, struct mt_context *ctx, size_t index, const char *kind,
                            const struct mt_json_node *values, bool *known)
{
    struct following *following = self;
    bool one = false;
    (void)index;
    enum mt_status status = mt_livebench_follows(ctx, kind, values, following->answer, known, &one);
    following->followed += one ? 1 : 0;
    return status;
}

enum mt_status mt_livebench_instructions(struct mt_context *ctx, const struct mt_row *row,
                                         struct mt_text answer, double *score)
{
    struct following following = {.answer = mt_livebench_stripped(answer)};
    size_t count = 0;
    *score = 0.0;
    enum mt_status status = mt_instructions_each(ctx, row, visit, &following, &count);
    if (status != MT_OK) return status;
    bool all = following.followed == count;
    *score = ((double)following.followed / (double)count + (all ? 1.0 : 0.0)) / 2;
    return MT_OK;
}
