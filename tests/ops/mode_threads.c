/*
 * threads: every case once, in several threads. Numbers are compare's to look at; here the thread sanitizer
 * looks at who touches what, without the time that ref takes.
 */
#include <stdio.h>

#include "ops/op_case.h"

#define THREADS 4

int mode_threads(const struct case_list *list, const struct mode_options *options)
{
    int failures = 0;
    int passed = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct op_case *c = &list->items[i];
        struct mt_context ctx;
        if (c->only_speed || c->only_device || !case_selected(c, options)) continue;
        mt_context_init(&ctx, NULL);
        enum mt_status status =
            case_run(&ctx, c, options->device, options->threads > 0 ? options->threads : THREADS);
        bool ok = status == MT_OK && ctx.live_bytes == 0;
        passed += ok;
        failures += !ok;
        if (!ok) printf("FAIL %s %s: %.200s\n", mt_op_name(c->op), c->label, ctx.message);
    }
    printf("%d passed, %d failed\n", passed, failures);
    return passed + failures == 0 ? 1 : failures;
}
