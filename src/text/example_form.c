/* What the fields of a row mean: the table of forms, the mapping of names, and the turns that come of them.
 */
#include "text/example_form.h"

#include <string.h>

#include "formats/printable.h"

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

const char *mt_example_form_name(enum mt_example_form form)
{
    return forms[form].name;
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
                       "output, prompt, completion, question, answer and text",
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

static bool has_form(const struct mt_example_source *source, const struct mt_row *row,
                     enum mt_example_form form)
{
    const struct mt_row_field *asked = find_part(source, row, forms[form].asked);
    enum mt_field_kind kind = form == MT_FORM_MESSAGES ? MT_FIELD_MESSAGES : MT_FIELD_TEXT;
    if (asked == NULL || asked->kind != kind) return false;
    if (forms[form].answered == PART_NONE) return true;
    const struct mt_row_field *answered = find_part(source, row, forms[form].answered);
    return answered != NULL && answered->kind == MT_FIELD_TEXT;
}

static enum mt_status add_turn(struct mt_turn_list *turns, const struct mt_turn *turn)
{
    void *data = turns->data;
    enum mt_status status =
        mt_list_reserve(turns->ctx, &data, &turns->capacity, sizeof *turns->data, turns->count + 1);
    turns->data = data;
    if (status == MT_OK) turns->data[turns->count++] = *turn;
    return status;
}

static enum mt_status read_messages(const struct mt_row *row, const struct mt_row_field *field,
                                    struct mt_turn_list *turns)
{
    if (field->message_count == 0) return mt_row_fail(row, "the list of messages is empty");
    enum mt_status status = MT_OK;
    for (size_t i = 0; status == MT_OK && i < field->message_count; i++) {
        const struct mt_row_message *message = &row->messages[field->first_message + i];
        const struct mt_turn turn = {
            .role = mt_role_named(message->role), .text = message->text, .bytes = message->bytes};
        if (turn.role == MT_ROLES) {
            return mt_row_fail(row, "message %zu has the role '%s'; roles are system, user and assistant",
                               i + 1, mt_printable(message->role).text);
        }
        status = add_turn(turns, &turn);
    }
    return status;
}

/* Something asked, with an input perhaps, and the answer. */
static enum mt_status read_pair(const struct mt_example_source *source, const struct mt_row *row,
                                enum mt_example_form form, struct mt_turn_list *turns)
{
    const struct mt_row_field *asked = find_part(source, row, forms[form].asked);
    const struct mt_row_field *answered = find_part(source, row, forms[form].answered);
    const struct mt_row_field *input = NULL;
    if (forms[form].input != PART_NONE) input = find_part(source, row, forms[form].input);
    if (input != NULL && input->kind != MT_FIELD_TEXT) {
        return mt_row_fail(row, "the field '%s' is no text", mt_printable(input->name).text);
    }
    struct mt_turn user = {.role = MT_ROLE_USER, .text = asked->text, .bytes = asked->bytes};
    if (input != NULL && input->bytes > 0) {
        user.input = input->text;
        user.input_bytes = input->bytes;
    }
    const struct mt_turn assistant = {
        .role = MT_ROLE_ASSISTANT, .text = answered->text, .bytes = answered->bytes};
    enum mt_status status = add_turn(turns, &user);
    return status == MT_OK ? add_turn(turns, &assistant) : status;
}

enum mt_status mt_form_read(const struct mt_example_source *source, const struct mt_row *row,
                            struct mt_turn_list *turns, const struct mt_row_field **text)
{
    int form = (int)source->form;
    *text = NULL;
    turns->count = 0;
    if (form == MT_FORM_AUTO) {
        for (form = 1; form < MT_FORMS && !has_form(source, row, (enum mt_example_form)form);) form++;
        if (form == MT_FORMS) {
            return mt_row_fail(row,
                               "the fields of the row are of no known form (messages; instruction, output; "
                               "prompt, completion; question, answer; text); a mapping can name them");
        }
    } else if (!has_form(source, row, source->form)) {
        bool pair = forms[form].answered != PART_NONE;
        return mt_row_fail(row, "the row lacks the %s%s%s of the form %s, or it is no %s",
                           parts[forms[form].asked].name, pair ? " or the " : "",
                           pair ? parts[forms[form].answered].name : "", forms[form].name,
                           form == MT_FORM_MESSAGES ? "list of messages" : "text");
    }
    if (form == MT_FORM_TEXT) {
        *text = find_part(source, row, PART_TEXT);
        return MT_OK;
    }
    const struct mt_row_field *system = find_part(source, row, PART_SYSTEM);
    enum mt_status status = MT_OK;
    if (system != NULL && system->kind == MT_FIELD_TEXT && system->bytes > 0) {
        const struct mt_turn turn = {.role = MT_ROLE_SYSTEM, .text = system->text, .bytes = system->bytes};
        status = add_turn(turns, &turn);
    }
    if (status != MT_OK) return status;
    if (form == MT_FORM_MESSAGES) return read_messages(row, find_part(source, row, PART_MESSAGES), turns);
    return read_pair(source, row, (enum mt_example_form)form, turns);
}
