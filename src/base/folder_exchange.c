/* renameat2, which only Linux has and only GNU's headers show. */
#define _GNU_SOURCE
#include "base/folder_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int mt_folder_exchange(const char *one, const char *other)
{
#ifdef RENAME_EXCHANGE
    return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0 ? 0 : errno;
#else
    (void)one;
    (void)other;
    return ENOSYS;
#endif
}
