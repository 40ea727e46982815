/* What all cells need before the first: files of problems, and the device. */
#ifndef MT_COMPARE_PREPARE_H
#define MT_COMPARE_PREPARE_H

#include "compare/compare.h"
#include "formats/data/row_hashes.h"

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

/* Reads OUT/device: what the cells that are there were computed on; "" where there is none. */
enum mt_status mt_comparison_read_device(struct mt_comparison *comparison);

/* Cells are compared with each other: all are computed on one device, by whatever command. Names it on the
 * terminal. */
enum mt_status mt_comparison_choose_device(struct mt_comparison *comparison);

/* Writes OUT/device. */
enum mt_status mt_comparison_note_device(const struct mt_comparison *comparison);

#endif
