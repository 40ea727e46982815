/* Opening the template somebody wants: the model's own, one that comes along, or a file. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files/file.h"
#include "formats/text/printable.h"
#include "text/template_parts.h"

#define MOST_NAMES     64
#define NAME_BYTES     48
#define TEMPLATE_BYTES (4u << 20)

bool mt_chat_template_stands_in(const struct mt_chat_template *template)
{
    return template->stands_in;
}

bool mt_chat_template_is_models(const struct mt_chat_template *template)
{
    return template->models_own;
}

bool mt_chat_template_is_jinja(const struct mt_chat_template *template)
{
    return template->jinja != NULL;
}

const char *mt_chat_template_jinja(const struct mt_chat_template *template)
{
    return template->jinja != NULL ? template->own.standard : NULL;
}

const char *mt_chat_template_name(const struct mt_chat_template *template)
{
    return template->name;
}

static bool ends_in(const char *text, const char *ending)
{
    size_t length = strlen(text);
    size_t tail = strlen(ending);
    return length > tail && strcmp(text + length - tail, ending) == 0;
}

// ------------------------------------------------------------------ names

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

enum mt_status mt_chat_template_unknown(struct mt_context *ctx, const char *folder, const char *name)
{
    char names[MOST_NAMES][NAME_BYTES];
    char list[768] = "";
    size_t count = 0;
    size_t used = 0;
    DIR *directory = opendir(folder);
    const struct dirent *entry = NULL;
    while (directory != NULL && count < MOST_NAMES && (entry = readdir(directory)) != NULL) {
        if (!ends_in(entry->d_name, ".tmpl") || strlen(entry->d_name) >= NAME_BYTES) continue;
        (void)snprintf(names[count++], NAME_BYTES, "%.*s", (int)strlen(entry->d_name) - 5, entry->d_name);
    }
    if (directory != NULL) (void)closedir(directory);
    qsort(names, count, NAME_BYTES, compare_names);
    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, ", %s", names[i]);
    return mt_fail(
        ctx, MT_ERR_USAGE,
        "there is no chat template '%s'; there are model (the model's own)%s; or a file, NAME.jinja or "
        "NAME.tmpl",
        mt_printable(name).text, list);
}

// ------------------------------------------------------------------ Jinja

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
        return mt_fail(template->ctx, MT_ERR_USAGE, "'%s' is no date, expected YYYY-MM-DD",
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
        return mt_fail(template->ctx, MT_ERR_USAGE, "there is no day %s", date);
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

static enum mt_status create(struct mt_context *ctx, const char *name, struct mt_chat_template **template)
{
    void *memory = NULL;
    *template = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **template, &memory);
    if (status != MT_OK) return status;
    *template = memory;
    (*template)->ctx = ctx;
    (*template)->bytes.ctx = ctx;
    (*template)->pieces.ctx = ctx;
    return mt_path_join(ctx, "", name, &(*template)->name);
}

/* What a template in Jinja is told besides the conversation. */
static enum mt_status set_choice(struct mt_chat_template *template, const struct mt_template_choice *choice)
{
    char *options = NULL;
    enum mt_status status = check_options(template->ctx, choice->options);
    if (status == MT_OK && choice->options != NULL) {
        status = mt_arena_copy_text(&template->own.arena, choice->options, strlen(choice->options), &options);
        template->options = options;
    }
    return status == MT_OK ? set_date(template, choice->date) : status;
}

static enum mt_status parse(struct mt_chat_template *template, const char *text, struct mt_jinja **jinja)
{
    return mt_jinja_parse(template->ctx, template->name, text, strlen(text), jinja);
}

/* A file in Jinja; the model's tokens come from its folder. */
static enum mt_status open_file(struct mt_context *ctx, const struct mt_template_choice *choice,
                                struct mt_chat_template *template)
{
    void *text = NULL;
    char *copy = NULL;
    size_t bytes = 0;
    enum mt_status status =
        mt_own_templates_read(ctx, choice->model != NULL ? choice->model : ".", &template->own);
    if (status == MT_OK) status = mt_file_read_all(ctx, choice->name, TEMPLATE_BYTES, &text, &bytes);
    if (status == MT_OK) status = mt_jinja_parse(ctx, choice->name, text, bytes, &template->jinja);
    if (status == MT_OK) status = mt_arena_copy_text(&template->own.arena, text, bytes, &copy);
    template->own.standard = copy; // instead of the model's
    mt_release(ctx, text, bytes);
    return status;
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
    enum mt_status status = mt_own_templates_read(ctx, choice->model, &own);
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
    mt_own_templates_free(&own);
    return status;
}

// ------------------------------------------------------------------ the choice

static enum mt_status open_choice(struct mt_context *ctx, const struct mt_template_choice *choice,
                                  struct mt_chat_template **template)
{
    bool own = strcmp(choice->name, "model") == 0;
    bool found = false;
    enum mt_status status = MT_OK;
    if (ends_in(choice->name, ".jinja")) {
        status = create(ctx, choice->name, template);
        if (status == MT_OK) status = open_file(ctx, choice, *template);
        return status == MT_OK ? set_choice(*template, choice) : status;
    }
    if (own && choice->model != NULL) status = open_model(ctx, choice, template, &found);
    if (status != MT_OK || found) return status;
    status = mt_chat_template_read(ctx, choice->folder, own ? "plain" : choice->name, template);
    if (status == MT_OK) (*template)->stands_in = own;
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
