/* The assertion that running out of memory does no harm (failing_allocator.h), for cmocka's tests. */
#ifndef MT_TEST_EVERY_ALLOCATION_H
#define MT_TEST_EVERY_ALLOCATION_H

#include "support/failing_allocator.h"

/* Whichever allocation of the run fails, of which there are at least so many, it ends in a clean error. */
void assert_every_allocation_may_fail(failing_run_fn run, const void *self, long least);

#endif
