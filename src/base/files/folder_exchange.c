/* renameat2, which only Linux has and only GNU's headers show; and plain renames for other file systems. */
#define _GNU_SOURCE
#include "base/files/folder_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define PATH_BYTES 4096

int mt_folder_exchange_by_turns(const char *one, const char *other)
{
    char aside[PATH_BYTES];
    int length = snprintf(aside, sizeof aside, "%s.aside", one);
    if (length < 0 || (size_t)length >= sizeof aside) return ENAMETOOLONG;
    if (rename(other, aside) != 0) return errno;
    if (rename(one, other) != 0) {
        int error = errno;
        (void)rename(aside, other);
        return error;
    }
    return rename(aside, one) == 0 ? 0 : errno;
}

int mt_folder_exchange(const char *one, const char *other)
{
    int error = ENOSYS;
#ifdef RENAME_EXCHANGE
    error = renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#endif
    return error == EINVAL || error == ENOSYS ? mt_folder_exchange_by_turns(one, other) : error;
}
