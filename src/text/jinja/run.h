/*
 * A rendering under way: its memory, its limits, its variables, and the values only it makes. Values live in
 * the rendering's arena until it ends; text shares memory with what it was cut from.
 *
 * A rendering fails once: the first failure is kept in the run with its sentence, and from there on nothing
 * is done. Functions then give none, false, an empty text or an empty list, never NULL, so that what calls
 * them need not ask. Loops that may be long or that wait for something ask mt_jinja_failed.
 */
#ifndef MT_TEXT_JINJA_RUN_H
#define MT_TEXT_JINJA_RUN_H

#include "base/arena.h"
#include "text/jinja/library/unicode.h"
#include "text/jinja/marked.h"
#include "text/jinja/parse/ast.h"

#define JINJA_TWO_63      9223372036854775808.0 // the first real beyond all integers
#define JINJA_CALL_DEPTH  600    // expressions, blocks and macros in one another, while rendering
#define JINJA_VALUE_DEPTH 100    // lists and dictionaries in one another, when written or compared
#define JINJA_GENERATED   0x8000 // set in marks of what a generation block wrote
#define JINJA_SECOND      0x4000 // and of every second one, to tell neighbours apart
#define JINJA_PARAMETERS  4      // of a function of the library, at most

struct jinja_run;

struct jinja_list {
    struct mt_value *items;
    size_t count;
    size_t capacity;
};

struct jinja_pair {
    struct mt_value key;
    struct mt_value value;
};

struct jinja_dict {
    struct jinja_pair *pairs;
    size_t count;
    size_t capacity;
};

struct jinja_view {
    struct jinja_list list;
    const char *name; // "dict_items"
};

struct jinja_range {
    int64_t start;
    int64_t stop;
    int64_t step;
};

/* A generator is made at once, but fails only where it is walked that far, as in Python. */
struct jinja_iterator {
    struct jinja_list list;
    size_t next;
    enum mt_status failure; // behind the last item; MT_OK: none
    const char *message;
};

struct jinja_variable {
    struct jinja_variable *next;
    struct mt_marked name;
    struct mt_value value;
};

struct jinja_scope {
    struct jinja_scope *outer; // NULL: the variables of the caller
    struct jinja_variable *variables;
};

struct jinja_loop {
    const struct jinja_node *node; // FOR
    struct jinja_scope *scope;     // in which the loop stands
    struct jinja_list items;
    size_t index;
    int64_t depth;
    bool has_changed;
    struct mt_value changed; // the last arguments of loop.changed
};

struct jinja_macro {
    const struct jinja_node *node; // MACRO_DEF or CALL_BLOCK
    struct jinja_scope *scope;     // in which it was defined
};

struct jinja_cycler {
    struct jinja_list items;
    size_t position;
};

struct jinja_joiner {
    struct mt_value separator;
    bool used;
};

struct jinja_keyword {
    struct mt_marked name;
    struct mt_value value;
};

struct jinja_arguments {
    const struct mt_value *items;
    size_t count;
    const struct jinja_keyword *keywords;
    size_t keyword_count;
};

struct jinja_call;

/* A filter, method or function of the library. */
struct jinja_function {
    const char *name;
    struct mt_value (*call)(const struct jinja_call *call); // NULL: known to Python or jinja2, refused here
    const char *parameters[JINJA_PARAMETERS];
    int required;   // the first of them must be given; JINJA_OWN_ARGUMENTS: it reads its arguments itself
    int variant;    // for what shares a function: which of them this is
    bool generates; // the list it gives is walked once: a generator in jinja2
};
#define JINJA_OWN_ARGUMENTS (-1)

/* One call of it. */
struct jinja_call {
    struct jinja_run *run;
    const struct jinja_function *function;
    struct mt_value subject;                 // of a filter or a method
    const struct jinja_arguments *arguments; // as they were given
    struct mt_value bound[JINJA_PARAMETERS]; // by parameter; ABSENT: not given
};

struct jinja_method {
    struct mt_value subject;
    const struct jinja_function *function;
};

/* Text being put together; marks are there from the first byte that has one. */
struct jinja_builder {
    struct jinja_run *run;
    char *text;
    uint16_t *marks;
    size_t bytes;
    size_t capacity;
};

enum jinja_flow { JINJA_GOES_ON, JINJA_BREAKS, JINJA_CONTINUES };

struct jinja_run {
    struct mt_context *ctx;
    const struct mt_jinja *template;
    const struct mt_jinja_options *options;
    enum mt_status status; // the first failure
    struct mt_arena arena;
    size_t memory_left;
    size_t steps_left;
    int depth;
    int line; // of what is being evaluated
    enum jinja_flow flow;
    bool second; // the last generation block was one
    struct jinja_scope *scope;
    struct jinja_builder *out; // where output goes now
    struct jinja_list no_list; // stand for those a failed rendering cannot make
    struct jinja_dict no_dict;
};

/* The caller's variables. */
struct mt_jinja_values {
    struct jinja_run run; // without limits: makes the values, keeps the first failure
    struct jinja_scope scope;
};

static inline bool mt_jinja_failed(const struct jinja_run *run)
{
    return run->status != MT_OK;
}

// ------------------------------------------------------------------ run.c: limits, memory, messages

/* Records "NAME, line N: MESSAGE" if nothing failed before. Gives none, for functions that give a value. */
struct mt_value mt_jinja_fail(struct jinja_run *run, enum mt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* MT_ERR_FORMAT, "'x' is undefined". */
struct mt_value mt_jinja_fail_undefined(struct jinja_run *run, struct mt_value value);
struct mt_value mt_jinja_fail_memory(struct jinja_run *run);  // "the template takes too much memory"
struct mt_value mt_jinja_fail_integer(struct jinja_run *run); // "an integer does not fit 64 bits"

void mt_jinja_spend(struct jinja_run *run, size_t steps);
void *mt_jinja_allocate(struct jinja_run *run, size_t bytes); // zeroed; NULL: it failed
// One deeper and back, in pairs also when entering fails, as it does when it is too deep.
bool mt_jinja_enter_run(struct jinja_run *run);
void mt_jinja_leave_run(struct jinja_run *run);
/* Whether a value `depth` containers deep may still be looked at; fails otherwise. */
bool mt_jinja_check_depth(struct jinja_run *run, int depth);

struct jinja_list *mt_jinja_list_new(struct jinja_run *run, size_t capacity);
void mt_jinja_list_add(struct jinja_run *run, struct jinja_list *list, struct mt_value item);
void mt_jinja_list_add_all(struct jinja_run *run, struct jinja_list *list, const struct mt_value *items,
                           size_t count);
struct mt_value mt_jinja_tuple(struct jinja_run *run, const struct mt_value *items, size_t count);
struct jinja_dict *mt_jinja_dict_new(struct jinja_run *run);
void mt_jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct mt_value key,
                       struct mt_value value);
/* The same of a key that is not there. */
void mt_jinja_dict_add(struct jinja_run *run, struct jinja_dict *dict, struct mt_value key,
                       struct mt_value value);
void mt_jinja_dict_put_keywords(struct jinja_run *run, struct jinja_dict *dict,
                                const struct jinja_arguments *arguments);
/* A value with an object; with a copy of an object that the rendering keeps. */
struct mt_value mt_jinja_object(int kind, void *object);
struct mt_value mt_jinja_kept(struct jinja_run *run, int kind, const void *object, size_t bytes);
struct mt_value mt_jinja_undefined(struct mt_marked name);
/* Of a list and what failed while it was made; running out of memory or steps stays a failure. */
struct mt_value mt_jinja_iterator_new(struct jinja_run *run, const struct jinja_list *list);

void mt_jinja_assign(struct jinja_run *run, struct mt_marked name, struct mt_value value);
struct mt_value mt_jinja_lookup(const struct jinja_run *run, struct mt_marked name);
void mt_jinja_scope_push(struct jinja_run *run, struct jinja_scope *outer);

// Text being put together.
void mt_jinja_put(struct jinja_builder *builder, struct mt_marked text);
void mt_jinja_put_text(struct jinja_builder *builder, const char *text);
void mt_jinja_put_repeated(struct jinja_builder *builder, struct mt_marked text, size_t times);
/* Characters with the mark of the byte they stand for. */
void mt_jinja_put_character(struct jinja_builder *builder, uint32_t character, uint16_t mark);
void mt_jinja_put_ascii(struct jinja_builder *builder, const char *text, uint16_t mark);
struct mt_marked mt_jinja_built(const struct jinja_builder *builder);
struct mt_value mt_jinja_built_value(const struct jinja_builder *builder);
uint16_t mt_jinja_mark_at(struct mt_marked text, size_t at);

// ------------------------------------------------------------------ write.c: str() and repr()

void mt_jinja_write(struct jinja_builder *builder, struct mt_value value);
void mt_jinja_write_repr(struct jinja_builder *builder, struct mt_value value);
struct mt_marked mt_jinja_to_text(struct jinja_run *run, struct mt_value value);
void mt_jinja_write_integer(struct jinja_builder *builder, int64_t integer);
void mt_jinja_write_real(struct jinja_builder *builder, double real);
const char *mt_jinja_type_name(struct mt_value value); // "str", as in Python's messages

// ------------------------------------------------------------------ compare.c

bool mt_jinja_is_number(struct mt_value value);                    // bool too
bool mt_jinja_as_integer(struct mt_value value, int64_t *integer); // bool and int
double mt_jinja_as_real(struct mt_value number);
bool mt_jinja_truth(struct jinja_run *run, struct mt_value value);
bool mt_jinja_equal(struct jinja_run *run, struct mt_value a, struct mt_value b);
/* Fails where Python cannot order the two; `symbol` stands in the message. -1, 0, 1; 2 with a NaN. */
int mt_jinja_order(struct jinja_run *run, struct mt_value a, struct mt_value b, const char *symbol);
/* "==", "!=", "<", "<=", ">", ">=", "in", "not in". */
bool mt_jinja_compare(struct jinja_run *run, struct mt_value a, struct mt_marked symbol, struct mt_value b);
bool mt_jinja_same(struct mt_value a, struct mt_value b);            // Python's `is`
bool mt_jinja_check_key(struct jinja_run *run, struct mt_value key); // hashable; fails otherwise
/* The value of a key, or NULL. */
struct mt_value *mt_jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                                    struct mt_value key);
/* A copy of pairs in the order of their keys; stable, backwards too. */
const struct jinja_pair *mt_jinja_sort(struct jinja_run *run, const struct jinja_pair *pairs, size_t count,
                                       bool reverse);

// ------------------------------------------------------------------ access.c: attributes, items, walking

struct mt_value mt_jinja_attribute(struct jinja_run *run, struct mt_value value, struct mt_marked name);
struct mt_value mt_jinja_item(struct jinja_run *run, struct mt_value value, struct mt_value index);
struct mt_value mt_jinja_slice(struct jinja_run *run, struct mt_value value, const struct mt_value bounds[3]);
/* Everything a for loop over the value would see; takes it from iterators. Fails for what cannot be walked.
 */
struct jinja_list *mt_jinja_walk(struct jinja_run *run, struct mt_value value);
struct mt_value mt_jinja_iterator_failure(struct jinja_run *run, const struct jinja_iterator *iterator);
bool mt_jinja_can_walk(struct mt_value value);
/* len(); false: it has none. */
bool mt_jinja_length(struct jinja_run *run, struct mt_value value, int64_t *length);
size_t mt_jinja_range_count(const struct jinja_range *range);
/* An attribute by a path, "a.b.0", as filters take it; none and absent are the value itself. `fallback`,
 * where it is given, stands for what is undefined on the way. */
struct mt_value mt_jinja_path(struct jinja_run *run, struct mt_value value, struct mt_value path,
                              struct mt_value fallback);

// ------------------------------------------------------------------ text.c

size_t mt_jinja_characters(struct mt_marked text);
/* Byte at which character `index` begins, or the end of the text. */
size_t mt_jinja_character_at(struct mt_marked text, size_t index);
/* Where `needle` begins in text[from ..), or SIZE_MAX. */
size_t mt_jinja_find_text(struct mt_marked text, struct mt_marked needle, size_t from);
/* str.strip and the like; `characters` NULL: white space. */
struct mt_marked mt_jinja_strip(struct mt_marked text, const struct mt_marked *characters, bool left,
                                bool right);
struct mt_marked mt_jinja_replace(struct jinja_run *run, struct mt_marked text, struct mt_marked old,
                                  struct mt_marked with, int64_t most);
struct jinja_list *mt_jinja_split_lines(struct jinja_run *run, struct mt_marked text, bool keep);
struct mt_marked mt_jinja_change_case(struct jinja_run *run, struct mt_marked text, enum jinja_case first,
                                      enum jinja_case rest);
struct mt_marked mt_jinja_title_case(struct jinja_run *run, struct mt_marked text);
/* Whether there is a character in this case and none in another. */
bool mt_jinja_has_case(struct jinja_run *run, struct mt_marked text, enum jinja_case wanted);

/*
 * jinja2's Markup: a string made by the filters safe and escape. Nothing escapes by itself in chat templates,
 * but a plain string added to such a one does, and so do arguments of its methods.
 */
struct mt_value mt_jinja_safe(struct mt_marked text);
/* Text that is as safe as `like` is. */
struct mt_value mt_jinja_safe_like(struct mt_value like, struct mt_marked text);
/* Text with & < > " ' as entities; safe text is left as it is. */
struct mt_value mt_jinja_escape(struct jinja_run *run, struct mt_value value);

// ------------------------------------------------------------------ arithmetic.c

/* "+", "-", "*", "/", "//", "%", "**". */
struct mt_value mt_jinja_binary(struct jinja_run *run, struct mt_value a, struct mt_marked symbol,
                                struct mt_value b);
struct mt_value mt_jinja_unary(struct jinja_run *run, struct mt_marked symbol, struct mt_value a);
/* int(text) and float(text) of Python; false: not a number. */
bool mt_jinja_read_integer(struct jinja_run *run, struct mt_marked text, int base, int64_t *integer);
bool mt_jinja_read_real(struct mt_marked text, double *real);

// ------------------------------------------------------------------ call.c

struct mt_value mt_jinja_call(struct jinja_run *run, struct mt_value callee,
                              const struct jinja_arguments *arguments);
struct mt_value mt_jinja_call_filter(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                                     const struct jinja_arguments *arguments);
/* A row of the library; `kind` is what messages call it. */
struct mt_value mt_jinja_call_function(struct jinja_run *run, const char *kind,
                                       const struct jinja_function *function, struct mt_value subject,
                                       const struct jinja_arguments *arguments);
bool mt_jinja_given(struct mt_value value); // neither absent nor none
// Arguments of a call of the library, by the place of their parameter.
int64_t mt_jinja_integer_argument(const struct jinja_call *call, int place, int64_t fallback);
bool mt_jinja_truth_argument(const struct jinja_call *call, int place); // absent: false
struct mt_marked mt_jinja_text_argument(const struct jinja_call *call, int place);
struct mt_marked mt_jinja_need_text(struct jinja_run *run, const char *what, struct mt_value value);

// ------------------------------------------------------------------ evaluate.c, execute.c

struct mt_value mt_jinja_evaluate(struct jinja_run *run, const struct jinja_node *node);
struct jinja_arguments mt_jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node);
void mt_jinja_execute(struct jinja_run *run, const struct jinja_node *node);
/* Runs a body with its output in a text of its own. */
struct mt_marked mt_jinja_capture(struct jinja_run *run, const struct jinja_node *body);
/* loop(items) of a recursive loop. */
struct mt_value mt_jinja_loop_again(struct jinja_run *run, struct jinja_loop *loop, struct mt_value items);

// ------------------------------------------------------------------ the library

const struct jinja_function *mt_jinja_find_filter(struct mt_marked name);
const struct jinja_function *mt_jinja_find_global(struct mt_marked name);
/* A method of a value of this kind, or NULL. */
const struct jinja_function *mt_jinja_find_method(int kind, struct mt_marked name);
/* "subject is name(arguments)". */
bool mt_jinja_call_test(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                        const struct jinja_arguments *arguments);
/* Python's "format % value", and format.format(arguments). */
struct mt_value mt_jinja_format_percent(struct jinja_run *run, struct mt_marked format,
                                        struct mt_value value);
struct mt_value mt_jinja_format_braces(struct jinja_run *run, struct mt_marked format,
                                       const struct jinja_arguments *arguments);

#endif
