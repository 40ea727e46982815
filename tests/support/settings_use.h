/*
 * Files of settings, read and then used as the program would: what a reader lets through must not break those
 * behind it. For the test of hostile values and for fuzzing; a broken promise aborts.
 */
#ifndef MT_TESTS_SETTINGS_USE_H
#define MT_TESTS_SETTINGS_USE_H

#include <stdbool.h>
#include <stddef.h>

/* Each reads a text as a file of its kind. True: it was accepted, and used; else `why` has the message. */
typedef bool settings_use(const char *text, size_t bytes, char *why, size_t why_bytes);

settings_use use_task;
settings_use use_recipe;
settings_use use_compare;

#endif
