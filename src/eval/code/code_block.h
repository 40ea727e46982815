/*
 * The program in what a model wrote.
 *
 *     thoughts      <think> ... </think> and the like are no part of the answer
 *     blocks        what stands between fences (``` or ~~~, indented or not), else lines that look like code
 *     the choice    for every name the tests want, the last block that defines it: drafts come before
 *     helpers       other blocks are put with it where they define or import a name that it uses and lacks
 *
 * Where no block defines a wanted name it is the last that defines something, else the last one; without any
 * block it is the whole text: how a program goes on.
 */
#ifndef MT_EVAL_CODE_BLOCK_H
#define MT_EVAL_CODE_BLOCK_H

#include "eval/text.h"

/*
 * Appends the program in an answer. `wanted` is Python whose names the program should define: the tests, or
 * "name=name_in_answer ..."; empty: not known. *found is false, and nothing appended, where there is none.
 */
enum mt_status mt_code_find(struct mt_text answer, struct mt_text wanted, struct mt_byte_list *out,
                            bool *found);

#endif
