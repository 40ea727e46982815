/*
 * Nearest neighbours from distances that may be off by a known amount: first a bound that the k + 1 nearest
 * certainly keep, then everything that may lie within it, in double.
 */
#include "analysis/neighbours.h"

static bool nearer(const struct mt_neighbour *a, const struct mt_neighbour *b)
{
    if (a->value != b->value) return a->value < b->value;
    return a->point < b->point;
}

/* Lets the entry at `at` sink to its place: the heap has its farthest entry first. */
static void sink(struct mt_neighbour *heap, int count, int at)
{
    struct mt_neighbour moving = heap[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && nearer(&heap[child], &heap[child + 1])) child++;
        if (!nearer(&moving, &heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Keeps the nearest `most` entries seen. */
static void offer(struct mt_neighbour *heap, int *count, int most, struct mt_neighbour entry)
{
    if (*count < most) {
        heap[(*count)++] = entry;
        if (*count < most) return;
        for (int i = most / 2 - 1; i >= 0; i--) sink(heap, most, i);
        return;
    }
    if (!nearer(&entry, &heap[0])) return;
    heap[0] = entry;
    sink(heap, most, 0);
}

/* What the most-th nearest cannot be farther than. */
static double outer_bound(const struct mt_distances *distances, const double *value, const double *error,
                          int most, struct mt_neighbour *heap)
{
    int count = 0;
    for (int64_t j = 0; j < distances->points.count; j++) {
        double upper = value[j] + error[j];
        if (count == most && upper > heap[0].value) continue;
        offer(heap, &count, most, (struct mt_neighbour){.value = upper, .point = j});
    }
    return heap[0].value;
}

/* A heap becomes a list, nearest first. */
static void sort_heap(struct mt_neighbour *heap, int count)
{
    for (int left = count - 1; left > 0; left--) {
        struct mt_neighbour farthest = heap[0];
        heap[0] = heap[left];
        heap[left] = farthest;
        sink(heap, left, 0);
    }
}

static void leave_out(struct mt_neighbour *nearest, int count, int64_t asked)
{
    int self = 0;
    for (int i = 0; i < count; i++) {
        if (nearest[i].place == asked) self = i;
    }
    for (int i = self; i + 1 < count; i++) nearest[i] = nearest[i + 1];
}

void mt_neighbours_find(const struct mt_distances *distances, int64_t asked, const double *value,
                        const double *error, int k, struct mt_neighbour *nearest)
{
    int most = k + 1;
    int count = 0;
    double bound = outer_bound(distances, value, error, most, nearest);
    for (int64_t j = 0; j < distances->points.count; j++) {
        if (value[j] - error[j] > bound) continue;
        double exact = error[j] > 0.0 ? mt_distances_exact(distances, asked, j) : value[j];
        offer(nearest, &count, most,
              (struct mt_neighbour){.value = exact, .point = distances->order[j], .place = j});
    }
    sort_heap(nearest, count);
    leave_out(nearest, count, asked);
}

double mt_neighbours_overlap(const struct mt_distances *distances, int64_t asked,
                             const struct mt_neighbour *nearest, int k)
{
    int others = 0;
    for (int i = 0; i < k; i++)
        others += distances->label_of[nearest[i].place] != distances->label_of[asked] ? 1 : 0;
    return (double)others / k;
}
