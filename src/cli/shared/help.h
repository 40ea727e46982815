/* What is told of a verb from its table of options: help for people, a manual page, completions for shells.
 */
#ifndef MT_CLI_HELP_H
#define MT_CLI_HELP_H

#include "cli/cli.h"

/* On standard output, in the form that call->help says. */
void cli_show_help(const struct cli_call *call, const struct cli_option *options);

/* A text in a manual page: lines that begin with a space stay as they are, the others are filled. */
void cli_show_roff(const char *text);

/* A text within single quotes of a shell's completions, with what the shell would take for its own escaped.
 */
void cli_show_quoted(enum cli_help shell, const char *text);

#endif
