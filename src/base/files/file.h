/*
 * Files. Writing is atomic: the data goes to a temporary file beside the target, reaches the disk, and
 * takes the target's name in one step; a reader sees the old file or the new one, never a part.
 * Reading refuses what is not a regular file. Every message names the path.
 */
#ifndef MT_BASE_FILE_H
#define MT_BASE_FILE_H

#include <stddef.h>

#include "base/files/digest.h"
#include "metier/context.h"

struct mt_file_writer {
    struct mt_context *ctx; // borrowed; NULL: not open
    char *path;             // owned; the target
    char *temporary;        // owned; "PATH.tmp.PID.N", what is being written
    int descriptor;
    struct mt_digest *digest; // borrowed; what is written is added to it. NULL after opening: none
};

/*
 * Opens a caller-owned writer. An existing target must be a regular file (a symbolic link is replaced,
 * not followed); its directory must exist. End with commit or abandon.
 */
enum mt_status mt_file_writer_open(struct mt_context *ctx, const char *path, struct mt_file_writer *writer);

/* Appends bytes. After a failure the temporary file is gone and the writer closed. */
enum mt_status mt_file_writer_write(struct mt_file_writer *writer, const void *data, size_t bytes);

/* Puts the file in place, safe on disk. Whatever the outcome, the writer is closed afterwards. */
enum mt_status mt_file_writer_commit(struct mt_file_writer *writer);

/* Removes the temporary file; a closed or zeroed writer is allowed. */
void mt_file_writer_abandon(struct mt_file_writer *writer);

/* Brings the names in a folder to disk: those that came, went and changed. */
enum mt_status mt_file_sync_folder(struct mt_context *ctx, const char *folder);

/* Brings the name of a file or a folder to disk, by what it is in; what it holds is another matter. */
enum mt_status mt_file_sync_name(struct mt_context *ctx, const char *path);

/* Fails because the system did: "PATH: cannot DO: REASON", the reason of an errno. */
enum mt_status mt_file_fail(struct mt_context *ctx, const char *path, const char *doing, int error);

/* Writes a whole file, atomically. */
enum mt_status mt_file_write_all(struct mt_context *ctx, const char *path, const void *data, size_t bytes);

/*
 * Opens a file that grows in place, such as a log; made where there is none. `flags` are open(2)'s: the
 * access, and O_APPEND or O_EXCL (a file that is there is then no failure: *descriptor is -1). Refused is
 * what would be written to somewhere else: a symbolic link, a file that has a second name, and whatever is no
 * regular file. The caller closes.
 */
enum mt_status mt_file_open_growing(struct mt_context *ctx, const char *path, int flags, int *descriptor);

/*
 * Reads a whole regular file of at most max_bytes; refuses one whose size changes meanwhile. The caller
 * frees *data with mt_release and *bytes.
 */
enum mt_status mt_file_read_all(struct mt_context *ctx, const char *path, size_t max_bytes, void **data,
                                size_t *bytes);

/*
 * Adds a whole regular file to a digest, reading it piece by piece: unlike a mapping, a disk that cannot be
 * read is a failure here and not a signal.
 */
enum mt_status mt_file_digest(struct mt_context *ctx, const char *path, struct mt_digest *digest);

/* A file in memory, read-only. Whoever shortens the file meanwhile makes access to the lost part fatal. */
struct mt_file_mapping {
    const void *data; // NULL for an empty file
    size_t bytes;
};

enum mt_file_access {
    MT_FILE_USUAL,      // as if nothing had been said
    MT_FILE_SEQUENTIAL, // read once, front to back: read ahead
    MT_FILE_RANDOM,     // here and there: do not read ahead
    MT_FILE_SOON,       // all of it: start reading now
};

/* Maps a regular file; the caller unmaps. */
enum mt_status mt_file_map(struct mt_context *ctx, const char *path, struct mt_file_mapping *mapping);

/* Tells the system how the mapping will be read. Advice: without effect where not supported. */
void mt_file_advise(const struct mt_file_mapping *mapping, enum mt_file_access access);

/*
 * Memory of a part of the mapping that was read and is not needed for now goes back to the system; reading it
 * again is allowed. What does not lie in the mapping is left alone. Advice, likewise.
 */
void mt_file_forget(const struct mt_file_mapping *mapping, const void *data, size_t bytes);

/* Unmaps and clears the struct; a zeroed mapping is allowed. */
void mt_file_unmap(struct mt_file_mapping *mapping);

/*
 * "directory/name", without doubling a slash; an absolute name, or any name in the directory "", stays
 * as it is. The caller frees with mt_path_release.
 */
enum mt_status mt_path_join(struct mt_context *ctx, const char *directory, const char *name, char **path);

/* Frees a path made here; NULL is allowed. */
void mt_path_release(struct mt_context *ctx, char *path);

#endif
