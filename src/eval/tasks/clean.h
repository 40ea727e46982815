/* What data sets leave in their texts and published prompts do not have. */
#ifndef MT_EVAL_CLEAN_H
#define MT_EVAL_CLEAN_H

#include <stddef.h>

/* The task's key `clean`: done to its prompts and choices as they are filled in. */
enum mt_task_clean {
    MT_CLEAN_NOTHING,
    MT_CLEAN_WIKIHOW, // as lm-evaluation-harness cleans HellaSwag's
};

/* Cleans a text in place; returns its bytes, which are no more than before. */
size_t mt_clean_text(enum mt_task_clean way, char *text, size_t bytes);

#endif
