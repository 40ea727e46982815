/* The function that -fsanitize-coverage=trace-pc calls in every block. */
#include "support/blocks.h"

static uint64_t count; // a block knows nothing but the function's name

void __sanitizer_cov_trace_pc(void); // NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)

void __sanitizer_cov_trace_pc(void) // NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
{
    count++;
}

uint64_t blocks_run(void)
{
    return count;
}
