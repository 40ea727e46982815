/*
 * The form texts have when a model is asked: which template writes a prompt out, how answers begin, and why
 * it is this form. A run writes down the form it trained with, in its own folder and in every adapter and
 * model that comes of it (MT_TEXT_FORM_FILE), so that the text that is evaluated is the text that was trained
 * on. Everything that asks a model finds its form here.
 *
 *     text_form        1: the version of this file
 *     template         what people call it: "plain"; "model": the model's own chat template
 *     options, date    that it was told: "enable_thinking=false", "2024-07-26"
 *     rows             "answers"; "texts": whole texts, which no template asks for; or "both"
 *     bos              how whole texts began: "yes", "no", "tokenizer"
 *     space            true: answers began with a space
 *
 * The template itself is in chat_template.jinja beside it. A record of a version that had files of keys has
 * the text of one, `keys`: then the template is the one of that name that comes along.
 *
 * The file comes along with downloaded folders: what makes no sense in it is refused with a sentence.
 */
#ifndef MT_TEXT_TEXT_FORM_H
#define MT_TEXT_TEXT_FORM_H

#include "base/arena.h"
#include "formats/text/json_text.h"
#include "text/plain_text.h"
#include "text/template.h"

#define MT_TEXT_FORM_FILE "text_form.json"
#define MT_TEXT_FORM_NONE "none" // the name of plain texts

/* Texts are in the arena it was found or copied with. */
struct mt_text_form {
    const char *name;     // what people call it: "plain", "model", "none"
    const char *template; // as struct mt_template_choice has it; NULL: messages cannot be written out
    const char *options;  // of the template; NULL: none
    const char *date;     // that it is told; NULL: today's
    bool talks;           // a prompt is what a user says; else a text to go on from
    bool spaced;          // answers begin with a space
    enum mt_bos_rule bos; // of texts to go on from
    const char *why;      // "the run was trained with it"
    const char *trained;  // the form the run was trained in, by name; NULL: not known
    const char *record;   // the file that says so; NULL: none
};

/* Who is asked, and what somebody wants; all borrowed. */
struct mt_form_request {
    const char *model;   // folder of the model, or of its tokenizer
    const char *adapter; // folder; NULL: none
    const char *given;   // what somebody named: a template, "model", "none"; NULL: nobody did
    const char *by;      // who, as a reason: "--template says so"
    const char *options; // that somebody gave; NULL: none
    const char *date;    // that templates are told, if no record says otherwise; NULL: today's
    const char *fixed;   // the form that a task's file fixes; NULL: it leaves that open
    bool own;            // where nothing is known: the model's own chat template, if it has one
    bool to_train;       // `given` is what a run trains with: "model" without a template is `plain`
};

/*
 * Which form, and why: what somebody gave; else what the task fixes; else what the run was trained with (the
 * record of the adapter, without one of the model; of the run's folder; its config.yaml, where the run is
 * older than records; the chat template that an adapter brings); else, if `own`, the model's own chat
 * template; else plain texts. "model", given, is the form it was trained with, else its own template, else
 * `plain`. Texts are in the arena.
 */
enum mt_status mt_text_form_find(struct mt_arena *arena, const struct mt_form_request *request,
                                 struct mt_text_form *form);

/* A form's name for people: that of a file without its folder. */
const char *mt_text_form_short(const char *name);

/* True when a form is another one than the run was trained with, as far as that is known. */
bool mt_text_form_differs(const struct mt_text_form *form);

#define MT_FORM_SENTENCE_BYTES 512

/* "put as none (the task fixes its text), and the run was trained as plain"; NULL: it does not differ. */
const char *mt_text_form_warning(const struct mt_text_form *form, char sentence[MT_FORM_SENTENCE_BYTES]);

/* Opens its template; NULL where it has none. `folder`: those that come along; `model` as in the request. */
enum mt_status mt_text_form_open(struct mt_context *ctx, const struct mt_text_form *form, const char *folder,
                                 const char *model, struct mt_chat_template **template);

enum mt_status mt_text_form_copy(struct mt_arena *arena, const struct mt_text_form *from,
                                 struct mt_text_form *to);

// ------------------------------------------------------------------ the record

/* What a run trained with. */
struct mt_form_record {
    const char *name;    // of the template; NULL: there is no record
    const char *options; // NULL: none
    const char *date;    // NULL: none
    bool keys;           // the template was a file of keys, which only older versions write
    bool answers, texts; // what rows held
    bool spaced;
    enum mt_bos_rule bos; // of whole texts
};

/* How a whole text begins that an example was made of: with the token that begins texts, or without. */
enum mt_bos_rule mt_example_beginning(const struct mt_example *example, const struct mt_special_ids *special);

/* The record as a file holds it, appended. */
enum mt_status mt_form_record_put(struct mt_json_text *text, const struct mt_form_record *record);

/* Reads FOLDER/text_form.json into the arena; one that is not there has no name. */
enum mt_status mt_form_record_read(struct mt_arena *arena, const char *folder, struct mt_form_record *record,
                                   const char **path);

#endif
