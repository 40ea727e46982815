/* A directory of its own for a test, gone afterwards. */
#ifndef MT_TESTS_WORKPLACE_H
#define MT_TESTS_WORKPLACE_H

#include <stddef.h>

struct workplace {
    char directory[64];
};

/* cmocka setup and teardown: *state is the struct workplace. */
int workplace_open(void **state);
int workplace_close(void **state);

/* "DIRECTORY/NAME" in a buffer of the caller's; returns it. */
const char *workplace_path(const struct workplace *place, const char *name, char *path, size_t path_bytes);

/* Writes a file; returns 0 on success. */
int workplace_write(const struct workplace *place, const char *name, const void *data, size_t bytes);

/* Number of entries in the directory, hidden ones included. */
int workplace_entries(const struct workplace *place);

/* Removes a folder inside the directory and the files in it; one that is not there is fine. */
void workplace_remove_folder(const struct workplace *place, const char *name);

/* Removes every file in the directory. */
void workplace_clear(const struct workplace *place);

#endif
