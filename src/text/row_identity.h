/*
 * What makes two rows of data the same, whatever the forms they are in: that they ask the same. What a row
 * asks is everything before its last answer, of a text, or where nothing is asked, all of it; in what form,
 * under which roles and with how much white space does not matter. Calls of tools are not looked at.
 *
 * A text holds question and answer in one. So rows are also known by both together: one that asks and answers
 * what was read as a text is found.
 */
#ifndef MT_TEXT_ROW_IDENTITY_H
#define MT_TEXT_ROW_IDENTITY_H

#include "formats/data/row_hashes.h"
#include "formats/text/printable.h"
#include "text/example.h"

struct mt_row_identity {
    uint64_t asked; // what it is kept by
    uint64_t all;   // with the last answer
};

/* Used for any number of rows; init and free. */
struct mt_row_identifier {
    struct mt_conversation conversation;
    struct mt_byte_list text;
};

void mt_row_identifier_init(struct mt_context *ctx, struct mt_row_identifier *identifier);
void mt_row_identifier_free(struct mt_row_identifier *identifier);

/* MT_ERR_FORMAT: the row holds no example, as mt_example_make. */
enum mt_status mt_row_identify(struct mt_row_identifier *identifier, const struct mt_example_source *source,
                               const struct mt_row *row, struct mt_row_identity *identity);

/* Of a question and its answer; neither is terminated. */
enum mt_status mt_row_identify_pair(struct mt_row_identifier *identifier, const char *question,
                                    size_t question_bytes, const char *answer, size_t answer_bytes,
                                    struct mt_row_identity *identity);

/* True when a set has the row. */
bool mt_row_hashes_know(const struct mt_row_hashes *set, const struct mt_row_identity *identity);

/* Adds the rows of a file: one of hashes, or of rows in any format. One without rows is refused, and a row
 * that makes no sense. */
enum mt_status mt_row_hashes_add_file(struct mt_row_hashes *set, const char *path);

/* Adds those of several files, NULL-terminated; NULL: none. */
enum mt_status mt_row_hashes_add_files(struct mt_row_hashes *set, const char *const *paths);

/* Rows of a file that a set has. */
struct mt_rows_known {
    uint64_t rows, known;
    uint64_t line;               // of the first of them
    struct mt_printable example; // the beginning of what it says
};

/* Counts them; rows that make no sense are not looked at. */
enum mt_status mt_row_hashes_count(const struct mt_row_hashes *set, const char *path,
                                   struct mt_rows_known *known);

#endif
