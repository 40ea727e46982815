/*
 * The bytes of a dataset: the file mapped, or, for a .gz, its unpacked text in a temporary file that is
 * mapped and has lost its name before anybody else could use it.
 */
#define ZLIB_CONST // next_in points into a read-only mapping

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "formats/data/dataset_private.h"

#define CHUNK_BYTES 65536
#define GZIP_WINDOW (15 + 16) // zlib's number for "the largest window, in a gzip file"

struct unpacking {
    struct mt_context *ctx;
    const char *path; // of the .gz
    const char *spool;
    int descriptor;
    z_stream stream;
    uint64_t written;
    uint64_t most;
    unsigned char chunk[CHUNK_BYTES];
};

static enum mt_status fail_spool(const struct unpacking *u, const char *doing, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) (void)snprintf(reason, sizeof reason, "%d", error);
    return mt_fail(u->ctx, MT_ERR_IO, "%s: cannot %s %s, where it is to be unpacked: %s", u->path, doing,
                   u->spool, reason);
}

static enum mt_status write_chunk(struct unpacking *u, size_t bytes)
{
    const unsigned char *next = u->chunk;
    u->written += bytes;
    if (u->written > u->most) {
        return mt_fail(u->ctx, MT_ERR_FORMAT, "%s: unpacks to more than %llu bytes, the limit", u->path,
                       (unsigned long long)u->most);
    }
    while (bytes > 0) {
        ssize_t written = write(u->descriptor, next, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return fail_spool(u, "write", written < 0 ? errno : EIO);
        next += written;
        bytes -= (size_t)written;
    }
    return MT_OK;
}

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
        enum mt_status status = write_chunk(u, CHUNK_BYTES - u->stream.avail_out);
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
        return mt_fail(u->ctx, MT_ERR_FORMAT, "%s: an empty file is no gzip file", u->path);
    if (inflateInit2(&u->stream, GZIP_WINDOW) != Z_OK) {
        return mt_fail(u->ctx, MT_ERR_MEMORY, "%s: out of memory while unpacking", u->path);
    }
    enum mt_status status = inflate_all(u, packed);
    (void)inflateEnd(&u->stream);
    return status;
}

/* Unpacks into a file named `spool` (a mkstemp pattern), maps it and takes its name away. */
static enum mt_status unpack_and_map(struct mt_context *ctx, const char *path, char *spool, uint64_t most,
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
        u->spool = spool;
        u->most = most;
        u->descriptor = mkstemp(spool);
        if (u->descriptor < 0) {
            status = fail_spool(u, "create", errno);
        } else {
            status = unpack(u, &packed);
            if (status == MT_OK) status = mt_file_map(ctx, spool, mapping);
            (void)unlink(spool);
            (void)close(u->descriptor);
        }
    }
    mt_release(ctx, memory, sizeof(struct unpacking));
    mt_file_unmap(&packed);
    return status;
}

enum mt_status mt_dataset_map(struct mt_context *ctx, const char *path, bool packed,
                              const struct mt_dataset_options *options, struct mt_file_mapping *mapping)
{
    if (!packed) return mt_file_map(ctx, path, mapping);
    const char *folder = options->spool_folder != NULL ? options->spool_folder : getenv("TMPDIR");
    char *spool = NULL;
    enum mt_status status = mt_path_join(ctx, folder != NULL ? folder : "/tmp", "metier-rows-XXXXXX", &spool);
    if (status == MT_OK) status = unpack_and_map(ctx, path, spool, options->max_unpacked, mapping);
    mt_path_release(ctx, spool);
    return status;
}
