/* Linux says it in /proc/meminfo, in kB: "MemAvailable:   20312112 kB". */
#include "base/host_memory.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

void mt_host_memory(size_t *available, size_t *total)
{
    char line[256];
    uint64_t kilobytes = 0;
    *available = 0;
    *total = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemTotal: %" SCNu64, &kilobytes) == 1) *total = (size_t)kilobytes * 1024;
        if (sscanf(line, "MemAvailable: %" SCNu64, &kilobytes) == 1) *available = (size_t)kilobytes * 1024;
    }
    (void)fclose(file);
}
