/*
 * Compressed pieces of columnar files: pages of Parquet, buffers of Arrow. How long a piece becomes is known
 * beforehand, from the file; one that becomes longer or shorter is refused, and nothing is written beyond it.
 */
#ifndef MT_FORMATS_UNPACK_H
#define MT_FORMATS_UNPACK_H

#include <stdbool.h>

#include "formats/text/lists.h"

enum mt_packing {
    MT_PACKING_NONE,
    MT_PACKING_SNAPPY,
    MT_PACKING_GZIP,
    MT_PACKING_ZSTD,
    MT_PACKING_LZ4_RAW,   // a block
    MT_PACKING_LZ4_FRAME, // with its header
};

/* One piece at most; what states more is refused before anything is allocated. */
#define MT_UNPACKED_MOST ((uint64_t)1 << 30)

/*
 * Unpacks `from` into `to`, whose former content is lost. `what` begins the message of a failure: the file
 * and what of it.
 */
enum mt_status mt_unpack(enum mt_packing packing, const uint8_t *from, size_t bytes, uint64_t unpacked,
                         struct mt_byte_list *to, const char *what);

#endif
