/*
 * Signals as questions instead of interruptions: from begin to end SIGINT, SIGTERM and SIGHUP are blocked, a
 * thread waits for them, and the loop asks between two steps whether one came. A second one ends the process
 * as usual, whatever the loop is doing. Signals the process ignored (nohup, jobs in the background) stay so.
 *
 * Threads inherit what is blocked: begin before the first one is made.
 */
#ifndef MT_BASE_INTERRUPT_H
#define MT_BASE_INTERRUPT_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

struct mt_interrupt {
    bool begun;
    atomic_int seen;  // the first signal, or the first since forgetting; 0: none
    atomic_bool over; // nobody asks any more
    sigset_t signals; // that are waited for
    sigset_t before;  // what was blocked at the beginning
    FILE *terminal;   // borrowed; where the first signal is answered. NULL: nowhere
    const char *rest; // borrowed; what is still done before the end, for that answer
    pthread_t waiter;
};

/*
 * Starts asking instead of dying, in a caller-owned struct that stays where it is until the end. Where no
 * thread can be had, signals end the process as before.
 */
void mt_interrupt_begin(struct mt_interrupt *interrupt, FILE *terminal, const char *rest);

/* The signal that came since the beginning, else 0. Always 0 when not begun. */
int mt_interrupt_seen(const struct mt_interrupt *interrupt);

/* What came is answered: the next signal counts as the first again. */
void mt_interrupt_forget(struct mt_interrupt *interrupt);

/* Puts things back as they were; a zeroed struct is allowed. */
void mt_interrupt_end(struct mt_interrupt *interrupt);

#endif
