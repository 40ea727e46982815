/*
 * A leaderboard out of compare.json files: bases × domains × methods, each metric as its mean over seeds with
 * a 95 % interval. One more row is one more file. Files are read as anybody's: what is not as compare.json
 * has it is refused with a sentence, and what newer versions add is left alone.
 */
#ifndef MT_COMPARE_BOARD_H
#define MT_COMPARE_BOARD_H

#include "report/page.h"

#define MT_BOARD_MOST_FILES 64

/* True for a file of JSON, or a folder that holds compare.json: what `metier report` makes a leaderboard of.
 */
bool mt_board_is_comparison(const char *path);

/* Reads the files, or those in the folders, and fills a page that is empty but for its title. */
enum mt_status mt_board_build(struct mt_page *page, const char *const *paths, size_t count);

#endif
