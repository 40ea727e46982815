/*
 * Instruction following: whether an answer does what instructions of known kinds ask ("keywords:existence"),
 * as google-research/instruction_following_eval checks them. IFEval and LiveBench ask for the same kinds.
 * Texts are valid UTF-8.
 */
#ifndef MT_EVAL_INSTRUCTIONS_H
#define MT_EVAL_INSTRUCTIONS_H

#include "eval/answers/metric.h"
#include "eval/text.h"
#include "formats/data/dataset.h"

enum mt_following {
    MT_NOT_FOLLOWED,
    MT_FOLLOWED,
    MT_FOLLOWING_OPEN, // only another program can tell: which language it is, where sentences end
};

/*
 * One instruction with its values. *known is false, and nothing else set, where there is no such kind. Values
 * that make no sense are refused as MT_ERR_FORMAT; keywords are patterns, as there.
 */
enum mt_status mt_instruction_check(struct mt_context *ctx, const char *kind,
                                    const struct mt_json_node *values, struct mt_text answer, bool *known,
                                    enum mt_following *following);

/*
 * The row's instructions, one call each: `instruction_id_list` names them, `kwargs` holds an object of values
 * for each, and `self` is handed on. A row that does not fit that, or an unknown kind, is "FILE:LINE: ...".
 * *count is how many there are.
 */
typedef enum mt_status mt_instruction_visit(void *self, struct mt_context *ctx, size_t index,
                                            const char *kind, const struct mt_json_node *values, bool *known);
enum mt_status mt_instructions_each(struct mt_context *ctx, const struct mt_row *row,
                                    mt_instruction_visit *visit, void *self, size_t *count);

/*
 * IFEval's verdicts on an answer: strict, of the answer as it is, and loose, where one of eight variants may
 * follow: without asterisks, first line, last line. What a model thought before (</think>) is left out.
 */
enum mt_status mt_ifeval_judge(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                               struct mt_instruction_marks *marks);

/*
 * How many words of a text are in capitals, as NLTK's word_tokenize cuts it, which depends a little on where
 * its trained splitter ends sentences: at least *low, at most *high.
 */
enum mt_status mt_capital_words(struct mt_context *ctx, struct mt_text text, size_t *low, size_t *high);

#endif
