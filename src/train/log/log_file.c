/* A file that grows record by record. */
#include "train/log/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"

#define BLOCK_BYTES 4096

/* How long what was opened is. */
static enum mt_status measure(struct mt_log_file *file)
{
    struct stat info;
    if (fstat(file->descriptor, &info) != 0) return mt_file_fail(file->ctx, file->path, "look at it", errno);
    file->bytes = (uint64_t)info.st_size;
    file->new = file->bytes == 0;
    return MT_OK;
}

enum mt_status mt_log_file_open(struct mt_context *ctx, const char *directory, const char *name, bool fresh,
                                bool *exists, struct mt_log_file *file)
{
    *file = (struct mt_log_file){.ctx = ctx, .descriptor = -1};
    enum mt_status status = mt_path_join(ctx, directory, name, &file->path);
    if (status == MT_OK)
        status = mt_file_open_growing(ctx, file->path, O_RDWR | (fresh ? O_EXCL : 0), &file->descriptor);
    if (status == MT_OK && file->descriptor >= 0) status = measure(file);
    if (exists != NULL) *exists = status == MT_OK && file->descriptor < 0;
    if (status != MT_OK || file->descriptor < 0) mt_log_file_close(file);
    return status;
}

enum mt_status mt_log_file_cut(struct mt_log_file *file, uint64_t bytes)
{
    if (bytes >= file->bytes) return MT_OK;
    if (ftruncate(file->descriptor, (off_t)bytes) != 0)
        return mt_file_fail(file->ctx, file->path, "shorten it", errno);
    file->bytes = bytes;
    return MT_OK;
}

enum mt_status mt_log_file_cut_line(struct mt_log_file *file)
{
    char block[BLOCK_BYTES];
    uint64_t end = file->bytes;
    while (end > 0) {
        size_t wanted = end < sizeof block ? (size_t)end : sizeof block;
        ssize_t count = pread(file->descriptor, block, wanted, (off_t)(end - wanted));
        if (count < 0 && errno == EINTR) continue;
        if (count != (ssize_t)wanted)
            return mt_file_fail(file->ctx, file->path, "read it", count < 0 ? errno : EIO);
        for (size_t i = wanted; i > 0; i--) {
            if (block[i - 1] == '\n') return mt_log_file_cut(file, end - wanted + i);
        }
        end -= wanted;
    }
    return mt_log_file_cut(file, 0);
}

enum mt_status mt_log_file_read(const struct mt_log_file *file, uint64_t at, void *buffer, size_t bytes,
                                size_t *count)
{
    ssize_t got = -1;
    do got = pread(file->descriptor, buffer, bytes, (off_t)at);
    while (got < 0 && errno == EINTR);
    *count = got > 0 ? (size_t)got : 0;
    return got < 0 ? mt_file_fail(file->ctx, file->path, "read it", errno) : MT_OK;
}

enum mt_status mt_log_file_append(struct mt_log_file *file, const void *record, size_t bytes)
{
    const char *next = record;
    size_t left = bytes;
    while (left > 0) {
        ssize_t written = pwrite(file->descriptor, next, left, (off_t)(file->bytes + (bytes - left)));
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            enum mt_status status =
                mt_file_fail(file->ctx, file->path, "write a record", written < 0 ? errno : EIO);
            // Should this fail, too, the next record is written over the part that is there.
            if (ftruncate(file->descriptor, (off_t)file->bytes) != 0) return status;
            return status;
        }
        next += written;
        left -= (size_t)written;
    }
    file->bytes += bytes;
    return MT_OK;
}

enum mt_status mt_log_file_sync(struct mt_log_file *file)
{
    if (fsync(file->descriptor) != 0) return mt_file_fail(file->ctx, file->path, "bring it to disk", errno);
    if (!file->new) return MT_OK;
    file->new = false;
    return mt_file_sync_name(file->ctx, file->path);
}

void mt_log_file_close(struct mt_log_file *file)
{
    if (file->ctx == NULL) return;
    if (file->descriptor >= 0) (void)close(file->descriptor);
    mt_path_release(file->ctx, file->path);
    *file = (struct mt_log_file){.descriptor = -1};
}
