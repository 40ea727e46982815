/* Temporary files for text that has to be mapped. */
#include "formats/data/spool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum mt_status fail_spool(const struct mt_spool *spool, const char *doing, int error)
{
    char reason[128];
    if (strerror_r(error, reason, sizeof reason) != 0) (void)snprintf(reason, sizeof reason, "%d", error);
    return mt_fail(spool->ctx, MT_ERR_IO, "%s: cannot %s %s, where it is to be unpacked: %s", spool->path,
                   doing, spool->name, reason);
}

enum mt_status mt_spool_open(struct mt_context *ctx, const char *path, const char *folder, uint64_t most,
                             struct mt_spool *spool)
{
    *spool = (struct mt_spool){.ctx = ctx, .path = path, .descriptor = -1, .most = most};
    if (folder == NULL) folder = getenv("TMPDIR");
    enum mt_status status =
        mt_path_join(ctx, folder != NULL ? folder : "/tmp", "metier-rows-XXXXXX", &spool->name);
    if (status != MT_OK) return status;
    spool->descriptor = mkstemp(spool->name);
    return spool->descriptor < 0 ? fail_spool(spool, "create", errno) : MT_OK;
}

enum mt_status mt_spool_write(struct mt_spool *spool, const void *data, uint64_t bytes)
{
    const unsigned char *next = data;
    spool->written += bytes;
    if (spool->written > spool->most) {
        return mt_fail(spool->ctx, MT_ERR_FORMAT, "%s: unpacks to more than %llu bytes, the limit",
                       spool->path, (unsigned long long)spool->most);
    }
    while (bytes > 0) {
        ssize_t written = write(spool->descriptor, next, bytes);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return fail_spool(spool, "write", written < 0 ? errno : EIO);
        next += written;
        bytes -= (uint64_t)written;
    }
    return MT_OK;
}

enum mt_status mt_spool_map(struct mt_spool *spool, struct mt_file_mapping *mapping)
{
    return mt_file_map(spool->ctx, spool->name, mapping);
}

void mt_spool_close(struct mt_spool *spool)
{
    if (spool->descriptor >= 0) {
        (void)unlink(spool->name);
        (void)close(spool->descriptor);
    }
    mt_path_release(spool->ctx, spool->name);
    *spool = (struct mt_spool){.descriptor = -1};
}
