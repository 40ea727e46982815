/* Rows in the making: what the steps of mt_recipe_write hand to each other. */
#ifndef MT_RECIPE_MAKING_H
#define MT_RECIPE_MAKING_H

#include "recipe/overlap.h"
#include "recipe/source.h"
#include "recipe/write.h"

/* A row that may be written. */
struct mt_recipe_entry {
    uint64_t key; // what it is drawn by
    uint32_t source;
    uint32_t file;
    uint64_t index;        // in the file's data
    struct mt_text answer; // a teacher's; no text: the recipe's response
};

struct mt_making {
    struct mt_context *ctx;
    const struct mt_recipe *recipe;
    const struct mt_recipe_options *options;
    struct mt_recipe_report *report;  // its counts are filled in on the way
    struct mt_arena *arena;           // the report's
    struct mt_source *sources;        // [report->source_count]
    struct mt_digest_text *test_sums; // [report->test_count], of the files
    struct mt_overlap *overlap;       // NULL: nothing is looked for
    struct mt_recipe_entry *entries;  // [count]: of one source after the other, each in the order of the draw
    size_t count, capacity;
    size_t *starts; // [report->source_count]: where its entries begin; as many as it has drawn count
};

/* True when an entry has been drawn. */
static inline bool mt_making_drew(const struct mt_making *making, size_t index)
{
    size_t source = making->entries[index].source;
    return index - making->starts[source] < (size_t)making->report->sources[source].drawn;
}

/* Reads the test questions of all tasks that count (tests.c). */
enum mt_status mt_making_read_tests(struct mt_making *making);

/* Reads all rows; those that can be used and overlap with nothing become entries (rows.c). */
enum mt_status mt_making_read_rows(struct mt_making *making);

/* Lets the teacher answer what was drawn, and draws more for what was wrong where that is wanted (teacher.c).
 */
enum mt_status mt_making_ask_teacher(struct mt_making *making);

/* Writes OUT.json; the rows have that checksum (manifest.c). */
enum mt_status mt_making_write_manifest(struct mt_making *making, const struct mt_digest_text *rows);

#endif
