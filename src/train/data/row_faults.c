/* Kinds of bad rows: sentences without their numbers and quotes. */
#include "train/data/row_faults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "formats/text/lists.h"

#define MOST_KINDS 64 // further ones count as the last

void mt_row_faults_free(struct mt_row_faults *faults)
{
    for (size_t i = 0; i < faults->count; i++)
        mt_release(faults->ctx, faults->data[i].first, strlen(faults->data[i].first) + 1);
    mt_release(faults->ctx, faults->data, faults->capacity * sizeof *faults->data);
    *faults = (struct mt_row_faults){.ctx = faults->ctx};
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* The sentence behind "FILE:LINE: ". */
static const char *without_place(const char *file, const char *message)
{
    size_t length = strlen(file);
    if (strncmp(message, file, length) != 0 || message[length] != ':') return message;
    const char *at = message + length + 1;
    while (is_digit(*at)) at++;
    return at;
}

/* FNV-1a of a sentence; numbers and what stands in quotes count as nothing. */
static uint64_t kind_of(const char *sentence)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);
    for (const char *at = sentence; *at != '\0'; at++) {
        if (is_digit(*at)) continue;
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001B3);
        const char *closing = *at == '\'' ? strchr(at + 1, '\'') : NULL;
        if (closing != NULL) at = closing;
    }
    return hash;
}

static bool is_before(const struct mt_row_place *a, const struct mt_row_place *b)
{
    return a->source != b->source ? a->source < b->source : a->row < b->row;
}

static int compare(const void *a, const void *b)
{
    const struct mt_row_place *first = &((const struct mt_row_fault *)a)->place;
    const struct mt_row_place *second = &((const struct mt_row_fault *)b)->place;
    return (int)is_before(second, first) - (int)is_before(first, second);
}

enum mt_status mt_row_faults_add(struct mt_row_faults *faults, const char *file, struct mt_row_place place,
                                 const char *message, bool *fresh)
{
    uint64_t kind = kind_of(without_place(file, message));
    size_t at = 0;
    while (at < faults->count && faults->data[at].kind != kind) at++;
    if (at == MOST_KINDS) at--;
    *fresh = at == faults->count;
    if (!*fresh) {
        faults->data[at].count++;
        if (!is_before(&place, &faults->data[at].place)) return MT_OK;
    }
    void *first = NULL;
    size_t bytes = strlen(message) + 1;
    enum mt_status status = MT_OK;
    faults->data =
        mt_list_reserve(faults->ctx, faults->data, &faults->capacity, sizeof *faults->data, at + 1, &status);
    if (status == MT_OK) status = mt_allocate(faults->ctx, bytes, &first);
    if (status != MT_OK) return status;
    memcpy(first, message, bytes);
    struct mt_row_fault *fault = &faults->data[at];
    if (*fresh) {
        *fault = (struct mt_row_fault){.kind = kind, .count = 1};
        faults->count++;
    } else {
        mt_release(faults->ctx, fault->first, strlen(fault->first) + 1);
    }
    fault->place = place;
    fault->first = first;
    return MT_OK;
}

void mt_row_faults_tell(struct mt_row_faults *faults, const struct mt_log *log)
{
    if (faults->count > 1) qsort(faults->data, faults->count, sizeof *faults->data, compare);
    for (size_t i = 0; i < faults->count; i++) {
        struct mt_row_fault *fault = &faults->data[i];
        if (fault->count == fault->told) continue;
        fault->told = fault->count;
        if (fault->count == 1) {
            mt_log_warning(log, "%s; this row is skipped", fault->first);
        } else {
            mt_log_warning(log, "%s; %" PRIu64 " rows like this are skipped", fault->first, fault->count);
        }
    }
    if (faults->lost_turns == faults->lost_told) return;
    faults->lost_told = faults->lost_turns;
    mt_log_warning(log,
                   "%s not trained on: when more of the conversation follows, the chat template writes %s "
                   "otherwise, or not at all",
                   mt_counted(faults->lost_turns, "answer is", "answers are").text,
                   faults->lost_turns == 1 ? "it" : "them");
}

const struct mt_row_fault *mt_row_faults_first(const struct mt_row_faults *faults)
{
    const struct mt_row_fault *first = NULL;
    for (size_t i = 0; i < faults->count; i++) {
        if (first == NULL || is_before(&faults->data[i].place, &first->place)) first = &faults->data[i];
    }
    return first;
}

const struct mt_row_fault *mt_row_faults_commonest(const struct mt_row_faults *faults)
{
    const struct mt_row_fault *most = NULL;
    for (size_t i = 0; i < faults->count; i++) {
        if (most == NULL || faults->data[i].count > most->count) most = &faults->data[i];
    }
    return most;
}
