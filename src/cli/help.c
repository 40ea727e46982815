/* metier help: the verbs and their options, for people, as manual pages, for shells. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/shared/complete.h"
#include "cli/shared/help.h"
#include "metier/version.h"

#define SUMMARY "post-trains Mixture-of-Experts language models so that their experts specialise"

void cli_print_usage(FILE *stream)
{
    (void)fprintf(stream,
                  "metier %s: " SUMMARY "\n\nusage: metier VERB [arguments]\n"
                  "       metier --version | --share\n\nverbs:\n",
                  mt_version());
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++)
        (void)fprintf(stream, "  %-12s %s\n", (*verb)->name, (*verb)->summary);
    (void)fprintf(stream, "\nmetier VERB --help explains a verb, with examples.\n");
}

/* What a verb says of itself, in some form. */
static enum mt_status tell(const struct cli_call *call, const struct cli_verb *verb, enum cli_help form)
{
    char word[] = "--help";
    char *words[] = {word, NULL};
    struct cli_call inner = {.ctx = call->ctx, .verb = verb, .argc = 1, .argv = words, .help = form};
    return verb->run(&inner);
}

static enum mt_status tell_all(const struct cli_call *call, enum cli_help form)
{
    enum mt_status status = MT_OK;
    for (const struct cli_verb *const *verb = cli_verbs; status == MT_OK && *verb != NULL; verb++)
        status = tell(call, *verb, form);
    return status;
}

// ------------------------------------------------------------------ the program's own page

static void print_man(void)
{
    printf(".TH METIER 1 \"\" \"metier %s\"\n.SH NAME\nmetier \\- ", mt_version());
    cli_show_roff(SUMMARY);
    (void)puts(".SH SYNOPSIS\n.B metier\n.I verb\n[arguments]\n.br\n.B metier \\-\\-version\n.br\n"
               ".B metier \\-\\-share\n.SH DESCRIPTION\nEach verb has a page of its own.");
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        printf(".TP\n.BR metier\\-%s (1)\n", (*verb)->name);
        cli_show_roff((*verb)->summary);
    }
    (void)puts(
        ".SH OPTIONS\n.TP\n.B \\-\\-version\nVersion, commit and the devices that are compiled in.\n.TP\n"
        ".B \\-\\-share\nThe folder of the small models, configs, tasks and templates that come along.\n"
        ".SH ENVIRONMENT\n.TP\n.B METIER_SHARE\nThat folder, instead of share/metier next to the "
        "program.\n.TP\n.B METIER_CPU_LEVEL\nThe instructions the cpu device may use: v1, v3, v4 or "
        "amx; on aarch64 neon, sve or bf16.\n.SH EXIT STATUS\n0 done, 1 failed, 2 bad usage or bad input.");
}

// ------------------------------------------------------------------ completions

static enum mt_status complete_for(const struct cli_call *call, enum cli_help shell)
{
    cli_complete_begin(shell);
    enum mt_status status = tell_all(call, shell);
    cli_complete_end(shell);
    return status;
}

static enum mt_status complete(const struct cli_call *call, const char *shell)
{
    if (strcmp(shell, "bash") == 0) return complete_for(call, CLI_HELP_BASH);
    if (strcmp(shell, "zsh") == 0) return complete_for(call, CLI_HELP_ZSH);
    if (strcmp(shell, "fish") == 0) return complete_for(call, CLI_HELP_FISH);
    return mt_fail(call->ctx, MT_ERR_USAGE, "--complete is '%s', expected bash, zsh or fish", shell);
}

// ------------------------------------------------------------------ the verb

static enum mt_status run_verb(struct cli_call *call)
{
    bool man = false;
    const char *shell = NULL;
    const struct cli_option options[] = {
        {"--man", CLI_FLAG, &man, NULL, "as a manual page: metier help --man train | man -l -"},
        {"--complete", CLI_TEXT, &shell, "SHELL", "completions of all verbs for bash, zsh or fish"},
        {0},
    };
    enum mt_status status = cli_parse(call, options);
    if (status != MT_OK || call->help_shown) return status;
    if (call->positional_count > 1)
        return mt_fail(call->ctx, MT_ERR_USAGE, "unexpected argument '%s'", call->positional[1]);
    const struct cli_void rules[] = {{call->positional_count > 0, "--complete", "with a verb"},
                                     {shell != NULL, "--man", "with --complete"}};
    status = cli_refuse_void(call, rules, 2);
    if (status != MT_OK) return status;
    if (shell != NULL) return complete(call, shell);
    if (call->positional_count == 0 && man) print_man();
    if (call->positional_count == 0 && !man) cli_print_usage(stdout);
    if (call->positional_count == 0) return MT_OK;
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        if (strcmp((*verb)->name, call->positional[0]) == 0)
            return tell(call, *verb, man ? CLI_HELP_MAN : CLI_HELP_TEXT);
    }
    return mt_fail(call->ctx, MT_ERR_USAGE, "there is no verb '%s'; metier --help lists them",
                   call->positional[0]);
}

const struct cli_verb cli_verb_help = {
    .name = "help",
    .summary = "explain the verbs, as text, as a manual page, or as completions for a shell",
    .arguments = "[VERB]",
    .counts_arguments = true,
    .details = "An installed metier already has its manual pages (man metier-train) and completions.",
    .examples = "  metier help train\n"
                "  metier help train --man > metier-train.1\n"
                "  metier help --complete bash > metier-completion.bash",
    .run = run_verb,
};
