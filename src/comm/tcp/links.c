/* What goes over the connections between ranks, word by word. */
#include "comm/tcp/links.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/tcp/hello.h"
#include "comm/transport.h"

#define PIECES_AT_ONCE 4 // of one rank, before others have their turn

enum word { WORD_ALIVE = 1, WORD_WAITS, WORD_PIECE, WORD_GOODBYE, WORD_END };

enum mt_status mt_links_open(struct mt_context *ctx, struct mt_links *links, int rank, int size, int *sockets)
{
    size_t wants = MT_LINK_MOST_WANTS * sizeof(struct mt_link_want);
    size_t bytes = (size_t)size * (sizeof(struct mt_link) + wants);
    void *memory = NULL;
    *links = (struct mt_links){.ctx = ctx, .rank = rank, .size = size};
    enum mt_status status = mt_allocate_array(ctx, 1, bytes, &memory);
    if (status != MT_OK) return mt_fail_within(ctx, status, "connections between %d ranks", size);
    (void)pthread_mutex_init(&links->lock, NULL);
    (void)pthread_cond_init(&links->done, NULL);
    links->of = memory;
    links->bytes = bytes;
    struct mt_link_want *want = (struct mt_link_want *)(void *)(links->of + size);
    for (int r = 0; r < size; r++) {
        links->of[r] = (struct mt_link){.socket = sockets[r], .wants = want + (size_t)r * MT_LINK_MOST_WANTS};
        sockets[r] = -1;
    }
    return MT_OK;
}

void mt_links_close(struct mt_links *links)
{
    if (links->of == NULL) return;
    for (int r = 0; r < links->size; r++) {
        if (links->of[r].socket >= 0) (void)close(links->of[r].socket);
    }
    (void)pthread_cond_destroy(&links->done);
    (void)pthread_mutex_destroy(&links->lock);
    mt_release(links->ctx, links->of, links->bytes);
    *links = (struct mt_links){0};
}

// ------------------------------------------------------------------ queues

static void append(struct mt_link_queue *queue, struct mt_link_part *part)
{
    part->next = NULL;
    if (queue->last != NULL)
        queue->last->next = part;
    else
        queue->first = part;
    queue->last = part;
}

static void take_out(struct mt_link_queue *queue, struct mt_link_part *part)
{
    struct mt_link_part *before = NULL;
    for (struct mt_link_part *one = queue->first; one != part; one = one->next) before = one;
    if (before != NULL)
        before->next = part->next;
    else
        queue->first = part->next;
    if (queue->last == part) queue->last = before;
}

static struct mt_link_part *find(const struct mt_link_queue *queue, uint32_t group, uint32_t tag)
{
    struct mt_link_part *part = queue->first;
    while (part != NULL && (part->group != group || part->tag != tag)) part = part->next;
    return part;
}

static void complete(struct mt_links *links, struct mt_link_part *part)
{
    part->request->left--;
    if (part->request->left == 0) (void)pthread_cond_broadcast(&links->done);
}

void mt_links_blame(struct mt_links *links, int rank, enum mt_link_reason reason)
{
    if (links->reason != MT_LINK_GOES_ON) return; // the first counts
    links->reason = reason;
    links->culprit = rank;
    links->exit_status = 1;
}

// ------------------------------------------------------------------ what comes in

/* A rank waits for a message: one we have, or shall have. */
static void hear_want(struct mt_links *links, int rank, const struct mt_link_want *want)
{
    struct mt_link *link = &links->of[rank];
    struct mt_link_part *part = find(&link->idle, want->group, want->tag);
    if (part == NULL) {
        link->wants[link->want_count++] = *want; // there is room: else nothing is read
        return;
    }
    if (part->bytes != want->bytes) {
        mt_links_blame(links, rank, MT_LINK_DISAGREES);
        return;
    }
    take_out(&link->idle, part);
    append(&link->ready, part);
}

/* The first expected part of a tag, if the other knows that it is expected. */
static struct mt_link_part *find_announced(const struct mt_link *link, uint32_t group, uint32_t tag)
{
    struct mt_link_part *part = link->expected.first;
    while (part != NULL && part != link->unannounced && (part->group != group || part->tag != tag))
        part = part->next;
    return part == link->unannounced ? NULL : part;
}

/* Neither of us waits for anything. */
static bool is_done(const struct mt_link *link)
{
    return link->expected.first == NULL && link->idle.first == NULL && link->ready.first == NULL &&
           link->want_count == 0;
}

static void hear_head(struct mt_links *links, int rank)
{
    struct mt_link *link = &links->of[rank];
    uint64_t word = mt_tcp_get(link->head, 4);
    const struct mt_link_want said = {.group = (uint32_t)mt_tcp_get(link->head + 4, 4),
                                      .tag = (uint32_t)mt_tcp_get(link->head + 8, 4),
                                      .bytes = (uint32_t)mt_tcp_get(link->head + 12, 4)};
    link->head_got = 0;
    if (word == WORD_ALIVE) return;
    if (word == WORD_WAITS && said.bytes > 0 && said.bytes <= MT_TRANSPORT_MOST_BYTES &&
        !link->goodbye_heard) {
        hear_want(links, rank, &said);
        return;
    }
    if (word == WORD_PIECE && said.bytes > 0 && said.bytes <= MT_LINK_PIECE) {
        struct mt_link_part *part = find_announced(link, said.group, said.tag);
        if (part != NULL && said.bytes <= part->bytes - part->done) {
            link->into = part;
            link->into_left = said.bytes;
            return;
        }
    }
    if (word == WORD_GOODBYE && is_done(link)) {
        link->goodbye_heard = true;
        return;
    }
    if (word == WORD_END && said.group < (uint32_t)links->size && said.tag > 0 &&
        said.tag < MT_LINK_REASONS) {
        link->end_said = true; // it needs no answer
        mt_links_blame(links, (int)said.group, (enum mt_link_reason)said.tag);
        return;
    }
    mt_links_blame(links, rank, MT_LINK_NONSENSE);
}

static void hear_piece(struct mt_links *links, struct mt_link *link, size_t came)
{
    struct mt_link_part *part = link->into;
    part->done += came;
    link->into_left -= came;
    if (link->into_left == 0) link->into = NULL;
    if (part->done < part->bytes) return;
    take_out(&link->expected, part);
    complete(links, part);
}

bool mt_link_listens(const struct mt_link *link)
{
    return link->into != NULL || link->want_count < MT_LINK_MOST_WANTS;
}

void mt_links_read(struct mt_links *links, int rank)
{
    struct mt_link *link = &links->of[rank];
    size_t budget = PIECES_AT_ONCE * (size_t)MT_LINK_PIECE;
    while (budget > 0 && links->reason == MT_LINK_GOES_ON && mt_link_listens(link)) {
        struct mt_link_part *into = link->into;
        void *target = into != NULL ? into->to + into->done : link->head + link->head_got;
        size_t most = into != NULL ? link->into_left : MT_LINK_HEAD_BYTES - link->head_got;
        ssize_t came = recv(link->socket, target, most, MSG_DONTWAIT);
        if (came < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (came <= 0) {
            if (!link->goodbye_heard) mt_links_blame(links, rank, MT_LINK_GONE);
            (void)close(link->socket);
            link->socket = -1;
            return;
        }
        link->heard = true;
        budget = budget > (size_t)came ? budget - (size_t)came : 0;
        if (into != NULL) {
            hear_piece(links, link, (size_t)came);
        } else {
            link->head_got += (size_t)came;
            if (link->head_got == MT_LINK_HEAD_BYTES) hear_head(links, rank);
        }
    }
}

// ------------------------------------------------------------------ what goes out

static void say(struct mt_link *link, enum word word, uint32_t group, uint32_t tag, size_t bytes)
{
    mt_tcp_put(link->out, (uint64_t)word, 4);
    mt_tcp_put(link->out + 4, group, 4);
    mt_tcp_put(link->out + 8, tag, 4);
    mt_tcp_put(link->out + 12, bytes, 4);
    link->out_at = 0;
    link->out_bytes = MT_LINK_HEAD_BYTES;
}

/* The next word, the most urgent first. False: nothing to say. */
static bool choose_word(const struct mt_links *links, struct mt_link *link)
{
    if (link->end_due) {
        link->end_due = false;
        link->end_said = true;
        say(link, WORD_END, (uint32_t)links->culprit, (uint32_t)links->reason, 0);
    } else if (links->reason != MT_LINK_GOES_ON) {
        return false;
    } else if (link->unannounced != NULL) {
        const struct mt_link_part *part = link->unannounced;
        link->unannounced = part->next;
        say(link, WORD_WAITS, part->group, part->tag, part->bytes);
    } else if (link->beat_due) {
        link->beat_due = false;
        say(link, WORD_ALIVE, 0, 0, 0);
    } else if (link->ready.first != NULL) {
        struct mt_link_part *part = link->ready.first;
        size_t left = part->bytes - part->done;
        link->out_part = part;
        link->out_left = left < MT_LINK_PIECE ? left : MT_LINK_PIECE;
        say(link, WORD_PIECE, part->group, part->tag, link->out_left);
    } else if (links->leaving && !link->goodbye_said) {
        link->goodbye_said = true;
        say(link, WORD_GOODBYE, 0, 0, 0);
    } else {
        return false;
    }
    return true;
}

bool mt_link_has_to_say(const struct mt_links *links, const struct mt_link *link)
{
    if (link->out_bytes > 0 || link->out_part != NULL || link->end_due) return true;
    return links->reason == MT_LINK_GOES_ON &&
           (link->unannounced != NULL || link->beat_due || link->ready.first != NULL ||
            (links->leaving && !link->goodbye_said));
}

/* What was said of the word and the piece under way. */
static void said(struct mt_links *links, struct mt_link *link, size_t sent)
{
    if (link->out_bytes > 0) {
        link->out_at += sent;
        if (link->out_at == link->out_bytes) link->out_bytes = 0;
        return;
    }
    struct mt_link_part *part = link->out_part;
    part->done += sent;
    link->out_left -= sent;
    if (link->out_left > 0) return;
    link->out_part = NULL;
    if (part->done < part->bytes) return;
    take_out(&link->ready, part);
    complete(links, part);
}

void mt_links_write(struct mt_links *links, int rank)
{
    struct mt_link *link = &links->of[rank];
    int words = 0;
    while (words < 2 * PIECES_AT_ONCE) {
        if (link->out_bytes == 0 && link->out_part == NULL) {
            words++;
            if (!choose_word(links, link)) return;
        }
        bool head = link->out_bytes > 0;
        const void *source = head ? link->out + link->out_at : link->out_part->from + link->out_part->done;
        size_t most = head ? link->out_bytes - link->out_at : link->out_left;
        int more = head && link->out_part != NULL ? MSG_MORE : 0;
        ssize_t sent = send(link->socket, source, most, MSG_NOSIGNAL | MSG_DONTWAIT | more);
        // A connection that is broken is noticed when it is read, after what came before it broke.
        if (sent <= 0) return;
        said(links, link, (size_t)sent);
    }
}

// ------------------------------------------------------------------ requests

static struct mt_link_part *add_part(struct mt_link_request *request, const struct mt_link_part *part)
{
    struct mt_link_part *own = &request->parts[request->count++];
    *own = *part;
    own->request = request;
    request->left++;
    return own;
}

void mt_links_receive(struct mt_link_request *request, int from, const struct mt_link_part *part)
{
    struct mt_link *link = &request->links->of[from];
    struct mt_link_part *own = add_part(request, part);
    append(&link->expected, own);
    if (link->unannounced == NULL) link->unannounced = own;
    if (link->goodbye_heard) mt_links_blame(request->links, from, MT_LINK_GONE);
}

void mt_links_send(struct mt_link_request *request, int to, const struct mt_link_part *part)
{
    struct mt_links *links = request->links;
    struct mt_link *link = &links->of[to];
    struct mt_link_part *own = add_part(request, part);
    for (int i = 0; i < link->want_count; i++) {
        const struct mt_link_want want = link->wants[i];
        if (want.group != part->group || want.tag != part->tag) continue;
        if (want.bytes != part->bytes) mt_links_blame(links, to, MT_LINK_DISAGREES);
        link->want_count--;
        memmove(&link->wants[i], &link->wants[i + 1], (size_t)(link->want_count - i) * sizeof want);
        append(&link->ready, own);
        return;
    }
    append(&link->idle, own);
    if (link->goodbye_heard) mt_links_blame(links, to, MT_LINK_GONE);
}
