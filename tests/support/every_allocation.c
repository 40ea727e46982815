/* The assertion that running out of memory does no harm. */
#include "support/every_allocation.h"

#include "support/cmocka_all.h"

void assert_every_allocation_may_fail(failing_run_fn run, const void *self, long least)
{
    struct failing_report report = fail_each_allocation(run, self);
    if (!report.ok) fail_msg("allocation %ld: %s", report.allocations, report.problem);
    assert_true(report.allocations >= least);
}
