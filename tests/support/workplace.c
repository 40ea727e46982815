/* A directory of its own for a test. */
#define _XOPEN_SOURCE 700 // mkdtemp

#include "support/workplace.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int workplace_open(void **state)
{
    struct workplace *place = calloc(1, sizeof *place);
    if (place == NULL) return -1;
    (void)snprintf(place->directory, sizeof place->directory, "/tmp/metier-test-XXXXXX");
    if (mkdtemp(place->directory) == NULL) {
        free(place);
        return -1;
    }
    *state = place;
    return 0;
}

static int walk(const char *directory, bool remove)
{
    int count = 0;
    DIR *listing = opendir(directory);
    if (listing == NULL) return -1;
    for (struct dirent *entry = readdir(listing); entry != NULL; entry = readdir(listing)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        char path[512];
        (void)snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (remove) (void)unlink(path);
        count++;
    }
    (void)closedir(listing);
    return count;
}

int workplace_close(void **state)
{
    struct workplace *place = *state;
    workplace_clear(place);
    int status = rmdir(place->directory);
    free(place);
    return status;
}

const char *workplace_path(const struct workplace *place, const char *name, char *path, size_t path_bytes)
{
    (void)snprintf(path, path_bytes, "%s/%s", place->directory, name);
    return path;
}

int workplace_write(const struct workplace *place, const char *name, const void *data, size_t bytes)
{
    char path[256];
    FILE *file = fopen(workplace_path(place, name, path, sizeof path), "wb");
    if (file == NULL) return -1;
    size_t written = fwrite(data, 1, bytes, file);
    return fclose(file) == 0 && written == bytes ? 0 : -1;
}

int workplace_entries(const struct workplace *place)
{
    return walk(place->directory, false);
}

void workplace_remove_folder(const struct workplace *place, const char *name)
{
    char path[256];
    (void)workplace_path(place, name, path, sizeof path);
    (void)walk(path, true);
    (void)rmdir(path);
}

void workplace_clear(const struct workplace *place)
{
    (void)walk(place->directory, true);
}
