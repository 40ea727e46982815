/* What reading settings is divided into. */
#ifndef MT_COMPARE_SETTINGS_READ_H
#define MT_COMPARE_SETTINGS_READ_H

#include "compare/settings/settings.h"

/* Refuses a text that cannot name files. */
enum mt_status mt_compare_check_name(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     const char *what, const char *name);

/* The text of a node that names files. */
enum mt_status mt_compare_read_name(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                    const char *what, const struct mt_yaml_node *node, const char **name);

/* An element of `domains` or `others` (settings_domains.c). */
enum mt_status mt_compare_add_domain(const struct mt_keys_reader *reader, const struct mt_key_entry *entry,
                                     void *target);
extern const struct mt_keys mt_compare_domain_keys;

/* Finds the parts of mixes, and brings all domains into their order, once all are read. */
enum mt_status mt_compare_arrange_domains(const struct mt_keys_reader *reader);

/* Keys of benchmarks (settings_tasks.c). */
extern const struct mt_key_row mt_compare_task_rows[];

/* Keys of what cells are asked besides (settings_asking.c), and what cannot be among them. */
extern const struct mt_key_row mt_compare_asking_rows[];
enum mt_status mt_compare_check_asked(const struct mt_keys_reader *reader);

#endif
