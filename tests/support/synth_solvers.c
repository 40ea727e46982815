/* Items against solvers. */
#include "support/synth_solvers.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number at *text, which moves behind it. */
static bool match_number(const char **text, int *number)
{
    char *rest = NULL;
    *number = (int)strtol(*text, &rest, 10);
    bool found = rest != *text;
    *text = rest;
    return found;
}

/* Letters and digits at *text, which moves behind them. */
static bool match_word(const char **text, char *word)
{
    size_t length = 0;
    for (; isalnum((unsigned char)**text) && length + 1 < MATCHED_BYTES; (*text)++) word[length++] = **text;
    word[length] = '\0';
    return length > 0;
}

bool synth_match(const char *text, const char *pattern, ...)
{
    va_list targets;
    bool matches = true;
    va_start(targets, pattern);
    for (; *pattern != '\0' && *pattern != '*' && matches; pattern++) {
        if (*pattern == '#')
            matches = match_number(&text, va_arg(targets, int *));
        else if (*pattern == '@')
            matches = match_word(&text, va_arg(targets, char *));
        else if (*text == '\0')
            matches = false;
        else if (*pattern == '~')
            *va_arg(targets, char *) = *text++;
        else
            matches = *text++ == *pattern;
    }
    va_end(targets);
    return matches && (*pattern == '*' || *text == '\0');
}

static int compare_item(const struct synth_solver *solver, const struct mt_synth_item *item)
{
    char answer[SOLVED_BYTES] = "";
    bool understood = solver->solve(item->prompt, answer);
    if (understood && !item->cut && strcmp(answer, item->completion) == 0) return 0;
    printf("%s: '%s' is '%s', solved: '%s'\n", solver->task, item->prompt, item->completion,
           understood ? answer : "not understood");
    return 1;
}

int synth_compare(enum mt_task_domain domain, const struct synth_solver *solvers, size_t count, int each)
{
    size_t task_count = 0;
    int wrong = 0;
    const struct mt_synth_task *tasks = mt_synth_tasks(domain, &task_count);
    for (size_t t = 0; t < task_count; t++) {
        const struct synth_solver *solver = NULL;
        for (size_t s = 0; s < count; s++) {
            if (strcmp(solvers[s].task, tasks[t].name) == 0) solver = &solvers[s];
        }
        if (solver == NULL) {
            printf("%s has no solver\n", tasks[t].name);
            wrong++;
            continue;
        }
        for (int i = 0; i < each * MT_SYNTH_HARDEST && wrong < 10; i++) {
            struct mt_synth_item item;
            mt_synth_make(&tasks[t], 7, 1 + i % MT_SYNTH_HARDEST, (uint64_t)i, &item);
            wrong += compare_item(solver, &item);
        }
    }
    return wrong;
}
