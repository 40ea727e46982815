/* Cutting what is trained into buckets and shares. A bucket begins and ends with a parameter. */
#include "train/buckets.h"

#define LARGE_BUCKET ((size_t)8 << 20)   // bytes
#define SMALL_BUCKET ((size_t)256 << 10) // bytes
#define BUCKETS      8                   // at least, where gradients are few: the first can travel early

/* A stretch of what is trained whose sums are over the same ranks. */
struct stretch {
    struct mt_comm *comm; // NULL: there is nothing to add up
    size_t first, end;    // numbers
};

/* Numbers after which a bucket ends. */
static size_t enough(const struct mt_params *params)
{
    size_t share = params->masters.bytes / BUCKETS;
    if (share > LARGE_BUCKET) share = LARGE_BUCKET;
    if (share < SMALL_BUCKET) share = SMALL_BUCKET;
    return share / sizeof(float);
}

static size_t place_of(const struct mt_params *params, const struct mt_param *param)
{
    return (size_t)((const float *)param->value.data - (const float *)params->masters.data);
}

/* The lowest layer whose backward adds to a parameter's gradient. */
static int64_t layer_of(const struct mt_params *params, const struct mt_param *param)
{
    if (param->layer >= 0) return param->layer;
    // The gradient of a table that is embedding and head is complete when the embedding's is.
    return param->grad.data == params->dembedding.data ? -1 : params->layers;
}

/* Closes a bucket that ends at `end`; with a NULL list they are only counted. */
static void close(struct mt_buckets *buckets, struct mt_bucket *open, size_t end)
{
    struct mt_bucket bucket = *open;
    open->first = end;
    open->layer = buckets->params->layers;
    bucket.count = end - bucket.first;
    if (bucket.count == 0) return;
    buckets->count++;
    if (buckets->list == NULL) return;
    struct mt_comm_share share = {.count = bucket.count};
    if (bucket.comm != NULL)
        share = mt_comm_share_of(bucket.count, mt_comm_rank(bucket.comm), mt_comm_size(bucket.comm));
    bucket.own_first = bucket.first + share.first;
    bucket.own_count = share.count;
    bucket.moment = buckets->own;
    buckets->own += share.count;
    buckets->summed += bucket.comm != NULL ? bucket.count : 0;
    buckets->list[buckets->count - 1] = bucket;
}

static void cut(struct mt_buckets *buckets, const struct stretch *stretch)
{
    const struct mt_params *params = buckets->params;
    struct mt_bucket open = {.comm = stretch->comm, .first = stretch->first, .layer = params->layers};
    for (size_t i = 0; stretch->comm != NULL && i < params->trained_count; i++) {
        const struct mt_param *param = &params->trained[i];
        if (!mt_param_is_here(param)) continue;
        size_t place = place_of(params, param);
        if (place < stretch->first || place >= stretch->end) continue;
        if (place - open.first >= enough(params)) close(buckets, &open, place);
        int64_t layer = layer_of(params, param);
        if (layer < open.layer) open.layer = layer;
    }
    close(buckets, &open, stretch->end);
}

/* One rank has cards only where it is to do as if there were others. */
static struct mt_comm *others(struct mt_comm *comm)
{
    return comm != NULL && (mt_comm_size(comm) > 1 || mt_comm_has_cards(comm)) ? comm : NULL;
}

/* All buckets of both groups. */
static void cut_all(const struct mt_gradient_groups *groups, struct mt_buckets *buckets)
{
    const struct mt_params *params = buckets->params;
    size_t end = params->masters.bytes / sizeof(float);
    size_t common = groups->copies != NULL ? params->common_bytes / sizeof(float) : end;
    buckets->count = 0;
    cut(buckets, &(struct stretch){.comm = others(groups->all), .end = common});
    cut(buckets, &(struct stretch){.comm = others(groups->copies), .first = common, .end = end});
}

enum mt_status mt_buckets_create(const struct mt_gradient_groups *groups, const struct mt_params *params,
                                 struct mt_buckets *buckets)
{
    void *memory = NULL;
    *buckets = (struct mt_buckets){.params = params, .all = others(groups->all)};
    cut_all(groups, buckets);
    if (buckets->count == 0) return MT_OK; // a rank may hold nothing that is trained
    enum mt_status status =
        mt_allocate_array(mt_device_context(params->device), buckets->count, sizeof *buckets->list, &memory);
    buckets->list = memory;
    if (status == MT_OK) cut_all(groups, buckets);
    return status;
}

void mt_buckets_free(struct mt_buckets *buckets)
{
    if (buckets->list != NULL)
        mt_release(mt_device_context(buckets->params->device), buckets->list,
                   buckets->count * sizeof *buckets->list);
    *buckets = (struct mt_buckets){0};
}

struct mt_own_part mt_buckets_part(const struct mt_buckets *buckets, const struct mt_param *param)
{
    if (!mt_param_is_here(param)) return (struct mt_own_part){0};
    size_t begin = place_of(buckets->params, param);
    size_t end = begin + (size_t)mt_tensor_count(&param->value);
    // The last bucket that does not begin behind the parameter has it.
    size_t low = 0;
    size_t high = buckets->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (buckets->list[middle].first <= begin) low = middle;
        if (buckets->list[middle].first > begin) high = middle;
    }
    const struct mt_bucket *bucket = &buckets->list[low];
    size_t own_end = bucket->own_first + bucket->own_count;
    size_t from = begin > bucket->own_first ? begin : bucket->own_first;
    size_t to = end < own_end ? end : own_end;
    if (from >= to) return (struct mt_own_part){0};
    return (struct mt_own_part){.first = (int64_t)(from - begin),
                                .count = (int64_t)(to - from),
                                .moment = bucket->moment + from - bucket->own_first};
}
