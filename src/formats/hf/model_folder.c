/* Folders that come from elsewhere. */
#include "formats/hf/model_folder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"

#define MOST_NAME 96 // characters of an organisation or a name, as the hub has it

/* What cannot be looked at for another reason is for whoever opens it to refuse. */
static bool exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* Characters of a name of the hub at the start of a text; 0: none, or too many. */
static size_t name_length(const char *text)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.");
    return length <= MOST_NAME && text[0] != '.' && text[0] != '-' ? length : 0;
}

/* Names of folders that people keep models and runs in: nobody's on the hub. */
static bool is_own_folder(const char *name)
{
    static const char *const usual[] = {"models", "runs", "adapters", "checkpoints", "data"};
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (strcmp(name, usual[i]) == 0) return true;
    }
    return exists(name);
}

/* "org/name", the address of its page, or hf://org/name. */
static bool is_hub_name(const char *path, char organisation[MOST_NAME + 1], const char **name, size_t *bytes)
{
    static const char *const prefixes[] = {"https://huggingface.co/", "http://huggingface.co/",
                                           "huggingface.co/",         "hf.co/",
                                           "https://hf.co/",          "hf://"};
    bool address = false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0] && !address; i++) {
        size_t length = strlen(prefixes[i]);
        address = strncmp(path, prefixes[i], length) == 0;
        if (address) path += length;
    }
    size_t length = name_length(path);
    if (length == 0 || path[length] != '/') return false;
    (void)snprintf(organisation, MOST_NAME + 1, "%.*s", (int)length, path);
    *name = path + length + 1;
    *bytes = name_length(*name);
    const char *rest = *name + *bytes;
    if (*bytes == 0 || (rest[0] != '\0' && strcmp(rest, "/") != 0 && !address)) return false;
    return address || !is_own_folder(organisation);
}

enum mt_status mt_model_folder_check(struct mt_context *ctx, const char *path)
{
    char organisation[MOST_NAME + 1];
    const char *name = NULL;
    size_t bytes = 0;
    if (exists(path)) return MT_OK;
    if (!is_hub_name(path, organisation, &name, &bytes))
        return mt_fail(
            ctx, MT_ERR_IO,
            "%s: cannot open: there is no such file or folder, and metier downloads nothing; a folder "
            "of the Hugging Face hub comes with: hf download ORG/NAME --local-dir %s (or git clone, "
            "with git-lfs)",
            path, path);
    return mt_fail(ctx, MT_ERR_USAGE,
                   "%s: there is no such folder, and metier downloads nothing; to fetch it from the Hugging "
                   "Face hub: hf download %s/%.*s --local-dir models/%.*s (or git clone, with git-lfs), "
                   "then give models/%.*s",
                   path, organisation, (int)bytes, name, (int)bytes, name, (int)bytes, name);
}

enum mt_status mt_model_folder_file(struct mt_context *ctx, const char *folder, const char *name, char **path)
{
    *path = NULL;
    enum mt_status status = mt_model_folder_check(ctx, folder);
    return status == MT_OK ? mt_path_join(ctx, folder, name, path) : status;
}
