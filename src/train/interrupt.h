/*
 * SIGINT and SIGTERM as questions instead of interruptions: from begin to end both are blocked, and the loop
 * asks between two steps whether one came. Once one was seen, the next ends the process as usual.
 *
 * Threads inherit what is blocked: begin before the first one is made.
 */
#ifndef MT_TRAIN_INTERRUPT_H
#define MT_TRAIN_INTERRUPT_H

#include <signal.h>
#include <stdbool.h>

struct mt_interrupt {
    bool begun;
    int seen; // the signal; 0: none
    sigset_t before;
};

/* Starts asking instead of dying, in a caller-owned struct. */
void mt_interrupt_begin(struct mt_interrupt *interrupt);

/* SIGINT or SIGTERM if one came since the beginning, else 0. Always 0 when not begun. */
int mt_interrupt_seen(struct mt_interrupt *interrupt);

/* Puts things back as they were; a zeroed struct is allowed. */
void mt_interrupt_end(struct mt_interrupt *interrupt);

#endif
