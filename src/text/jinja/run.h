/*
 * A rendering under way: its memory, its limits, its variables, and the values only it makes. Values live in
 * the rendering's arena until it ends; text shares memory with what it was cut from.
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

/* What the library offers: a filter or method of `subject`, a test (a bool), a function (no subject). */
typedef enum mt_status (*jinja_fn)(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result);

struct jinja_function {
    const char *name;
    jinja_fn call; // NULL: known to Python or jinja2, refused here
};

struct jinja_method {
    struct mt_value subject;
    const struct jinja_function *function;
};

/* Text being put together; marks are there from the first byte that has one. */
struct jinja_builder {
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
    struct mt_arena arena;
    size_t memory_left;
    size_t steps_left;
    int depth;
    int line; // of what is being evaluated
    enum jinja_flow flow;
    struct jinja_scope *scope;
    struct jinja_builder *out; // where output goes now
};

// ------------------------------------------------------------------ run.c: limits, memory, messages

/* Records "NAME, line N: MESSAGE". */
enum mt_status jinja_fail(struct jinja_run *run, enum mt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* MT_ERR_FORMAT, "'x' is undefined". */
enum mt_status jinja_fail_undefined(struct jinja_run *run, struct mt_value value);

enum mt_status jinja_spend(struct jinja_run *run, size_t steps);
enum mt_status jinja_allocate(struct jinja_run *run, size_t bytes, void **memory);
// One deeper and back, in pairs also when entering fails, as it does when it is too deep.
enum mt_status jinja_enter_run(struct jinja_run *run);
void jinja_leave_run(struct jinja_run *run);

enum mt_status jinja_list_new(struct jinja_run *run, size_t capacity, struct jinja_list **list);
enum mt_status jinja_list_add(struct jinja_run *run, struct jinja_list *list, struct mt_value item);
enum mt_status jinja_dict_new(struct jinja_run *run, struct jinja_dict **dict);
enum mt_status jinja_dict_put(struct jinja_run *run, struct jinja_dict *dict, struct mt_value key,
                              struct mt_value value);
/* A value with an object. */
struct mt_value jinja_object(int kind, void *object);
struct mt_value jinja_undefined(struct mt_marked name);
enum mt_status jinja_pair_tuple(struct jinja_run *run, struct mt_value a, struct mt_value b,
                                struct mt_value *tuple);
/* `failure` is what ended the making of the list; running out of memory or steps is passed on. */
enum mt_status jinja_iterator_new(struct jinja_run *run, enum mt_status failure,
                                  const struct jinja_list *list, struct mt_value *iterator);

enum mt_status jinja_assign(struct jinja_run *run, struct mt_marked name, struct mt_value value);
struct mt_value jinja_lookup(const struct jinja_run *run, struct mt_marked name);
enum mt_status jinja_scope_push(struct jinja_run *run, struct jinja_scope *outer);

// ------------------------------------------------------------------ build.c: text being put together

enum mt_status jinja_put(struct jinja_run *run, struct jinja_builder *builder, struct mt_marked text);
enum mt_status jinja_put_text(struct jinja_run *run, struct jinja_builder *builder, const char *text);
enum mt_status jinja_put_repeated(struct jinja_run *run, struct jinja_builder *builder, const char *text,
                                  size_t times);
/* A character with the mark of the byte it stands for. */
enum mt_status jinja_put_character(struct jinja_run *run, struct jinja_builder *builder, uint32_t character,
                                   uint16_t mark);
struct mt_marked jinja_built(const struct jinja_builder *builder);
uint16_t jinja_mark_at(struct mt_marked text, size_t at);

// ------------------------------------------------------------------ write.c: str() and repr()

enum mt_status jinja_write(struct jinja_run *run, struct jinja_builder *builder, struct mt_value value);
enum mt_status jinja_write_repr(struct jinja_run *run, struct jinja_builder *builder, struct mt_value value);
enum mt_status jinja_to_text(struct jinja_run *run, struct mt_value value, struct mt_marked *text);
enum mt_status jinja_write_real(struct jinja_run *run, struct jinja_builder *builder, double real);
const char *jinja_type_name(struct mt_value value); // "str", as in Python's messages

// ------------------------------------------------------------------ compare.c

bool jinja_is_number(struct mt_value value);                    // bool too
bool jinja_as_integer(struct mt_value value, int64_t *integer); // bool and int
double jinja_as_real(struct mt_value number);
enum mt_status jinja_truth(struct jinja_run *run, struct mt_value value, bool *truth);
enum mt_status jinja_equal(struct jinja_run *run, struct mt_value a, struct mt_value b, bool *equal);
/* Fails where Python cannot order the two; `symbol` stands in the message. *order: -1, 0, 1; 2 with a NaN. */
enum mt_status jinja_order(struct jinja_run *run, struct mt_value a, struct mt_value b, const char *symbol,
                           int *order);
enum mt_status jinja_contains(struct jinja_run *run, struct mt_value container, struct mt_value item,
                              bool *contains);
/* "==", "!=", "<", "<=", ">", ">=", "in", "not in". */
enum mt_status jinja_compare(struct jinja_run *run, struct mt_value a, struct mt_marked symbol,
                             struct mt_value b, bool *holds);
bool jinja_same(struct mt_value a, struct mt_value b);                      // Python's `is`
enum mt_status jinja_check_key(struct jinja_run *run, struct mt_value key); // hashable
/* The value of a key, or NULL. */
enum mt_status jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict, struct mt_value key,
                               struct mt_value **value);
struct mt_value *jinja_dict_named(const struct jinja_dict *dict, const char *key);

// ------------------------------------------------------------------ access.c: attributes, items, walking

enum mt_status jinja_attribute(struct jinja_run *run, struct mt_value value, struct mt_marked name,
                               struct mt_value *result);
enum mt_status jinja_item(struct jinja_run *run, struct mt_value value, struct mt_value index,
                          struct mt_value *result);
enum mt_status jinja_slice(struct jinja_run *run, struct mt_value value, const struct mt_value bounds[3],
                           struct mt_value *result);
/* Everything a for loop over the value would see; takes it from iterators. Fails for what cannot be walked.
 */
enum mt_status jinja_walk(struct jinja_run *run, struct mt_value value, struct jinja_list **list);
bool jinja_can_walk(struct mt_value value);
/* len(); false in *has: it has none. */
enum mt_status jinja_length(struct jinja_run *run, struct mt_value value, bool *has, int64_t *length);
size_t jinja_range_count(const struct jinja_range *range);
size_t jinja_characters(struct mt_marked text);
/* Byte at which character `index` begins, or the end of the text. */
size_t jinja_character_at(struct mt_marked text, size_t index);

// ------------------------------------------------------------------ arithmetic.c, sort.c, format.c, json.c

/* "+", "-", "*", "/", "//", "%", "**". */
enum mt_status jinja_binary(struct jinja_run *run, struct mt_value a, struct mt_marked symbol,
                            struct mt_value b, struct mt_value *result);
enum mt_status jinja_unary(struct jinja_run *run, struct mt_marked symbol, struct mt_value a,
                           struct mt_value *result);
/* A copy of pairs in the order of their keys; stable, backwards too. */
enum mt_status jinja_sort(struct jinja_run *run, const struct jinja_pair *pairs, size_t count, bool reverse,
                          const struct jinja_pair **sorted);
/* Python's "format % value", and format.format(arguments). */
enum mt_status jinja_format_percent(struct jinja_run *run, struct mt_marked format, struct mt_value value,
                                    struct mt_value *result);
enum mt_status jinja_format_braces(struct jinja_run *run, struct mt_marked format,
                                   const struct jinja_arguments *arguments, struct mt_value *result);
enum mt_status jinja_filter_tojson(struct jinja_run *run, struct mt_value subject,
                                   const struct jinja_arguments *arguments, struct mt_value *result);
/* int(text) and float(text) of Python; false: not a number. */
enum mt_status jinja_read_integer(struct jinja_run *run, struct mt_marked text, int base, bool *valid,
                                  int64_t *integer);
bool jinja_read_real(struct mt_marked text, double *real);

// ------------------------------------------------------------------ markup.c: text that is safe HTML

/*
 * jinja2's Markup: a string made by the filters safe and escape. Nothing escapes by itself in chat templates,
 * but a plain string added to such a one does, and so do arguments of its methods.
 */
struct mt_value jinja_safe(struct mt_marked text);
/* Text with & < > " ' as entities; safe text is left as it is. */
enum mt_status jinja_escape(struct jinja_run *run, struct mt_value value, struct mt_value *result);
/* Calls a method of safe text. */
enum mt_status jinja_call_safe_method(struct jinja_run *run, const struct jinja_method *method,
                                      const struct jinja_arguments *arguments, struct mt_value *result);

// ------------------------------------------------------------------ call.c

/*
 * Arguments by name: `names` are those of the parameters, in order; what is not given is ABSENT; the first
 * `required` must be given. `what` stands in messages.
 */
enum mt_status jinja_bind(struct jinja_run *run, const char *what, const struct jinja_arguments *arguments,
                          const char *const *names, size_t count, size_t required, struct mt_value *bound);
enum mt_status jinja_call(struct jinja_run *run, struct mt_value callee,
                          const struct jinja_arguments *arguments, struct mt_value *result);
enum mt_status jinja_call_filter(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                                 const struct jinja_arguments *arguments, struct mt_value *result);
enum mt_status jinja_call_test(struct jinja_run *run, struct mt_marked name, struct mt_value subject,
                               const struct jinja_arguments *arguments, bool *holds);
bool jinja_given(struct mt_value value); // neither absent nor none
/* Reads an argument, absent or none being `fallback`. */
enum mt_status jinja_bound_integer(struct jinja_run *run, const char *what, struct mt_value value,
                                   int64_t fallback, int64_t *integer);
enum mt_status jinja_bound_truth(struct jinja_run *run, struct mt_value value, bool fallback, bool *truth);
enum mt_status jinja_bound_string(struct jinja_run *run, const char *what, struct mt_value value,
                                  struct mt_marked *text);

// ------------------------------------------------------------------ evaluate.c, execute.c

enum mt_status jinja_evaluate(struct jinja_run *run, const struct jinja_node *node, struct mt_value *value);
enum mt_status jinja_evaluate_arguments(struct jinja_run *run, const struct jinja_node *node,
                                        struct jinja_arguments *arguments);
enum mt_status jinja_execute(struct jinja_run *run, const struct jinja_node *node);
/* Runs a body with its output in a text of its own. */
enum mt_status jinja_capture(struct jinja_run *run, const struct jinja_node *body, struct mt_marked *text);
/* loop(items) of a recursive loop. */
enum mt_status jinja_loop_again(struct jinja_run *run, struct jinja_loop *loop, struct mt_value items,
                                struct mt_value *result);

// ------------------------------------------------------------------ the library

const struct jinja_function *jinja_find_filter(struct mt_marked name);
const struct jinja_function *jinja_find_test(struct mt_marked name);
const struct jinja_function *jinja_find_global(struct mt_marked name);
/* A method of a value of this kind, or NULL. */
const struct jinja_function *jinja_find_method(int kind, struct mt_marked name);

/* An attribute by a path, "a.b.0", as filters take it; none and absent are the value itself. */
enum mt_status jinja_path(struct jinja_run *run, struct mt_value value, struct mt_value path,
                          struct mt_value *result);
/* The same with a value for what is undefined on the way, where one is given. */
enum mt_status jinja_path_or(struct jinja_run *run, struct mt_value value, struct mt_value path,
                             struct mt_value fallback, struct mt_value *result);
/* str.strip and the like; `characters` absent: white space. */
struct mt_marked jinja_strip(struct mt_marked text, const struct mt_marked *characters, bool left,
                             bool right);
enum mt_status jinja_replace(struct jinja_run *run, struct mt_marked text, struct mt_marked old,
                             struct mt_marked with, int64_t most, struct mt_marked *result);
enum mt_status jinja_split_lines(struct jinja_run *run, struct mt_marked text, bool keep,
                                 struct jinja_list *list);
enum mt_status jinja_change_case(struct jinja_run *run, struct mt_marked text, enum jinja_case first,
                                 enum jinja_case rest, struct mt_marked *result);
enum mt_status jinja_title_case(struct jinja_run *run, struct mt_marked text, struct mt_marked *result);
/* Where `needle` begins in text[from ..), or SIZE_MAX. */
size_t jinja_find_text(struct mt_marked text, struct mt_marked needle, size_t from);

#endif
