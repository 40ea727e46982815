/*
 * A file of JSON objects, one a line, that grows: each line is written at once, so that at most the last line
 * of a killed process is torn. A power failure may also leave zeros for what was not on the disk yet: from
 * the first line with a zero on, which JSON has none of, all is torn. Reading leaves that out; opening to go
 * on cuts it off.
 */
#ifndef MT_EVAL_LINE_FILE_H
#define MT_EVAL_LINE_FILE_H

#include "eval/text.h"
#include "formats/text/json.h"

/* One line, an object; lasts for the call. Messages of the node begin with "FILE:LINE". NULL: lines need only
 * be objects. */
typedef enum mt_status (*mt_line_fn)(void *self, const struct mt_json_node *line);

/* The next line of a file's text, with its newline; false: there is none, or it is torn. *at moves behind it.
 */
bool mt_lines_next(struct mt_text text, size_t *at, struct mt_text *line);

/* Hands over every whole line of a file; *kept (may be NULL) is how many bytes they are. */
enum mt_status mt_lines_read(struct mt_context *ctx, const char *path, mt_line_fn each, void *self,
                             size_t *kept);

struct mt_line_file {
    struct mt_context *ctx; // borrowed; NULL: not open
    char *path;             // owned
    int descriptor;
    int unsynced;
    double synced;
};

/* Opens or creates a caller-owned file and hands over the lines that are there. A link is refused. End with
 * close. */
enum mt_status mt_line_file_open(struct mt_context *ctx, const char *path, mt_line_fn each, void *self,
                                 struct mt_line_file *file);

/* Appends a line, which ends in a newline; on the disk after 64 lines or 5 seconds. */
enum mt_status mt_line_file_append(struct mt_line_file *file, const struct mt_byte_list *line);

/* Brings everything to the disk and closes; one that is not open is allowed. */
enum mt_status mt_line_file_close(struct mt_line_file *file);

#endif
