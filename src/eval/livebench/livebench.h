/*
 * Judging LiveBench's tasks whose answers no text can be held against (LiveBench/LiveBench,
 * livebench/process_results; instructions as google-research/instruction_following_eval checks them). Texts
 * are valid UTF-8.
 */
#ifndef MT_EVAL_LIVEBENCH_H
#define MT_EVAL_LIVEBENCH_H

#include "eval/text.h"
#include "formats/data/dataset.h"

/* One of the rules below. */
typedef enum mt_status mt_livebench_rule(struct mt_context *ctx, const struct mt_row *row,
                                         struct mt_text answer, double *score);

/* Judges an answer by a rule, what stands in <think> ... </think> left out. */
enum mt_status mt_livebench_judge(struct mt_context *ctx, mt_livebench_rule *rule, const struct mt_row *row,
                                  struct mt_text answer, double *score);

/*
 * Instruction following: the row's `instruction_id_list` names instructions, its `kwargs` holds an object of
 * values for each. The score is the mean of the share that is followed and of 1 where all are, else 0. An
 * instruction nobody can judge here is refused as "FILE:LINE: ...".
 */
enum mt_status mt_livebench_instructions(struct mt_context *ctx, const struct mt_row *row,
                                         struct mt_text answer, double *score);

/* One instruction; *known is false, and nothing else set, where there is no rule of that name. */
enum mt_status mt_livebench_follows(struct mt_context *ctx, const char *instruction,
                                    const struct mt_json_node *values, struct mt_text answer, bool *known,
                                    bool *followed);

/*
 * A table in another format: `turns` asks for it ("... to CSV format", or a line "Target Format: CSV"),
 * `ground_truth` holds it. Code fences, <solution> marks and a sentence in front are taken off; where the
 * answer is still not that table, CSV is looked for below the line of its names, and JSONL line by line. 1
 * where the tables are equal (table.h), else 0.
 */
enum mt_status mt_livebench_table(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                  double *score);

/* The same with the format and the right table given. MT_ERR_FORMAT: the right table is none. */
enum mt_status mt_livebench_table_matches(struct mt_context *ctx, struct mt_text format, struct mt_text right,
                                          struct mt_text answer, bool *matches);

/*
 * Joined tables: `ground_truth` and the answer map names of columns to names, as a dict of Python: all of
 * the answer, or what stands in <solution> marks, the last code fence or the last \boxed{}. The score is F1
 * over the pairs, to two decimals.
 */
enum mt_status mt_livebench_mapping(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                    double *score);

/*
 * Zebra puzzles, spatial questions, web of lies, column types, contests and olympiad proofs, by what the
 * row's `subtask`, else its `task`, says, and step by step as LiveBench's own judges go about it: the score
 * is theirs.
 */
enum mt_status mt_livebench_answer(struct mt_context *ctx, const struct mt_row *row, struct mt_text answer,
                                   double *score);

/* The same with the right dict given. MT_ERR_FORMAT: it is none. */
enum mt_status mt_livebench_mapping_score(struct mt_context *ctx, struct mt_text right, struct mt_text answer,
                                          double *score);

#endif
