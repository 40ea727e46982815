/* NCCL: its library, the communicators, and a thread for each that looks for errors. */
#include "comm/cards.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIBRARY "libnccl.so.2" // METIER_NCCL names another file
#define OLDEST  21800          // 2.18: sends to oneself and aborts as they are used here

// As nccl.h has them (compared with 2.28): its header is not needed to build.
#define NCCL_SUCCESS     0
#define NCCL_IN_PROGRESS 7
#define NCCL_BYTES       0 // ncclInt8

/* The functions that are used. */
struct nccl {
    int (*version)(int *version);
    const char *(*error_text)(int error);
    const char *(*last_error)(void *communicator);
    int (*make_id)(struct mt_cards_id *id);
    int (*open)(void **communicator, int ranks, struct mt_cards_id id, int rank);
    int (*find_error)(void *communicator, int *error);
    int (*close)(void *communicator);
    int (*abort)(void *communicator);
    int (*group_begin)(void);
    int (*group_end)(void);
    int (*send)(const void *data, size_t bytes, int type, int to, void *communicator, void *stream);
    int (*receive)(void *data, size_t bytes, int type, int from, void *communicator, void *stream);
};

struct mt_cards {
    struct mt_context *ctx; // borrowed
    struct mt_cards_options options;
    struct nccl nccl;
    void *communicator;
    bool host_memory;
    int version;
    pthread_t watcher;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    bool watched, over;
};

// ------------------------------------------------------------------ the library

/* Functions and objects have addresses of one size (POSIX). */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library, struct nccl *nccl)
{
    return find(library, "ncclGetVersion", &nccl->version) &&
           find(library, "ncclGetErrorString", &nccl->error_text) &&
           find(library, "ncclGetLastError", &nccl->last_error) &&
           find(library, "ncclGetUniqueId", &nccl->make_id) &&
           find(library, "ncclCommInitRank", &nccl->open) &&
           find(library, "ncclCommGetAsyncError", &nccl->find_error) &&
           find(library, "ncclCommDestroy", &nccl->close) && find(library, "ncclCommAbort", &nccl->abort) &&
           find(library, "ncclGroupStart", &nccl->group_begin) &&
           find(library, "ncclGroupEnd", &nccl->group_end) && find(library, "ncclSend", &nccl->send) &&
           find(library, "ncclRecv", &nccl->receive);
}

/* The library stays until the process ends: it has threads of its own. */
static enum mt_status load(struct mt_cards *cards)
{
    struct mt_context *ctx = cards->ctx;
    const char *file = getenv("METIER_NCCL");
    if (file == NULL || file[0] == '\0') file = LIBRARY;
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return mt_fail(ctx, MT_ERR_UNSUPPORTED,
                       "NCCL cannot be loaded: %.600s; METIER_NCCL names its library where it is not found",
                       dlerror());
    if (!find_all(library, &cards->nccl) || cards->nccl.version(&cards->version) != NCCL_SUCCESS ||
        cards->version < OLDEST) {
        return mt_fail(ctx, MT_ERR_UNSUPPORTED, "%.600s is not NCCL 2.18 or newer", file);
    }
    cards->host_memory = dlsym(library, "mt_sends_host_memory") != NULL;
    return MT_OK;
}

static enum mt_status fail(const struct mt_cards *cards, int error, const char *what)
{
    // What the library last said is of the whole process, and stands there only after an error.
    const char *more = cards->nccl.last_error(cards->communicator);
    return mt_fail(cards->ctx, MT_ERR_UNSUPPORTED, "NCCL cannot %s: %s%s%.500s", what,
                   cards->nccl.error_text(error), more != NULL && more[0] != '\0' ? ": " : "",
                   more != NULL ? more : "");
}

// ------------------------------------------------------------------ the watcher

/* A second's rest, or until asked to end. True: asked. */
static bool rest(struct mt_cards *cards)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec++;
    int waited = 0;
    (void)pthread_mutex_lock(&cards->lock);
    while (!cards->over && waited == 0) waited = pthread_cond_timedwait(&cards->asked, &cards->lock, &until);
    bool over = cards->over;
    (void)pthread_mutex_unlock(&cards->lock);
    return over;
}

/* The host may be waiting for a stream that will never get on: nobody else would notice. */
static void *watch(void *self)
{
    struct mt_cards *cards = self;
    while (!rest(cards)) {
        int error = NCCL_SUCCESS;
        int asked = cards->nccl.find_error(cards->communicator, &error);
        if (asked == NCCL_SUCCESS && (error == NCCL_SUCCESS || error == NCCL_IN_PROGRESS)) continue;
        (void)cards->nccl.abort(cards->communicator);
        cards->options.failed(cards->options.self,
                              cards->nccl.error_text(asked != NCCL_SUCCESS ? asked : error));
        break;
    }
    return NULL;
}

/* With every signal blocked: they are for the threads that wait for them. */
static bool start_watcher(struct mt_cards *cards)
{
    pthread_condattr_t clock;
    sigset_t all;
    sigset_t before;
    if (pthread_condattr_init(&clock) != 0) return false;
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&cards->lock, NULL);
    (void)pthread_cond_init(&cards->asked, &clock);
    (void)pthread_condattr_destroy(&clock);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    cards->watched = pthread_create(&cards->watcher, NULL, watch, cards) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (cards->watched) return true;
    (void)pthread_cond_destroy(&cards->asked);
    (void)pthread_mutex_destroy(&cards->lock);
    return false;
}

// ------------------------------------------------------------------ opening and closing

enum mt_status mt_cards_open(struct mt_context *ctx, const struct mt_cards_options *options,
                             struct mt_cards **cards)
{
    void *memory = NULL;
    *cards = NULL;
    enum mt_status status = mt_allocate_array(ctx, 1, sizeof **cards, &memory);
    if (status != MT_OK) return status;
    struct mt_cards *made = memory;
    *made = (struct mt_cards){.ctx = ctx, .options = *options};
    status = load(made);
    if (status != MT_OK) {
        mt_cards_close(made);
        return status;
    }
    *cards = made;
    return MT_OK;
}

enum mt_status mt_cards_make_id(struct mt_cards *cards, struct mt_cards_id *id)
{
    int error = cards->nccl.make_id(id);
    return error == NCCL_SUCCESS ? MT_OK : fail(cards, error, "be started");
}

enum mt_status mt_cards_connect(struct mt_cards *cards, const struct mt_cards_id *id)
{
    int error = cards->nccl.open(&cards->communicator, cards->options.ranks, *id, cards->options.rank);
    if (error != NCCL_SUCCESS) {
        cards->communicator = NULL;
        return fail(cards, error, "connect the cards");
    }
    if (start_watcher(cards)) return MT_OK;
    return mt_fail(cards->ctx, MT_ERR_MEMORY, "there is no thread to look after the cards");
}

void mt_cards_close(struct mt_cards *cards)
{
    if (cards == NULL) return;
    if (cards->watched) {
        (void)pthread_mutex_lock(&cards->lock);
        cards->over = true;
        (void)pthread_cond_signal(&cards->asked);
        (void)pthread_mutex_unlock(&cards->lock);
        (void)pthread_join(cards->watcher, NULL);
        (void)pthread_cond_destroy(&cards->asked);
        (void)pthread_mutex_destroy(&cards->lock);
    }
    if (cards->communicator != NULL) (void)cards->nccl.close(cards->communicator);
    mt_release(cards->ctx, cards, sizeof *cards);
}

bool mt_cards_send_host_memory(const struct mt_cards *cards)
{
    return cards->host_memory;
}

int mt_cards_version(const struct mt_cards *cards)
{
    return cards->version;
}

// ------------------------------------------------------------------ exchanges

static int issue(const struct mt_cards *cards, const struct mt_exchange *exchange, void *stream)
{
    const struct nccl *nccl = &cards->nccl;
    int rank = cards->options.rank;
    int ranks = cards->options.ranks;
    int error = nccl->group_begin();
    for (int i = ranks > 1 ? 1 : 0; error == NCCL_SUCCESS && i < ranks; i++) {
        int to = (rank + i) % ranks;
        int from = (rank + ranks - i) % ranks;
        if (exchange->send_bytes[to] > 0)
            error = nccl->send(exchange->send + exchange->send_at[to], exchange->send_bytes[to], NCCL_BYTES,
                               to, cards->communicator, stream);
        if (error == NCCL_SUCCESS && exchange->receive_bytes[from] > 0)
            error =
                nccl->receive(exchange->receive + exchange->receive_at[from], exchange->receive_bytes[from],
                              NCCL_BYTES, from, cards->communicator, stream);
    }
    int ended = nccl->group_end();
    return error != NCCL_SUCCESS ? error : ended;
}

enum mt_status mt_cards_exchange(struct mt_cards *cards, const struct mt_exchange *exchange, void *stream)
{
    int error = issue(cards, exchange, stream);
    return error == NCCL_SUCCESS ? MT_OK : fail(cards, error, "send");
}
