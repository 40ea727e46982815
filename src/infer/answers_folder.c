/* Whose answers a folder holds: source.json and inputs.json, written, and compared with. */
#define _GNU_SOURCE // memmem, realpath
#include "infer/answers_folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/quantise.h"
#include "base/files/file.h"
#include "formats/text/json.h"
#include "formats/text/json_text.h"
#include "formats/text/printable.h"
#include "model/files/input_files.h"
#include "ops/choose.h"
#include "text/template.h"

#define MOST_BYTES     (1 << 20)
#define UNNOTED_DEVICE "cpu"
#define MOST_BEFORE    10000
#define NEWEST_KEY     ", \"newest\": "

/*
 * A folder's weights: how many files and bytes; `name` stands for its path, if there is one. `dated`: and the
 * time of the newest, which told weights apart before their content was noted.
 */
static void put_folder(struct mt_json_text *text, const char *key, const char *folder, const char *name,
                       bool dated)
{
    char whole[PATH_MAX];
    char path[PATH_MAX + 300];
    int64_t files = 0;
    int64_t bytes = 0;
    int64_t newest = 0;
    if (text->status == MT_OK && realpath(folder, whole) == NULL)
        text->status = mt_fail(text->ctx, MT_ERR_USAGE, "%s: cannot open it: %s", folder, strerror(errno));
    if (text->status != MT_OK) return;
    DIR *directory = opendir(whole);
    for (struct dirent *entry = directory != NULL ? readdir(directory) : NULL; entry != NULL;
         entry = readdir(directory)) {
        const char *dot = strrchr(entry->d_name, '.');
        struct stat found;
        if (dot == NULL || strcmp(dot, ".safetensors") != 0) continue;
        (void)snprintf(path, sizeof path, "%s/%s", whole, entry->d_name);
        if (stat(path, &found) != 0) continue;
        files++;
        bytes += found.st_size;
        if (found.st_mtime > newest) newest = found.st_mtime;
    }
    if (directory != NULL) (void)closedir(directory);
    mt_json_text_format(text, ", \"%s\": {\"folder\": ", key);
    mt_json_text_string(text, name != NULL ? name : whole);
    mt_json_text_format(text, ", \"files\": %" PRId64 ", \"bytes\": %" PRId64, files, bytes);
    if (dated) mt_json_text_format(text, NEWEST_KEY "%" PRId64, newest);
    mt_json_text_format(text, "}");
}

static enum mt_status put_drawing(struct mt_json_text *text, const struct mt_answers_source *source)
{
    if (source->max_new > 0) mt_json_text_format(text, ", \"max_new\": %" PRId64, source->max_new);
    return mt_json_text_format(text, ", \"temperature\": %g, \"top_p\": %g, \"seed\": %" PRId64 "}\n",
                               source->temperature, source->top_p, source->seed);
}

/* The form of the questions that leave it open; plain texts that nobody asked for are not noted. */
static void put_form(struct mt_json_text *text, const struct mt_answers_source *source,
                     const struct mt_text_form *form)
{
    if (source->asking.given == NULL && strcmp(form->name, MT_TEXT_FORM_NONE) == 0) return;
    mt_json_text_format(text, ", \"template\": ");
    mt_json_text_string(text, form->name);
    if (form->spaced) mt_json_text_format(text, ", \"answers begin\": \" \"");
    if (form->options == NULL) return;
    mt_json_text_format(text, ", \"template option 1\": ");
    mt_json_text_string(text, form->options);
}

/* Of an endpoint the model's name counts: the same server may be somewhere else tomorrow. */
static enum mt_status describe(struct mt_json_text *text, const struct mt_answers_source *source,
                               const struct mt_text_form *form, const char *device, bool dated)
{
    if (source->endpoint_model != NULL) {
        mt_json_text_format(text, "{\"answers\": \"of an endpoint\", \"model\": ");
        mt_json_text_string(text, source->endpoint_model);
        if (source->plain) mt_json_text_format(text, ", \"template\": \"none\"");
        return put_drawing(text, source);
    }
    if (source->model == NULL) return mt_json_text_format(text, "{\"answers\": \"of a file\"}\n");
    mt_json_text_format(text, "{\"answers\": \"of a model\"");
    put_folder(text, "model", source->model, source->adapter == NULL ? source->own_name : NULL, dated);
    if (source->adapter != NULL) put_folder(text, "adapter", source->adapter, source->own_name, dated);
    put_form(text, source, form);
    if (source->quantise != NULL) {
        char how[MT_QUANTISE_TEXT_BYTES];
        mt_json_text_format(text, ", \"quantize\": ");
        mt_json_text_string(text, mt_quantise_strip_cache(source->quantise, how));
    }
    if (source->prune != NULL) {
        mt_json_text_format(text, ", \"prune\": ");
        mt_json_text_string(text, source->prune);
    }
    if (form->bos != MT_BOS_TOKENIZER)
        mt_json_text_format(text, ", \"bos\": \"%s\"", form->bos == MT_BOS_YES ? "yes" : "no");
    if (strcmp(device, UNNOTED_DEVICE) != 0) mt_json_text_format(text, ", \"device\": \"%s\"", device);
    mt_json_text_format(text, ", \"context\": %" PRId64, source->context);
    return put_drawing(text, source);
}

/* The device of the answers in a folder; "" where it holds none. What cannot be read names the usual one: it
 * is refused when it is compared. */
static void read_device(struct mt_context *ctx, const char *path, char device[MT_ANSWERS_DEVICE_BYTES])
{
    struct mt_json json = {0};
    struct mt_json_node child;
    const char *text = UNNOTED_DEVICE;
    device[0] = '\0';
    if (access(path, F_OK) != 0) return;
    if (mt_json_read(ctx, path, &mt_json_file_limits, &json) == MT_OK) {
        struct mt_json_node root = mt_json_root(&json);
        if (mt_json_member(&root, "device", &child)) (void)mt_json_as_string(&child, &text);
    }
    (void)snprintf(device, MT_ANSWERS_DEVICE_BYTES, "%s", text);
    mt_json_free(&json);
}

enum mt_status mt_answers_choose_device(struct mt_context *ctx, const char *out, const char *asked,
                                        struct mt_comm *comm, char device[MT_ANSWERS_DEVICE_BYTES])
{
    char noted[MT_ANSWERS_DEVICE_BYTES] = "";
    const char *name = NULL;
    char *path = NULL;
    enum mt_status status = MT_OK;
    if (strcmp(asked, MT_DEVICE_AUTO) == 0) {
        if (mt_comm_rank(comm) == 0) status = mt_path_join(ctx, out, "source.json", &path);
        if (path != NULL) read_device(ctx, path, noted);
        mt_path_release(ctx, path);
        status = mt_comm_agree(comm, ctx, status);
        if (status != MT_OK) return status;
        mt_comm_broadcast(comm, noted, sizeof noted, 0);
        if (noted[0] != '\0') asked = noted;
    }
    status = mt_device_choose(ctx, comm, asked, MT_USE_FAST, &name);
    if (status == MT_OK) (void)snprintf(device, MT_ANSWERS_DEVICE_BYTES, "%s", name);
    return status;
}

// ------------------------------------------------------------------ what differs

/* What source.json calls a setting, and what people do. */
static const struct {
    const char *key, *option;
} settings[] = {{"answers", "answers"},
                {"model", "--model"},
                {"adapter", "--adapter"},
                {"template", "--template"},
                {"answers begin", "answers that begin with"},
                {"template option 1", "--template-option"},
                {"quantize", "--quantize"},
                {"prune", "--prune"},
                {"bos", "--bos"},
                {"device", "--device"},
                {"context", "--context"},
                {"max_new", "--max-new"},
                {"temperature", "--temperature"},
                {"top_p", "--top-p"},
                {"seed", "--seed"}};

/* A setting's value; of a folder its path, or where `whole` its weights. "": it was not given. */
static void show_value(const struct mt_json_node *root, const char *key, bool whole, char *text, size_t bytes)
{
    struct mt_json_node value;
    const char *string = "";
    double number = 0;
    text[0] = '\0';
    if (!mt_json_member(root, key, &value)) return;
    if (mt_json_kind(&value) == MT_JSON_OBJECT) {
        int64_t size = 0;
        if (mt_json_get_string(&value, "folder", &string) != MT_OK) return;
        if (whole) (void)mt_json_get_integer(&value, "bytes", 0, INT64_MAX, &size);
        (void)snprintf(text, bytes, whole ? "%s of %" PRId64 " bytes" : "%s", mt_printable(string).text,
                       size);
    } else if (mt_json_kind(&value) == MT_JSON_STRING) {
        if (mt_json_as_string(&value, &string) == MT_OK)
            (void)snprintf(text, bytes, "%s", mt_printable(string).text);
    } else if (mt_json_as_real(&value, -1e300, 1e300, &number) == MT_OK) {
        (void)snprintf(text, bytes, "%.10g", number);
    }
}

/* "with --max-new 512 (you asked for 32), without --bos (yes)"; "": nothing that has a name differs. */
static void name_differences(const struct mt_json_node *was, const struct mt_json_node *is, char *text,
                             size_t bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        char before[256];
        char now[256];
        const char *key = settings[i].key;
        show_value(was, key, false, before, sizeof before);
        show_value(is, key, false, now, sizeof now);
        if (strcmp(before, now) == 0) show_value(was, key, true, before, sizeof before);
        if (strcmp(before, now) == 0 || strncmp(before, now, strlen(now)) == 0)
            show_value(is, key, true, now, sizeof now);
        if (strcmp(before, now) == 0 || used >= bytes) continue;
        // "-1" stands for what the model or the tasks say.
        bool unset = before[0] == '\0' || strcmp(before, "-1") == 0;
        bool asked = now[0] != '\0' && strcmp(now, "-1") != 0;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %s%s%s; you asked for %s",
                                 used > 0 ? "; and " : "", unset ? "without" : "with", settings[i].option,
                                 unset ? "" : " ", unset ? "" : before, asked ? now : "none");
    }
}

static enum mt_status refuse_difference(struct mt_context *ctx, const struct mt_answers_source *source,
                                        const char *path, const void *noted, size_t bytes,
                                        const struct mt_json_text *now)
{
    char what[700] = "";
    struct mt_json was = {0};
    struct mt_json is = {0};
    enum mt_status status = mt_json_parse(ctx, path, noted, bytes, &mt_json_file_limits, &was);
    if (status == MT_OK)
        status = mt_json_parse(ctx, "these settings", now->bytes, now->length, &mt_json_file_limits, &is);
    if (status == MT_OK) {
        struct mt_json_node one = mt_json_root(&was);
        struct mt_json_node other = mt_json_root(&is);
        name_differences(&one, &other, what, sizeof what);
    }
    mt_json_free(&was);
    mt_json_free(&is);
    if (status == MT_ERR_MEMORY) return status;
    if (what[0] == '\0') (void)snprintf(what, sizeof what, "in another way (%.600s)", path);
    return mt_fail(ctx, MT_ERR_USAGE, "%s was evaluated %s. Use another --out, or --again", source->out,
                   what);
}

/* Compares with what the folder says, which is text of ours; *dated: it is so in the words of older versions.
 */
static enum mt_status compare_noted(struct mt_context *ctx, const struct mt_answers_source *source,
                                    const struct mt_text_form *form, const char *device, const char *path,
                                    bool *dated)
{
    char before[MT_ANSWERS_DEVICE_BYTES];
    struct mt_json_text text;
    void *noted = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, MOST_BYTES, &noted, &bytes);
    if (status != MT_OK) return status;
    mt_json_text_init(&text, ctx);
    *dated = bytes > 0 && memmem(noted, bytes, NEWEST_KEY, sizeof NEWEST_KEY - 1) != NULL;
    status = describe(&text, source, form, device, *dated);
    bool same = status == MT_OK && bytes == text.length && memcmp(noted, text.bytes, bytes) == 0;
    read_device(ctx, path, before);
    if (status == MT_OK && !same) {
        bool moved = device[0] != '\0' && strcmp(before, device) != 0;
        status =
            moved ? mt_fail(
                        ctx, MT_ERR_USAGE,
                        "%s holds answers computed on the device %s, these would be on %s: give --device %s, "
                        "another --out, or --again",
                        source->out, before, device, before)
                  : refuse_difference(ctx, source, path, noted, bytes, &text);
    }
    mt_release(ctx, noted, bytes);
    mt_json_text_free(&text);
    return status;
}

static enum mt_status note(struct mt_context *ctx, const struct mt_answers_source *source,
                           const struct mt_text_form *form, const char *device, const char *path)
{
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    (void)describe(&text, source, form, device, false);
    return mt_json_text_save(&text, path);
}

// ------------------------------------------------------------------ what the files hold

/* By its whole path: the same folder may be given in another way. */
static enum mt_status add_whole(struct mt_fingerprint *print, const char *path,
                                enum mt_status (*add)(struct mt_fingerprint *print, const char *path))
{
    char whole[PATH_MAX];
    return add(print, realpath(path, whole) != NULL ? whole : path);
}

/* A template that is a file, and the record of the run's form. */
static enum mt_status add_form(struct mt_fingerprint *print, const char *templates,
                               const struct mt_text_form *form)
{
    struct mt_context *ctx = print->arena.ctx;
    char *path = NULL;
    enum mt_status status = form->record != NULL ? add_whole(print, form->record, mt_fingerprint_add) : MT_OK;
    if (status != MT_OK || form->template == NULL) return status;
    status = mt_chat_template_file(ctx, templates, form->template, &path);
    if (status == MT_OK && path != NULL) status = mt_fingerprint_add(print, path);
    mt_path_release(ctx, path);
    return status;
}

/* What answers. Of tasks and their data every sample is compared by itself (results.h). */
static enum mt_status add_inputs(struct mt_fingerprint *print, const struct mt_answers_source *source,
                                 const struct mt_text_form *form)
{
    enum mt_status status = MT_OK;
    if (status == MT_OK && source->answers != NULL) status = mt_fingerprint_add(print, source->answers);
    if (status != MT_OK || source->model == NULL) return status;
    status = add_whole(print, source->model, mt_input_files_tokenizer);
    if (status == MT_OK) status = add_form(print, source->templates, form);
    if (status == MT_OK && source->adapter != NULL)
        status = add_whole(print, source->adapter, mt_input_files_adapter);
    if (status == MT_OK && source->prune != NULL)
        status = add_whole(print, source->prune, mt_fingerprint_add);
    return status == MT_OK ? add_whole(print, source->model, mt_input_files_model) : status;
}

/* `before`: the folder holds answers. */
static enum mt_status claim_inputs(struct mt_context *ctx, const struct mt_answers_source *source,
                                   const struct mt_text_form *form, bool before, const struct mt_log *log)
{
    static const struct mt_fingerprint_words words = {.since = "the answers in --out were made",
                                                      .cure = "put it back to go on, or give another --out"};
    struct mt_fingerprint print;
    char *path = NULL;
    bool known = true;
    mt_fingerprint_init(ctx, &print);
    enum mt_status status = mt_path_join(ctx, source->out, MT_FINGERPRINT_FILE, &path);
    if (status == MT_OK) status = add_inputs(&print, source, form);
    if (status == MT_OK && before) status = mt_fingerprint_compare(&print, path, &words, false, log, &known);
    if (status == MT_OK && !known)
        mt_log_warning(log,
                       "%s: is missing: metier cannot tell whether model, tokenizer and tasks have changed "
                       "since the answers were made",
                       path);
    if (status == MT_OK) status = mt_fingerprint_write(&print, path);
    mt_path_release(ctx, path);
    mt_fingerprint_release(&print);
    return status;
}

enum mt_status mt_answers_claim(struct mt_context *ctx, const struct mt_answers_source *source,
                                const struct mt_text_form *form, const char *device, const struct mt_log *log)
{
    char *path = NULL;
    bool dated = false;
    enum mt_status status = mt_path_join(ctx, source->out, "source.json", &path);
    bool before = status == MT_OK && access(path, F_OK) == 0;
    if (status == MT_OK && before) status = compare_noted(ctx, source, form, device, path, &dated);
    // Last of all source.json: a folder that has it has the other one.
    if (status == MT_OK) status = claim_inputs(ctx, source, form, before, log);
    if (status == MT_OK && (!before || dated)) status = note(ctx, source, form, device, path);
    mt_path_release(ctx, path);
    return status;
}

// ------------------------------------------------------------------ beginning again

/* True for what an evaluation leaves in its folder. What files held is also noted by a run that was trained
 * there, which needs that to go on. */
static bool is_of_evaluation(const char *name, bool trained)
{
    static const char *const whole[] = {"results.json", "source.json"};
    static const char *const heads[] = {"samples_", "part_", "routing_", "judge_", "review_"};
    if (strcmp(name, MT_FINGERPRINT_FILE) == 0) return !trained;
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        if (strcmp(name, whole[i]) == 0) return true;
    }
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        if (strncmp(name, heads[i], strlen(heads[i])) == 0) return true;
    }
    return false;
}

static enum mt_status move_file(struct mt_context *ctx, const char *from, const char *to, const char *name)
{
    char old[PATH_MAX];
    char new[PATH_MAX];
    int one = snprintf(old, sizeof old, "%s/%s", from, name);
    int other = snprintf(new, sizeof new, "%s/%s", to, name);
    if (one < 0 || other < 0 || (size_t)one >= sizeof old || (size_t)other >= sizeof new)
        return mt_fail(ctx, MT_ERR_USAGE, "%s: the path is too long", from);
    if (rename(old, new) == 0) return MT_OK;
    return mt_fail(ctx, MT_ERR_IO, "%s: cannot move it to %s: %s", old, to, strerror(errno));
}

enum mt_status mt_answers_put_aside(struct mt_context *ctx, const char *out, const struct mt_log *log)
{
    char aside[PATH_MAX - 300];
    struct dirent **entries = NULL;
    size_t moved = 0;
    int count = scandir(out, &entries, NULL, NULL);
    if (count < 0) return mt_fail(ctx, MT_ERR_IO, "%s: cannot read it: %s", out, strerror(errno));
    enum mt_status status = MT_OK;
    bool trained = false;
    for (int i = 0; i < count; i++) trained = trained || strcmp(entries[i]->d_name, "config.yaml") == 0;
    for (int i = 0; i < count; i++) {
        bool ours = status == MT_OK && is_of_evaluation(entries[i]->d_name, trained);
        for (int k = 1; ours && moved == 0; k++) {
            (void)snprintf(aside, sizeof aside, "%.3600s/before-%d", out, k);
            if (mkdir(aside, 0777) == 0) break;
            if (errno == EEXIST && k < MOST_BEFORE) continue;
            status = mt_fail(ctx, MT_ERR_IO, "%s: cannot make it: %s", aside, strerror(errno));
            ours = false;
        }
        if (ours) status = move_file(ctx, out, aside, entries[i]->d_name);
        if (ours) moved++;
        free(entries[i]);
    }
    free(entries);
    if (status == MT_OK && moved > 0) mt_log_warning(log, "--again: what was in %s is now in %s", out, aside);
    return status;
}
