/* The benchmarks of a comparison: entries of `tasks`, found, their parts and budgets taken apart. */
#ifndef MT_COMPARE_TASKS_H
#define MT_COMPARE_TASKS_H

#include "compare/settings/settings.h"
#include "eval/tasks/task.h"

/* One column of the tables: an entry with one budget. */
struct mt_compare_task {
    const char *name;                     // fit for a file name: "gsm8k", "gsm8k@512"
    const struct mt_compare_entry *entry; // borrowed from the settings
    int64_t max_tokens;                   // of a written answer; 0: as the task says
    struct mt_task_list list;             // its parts, as they are asked
    const char *metric;                   // "exact_match"; "mean" of several parts
    const char *asking;                   // a checksum of what is asked: what was asked otherwise is another
    size_t questions;                     // in all
    double written;                       // tokens of the answers at most
    bool writes;                          // answers are written; else choices are scored
};

struct mt_compare_tasks {
    struct mt_compare_task task[MT_COMPARE_MOST_TASKS];
    size_t count;
};

/*
 * Finds them in `folder`; their questions lie below `data`. Tasks that are not there, and data that is not,
 * are refused. All texts live in the arena.
 */
enum mt_status mt_compare_tasks_find(const struct mt_compare_settings *settings, const char *folder,
                                     const char *data, struct mt_arena *arena,
                                     struct mt_compare_tasks *tasks);

#endif
