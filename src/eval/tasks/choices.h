/*
 * A row's choices, and which of them is right. `answer` names it by a label, a letter, its text, an index or
 * a number (enum mt_answer_naming); an answer that names none of the choices, or could mean two of them, is
 * refused: a row that is read in a wrong way would only lower a figure.
 */
#ifndef MT_EVAL_CHOICES_H
#define MT_EVAL_CHOICES_H

#include "eval/tasks/sample.h"

/* True for a task whose rows have choices. */
bool mt_task_has_choices(const struct mt_task *task);

/*
 * Fills in the sample's choices, gold and answer from its row, number `row` of the file. `order` is that of
 * its choices with shuffle: harness; NULL: the file's. The answer is a
 * letter, or with fixed labels the right choice's text; without choices it is what the template says.
 */
enum mt_status mt_choices_read(const struct mt_task *task, uint64_t row, const unsigned char *order,
                               struct mt_task_sample *sample);

#endif
