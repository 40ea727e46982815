/* Rows by what they ask. */
#include "text/row_identity.h"

#include "text/example_maker.h"

void mt_row_identifier_init(struct mt_context *ctx, struct mt_row_identifier *identifier)
{
    *identifier = (struct mt_row_identifier){.conversation = {.ctx = ctx}, .text = {.ctx = ctx}};
}

void mt_row_identifier_free(struct mt_row_identifier *identifier)
{
    mt_conversation_free(&identifier->conversation);
    mt_byte_list_free(&identifier->text);
}

/* What has been said so far is what is asked, if it is anything. */
static void note_asked(const struct mt_byte_list *text, struct mt_row_identity *identity, bool *asked)
{
    *asked = text->count > 0;
    if (*asked) identity->asked = mt_row_hash(text->data, text->count);
}

static void note_all(const struct mt_byte_list *text, bool asked, struct mt_row_identity *identity)
{
    identity->all = mt_row_hash(text->data, text->count);
    if (!asked) identity->asked = identity->all;
}

static enum mt_status append_turn(struct mt_byte_list *text, const struct mt_turn *turn)
{
    enum mt_status status = mt_row_text_append(text, turn->text, turn->bytes);
    if (status == MT_OK && turn->input != NULL)
        status = mt_row_text_append(text, turn->input, turn->input_bytes);
    return status;
}

enum mt_status mt_row_identify(struct mt_row_identifier *identifier, const struct mt_example_source *source,
                               const struct mt_row *row, struct mt_row_identity *identity)
{
    const struct mt_row_field *whole = NULL;
    const struct mt_conversation *conversation = &identifier->conversation;
    struct mt_byte_list *text = &identifier->text;
    bool asked = false;
    size_t last = 0;
    text->count = 0;
    enum mt_status status = mt_form_read(source, row, &identifier->conversation, &whole);
    if (status == MT_OK && whole != NULL) status = mt_row_text_append(text, whole->text, whole->bytes);
    size_t turns = whole != NULL ? 0 : conversation->count;
    for (size_t i = 0; i < turns; i++) {
        if (conversation->turns[i].role == MT_ROLE_ASSISTANT) last = i;
    }
    for (size_t i = 0; i < turns && status == MT_OK; i++) {
        if (i == last) note_asked(text, identity, &asked);
        status = append_turn(text, &conversation->turns[i]);
    }
    if (status == MT_OK) note_all(text, asked, identity);
    return status;
}

enum mt_status mt_row_identify_pair(struct mt_row_identifier *identifier, const char *question,
                                    size_t question_bytes, const char *answer, size_t answer_bytes,
                                    struct mt_row_identity *identity)
{
    struct mt_byte_list *text = &identifier->text;
    bool asked = false;
    text->count = 0;
    enum mt_status status = mt_row_text_append(text, question, question_bytes);
    if (status == MT_OK) note_asked(text, identity, &asked);
    if (status == MT_OK) status = mt_row_text_append(text, answer, answer_bytes);
    if (status == MT_OK) note_all(text, asked, identity);
    return status;
}

bool mt_row_hashes_know(const struct mt_row_hashes *set, const struct mt_row_identity *identity)
{
    return mt_row_hashes_has(set, identity->asked) || mt_row_hashes_has(set, identity->all);
}

// ------------------------------------------------------------------ files of rows

/* Every row of a file, one after the other. */
struct visiting {
    struct mt_dataset *rows;
    struct mt_row row;
    struct mt_row_identifier identifier;
    struct mt_row_identity identity; // of the row at hand
    uint64_t next;
};

static enum mt_status visit_open(struct mt_context *ctx, const char *path, struct visiting *visiting)
{
    static const struct mt_dataset_options options = {0};
    *visiting = (struct visiting){0};
    mt_row_init(ctx, &visiting->row);
    mt_row_identifier_init(ctx, &visiting->identifier);
    return mt_dataset_open(ctx, path, &options, &visiting->rows);
}

static void visit_close(struct visiting *visiting)
{
    mt_row_identifier_free(&visiting->identifier);
    mt_row_free(&visiting->row);
    mt_dataset_close(visiting->rows);
}

static enum mt_status visit_next(struct visiting *visiting)
{
    static const struct mt_example_source source = {.form = MT_FORM_AUTO};
    enum mt_status status = mt_dataset_read(visiting->rows, visiting->next++, &visiting->row);
    if (status != MT_OK) return status;
    return mt_row_identify(&visiting->identifier, &source, &visiting->row, &visiting->identity);
}

enum mt_status mt_row_hashes_add_file(struct mt_row_hashes *set, const char *path)
{
    struct visiting visiting;
    if (mt_row_hashes_is_file(path)) return mt_row_hashes_read(set, path);
    enum mt_status status = visit_open(set->ctx, path, &visiting);
    uint64_t count = status == MT_OK ? mt_dataset_rows(visiting.rows) : 0;
    if (status == MT_OK && count == 0) status = mt_fail(set->ctx, MT_ERR_USAGE, "%s: has no rows", path);
    for (uint64_t i = 0; i < count && status == MT_OK; i++) {
        status = visit_next(&visiting);
        if (status == MT_OK) status = mt_row_hashes_add(set, visiting.identity.asked, NULL);
    }
    visit_close(&visiting);
    return status;
}

enum mt_status mt_row_hashes_add_files(struct mt_row_hashes *set, const char *const *paths)
{
    enum mt_status status = MT_OK;
    for (; paths != NULL && *paths != NULL && status == MT_OK; paths++)
        status = mt_row_hashes_add_file(set, *paths);
    return status;
}

enum mt_status mt_row_hashes_count(const struct mt_row_hashes *set, const char *path,
                                   struct mt_rows_known *known)
{
    struct visiting visiting;
    *known = (struct mt_rows_known){0};
    enum mt_status status = visit_open(set->ctx, path, &visiting);
    if (status == MT_OK) known->rows = mt_dataset_rows(visiting.rows);
    for (uint64_t i = 0; i < known->rows && status == MT_OK; i++) {
        status = visit_next(&visiting);
        bool found = status == MT_OK && mt_row_hashes_know(set, &visiting.identity);
        if (status == MT_ERR_FORMAT) status = MT_OK; // training skips it, or names it
        if (!found || known->known++ > 0) continue;
        const struct mt_byte_list *text = &visiting.identifier.text;
        known->example = mt_printable_bytes((const char *)text->data, text->count);
        known->line = visiting.row.line;
    }
    visit_close(&visiting);
    return status;
}
