/* cmocka with the headers it needs before it. */
#ifndef MT_TESTS_CMOCKA_ALL_H
#define MT_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
