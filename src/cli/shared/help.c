/* What is told of a verb from its table of options: help for people, a manual page, completions for shells.
 */
#include "cli/shared/help.h"

#include <stdio.h>
#include <string.h>

#include "metier/version.h"

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
    roff_option("--help", NULL, "show this");
    if (verb->examples != NULL) (void)puts(".SH EXAMPLES");
    if (verb->examples != NULL) cli_show_roff(verb->examples);
    (void)puts(".SH EXIT STATUS\n0 done, 1 failed, 2 bad usage or bad input.\n.SH SEE ALSO\n.BR metier (1)");
}

// ------------------------------------------------------------------ completions

void cli_show_quoted(enum cli_help shell, const char *text)
{
    for (; *text != '\0'; text++) {
        bool quote = *text == '\'';
        if (shell == CLI_HELP_FISH && (quote || *text == '\\')) (void)putchar('\\');
        if (shell == CLI_HELP_ZSH && strchr("[]:\\", *text) != NULL) (void)putchar('\\');
        if (shell == CLI_HELP_ZSH && quote) (void)fputs("'\\'", stdout);
        (void)putchar(*text);
    }
}

static void show_bash(const struct cli_verb *verb, const struct cli_option *options)
{
    printf("    %s) options=\"", verb->name);
    for (const struct cli_option *option = options; option->name != NULL; option++)
        printf("%s ", option->name);
    printf("--help\" ;;\n");
}

static void show_zsh(const struct cli_verb *verb, const struct cli_option *options)
{
    printf("%s) _arguments", verb->name);
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        printf(" \\\n    '%s%s[", option->value == CLI_LIST ? "*" : "", option->name);
        cli_show_quoted(CLI_HELP_ZSH, option->help);
        printf("]%s%s%s'", option->value_name != NULL ? ":" : "",
               option->value_name != NULL ? option->value_name : "",
               option->value_name != NULL ? ":_files" : "");
    }
    printf(" \\\n    '--help[show this]' '*:file:_files' ;;\n");
}

static void show_fish(const struct cli_verb *verb, const struct cli_option *options)
{
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        printf("complete -c metier -n '__fish_seen_subcommand_from %s' -l %s%s -d '", verb->name,
               option->name + 2, option->value_name != NULL ? " -r" : "");
        cli_show_quoted(CLI_HELP_FISH, option->help);
        printf("'\n");
    }
}

void cli_show_help(const struct cli_call *call, const struct cli_option *options)
{
    switch (call->help) {
    case CLI_HELP_TEXT: show_text(call->verb, options); break;
    case CLI_HELP_MAN: show_man(call->verb, options); break;
    case CLI_HELP_BASH: show_bash(call->verb, options); break;
    case CLI_HELP_ZSH: show_zsh(call->verb, options); break;
    case CLI_HELP_FISH: show_fish(call->verb, options); break;
    }
}
