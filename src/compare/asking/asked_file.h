/* Askings in cell.json and compare.json: {"pruned": {"reap_own_8": {...}}, "experts_per_token": ...}. */
#ifndef MT_COMPARE_ASKED_FILE_H
#define MT_COMPARE_ASKED_FILE_H

#include "compare/cell.h"
#include "formats/text/json.h"
#include "formats/text/json_text.h"

/* Members of an object that has some already; `indent`: before each key of a new line. Nothing of none. */
void mt_cell_asked_put(struct mt_json_text *text, const struct mt_compare_settings *settings,
                       const struct mt_cell_result *result, const char *indent);

/* Reads them into result->asked, in the arena of the job. */
enum mt_status mt_cell_asked_read(const struct mt_cell_job *job, const struct mt_json_node *root,
                                  struct mt_cell_result *result);

/* Room for them, nothing known; NULL where nothing is asked. */
enum mt_status mt_cell_asked_make(const struct mt_cell_job *job, struct mt_cell_asked **asked);

#endif
