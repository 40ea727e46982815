/* Reading a verb's arguments from its option table. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "cli/shared/help.h"
#include "cli/shared/table.h"

#define MOST_THREADS 4096

static enum mt_status unknown_option(struct mt_context *ctx, const char *word,
                                     const struct cli_option *options)
{
    const char *best = NULL;
    int distance = CLI_NEAR;
    for (const struct cli_option *option = options; option->name != NULL; option++) {
        if (mt_nearer(word, option->name, &distance)) best = option->name;
    }
    if (best != NULL) return mt_fail(ctx, MT_ERR_USAGE, "unknown option %s; did you mean %s?", word, best);
    return mt_fail(ctx, MT_ERR_USAGE, "unknown option %s; --help lists them", word);
}

/* Defaults may be negative or no number, to be told from what was given: what is given never is. */
static enum mt_status negative(struct mt_context *ctx, const struct cli_option *option, const char *text)
{
    return mt_fail(ctx, MT_ERR_USAGE, "%s must not be negative, and '%s' is", option->name, text);
}

static enum mt_status store_value(struct mt_context *ctx, const struct cli_option *option, const char *text)
{
    char *end = NULL;
    errno = 0;
    if (option->value == CLI_TEXT) {
        *(const char **)option->target = text;
        return MT_OK;
    }
    if (option->value == CLI_LIST) {
        struct cli_list *list = option->target;
        if (list->count == CLI_LIST_MOST)
            return mt_fail(ctx, MT_ERR_USAGE, "%s is given more than %d times", option->name, CLI_LIST_MOST);
        list->item[list->count++] = text;
        return MT_OK;
    }
    if (option->value == CLI_AUTO && strcmp(text, "auto") == 0) {
        *(int64_t *)option->target = -1;
        return MT_OK;
    }
    if (option->value == CLI_INTEGER || option->value == CLI_THREADS || option->value == CLI_AUTO) {
        long long value = strtoll(text, &end, 10);
        if (errno != 0 || end == text || *end != '\0') {
            return mt_fail(ctx, MT_ERR_USAGE, "%s wants a whole number%s, not '%s'", option->name,
                           option->value == CLI_AUTO ? " or auto" : "", text);
        }
        if (value < 0) return negative(ctx, option, text);
        *(int64_t *)option->target = value;
        if (option->value != CLI_THREADS) return MT_OK;
        return cli_check_limits(ctx, &(struct cli_limit){option->name, value, 0, MOST_THREADS}, 1);
    }
    double value = strtod(text, &end);
    if (errno != 0 || end == text || *end != '\0' || !isfinite(value)) {
        return mt_fail(ctx, MT_ERR_USAGE, "%s wants a number, not '%s'", option->name, text);
    }
    if (value < 0.0) return negative(ctx, option, text);
    *(double *)option->target = value;
    return MT_OK;
}

bool cli_is_given(const struct cli_call *call, const char *name)
{
    for (int i = 0; i < call->given_count; i++) {
        if (strcmp(call->given[i], name) == 0) return true;
    }
    return false;
}

/* Whether a word is one of those in a text, which spaces part. */
static bool is_among(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = strstr(names, name); at != NULL; at = strstr(at + 1, name)) {
        if ((at == names || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0')) return true;
    }
    return false;
}

enum mt_status cli_refuse_void(const struct cli_call *call, const struct cli_void *rules, size_t count)
{
    for (size_t r = 0; r < count; r++) {
        for (int i = 0; rules[r].now && i < call->given_count; i++) {
            if (!is_among(rules[r].names, call->given[i])) continue;
            return mt_fail(call->ctx, MT_ERR_USAGE, "%s means nothing %s", call->given[i], rules[r].why);
        }
    }
    return MT_OK;
}

enum mt_status cli_check_limits(struct mt_context *ctx, const struct cli_limit *limits, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (limits[i].value >= limits[i].least && limits[i].value <= limits[i].most) continue;
        return mt_fail(ctx, MT_ERR_USAGE, "%s is %" PRId64 ", expected %" PRId64 " to %" PRId64,
                       limits[i].name, limits[i].value, limits[i].least, limits[i].most);
    }
    return MT_OK;
}

/* Handles argv[*index], an option; moves *index past a separate value. */
static enum mt_status read_option(struct cli_call *call, const struct cli_option *options, int *index)
{
    struct mt_context *ctx = call->ctx;
    const char *word = call->argv[*index];
    const char *equals = strchr(word, '=');
    size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    const struct cli_option *option = options;
    while (option->name != NULL &&
           (strlen(option->name) != length || strncmp(option->name, word, length) != 0))
        option++;
    if (option->name == NULL) return unknown_option(ctx, word, options);
    if (!cli_is_given(call, option->name) && call->given_count < CLI_OPTIONS_MOST)
        call->given[call->given_count++] = option->name;
    if (option->value == CLI_FLAG) {
        if (equals != NULL) return mt_fail(ctx, MT_ERR_USAGE, "%s takes no value", option->name);
        *(bool *)option->target = true;
        return MT_OK;
    }
    if (equals != NULL) return store_value(ctx, option, equals + 1);
    if (*index + 1 >= call->argc)
        return mt_fail(ctx, MT_ERR_USAGE, "%s wants a value: %s", option->name, option->value_name);
    *index += 1;
    return store_value(ctx, option, call->argv[*index]);
}

static enum mt_status check_count(const struct cli_call *call)
{
    const char *wanted = call->verb->wanted;
    int most = wanted != NULL ? 1 : 0;
    if (call->verb->counts_arguments) return MT_OK;
    if (call->positional_count < most) return mt_fail(call->ctx, MT_ERR_USAGE, "%s is missing", wanted);
    if (call->positional_count == most) return MT_OK;
    return mt_fail(call->ctx, MT_ERR_USAGE, "unexpected argument '%s'", call->positional[most]);
}

enum mt_status cli_parse(struct cli_call *call, const struct cli_option *options)
{
    bool options_ended = false;
    call->positional = (const char **)call->argv;
    for (int i = 0; i < call->argc; i++) {
        char *word = call->argv[i];
        if (!options_ended && strcmp(word, "--") == 0) {
            options_ended = true;
        } else if (!options_ended && strcmp(word, "--help") == 0) {
            cli_show_help(call, options);
            call->help_shown = true;
            return MT_OK;
        } else if (!options_ended && strcmp(word, "--schema") == 0 && call->verb->keys != NULL) {
            call->help_shown = true;
            return cli_print_schema(call->ctx, call->verb->keys->keys, call->verb->keys->title);
        } else if (!options_ended && word[0] == '-' && word[1] != '\0') {
            enum mt_status status = read_option(call, options, &i);
            if (status != MT_OK) return status;
        } else {
            call->argv[call->positional_count++] = word;
        }
    }
    return check_count(call);
}

int cli_fail(const struct mt_context *ctx, const struct cli_verb *verb, enum mt_status status)
{
    (void)fprintf(stderr, "metier %s: %s\n", verb->name,
                  ctx->message[0] != '\0' ? ctx->message : mt_status_text(status));
    bool callers_fault = status == MT_ERR_USAGE || status == MT_ERR_FORMAT || status == MT_ERR_SHAPE ||
                         status == MT_ERR_DTYPE || status == MT_ERR_UNSUPPORTED;
    return callers_fault ? 2 : 1;
}
