/*
 * Completions for shells. A verb offers its options; where its arguments are key=value, its keys and, behind
 * the =, the words a value may be; where they are names of files in share/ (tasks, recipes), those that lie
 * there when the shell asks.
 */
#include "cli/shared/complete.h"

#include <stdio.h>
#include <string.h>

#include "formats/keys/keys.h"
#include "objective/options.h"

// ------------------------------------------------------------------ what there is to offer

/* The words of a value, or NULL: it is no choice. Names of methods and the like are listed by the row. */
static const char *words_of(const struct mt_key_row *row)
{
    switch (row->kind) {
    case MT_KEY_CHOICE:
    case MT_KEY_SWITCH:
    case MT_KEY_FLAG: return row->values;
    default: return strncmp(row->values, "auto|", 5) == 0 ? "auto" : NULL;
    }
}

static bool has_words(const struct mt_key_row *row)
{
    return row->name_at != NULL || words_of(row) != NULL;
}

/* Every word of a value with a text before and one after it. */
static void put_words(const struct mt_key_row *row, const char *before, const char *name, const char *after)
{
    const char *words = words_of(row);
    for (int i = 0; row->name_at != NULL && row->name_at(i) != NULL; i++)
        printf("%s%s%s%s", before, name, row->name_at(i), after);
    while (row->name_at == NULL && words != NULL) {
        size_t length = strcspn(words, "|");
        printf("%s%s%.*s%s", before, name, (int)length, words, after);
        words = words[length] == '|' ? words + length + 1 : NULL;
    }
}

/* One table of keys, each name behind a prefix. */
struct table {
    const struct mt_keys *keys;
    const char *prefix;
};

/* The tables whose keys are words of a verb; returns how many there are. */
static int tables_of(const struct cli_verb *verb, struct table tables[2])
{
    int count = 0;
    if (verb->keys == NULL || !verb->keys->words) return 0;
    tables[count++] = (struct table){verb->keys->keys, ""};
    if (verb->keys->within != NULL) tables[count++] = (struct table){verb->keys->within, verb->keys->group};
    return count;
}

/* Goes to the next key that a word may be. */
static bool next_key(const struct table *table, struct mt_key *key)
{
    while (mt_key_next(table->keys, key)) {
        if (!key->part->of_elements) return true;
    }
    return false;
}

// ------------------------------------------------------------------ bash

/* What is the same whatever the verb: values of options, and = which bash makes a word of its own. */
static const char bash_head[] =
    "# bash completion of metier\n"
    "_metier_share() # FOLDER: names of the files in it\n"
    "{\n"
    "    local file\n"
    "    for file in \"$(\"${COMP_WORDS[0]}\" --share 2>/dev/null)/$1\"/*.*; do\n"
    "        file=${file##*/}\n"
    "        [[ $file == '*'* ]] || echo \"${file%.*}\"\n"
    "    done\n"
    "}\n"
    "_metier_option() # OPTION: what its value may be\n"
    "{\n"
    "    case $1 in\n"
    "    --method) echo \"$methods\" ;;\n"
    "    --device) \"${COMP_WORDS[0]}\" devices 2>/dev/null | sed 's/ .*//' ;;\n"
    "    --template) echo \"model none $(_metier_share templates)\" ;;\n"
    "    --tasks) _metier_share tasks ;;\n"
    "    --complete) echo bash zsh fish ;;\n"
    "    esac\n"
    "}\n"
    "_metier()\n"
    "{\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]}\n"
    "    local options= keys= words= folder= key= front= methods=\"";

static const char bash_tail[] =
    "    esac\n"
    "    if [[ $word == '=' ]]; then\n"
    "        key=$before word=\n"
    "    elif [[ $before == '=' ]]; then\n"
    "        key=${COMP_WORDS[COMP_CWORD - 2]}\n"
    "    elif [[ $word == *=* ]]; then # bash was told to leave = alone\n"
    "        key=${word%%=*} front=$key= word=${word#*=}\n"
    "    elif [[ $before == --* && $word != -* ]]; then\n"
    "        key=$before\n"
    "    fi\n"
    "    if [[ $key == --* ]]; then\n"
    "        words=$(_metier_option \"$key\")\n"
    "        [[ $key == --tasks && $word == *,* ]] && front=$front${word%,*}, word=${word##*,}\n"
    "    elif [[ -n $key ]]; then\n"
    "        words=$(_metier_value \"$verb:$key\")\n"
    "    elif [[ $word == -* ]]; then\n"
    "        words=$options\n"
    "    elif [[ -n $folder ]]; then\n"
    "        words=$(_metier_share \"$folder\")\n"
    "    elif ((COMP_CWORD > 2)); then # the first argument is a file\n"
    "        words=$keys\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -P \"$front\" -W \"$words\" -- \"$word\"))\n"
    "    [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null\n"
    "}\n"
    "complete -o bashdefault -o default -F _metier metier";

static void put_bash_values(const struct cli_verb *verb)
{
    struct table tables[2];
    int count = tables_of(verb, tables);
    for (int t = 0; t < count; t++) {
        struct mt_key key = {0};
        while (next_key(&tables[t], &key)) {
            if (!has_words(key.row)) continue;
            printf("    %s:%s%s) echo", verb->name, tables[t].prefix, key.name);
            put_words(key.row, " ", "", "");
            printf(" ;;\n");
        }
    }
}

/* Keys of a verb, each with its = and a space behind it. */
static void put_keys(const struct cli_verb *verb)
{
    struct table tables[2];
    int count = tables_of(verb, tables);
    for (int t = 0; t < count; t++) {
        struct mt_key key = {0};
        while (next_key(&tables[t], &key)) printf("%s%s= ", tables[t].prefix, key.name);
    }
}

static void put_methods(void)
{
    for (int i = 0; mt_method_name(i) != NULL; i++) printf("%s%s", i > 0 ? " " : "", mt_method_name(i));
}

static void begin_bash(void)
{
    (void)puts("_metier_value() # VERB:KEY: what its value may be\n{\n    case $1 in");
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) put_bash_values(*verb);
    printf("    esac\n}\n%s", bash_head);
    put_methods();
    printf("\"\n    if ((COMP_CWORD == 1)) || [[ $COMP_CWORD:$verb == 2:help ]]; then\n"
           "        words=\"--help --version --share");
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) printf(" %s", (*verb)->name);
    (void)puts("\"\n        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n        return\n    fi\n"
               "    case $verb in");
}

static void show_bash(const struct cli_verb *verb, const struct cli_option *options)
{
    printf("    %s)\n        options=\"", verb->name);
    for (const struct cli_option *option = options; option->name != NULL; option++)
        printf("%s ", option->name);
    printf("%s--help\"\n        keys=\"", verb->keys != NULL ? "--schema " : "");
    put_keys(verb);
    printf("\" folder=%s ;;\n", verb->names != NULL ? verb->names : "");
}

// ------------------------------------------------------------------ texts

/* A text within single quotes, with what the shell would take for its own escaped. */
static void put_quoted(enum cli_help shell, const char *text)
{
    for (; *text != '\0'; text++) {
        bool quote = *text == '\'';
        if (shell == CLI_HELP_FISH && (quote || *text == '\\')) (void)putchar('\\');
        if (shell == CLI_HELP_ZSH && strchr("[]:\\", *text) != NULL) (void)putchar('\\');
        if (shell == CLI_HELP_ZSH && quote) (void)fputs("'\\'", stdout);
        (void)putchar(*text);
    }
}

// ------------------------------------------------------------------ zsh

static const char zsh_words[] =
    "_metier_words() { # the keys of the verb, their values, or the names in a folder of share/\n"
    "    local -a offered files\n"
    "    if compset -P '*='; then\n"
    "        offered=(${(M)allwords:#${IPREFIX}*})\n"
    "        offered=(${offered#$IPREFIX})\n"
    "        offered=(${offered:#})\n"
    "        (( $#offered )) && compadd -a offered || _files\n"
    "        return\n"
    "    fi\n"
    "    offered=(${(u)${(M)allwords:#*=*}%%=*})\n"
    "    offered=(${offered/%/=})\n"
    "    compadd -S '' -a offered\n"
    "    if [[ -n $folder ]]; then\n"
    "        files=($(metier --share 2>/dev/null)/$folder/*(N:t:r))\n"
    "        compadd -a files\n"
    "    fi\n"
    "    _files\n"
    "}";

static void begin_zsh(void)
{
    (void)puts("#compdef metier\nlocal -a verbs allwords\nlocal folder=\nverbs=(");
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        printf("'%s:", (*verb)->name);
        put_quoted(CLI_HELP_ZSH, (*verb)->summary);
        (void)puts("'");
    }
    printf(")\n%s\nif (( CURRENT == 2 )); then\n    _describe verb verbs\n    return\nfi\nshift words\n"
           "(( CURRENT-- ))\ncase ${words[1]} in\n",
           zsh_words);
}

/* Words of a verb: every key with an = behind it, and with each of its values. */
static void put_all_words(const struct cli_verb *verb)
{
    struct table tables[2];
    int count = tables_of(verb, tables);
    for (int t = 0; t < count; t++) {
        struct mt_key key = {0};
        while (next_key(&tables[t], &key)) {
            char name[2 * MT_KEY_NAME_BYTES];
            (void)snprintf(name, sizeof name, "%s%s=", tables[t].prefix, key.name);
            printf(" %s", name);
            if (has_words(key.row)) put_words(key.row, " ", name, "");
        }
    }
}

static void show_zsh(const struct cli_verb *verb, const struct cli_option *options)
{
    printf("%s) folder=%s allwords=(", verb->name, verb->names != NULL ? verb->names : "");
    put_all_words(verb);
    printf(")\n    _arguments");
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        printf(" \\\n    '%s%s[", option->value == CLI_LIST ? "*" : "", option->name);
        put_quoted(CLI_HELP_ZSH, option->help);
        printf("]");
        if (option->value_name != NULL) printf(":%s:", option->value_name);
        if (option->value_name != NULL && strcmp(option->name, "--method") == 0) {
            printf("(");
            put_methods();
            printf(")");
        } else if (option->value_name != NULL) {
            printf("_files");
        }
        printf("'");
    }
    if (verb->keys != NULL) printf(" \\\n    '--schema[a JSON Schema of the keys, for editors]'");
    printf(" \\\n    '--help[show this]' '*:word:_metier_words' ;;\n");
}

// ------------------------------------------------------------------ fish

static void begin_fish(void)
{
    (void)puts("# fish completion of metier");
    for (const struct cli_verb *const *verb = cli_verbs; *verb != NULL; verb++) {
        printf("complete -c metier -n __fish_use_subcommand -a %s -d '", (*verb)->name);
        put_quoted(CLI_HELP_FISH, (*verb)->summary);
        (void)puts("'");
    }
}

static void show_fish(const struct cli_verb *verb, const struct cli_option *options)
{
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        printf("complete -c metier -n '__fish_seen_subcommand_from %s' -l %s%s", verb->name, option->name + 2,
               option->value_name != NULL ? " -r" : "");
        if (strcmp(option->name, "--method") == 0) {
            printf(" -a '");
            put_methods();
            printf("'");
        }
        printf(" -d '");
        put_quoted(CLI_HELP_FISH, option->help);
        printf("'\n");
    }
    if (verb->keys != NULL)
        printf("complete -c metier -n '__fish_seen_subcommand_from %s' -l schema -d 'a JSON Schema of the "
               "keys'\n",
               verb->name);
    if (verb->keys != NULL && verb->keys->words) {
        printf("complete -c metier -n '__fish_seen_subcommand_from %s' -a '", verb->name);
        put_all_words(verb);
        printf("'\n");
    }
    if (verb->names != NULL)
        printf("complete -c metier -n '__fish_seen_subcommand_from %s' -a '(string replace -r "
               "\".*/(.*)[.].*\" \"\\$1\" (metier --share)/%s/*)'\n",
               verb->name, verb->names);
}

// ------------------------------------------------------------------ all of them

void cli_complete_begin(enum cli_help shell)
{
    if (shell == CLI_HELP_BASH) begin_bash();
    if (shell == CLI_HELP_ZSH) begin_zsh();
    if (shell == CLI_HELP_FISH) begin_fish();
}

void cli_complete_verb(enum cli_help shell, const struct cli_verb *verb, const struct cli_option *options)
{
    if (shell == CLI_HELP_BASH) show_bash(verb, options);
    if (shell == CLI_HELP_ZSH) show_zsh(verb, options);
    if (shell == CLI_HELP_FISH) show_fish(verb, options);
}

void cli_complete_end(enum cli_help shell)
{
    if (shell == CLI_HELP_BASH) (void)puts(bash_tail);
    if (shell == CLI_HELP_ZSH) (void)puts("esac");
}
