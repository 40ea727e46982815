/* Reading messages: roles by all their names, content in parts, calls of tools old and new. */
#include "formats/data/conversation.h"

#include <jansson.h>
#include <string.h>

#include "formats/text/printable.h"

static const struct mt_json_limits limits_inside = {
    .max_bytes = 16u << 20, .max_values = 1000000, .max_depth = 64};

static const struct {
    const char *name;
    enum mt_role role;
} roles[] = {
    {"system", MT_ROLE_SYSTEM},       {"user", MT_ROLE_USER},          {"assistant", MT_ROLE_ASSISTANT},
    {"tool", MT_ROLE_TOOL},           {"human", MT_ROLE_USER},         {"gpt", MT_ROLE_ASSISTANT},
    {"model", MT_ROLE_ASSISTANT},     {"bot", MT_ROLE_ASSISTANT},      {"developer", MT_ROLE_SYSTEM},
    {"function", MT_ROLE_TOOL},       {"observation", MT_ROLE_TOOL},   {"function_response", MT_ROLE_TOOL},
    {"ipython", MT_ROLE_TOOL},        {"tool_response", MT_ROLE_TOOL}, {"function_call", MT_ROLE_ASSISTANT},
    {"tool_call", MT_ROLE_ASSISTANT},
};

enum mt_role mt_role_named(const char *name)
{
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (strcmp(roles[i].name, name) == 0) return roles[i].role;
    }
    return MT_ROLES;
}

const char *mt_role_name(enum mt_role role)
{
    return roles[role].name;
}
_Static_assert(MT_ROLE_SYSTEM == 0 && MT_ROLE_USER == 1 && MT_ROLE_ASSISTANT == 2 && MT_ROLE_TOOL == 3,
               "the first names of the table are the roles' own");

void mt_conversation_clear(struct mt_conversation *conversation)
{
    for (size_t i = 0; i < conversation->count; i++) json_decref(conversation->turns[i].message);
    json_decref(conversation->tools);
    conversation->count = 0;
    conversation->tools = NULL;
}

void mt_conversation_free(struct mt_conversation *conversation)
{
    mt_conversation_clear(conversation);
    mt_release(conversation->ctx, conversation->turns, conversation->capacity * sizeof *conversation->turns);
    *conversation = (struct mt_conversation){.ctx = conversation->ctx};
}

enum mt_status mt_conversation_add(struct mt_conversation *conversation, const struct mt_turn *turn)
{
    enum mt_status status = MT_OK;
    conversation->turns = mt_list_reserve(conversation->ctx, conversation->turns, &conversation->capacity,
                                          sizeof *conversation->turns, conversation->count + 1, &status);
    if (status == MT_OK) {
        conversation->turns[conversation->count++] = *turn;
    } else {
        json_decref(turn->message);
    }
    return status;
}

// ------------------------------------------------------------------ one message

/* The message being read: as the file has it, and as a template gets it. */
struct reading {
    const struct mt_row *row;
    size_t number;       // from 1
    const json_t *given; // borrowed
    json_t *made;        // owned; a copy of `given` that is being put right
    struct mt_turn turn;
};

static const char *kind_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a text";
    case JSON_INTEGER:
    case JSON_REAL: return "a number";
    case JSON_NULL: return "null";
    default: return "true or false";
    }
}

static enum mt_status out_of_memory(const struct reading *r)
{
    return mt_fail(r->row->ctx, MT_ERR_MEMORY, "out of memory for a message");
}

/* Puts a value, whose reference is taken over, into the message. */
static enum mt_status put(const struct reading *r, json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? MT_OK : out_of_memory(r);
}

static enum mt_status read_role(struct reading *r)
{
    const json_t *role = json_object_get(r->given, "role");
    if (role == NULL) role = json_object_get(r->given, "from");
    if (!json_is_string(role)) {
        return mt_row_fail(r->row, "message %zu has no \"role\" (or \"from\") that is a text", r->number);
    }
    r->turn.role = mt_role_named(json_string_value(role));
    if (r->turn.role == MT_ROLES) {
        return mt_row_fail(r->row,
                           "message %zu has the role '%s'; roles are system, user, assistant and tool",
                           r->number, mt_printable(json_string_value(role)).text);
    }
    const char *name = mt_role_name(r->turn.role);
    (void)json_object_del(r->made, "from");
    return put(r, r->made, "role", json_string(name));
}

/* The text of a part, or NULL: it is of another kind. */
static const json_t *part_text(const json_t *part)
{
    const json_t *type = json_object_get(part, "type");
    const json_t *text = json_is_string(part) ? part : json_object_get(part, "text");
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    bool known = type == NULL || strcmp(name, "text") == 0 || strcmp(name, "input_text") == 0 ||
                 strcmp(name, "output_text") == 0;
    return known && json_is_string(text) ? text : NULL;
}

/* Content in parts becomes one text: its parts, end to end. */
static enum mt_status join_parts(struct reading *r, const json_t *parts)
{
    struct mt_byte_list text = {.ctx = r->row->ctx};
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < json_array_size(parts) && status == MT_OK; i++) {
        const json_t *part = json_array_get(parts, i);
        const json_t *words = part_text(part);
        const json_t *type = json_object_get(part, "type");
        if (words != NULL) {
            status = mt_byte_list_append(&text, json_string_value(words), json_string_length(words));
        } else if (json_is_string(type)) {
            status = mt_row_fail(r->row, "message %zu has a part of the type '%s': only text can be read",
                                 r->number, mt_printable(json_string_value(type)).text);
        } else {
            status = mt_row_fail(
                r->row, "message %zu has a part that is not {\"type\": \"text\", \"text\": ...}", r->number);
        }
    }
    if (status == MT_OK) {
        const char *bytes = text.count > 0 ? (const char *)text.data : "";
        status = put(r, r->made, "content", json_stringn(bytes, text.count));
    }
    mt_byte_list_free(&text);
    return status;
}

static enum mt_status read_content(struct reading *r)
{
    const json_t *content = json_object_get(r->made, "content");
    json_t *value = json_object_get(r->made, "value");
    enum mt_status status = MT_OK;
    if (content == NULL && value != NULL) {
        content = value;
        status = json_object_set(r->made, "content", value) == 0 ? MT_OK : out_of_memory(r);
        (void)json_object_del(r->made, "value");
    }
    if (json_is_array(content)) status = join_parts(r, content);
    if (status != MT_OK) return status;
    bool calls = json_object_get(r->made, "tool_calls") != NULL;
    bool nothing = content == NULL || json_is_null(content);
    r->turn.text = "";
    if (nothing && calls) return MT_OK;
    if (nothing) return mt_row_fail(r->row, "message %zu has no content", r->number);
    content = json_object_get(r->made, "content");
    if (!json_is_string(content)) {
        return mt_row_fail(r->row, "the content of message %zu is %s, expected a text or a list of parts",
                           r->number, kind_of(content));
    }
    r->turn.text = json_string_value(content);
    r->turn.bytes = json_string_length(content);
    return MT_OK;
}

/* OpenAI's: an answer of weight 0 is there to be read. Files made of tables have null where there is none. */
static enum mt_status read_weight(struct reading *r)
{
    const json_t *weight = json_object_get(r->given, "weight");
    if (r->turn.role != MT_ROLE_ASSISTANT || weight == NULL || json_is_null(weight)) return MT_OK;
    double value = json_is_number(weight) ? json_number_value(weight) : -1.0;
    if (value != 0.0 && value != 1.0) {
        return mt_row_fail(r->row, "the weight of message %zu is neither 0 (not trained on) nor 1",
                           r->number);
    }
    r->turn.context = value == 0.0;
    return MT_OK;
}

// ------------------------------------------------------------------ calls of tools

/* JSON inside a text, or NULL: it is none. The caller owns it. */
static json_t *parse_text(const struct mt_row *row, const json_t *text)
{
    struct mt_json json = {0};
    if (!json_is_string(text)) return NULL;
    if (mt_json_parse(row->ctx, "text", json_string_value(text), json_string_length(text), &limits_inside,
                      &json) != MT_OK) {
        return NULL;
    }
    json_t *root = json_incref(json.root);
    mt_json_free(&json);
    return root;
}

/* A call with its arguments as an object: OpenAI's files have them as a text, templates write them out. */
static enum mt_status read_call(struct reading *r, size_t number, const json_t *given, json_t *calls)
{
    const json_t *inner = json_object_get(given, "function");
    const json_t *name = json_object_get(json_is_object(inner) ? inner : given, "name");
    if (!json_is_string(name)) {
        return mt_row_fail(r->row, "call %zu of message %zu has no name of a function", number, r->number);
    }
    json_t *call = json_copy((json_t *)given);
    if (call == NULL || json_array_append_new(calls, call) != 0) return out_of_memory(r);
    json_t *function = call;
    if (json_is_object(inner)) {
        function = json_copy((json_t *)inner);
        enum mt_status status = put(r, call, "function", function);
        if (status != MT_OK) return status;
    }
    const json_t *said = json_object_get(function, "arguments");
    bool empty = json_is_string(said) && json_string_length(said) == 0;
    json_t *arguments = empty ? json_object() : parse_text(r->row, said);
    if (json_is_object(arguments)) return put(r, function, "arguments", arguments);
    json_decref(arguments);
    return MT_OK;
}

/* The calls of a message: tool_calls, or the one call of older files, which becomes a list. */
static enum mt_status read_calls(struct reading *r)
{
    const json_t *given = json_object_get(r->given, "tool_calls");
    const json_t *single = json_object_get(r->given, "function_call");
    const json_t *from = json_object_get(r->given, "from");
    json_t *spoken = NULL; // ShareGPT: the call is what is said
    if (json_is_string(from) && strstr(json_string_value(from), "_call") != NULL) {
        spoken = parse_text(r->row, json_object_get(r->given, "value"));
        if (!json_is_object(spoken)) {
            json_decref(spoken);
            return mt_row_fail(r->row, "message %zu is a call of a tool, but not a JSON object", r->number);
        }
        single = spoken;
    }
    (void)json_object_del(r->made, "tool_calls");
    (void)json_object_del(r->made, "function_call");
    size_t count = json_is_array(given) ? json_array_size(given) : 0;
    bool none = count == 0 && !json_is_object(single);
    json_t *calls = none ? NULL : json_array();
    enum mt_status status = MT_OK;
    if (given != NULL && !json_is_array(given) && !json_is_null(given)) {
        status = mt_row_fail(r->row, "tool_calls of message %zu is %s, expected a list", r->number,
                             kind_of(given));
    } else if (single != NULL && !json_is_object(single) && !json_is_null(single)) {
        status = mt_row_fail(r->row, "function_call of message %zu is %s, expected an object", r->number,
                             kind_of(single));
    } else if (!none && r->turn.role != MT_ROLE_ASSISTANT) {
        status = mt_row_fail(r->row, "message %zu calls tools, but is not an assistant's", r->number);
    }
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        status = read_call(r, i + 1, json_array_get(given, i), calls);
    }
    if (status == MT_OK && count == 0 && !none) {
        json_t *wrapped = json_pack("{s:s, s:O}", "type", "function", "function", single);
        status = wrapped == NULL ? out_of_memory(r) : read_call(r, 1, wrapped, calls);
        json_decref(wrapped);
    }
    json_decref(spoken);
    if (status != MT_OK || none) {
        json_decref(calls);
        return status;
    }
    r->turn.calls = true;
    if (spoken != NULL) (void)json_object_del(r->made, "value");
    return put(r, r->made, "tool_calls", calls);
}

/* What an assistant thought has three names; templates read the first, some the second. As transformers 5. */
static enum mt_status name_thoughts(const struct reading *r)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *thought = NULL;
    for (size_t i = 0; i < 3 && thought == NULL; i++) {
        thought = json_object_get(r->made, names[i]);
        if (json_is_null(thought)) thought = NULL;
    }
    if (thought == NULL) return MT_OK;
    bool known = json_object_get(r->made, "thinking") != NULL;
    enum mt_status status = put(r, r->made, "reasoning_content", json_incref(thought));
    return status == MT_OK && !known ? put(r, r->made, "thinking", json_incref(thought)) : status;
}

// ------------------------------------------------------------------ the list

static enum mt_status read_message(struct mt_conversation *conversation, struct reading *r)
{
    if (!json_is_object(r->given)) {
        return mt_row_fail(r->row, "message %zu is %s, expected {\"role\": ..., \"content\": ...}", r->number,
                           kind_of(r->given));
    }
    r->made = json_copy((json_t *)r->given);
    enum mt_status status = r->made == NULL ? out_of_memory(r) : read_role(r);
    if (status == MT_OK) status = read_weight(r);
    if (status == MT_OK) status = read_calls(r);
    if (status == MT_OK) status = read_content(r);
    if (status == MT_OK) status = name_thoughts(r);
    if (status != MT_OK) {
        json_decref(r->made);
        return status;
    }
    r->turn.message = r->made;
    return mt_conversation_add(conversation, &r->turn);
}

enum mt_status mt_conversation_read(struct mt_conversation *conversation, const struct mt_row *row,
                                    const struct mt_json_node *list)
{
    size_t count = mt_json_count(list);
    enum mt_status status = MT_OK;
    if (mt_json_kind(list) != MT_JSON_ARRAY) {
        return mt_row_fail(row, "'%s' is %s, expected a list of messages", mt_printable(list->key).text,
                           kind_of(list->value));
    }
    if (count == 0) return mt_row_fail(row, "the list of messages is empty");
    for (size_t i = 0; i < count && status == MT_OK; i++) {
        struct reading r = {.row = row, .number = i + 1, .given = mt_json_element(list, i).value};
        status = read_message(conversation, &r);
    }
    return status;
}

/* A list of functions becomes one of tools; what is a tool already stays. */
static enum mt_status wrap_functions(const struct mt_row *row, json_t **list)
{
    json_t *tools = json_array();
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < json_array_size(*list) && status == MT_OK; i++) {
        json_t *function = json_array_get(*list, i);
        bool is_tool = json_is_object(json_object_get(function, "function"));
        json_t *tool = is_tool ? json_incref(function)
                               : json_pack("{s:s, s:O}", "type", "function", "function", function);
        if (json_array_append_new(tools, tool) != 0)
            status = mt_fail(row->ctx, MT_ERR_MEMORY, "out of memory for the tools");
        else if (!json_is_object(function))
            status = mt_row_fail(row, "function %zu of 'functions' is %s, expected an object", i + 1,
                                 kind_of(function));
    }
    json_decref(*list);
    *list = tools;
    return status;
}

enum mt_status mt_conversation_read_tools(struct mt_conversation *conversation, const struct mt_row *row,
                                          const char *column)
{
    struct mt_json_node node = {0};
    const struct mt_row_field *field = mt_row_field(row, column);
    if (field == NULL || !mt_row_value(row, column, &node)) return MT_OK;
    if (field->kind == MT_FIELD_TEXT && field->bytes == 0) return MT_OK;
    json_t *tools =
        field->kind == MT_FIELD_TEXT ? parse_text(row, node.value) : json_incref((json_t *)node.value);
    if (!json_is_array(tools)) {
        json_decref(tools);
        return mt_row_fail(row, "'%s' is neither a list of tools nor a text that holds one",
                           mt_printable(column).text);
    }
    enum mt_status status = strcmp(column, "functions") == 0 ? wrap_functions(row, &tools) : MT_OK;
    json_decref(conversation->tools);
    conversation->tools = NULL;
    if (status == MT_OK && json_array_size(tools) > 0) {
        conversation->tools = tools;
    } else {
        json_decref(tools); // an empty list is no tools
    }
    return status;
}
