/*
 * A sandbox seen from outside: its processes' memory, its files, and files of the kernel's. RLIMIT_AS bounds
 * each process, this the sum.
 */
#ifndef MT_EVAL_SANDBOX_WATCH_H
#define MT_EVAL_SANDBOX_WATCH_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MT_SANDBOX_NOBODY 65534 // the user a root's metier gives its programs, and who a program thinks it is

/* Folders of a sandbox that are looked at while it runs. */
enum mt_sandbox_view {
    MT_SANDBOX_VIEW_PROCESSES, // its /proc
    MT_SANDBOX_VIEW_TMP,
    MT_SANDBOX_VIEW_SHM,
    MT_SANDBOX_VIEWS
};

/* Reads the start of a file of the kernel's as text. 0, or the error number, and then "". */
int mt_sandbox_read_text(int folder, const char *path, char *text, size_t bytes);

/* A folder of the kernel's to list; NULL with errno. The caller closes. */
DIR *mt_sandbox_open_listing(int folder, const char *path);

/* What a look at a sandbox's processes shows. */
struct mt_sandbox_look {
    uint64_t memory; // bytes that they hold, each of its own
    int error; // why some of it could not be seen; 0: everything was; ENODATA: one lives and shows no figures
};

/* At all processes of a sandbox, through its own /proc. */
struct mt_sandbox_look mt_sandbox_look_at(int processes);

/* Without a sandbox: at a process and all below it; `most` processes are looked at. */
struct mt_sandbox_look mt_sandbox_look_below(pid_t first, int64_t most);

/* Opens the views into a sandbox whose interpreter runs. 0, or the error number; the caller closes what is
 * open. */
int mt_sandbox_open_views(pid_t first, int views[MT_SANDBOX_VIEWS]);

/* Files in the program's /tmp and /dev/shm. */
uint64_t mt_sandbox_files_in(const int views[MT_SANDBOX_VIEWS]);

#endif
