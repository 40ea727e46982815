/*
 * How much work code does, whatever the processor and however busy it is: the blocks of it that were run.
 * Sources of a test that metier_count_blocks names (tests/CMakeLists.txt) are compiled so that each block
 * counts itself.
 */
#ifndef MT_TEST_BLOCKS_H
#define MT_TEST_BLOCKS_H

#include <stdint.h>

/* Since the program began; for one thread. */
uint64_t blocks_run(void);

#endif
