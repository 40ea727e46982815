/* A thread that waits for signals. */
#include "base/interrupt.h"

#include <unistd.h>

static const int asked[] = {SIGINT, SIGTERM, SIGHUP};

/* Those that the process does not ignore; false when it ignores them all. */
static bool find_signals(sigset_t *signals)
{
    bool any = false;
    (void)sigemptyset(signals);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct sigaction action;
        if (sigaction(asked[i], NULL, &action) != 0 || action.sa_handler == SIG_IGN) continue;
        (void)sigaddset(signals, asked[i]);
        any = true;
    }
    return any;
}

/* A person should know that it was heard: a step may take minutes. */
static void answer(const struct mt_interrupt *interrupt)
{
    FILE *terminal = interrupt->terminal;
    if (terminal == NULL) return;
    (void)fprintf(terminal, "%sstopping: %s; once more ends at once\n",
                  isatty(fileno(terminal)) ? "\r\033[K" : "", interrupt->rest);
    (void)fflush(terminal);
}

static void *wait_for_signals(void *self)
{
    struct mt_interrupt *interrupt = self;
    for (;;) {
        int signal = 0;
        if (sigwait(&interrupt->signals, &signal) != 0) continue;
        if (atomic_load(&interrupt->over)) return NULL;
        if (atomic_load(&interrupt->seen) == 0) {
            atomic_store(&interrupt->seen, signal);
            answer(interrupt);
            continue;
        }
        (void)pthread_sigmask(SIG_UNBLOCK, &interrupt->signals, NULL);
        (void)pthread_kill(pthread_self(), signal);
    }
}

void mt_interrupt_begin(struct mt_interrupt *interrupt, FILE *terminal, const char *rest)
{
    interrupt->begun = false;
    interrupt->terminal = terminal;
    interrupt->rest = rest;
    atomic_init(&interrupt->seen, 0);
    atomic_init(&interrupt->over, false);
    if (!find_signals(&interrupt->signals)) return;
    if (pthread_sigmask(SIG_BLOCK, &interrupt->signals, &interrupt->before) != 0) return;
    interrupt->begun = pthread_create(&interrupt->waiter, NULL, wait_for_signals, interrupt) == 0;
    if (!interrupt->begun) (void)pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
}

int mt_interrupt_seen(const struct mt_interrupt *interrupt)
{
    return interrupt->begun ? atomic_load(&interrupt->seen) : 0;
}

void mt_interrupt_forget(struct mt_interrupt *interrupt)
{
    atomic_store(&interrupt->seen, 0);
}

/* One of the signals that are waited for, for the waiter alone. */
static void wake(const struct mt_interrupt *interrupt)
{
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (sigismember(&interrupt->signals, asked[i]) != 1) continue;
        (void)pthread_kill(interrupt->waiter, asked[i]);
        return;
    }
}

void mt_interrupt_end(struct mt_interrupt *interrupt)
{
    if (!interrupt->begun) return;
    atomic_store(&interrupt->over, true);
    wake(interrupt);
    (void)pthread_join(interrupt->waiter, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    interrupt->begun = false;
}
