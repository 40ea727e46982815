/* Recorded answers become the data of a page. Everything is read and checked, and written anew: nothing of
 * the file reaches the page as it is. */
#include "report/routing_page.h"

#include <inttypes.h>
#include <string.h>

#include "formats/data/dataset.h"
#include "formats/text/json_text.h"

#define MOST_EXPERTS 65536
#define MOST_SLOTS   256
#define MOST_LAYERS  4096

static const char marker[] = "id=\"recorded\">null<";

/* One answer while it is read. */
struct recorded {
    const struct mt_row *row;
    struct mt_json_text *text;
    int64_t experts, slots, prompt;
    size_t layers;
};

// ------------------------------------------------------------------ tokens

/* Lists of numbers, one for each layer, each as long as there are slots. */
static enum mt_status copy_lists(const struct recorded *r, const struct mt_json_node *token, const char *key,
                                 double most)
{
    struct mt_json_node lists;
    enum mt_status status = mt_json_get_array(token, key, &lists);
    if (status != MT_OK) return status;
    if (mt_json_count(&lists) != r->layers)
        return mt_json_fail(&lists, "has %zu lists, expected one for each of %zu layers",
                            mt_json_count(&lists), r->layers);
    mt_json_text_format(r->text, ", \"%s\": [", key);
    for (size_t i = 0; i < r->layers; i++) {
        struct mt_json_node list = mt_json_element(&lists, i);
        if (mt_json_count(&list) != (size_t)r->slots)
            return mt_json_fail(&list, "has %zu numbers, expected %" PRId64, mt_json_count(&list), r->slots);
        mt_json_text_format(r->text, i > 0 ? ", [" : "[");
        for (size_t k = 0; k < (size_t)r->slots; k++) {
            struct mt_json_node item = mt_json_element(&list, k);
            double value = 0.0;
            status = mt_json_as_real(&item, -1.0, most, &value);
            if (status != MT_OK) return status;
            mt_json_text_format(r->text, k > 0 ? ", " : "");
            mt_json_text_number(r->text, value);
        }
        mt_json_text_format(r->text, "]");
    }
    return mt_json_text_format(r->text, "]");
}

static enum mt_status copy_token(const struct recorded *r, const struct mt_json_node *token)
{
    const char *said = NULL;
    enum mt_status status = mt_json_get_string(token, "text", &said);
    if (status != MT_OK) return status;
    mt_json_text_format(r->text, "{\"text\": ");
    mt_json_text_string(r->text, said);
    if (mt_json_has(token, "experts")) {
        status = copy_lists(r, token, "experts", (double)r->experts - 1.0);
        if (status == MT_OK) status = copy_lists(r, token, "weights", 1.0);
    }
    return status == MT_OK ? mt_json_text_format(r->text, "}") : status;
}

static enum mt_status copy_layers(struct recorded *r, const struct mt_json_node *routing)
{
    struct mt_json_node layers;
    enum mt_status status = mt_json_get_array(routing, "layers", &layers);
    if (status != MT_OK) return status;
    r->layers = mt_json_count(&layers);
    if (r->layers == 0 || r->layers > MOST_LAYERS) return mt_json_fail(&layers, "has %zu layers", r->layers);
    mt_json_text_format(r->text, ", \"layers\": [");
    for (size_t i = 0; i < r->layers && status == MT_OK; i++) {
        struct mt_json_node item = mt_json_element(&layers, i);
        int64_t number = 0;
        status = mt_json_as_integer(&item, 0, MOST_LAYERS, &number);
        mt_json_text_format(r->text, "%s%" PRId64, i > 0 ? ", " : "", number);
    }
    return status == MT_OK ? mt_json_text_format(r->text, "]") : status;
}

/* `"routing": {...}` of an answer. */
static enum mt_status copy_routing(struct recorded *r, const struct mt_json_node *routing,
                                   const struct mt_json_node *tokens)
{
    enum mt_status status = mt_json_get_integer(routing, "experts", 1, MOST_EXPERTS, &r->experts);
    if (status == MT_OK) status = mt_json_get_integer(routing, "slots", 1, MOST_SLOTS, &r->slots);
    if (status != MT_OK) return status;
    mt_json_text_format(r->text,
                        "\"routing\": {\"experts\": %" PRId64 ", \"slots\": %" PRId64
                        ", \"prompt_tokens\": %" PRId64,
                        r->experts, r->slots, r->prompt);
    status = copy_layers(r, routing);
    mt_json_text_format(r->text, ", \"tokens\": [");
    for (size_t i = 0; i < mt_json_count(tokens) && status == MT_OK; i++) {
        struct mt_json_node token = mt_json_element(tokens, i);
        mt_json_text_format(r->text, i > 0 ? ", " : "");
        status = copy_token(r, &token);
    }
    return status == MT_OK ? mt_json_text_format(r->text, "]}") : status;
}

// ------------------------------------------------------------------ answers

/* What was asked, as the texts of the prompt's tokens. */
static enum mt_status read_title(const struct recorded *r, const struct mt_json_node *tokens,
                                 struct mt_byte_list *title)
{
    enum mt_status status = MT_OK;
    title->count = 0;
    for (size_t i = 0; i < (size_t)r->prompt && status == MT_OK; i++) {
        struct mt_json_node token = mt_json_element(tokens, i);
        const char *said = NULL;
        status = mt_json_get_string(&token, "text", &said);
        if (status == MT_OK) status = mt_byte_list_append_text(title, said);
    }
    return status;
}

/* One line of the file, behind the answers before it. `title` is that of the answer before, then this one's.
 */
static enum mt_status add_answer(const struct mt_row *row, struct mt_json_text *text,
                                 struct mt_byte_list *title)
{
    struct recorded r = {.row = row, .text = text};
    struct mt_json_node metier;
    struct mt_json_node routing;
    struct mt_json_node tokens;
    struct mt_byte_list own = {.ctx = row->ctx};
    const struct mt_row_field *model = mt_row_field(row, "model");
    if (!mt_row_value(row, "metier", &metier))
        return mt_row_fail(row, "the answer has no routing: ask with \"metier\": {\"routing\": true}");
    enum mt_status status = mt_json_get_object(&metier, "routing", &routing);
    if (status == MT_OK) status = mt_json_get_array(&routing, "tokens", &tokens);
    if (status == MT_OK)
        status =
            mt_json_get_integer(&routing, "prompt_tokens", 0, (int64_t)mt_json_count(&tokens), &r.prompt);
    if (status == MT_OK) status = read_title(&r, &tokens, &own);
    bool again = status == MT_OK && text->length > 1 && own.count == title->count &&
                 memcmp(own.data, title->data, own.count) == 0;
    if (status == MT_OK && !again) {
        mt_json_text_format(text, text->length > 1 ? "]}, {\"title\": " : "{\"title\": ");
        mt_json_text_bytes(text, own.data, own.count);
        mt_json_text_format(text, ", \"answers\": [");
    }
    if (status == MT_OK) {
        mt_json_text_format(text, again ? ", {\"model\": " : "{\"model\": ");
        mt_json_text_bytes(text, model != NULL ? model->text : "", model != NULL ? model->bytes : 0);
        mt_json_text_format(text, ", ");
        status = copy_routing(&r, &routing, &tokens);
    }
    mt_json_text_format(text, "}");
    mt_byte_list_free(title);
    *title = own;
    return status == MT_OK ? text->status : status;
}

static enum mt_status read_answers(struct mt_context *ctx, const char *file, struct mt_json_text *text)
{
    const struct mt_dataset_options options = {.format = MT_DATASET_JSONL};
    struct mt_dataset *dataset = NULL;
    struct mt_byte_list title = {.ctx = ctx};
    struct mt_row row;
    enum mt_status status = mt_dataset_open(ctx, file, &options, &dataset);
    if (status != MT_OK) return status;
    mt_row_init(ctx, &row);
    mt_json_text_format(text, "[");
    for (uint64_t i = 0; i < mt_dataset_rows(dataset) && status == MT_OK; i++) {
        status = mt_dataset_read(dataset, i, &row);
        if (status == MT_OK) status = add_answer(&row, text, &title);
    }
    if (status == MT_OK && mt_dataset_rows(dataset) == 0)
        status = mt_fail(ctx, MT_ERR_FORMAT, "%s holds no answers", file);
    if (status == MT_OK) status = mt_json_text_format(text, "]}]");
    mt_row_free(&row);
    mt_byte_list_free(&title);
    mt_dataset_close(dataset);
    return status;
}

/* JSON inside a script: "</" would end it. */
static enum mt_status append_script(struct mt_byte_list *html, const char *json, size_t bytes)
{
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < bytes && status == MT_OK; i++)
        status = json[i] == '<' ? mt_byte_list_append_text(html, "\\u003c")
                                : mt_byte_list_append(html, json + i, 1);
    return status;
}

enum mt_status mt_routing_page(struct mt_context *ctx, const char *file, const char *page, size_t page_bytes,
                               struct mt_byte_list *html)
{
    const size_t length = sizeof marker - 1;
    size_t at = 0;
    while (at + length <= page_bytes && memcmp(page + at, marker, length) != 0) at++;
    if (at + length > page_bytes)
        return mt_fail(ctx, MT_ERR_FORMAT, "the installed page has no place for recorded answers");
    size_t place = at + strlen("id=\"recorded\">");
    struct mt_json_text text;
    mt_json_text_init(&text, ctx);
    enum mt_status status = read_answers(ctx, file, &text);
    if (status == MT_OK) status = mt_byte_list_append(html, page, place);
    if (status == MT_OK) status = append_script(html, text.bytes, text.length);
    place += strlen("null");
    if (status == MT_OK) status = mt_byte_list_append(html, page + place, page_bytes - place);
    mt_json_text_free(&text);
    return status;
}
