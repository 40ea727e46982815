/* Carrying files over, and what changes in one of them: the config's dtype and quantization_config. */
#include "model/files/carried_files.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compare.h"
#include "base/files/file.h"
#include "base/files/folder.h"
#include "formats/text/json_text.h"
#include "formats/text/printable.h"
#include "text/text_form.h"

#define MOST_BYTES  ((size_t)64 * 1024 * 1024)
#define CONFIG_NAME "config.json"

static const struct mt_config_change nothing = {0};

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
        if (mt_ends_with(name, weights[i])) return false;
    }
    return true;
}

// ------------------------------------------------------------------ what changes in a config

static const char *dtype_word(enum mt_hf_float dtype)
{
    return dtype == MT_HF_BFLOAT16 ? "\"bfloat16\"" : dtype == MT_HF_FLOAT16 ? "\"float16\"" : "\"float32\"";
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

/* The end of the value that begins at `at`: a string, a word or number, an object or array. The text is JSON.
 */
static size_t value_end(const char *text, size_t bytes, size_t at)
{
    int depth = 0;
    for (size_t i = at; i < bytes; i++) {
        if (text[i] == '"') {
            i = string_end(text, bytes, i);
            if (depth == 0) return i < bytes ? i + 1 : bytes;
            continue;
        }
        if (text[i] == '{' || text[i] == '[') depth++;
        bool closes = text[i] == '}' || text[i] == ']';
        if (depth == 0 && (closes || strchr(", \t\r\n", text[i]) != NULL)) return i;
        if (closes && --depth == 0) return i + 1;
    }
    return bytes;
}

/* A key of the outermost object: from its quote to the end of its value, and where the value begins. */
struct member {
    size_t first, value, end;
};

static bool find_member(const char *text, size_t bytes, const char *key, struct member *member)
{
    size_t length = strlen(key);
    int depth = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '{' || text[i] == '[') depth++;
        if (text[i] == '}' || text[i] == ']') depth--;
        if (text[i] != '"') continue;
        size_t last = string_end(text, bytes, i);
        size_t colon = skip_space(text, bytes, last + 1);
        bool is_key = depth == 1 && colon < bytes && text[colon] == ':';
        if (is_key && last - i - 1 == length && memcmp(text + i + 1, key, length) == 0) {
            size_t value = skip_space(text, bytes, colon + 1);
            *member = (struct member){.first = i, .value = value, .end = value_end(text, bytes, value)};
            return member->end <= bytes;
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

/* The text with another value of a key, which is a new one right after the opening brace where there was
 * none. */
static enum mt_status replace(const char *text, size_t bytes, const char *key, const char *value,
                              struct mt_json_text *out)
{
    struct member member = {0};
    bool found = find_member(text, bytes, key, &member);
    size_t first = member.value;
    size_t end = member.end;
    if (!found) {
        first = 0;
        while (first < bytes && text[first] != '{') first++;
        first = first < bytes ? first + 1 : bytes;
        end = first;
    }
    enum mt_status status = append(out, text, first);
    if (status == MT_OK && !found) status = mt_json_text_format(out, "\n  \"%s\": ", key);
    if (status == MT_OK) status = append(out, value, strlen(value));
    if (status == MT_OK && !found) status = mt_json_text_format(out, ",");
    return status == MT_OK ? append(out, text + end, bytes - end) : status;
}

/* The text without a key. */
static enum mt_status drop(const char *text, size_t bytes, const char *key, struct mt_json_text *out)
{
    struct member member;
    if (!find_member(text, bytes, key, &member)) return append(out, text, bytes);
    size_t first = member.first;
    size_t end = skip_space(text, bytes, member.end);
    if (end < bytes && text[end] == ',') {
        end = skip_space(text, bytes, end + 1);
    } else { // the last one: the comma before it goes
        while (first > 0 && strchr(" \t\r\n", text[first - 1]) != NULL) first--;
        if (first > 0 && text[first - 1] == ',') first--;
        end = member.end;
    }
    enum mt_status status = append(out, text, first);
    return status == MT_OK ? append(out, text + end, bytes - end) : status;
}

#define QUANTISATION_KEY "quantization_config"

/* Refuses to renumber experts that quantization_config names: another would be meant by the name. */
static enum mt_status check_renumbered(struct mt_context *ctx, const char *text, size_t bytes,
                                       const char *experts)
{
    struct member member;
    size_t length = experts != NULL ? strlen(experts) : 0;
    if (experts == NULL || !find_member(text, bytes, QUANTISATION_KEY, &member)) return MT_OK;
    for (size_t i = member.value; i + length + 1 < member.end; i++) {
        bool named = memcmp(text + i, experts, length) == 0 && text[i + length] == '.';
        if (!named || text[i + length + 1] < '0' || text[i + length + 1] > '9') continue;
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       CONFIG_NAME ": " QUANTISATION_KEY
                                   " names single experts (%s.%c...), whose numbers would "
                                   "change",
                       experts, text[i + length + 1]);
    }
    return MT_OK;
}

/* The text with other numbers: one replacement after the other. */
static enum mt_status replace_numbers(const struct mt_config_change *change, struct mt_json_text *text)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < change->number_count && status == MT_OK; i++) {
        const struct mt_config_number *number = &change->number[i];
        struct mt_json_text next;
        struct member member;
        char value[32];
        if (!number->new_key && !find_member(text->bytes, text->length, number->key, &member)) continue;
        (void)snprintf(value, sizeof value, "%lld", (long long)number->value);
        mt_json_text_init(&next, text->ctx);
        status = replace(text->bytes, text->length, number->key, value, &next);
        mt_json_text_free(text);
        *text = next;
    }
    return status;
}

enum mt_status mt_config_changed(struct mt_context *ctx, const char *text, size_t bytes,
                                 const struct mt_config_change *change, struct mt_json_text *out)
{
    static const char key[] = QUANTISATION_KEY;
    struct mt_json_text typed;
    struct member member;
    mt_json_text_init(&typed, ctx);
    bool old =
        !find_member(text, bytes, "dtype", &member) && find_member(text, bytes, "torch_dtype", &member);
    const char *dtype_key = old ? "torch_dtype" : "dtype"; // where a file has both, the new one is read
    enum mt_status status = change->dtype == MT_HF_FLOAT_UNKNOWN
                                ? append(&typed, text, bytes)
                                : replace(text, bytes, dtype_key, dtype_word(change->dtype), &typed);
    if (status == MT_OK && change->quantisation == NULL)
        status = check_renumbered(ctx, text, bytes, change->renumbered);
    if (status == MT_OK) status = replace_numbers(change, &typed);
    if (status == MT_OK && change->quantisation == NULL) {
        status = append(out, typed.bytes, typed.length);
    } else if (status == MT_OK && change->quantisation[0] == '\0') {
        status = drop(typed.bytes, typed.length, key, out);
    } else if (status == MT_OK) {
        status = replace(typed.bytes, typed.length, key, change->quantisation, out);
    }
    mt_json_text_free(&typed);
    return status;
}

static enum mt_status write_config(struct mt_context *ctx, const char *path, const char *text, size_t bytes,
                                   const struct mt_config_change *change)
{
    struct mt_json_text out;
    mt_json_text_init(&out, ctx);
    enum mt_status status = mt_config_changed(ctx, text, bytes, change, &out);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, out.bytes, out.length);
    mt_json_text_free(&out);
    return status;
}

// ------------------------------------------------------------------ the folder

static enum mt_status copy_file(struct mt_context *ctx, const char *source, const char *target,
                                const struct mt_config_change *change, size_t *count)
{
    struct stat info;
    void *text = NULL;
    size_t bytes = 0;
    if (stat(source, &info) != 0)
        return mt_fail(ctx, MT_ERR_IO, "%s: cannot be read: %s", source, strerror(errno));
    size_t most = mt_ends_with(source, "/" MT_ROWS_READ_FILE) ? MT_ROWS_READ_MOST_BYTES : MOST_BYTES;
    if (!S_ISREG(info.st_mode) || (uint64_t)info.st_size > most) return MT_OK;
    enum mt_status status = mt_file_read_all(ctx, source, most, &text, &bytes);
    if (status != MT_OK) return status;
    bool changes =
        change->dtype != MT_HF_FLOAT_UNKNOWN || change->quantisation != NULL || change->number_count > 0;
    status = changes && mt_ends_with(source, "/" CONFIG_NAME) ? write_config(ctx, target, text, bytes, change)
                                                              : mt_file_write_all(ctx, target, text, bytes);
    mt_release(ctx, text, bytes);
    *count += 1;
    return status;
}

static enum mt_status copy_entry(struct mt_context *ctx, const char *from, const char *to, const char *name,
                                 const struct mt_config_change *change, size_t *count)
{
    char *source = NULL;
    char *target = NULL;
    enum mt_status status = mt_path_join(ctx, from, name, &source);
    if (status == MT_OK) status = mt_path_join(ctx, to, name, &target);
    if (status == MT_OK) status = copy_file(ctx, source, target, change, count);
    mt_path_release(ctx, source);
    mt_path_release(ctx, target);
    return status;
}

static enum mt_status copy_folder(struct mt_context *ctx, const char *from, const char *to,
                                  const struct mt_config_change *change, size_t *count)
{
    enum mt_status status = MT_OK;
    DIR *directory = opendir(from);
    if (directory == NULL) return mt_fail(ctx, MT_ERR_IO, "%s: cannot be read: %s", from, strerror(errno));
    for (const struct dirent *entry = readdir(directory); entry != NULL && status == MT_OK;
         entry = readdir(directory)) {
        if (is_carried(entry->d_name)) status = copy_entry(ctx, from, to, entry->d_name, change, count);
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
        if (status == MT_OK) status = copy_folder(ctx, source, target, &nothing, count);
    }
    mt_path_release(ctx, source);
    mt_path_release(ctx, target);
    return status;
}

enum mt_status mt_model_carry_files(struct mt_context *ctx, const char *from, const char *to,
                                    const struct mt_config_change *change, size_t *count)
{
    *count = 0;
    enum mt_status status = copy_folder(ctx, from, to, change, count);
    return status == MT_OK ? copy_templates(ctx, from, to, count) : status;
}

/* Copies a file where there is one; else, if it has to make way, what is there goes. */
static enum mt_status carry_one(struct mt_context *ctx, const char *from, const char *to, const char *name,
                                bool or_none)
{
    struct stat info;
    char *source = NULL;
    char *target = NULL;
    size_t count = 0;
    enum mt_status status = mt_path_join(ctx, from, name, &source);
    if (status == MT_OK) status = mt_path_join(ctx, to, name, &target);
    bool there = status == MT_OK && stat(source, &info) == 0;
    if (there) status = copy_file(ctx, source, target, &nothing, &count);
    if (status == MT_OK && !there && or_none && unlink(target) != 0 && errno != ENOENT)
        status = mt_fail(ctx, MT_ERR_IO, "%s: cannot be removed: %s", target, strerror(errno));
    mt_path_release(ctx, source);
    mt_path_release(ctx, target);
    return status;
}

enum mt_status mt_model_carry_trained(struct mt_context *ctx, const char *from, const char *to)
{
    enum mt_status status = carry_one(ctx, from, to, MT_CHAT_TEMPLATE_FILE, false);
    return status == MT_OK ? carry_one(ctx, from, to, MT_TEXT_FORM_FILE, true) : status;
}

static enum mt_status write_one(struct mt_context *ctx, const char *directory, const char *name,
                                const char *text)
{
    char *path = NULL;
    if (text == NULL) return MT_OK;
    enum mt_status status = mt_path_join(ctx, directory, name, &path);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, text, strlen(text));
    mt_path_release(ctx, path);
    return status;
}

enum mt_status mt_model_write_trained(struct mt_context *ctx, const char *directory,
                                      const struct mt_trained_texts *trained)
{
    char *path = NULL;
    enum mt_status status = write_one(ctx, directory, MT_CHAT_TEMPLATE_FILE, trained->chat_template);
    if (status == MT_OK) status = write_one(ctx, directory, MT_TEXT_FORM_FILE, trained->form);
    if (status != MT_OK || trained->rows == NULL) return status;
    status = mt_path_join(ctx, directory, MT_ROWS_READ_FILE, &path);
    if (status == MT_OK) status = mt_row_hashes_write(trained->rows, path);
    mt_path_release(ctx, path);
    return status;
}
