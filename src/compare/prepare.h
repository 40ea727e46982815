/* What all cells need before the first: files of problems. */
#ifndef MT_COMPARE_PREPARE_H
#define MT_COMPARE_PREPARE_H

#include "compare/compare.h"
#include "formats/data/row_hashes.h"

/*
 * Rows that the models of a comparison have read, as far as their folders say so (rows_read.hashes), are
 * drawn by nobody, and refused in files, unless settings.allow_read_rows. Refuses those in what its cells are
 * still to be trained on. `given`: in files that the settings name, before anything is written; else in those
 * of OUT/data.
 */
enum mt_status mt_read_rows_check(const struct mt_comparison *comparison, bool given);

/* Writes OUT/data, as far as it is not there. */
enum mt_status mt_comparison_write_problems(const struct mt_cell_job *job);

/*
 * Writes the rows of a domain's recipe to `path`, unless they are there: problems.train of them, drawn by
 * `seed`, without those that are excluded and what overlaps with a question of the comparison's benchmarks
 * (recipe_rows.c).
 */
enum mt_status mt_comparison_write_recipe(const struct mt_cell_job *job,
                                          const struct mt_compare_domain *domain, uint64_t seed,
                                          const struct mt_row_hashes *exclude, const char *path);

#endif
