/* Which form, and why: records, runs that are older than records, templates that adapters bring. */
#define _DEFAULT_SOURCE // realpath
#include "text/text_form.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "formats/text/yaml.h"

#define MOST_PATH   (PATH_MAX + 64)
#define JINJA_FILE  "chat_template.jinja"
#define OWN_NAME    "model"
#define STANDING_IN "plain" // writes conversations of models that have no chat template

/* Looking for a form. */
struct finding {
    struct mt_arena *arena;
    const struct mt_form_request *request;
    const char *folder;       // that knows: the adapter's, without one the model's
    char run[MOST_PATH];      // the folder above it
    const char *own;          // the text of the model's own chat template; NULL: it has none
    struct mt_text_form form; // that the run was trained with; no name: nothing says
};

static bool is(const char *name, const char *other)
{
    return name != NULL && strcmp(name, other) == 0;
}

static bool join(const char *folder, const char *name, char path[MOST_PATH])
{
    int length = snprintf(path, MOST_PATH, "%s/%s", folder, name);
    return length > 0 && length < MOST_PATH && access(path, R_OK) == 0;
}

static enum mt_status keep(struct mt_arena *arena, const char *text, const char **kept)
{
    *kept = NULL;
    return text != NULL ? mt_arena_copy_text(arena, text, strlen(text), kept) : MT_OK;
}

// ------------------------------------------------------------------ templates of runs

/* The template an adapter brings: the model's own, with all that belongs to it, where it is the same. */
static enum mt_status take_brought(struct finding *f, const char *path)
{
    const char *text = NULL;
    enum mt_status status = mt_chat_template_text(f->arena, path, &text);
    if (status != MT_OK) return status;
    bool same = f->own != NULL && strcmp(text, f->own) == 0;
    return keep(f->arena, same ? OWN_NAME : path, &f->form.template);
}

/* The template that a run trained with: the adapter has it, or the model does. */
static enum mt_status take_jinja(struct finding *f)
{
    char path[MOST_PATH];
    f->form.talks = true;
    if (f->request->adapter != NULL && join(f->request->adapter, JINJA_FILE, path))
        return take_brought(f, path);
    f->form.template = OWN_NAME;
    if (f->own != NULL) return MT_OK;
    return mt_fail(f->arena->ctx, MT_ERR_FORMAT,
                   "%s: names a chat template (%s), but neither %s nor the model has one; set --template",
                   f->form.record, f->form.name, f->folder);
}

// ------------------------------------------------------------------ records

static enum mt_status take_record(struct finding *f, const struct mt_form_record *record, const char *path)
{
    struct mt_text_form *form = &f->form;
    *form = (struct mt_text_form){.name = record->name,
                                  .options = record->options,
                                  .date = record->date,
                                  .spaced = record->spaced,
                                  .record = path};
    if (!record->answers) {
        form->name = MT_TEXT_FORM_NONE;
        form->bos = record->bos;
        return MT_OK;
    }
    if (!record->keys) return take_jinja(f);
    form->talks = true;
    form->template = record->name;
    enum mt_status status = mt_chat_template_check_name(f->arena->ctx, record->name);
    return status == MT_OK ? MT_OK : mt_fail_within(f->arena->ctx, status, "%s", path);
}

static enum mt_status look_for_record(struct finding *f, const char *folder)
{
    struct mt_form_record record;
    const char *path = NULL;
    enum mt_status status = mt_form_record_read(f->arena, folder, &record, &path);
    if (status == MT_OK && record.name != NULL) status = take_record(f, &record, path);
    return status;
}

// ------------------------------------------------------------------ runs older than records

/* The text of `data.KEY` in a run's config.yaml; NULL: it says nothing. */
static const char *setting(const struct mt_yaml_node *root, const char *key)
{
    if (root->kind != MT_YAML_MAP) return NULL;
    for (const struct mt_yaml_node *part = root->first; part != NULL; part = part->next) {
        if (part->kind != MT_YAML_MAP || strcmp(part->key, "data") != 0) continue;
        for (const struct mt_yaml_node *node = part->first; node != NULL; node = node->next) {
            if (node->kind == MT_YAML_SCALAR && strcmp(node->key, key) == 0)
                return mt_yaml_is_nothing(node) ? NULL : node->text;
        }
    }
    return NULL;
}

static enum mt_status look_for_config(struct finding *f)
{
    char path[MOST_PATH];
    struct mt_yaml_node *root = NULL;
    struct mt_text_form *form = &f->form;
    if (!join(f->run, "config.yaml", path)) return MT_OK;
    enum mt_status status = mt_yaml_read(f->arena->ctx, path, &mt_yaml_file_limits, f->arena, &root);
    if (status != MT_OK)
        return mt_fail_within(f->arena->ctx, status,
                              "cannot tell which template the run was trained with; set --template");
    const char *template = setting(root, "template");
    if (template == NULL) return MT_OK;
    *form = (struct mt_text_form){.name = template,
                                  .template = template,
                                  .options = setting(root, "template_options"),
                                  .date = setting(root, "template_date"),
                                  .talks = true};
    status = keep(f->arena, path, &form->record);
    if (status != MT_OK || !is(template, OWN_NAME)) return status;
    bool jinja =
        f->own != NULL || (f->request->adapter != NULL && join(f->request->adapter, JINJA_FILE, path));
    if (jinja) return take_jinja(f);
    form->name = form->template = STANDING_IN; // as the run has written its conversations
    return MT_OK;
}

// ------------------------------------------------------------------ what the run was trained with

/* The folder above the one that knows; "": there is none. */
static void find_run(struct finding *f)
{
    char whole[PATH_MAX];
    f->run[0] = '\0';
    if (realpath(f->folder, whole) == NULL) return;
    char *slash = strrchr(whole, '/');
    if (slash == NULL || slash == whole) return;
    *slash = '\0';
    (void)snprintf(f->run, sizeof f->run, "%s", whole);
}

static enum mt_status find_trained(struct finding *f)
{
    char path[MOST_PATH];
    const char *adapter = f->request->adapter;
    f->folder = adapter != NULL ? adapter : f->request->model;
    find_run(f);
    enum mt_status status = mt_chat_template_own(f->arena, f->request->model, &f->own);
    if (status == MT_OK) status = look_for_record(f, f->folder);
    if (status == MT_OK && f->form.name == NULL && f->run[0] != '\0') status = look_for_record(f, f->run);
    if (status == MT_OK && f->form.name == NULL && f->run[0] != '\0') status = look_for_config(f);
    if (status != MT_OK || f->form.name != NULL || adapter == NULL || !join(adapter, JINJA_FILE, path))
        return status;
    f->form = (struct mt_text_form){.name = JINJA_FILE, .talks = true};
    status = keep(f->arena, path, &f->form.record);
    return status == MT_OK ? take_brought(f, path) : status;
}

// ------------------------------------------------------------------ the choice

/* What a name stands for: the run's own form, where it is that, with all the record says. */
static struct mt_text_form named(const struct finding *f, const char *name)
{
    if (is(name, MT_TEXT_FORM_NONE)) return (struct mt_text_form){.name = name};
    if (is(f->form.name, name)) return f->form;
    return (struct mt_text_form){.name = name, .template = name, .talks = true};
}

/* Nothing says how the model was trained: its own chat template, or `plain` where that has to do. */
static struct mt_text_form own_form(const struct finding *f, bool talks)
{
    bool has = f->own != NULL;
    return (struct mt_text_form){.name = has     ? OWN_NAME
                                         : talks ? STANDING_IN
                                                 : MT_TEXT_FORM_NONE,
                                 .template = has || !talks ? OWN_NAME : STANDING_IN,
                                 .talks = has || talks};
}

static const char *why_trained(const struct finding *f)
{
    if (f->form.template != NULL && f->form.record != NULL && is(f->form.name, JINJA_FILE))
        return "the adapter brings it";
    return f->form.talks ? "the run was trained with it" : "the run was trained on whole texts";
}

static void choose(const struct finding *f, struct mt_text_form *form)
{
    const struct mt_form_request *request = f->request;
    bool known = f->form.name != NULL;
    if (is(request->given, OWN_NAME)) {
        *form = known && f->form.talks ? f->form : own_form(f, request->to_train);
        form->why = form->talks ? request->by : "the model has no chat template";
    } else if (request->given != NULL) {
        *form = named(f, request->given);
        form->why = request->by;
    } else if (request->fixed != NULL) {
        *form = named(f, request->fixed);
        form->why = "the task fixes its text";
    } else if (known) {
        *form = f->form;
        form->why = why_trained(f);
        // Messages still have to be written out somehow.
        if (!form->talks && request->own) form->template = OWN_NAME;
    } else if (request->own) {
        *form = own_form(f, false);
        form->why = form->talks ? "the model's own chat template" : "the model has no chat template";
    } else {
        *form = (struct mt_text_form){.name = MT_TEXT_FORM_NONE};
        form->why = request->adapter != NULL ? "no record of the form the adapter was trained in"
                                             : "no record of the form the model was trained in";
    }
}

enum mt_status mt_text_form_find(struct mt_arena *arena, const struct mt_form_request *request,
                                 struct mt_text_form *form)
{
    struct finding f = {.arena = arena, .request = request};
    *form = (struct mt_text_form){0};
    enum mt_status status = MT_OK;
    if (request->given != NULL) status = mt_chat_template_check_name(arena->ctx, request->given);
    if (status != MT_OK) return status;
    status = find_trained(&f);
    // Whoever names a template can do without a record that makes no sense.
    if (status != MT_OK && status != MT_ERR_MEMORY && request->given != NULL &&
        !is(request->given, OWN_NAME)) {
        f.form = (struct mt_text_form){0};
        status = MT_OK;
    }
    if (status != MT_OK) return status;
    choose(&f, form);
    form->trained = f.form.name;
    form->record = f.form.record;
    if (request->options != NULL) form->options = request->options;
    if (request->date == NULL || form->date == NULL) form->date = request->date;
    return MT_OK;
}

const char *mt_text_form_short(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash != NULL ? slash + 1 : name;
}

bool mt_text_form_differs(const struct mt_text_form *form)
{
    return form->trained != NULL &&
           strcmp(mt_text_form_short(form->trained), mt_text_form_short(form->name)) != 0;
}

const char *mt_text_form_warning(const struct mt_text_form *form, char sentence[MT_FORM_SENTENCE_BYTES])
{
    if (!mt_text_form_differs(form)) return NULL;
    (void)snprintf(sentence, MT_FORM_SENTENCE_BYTES,
                   "put as %.120s (%.120s), and the run was trained as %.120s", form->name, form->why,
                   form->trained);
    return sentence;
}

enum mt_status mt_text_form_open(struct mt_context *ctx, const struct mt_text_form *form, const char *folder,
                                 const char *model, struct mt_chat_template **template)
{
    const struct mt_template_choice choice = {.name = form->template,
                                              .folder = folder,
                                              .model = model,
                                              .options = form->options,
                                              .date = form->date};
    *template = NULL;
    return form->template != NULL ? mt_chat_template_open(ctx, &choice, template) : MT_OK;
}

enum mt_status mt_text_form_copy(struct mt_arena *arena, const struct mt_text_form *from,
                                 struct mt_text_form *to)
{
    *to = *from;
    const char **texts[] = {&to->name, &to->template, &to->options, &to->date,
                            &to->why,  &to->trained,  &to->record};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && status == MT_OK; i++)
        status = keep(arena, *texts[i], texts[i]);
    return status;
}
