/* The variables of a chat template, as transformers' apply_chat_template sets them. */
#include "text/template_jinja.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64

static const struct mt_jinja *template_of(const struct mt_chat_rendering *r)
{
    bool tools = r->asked.conversation->tools != NULL && r->asked.template->with_tools != NULL;
    return tools ? r->asked.template->with_tools : r->asked.template->jinja;
}

bool mt_chat_rendering_is_apart(const struct mt_chat_rendering *rendering)
{
    const struct mt_chat_template *template = rendering->asked.template;
    return template->apart && template_of(rendering) == template->jinja;
}

bool mt_chat_rendering_has_generation(const struct mt_chat_rendering *rendering)
{
    return mt_jinja_has_generation(template_of(rendering));
}

// ------------------------------------------------------------------ messages

/* The arguments of calls as texts, and content that is null as an empty one, in a copy. */
static json_t *with_texts(const json_t *message)
{
    json_t *copy = json_deep_copy(message);
    json_t *calls = json_object_get(copy, "tool_calls");
    if (copy != NULL && !json_is_string(json_object_get(copy, "content")))
        (void)json_object_set_new(copy, "content", json_string(""));
    for (size_t i = 0; i < json_array_size(calls); i++) {
        json_t *call = json_array_get(calls, i);
        json_t *function = json_object_get(call, "function");
        if (!json_is_object(function)) function = call;
        json_t *arguments = json_object_get(function, "arguments");
        if (!json_is_object(arguments)) continue;
        char *text = json_dumps(arguments, 0);
        if (text != NULL) (void)json_object_set_new(function, "arguments", json_string(text));
        free(text);
    }
    return copy;
}

static void set_string(struct mt_chat_rendering *r, struct mt_value dict, const char *key, const char *text,
                       size_t bytes, unsigned mark)
{
    struct mt_value value = mt_jinja_string(r->values, text, bytes, mark);
    mt_jinja_dict_set(r->values, dict, key, value);
}

/* What an instruction says, and what it is about, each by itself. */
static void set_parts(struct mt_chat_rendering *r, struct mt_value dict, const struct mt_turn *turn,
                      unsigned mark)
{
    set_string(r, dict, "content", turn->text, turn->bytes, mark);
    mt_jinja_dict_set(r->values, dict, "input", mt_jinja_none()); // whatever the message has by that name
    if (turn->input != NULL) set_string(r, dict, "input", turn->input, turn->input_bytes, MT_INPUT_MARK);
}

/* The same as one text. */
static enum mt_status set_content(struct mt_chat_rendering *r, struct mt_value dict,
                                  const struct mt_turn *turn, unsigned mark)
{
    struct mt_byte_list text = {.ctx = r->asked.conversation->ctx};
    enum mt_status status = mt_byte_list_append(&text, turn->text, turn->bytes);
    if (status == MT_OK && turn->input != NULL) status = mt_byte_list_append_text(&text, "\n\n");
    if (status == MT_OK) status = mt_byte_list_append(&text, turn->input, turn->input_bytes);
    if (status == MT_OK) set_string(r, dict, "content", (const char *)text.data, text.count, mark);
    mt_byte_list_free(&text);
    return status;
}

static enum mt_status make_message(struct mt_chat_rendering *r, size_t number)
{
    const struct mt_turn *turn = &r->asked.conversation->turns[number];
    unsigned mark = mt_turn_mark(number);
    const char *role = mt_role_name(turn->role);
    struct mt_value dict = {0};
    if (turn->message != NULL) {
        json_t *changed = r->texts && turn->calls ? with_texts(turn->message) : NULL;
        const struct mt_json_node node = {.ctx = r->asked.conversation->ctx,
                                          .file = "message",
                                          .value = changed != NULL ? changed : turn->message};
        dict = mt_jinja_from_json(r->values, &node, mark);
        json_decref(changed);
    } else {
        dict = mt_jinja_dict(r->values);
    }
    r->messages[number] = dict;
    set_string(r, dict, "role", role, strlen(role), MT_JINJA_TRUSTED);
    bool apart = mt_chat_rendering_is_apart(r);
    bool own = turn->message == NULL || turn->input != NULL;
    if (apart) set_parts(r, dict, turn, mark);
    return own && !apart ? set_content(r, dict, turn, mark) : MT_OK;
}

// ------------------------------------------------------------------ other variables

static void set_token(struct mt_chat_rendering *r, const char *name, const char *token, unsigned mark)
{
    if (token == NULL) return;
    struct mt_value value = mt_jinja_string(r->values, token, strlen(token), mark);
    mt_jinja_values_set(r->values, name, value);
}

/* As text; to be encoded apart, as a byte that stands for the token. */
static void set_tokens(struct mt_chat_rendering *r)
{
    const struct mt_own_templates *own = &r->asked.template->own;
    bool apart = mt_chat_rendering_is_apart(r);
    set_token(r, "unk_token", own->unk_token, MT_JINJA_TRUSTED);
    if (apart) {
        set_token(r, "bos_token", r->asked.bos ? "." : NULL, MT_BOS_MARK);
        set_token(r, "eos_token", ".", MT_EOS_MARK);
        set_token(r, "pad_token", ".", MT_PAD_MARK);
    } else {
        set_token(r, "bos_token", own->bos_token, MT_JINJA_TRUSTED);
        set_token(r, "eos_token", own->eos_token, MT_JINJA_TRUSTED);
        set_token(r, "pad_token", own->pad_token, MT_JINJA_TRUSTED);
    }
}

/* What an option says: true, false, none, a number, or a text. */
static struct mt_value option_value(struct mt_chat_rendering *r, const char *text, size_t bytes)
{
    char word[NAME_BYTES] = "";
    char *end = NULL;
    if (bytes < sizeof word) memcpy(word, text, bytes);
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) return mt_jinja_bool(word[0] == 't');
    if (strcmp(word, "none") == 0 || strcmp(word, "null") == 0) return mt_jinja_none();
    long long integer = strtoll(word, &end, 10);
    if (word[0] != '\0' && *end == '\0') return mt_jinja_integer(integer);
    double real = strtod(word, &end);
    if (word[0] != '\0' && *end == '\0') return mt_jinja_real(real);
    return mt_jinja_string(r->values, text, bytes, MT_JINJA_TRUSTED);
}

static void set_options(struct mt_chat_rendering *r)
{
    for (const char *at = r->asked.template->options; at != NULL && *at != '\0';) {
        char name[NAME_BYTES] = "";
        const char *equals = strchr(at, '=');
        size_t bytes = strcspn(equals + 1, ",");
        memcpy(name, at, (size_t)(equals - at)); // shorter than a name may be: checked on opening
        struct mt_value value = option_value(r, equals + 1, bytes);
        mt_jinja_values_set(r->values, name, value);
        at = equals[1 + bytes] == ',' ? equals + bytes + 2 : NULL;
    }
}

static void set_variables(struct mt_chat_rendering *r)
{
    const struct mt_row_field *text = r->asked.text;
    struct mt_value tools = mt_jinja_none();
    set_tokens(r);
    if (text != NULL) {
        struct mt_value value = mt_jinja_string(r->values, text->text, text->bytes, mt_turn_mark(0));
        mt_jinja_values_set(r->values, "text", value);
    }
    if (r->asked.conversation->tools != NULL) {
        const struct mt_json_node node = {
            .ctx = r->asked.conversation->ctx, .file = "tools", .value = r->asked.conversation->tools};
        tools = mt_jinja_from_json(r->values, &node, MT_TOOLS_MARK);
    }
    mt_jinja_values_set(r->values, "tools", tools);
    mt_jinja_values_set(r->values, "documents", mt_jinja_none());
    set_options(r);
}

// ------------------------------------------------------------------ rendering

static enum mt_status make_values(struct mt_chat_rendering *r)
{
    mt_jinja_values_free(r->values);
    r->values = NULL;
    enum mt_status status = mt_jinja_values_create(r->asked.conversation->ctx, &r->values);
    for (size_t i = 0; i < r->asked.conversation->count && status == MT_OK; i++) status = make_message(r, i);
    if (status != MT_OK) return status;
    set_variables(r);
    return mt_jinja_values_status(r->values);
}

enum mt_status mt_chat_rendering_begin(const struct mt_chat_asked *asked, struct mt_chat_rendering *rendering)
{
    void *memory = NULL;
    const struct mt_conversation *conversation = asked->conversation;
    *rendering = (struct mt_chat_rendering){.asked = *asked};
    if (conversation->count > MT_MOST_TURNS)
        return mt_fail(conversation->ctx, MT_ERR_USAGE, "%zu messages, the limit is %d", conversation->count,
                       MT_MOST_TURNS);
    enum mt_status status =
        mt_allocate_array(conversation->ctx, conversation->count, sizeof *rendering->messages, &memory);
    rendering->messages = memory;
    return status == MT_OK ? make_values(rendering) : status;
}

void mt_chat_rendering_end(struct mt_chat_rendering *rendering)
{
    mt_jinja_values_free(rendering->values);
    mt_release(rendering->asked.conversation->ctx, rendering->messages,
               rendering->asked.conversation->count * sizeof *rendering->messages);
    *rendering = (struct mt_chat_rendering){0};
}

static enum mt_status render(struct mt_chat_rendering *r, size_t turns, bool generate,
                             struct mt_jinja_output *output)
{
    const struct mt_jinja_options options = {.now = &r->asked.template->now};
    struct mt_value list = mt_jinja_list(r->values);
    for (size_t i = 0; i < turns; i++) mt_jinja_list_append(r->values, list, r->messages[i]);
    mt_jinja_values_set(r->values, "messages", list);
    mt_jinja_values_set(r->values, "add_generation_prompt", mt_jinja_bool(generate));
    return mt_jinja_render(template_of(r), r->values, &options, output);
}

enum mt_status mt_chat_rendering_run(struct mt_chat_rendering *r, size_t turns, bool generate,
                                     struct mt_jinja_output *output)
{
    bool calls = false;
    enum mt_status status = render(r, turns, generate, output);
    for (size_t i = 0; i < turns; i++) calls |= r->asked.conversation->turns[i].calls;
    if (status != MT_ERR_FORMAT || !calls || r->texts) return status;
    r->texts = true;
    status = make_values(r);
    return status == MT_OK ? render(r, turns, generate, output) : status;
}
