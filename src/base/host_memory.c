/* Linux says it in /proc/meminfo, in kB: "MemAvailable:   20312112 kB". */
#include "base/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The bytes a line gives for a name; what it was where the line is another's. */
static size_t bytes_of(const char *line, const char *name, size_t before)
{
    size_t length = strlen(name);
    return strncmp(line, name, length) == 0 ? (size_t)strtoull(line + length, NULL, 10) * 1024 : before;
}

void mt_host_memory(size_t *available, size_t *total)
{
    char line[256];
    *available = 0;
    *total = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        *total = bytes_of(line, "MemTotal:", *total);
        *available = bytes_of(line, "MemAvailable:", *available);
    }
    (void)fclose(file);
}
