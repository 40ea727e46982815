/*
 * Columnar files, the hub's own: Parquet, and Arrow's IPC as a file or a stream. Both are read front to back,
 * Parquet row group by row group and page by page, Arrow record batch by record batch, and come out as a line
 * of JSON for each row (row_text.h). docs/formats.md says what is read.
 *
 * The file is mapped and somebody else's: every offset, length, count and level is checked before it is used,
 * and what was read is given back to the system, so that a file may be larger than memory. What is wrong with
 * it fails the file, in a sentence that names the column where it is one's.
 */
#ifndef MT_FORMATS_COLUMNAR_H
#define MT_FORMATS_COLUMNAR_H

#include "base/files/file.h"
#include "formats/columnar/row_text.h"

/* Appends the rows of a file named out->file. `mapped`: it is a mapping in truth, whose memory may be given
 * back, and not bytes of somebody's. */
enum mt_status mt_parquet_rows(const struct mt_file_mapping *file, bool mapped, struct mt_row_text *out);
enum mt_status mt_arrow_rows(const struct mt_file_mapping *file, bool mapped, struct mt_row_text *out);

#endif
