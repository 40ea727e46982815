/* Names, the front matter, and what is carried from one card to another. */
#include "model/files/card.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/files/file.h"
#include "base/files/folder.h"
#include "formats/text/json_text.h"
#include "formats/text/lists.h"
#include "formats/text/printable.h"
#include "metier/version.h"

#define MOST_BYTES  ((size_t)1 << 20)
#define MARK        "<!-- metier -->\n"
#define RESULTS     "<!-- results -->\n"
#define CACHE       "models--" // of the hub's cache: models--ORG--NAME/snapshots/COMMIT
#define MODEL_BYTES 200

// ------------------------------------------------------------------ names

static const char *last_part(const char *path, size_t *bytes)
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t first = end;
    while (first > 0 && path[first - 1] != '/') first--;
    *bytes = end - first;
    return path + first;
}

enum mt_status mt_card_name(struct mt_arena *arena, const char *path, const char **name)
{
    size_t bytes = 0;
    const char *last = last_part(path, &bytes);
    struct mt_printable printable = mt_printable_bytes(last, bytes);
    for (char *c = printable.text; *c != '\0'; c++) *c = strchr("|`<>", *c) != NULL ? '_' : *c;
    return mt_arena_copy_text(arena, printable.text, strlen(printable.text), name);
}

/* What the hub may call a model: its name in the hub's cache, else that of its folder; "": no such name can
 * be. */
static void find_model(const char *path, char name[MODEL_BYTES])
{
    const char *cached = strstr(path, CACHE);
    size_t bytes = 0;
    const char *last = cached != NULL ? cached + strlen(CACHE) : last_part(path, &bytes);
    if (cached != NULL) bytes = strcspn(last, "/");
    size_t used = 0;
    for (size_t i = 0; i < bytes && used + 1 < MODEL_BYTES; i++) {
        bool cut = cached != NULL && i + 1 < bytes && last[i] == '-' && last[i + 1] == '-';
        bool fits = isalnum((unsigned char)last[i]) || strchr("._-", last[i]) != NULL;
        if (!fits || (used == 0 && !isalnum((unsigned char)last[i]))) {
            used = 0;
            break;
        }
        name[used++] = cut ? '/' : last[i];
        i += cut ? 1 : 0;
    }
    name[used] = '\0';
}

// ------------------------------------------------------------------ writing

static enum mt_status put(struct mt_byte_list *out, const char *text)
{
    return mt_byte_list_append_text(out, text);
}

static enum mt_status put_all(struct mt_byte_list *out, const char *const *texts)
{
    enum mt_status status = MT_OK;
    for (; *texts != NULL && status == MT_OK; texts++) status = put(out, *texts);
    return status;
}

static enum mt_status save(struct mt_context *ctx, const char *directory, const struct mt_byte_list *text)
{
    char *path = NULL;
    enum mt_status status = mt_path_join(ctx, directory, MT_CARD_FILE, &path);
    if (status == MT_OK) status = mt_file_write_all(ctx, path, text->data, text->count);
    mt_path_release(ctx, path);
    return status;
}

enum mt_status mt_card_write(struct mt_context *ctx, const char *directory, const struct mt_card *card)
{
    bool adapter = card->kind == MT_CARD_ADAPTER;
    const char *commit = mt_version_commit();
    struct mt_byte_list text = {.ctx = ctx};
    char model[MODEL_BYTES] = "";
    if (card->base != NULL) find_model(card->base, model);
    bool named = model[0] != '\0';
    // In quotes: a name may look like a number.
    const char *const texts[] = {
        "---\nlibrary_name: ",
        adapter ? "peft" : "transformers",
        named ? "\nbase_model: \"" : "",
        model,
        named ? (adapter ? "\"\nbase_model_relation: adapter" : "\"\nbase_model_relation: finetune") : "",
        "\npipeline_tag: text-generation\ntags:\n- metier\n- mixture-of-experts\n",
        adapter ? "- lora\n" : "",
        "---\n\n# ",
        adapter ? "LoRA adapter" : "Fine-tuned model",
        named ? " of " : "",
        model,
        "\n\nMade by metier ",
        mt_version(),
        commit[0] != '\0' ? " (commit " : "",
        commit,
        commit[0] != '\0' ? ")" : "",
        ".\n\n",
        MARK,
        card->text != NULL ? card->text : "",
        NULL};
    enum mt_status status = put_all(&text, texts);
    if (status == MT_OK) status = save(ctx, directory, &text);
    mt_byte_list_free(&text);
    return status;
}

// ------------------------------------------------------------------ reading

/* The card of a folder as a text in the arena; NULL: there is none. */
static enum mt_status read_card(struct mt_arena *arena, const char *directory, const char **text)
{
    struct mt_context *ctx = arena->ctx;
    struct stat info;
    char *path = NULL;
    void *bytes = NULL;
    size_t count = 0;
    *text = NULL;
    enum mt_status status = mt_path_join(ctx, directory, MT_CARD_FILE, &path);
    bool there = status == MT_OK && stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                 (uint64_t)info.st_size <= MOST_BYTES; // a longer one is none that we read
    if (there) status = mt_file_read_all(ctx, path, MOST_BYTES, &bytes, &count);
    if (there && status == MT_OK) status = mt_arena_copy_text(arena, bytes, strnlen(bytes, count), text);
    mt_release(ctx, bytes, count);
    mt_path_release(ctx, path);
    return status;
}

enum mt_status mt_card_carry(struct mt_context *ctx, const char *from, const char *to,
                             const struct mt_card *card)
{
    struct mt_arena arena;
    const char *text = NULL;
    mt_arena_init(&arena, ctx, 4096);
    enum mt_status status = read_card(&arena, from, &text);
    struct mt_byte_list copy = {.ctx = ctx};
    if (status == MT_OK && text != NULL) status = put(&copy, text);
    if (status == MT_OK && text != NULL) status = save(ctx, to, &copy);
    if (status == MT_OK && text == NULL) status = mt_card_write(ctx, to, card);
    mt_byte_list_free(&copy);
    mt_arena_free(&arena);
    return status;
}

enum mt_status mt_card_story(struct mt_arena *arena, const char *directory, const char **text)
{
    const char *card = NULL;
    *text = "";
    enum mt_status status = read_card(arena, directory, &card);
    const char *mark = status == MT_OK && card != NULL ? strstr(card, MARK) : NULL;
    if (mark == NULL) return status;
    mark += strlen(MARK);
    const char *results = strstr(mark, RESULTS);
    return mt_arena_copy_text(arena, mark, results != NULL ? (size_t)(results - mark) : strlen(mark), text);
}

// ------------------------------------------------------------------ results

static enum mt_status put_row(struct mt_byte_list *out, const struct mt_card_result *result)
{
    char row[512];
    (void)snprintf(row, sizeof row, "| %.100s | %.100s | %.2f | %.2f to %.2f | %zu of %zu |\n", result->task,
                   result->metric, 100.0 * result->value, 100.0 * result->low, 100.0 * result->high,
                   result->samples, result->total);
    return put(out, row);
}

/* Rows of the table that was there, but for tasks that have new ones. */
static enum mt_status keep_rows(const char *table, const struct mt_card_result *results, size_t count,
                                struct mt_byte_list *out)
{
    enum mt_status status = MT_OK;
    for (const char *line = table; *line != '\0' && status == MT_OK;) {
        size_t bytes = strcspn(line, "\n");
        bool row = bytes > 2 && strncmp(line, "| ", 2) == 0 && strncmp(line, "| task ", 7) != 0;
        for (size_t i = 0; i < count && row; i++) {
            size_t length = strlen(results[i].task);
            row = strncmp(line + 2, results[i].task, length) != 0 || strncmp(line + 2 + length, " |", 2) != 0;
        }
        if (row) status = mt_byte_list_append(out, line, bytes);
        if (row && status == MT_OK) status = put(out, "\n");
        line += bytes + (line[bytes] == '\n' ? 1 : 0);
    }
    return status;
}

/* .eval_results/TASK.yaml. */
static enum mt_status write_hub(struct mt_context *ctx, const char *folder,
                                const struct mt_card_result *result)
{
    char name[160];
    char *path = NULL;
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    (void)snprintf(name, sizeof name, "%.140s.yaml", result->task);
    enum mt_status status = mt_path_join(ctx, folder, name, &path);
    if (status == MT_OK)
        status = mt_json_text_format(
            &text,
            "- dataset:\n    id: %.80s\n    task_id: %.80s\n  value: %.2f\n  notes: ", result->hub_data,
            result->hub_task, 100.0 * result->value);
    if (status == MT_OK) status = mt_json_text_string(&text, result->notes); // JSON is YAML
    if (status == MT_OK) status = mt_json_text_format(&text, "\n");
    if (status == MT_OK) status = mt_json_text_save(&text, path);
    mt_json_text_free(&text);
    mt_path_release(ctx, path);
    return status;
}

static enum mt_status write_hubs(struct mt_context *ctx, const char *directory,
                                 const struct mt_card_result *results, size_t count)
{
    char *folder = NULL;
    bool made = false;
    enum mt_status status = mt_path_join(ctx, directory, MT_CARD_RESULTS_FOLDER, &folder);
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        if (results[i].hub_data == NULL) continue;
        if (!made) status = mt_folder_make(ctx, folder);
        made = true;
        if (status == MT_OK) status = write_hub(ctx, folder, &results[i]);
    }
    mt_path_release(ctx, folder);
    return status;
}

enum mt_status mt_card_add_results(struct mt_context *ctx, const char *directory,
                                   const struct mt_card_result *results, size_t count)
{
    struct mt_arena arena;
    struct mt_byte_list text = {.ctx = ctx};
    const char *card = NULL;
    mt_arena_init(&arena, ctx, 4096);
    enum mt_status status = read_card(&arena, directory, &card);
    if (status == MT_OK && (card == NULL || strstr(card, MARK) == NULL))
        status =
            mt_fail(ctx, MT_ERR_UNSUPPORTED,
                    "%s: metier did not write its " MT_CARD_FILE ", so it leaves it as it is", directory);
    if (status == MT_OK) {
        const char *table = strstr(card, RESULTS);
        size_t before = table != NULL ? (size_t)(table - card) : strlen(card);
        status = mt_byte_list_append(&text, card, before);
        if (status == MT_OK && table == NULL) status = put(&text, "\n");
        if (status == MT_OK)
            status =
                put(&text, RESULTS "## Results\n\n| task | metric | value, % | 95 % interval | questions |\n"
                                   "|---|---|---:|---|---|\n");
        if (status == MT_OK && table != NULL) status = keep_rows(table, results, count, &text);
    }
    for (size_t i = 0; i < count && status == MT_OK; i++) status = put_row(&text, &results[i]);
    if (status == MT_OK) status = save(ctx, directory, &text);
    if (status == MT_OK) status = write_hubs(ctx, directory, results, count);
    mt_byte_list_free(&text);
    mt_arena_free(&arena);
    return status;
}
