/*
 * What is trained, cut along the layers into buckets, each so many numbers of masters and gradients whose
 * sums over ranks travel together. A rank moves its share of every bucket (mt_comm_share_of), and holds the
 * moments of these numbers alone. What nobody else holds is one bucket, and its share all of it.
 */
#ifndef MT_TRAIN_BUCKETS_H
#define MT_TRAIN_BUCKETS_H

#include "comm/comm.h"
#include "model/params/params.h"

/* Whose gradients are added up. Both NULL: this process is alone. */
struct mt_gradient_groups {
    struct mt_comm *all;    // ranks: of what every rank holds
    struct mt_comm *copies; // the ranks that hold the same routed experts; NULL: no experts are spread
};

/* Places and counts are of numbers, among those of masters and of gradients. */
struct mt_bucket {
    struct mt_comm *comm;        // borrowed: who adds up; NULL: nobody else holds these
    size_t first, count;         // of the bucket
    size_t own_first, own_count; // of this rank's share
    size_t moment;               // where its moments begin, among those of this rank
    int64_t layer; // the lowest that adds to its gradients; -1: the embedding does; layers: none does
};

struct mt_buckets {
    const struct mt_params *params; // borrowed
    struct mt_comm *all;            // borrowed; NULL: alone
    struct mt_bucket *list;         // owned; in the order of memory
    size_t count;
    size_t own;    // numbers of all shares
    size_t summed; // numbers that other ranks hold, too
};

/* Parameters and groups outlive the buckets. The caller frees. */
enum mt_status mt_buckets_create(const struct mt_gradient_groups *groups, const struct mt_params *params,
                                 struct mt_buckets *buckets);
void mt_buckets_free(struct mt_buckets *buckets); // a zeroed struct is allowed

/* What of a parameter this rank moves: numbers first … first+count-1 of it, and where their moments begin. */
struct mt_own_part {
    int64_t first, count; // count 0: nothing
    size_t moment;
};
struct mt_own_part mt_buckets_part(const struct mt_buckets *buckets, const struct mt_param *param);

#endif
