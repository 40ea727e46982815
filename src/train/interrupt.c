/* Signals that wait until they are asked for. */
#include "train/interrupt.h"

#include <time.h>

static sigset_t both(void)
{
    sigset_t signals;
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
    return signals;
}

void mt_interrupt_begin(struct mt_interrupt *interrupt)
{
    const sigset_t signals = both();
    *interrupt = (struct mt_interrupt){0};
    interrupt->begun = pthread_sigmask(SIG_BLOCK, &signals, &interrupt->before) == 0;
}

int mt_interrupt_seen(struct mt_interrupt *interrupt)
{
    if (!interrupt->begun || interrupt->seen != 0) return interrupt->seen;
    const sigset_t signals = both();
    const struct timespec now = {0};
    int signal = sigtimedwait(&signals, NULL, &now);
    if (signal <= 0) return 0;
    interrupt->seen = signal;
    (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL); // whoever asks twice wants out
    return signal;
}

void mt_interrupt_end(struct mt_interrupt *interrupt)
{
    if (!interrupt->begun) return;
    (void)pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    interrupt->begun = false;
}
