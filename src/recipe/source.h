/* A source with its files open: rows by number, each with question, prompt and response. */
#ifndef MT_RECIPE_SOURCE_H
#define MT_RECIPE_SOURCE_H

#include "eval/tasks/task_data.h"
#include "recipe/recipe.h"

/* One file: of a subtask, or the only one. */
struct mt_source_file {
    struct mt_task task;       // the recipe's, over the task it names
    struct mt_task_data *data; // NULL: the file is not there
    uint64_t stream;           // of the numbers its rows are drawn by
};

struct mt_source {
    const struct mt_recipe *recipe; // borrowed
    struct mt_source_file *files;   // [file_count], in the arena
    size_t file_count;
    const char *task; // the name of the recipe's task; "": it has none
};

/* Opens all files. Those that are not there are refused, or left out. Closed whatever it returned. */
enum mt_status mt_source_open(struct mt_context *ctx, const struct mt_recipe *recipe, const char *tasks,
                              const char *data, bool skip_missing, struct mt_arena *arena,
                              struct mt_source *source);
void mt_source_close(struct mt_source *source);

/* "mmlu/val/anatomy_val.csv": what a file is called below the folder of data. */
void mt_source_file_name(const struct mt_source_file *file, char *name, size_t bytes);

/* A row in the making; init and free. */
struct mt_source_row {
    struct mt_task_sample sample; // prompt and right answer
    struct mt_byte_list question; // what the row itself says in the prompt
    struct mt_byte_list response;
};

void mt_source_row_init(struct mt_context *ctx, struct mt_source_row *row);
void mt_source_row_free(struct mt_source_row *row);

/* Makes row `index` of a file. MT_ERR_FORMAT: it makes no sense, or has no answer; another may. */
enum mt_status mt_source_read(const struct mt_source *source, size_t file, size_t index,
                              struct mt_source_row *row);

/* What a row is drawn by: the smaller, the earlier. */
uint64_t mt_source_key(const struct mt_source *source, size_t file, size_t index, uint64_t seed);

#endif
