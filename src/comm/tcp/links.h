/*
 * Bytes between ranks that have met: one connection to each of them, and what is said over it. flow.h has the
 * thread that reads and writes them all, while others compute.
 *
 * Nothing is sent that is not waited for: whoever receives says how much, under which tag, and the sender
 * answers with that. So no rank stores what it has no place for. A message is cut into pieces of at most
 * MT_LINK_PIECE bytes, between which other words may go.
 *
 * Each rank tells every other that it lives, every second. A connection that closes without a goodbye, or a
 * rank that was silent for too long, ends the job: everybody names the rank it was. Silence is counted in
 * the listener's own rounds: a job that is stopped as a whole and goes on together counts nothing.
 */
#ifndef MT_COMM_TCP_LINKS_H
#define MT_COMM_TCP_LINKS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "metier/context.h"

#define MT_LINK_PIECE      (1u << 20)
#define MT_LINK_HEAD_BYTES 16
#define MT_LINK_MOST_WANTS 1024 // messages a rank waits for and we have not started to send; more wait unread

struct mt_link_request;

/* What one rank sends to another, or gets from it. */
struct mt_link_part {
    struct mt_link_part *next;
    struct mt_link_request *request;
    const unsigned char *from; // of one that is sent; borrowed, as is the next
    unsigned char *to;         // of one that is received
    size_t bytes, done;
    uint32_t group, tag; // messages between two ranks, in one group and of one tag, keep their order
};

/* Parts that are waited for together; the caller's memory, for up to 2 parts for each rank. */
struct mt_link_request {
    struct mt_links *links;
    int left;  // parts not done
    int count; // parts
    struct mt_link_part parts[];
};

struct mt_link_queue {
    struct mt_link_part *first, *last;
};

/* Something another rank waits for. */
struct mt_link_want {
    uint32_t group, tag, bytes;
};

/* One other rank. */
struct mt_link {
    int socket; // owned; -1: oneself, or it has left
    // What comes in:
    unsigned char head[MT_LINK_HEAD_BYTES];
    size_t head_got;
    struct mt_link_part *into; // the piece under way; NULL: a head is next
    size_t into_left;
    struct mt_link_queue expected; // parts it has to send; those from `unannounced` on it does not know of
    struct mt_link_part *unannounced;
    struct mt_link_want *wants; // [MT_LINK_MOST_WANTS]: it waits for these, and we have not begun them
    int want_count;
    // What goes out:
    unsigned char out[MT_LINK_HEAD_BYTES];
    size_t out_at, out_bytes;
    struct mt_link_part *out_part; // the piece under way
    size_t out_left;
    struct mt_link_queue idle;  // parts it does not wait for yet
    struct mt_link_queue ready; // parts it waits for
    bool beat_due, end_due, end_said;
    bool goodbye_said, goodbye_heard;
    bool heard;    // in this round
    double silent; // seconds
};

enum mt_link_reason {
    MT_LINK_GOES_ON,
    MT_LINK_SILENT,
    MT_LINK_GONE,
    MT_LINK_NONSENSE,  // it said what no rank says
    MT_LINK_DISAGREES, // it sends other amounts than are expected
    MT_LINK_ABORTED,
    MT_LINK_REASONS
};

struct mt_links {
    struct mt_context *ctx; // borrowed
    int rank, size;
    pthread_mutex_t lock; // over all that follows, and requests under way
    pthread_cond_t done;  // some request is complete
    bool leaving;         // nobody will start anything any more
    enum mt_link_reason reason;
    int culprit;        // of the reason
    int exit_status;    // with which the job is ended
    struct mt_link *of; // [size], owned; what links want follows it
    size_t bytes;       // of that block
};

/* Takes the sockets over (and puts -1 in their places), in caller-owned memory that stays where it is. */
enum mt_status mt_links_open(struct mt_context *ctx, struct mt_links *links, int rank, int size,
                             int *sockets);
void mt_links_close(struct mt_links *links); // one that was never opened, all zeros, is allowed

/*
 * From now on the job ends, because of that rank; what was said first counts. Everything from here on is
 * called under the lock.
 */
void mt_links_blame(struct mt_links *links, int rank, enum mt_link_reason reason);

/* A part of a request, copied into it: what a rank will send, or gets. */
void mt_links_receive(struct mt_link_request *request, int from, const struct mt_link_part *part);
void mt_links_send(struct mt_link_request *request, int to, const struct mt_link_part *part);

/* Reads what has come from a rank, and writes what there is to say to it, without waiting. */
void mt_links_read(struct mt_links *links, int rank);
void mt_links_write(struct mt_links *links, int rank);

/* Whether there is something to write, and whether something may be read. */
bool mt_link_has_to_say(const struct mt_links *links, const struct mt_link *link);
bool mt_link_listens(const struct mt_link *link);

#endif
