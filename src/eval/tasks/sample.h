/* One sample of a task: its prompt, right answer and choices. */
#ifndef MT_EVAL_SAMPLE_H
#define MT_EVAL_SAMPLE_H

#include "base/files/digest.h"
#include "eval/tasks/prompt.h"
#include "eval/tasks/task.h"

#define MT_SAMPLE_MOST_CHOICES 26

/* Made with mt_sample_init, used for any number, freed with mt_sample_free. */
struct mt_task_sample {
    struct mt_row row;
    char id[128];               // NUL-terminated
    struct mt_byte_list prompt; // where every choice has one, the first's
    size_t shared;              // bytes of the prompt before the sample's own part: description and examples
    struct mt_byte_list answer;
    struct mt_byte_list choice_text; // what `choices` point into
    struct mt_text choices[MT_SAMPLE_MOST_CHOICES];
    size_t choice_count;
    int gold;       // number of the right choice; -1: no choices
    uint32_t right; // of all right choices, a bit each: of MT_NAMED_MANY several
    struct mt_byte_list input_text;
    struct mt_text inputs[MT_SAMPLE_MOST_CHOICES]; // the prompt of every choice, where the task has such
    size_t input_count;                            // 0: one prompt for all
};

void mt_sample_init(struct mt_context *ctx, struct mt_task_sample *sample);
void mt_sample_free(struct mt_task_sample *sample);

/* A checksum of all that a sample is made of and judged by: its row, the right answer, the choices in their
 * order. */
enum mt_status mt_sample_sum(struct mt_context *ctx, const struct mt_task_sample *sample,
                             struct mt_digest_text *sum);

/* What the template may name. */
struct mt_prompt_names mt_sample_names(const struct mt_task *task, const struct mt_task_sample *sample);

#endif
