/* What the fields of a row mean: the table of forms, the mapping of names, and the turns that come of them.
 */
#include "text/example_maker.h"

#include <stdio.h>
#include <string.h>

#include "formats/text/printable.h"

#define NAME_BYTES 128

/* The parts of all forms, by the names the mapping knows them by. */
enum part {
    PART_NONE,
    PART_SYSTEM,
    PART_MESSAGES,
    PART_INSTRUCTION,
    PART_INPUT,
    PART_OUTPUT,
    PART_PROMPT,
    PART_COMPLETION,
    PART_QUESTION,
    PART_ANSWER,
    PART_TEXT,
    PART_TOOLS,
    PARTS
};

static const struct {
    const char *name;
    const char *alias; // what a field may also be called where no mapping names it
} parts[PARTS] = {
    [PART_NONE] = {"", NULL},
    [PART_SYSTEM] = {"system", NULL},
    [PART_MESSAGES] = {"messages", "conversations"},
    [PART_INSTRUCTION] = {"instruction", NULL},
    [PART_INPUT] = {"input", NULL},
    [PART_OUTPUT] = {"output", "response"},
    [PART_PROMPT] = {"prompt", NULL},
    [PART_COMPLETION] = {"completion", NULL},
    [PART_QUESTION] = {"question", NULL},
    [PART_ANSWER] = {"answer", NULL},
    [PART_TEXT] = {"text", NULL},
    [PART_TOOLS] = {"tools", NULL},
};

static const struct {
    const char *name;
    enum part asked;    // messages or text, where there is no answer
    enum part answered; // PART_NONE: the form is one field
    enum part input;
} forms[MT_FORMS] = {
    [MT_FORM_AUTO] = {"auto", PART_NONE, PART_NONE, PART_NONE},
    [MT_FORM_MESSAGES] = {"messages", PART_MESSAGES, PART_NONE, PART_NONE},
    [MT_FORM_INSTRUCTION] = {"instruction", PART_INSTRUCTION, PART_OUTPUT, PART_INPUT},
    [MT_FORM_PROMPT] = {"prompt", PART_PROMPT, PART_COMPLETION, PART_NONE},
    [MT_FORM_QUESTION] = {"question", PART_QUESTION, PART_ANSWER, PART_NONE},
    [MT_FORM_TEXT] = {"text", PART_TEXT, PART_NONE, PART_NONE},
};

enum mt_example_form mt_example_form_named(const char *name)
{
    int form = 0;
    while (form < MT_FORMS && strcmp(forms[form].name, name) != 0) form++;
    return (enum mt_example_form)form;
}

// ------------------------------------------------------------------ mapping

/* One "part=column" of a mapping. */
struct mapped {
    char part[NAME_BYTES];
    char column[NAME_BYTES];
};

static bool copy_name(const char *start, size_t length, char *name)
{
    if (length == 0 || length >= NAME_BYTES) return false;
    memcpy(name, start, length);
    name[length] = '\0';
    return true;
}

/* Takes the next entry; false where it does not read as one. *mapping becomes NULL after the last. */
static bool next_mapped(const char **mapping, struct mapped *mapped)
{
    size_t length = strcspn(*mapping, ",");
    const char *equals = memchr(*mapping, '=', length);
    if (equals == NULL) return false;
    size_t part_length = (size_t)(equals - *mapping);
    bool sound = copy_name(*mapping, part_length, mapped->part) &&
                 copy_name(equals + 1, length - part_length - 1, mapped->column);
    *mapping = (*mapping)[length] == ',' ? *mapping + length + 1 : NULL;
    return sound;
}

enum mt_status mt_example_check_source(struct mt_context *ctx, const struct mt_example_source *source)
{
    const char *rest = source->mapping;
    while (rest != NULL) {
        struct mapped mapped;
        int part = 1;
        if (!next_mapped(&rest, &mapped)) {
            return mt_fail(ctx, MT_ERR_USAGE, "the mapping '%s' must read as field=column,field=column",
                           mt_printable(source->mapping).text);
        }
        while (part < PARTS && strcmp(parts[part].name, mapped.part) != 0) part++;
        if (part < PARTS) continue;
        return mt_fail(ctx, MT_ERR_USAGE,
                       "the mapping names a field '%s'; fields are system, messages, instruction, input, "
                       "output, prompt, completion, question, answer, text and tools",
                       mt_printable(mapped.part).text);
    }
    return MT_OK;
}

/* The row's field for a part: the mapped column, or its own name, or its alias. NULL: none. */
static const struct mt_row_field *find_part(const struct mt_example_source *source, const struct mt_row *row,
                                            enum part part)
{
    const char *rest = source->mapping;
    struct mapped mapped;
    while (rest != NULL && next_mapped(&rest, &mapped)) {
        if (strcmp(mapped.part, parts[part].name) == 0) return mt_row_field(row, mapped.column);
    }
    const struct mt_row_field *field = mt_row_field(row, parts[part].name);
    if (field == NULL && parts[part].alias != NULL) field = mt_row_field(row, parts[part].alias);
    return field;
}

// ------------------------------------------------------------------ forms

/* Whether a part can be what its form asks for: messages are a list, a prompt and its completion may be. */
static bool fits(enum part part, const struct mt_row_field *field)
{
    if (part == PART_MESSAGES) return field->kind == MT_FIELD_OTHER;
    if (part == PART_PROMPT || part == PART_COMPLETION) return true;
    return field->kind == MT_FIELD_TEXT;
}

/* Whether the row has the fields of a form; `kinds`: and they are what the form asks for. */
static bool has_form(const struct mt_example_source *source, const struct mt_row *row,
                     enum mt_example_form form, bool kinds)
{
    const enum part asked[2] = {forms[form].asked, forms[form].answered};
    for (size_t i = 0; i < 2 && asked[i] != PART_NONE; i++) {
        const struct mt_row_field *field = find_part(source, row, asked[i]);
        if (field == NULL || (kinds && !fits(asked[i], field))) return false;
    }
    return true;
}

/* The first form whose fields the row has; MT_FORMS: none. */
static int find_form(const struct mt_example_source *source, const struct mt_row *row, bool kinds)
{
    int form = MT_FORM_AUTO + 1;
    while (form < MT_FORMS && !has_form(source, row, (enum mt_example_form)form, kinds)) form++;
    return form;
}

/* Why no form can be found in a row: what it has, and what to do about it. */
static enum mt_status fail_without_form(const struct mt_row *row)
{
    char names[200] = "";
    size_t used = 0;
    if (mt_row_field(row, "chosen") != NULL && mt_row_field(row, "rejected") != NULL) {
        return mt_row_fail(row,
                           "a pair of answers (chosen, rejected) is for preference training, which this is "
                           "not; to train on the chosen one, map it: data.sources[].fields: "
                           "prompt=prompt,completion=chosen (or messages=chosen)");
    }
    for (size_t i = 0; i < row->field_count && used < sizeof names; i++) {
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                                 mt_printable(row->fields[i].name).text);
    }
    return mt_row_fail(
        row,
        "the fields of the row ('%s') have no known form (messages; instruction, output; "
        "prompt, completion; question, answer; text); data.sources[].fields can name them, as in "
        "fields: instruction=problem,output=solution",
        names);
}

/* Why a row does not fit the form: which field is missing, or what it is instead. */
static enum mt_status fail_of_form(const struct mt_example_source *source, const struct mt_row *row,
                                   enum mt_example_form form)
{
    const enum part asked[2] = {forms[form].asked, forms[form].answered};
    for (size_t i = 0; i < 2 && asked[i] != PART_NONE; i++) {
        const struct mt_row_field *field = find_part(source, row, asked[i]);
        if (field == NULL) {
            return mt_row_fail(
                row,
                "the row lacks the %s of the form %s; data.sources[].fields can name the column "
                "that holds it",
                parts[asked[i]].name, forms[form].name);
        }
        if (!fits(asked[i], field)) {
            return mt_row_fail(row, "the field '%s' is %s", mt_printable(field->name).text,
                               asked[i] == PART_MESSAGES ? "not a list of messages" : "not a text");
        }
    }
    return mt_row_fail(row, "the row is not of the form %s", forms[form].name);
}

static enum mt_status add_text(struct mt_conversation *conversation, enum mt_role role,
                               const struct mt_row_field *field)
{
    const struct mt_turn turn = {.role = role, .text = field->text, .bytes = field->bytes};
    return mt_conversation_add(conversation, &turn);
}

/* A field that is a text, said by `role`, or a list of messages. */
static enum mt_status read_part(const struct mt_row *row, const struct mt_row_field *field, enum mt_role role,
                                struct mt_conversation *conversation)
{
    struct mt_json_node list = {0};
    if (field->kind == MT_FIELD_TEXT) return add_text(conversation, role, field);
    if (!mt_row_value(row, field->name, &list))
        return mt_row_fail(row, "the field '%s' is not a list of messages", mt_printable(field->name).text);
    return mt_conversation_read(conversation, row, &list);
}

/* Something asked, with an input perhaps, and the answer. */
static enum mt_status read_pair(const struct mt_example_source *source, const struct mt_row *row,
                                enum mt_example_form form, struct mt_conversation *conversation)
{
    const struct mt_row_field *asked = find_part(source, row, forms[form].asked);
    const struct mt_row_field *answered = find_part(source, row, forms[form].answered);
    const struct mt_row_field *input = NULL;
    if (forms[form].input != PART_NONE) input = find_part(source, row, forms[form].input);
    if (input != NULL && input->kind != MT_FIELD_TEXT) {
        return mt_row_fail(row, "the field '%s' is not a text", mt_printable(input->name).text);
    }
    enum mt_status status = read_part(row, asked, MT_ROLE_USER, conversation);
    if (status != MT_OK) return status;
    if (input != NULL && input->bytes > 0) {
        struct mt_turn *user = &conversation->turns[conversation->count - 1];
        user->input = input->text;
        user->input_bytes = input->bytes;
    }
    for (size_t i = 0; i < conversation->count; i++) conversation->turns[i].context = true;
    return read_part(row, answered, MT_ROLE_ASSISTANT, conversation);
}

/* The column of `tools`; where what is asked is a list of messages, also older files' `functions`. */
static enum mt_status read_tools(const struct mt_example_source *source, const struct mt_row *row,
                                 const struct mt_row_field *asked, struct mt_conversation *conversation)
{
    const struct mt_row_field *tools = find_part(source, row, PART_TOOLS);
    enum mt_status status = MT_OK;
    if (tools != NULL) status = mt_conversation_read_tools(conversation, row, tools->name);
    if (status != MT_OK || conversation->tools != NULL || asked->kind == MT_FIELD_TEXT) return status;
    return mt_conversation_read_tools(conversation, row, "functions");
}

/* Without a turn to train on there is nothing to learn. */
static enum mt_status check_answers(const struct mt_row *row, const struct mt_conversation *conversation)
{
    bool answered = false;
    for (size_t i = 0; i < conversation->count; i++) {
        const struct mt_turn *turn = &conversation->turns[i];
        if (turn->role != MT_ROLE_ASSISTANT) continue;
        if (!turn->context) return MT_OK;
        answered = true;
    }
    return mt_row_fail(row, "%s: there is nothing to learn",
                       answered ? "every answer is a prompt's or has the weight 0"
                                : "no message is an assistant's");
}

enum mt_status mt_form_read(const struct mt_example_source *source, const struct mt_row *row,
                            struct mt_conversation *conversation, const struct mt_row_field **text)
{
    int form = (int)source->form;
    *text = NULL;
    mt_conversation_clear(conversation);
    if (form == MT_FORM_AUTO) {
        form = find_form(source, row, true);
        if (form == MT_FORMS) form = find_form(source, row, false);
        if (form == MT_FORMS) return fail_without_form(row);
    }
    if (!has_form(source, row, (enum mt_example_form)form, true)) {
        return fail_of_form(source, row, (enum mt_example_form)form);
    }
    if (form == MT_FORM_TEXT) {
        *text = find_part(source, row, PART_TEXT);
        return MT_OK;
    }
    const struct mt_row_field *system = find_part(source, row, PART_SYSTEM);
    const struct mt_row_field *asked = find_part(source, row, forms[form].asked);
    enum mt_status status = MT_OK;
    if (system != NULL && system->kind == MT_FIELD_TEXT && system->bytes > 0)
        status = add_text(conversation, MT_ROLE_SYSTEM, system);
    if (status == MT_OK) status = read_tools(source, row, asked, conversation);
    if (status != MT_OK) return status;
    status = form == MT_FORM_MESSAGES ? read_part(row, asked, MT_ROLE_USER, conversation)
                                      : read_pair(source, row, (enum mt_example_form)form, conversation);
    return status == MT_OK ? check_answers(row, conversation) : status;
}
