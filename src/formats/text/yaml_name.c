/* Names of YAML files in a folder. */
#include "formats/text/yaml_name.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/nearest.h"
#include "formats/text/printable.h"

#define NEAR 5

const char *mt_yaml_name(const char *path, size_t *length)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    *length = strlen(name);
    if (*length > 5 && strcmp(name + *length - 5, ".yaml") == 0) *length -= 5;
    return name;
}

bool mt_yaml_is_path(const char *name)
{
    size_t length = 0;
    return mt_yaml_name(name, &length) != name || length < strlen(name);
}

bool mt_yaml_find(const char *folder, const char *name, char path[MT_YAML_PATH_BYTES])
{
    int written = mt_yaml_is_path(name) ? snprintf(path, MT_YAML_PATH_BYTES, "%s", name)
                                        : snprintf(path, MT_YAML_PATH_BYTES, "%s/%s.yaml", folder, name);
    return written > 0 && written < MT_YAML_PATH_BYTES && access(path, R_OK) == 0;
}

enum mt_status mt_yaml_refuse(struct mt_context *ctx, const char *what, const char *folder, const char *name)
{
    char best[256] = "";
    int distance = NEAR;
    DIR *directory = opendir(folder);
    for (struct dirent *entry = directory != NULL ? readdir(directory) : NULL; entry != NULL;
         entry = readdir(directory)) {
        char candidate[256];
        size_t length = 0;
        (void)mt_yaml_name(entry->d_name, &length);
        if (entry->d_name[length] == '\0' || length >= sizeof candidate) continue; // another kind of file
        (void)snprintf(candidate, sizeof candidate, "%.*s", (int)length, entry->d_name);
        if (mt_nearer(name, candidate, &distance)) memcpy(best, candidate, sizeof best);
    }
    if (directory != NULL) (void)closedir(directory);
    return mt_fail(ctx, MT_ERR_USAGE, "there is no %s '%s' in %s%s%s%s", what, mt_printable(name).text,
                   folder, best[0] != '\0' ? ", did you mean '" : "", best, best[0] != '\0' ? "'?" : "");
}
