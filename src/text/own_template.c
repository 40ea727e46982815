/* Looking for chat templates beside a tokenizer. */
#include "text/own_template.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "formats/hf/hf_tokenizer_config.h"

#define PATH_BYTES        4096
#define ARENA_BLOCK_BYTES 16384
#define TEMPLATE_BYTES    (4u << 20)

/* A file of the folder as a path; false when there is none. */
static bool find(const char *folder, const char *name, char *path)
{
    struct stat about;
    int length = snprintf(path, PATH_BYTES, "%s/%s", folder, name);
    return length > 0 && length < PATH_BYTES && stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static enum mt_status keep(struct mt_own_templates *own, const char *text, size_t bytes, const char **kept)
{
    char *copy = NULL;
    *kept = NULL;
    enum mt_status status = mt_arena_copy_text(&own->arena, text, bytes, &copy);
    *kept = copy;
    return status;
}

static enum mt_status keep_text(struct mt_own_templates *own, const char *text, const char **kept)
{
    *kept = NULL;
    return text != NULL ? keep(own, text, strlen(text), kept) : MT_OK;
}

static enum mt_status read_file(struct mt_own_templates *own, const char *path, const char **text)
{
    struct mt_context *ctx = own->arena.ctx;
    void *data = NULL;
    size_t bytes = 0;
    enum mt_status status = mt_file_read_all(ctx, path, TEMPLATE_BYTES, &data, &bytes);
    if (status != MT_OK) return status;
    status = keep(own, data, bytes, text);
    mt_release(ctx, data, bytes);
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
    enum mt_status status = mt_hf_tokenizer_config_read(own->arena.ctx, path, &config);
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

enum mt_status mt_own_templates_read(struct mt_context *ctx, const char *tokenizer,
                                     struct mt_own_templates *own)
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

void mt_own_templates_free(struct mt_own_templates *own)
{
    if (own->arena.ctx != NULL) mt_arena_free(&own->arena);
    *own = (struct mt_own_templates){0};
}
