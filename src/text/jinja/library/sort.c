/* Sorting by keys that may refuse to be compared: a stable merge sort. */
#include "text/jinja/run.h"

struct sorter {
    struct jinja_run *run;
    struct jinja_pair *pairs;
    struct jinja_pair *scratch;
    bool reverse;
};

/* Whether the pair at `right` comes before the one at `left`, which stands before it now. */
static enum mt_status overtakes(const struct sorter *s, size_t left, size_t right, bool *first)
{
    const struct mt_value *low = &s->pairs[s->reverse ? left : right].key;
    const struct mt_value *high = &s->pairs[s->reverse ? right : left].key;
    int order = 0;
    enum mt_status status = jinja_order(s->run, *low, *high, "<", &order);
    *first = order == -1;
    return status;
}

static enum mt_status sort_between(const struct sorter *s, size_t start, size_t end)
{
    if (end - start < 2) return MT_OK;
    size_t middle = start + (end - start) / 2;
    enum mt_status status = sort_between(s, start, middle);
    if (status == MT_OK) status = sort_between(s, middle, end);
    size_t left = start;
    size_t right = middle;
    for (size_t out = start; status == MT_OK && out < end; out++) {
        bool take_right = left == middle;
        if (left < middle && right < end) status = overtakes(s, left, right, &take_right);
        s->scratch[out] = take_right ? s->pairs[right++] : s->pairs[left++];
    }
    if (status == MT_OK) memcpy(s->pairs + start, s->scratch + start, (end - start) * sizeof *s->pairs);
    return status;
}

enum mt_status jinja_sort(struct jinja_run *run, const struct jinja_pair *pairs, size_t count, bool reverse,
                          const struct jinja_pair **sorted)
{
    void *memory = NULL;
    *sorted = pairs;
    if (count == 0) return MT_OK;
    enum mt_status status = jinja_allocate(run, 2 * count * sizeof *pairs, &memory);
    if (status != MT_OK) return status;
    struct sorter s = {run, memory, (struct jinja_pair *)memory + count, reverse};
    memcpy(s.pairs, pairs, count * sizeof *pairs);
    *sorted = s.pairs;
    return sort_between(&s, 0, count);
}
