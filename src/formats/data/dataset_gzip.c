/* The bytes of a dataset: the file mapped, or, for a .gz, its unpacked text. */
#define ZLIB_CONST // next_in points into a read-only mapping

#include <string.h>
#include <zlib.h>

#include "formats/data/dataset_private.h"
#include "formats/data/spool.h"

#define CHUNK_BYTES 65536
#define GZIP_WINDOW (15 + 16) // zlib's number for "the largest window, in a gzip file"

struct unpacking {
    struct mt_context *ctx;
    const char *path; // of the .gz
    struct mt_spool spool;
    z_stream stream;
    unsigned char chunk[CHUNK_BYTES];
};

/* One gzip member after another, to the end of the file. */
static enum mt_status inflate_all(struct unpacking *u, const struct mt_file_mapping *packed)
{
    size_t given = 0; // to zlib, which counts in unsigned int
    int outcome = Z_OK;
    for (;;) {
        size_t left = packed->bytes - given;
        if (u->stream.avail_in == 0 && left > 0) {
            u->stream.next_in = (const unsigned char *)packed->data + given;
            u->stream.avail_in = (unsigned)(left < (1u << 30) ? left : (1u << 30));
            given += u->stream.avail_in;
        }
        if (outcome == Z_STREAM_END) {
            if (u->stream.avail_in == 0) return MT_OK;
            (void)inflateReset(&u->stream);
        }
        u->stream.next_out = u->chunk;
        u->stream.avail_out = CHUNK_BYTES;
        outcome = inflate(&u->stream, Z_NO_FLUSH);
        enum mt_status status = mt_spool_write(&u->spool, u->chunk, CHUNK_BYTES - u->stream.avail_out);
        if (status != MT_OK) return status;
        if (outcome == Z_MEM_ERROR) {
            return mt_fail(u->ctx, MT_ERR_MEMORY, "%s: out of memory while unpacking", u->path);
        }
        if (outcome == Z_BUF_ERROR)
            return mt_fail(u->ctx, MT_ERR_FORMAT, "%s: the gzip file is cut off", u->path);
        if (outcome != Z_OK && outcome != Z_STREAM_END) {
            return mt_fail(u->ctx, MT_ERR_FORMAT, "%s: not a sound gzip file: %s", u->path,
                           u->stream.msg != NULL ? u->stream.msg : "damaged");
        }
    }
}

static enum mt_status unpack(struct unpacking *u, const struct mt_file_mapping *packed)
{
    if (packed->bytes == 0)
        return mt_fail(u->ctx, MT_ERR_FORMAT, "%s: an empty file is not a gzip file", u->path);
    if (inflateInit2(&u->stream, GZIP_WINDOW) != Z_OK) {
        return mt_fail(u->ctx, MT_ERR_MEMORY, "%s: out of memory while unpacking", u->path);
    }
    enum mt_status status = inflate_all(u, packed);
    (void)inflateEnd(&u->stream);
    return status;
}

static enum mt_status unpack_and_map(struct mt_context *ctx, const char *path,
                                     const struct mt_dataset_options *options,
                                     struct mt_file_mapping *mapping)
{
    void *memory = NULL;
    struct mt_file_mapping packed = {0};
    enum mt_status status = mt_file_map(ctx, path, &packed);
    if (status != MT_OK) return status;
    status = mt_allocate_array(ctx, 1, sizeof(struct unpacking), &memory);
    if (status == MT_OK) {
        struct unpacking *u = memory;
        u->ctx = ctx;
        u->path = path;
        status = mt_spool_open(ctx, path, options->spool_folder, options->max_unpacked, &u->spool);
        if (status == MT_OK) status = unpack(u, &packed);
        if (status == MT_OK) status = mt_spool_map(&u->spool, mapping);
        mt_spool_close(&u->spool);
    }
    mt_release(ctx, memory, sizeof(struct unpacking));
    mt_file_unmap(&packed);
    return status;
}

enum mt_status mt_dataset_map(struct mt_context *ctx, const char *path,
                              const struct mt_dataset_options *options, struct mt_file_mapping *mapping)
{
    size_t length = strlen(path);
    bool packed = length > 3 && strcmp(path + length - 3, ".gz") == 0;
    return packed ? unpack_and_map(ctx, path, options, mapping) : mt_file_map(ctx, path, mapping);
}
