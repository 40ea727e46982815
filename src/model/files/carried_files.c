/* Carrying files over, and the one change made in any of them: the config's dtype. */
#include "model/files/carried_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "formats/text/json_text.h"
#include "formats/text/printable.h"

#define MOST_BYTES  ((size_t)64 * 1024 * 1024)
#define CONFIG_NAME "config.json"

static bool ends_with(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t ending_length = strlen(ending);
    return length >= ending_length && strcmp(text + length - ending_length, ending) == 0;
}

static bool is_carried(const char *name)
{
    static const char *const weights[] = {
        ".safetensors", ".safetensors.index.json",
        ".bin",         ".bin.index.json",
        ".pt",          ".pth",
        ".ckpt",        ".gguf",
        ".msgpack",     ".h5",
        ".onnx",        ".npz",
    };
    if (name[0] == '.') return false;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        if (ends_with(name, weights[i])) return false;
    }
    return true;
}

// ------------------------------------------------------------------ the dtype of a config

static const char *dtype_word(enum mt_hf_float dtype)
{
    return dtype == MT_HF_BFLOAT16 ? "bfloat16" : dtype == MT_HF_FLOAT16 ? "float16" : "float32";
}

/* The end of the string that begins at the quote text[at]: the place of its other quote. */
static size_t string_end(const char *text, size_t bytes, size_t at)
{
    size_t i = at + 1;
    while (i < bytes && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    return i < bytes ? i : bytes;
}

static size_t skip_space(const char *text, size_t bytes, size_t at)
{
    while (at < bytes && strchr(" \t\r\n", text[at]) != NULL) at++;
    return at;
}

/* Where the value of the outermost "torch_dtype" or "dtype" lies: quotes included, or null. The text is JSON.
 */
static bool find_dtype(const char *text, size_t bytes, size_t *first, size_t *end)
{
    static const char *const keys[] = {"\"torch_dtype\"", "\"dtype\""};
    int depth = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '{' || text[i] == '[') depth++;
        if (text[i] == '}' || text[i] == ']') depth--;
        if (text[i] != '"') continue;
        size_t last = string_end(text, bytes, i);
        size_t colon = skip_space(text, bytes, last + 1);
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
            size_t length = strlen(keys[k]);
            if (depth != 1 || colon >= bytes || text[colon] != ':' || last + 1 - i != length) continue;
            if (memcmp(text + i, keys[k], length) != 0) continue;
            *first = skip_space(text, bytes, colon + 1);
            *end = *first < bytes && text[*first] == '"' ? string_end(text, bytes, *first) + 1 : *first + 4;
            return *end <= bytes;
        }
        i = last;
    }
    return false;
}

static enum mt_status append(struct mt_json_text *out, const char *text, size_t bytes)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < bytes && status == MT_OK; i += 128) {
        int piece = bytes - i < 128 ? (int)(bytes - i) : 128;
        status = mt_json_text_format(out, "%.*s", piece, text + i);
    }
    return status;
}

static enum mt_status write_config(struct mt_context *ctx, const char *path, const char *text, size_t bytes,
                                   enum mt_hf_float dtype)
{
    struct mt_json_text out;
    size_t first = 0;
    size_t end = 0;
    mt_json_text_init(&out, ctx);
    bool found = find_dtype(text, bytes, &first, &end);
    if (!found) { // right after the brace that opens the object
        while (first < bytes && text[first] != '{') first++;
        first = first < bytes ? first + 1 : bytes;
        end = first;
    }
    enum mt_status status = append(&out, text, first);
    if (status == MT_OK) {
        status = mt_json_text_format(&out, found ? "\"%s\"" : "\n  \"dtype\": \"%s\",", dtype_word(dtype));
    }
    if (status == MT_OK) status = append(&out, text + end, bytes - end);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, out.bytes, out.length);
    mt_json_text_free(&out);
    return status;
}

// ------------------------------------------------------------------ the folder

static enum mt_status copy_file(struct mt_context *ctx, const char *source, const char *target,
                                enum mt_hf_float dtype, size_t *count)
{
    struct stat info;
    void *text = NULL;
    size_t bytes = 0;
    if (stat(source, &info) != 0)
        return mt_fail(ctx, MT_ERR_IO, "%s: cannot be read: %s", source, strerror(errno));
    if (!S_ISREG(info.st_mode) || info.st_size > (off_t)MOST_BYTES) return MT_OK;
    enum mt_status status = mt_file_read_all(ctx, source, MOST_BYTES, &text, &bytes);
    if (status != MT_OK) return status;
    bool config = dtype != MT_HF_FLOAT_UNKNOWN && ends_with(source, "/" CONFIG_NAME);
    status =
        config ? write_config(ctx, target, text, bytes, dtype) : mt_file_write_all(ctx, target, text, bytes);
    mt_release(ctx, text, bytes);
    *count += 1;
    return status;
}

static enum mt_status copy_entry(struct mt_context *ctx, const char *from, const char *to, const char *name,
                                 enum mt_hf_float dtype, size_t *count)
{
    char *source = NULL;
    char *target = NULL;
    enum mt_status status = mt_path_join(ctx, from, name, &source);
    if (status == MT_OK) status = mt_path_join(ctx, to, name, &target);
    if (status == MT_OK) status = copy_file(ctx, source, target, dtype, count);
    mt_path_release(ctx, source);
    mt_path_release(ctx, target);
    return status;
}

static enum mt_status copy_folder(struct mt_context *ctx, const char *from, const char *to,
                                  enum mt_hf_float dtype, size_t *count)
{
    enum mt_status status = MT_OK;
    DIR *directory = opendir(from);
    if (directory == NULL) return mt_fail(ctx, MT_ERR_IO, "%s: cannot be read: %s", from, strerror(errno));
    for (const struct dirent *entry = readdir(directory); entry != NULL && status == MT_OK;
         entry = readdir(directory)) {
        if (is_carried(entry->d_name)) status = copy_entry(ctx, from, to, entry->d_name, dtype, count);
    }
    (void)closedir(directory);
    return status;
}

/* The one folder within a model's folder that transformers reads: templates for tools, for retrieval, ... */
static enum mt_status copy_templates(struct mt_context *ctx, const char *from, const char *to, size_t *count)
{
    struct stat info;
    char *source = NULL;
    char *target = NULL;
    enum mt_status status = mt_path_join(ctx, from, MT_MORE_TEMPLATES_FOLDER, &source);
    if (status == MT_OK && stat(source, &info) == 0 && S_ISDIR(info.st_mode)) {
        status = mt_path_join(ctx, to, MT_MORE_TEMPLATES_FOLDER, &target);
        if (status == MT_OK) status = mt_folder_make(ctx, target);
        if (status == MT_OK) status = copy_folder(ctx, source, target, MT_HF_FLOAT_UNKNOWN, count);
    }
    mt_path_release(ctx, source);
    mt_path_release(ctx, target);
    return status;
}

enum mt_status mt_model_carry_files(struct mt_context *ctx, const char *from, const char *to,
                                    enum mt_hf_float dtype, size_t *count)
{
    *count = 0;
    enum mt_status status = copy_folder(ctx, from, to, dtype, count);
    return status == MT_OK ? copy_templates(ctx, from, to, count) : status;
}

enum mt_status mt_model_carry_template(struct mt_context *ctx, const char *from, const char *to)
{
    struct stat info;
    char *source = NULL;
    size_t count = 0;
    enum mt_status status = mt_path_join(ctx, from, MT_CHAT_TEMPLATE_FILE, &source);
    if (status == MT_OK && stat(source, &info) == 0)
        status = copy_entry(ctx, from, to, MT_CHAT_TEMPLATE_FILE, MT_HF_FLOAT_UNKNOWN, &count);
    mt_path_release(ctx, source);
    return status;
}

enum mt_status mt_model_write_template(struct mt_context *ctx, const char *directory, const char *text)
{
    char *path = NULL;
    if (text == NULL) return MT_OK;
    enum mt_status status = mt_path_join(ctx, directory, MT_CHAT_TEMPLATE_FILE, &path);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, text, strlen(text));
    mt_path_release(ctx, path);
    return status;
}
