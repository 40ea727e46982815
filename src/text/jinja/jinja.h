/*
 * Chat templates as models publish them: the part of Jinja they use, with the meaning it has in transformers'
 * apply_chat_template (jinja2 3.1, trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson as
 * json.dumps, raise_exception, strftime_now). What is not known here is refused by name and line.
 *
 *     struct mt_jinja_values *values;                  // the variables of a rendering
 *     mt_jinja_values_create(ctx, &values);
 *     bos = mt_jinja_string(values, "<s>", 3, MT_JINJA_TRUSTED);
 *     mt_jinja_values_set(values, "bos_token", bos);
 *     ...                                              // messages, tools, add_generation_prompt
 *     mt_jinja_render(template, values, &options, &output);
 *
 * A variable that is not set is undefined, which differs from none: transformers sets tools and documents to
 * none where there are none.
 *
 * Marks. Every byte of a string carries a mark: MT_JINJA_TRUSTED for what the template says and what the
 * caller vouches for (bos_token, the name of a role it knows), otherwise a number of the caller's choice, for
 * example 1 + the number of the message. Marks follow bytes through concatenation, slices, trim, replace,
 * split, join, case mapping, tojson and all else, so the output says which bytes came from where: special
 * tokens are meant in trusted bytes alone, and the words of a message can be found in the text.
 *
 * Everything is bounded: nesting, steps, output, memory. A template that asks for more is refused.
 */
#ifndef MT_TEXT_JINJA_JINJA_H
#define MT_TEXT_JINJA_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "formats/text/json.h"
#include "metier/context.h"

struct mt_jinja;        // a parsed template; opaque; does not change once parsed
struct mt_jinja_values; // variables, and the memory of all values made for them; opaque

#define MT_JINJA_TRUSTED   0
#define MT_JINJA_MARK_LAST 0x3FFF // the largest mark

/* Parses `bytes` of UTF-8; `name` stands in messages ("NAME, line 3: ..."). The caller frees. MT_ERR_FORMAT
 * where jinja2 has a syntax error, MT_ERR_UNSUPPORTED for what is not known here. */
enum mt_status mt_jinja_parse(struct mt_context *ctx, const char *name, const char *text, size_t bytes,
                              struct mt_jinja **template);
void mt_jinja_free(struct mt_jinja *template); // NULL is allowed

/* True when the template has {% generation %} blocks: it says itself what is an assistant's. */
bool mt_jinja_has_generation(const struct mt_jinja *template);

// ------------------------------------------------------------------ values

/* Text whose bytes carry marks. */
struct mt_marked {
    const char *text;      // UTF-8; not terminated
    const uint16_t *marks; // one a byte; NULL: all trusted
    size_t bytes;
};

/* A value; made by the functions below, which own what it points to until mt_jinja_values_free. */
struct mt_value {
    int kind;  // 0: none was made
    bool safe; // a string that went through the filter safe or escape: adding to it escapes (run.h)
    union {
        bool truth;
        int64_t integer;
        double real;
        struct mt_marked string;
        void *object;
        const void *function;
    };
};

/*
 * Making values fails once: the first failure is kept with the variables, everything after it gives none, and
 * mt_jinja_values_status tells, as does rendering.
 */
enum mt_status mt_jinja_values_create(struct mt_context *ctx, struct mt_jinja_values **values);
enum mt_status mt_jinja_values_status(const struct mt_jinja_values *values);
void mt_jinja_values_free(struct mt_jinja_values *values); // NULL is allowed

/* Sets a variable of the template, replacing one of that name; the name is copied. */
void mt_jinja_values_set(struct mt_jinja_values *values, const char *name, struct mt_value value);

struct mt_value mt_jinja_none(void);
struct mt_value mt_jinja_bool(bool truth);
struct mt_value mt_jinja_integer(int64_t integer);
struct mt_value mt_jinja_real(double real);

/* A string; the text is copied, with invalid UTF-8 repaired. */
struct mt_value mt_jinja_string(struct mt_jinja_values *values, const char *text, size_t bytes,
                                unsigned mark);

/* An empty list or dictionary, and what goes in it. A key is trusted text; one that is there already gets the
 * new value. */
struct mt_value mt_jinja_list(struct mt_jinja_values *values);
void mt_jinja_list_append(struct mt_jinja_values *values, struct mt_value list, struct mt_value item);
struct mt_value mt_jinja_dict(struct mt_jinja_values *values);
void mt_jinja_dict_set(struct mt_jinja_values *values, struct mt_value dict, const char *key,
                       struct mt_value value);

/* Everything below a node of JSON, in the order of the file; all its strings, keys too, have the mark. */
struct mt_value mt_jinja_from_json(struct mt_jinja_values *values, const struct mt_json_node *node,
                                   unsigned mark);

// ------------------------------------------------------------------ rendering

struct mt_jinja_limits { // 0: the usual one
    size_t steps;        // operations of the evaluation; usually 20 million
    size_t output_bytes; // usually 64 MB
    size_t memory_bytes; // of all values made on the way; usually 512 MB
};

struct mt_jinja_options {
    const struct tm *now; // what strftime_now writes; NULL: a template that asks is refused
    struct mt_jinja_limits limits;
};

/* A stretch of the output, start <= bytes < end. */
struct mt_jinja_span {
    size_t start;
    size_t end;
    unsigned mark;
};

/* The text; owned, freed by mt_jinja_output_free. */
struct mt_jinja_output {
    struct mt_context *ctx; // set by mt_jinja_render
    char *text;             // valid UTF-8, terminated
    size_t bytes;
    struct mt_jinja_span *marks; // all of the text, in order, neighbours differing in their mark
    size_t mark_count;
    struct mt_jinja_span *generations; // what each {% generation %} block wrote, in order; mark: 0
    size_t generation_count;
};

/*
 * Renders. MT_ERR_USAGE with "the chat template refuses this conversation: ..." when the template calls
 * raise_exception; MT_ERR_FORMAT where jinja2 would raise an error; MT_ERR_UNSUPPORTED for what is not known
 * here and for limits. After a failure there is nothing to free. A template may be rendered by several
 * threads, each with values and an output of its own; messages go to the context of the values.
 */
enum mt_status mt_jinja_render(const struct mt_jinja *template, const struct mt_jinja_values *values,
                               const struct mt_jinja_options *options, struct mt_jinja_output *output);
void mt_jinja_output_free(struct mt_jinja_output *output); // a zeroed one is allowed

#endif
