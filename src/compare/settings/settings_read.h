/* What reading settings is divided into. */
#ifndef MT_COMPARE_SETTINGS_READ_H
#define MT_COMPARE_SETTINGS_READ_H

#include "compare/settings/settings.h"

/* Refuses a text that cannot name files. */
enum mt_status mt_compare_check_name(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const char *what, const char *name);

/* Keys of benchmarks (settings_tasks.c). */
extern const struct mt_key_row mt_compare_task_rows[];

#endif
