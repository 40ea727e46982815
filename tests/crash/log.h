/*
 * The log of what a program did to the files below one folder: recorder.c writes it, history.c reads it.
 *
 * A log is a row of records. Each is a header, then the path, the other path and the data, as long as the
 * header says. Paths are relative to the folder. A file that has been opened is known by its inode number, so
 * that it stays itself when it is renamed; a number means the file that was created with it last.
 */
#ifndef CRASH_LOG_H
#define CRASH_LOG_H

#include <stdint.h>

enum crash_kind {
    CRASH_CREATE = 1, // path, inode: an empty file
    CRASH_MKDIR,      // path, inode
    CRASH_WRITE,      // inode, offset, data
    CRASH_TRUNCATE,   // inode, offset: its new size
    CRASH_RENAME,     // path -> other; what was there is replaced
    CRASH_EXCHANGE,   // path <-> other
    CRASH_UNLINK,     // path
    CRASH_RMDIR,      // path
    CRASH_SYNC,       // inode: of a file or a folder
    CRASH_SYNC_ALL,   //
    CRASH_MARK,       // a program has ended well: what it says it wrote has to be safe
    CRASH_UNKNOWN,    // path: a call that changes files in a way that is not modelled
    CRASH_KINDS
};

struct crash_header {
    uint32_t kind;
    uint32_t path_bytes; // without a NUL
    uint32_t other_bytes;
    uint32_t unused; // 0
    uint64_t inode;
    uint64_t offset;
    uint64_t data_bytes;
};

#endif
