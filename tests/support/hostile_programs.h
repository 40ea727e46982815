/* More hostile programs and cheats than an installed metier tries on its own machine
 * (eval/code/sandbox_hostile.h). */
#ifndef TESTS_SUPPORT_HOSTILE_PROGRAMS_H
#define TESTS_SUPPORT_HOSTILE_PROGRAMS_H

#include "eval/code/sandbox_hostile.h"

/* `count` of each. They live forever. */
const struct mt_hostile_case *hostile_programs(size_t *count);
const struct mt_cheat *hostile_cheats(size_t *count);

#endif
