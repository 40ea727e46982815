/*
 * The command line: a table of verbs, a table of options per verb, help made from both.
 *
 * A verb reads its options, calls the library and prints. Results go to standard output, everything else to
 * standard error. Exit status: 0 done, 1 failed, 2 bad usage or bad input. docs/howto/verb.md adds one.
 */
#ifndef MT_CLI_CLI_H
#define MT_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "metier/context.h"

enum cli_value {
    CLI_FLAG,    // bool: no value
    CLI_TEXT,    // const char *: borrowed from argv
    CLI_INTEGER, // int64_t, not negative
    CLI_THREADS, // the same, 0 to 4096
    CLI_AUTO,    // the same, or the word auto: -1
    CLI_REAL,    // double, finite and not negative
    CLI_LIST,    // struct cli_list: the option may be given several times
};

#define CLI_LIST_MOST 16

struct cli_list {
    const char *item[CLI_LIST_MOST + 1]; // borrowed from argv; ends with NULL
    int count;
};

struct mt_keys; // formats/keys/keys.h

struct cli_option {
    const char *name; // "--json"
    enum cli_value value;
    void *target;           // where the value goes; holds the default beforehand
    const char *value_name; // "FILE", for the help; NULL for flags
    const char *help;
};

// What a verb does when a launcher (mpirun, srun) starts several of it.
enum cli_ranks {
    CLI_RANKS_REFUSED, // they would all do the same work, and write the same files
    CLI_RANKS_SHARE,   // they share the work
    CLI_RANKS_EACH,    // each tells what it sees
};

// How a verb's --help is answered.
enum cli_help {
    CLI_HELP_TEXT,
    CLI_HELP_MAN,  // a manual page
    CLI_HELP_BASH, // its part of a shell's completions
    CLI_HELP_ZSH,
    CLI_HELP_FISH,
};

#define CLI_OPTIONS_MOST 64 // of a verb

/* A verb being called. */
struct cli_call {
    struct mt_context *ctx;
    const struct cli_verb *verb;
    int argc; // the words after the verb
    char **argv;
    enum cli_help help;
    // What cli_parse finds:
    const char **positional; // points into argv
    int positional_count;
    const char *given[CLI_OPTIONS_MOST]; // names of the options given, borrowed from the table
    int given_count;
    bool help_shown; // --help was given and answered: the verb is done
    int exit_status; // of a verb that returns MT_OK; 0 beforehand
};

/* Keys a verb reads, for --schema and for shells. */
struct cli_keys {
    const struct mt_keys *keys;
    const char *title; // of the schema: what the file is
    bool words;        // arguments are key=value, too
    const char *group; // words GROUP KEY=VALUE have keys of another table: "training."; NULL: none do
    const struct mt_keys *within; // that table
};

struct cli_verb {
    const char *name;
    const char *summary;         // one line
    const char *arguments;       // "DIR", or ""
    const char *details;         // paragraphs for --help, or NULL
    const char *examples;        // lines for --help
    const char *wanted;          // "a model folder": one argument, which is this; NULL: none
    bool counts_arguments;       // the verb itself looks how many arguments there are
    const struct cli_keys *keys; // NULL: it reads none
    const char *names;           // a folder of share/ whose files its arguments name: "tasks"; NULL: none
    enum cli_ranks ranks;
    enum mt_status (*run)(struct cli_call *call);
};

/* All of them, as main.c lists them; ends with NULL. */
extern const struct cli_verb *const cli_verbs[];

/* What metier --help says. */
void cli_print_usage(FILE *stream);

/*
 * Reads a verb's arguments. `options` ends with a row of zeros. Positional arguments are moved to the front
 * of argv, in order; "--" ends the options; "--name=value" and "--name value" are both accepted. An unknown
 * option is refused with the nearest known one, and so is another number of arguments than the verb wants.
 */
enum mt_status cli_parse(struct cli_call *call, const struct cli_option *options);

bool cli_is_given(const struct cli_call *call, const char *name);

/* Numbers of options that have to lie within limits. */
struct cli_limit {
    const char *name; // "--top-k"
    int64_t value, least, most;
};
enum mt_status cli_check_limits(struct mt_context *ctx, const struct cli_limit *limits, size_t count);

/* Options that would change nothing beside the other arguments. Never --quiet: who asks for silence has it.
 */
struct cli_void {
    bool now;          // whether it is so
    const char *names; // of the options, spaces between them
    const char *why;   // ends the sentence "--seed means nothing ..."
};

/* Refuses the first given option that a rule which holds now names. */
enum mt_status cli_refuse_void(const struct cli_call *call, const struct cli_void *rules, size_t count);

/* Prints "metier VERB: message" on standard error and returns the exit status that fits. */
int cli_fail(const struct mt_context *ctx, const struct cli_verb *verb, enum mt_status status);

// Edits past which two words have nothing to do with each other: where mt_nearer starts.
#define CLI_NEAR 4

#endif
