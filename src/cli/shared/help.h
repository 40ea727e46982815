/* What is told of a verb from its table of options: help for people, a manual page, completions for shells.
 */
#ifndef MT_CLI_HELP_H
#define MT_CLI_HELP_H

#include "cli/cli.h"

/* On standard output, in the form that call->help says. */
void cli_show_help(const struct cli_call *call, const struct cli_option *options);

/* A text in a manual page: lines that begin with a space stay as they are, the others are filled. */
void cli_show_roff(const char *text);

#endif
