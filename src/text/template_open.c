/*
 * Opening the template somebody wants: the model's own, one that comes along, or a file.
 *
 * The chat templates a model's folder brings along are looked for as transformers 5 does, the first place
 * that has any counts:
 *
 *     chat_template.jinja, additional_chat_templates/NAME.jinja     one file each
 *     tokenizer_config.json, "chat_template"                        a text, or a list of {"name", "template"}
 *     chat_template.json, "chat_template"                           as processors once saved it
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compare.h"
#include "base/files/file.h"
#include "formats/hf/hf_tokenizer_config.h"
#include "formats/text/printable.h"
#include "text/template_jinja.h"

#define MOST_NAMES        64
#define NAME_BYTES        48
#define WORD_BYTES        64 // of a name that stands for a file that comes along
#define PATH_BYTES        4096
#define ARENA_BLOCK_BYTES 16384
#define TEMPLATE_BYTES    (4u << 20)

// ------------------------------------------------------------------ what a model brings along

/* A file of the folder as a path; false when there is none. */
static bool find(const char *folder, const char *name, char *path)
{
    struct stat about;
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static enum mt_status keep_text(struct mt_own_templates *own, const char *text, const char **kept)
{
    *kept = NULL;
    return text != NULL ? mt_arena_copy_text(&own->arena, text, strlen(text), kept) : MT_OK;
}

static enum mt_status read_file(struct mt_own_templates *own, const char *path, const char **text)
{
    enum mt_status status = mt_chat_template_text(&own->arena, path, text);
    return status == MT_OK ? keep_text(own, path, &own->file) : status;
}

/* The templates of a JSON file with a "chat_template". */
static enum mt_status take_config(struct mt_own_templates *own, const char *path,
                                  const struct mt_hf_tokenizer_config *config)
{
    char names[256] = "";
    size_t used = 0;
    if (own->standard != NULL || own->with_tools != NULL || config->template_count == 0) return MT_OK;
    for (size_t i = 0; i < config->template_count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.40s", i > 0 ? ", " : "",
                                 config->templates[i].name);
    }
    enum mt_status status = keep_text(own, names, &own->names);
    const char *standard = mt_hf_tokenizer_config_template(config, "default");
    const char *with_tools = mt_hf_tokenizer_config_template(config, "tool_use");
    if (status == MT_OK) status = keep_text(own, standard, &own->standard);
    if (status == MT_OK) status = keep_text(own, with_tools, &own->with_tools);
    return status == MT_OK ? keep_text(own, path, &own->file) : status;
}

static enum mt_status read_tokens(struct mt_own_templates *own, const struct mt_hf_tokenizer_config *config)
{
    enum mt_status status = keep_text(own, config->bos_token, &own->bos_token);
    if (status == MT_OK) status = keep_text(own, config->eos_token, &own->eos_token);
    if (status == MT_OK) status = keep_text(own, config->pad_token, &own->pad_token);
    if (status == MT_OK) status = keep_text(own, config->unk_token, &own->unk_token);
    return status;
}

static enum mt_status read_config(struct mt_own_templates *own, const char *path, bool tokens)
{
    struct mt_hf_tokenizer_config config = {0};
    enum mt_status status = mt_hf_tokenizer_config_read(own->arena.ctx, path, NULL, 0, &config);
    if (status == MT_OK && tokens) status = read_tokens(own, &config);
    if (status == MT_OK) status = take_config(own, path, &config);
    mt_hf_tokenizer_config_free(&config);
    return status;
}

static enum mt_status read_folder(struct mt_own_templates *own, const char *folder)
{
    char path[PATH_BYTES];
    enum mt_status status = MT_OK;
    if (find(folder, "chat_template.jinja", path)) status = read_file(own, path, &own->standard);
    if (status == MT_OK && find(folder, "additional_chat_templates/tool_use.jinja", path))
        status = read_file(own, path, &own->with_tools);
    if (status == MT_OK && find(folder, "tokenizer_config.json", path)) status = read_config(own, path, true);
    if (status == MT_OK && find(folder, "chat_template.json", path)) status = read_config(own, path, false);
    return status;
}

static enum mt_status read_own(struct mt_context *ctx, const char *tokenizer, struct mt_own_templates *own)
{
    char folder[PATH_BYTES];
    struct stat about;
    *own = (struct mt_own_templates){0};
    mt_arena_init(&own->arena, ctx, ARENA_BLOCK_BYTES);
    int length = snprintf(folder, sizeof folder, "%s", tokenizer);
    if (length < 0 || (size_t)length >= sizeof folder)
        return mt_fail(ctx, MT_ERR_USAGE, "%.100s...: the path is too long", tokenizer);
    if (stat(folder, &about) == 0 && !S_ISDIR(about.st_mode)) {
        char *slash = strrchr(folder, '/');
        if (slash != NULL) *slash = '\0';
        if (slash == NULL) (void)snprintf(folder, sizeof folder, ".");
    }
    return read_folder(own, folder);
}

static void free_own(struct mt_own_templates *own)
{
    if (own->arena.ctx != NULL) mt_arena_free(&own->arena);
    *own = (struct mt_own_templates){0};
}

enum mt_status mt_chat_template_own(struct mt_arena *arena, const char *model, const char **text)
{
    struct mt_own_templates own = {0};
    *text = NULL;
    enum mt_status status = read_own(arena->ctx, model, &own);
    const char *standard = own.standard != NULL ? own.standard : own.with_tools;
    if (status == MT_OK && standard != NULL)
        status = mt_arena_copy_text(arena, standard, strlen(standard), text);
    free_own(&own);
    return status;
}

enum mt_status mt_chat_template_text(struct mt_arena *arena, const char *path, const char **text)
{
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(arena->ctx, path, TEMPLATE_BYTES, &data, &bytes);
    if (status == MT_OK && memchr(data, '\0', bytes) != NULL)
        status = mt_fail(arena->ctx, MT_ERR_FORMAT, "%s: a template is text", path);
    if (status == MT_OK) status = mt_arena_copy_text(arena, data, bytes, text);
    mt_release(arena->ctx, data, bytes);
    return status;
}

// ------------------------------------------------------------------ a template

/* An empty template; `name` stands in messages. The caller frees, also after a failure. */
static enum mt_status create(struct mt_context *ctx, const char *name, struct mt_chat_template **template)
{
    void *memory = NULL;
    *template = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **template, &memory);
    if (status != MT_OK) return status;
    *template = memory;
    (*template)->ctx = ctx;
    return mt_path_join(ctx, "", name, &(*template)->name);
}

void mt_chat_template_free(struct mt_chat_template *template)
{
    if (template == NULL) return;
    struct mt_context *ctx = template->ctx;
    mt_path_release(ctx, template->name);
    mt_jinja_free(template->jinja);
    mt_jinja_free(template->with_tools);
    free_own(&template->own);
    mt_release(ctx, template, sizeof *template);
}

bool mt_chat_template_stands_in(const struct mt_chat_template *template)
{
    return template->stands_in;
}

bool mt_chat_template_is_models(const struct mt_chat_template *template)
{
    return template->models_own;
}

const char *mt_chat_template_jinja(const struct mt_chat_template *template)
{
    return template->own.standard;
}

const char *mt_chat_template_name(const struct mt_chat_template *template)
{
    return template->name;
}

// ------------------------------------------------------------------ names

/* A bare word is the name of a template that comes along. */
static bool is_bare(const char *name)
{
    return strlen(name) < WORD_BYTES && strchr(name, '/') == NULL && !mt_ends_with(name, ".jinja");
}

bool mt_chat_template_has_variables(const char *name)
{
    return strcmp(name, "model") == 0 || !is_bare(name);
}

enum mt_status mt_chat_template_check_name(struct mt_context *ctx, const char *name)
{
    if (!mt_ends_with(name, ".tmpl")) return MT_OK;
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "%.200s is a file of keys, which metier no longer reads. Write a file NAME.jinja instead "
        "(share/templates has examples): take the text below and replace the names of the keys by their "
        "values: " MT_TEMPLATE_APART
        " {%%- for m in messages %%}{%% if m.role == 'user' %%}user.before{{ m.content }}user.after"
        "{%% else %%}assistant.prompt{%% generation %%}{{ m.content }}assistant.end{%% endgeneration %%}"
        "{%% endif %%}{%% endfor %%} {%%- if add_generation_prompt %%}assistant.prompt{%% endif %%}",
        mt_printable(name).text);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static enum mt_status unknown(struct mt_context *ctx, const char *folder, const char *name)
{
    char names[MOST_NAMES][NAME_BYTES];
    char list[768] = "";
    size_t count = 0;
    size_t used = 0;
    DIR *directory = opendir(folder);
    const struct dirent *entry = NULL;
    while (directory != NULL && count < MOST_NAMES && (entry = readdir(directory)) != NULL) {
        if (!mt_ends_with(entry->d_name, ".jinja") || strlen(entry->d_name) >= NAME_BYTES) continue;
        (void)snprintf(names[count++], NAME_BYTES, "%.*s", (int)strlen(entry->d_name) - 6, entry->d_name);
    }
    if (directory != NULL) (void)closedir(directory);
    qsort(names, count, NAME_BYTES, compare_names);
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, ", %s", names[i]);
    return mt_fail(ctx, MT_ERR_USAGE,
                   "there is no chat template '%s'; expected model (the model's own)%s, or a file NAME.jinja",
                   mt_printable(name).text, list);
}

enum mt_status mt_chat_template_file(struct mt_context *ctx, const char *folder, const char *name,
                                     char **path)
{
    char file[WORD_BYTES + 8];
    *path = NULL;
    if (strcmp(name, "model") == 0) return MT_OK;
    enum mt_status status = mt_chat_template_check_name(ctx, name);
    if (status != MT_OK || folder == NULL || !is_bare(name))
        return status == MT_OK ? mt_path_join(ctx, "", name, path) : status;
    (void)snprintf(file, sizeof file, "%s.jinja", name);
    status = mt_path_join(ctx, folder, file, path);
    if (status == MT_OK && access(*path, F_OK) != 0) status = unknown(ctx, folder, name);
    return status;
}

// ------------------------------------------------------------------ opening

/* YYYY-MM-DD, or today. */
static enum mt_status set_date(struct mt_chat_template *template, const char *date)
{
    static const char form[] = "dddd-dd-dd";
    time_t now = time(NULL);
    if (date == NULL) {
        (void)localtime_r(&now, &template->now);
        return MT_OK;
    }
    bool reads = strlen(date) == sizeof form - 1;
    for (size_t i = 0; reads && form[i] != '\0'; i++)
        reads = form[i] == 'd' ? date[i] >= '0' && date[i] <= '9' : date[i] == form[i];
    if (!reads) {
        return mt_fail(template->ctx, MT_ERR_USAGE, "'%s' is not a date, expected YYYY-MM-DD",
                       mt_printable(date).text);
    }
    // Noon exists on every day, wherever this runs.
    struct tm noon = {.tm_year = (int)strtol(date, NULL, 10) - 1900,
                      .tm_mon = (int)strtol(date + 5, NULL, 10) - 1,
                      .tm_mday = (int)strtol(date + 8, NULL, 10),
                      .tm_hour = 12,
                      .tm_isdst = -1};
    const struct tm asked = noon;
    time_t seconds = mktime(&noon);
    if (seconds == (time_t)-1 || noon.tm_mday != asked.tm_mday || noon.tm_mon != asked.tm_mon) {
        return mt_fail(template->ctx, MT_ERR_USAGE, "the calendar has no day %s", date);
    }
    template->now = noon;
    return MT_OK;
}

/* "name=value,name=value": names of variables. */
static enum mt_status check_options(struct mt_context *ctx, const char *options)
{
    for (const char *at = options; at != NULL && *at != '\0';) {
        size_t name = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
        if (name == 0 || name >= NAME_BYTES || at[name] != '=') {
            return mt_fail(ctx, MT_ERR_USAGE,
                           "the template's options '%s' must read as name=value,name=value",
                           mt_printable(options).text);
        }
        const char *comma = strchr(at, ',');
        at = comma != NULL ? comma + 1 : NULL;
    }
    return MT_OK;
}

/* What a template is told besides the conversation, and how it wants to be encoded. */
static enum mt_status set_choice(struct mt_chat_template *template, const struct mt_template_choice *choice)
{
    const char *options = choice->options;
    const char *text = template->own.standard != NULL ? template->own.standard : "";
    enum mt_status status = check_options(template->ctx, options);
    template->apart = strncmp(text, MT_TEMPLATE_APART, strlen(MT_TEMPLATE_APART)) == 0;
    if (status == MT_OK && template->apart && !mt_jinja_has_generation(template->jinja))
        status =
            mt_fail(template->ctx, MT_ERR_FORMAT,
                    "%s: encodes answers separately, but no {%% generation %%} marks them", template->name);
    if (status == MT_OK && options != NULL)
        status = mt_arena_copy_text(&template->own.arena, options, strlen(options), &template->options);
    return status == MT_OK ? set_date(template, choice->date) : status;
}

static enum mt_status parse(struct mt_chat_template *template, const char *text, struct mt_jinja **jinja)
{
    return mt_jinja_parse(template->ctx, template->name, text, strlen(text), jinja);
}

/* A file; the model's tokens come from its folder. */
static enum mt_status open_file(struct mt_chat_template *template, const struct mt_template_choice *choice)
{
    struct mt_own_templates *own = &template->own;
    enum mt_status status = MT_OK;
    if (choice->model != NULL) status = read_own(template->ctx, choice->model, own);
    if (choice->model == NULL) mt_arena_init(&own->arena, template->ctx, ARENA_BLOCK_BYTES);
    // Instead of the model's.
    if (status == MT_OK) status = mt_chat_template_text(&own->arena, template->name, &own->standard);
    if (status == MT_OK) status = parse(template, own->standard, &template->jinja);
    return status == MT_OK ? set_choice(template, choice) : status;
}

static enum mt_status open_own(struct mt_chat_template *template, const struct mt_own_templates *own)
{
    const char *standard = own->standard != NULL ? own->standard : own->with_tools;
    if (own->standard == NULL && own->names != NULL) {
        return mt_fail(template->ctx, MT_ERR_FORMAT, "%s: none of its chat templates (%s) is named default",
                       own->file, own->names);
    }
    enum mt_status status = parse(template, standard, &template->jinja);
    if (status == MT_OK && own->standard != NULL && own->with_tools != NULL)
        status = parse(template, own->with_tools, &template->with_tools);
    return status;
}

/* The model's own; *found is false when it has none. */
static enum mt_status open_model(struct mt_context *ctx, const struct mt_template_choice *choice,
                                 struct mt_chat_template **template, bool *found)
{
    struct mt_own_templates own = {0};
    enum mt_status status = read_own(ctx, choice->model, &own);
    *found = status == MT_OK && own.file != NULL;
    if (*found) {
        status = create(ctx, own.file, template);
        if (*template != NULL) {
            (*template)->models_own = true;
            (*template)->own = own;
            own = (struct mt_own_templates){0};
        }
        if (status == MT_OK) status = open_own(*template, &(*template)->own);
        if (status == MT_OK) status = set_choice(*template, choice);
    }
    free_own(&own);
    return status;
}

static enum mt_status open_choice(struct mt_context *ctx, const struct mt_template_choice *choice,
                                  struct mt_chat_template **template)
{
    bool own = strcmp(choice->name, "model") == 0;
    bool found = false;
    char *path = NULL;
    enum mt_status status = MT_OK;
    if (own && choice->model != NULL) status = open_model(ctx, choice, template, &found);
    if (status != MT_OK || found) return status;
    status = mt_chat_template_file(ctx, choice->folder, own ? "plain" : choice->name, &path);
    if (status == MT_OK) status = create(ctx, path, template);
    if (status == MT_OK) status = open_file(*template, choice);
    if (status == MT_OK) (*template)->stands_in = own;
    mt_path_release(ctx, path);
    return status;
}

enum mt_status mt_chat_template_open(struct mt_context *ctx, const struct mt_template_choice *choice,
                                     struct mt_chat_template **template)
{
    *template = NULL;
    enum mt_status status = open_choice(ctx, choice, template);
    if (status == MT_OK) return MT_OK;
    mt_chat_template_free(*template);
    *template = NULL;
    return status;
}
