/* Files of JSON lines: reading, going on, appending. */
#include "eval/run/line_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files/file.h"

#define MOST_BYTES   ((size_t)8 << 30)
#define SYNC_LINES   64
#define SYNC_SECONDS 5.0

static enum mt_status read_line(struct mt_context *ctx, const char *where, const char *text, size_t bytes,
                                mt_line_fn each, void *self)
{
    const struct mt_json_limits limits = {
        .max_bytes = (size_t)256 << 20, .max_values = 1000000, .max_depth = 16};
    struct mt_json json = {0};
    enum mt_status status = mt_json_parse(ctx, where, text, bytes, &limits, &json);
    if (status != MT_OK) return status;
    struct mt_json_node root = mt_json_root(&json);
    status = mt_json_expect_object(&root);
    if (status == MT_OK && each != NULL) status = each(self, &root);
    mt_json_free(&json);
    return status;
}

bool mt_lines_next(struct mt_text text, size_t *at, struct mt_text *line)
{
    size_t end = *at < text.bytes ? mt_text_find(text, *at, "\n") : text.bytes;
    if (end == text.bytes) return false;
    *line = (struct mt_text){.text = text.text + *at, .bytes = end + 1 - *at};
    // After a power failure, bytes that never arrived read as zeros.
    if (memchr(line->text, '\0', line->bytes) != NULL) return false;
    *at = end + 1;
    return true;
}

enum mt_status mt_lines_read(struct mt_context *ctx, const char *path, mt_line_fn each, void *self,
                             size_t *kept)
{
    void *data = NULL;
    size_t bytes = 0;
    size_t number = 1;
    size_t at = 0;
    struct mt_text line;
    enum mt_status status = mt_file_read_all(ctx, path, MOST_BYTES, &data, &bytes);
    const struct mt_text text = {.text = data, .bytes = bytes};
    while (status == MT_OK && mt_lines_next(text, &at, &line)) {
        char where[512];
        (void)snprintf(where, sizeof where, "%.480s:%zu", path, number++);
        status = read_line(ctx, where, line.text, line.bytes - 1, each, self);
    }
    mt_release(ctx, data, bytes);
    if (kept != NULL) *kept = at;
    return status;
}

static enum mt_status fail_io(struct mt_line_file *file, const char *what)
{
    return mt_fail(file->ctx, MT_ERR_IO, "%s: cannot %s: %s", file->path, what, strerror(errno));
}

enum mt_status mt_line_file_open(struct mt_context *ctx, const char *path, mt_line_fn each, void *self,
                                 struct mt_line_file *file)
{
    size_t kept = 0;
    *file = (struct mt_line_file){.ctx = ctx, .descriptor = -1, .synced = mt_clock_seconds()};
    enum mt_status status = mt_path_join(ctx, "", path, &file->path);
    if (status == MT_OK) status = mt_file_open_growing(ctx, path, O_WRONLY | O_APPEND, &file->descriptor);
    if (status == MT_OK) status = mt_lines_read(ctx, path, each, self, &kept);
    if (status == MT_OK && ftruncate(file->descriptor, (off_t)kept) != 0)
        status = fail_io(file, "cut a torn line off");
    if (status == MT_OK && kept == 0) status = mt_file_sync_name(ctx, path); // it may be new
    if (status != MT_OK) (void)mt_line_file_close(file);
    return status;
}

static enum mt_status sync_now(struct mt_line_file *file)
{
    if (file->unsynced == 0) return MT_OK;
    file->unsynced = 0;
    file->synced = mt_clock_seconds();
    return fsync(file->descriptor) == 0 ? MT_OK : fail_io(file, "bring it to the disk");
}

enum mt_status mt_line_file_append(struct mt_line_file *file, const struct mt_byte_list *line)
{
    size_t done = 0;
    while (done < line->count) {
        ssize_t wrote = write(file->descriptor, line->data + done, line->count - done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0) return fail_io(file, "write to it");
        done += (size_t)wrote;
    }
    file->unsynced++;
    bool due = file->unsynced >= SYNC_LINES || mt_clock_seconds() - file->synced > SYNC_SECONDS;
    return due ? sync_now(file) : MT_OK;
}

enum mt_status mt_line_file_close(struct mt_line_file *file)
{
    if (file->ctx == NULL) return MT_OK;
    enum mt_status status = file->descriptor >= 0 ? sync_now(file) : MT_OK;
    if (file->descriptor >= 0 && close(file->descriptor) != 0 && status == MT_OK)
        status = fail_io(file, "close it");
    mt_path_release(file->ctx, file->path);
    *file = (struct mt_line_file){.descriptor = -1};
    return status;
}
