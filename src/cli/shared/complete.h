/* Completions for shells, from the tables of verbs, options and keys. */
#ifndef MT_CLI_COMPLETE_H
#define MT_CLI_COMPLETE_H

#include "cli/cli.h"

/* The script of a shell up to the verbs' parts, and what follows them; bash, zsh and fish alike. */
void cli_complete_begin(enum cli_help shell);
void cli_complete_end(enum cli_help shell);

/* The part of one verb: its options, its keys and their values, the names it takes. */
void cli_complete_verb(enum cli_help shell, const struct cli_verb *verb, const struct cli_option *options);

#endif
