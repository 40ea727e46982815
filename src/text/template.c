/* Writing a conversation out: which texts of the template stand where, and what is trained on. */
#include "text/template.h"

#include <string.h>

#include "text/template_parts.h"

void mt_piece_list_free(struct mt_piece_list *pieces)
{
    mt_release(pieces->ctx, pieces->data, pieces->capacity * sizeof *pieces->data);
    *pieces = (struct mt_piece_list){.ctx = pieces->ctx};
}

/* A rendering under way; after a failure the rest does nothing. */
struct rendering {
    const struct mt_chat_template *template;
    struct mt_piece_list *pieces;
    enum mt_status status;
};

static void add_pieces(struct rendering *r, const struct mt_piece *pieces, size_t count, bool trained)
{
    if (r->status != MT_OK || count == 0) return;
    void *data = r->pieces->data;
    r->status = mt_list_reserve(r->pieces->ctx, &data, &r->pieces->capacity, sizeof *r->pieces->data,
                                r->pieces->count + count);
    r->pieces->data = data;
    if (r->status != MT_OK) return;
    for (size_t i = 0; i < count; i++) {
        r->pieces->data[r->pieces->count] = pieces[i];
        r->pieces->data[r->pieces->count++].trained = trained;
    }
}

/* What the template says for a key; nothing when it does not. */
static void add_key(struct rendering *r, enum mt_chat_template_key key, bool trained)
{
    const struct mt_chat_template_text *text = &r->template->texts[key];
    if (text->given) add_pieces(r, r->template->pieces.data + text->first, text->count, trained);
}

static bool is_space(char byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* What a message says, trimmed where the template wants that. */
static void add_content(struct rendering *r, const char *text, size_t bytes, bool trained)
{
    if (r->template->trim) {
        while (bytes > 0 && is_space(text[bytes - 1])) bytes--;
        while (bytes > 0 && is_space(text[0])) {
            text++;
            bytes--;
        }
    }
    const struct mt_piece piece = {.kind = MT_PIECE_CONTENT, .text = text, .bytes = bytes};
    if (bytes > 0) add_pieces(r, &piece, 1, trained);
}

/* The system message of a conversation that brings none. */
static void add_default_system(struct rendering *r, const struct mt_turn *turns, size_t count)
{
    enum mt_chat_template_key key = MT_KEY_SYSTEM_DEFAULT;
    bool with_input = count > 0 && turns[0].role == MT_ROLE_USER && turns[0].input != NULL;
    if (with_input && r->template->texts[MT_KEY_SYSTEM_DEFAULT_WITH_INPUT].given) {
        key = MT_KEY_SYSTEM_DEFAULT_WITH_INPUT;
    }
    if (!r->template->texts[key].given) return;
    add_key(r, MT_KEY_SYSTEM_BEFORE, false);
    add_key(r, key, false);
    add_key(r, MT_KEY_SYSTEM_AFTER, false);
}

static void add_user(struct rendering *r, const struct mt_turn *turn, const struct mt_turn *joined_system)
{
    add_key(r, MT_KEY_USER_BEFORE, false);
    if (joined_system != NULL) {
        add_content(r, joined_system->text, joined_system->bytes, false);
        add_key(r, MT_KEY_SYSTEM_JOIN, false);
    }
    add_content(r, turn->text, turn->bytes, false);
    if (turn->input != NULL) {
        add_key(r, MT_KEY_INPUT_JOIN, false);
        add_content(r, turn->input, turn->input_bytes, false);
    }
    add_key(r, MT_KEY_USER_AFTER, false);
}

static void add_assistant(struct rendering *r, const struct mt_turn *turn, bool last)
{
    bool trained = !turn->context;
    add_key(r, MT_KEY_ASSISTANT_PROMPT, false);
    add_key(r, MT_KEY_ASSISTANT_START, trained);
    add_content(r, turn->text, turn->bytes, trained);
    add_key(r, MT_KEY_ASSISTANT_END, trained);
    add_key(r, MT_KEY_ASSISTANT_AFTER, false);
    if (!last) add_key(r, MT_KEY_ASSISTANT_BETWEEN, false);
}

enum mt_status mt_chat_template_render(const struct mt_chat_template *template, const struct mt_turn *turns,
                                       size_t count, bool generate, struct mt_piece_list *pieces)
{
    struct rendering r = {.template = template, .pieces = pieces};
    const struct mt_turn *joined_system = NULL; // waits for the user's message it is put in front of
    add_key(&r, MT_KEY_START, false);
    if (count == 0 || turns[0].role != MT_ROLE_SYSTEM) add_default_system(&r, turns, count);
    for (size_t i = 0; i < count && r.status == MT_OK; i++) {
        const struct mt_turn *turn = &turns[i];
        bool last = i + 1 == count && !generate;
        if (turn->calls || turn->role == MT_ROLE_TOOL) {
            return mt_fail(pieces->ctx, MT_ERR_USAGE, "%s has no place for %s", template->name,
                           turn->calls ? "calls of tools" : "answers of tools");
        }
        if (turn->role == MT_ROLE_USER) {
            add_user(&r, turn, joined_system);
            joined_system = NULL;
        } else if (turn->role == MT_ROLE_ASSISTANT) {
            add_assistant(&r, turn, last);
        } else if (template->texts[MT_KEY_SYSTEM_BEFORE].given) {
            add_key(&r, MT_KEY_SYSTEM_BEFORE, false);
            add_content(&r, turn->text, turn->bytes, false);
            add_key(&r, MT_KEY_SYSTEM_AFTER, false);
        } else if (template->texts[MT_KEY_SYSTEM_JOIN].given && i + 1 < count &&
                   turns[i + 1].role == MT_ROLE_USER) {
            joined_system = turn;
        } else {
            return mt_fail(pieces->ctx, MT_ERR_USAGE, "%s has no place for this system message",
                           template->name);
        }
    }
    add_key(&r, generate ? MT_KEY_ASSISTANT_PROMPT : MT_KEY_FINISH, false);
    return r.status;
}

enum mt_status mt_chat_template_render_text(const struct mt_chat_template *template, const char *text,
                                            size_t bytes, struct mt_piece_list *pieces)
{
    const struct mt_piece content = {.kind = MT_PIECE_CONTENT, .text = text, .bytes = bytes};
    const struct mt_piece eos = {.kind = MT_PIECE_EOS, .text = ""};
    struct rendering r = {.template = template, .pieces = pieces};
    add_key(&r, MT_KEY_START, false);
    add_pieces(&r, &content, bytes > 0 ? 1 : 0, true);
    if (template->texts[MT_KEY_TEXT_END].given) {
        add_key(&r, MT_KEY_TEXT_END, true);
    } else {
        add_pieces(&r, &eos, 1, true);
    }
    return r.status;
}
