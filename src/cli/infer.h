/* What metier generate and metier chat share: their options, and the session these open. */
#ifndef MT_CLI_INFER_H
#define MT_CLI_INFER_H

#include "base/log.h"
#include "cli/cli.h"
#include "infer/session.h"

struct infer_settings {
    const char *directory;
    const struct mt_session *beside; // as mt_session_options has it; NULL: none
    const char *adapter;
    const char *quantise;      // NULL: as the adapter was trained
    const char *prune;         // file of experts that are taken away; NULL: none
    const char *template_name; // NULL: not given
    struct cli_list template_options;
    bool own_template;            // nothing known: the model's own, if it has one; else plain texts
    const char *template_date;    // NULL: today's
    const char *bos;              // how plain texts begin, by name; NULL: nobody said
    struct mt_comm *expert_ranks; // as mt_session_options has it
    const char *device;
    bool automatic; // it was chosen by us, before
    int64_t threads;
    int64_t batch;      // sequences computed together; -1: as many as there is memory for
    int64_t context;    // 0: chosen
    int64_t answers;    // tokens that answers may have, where --context does not say; 0: nothing is known
    const char *memory; // as memory.limit of training
    // Negative: as generation_config.json says.
    double temperature;
    double top_p;
    int64_t top_k;
    double repetition_penalty;
    int64_t seed;
    int64_t max_new; // 0: as generation_config.json says, or 256
    struct cli_list stops;
    bool quiet; // the device is not named
};

#define INFER_OPTIONS 15

/* Defaults, and the options that change them: INFER_OPTIONS entries. */
void cli_infer_settings_init(struct infer_settings *settings);
void cli_infer_options(struct infer_settings *settings, struct cli_option *options);

/* Refuses what makes no sense, beside the options that were given. */
enum mt_status cli_infer_check(const struct infer_settings *settings, const struct cli_call *call);

/* After opening: refuses options of drawing where always the most likely token is taken. */
enum mt_status cli_infer_check_drawing(const struct infer_settings *settings,
                                       const struct mt_session *session, const struct cli_call *call);

/* Options of the template as one text, in the arena; NULL: none. */
enum mt_status cli_infer_join_options(struct mt_arena *arena, const struct infer_settings *settings,
                                      const char **joined);

/* What is asked of the form of texts; `options` as joined. */
struct mt_form_request cli_infer_asking(const struct infer_settings *settings, const char *options);

/* How plain texts are to begin; MT_BOS_RULES: nobody said. */
enum mt_bos_rule cli_infer_bos(const struct infer_settings *settings);

/* The form of texts that leave it open, and why; in the arena. */
enum mt_status cli_infer_find_form(struct mt_arena *arena, const struct infer_settings *settings,
                                   struct mt_text_form *form);

/* Opens the session in a form. The caller closes. */
enum mt_status cli_infer_open(struct mt_context *ctx, const struct infer_settings *settings,
                              const struct mt_text_form *form, struct mt_session *session);

/* Says which form it is and why, where it is that of a run, or of an adapter without a record. */
void cli_infer_tell_of_form(const struct infer_settings *settings, const struct mt_text_form *form);

/* The same in the form that is found, which is said unless it is quiet. */
enum mt_status cli_infer_open_found(struct mt_context *ctx, const struct infer_settings *settings,
                                    struct mt_session *session);

/* Says when messages were, or will be, written out plainly because the model has no chat template. */
void cli_infer_warn_of_plain(const struct mt_log *log);

/* Says when tokenizer_config.json asks for a token in front of texts that they do not get, and when the
 * template writes special tokens that the tokenizer lacks. */
void cli_infer_warn_of_texts(const struct mt_session *session, const struct mt_log *log);

/* The request that settings and session make of a prompt; ids, number and callbacks are left to the caller.
 */
struct mt_generation cli_infer_request(const struct infer_settings *settings,
                                       const struct mt_session *session);

#endif
