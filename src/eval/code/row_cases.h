/*
 * The cases of a row: inputs and right outputs, as LiveCodeBench's rows have them.
 *
 *     public_test_cases    JSON: a list of {"input", "output", "testtype": "stdin" or "functional"}
 *     private_test_cases   the same, or base64 of zlib of a pickle of one str that is this JSON
 *     metadata             JSON: {"func_name": "NAME"} where a function is called; else programs read stdin
 *
 * A pickle is a program, and one out of a data file is somebody else's: it is never run. Of its operations
 * those of a single str are read, any other is refused. What is unpacked is bounded.
 */
#ifndef MT_EVAL_ROW_CASES_H
#define MT_EVAL_ROW_CASES_H

#include "eval/text.h"
#include "formats/data/dataset.h"

#define MT_ROW_CASES_MOST_ROW ((size_t)128 << 20) // bytes of a row of a file with cases
#define MT_ROW_CASES_MOST     ((size_t)256 << 20) // bytes of its private cases, unpacked
#define MT_ROW_CASES_MOST_ONE ((size_t)24 << 20)  // bytes of one input, or of one output

/* Where the cases of a row are. */
struct mt_row_cases {
    struct mt_text public_cases, private_cases; // borrowed from the row
    size_t begin, end;  // of the JSON in what private_cases unpacks to; both 0: it is JSON itself
    char function[128]; // what is called; "": programs read stdin
};

/* Finds them, unpacking no more than is needed. What is missing or wrong is "FILE:LINE: ...". */
enum mt_status mt_row_cases_find(const struct mt_row *row, struct mt_row_cases *cases);

/* Looks at all of them: each has an input and an output of the kind the row says, and can be tried. */
enum mt_status mt_row_cases_check(const struct mt_row *row);

/* Appends "BEGIN END FUNCTION", for the judge (python/cases_judge.py). */
enum mt_status mt_row_cases_write(const struct mt_row_cases *cases, struct mt_byte_list *text);

#endif
