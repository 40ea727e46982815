/* How much memory the machine has, and how much of it could be taken now. */
#ifndef MT_BASE_HOST_MEMORY_H
#define MT_BASE_HOST_MEMORY_H

#include <stddef.h>

/* In bytes: what new memory there is without swapping, and all of it. Zeros where the system does not say. */
void mt_host_memory(size_t *available, size_t *total);

#endif
