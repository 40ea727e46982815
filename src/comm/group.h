/* The inside of a group of ranks, for its files: comm.c, background.c with what goes on beside other work,
 * and launch.c, which finds the transport. */
#ifndef MT_COMM_GROUP_H
#define MT_COMM_GROUP_H

#include "comm/comm.h"
#include "comm/transport.h"

struct mt_comm {
    struct mt_context *ctx;               // borrowed
    const struct mt_transport *transport; // lives forever; NULL: one rank, nobody to send to
    void *group;                          // the transport's; follows this struct, as do the next two
    void *request;                        // of mt_comm_exchange
    size_t *places;                       // [2,ranks]: of mt_comm_exchange
    size_t *bytes_of;                     // [2,ranks]: of mt_comm_hand_over
    unsigned char *gathered;              // [ranks] pieces of MT_COMM_PIECE: of small sums
    struct mt_comm *job;                  // the group of all ranks: counts the bytes; itself for that group
    struct mt_timeline *timeline;         // the job's; borrowed
    struct mt_cards *cards;               // owned; NULL: cards send nothing
    int rank, size;
    int failed_rank;
    int next_tag;                       // of a sum made next; 0 is mt_comm_exchange's
    int next_transfer;                  // number of a transfer made next, for the timeline
    int next_sum;                       // the job's: number of a sum made next, for the timeline
    uint64_t sent_bytes[MT_COMM_KINDS]; // the job's
    size_t bytes;                       // of the block this struct begins
};

/* All ranks of a transport that is not looked for: measurements bring one that stands in for the others. */
enum mt_status mt_comm_open_over(struct mt_context *ctx, const struct mt_transport *transport,
                                 struct mt_comm **comm);

#define MT_COMM_PIECE 32768 // bytes of each rank that are brought together at a time

/* Parts of a block begin at multiples of 64 bytes. */
static inline size_t mt_comm_rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Of an exchange under way, rounded. */
size_t mt_comm_request_bytes(const struct mt_transport *transport, int ranks);

/* at[r] = what lies before rank r's part. */
void mt_comm_places(const size_t *bytes, int ranks, size_t *at);

/* A tag nobody else of the group has, as long as there are not more than MPI promises. */
int mt_comm_take_tag(struct mt_comm *comm);

/* Counts what an exchange sends. */
void mt_comm_count(struct mt_comm *comm, const struct mt_exchange *exchange, enum mt_comm_kind kind);

/* The same, and starts it. */
void mt_comm_start(struct mt_comm *comm, const struct mt_exchange *exchange, enum mt_comm_kind kind,
                   void *request);

/* What the environment says about the number of ranks. */
struct mt_launch_claim {
    const char *name; // the variable
    long ranks;
};

#define MT_LAUNCH_MOST_CLAIMS 4

struct mt_launch {
    struct mt_launch_claim claims[MT_LAUNCH_MOST_CLAIMS];
    size_t count;   // 0: nobody says anything
    long pmix_rank; // -1: PMIx started nobody
};

/* Reads the environment. Before MPI is opened, which writes into it. */
struct mt_launch mt_launch_read(void);

/*
 * Which transport the environment asks for; NULL without a launcher: one rank. A launcher with more than one
 * rank and no module to talk to it is refused.
 */
enum mt_status mt_transport_find(struct mt_context *ctx, const struct mt_launch *launch,
                                 const struct mt_transport **transport);

/* Refuses a group of `size` ranks where a launcher says another number. */
enum mt_status mt_transport_check(struct mt_context *ctx, const struct mt_launch *launch, int size);

/* Seconds after which a rank that is not heard of ends the job, as METIER_RANK_TIMEOUT says; 0: never. */
enum mt_status mt_transport_timeout(struct mt_context *ctx, int *seconds);

#endif
