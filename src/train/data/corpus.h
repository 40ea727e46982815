/*
 * Everything a run reads besides the model: tokenizer, chat template, files of examples, and the batches made
 * of them, to train on and held out.
 *
 * A split holds back the first rows of every source's shuffled order; the rest is trained on. A limit comes
 * first: it says how many rows of that order there are at all.
 */
#ifndef MT_TRAIN_CORPUS_H
#define MT_TRAIN_CORPUS_H

#include "arch/arch.h"
#include "formats/data/row_hashes.h"
#include "text/text_form.h"
#include "train/settings/settings.h"

struct mt_corpus {
    struct mt_context *ctx; // borrowed; NULL: not open
    struct mt_tokenizer *tokenizer;
    struct mt_chat_template *template;
    struct mt_form_record form; // what rows are written out as; its texts are borrowed
    struct mt_arena arena;      // of the form's texts
    struct mt_special_ids special;
    struct mt_id_list stops;      // ids that end texts
    int64_t vocabulary;           // tokens of the model
    struct mt_dataset **datasets; // of the sources, then of the held-out ones
    size_t dataset_count;
    struct mt_batches *training;
    struct mt_batches *held_out;          // NULL: none
    struct mt_batch_counts held_out_size; // of all of it
    const struct mt_log *log;             // borrowed
    struct mt_row_faults faults;          // of all sources
    struct mt_example first;              // the first example, as it is trained on
    char *first_place;                    // "FILE:LINE"; owned
};

/*
 * Opens all of it. `config` is the model's; templates: the folder of those that come along; log: where bad
 * rows are told of, borrowed. A source none of whose rows can be used is refused. The caller closes.
 */
enum mt_status mt_corpus_open(struct mt_context *ctx, const struct mt_train_settings *settings,
                              const struct mt_hf_config *config, const char *templates,
                              const struct mt_log *log, struct mt_corpus *corpus);
void mt_corpus_close(struct mt_corpus *corpus); // a zeroed struct is allowed

/* How long a run is. */
struct mt_run_length {
    uint64_t steps;               // of the whole run
    uint64_t epoch_steps;         // of the first epoch; 0: not counted
    struct mt_batch_counts epoch; // of the first epoch; zero: not counted
};

/*
 * Counts by going through the epochs, each of which packs its examples anew. Where settings.steps says how
 * long the run is, the first epoch alone is gone through, if `survey` asks for it or it is short. Tells the
 * log of the bad rows there are.
 */
enum mt_status mt_corpus_length(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                bool survey, struct mt_run_length *length);

/* Bytes of all files that are trained on, unpacked. */
uint64_t mt_corpus_bytes(const struct mt_corpus *corpus, const struct mt_train_settings *settings);

/* From the next step on micro-batches have at most so many tokens. Steps stay the same: not for packed ones.
 */
void mt_corpus_cut(struct mt_corpus *corpus, int64_t tokens);

/* Sequences a micro-batch of so many tokens has at the most: an example has two tokens at least. */
int64_t mt_corpus_most_sequences(const struct mt_train_settings *settings, int64_t tokens);

/* Adds the hashes of the rows that were drawn so far; those that make no sense taught nothing. */
enum mt_status mt_corpus_add_drawn(struct mt_corpus *corpus, const struct mt_train_settings *settings,
                                   struct mt_row_hashes *rows);

#endif
