/*
 * What carries bytes between ranks: a table of functions over a group's state, whose memory is the caller's.
 * There is one over MPI, in a module that knows nothing of ours, and one over TCP (tcp/).
 */
#ifndef MT_COMM_TRANSPORT_H
#define MT_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

#define MT_TRANSPORT_MOST_BYTES 2147483648u // of one rank for another in one exchange

/* What goes where: rank r's part begins at_[r] bytes into the memory. A rank's part for itself is skipped. */
struct mt_exchange {
    const unsigned char *send;
    const size_t *send_at, *send_bytes; // [ranks]
    unsigned char *receive;
    const size_t *receive_at, *receive_bytes; // [ranks]
    int tag; // exchanges of one tag follow each other in the same order on all ranks; others may overtake
             // them
};

struct mt_context;

struct mt_transport {
    const char *name;
    size_t (*group_bytes)(int ranks);   // of a group's state; one of 1 rank may be opened, whatever its size
    size_t (*request_bytes)(int ranks); // of an exchange under way

    // All ranks. 0, or a status: it cannot be started, and why not is in the context, or is not known ("").
    // Waits at most `timeout` seconds for the others, 0: for ever, where it has to find them itself.
    int (*open)(struct mt_context *ctx, int timeout, void *group);
    // From here on a rank that is not heard of for so many seconds ends the job; 0 seconds: never. All ranks,
    // once the group's state is where it stays. Not 0: a thread cannot be started. NULL: nobody to hear of.
    int (*watch)(void *group, int timeout);
    void (*split)(void *group, int colour, void *part); // a part of them
    void (*close)(void *group, bool all);               // all: the job's own group, the library ends with it
    int (*rank)(const void *group);
    int (*size)(const void *group);
    int (*host_ranks)(const void *group);
    bool (*reads_devices)(void); // exchanges may name memory of a GPU

    void (*start)(void *group, const struct mt_exchange *exchange, void *request);
    bool (*test)(void *request); // true: it is complete
    void (*wait)(void *request);
    void (*barrier)(void *group);
    void (*broadcast)(void *group, void *data, size_t bytes, int root);
    void (*gather)(void *group, const void *mine, size_t bytes, void *all);
    void (*abort)(void *group, int exit_status); // does not return
};

/* The name under which the module metier_mpi.so has its table. */
#define MT_TRANSPORT_MPI_SYMBOL "mt_transport_mpi"

#endif
