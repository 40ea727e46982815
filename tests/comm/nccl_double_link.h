/*
 * Others that are not there: what a link of so many GB/s would do to what is issued on a stream of the GPU,
 * or in memory of the host. Each of them sends back what it is sent, and the stream is busy for as long as
 * the link would take.
 */
#ifndef MT_TESTS_NCCL_DOUBLE_LINK_H
#define MT_TESTS_NCCL_DOUBLE_LINK_H

#include <stdbool.h>
#include <stddef.h>

struct link_copy {
    void *to;
    const void *from;
    size_t bytes;
};

/* GB/s each way, as METIER_DOUBLE_LINK says; 0: the others are there. */
double link_speed(void);

/* Makes the copies, then passes the time that `bytes` take. stream: a cudaStream_t; NULL: memory of the host.
 * False, after a sentence: the GPU refuses. */
bool link_pass(const struct link_copy *copies, size_t count, size_t bytes, void *stream);

#endif
