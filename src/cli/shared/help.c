/* What is told of a verb from its table of options: help for people, a manual page, completions for shells.
 */
#include "cli/shared/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/shared/complete.h"
#include "metier/version.h"

#define SCHEMA_HELP "a JSON Schema of the keys, for editors (docs/training.md)"

static void show_text(const struct cli_verb *verb, const struct cli_option *options)
{
    printf("usage: metier %s%s%s [options]\n\n%s\n", verb->name, verb->arguments[0] != '\0' ? " " : "",
           verb->arguments, verb->summary);
    if (verb->details != NULL) printf("\n%s\n", verb->details);
    printf("\noptions:\n");
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        char left[48];
        (void)snprintf(left, sizeof left, "%s%s%s", option->name, option->value_name != NULL ? " " : "",
                       option->value_name != NULL ? option->value_name : "");
        printf("  %-24s %s\n", left, option->help);
    }
    if (verb->keys != NULL) printf("  %-24s %s\n", "--schema", SCHEMA_HELP);
    printf("  %-24s %s\n", "--help", "show this");
    if (verb->examples != NULL) printf("\nexamples:\n%s\n", verb->examples);
}

// ------------------------------------------------------------------ manual pages

/* Text as it is: nothing in it is a command of roff's. */
static void roff_text(const char *text, size_t bytes)
{
    if (bytes > 0 && (text[0] == '.' || text[0] == '\'')) (void)fputs("\\&", stdout);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\\')
            (void)fputs("\\e", stdout);
        else if (text[i] == '-')
            (void)fputs("\\-", stdout);
        else
            (void)putchar(text[i]);
    }
}

void cli_show_roff(const char *text)
{
    bool literal = false;
    while (*text != '\0') {
        size_t bytes = strcspn(text, "\n");
        bool wanted = bytes > 0 && text[0] == ' ';
        if (wanted != literal) (void)puts(wanted ? ".nf" : ".fi");
        literal = wanted;
        roff_text(text, bytes);
        (void)puts(bytes > 0 ? "" : ".PP");
        text += bytes;
        if (*text == '\n') text++;
    }
    if (literal) (void)puts(".fi");
}

static void roff_option(const char *name, const char *value_name, const char *help)
{
    (void)fputs(".TP\n\\fB", stdout);
    roff_text(name, strlen(name));
    printf("\\fR%s\\fI%s\\fR\n", value_name != NULL ? " " : "", value_name != NULL ? value_name : "");
    cli_show_roff(help);
}

static void show_man(const struct cli_verb *verb, const struct cli_option *options)
{
    printf(".TH METIER\\-%s 1 \"\" \"metier %s\"\n.SH NAME\nmetier\\-%s \\- ", verb->name, mt_version(),
           verb->name);
    cli_show_roff(verb->summary);
    printf(".SH SYNOPSIS\n.B metier %s\n", verb->name);
    if (verb->arguments[0] != '\0') cli_show_roff(verb->arguments);
    (void)puts("[options]");
    if (verb->details != NULL) (void)puts(".SH DESCRIPTION");
    if (verb->details != NULL) cli_show_roff(verb->details);
    (void)puts(".SH OPTIONS");
    for (const struct cli_option *option = options; option->name != NULL; option++)
        roff_option(option->name, option->value_name, option->help);
    if (verb->keys != NULL) roff_option("--schema", NULL, SCHEMA_HELP);
    roff_option("--help", NULL, "show this");
    if (verb->examples != NULL) (void)puts(".SH EXAMPLES");
    if (verb->examples != NULL) cli_show_roff(verb->examples);
    (void)puts(".SH EXIT STATUS\n0 done, 1 failed, 2 bad usage or bad input.\n.SH SEE ALSO\n.BR metier (1)");
}

void cli_show_help(const struct cli_call *call, const struct cli_option *options)
{
    switch (call->help) {
    case CLI_HELP_TEXT: show_text(call->verb, options); break;
    case CLI_HELP_MAN: show_man(call->verb, options); break;
    case CLI_HELP_BASH:
    case CLI_HELP_ZSH:
    case CLI_HELP_FISH: cli_complete_verb(call->help, call->verb, options); break;
    }
}
