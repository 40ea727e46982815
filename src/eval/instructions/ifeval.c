/* IFEval's two verdicts on every instruction of a row. */
#include <string.h>

#include "eval/instructions/instructions.h"
#include "eval/livebench/python.h"

#define VARIANTS 8

/* The answer, and what is made of it for the loose verdict; the first is the answer itself. */
struct judging {
    struct mt_text variants[VARIANTS];
    struct mt_instruction_marks *marks;
};

/* Between two line ends, without white space at its ends. */
static struct mt_text between(struct mt_text text, size_t from, size_t to)
{
    if (from >= to) return mt_text_of("");
    return mt_livebench_stripped((struct mt_text){.text = text.text + from, .bytes = to - from});
}

static void make_variants(struct mt_python *python, struct mt_text answer, struct mt_text *variants)
{
    const char *line_end = answer.bytes > 0 ? memchr(answer.text, '\n', answer.bytes) : NULL;
    size_t second = line_end != NULL ? (size_t)(line_end - answer.text) + 1 : answer.bytes;
    size_t last = answer.bytes;
    while (last > 0 && answer.text[last - 1] != '\n') last--;
    if (last > 0) last--; // the end of the line before the last
    variants[0] = answer;
    variants[1] = between(answer, second, answer.bytes);
    variants[2] = between(answer, 0, last);
    variants[3] = between(answer, second, last);
    for (int i = 0; i < 4; i++) variants[4 + i] = mt_python_replace(python, variants[i], "*", "");
}

static enum mt_status visit(void *self, struct mt_context *ctx, size_t index, const char *kind,
                            const struct mt_json_node *values, bool *known)
{
    struct judging *judging = self;
    struct mt_instruction_marks *marks = judging->marks;
    enum mt_following following = MT_NOT_FOLLOWED;
    enum mt_following best = MT_NOT_FOLLOWED; // of the variants
    if (index >= MT_MOST_INSTRUCTIONS)
        return mt_fail(ctx, MT_ERR_FORMAT, "more than %d instructions", MT_MOST_INSTRUCTIONS);
    const uint32_t bit = (uint32_t)1 << index;
    for (int i = 0; i < VARIANTS && best != MT_FOLLOWED; i++) {
        enum mt_status status =
            mt_instruction_check(ctx, kind, values, judging->variants[i], known, &following);
        // A keyword that is a pattern may need too much work.
        if (status == MT_ERR_LIMIT) following = MT_FOLLOWING_OPEN;
        if (status != MT_OK && status != MT_ERR_LIMIT) return status;
        if (!*known) return MT_OK;
        if (i == 0 && following == MT_FOLLOWED) marks->strict |= bit;
        if (i == 0 && following == MT_FOLLOWING_OPEN) marks->strict_open |= bit;
        if (following != MT_NOT_FOLLOWED) best = following;
    }
    if (best == MT_FOLLOWED) marks->loose |= bit;
    if (best == MT_FOLLOWING_OPEN) marks->loose_open |= bit;
    return MT_OK;
}

/* What stands behind the last thoughts. */
static struct mt_text without_thoughts(struct mt_text answer)
{
    static const char end[] = "</think>";
    bool thought = false;
    for (size_t at = mt_text_find(answer, 0, end); at < answer.bytes; at = mt_text_find(answer, 0, end)) {
        answer = mt_text_from(answer, at + sizeof end - 1);
        thought = true;
    }
    if (!thought) return answer;
    const char *stop = answer.text + answer.bytes;
    struct mt_text trimmed = mt_livebench_stripped(answer);
    return (struct mt_text){.text = trimmed.text, .bytes = (size_t)(stop - trimmed.text)};
}

enum mt_status mt_ifeval_judge(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                               struct mt_instruction_marks *marks)
{
    struct judging judging = {.marks = marks};
    struct mt_python python;
    size_t count = 0;
    *marks = (struct mt_instruction_marks){0};
    mt_python_open(&python, ctx);
    make_variants(&python, without_thoughts(answer), judging.variants);
    enum mt_status status =
        python.status == MT_OK ? mt_instructions_each(ctx, row, visit, &judging, &count) : python.status;
    marks->count = (uint32_t)count;
    enum mt_status closed = mt_python_close(&python);
    return status == MT_OK ? closed : status;
}
