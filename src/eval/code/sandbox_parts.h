/* What the files of the sandbox share: launching, the system call filter, looking at memory. */
#ifndef MT_EVAL_SANDBOX_PARTS_H
#define MT_EVAL_SANDBOX_PARTS_H

#include <dirent.h>

#include "eval/code/sandbox.h"

#define MT_SANDBOX_NOBODY 65534 // the user a root's metier gives its programs, and who a program thinks it is

/* Fixed descriptors of the launched process, after standard input, output and error. */
enum mt_sandbox_channel {
    MT_CHANNEL_PROGRAM = 3, // its text
    MT_CHANNEL_FILTER,      // system calls
    MT_CHANNEL_STATUS,      // bubblewrap writes
    MT_CHANNEL_GATE,        // bubblewrap waits
    MT_CHANNEL_PROOF,       // the program's first and last line write
    MT_CHANNEL_TALK,        // to another program, where it has one
    MT_CHANNEL_END
};

/* Opens what is needed and starts bubblewrap, or the interpreter without it. The caller closes what is open.
 */
enum mt_status mt_sandbox_launch(struct mt_sandbox *sandbox, const char *program, size_t bytes);

/* Limits what process 1 of a sandbox and all after it may start. 0, or the error number. */
int mt_sandbox_limit_processes(pid_t first, int64_t processes);

/* Writes the system call filter, as bubblewrap wants it, into a file. 0, or the error number. */
int mt_sandbox_write_filter(int descriptor);

/* Writes all of it. 0, or the error number. */
int mt_sandbox_write_whole(int descriptor, const void *data, size_t bytes);

/* Reads the start of a file of the kernel's as text; "" when it is gone. */
void mt_sandbox_read_text(int folder, const char *path, char *text, size_t bytes);

/* A folder of the kernel's to list; NULL: gone. The caller closes. */
DIR *mt_sandbox_open_listing(int folder, const char *path);

/* What a look at a sandbox's processes shows. */
struct mt_sandbox_look {
    uint64_t memory; // bytes that they hold, each of its own
    bool unreadable; // one lives and shows no figures
};

/* At all processes of a sandbox, through its own /proc. */
struct mt_sandbox_look mt_sandbox_look_at(int processes);

/* Without a sandbox: at a process and all below it; `most` processes are looked at. */
struct mt_sandbox_look mt_sandbox_look_below(pid_t first, int64_t most);

/* Opens the views into a sandbox whose program has begun. 0, or the error number; the caller closes what is
 * open. */
int mt_sandbox_open_views(pid_t first, int views[MT_SANDBOX_VIEWS]);

/* Files in the program's /tmp and /dev/shm. */
uint64_t mt_sandbox_files_in(const int views[MT_SANDBOX_VIEWS]);

#endif
