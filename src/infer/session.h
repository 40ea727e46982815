/*
 * A model ready to talk: device, weights, adapter, engine, tokenizer, chat template, and how its authors
 * sample.
 */
#ifndef MT_INFER_SESSION_H
#define MT_INFER_SESSION_H

#include "eval/text.h"
#include "formats/hf/hf_generation.h"
#include "infer/answer.h"
#include "infer/engine.h"
#include "model/prune.h"
#include "ops/limit.h"
#include "text/text_form.h"

struct mt_session;

struct mt_session_options {
    const char *directory; // the model's
    // One of the same folder with the same quantise, without an adapter, which outlives this one: the device
    // and the frozen weights are its. NULL: none.
    const struct mt_session *beside;
    const char *adapter;      // NULL: none
    const char *quantise;     // as mt_quantise_parse reads it; NULL: as the adapter was trained
    bool quantise_cache;      // codes are kept beside the model, however they are made
    const struct mt_log *log; // for what is told of that; NULL: nowhere
    const char *prune; // file of experts; all others are taken away (model/chosen_experts.h). NULL: none
    const struct mt_text_form *form; // of the texts it is asked; NULL: plain texts
    const char *templates;           // the folder of those that come along; NULL: only files
    struct mt_comm *expert_ranks;    // the ranks that share the experts, borrowed: all open the session, and
                                     // all that is computed takes all of them; NULL: every expert is here
    const char *device;
    int threads;
    int64_t slots;   // sequences computed together; 0: as many as there is memory for, up to a number
                     // (infer/engine_room.h)
    int64_t context; // tokens of a sequence; 0: 4096, or what the model was made for if that is less
    int64_t answers; // tokens that answers may have, for which 0 leaves room beside that; 0: nothing is known
    struct mt_memory_limit memory; // of all that is held; zeros: what is free
};

struct mt_session {
    struct mt_context *ctx; // borrowed; NULL: not open
    struct mt_device *device;
    bool device_borrowed; // from the session this one is beside
    struct mt_model *model;
    struct mt_engine *engine;
    struct mt_pruning pruning;
    struct mt_tokenizer *tokenizer;
    struct mt_token_scratch *scratch;
    struct mt_arena arena;             // of the texts below
    const char *directory;             // the model's
    const char *templates;             // NULL: none
    struct mt_text_form form;          // as it is asked now
    struct mt_chat_template *template; // NULL: none
    struct mt_example_maker *maker;    // NULL without a template
    bool talked_plainly;               // messages were written out plainly, for want of a template
    struct mt_byte_list foreign; // special tokens the template writes and the tokenizer lacks, "<|a|>, <|b|>"
    struct mt_hf_generation generation; // zeroed where the folder has no generation_config.json
    bool has_generation;
    struct mt_special_ids special;
    struct mt_text_beginning beginning;  // of plain texts
    bool bos_unheard;                    // add_bos_token asks for a bos that plain texts do not get
    struct mt_id_list stop_ids;          // every id that ends a text
    struct mt_conversation conversation; // of the row being encoded
    struct mt_byte_list answer;          // that is encoded
    int64_t slots;
    int64_t pass_tokens; // of prompts, that a batch may hold
    int64_t context;
};

/* Opens all of it. The caller closes. */
enum mt_status mt_session_open(struct mt_context *ctx, const struct mt_session_options *options,
                               struct mt_session *session);
void mt_session_close(struct mt_session *session); // a zeroed struct is allowed

/* Asks in another form from now on; texts of it are copied. After a failure the session can only be closed.
 */
enum mt_status mt_session_set_form(struct mt_session *session, const struct mt_text_form *form);

/* True when prompts are what a user says, in a chat template; else they are plain texts. */
bool mt_session_talks(const struct mt_session *session);

/* How the model's authors sample: greedily, where they do not say. */
struct mt_sampling mt_session_sampling(const struct mt_session *session);

/* Appends the ids of a plain text, with what stands in front of such (options.bos). */
enum mt_status mt_session_encode_text(struct mt_session *session, const char *text, size_t bytes,
                                      struct mt_id_list *ids);

/* Appends the ids of a conversation that waits for an answer. Without a template it is refused. */
enum mt_status mt_session_encode_conversation(struct mt_session *session,
                                              const struct mt_conversation *conversation,
                                              struct mt_id_list *ids);

/*
 * Replaces `ids` by those of a prompt and its answer, as they are trained on, and says where the answer lies.
 * Spaces in front of the answer are those of the session's form. Without a template it is refused.
 */
enum mt_status mt_session_encode_answer(struct mt_session *session, struct mt_text prompt,
                                        struct mt_text answer, struct mt_id_list *ids,
                                        struct mt_answer_place *place);

/* The same of a prompt: with a template it is what a user says, without a plain text. */
enum mt_status mt_session_encode_said(struct mt_session *session, const char *text, size_t bytes,
                                      struct mt_id_list *ids);

/* The ids of a row's "messages" and "tools", or of its "prompt": messages, or what a user says. */
enum mt_status mt_session_encode_row(struct mt_session *session, const struct mt_row *row,
                                     struct mt_id_list *ids);

#endif
