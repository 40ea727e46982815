/* Changing one member of a JSON object in its text, so that everything else stays byte by byte. */
#ifndef MT_EVAL_JSON_MEMBER_H
#define MT_EVAL_JSON_MEMBER_H

#include "formats/text/lists.h"

/*
 * Appends `text`, a JSON object that has been parsed before, with member `name` (plain ASCII) set to `value`
 * (JSON): in its place where it is there, else as the last.
 */
enum mt_status mt_json_member_set(const char *text, size_t bytes, const char *name,
                                  const struct mt_byte_list *value, struct mt_byte_list *out);

#endif
