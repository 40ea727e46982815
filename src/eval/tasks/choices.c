/* Choices of a row, and the right one. */
#include "eval/tasks/choices.h"

#include <ctype.h>
#include <string.h>

#include "base/rng.h"
#include "eval/tasks/dropped_rows.h"
#include "eval/tasks/field_place.h"
#include "formats/text/printable.h"

#define SHUFFLE_STREAM 0x63686F69u // apart from the stream that draws examples
#define NOBODY         (-1)
#define SEVERAL        (-2)

/* A text in the sample's choice_text, which grows while choices are read. */
struct piece {
    size_t begin, bytes;
};

/* What a row offers. */
struct offer {
    struct piece texts[MT_SAMPLE_MOST_CHOICES];
    struct piece labels[MT_SAMPLE_MOST_CHOICES];
    size_t count;
    size_t label_count; // 0: the row has no labels
    bool from_list;
    int kept[MT_SAMPLE_MOST_CHOICES]; // the sample's choice that it is; NOBODY: it was dropped
};

bool mt_task_has_choices(const struct mt_task *task)
{
    return task->choices != NULL || task->choice_fields != NULL || task->choice_list != NULL;
}

static struct mt_text text_of(const struct mt_task_sample *sample, struct piece piece)
{
    const char *bytes = (const char *)sample->choice_text.data;
    return (struct mt_text){.text = piece.bytes > 0 ? bytes + piece.begin : "", .bytes = piece.bytes};
}

// ------------------------------------------------------------------ what the row offers

static enum mt_status too_many(const struct mt_task_sample *sample)
{
    return mt_row_fail(&sample->row, "more than %d choices", MT_SAMPLE_MOST_CHOICES);
}

/* What was appended to choice_text from `begin` on is one more text. */
static enum mt_status add_piece(struct mt_task_sample *sample, size_t begin, struct piece *pieces,
                                size_t *count)
{
    if (*count == MT_SAMPLE_MOST_CHOICES) return too_many(sample);
    pieces[(*count)++] = (struct piece){.begin = begin, .bytes = sample->choice_text.count - begin};
    return MT_OK;
}

static enum mt_status take_fields(const struct mt_task *task, struct mt_task_sample *sample,
                                  struct offer *offer)
{
    enum mt_status status = MT_OK;
    for (const char *const *name = task->choice_fields; *name != NULL && status == MT_OK; name++) {
        const struct mt_field_place place = mt_field_place(&sample->row, *name);
        size_t begin = sample->choice_text.count;
        bool is_text = false;
        status = mt_field_place_append(&place, &sample->choice_text, &is_text);
        if (status == MT_OK && !is_text)
            return mt_row_fail(&sample->row, "there is no field '%s' with a choice",
                               mt_printable(*name).text);
        if (status == MT_OK) status = add_piece(sample, begin, offer->texts, &offer->count);
    }
    return status;
}

/* The items of a list; `keys` (may be NULL) gets the names of an object's members. */
static enum mt_status take_list(struct mt_task_sample *sample, const char *name, struct piece *pieces,
                                size_t *count, struct piece *keys, size_t *key_count)
{
    const struct mt_field_place place = mt_field_place(&sample->row, name);
    size_t items = mt_field_place_count(&place);
    enum mt_status status = MT_OK;
    if (items == 0) {
        const char *what =
            place.kind == MT_PLACE_NONE ? "there is no field '%s'" : "the field '%s' is no list";
        if (place.kind == MT_PLACE_LIST || place.kind == MT_PLACE_OBJECT) what = "the list '%s' is empty";
        return mt_row_fail(&sample->row, what, mt_printable(name).text);
    }
    if (items > MT_SAMPLE_MOST_CHOICES) return too_many(sample);
    for (size_t i = 0; i < items && status == MT_OK; i++) {
        const char *key = NULL;
        bool is_text = false;
        size_t begin = sample->choice_text.count;
        status = mt_field_place_append_item(&place, i, &sample->choice_text, &is_text, &key);
        if (status == MT_OK && !is_text)
            return mt_row_fail(&sample->row, "item %zu of '%s' is not a text", i + 1,
                               mt_printable(name).text);
        if (status == MT_OK) status = add_piece(sample, begin, pieces, count);
        if (status != MT_OK || key == NULL || keys == NULL || key_count == NULL) continue;
        begin = sample->choice_text.count;
        status = mt_byte_list_append_text(&sample->choice_text, key);
        if (status == MT_OK) status = add_piece(sample, begin, keys, key_count);
    }
    return status;
}

static enum mt_status take_fixed(struct mt_task_sample *sample, const char *const *texts,
                                 struct piece *pieces, size_t *count)
{
    enum mt_status status = MT_OK;
    for (; *texts != NULL && status == MT_OK; texts++) {
        size_t begin = sample->choice_text.count;
        status = mt_byte_list_append_text(&sample->choice_text, *texts);
        if (status == MT_OK) status = add_piece(sample, begin, pieces, count);
    }
    return status;
}

static enum mt_status take_offer(const struct mt_task *task, struct mt_task_sample *sample,
                                 struct offer *offer)
{
    enum mt_status status = MT_OK;
    if (task->choices != NULL) status = take_fixed(sample, task->choices, offer->texts, &offer->count);
    bool listed =
        task->choice_list != NULL && mt_field_place(&sample->row, task->choice_list).kind != MT_PLACE_NONE;
    if (task->choice_fields != NULL && !listed) {
        status = take_fields(task, sample, offer);
    } else if (task->choice_list != NULL) {
        status = take_list(sample, task->choice_list, offer->texts, &offer->count, offer->labels,
                           &offer->label_count);
    }
    if (status == MT_OK && task->choice_label_list != NULL) {
        offer->label_count = 0;
        status = take_list(sample, task->choice_label_list, offer->labels, &offer->label_count, NULL, NULL);
        if (status == MT_OK && offer->label_count != offer->count)
            return mt_row_fail(&sample->row, "there are %zu choices and %zu labels of them", offer->count,
                               offer->label_count);
    }
    return status;
}

/* The texts no longer move: the sample's choices are those that are not dropped. */
static enum mt_status keep_choices(const struct mt_task *task, struct mt_task_sample *sample,
                                   struct offer *offer)
{
    struct mt_text drop = mt_text_of(task->choice_drop);
    sample->choice_count = 0;
    for (size_t i = 0; i < offer->count; i++) {
        struct piece *piece = &offer->texts[i];
        if (piece->bytes > 0)
            piece->bytes =
                mt_clean_text(task->clean, (char *)sample->choice_text.data + piece->begin, piece->bytes);
        struct mt_text text = text_of(sample, *piece);
        bool dropped = task->choice_drop != NULL && mt_text_same(text, drop);
        offer->kept[i] = dropped ? NOBODY : (int)sample->choice_count;
        if (!dropped) sample->choices[sample->choice_count++] = text;
    }
    return sample->choice_count > 0 ? MT_OK : mt_row_fail(&sample->row, "there are no choices");
}

/* The choices as the task's template has them, behind the row's own texts, by which the answer is found. */
static enum mt_status rewrite_choices(const struct mt_task *task, struct mt_task_sample *sample)
{
    struct mt_byte_list written = {.ctx = sample->row.ctx};
    struct mt_prompt_names names = mt_sample_names(task, sample);
    struct piece pieces[MT_SAMPLE_MOST_CHOICES];
    size_t before = sample->choice_text.count;
    enum mt_status status = MT_OK;
    for (size_t i = 0; i < sample->choice_count && status == MT_OK; i++) {
        size_t begin = written.count;
        names.choice = (int)i;
        status = mt_prompt_render(task->choice_text, &sample->row, &names, &written);
        pieces[i] = (struct piece){.begin = before + begin, .bytes = written.count - begin};
    }
    if (status == MT_OK) status = mt_byte_list_append(&sample->choice_text, written.data, written.count);
    for (size_t i = 0; i < sample->choice_count && status == MT_OK; i++)
        sample->choices[i] = text_of(sample, pieces[i]);
    mt_byte_list_free(&written);
    return status;
}

// ------------------------------------------------------------------ the right one

/* The one of so many texts that is the answer; NOBODY or SEVERAL. */
static int place_among(const struct mt_task_sample *sample, const struct piece *pieces, size_t count,
                       struct mt_text answer)
{
    int found = NOBODY;
    for (size_t i = 0; i < count; i++) {
        if (!mt_text_same(mt_text_trimmed(text_of(sample, pieces[i])), answer)) continue;
        if (found != NOBODY) return SEVERAL;
        found = (int)i;
    }
    return found;
}

/* "B", "b", "(B)", "B." or "B)". */
static int place_of_letter(struct mt_text answer, size_t count)
{
    bool open = answer.bytes > 1 && answer.text[0] == '(';
    if (open) answer = mt_text_from(answer, 1);
    if (answer.bytes == 2 && strchr(open ? ")" : ").", answer.text[1]) != NULL) answer.bytes = 1;
    if (answer.bytes != 1 || !isalpha((unsigned char)answer.text[0])) return NOBODY;
    int place = toupper((unsigned char)answer.text[0]) - 'A';
    return place < (int)count ? place : NOBODY;
}

/* A whole number, "2" or "2.0"; NOBODY: it is none. */
static int whole_number(struct mt_text answer)
{
    int number = 0;
    size_t digits = 0;
    for (; digits < answer.bytes && isdigit((unsigned char)answer.text[digits]); digits++) {
        number = 10 * number + (answer.text[digits] - '0');
        if (number > MT_SAMPLE_MOST_CHOICES) return NOBODY;
    }
    bool point = digits > 0 && digits + 1 < answer.bytes && answer.text[digits] == '.';
    for (size_t i = digits + 1; point && i < answer.bytes; i++) point = answer.text[i] == '0';
    return digits > 0 && (digits == answer.bytes || point) ? number : NOBODY;
}

static bool is_set(struct mt_text line)
{
    line = mt_text_trimmed(line);
    return mt_text_is(line, "1") || mt_text_is(line, "true");
}

/* The place of the first line that is 1 or true; SEVERAL: there are more, and only one may be, or not as many
 * lines as choices. */
static int place_of_flag(struct mt_text answer, size_t count, bool many)
{
    struct mt_text line;
    size_t lines = 0;
    int found = NOBODY;
    for (size_t at = 0; mt_text_next_line(answer, &at, &line); lines++) {
        if (!is_set(line)) continue;
        if (found != NOBODY && !many) return SEVERAL;
        if (found == NOBODY) found = (int)lines;
    }
    return lines == count ? found : SEVERAL;
}

static enum mt_status refuse(const struct mt_task_sample *sample, struct mt_text answer, size_t count,
                             const char *why)
{
    return mt_row_fail(&sample->row, "the answer '%s' is not one of the %zu choices%s",
                       mt_printable_bytes(answer.text, answer.bytes).text, count, why);
}

/* By letter or by text, whichever fits; what fits both, and not the same choice, is refused. */
static enum mt_status find_openly(const struct mt_task_sample *sample, const struct offer *offer,
                                  struct mt_text answer, int *place)
{
    int letter = place_of_letter(answer, offer->count);
    int text = place_among(sample, offer->texts, offer->count, answer);
    int number = whole_number(answer);
    const struct mt_printable shown = mt_printable_bytes(answer.text, answer.bytes);
    if (text == SEVERAL)
        return mt_row_fail(&sample->row, "the answer '%s' is the text of several choices", shown.text);
    if (text == NOBODY && letter == NOBODY && number >= 0)
        return refuse(sample, answer, offer->count,
                      " (a place among them? answer_is: index counts from 0, number from 1)");
    if (text >= 0 && letter >= 0 && text != letter)
        return mt_row_fail(&sample->row,
                           "the answer '%s' is the letter of one choice and the text of another (answer_is: "
                           "letter or text says which is meant)",
                           shown.text);
    if (text >= 0 && number >= 0 && number < (int)offer->count && number != text)
        return mt_row_fail(&sample->row,
                           "the answer '%s' is the text of a choice, and may be the place of another "
                           "(answer_is: text, index or number says which is meant)",
                           shown.text);
    *place = text >= 0 ? text : letter;
    return *place >= 0 ? MT_OK : refuse(sample, answer, offer->count, "");
}

/* By the labels of the row, or those the task gives. */
static enum mt_status find_label(const struct mt_task *task, const struct mt_task_sample *sample,
                                 const struct offer *offer, struct mt_text answer, int *place)
{
    *place = NOBODY;
    if (offer->label_count > 0) *place = place_among(sample, offer->labels, offer->label_count, answer);
    for (size_t i = 0; task->choice_labels != NULL && task->choice_labels[i] != NULL && i < offer->count;
         i++) {
        if (*place == NOBODY && mt_text_same(mt_text_of(task->choice_labels[i]), answer)) *place = (int)i;
    }
    int index = task->answer_is == MT_NAMED_OR_INDEX ? whole_number(answer) : NOBODY;
    if (*place == NOBODY && index < (int)offer->count) *place = index;
    if (*place == SEVERAL)
        return mt_row_fail(&sample->row, "the answer '%s' is the label of several choices",
                           mt_printable_bytes(answer.text, answer.bytes).text);
    return *place >= 0 ? MT_OK : refuse(sample, answer, offer->count, " by its label");
}

static enum mt_status find_right(const struct mt_task *task, const struct mt_task_sample *sample,
                                 const struct offer *offer, int *place)
{
    struct mt_text answer = mt_text_trimmed(mt_text_in(&sample->answer));
    size_t count = offer->count;
    if (task->choice_labels != NULL || offer->label_count > 0)
        return find_label(task, sample, offer, answer, place);
    switch (task->answer_is) {
    case MT_NAMED_OPENLY: return find_openly(sample, offer, answer, place);
    case MT_NAMED_LETTER: *place = place_of_letter(answer, count); break;
    case MT_NAMED_OR_INDEX:
        *place = place_of_letter(answer, count);
        if (*place == NOBODY) *place = whole_number(answer);
        break;
    case MT_NAMED_TEXT: *place = place_among(sample, offer->texts, count, answer); break;
    case MT_NAMED_INDEX: *place = whole_number(answer); break;
    case MT_NAMED_NUMBER: *place = whole_number(answer) - 1; break;
    case MT_NAMED_FLAGS:
    case MT_NAMED_MANY: *place = place_of_flag(answer, count, task->answer_is == MT_NAMED_MANY); break;
    }
    if (*place == SEVERAL && task->answer_is == MT_NAMED_TEXT)
        return mt_row_fail(&sample->row, "the answer '%s' is the text of several choices",
                           mt_printable_bytes(answer.text, answer.bytes).text);
    if (*place == SEVERAL)
        return mt_row_fail(&sample->row,
                           "the answer's lines must say for each of the %zu choices whether it is right, and "
                           "one must be right",
                           count);
    if (*place >= 0 && *place < (int)count) return MT_OK;
    return refuse(sample, answer, count,
                  task->answer_is == MT_NAMED_INDEX    ? " (an index from 0)"
                  : task->answer_is == MT_NAMED_NUMBER ? " (a number from 1)"
                                                       : "");
}

/* Mixes the choices by seed and row; returns where the first one went. */
static int mix(const struct mt_task *task, uint64_t row, struct mt_task_sample *sample)
{
    int first = 0;
    for (size_t i = sample->choice_count; i > 1; i--) {
        size_t other = (size_t)mt_rng_below(task->seed, SHUFFLE_STREAM + row, i, i);
        struct mt_text kept = sample->choices[i - 1];
        sample->choices[i - 1] = sample->choices[other];
        sample->choices[other] = kept;
        if (first == (int)other) {
            first = (int)(i - 1);
        } else if (first == (int)(i - 1)) {
            first = (int)other;
        }
    }
    return first;
}

/* The choices in the order that was drawn for the sample; returns where the last one went. */
static int arrange(const unsigned char *order, struct mt_task_sample *sample)
{
    struct mt_text before[MT_SAMPLE_MOST_CHOICES];
    int last = 0;
    memcpy(before, sample->choices, sizeof before);
    for (size_t i = 0; i < sample->choice_count; i++) {
        sample->choices[i] = before[order[i]];
        if (order[i] + 1u == sample->choice_count) last = (int)i;
    }
    return last;
}

/* All the right choices, a bit each. */
static uint32_t all_right(const struct mt_task *task, const struct mt_task_sample *sample,
                          const struct offer *offer)
{
    struct mt_text line;
    uint32_t right = 0;
    if (task->answer_is != MT_NAMED_MANY) return (uint32_t)1 << sample->gold;
    for (size_t at = 0, i = 0; mt_text_next_line(mt_text_in(&sample->answer), &at, &line); i++) {
        if (is_set(line) && offer->kept[i] != NOBODY) right |= (uint32_t)1 << offer->kept[i];
    }
    return right;
}

enum mt_status mt_choices_read(const struct mt_task *task, uint64_t row, const unsigned char *order,
                               struct mt_task_sample *sample)
{
    struct offer offer = {0};
    int place = 0;
    sample->choice_text.count = 0;
    sample->choice_count = 0;
    sample->answer.count = 0;
    sample->gold = -1;
    sample->right = 0;
    bool chooses = mt_task_has_choices(task);
    enum mt_status status = chooses ? take_offer(task, sample, &offer) : MT_OK;
    if (status == MT_OK && chooses) status = keep_choices(task, sample, &offer);
    if (status == MT_OK && chooses && task->choice_text != NULL) status = rewrite_choices(task, sample);
    struct mt_prompt_names names = mt_sample_names(task, sample);
    if (status == MT_OK) status = mt_prompt_render(task->answer, &sample->row, &names, &sample->answer);
    if (status != MT_OK || !chooses) return status;
    if (mt_text_trimmed(mt_text_in(&sample->answer)).bytes == 0)
        return mt_row_fail(&sample->row, MT_ROW_UNANSWERED);
    bool shuffled = task->shuffle != MT_SHUFFLE_NOT;
    if (!shuffled) status = find_right(task, sample, &offer, &place);
    if (status == MT_OK && !shuffled && offer.kept[place] == NOBODY)
        status = mt_row_fail(&sample->row, "the right choice is one that choice_drop leaves out");
    if (status != MT_OK) return status;
    switch (task->shuffle) {
    case MT_SHUFFLE_NOT: sample->gold = offer.kept[place]; break;
    case MT_SHUFFLE_ROW: sample->gold = mix(task, row, sample); break;
    case MT_SHUFFLE_HARNESS:
        sample->gold = order != NULL ? arrange(order, sample) : (int)sample->choice_count - 1;
        break;
    }
    sample->right = all_right(task, sample, &offer);
    sample->answer.count = 0;
    if (task->choice_labels != NULL)
        return mt_byte_list_append(&sample->answer, sample->choices[sample->gold].text,
                                   sample->choices[sample->gold].bytes);
    char letter = (char)('A' + sample->gold);
    return mt_byte_list_append(&sample->answer, &letter, 1);
}
