/*
 * Whose answers a folder of results holds, so that a run that goes on puts the same questions to the same
 * model: OUT/source.json says what answered and how it was asked, OUT/inputs.json what the files held that it
 * came from.
 */
#ifndef MT_INFER_ANSWERS_FOLDER_H
#define MT_INFER_ANSWERS_FOLDER_H

#include "base/log.h"
#include "comm/comm.h"
#include "text/text_form.h"

/* What answers, and how it is asked; everything is borrowed. */
struct mt_answers_source {
    const char *out;
    const char *answers;        // file of answers; NULL: none
    const char *endpoint_model; // what an endpoint calls its model; NULL: no endpoint answers
    bool plain;                 // the endpoint gets plain texts
    const char *model;          // folder; NULL: a file or an endpoint answers
    const char *adapter;
    const char *quantise; // as given; NULL: as the adapter was trained, which its files say
    const char *prune;    // file of experts that are taken away; NULL: none are
    const char *own_name; // noted instead of the adapter's path, or without one the model's, where that moves
                          // together with `out`; NULL: the path
    struct mt_form_request asking; // of a model: how its texts are to be written out
    enum mt_bos_rule bos;          // how plain texts begin; MT_BOS_RULES: nobody said
    const char *templates;         // the folder of those that come along
    int64_t context;
    double temperature, top_p; // negative: as the model says
    int64_t seed;
    int64_t max_new; // tokens of an answer; 0: as the tasks say
};

#define MT_ANSWERS_DEVICE_BYTES 64

/*
 * What answers are computed on: as asked for, or where that is `auto` as OUT/source.json says, so that a run
 * that goes on stays where it was. All ranks call it, and get the same.
 */
enum mt_status mt_answers_choose_device(struct mt_context *ctx, const char *out, const char *asked,
                                        struct mt_comm *comm, char device[MT_ANSWERS_DEVICE_BYTES]);

/*
 * Notes whose answers these are, and in what form the questions are put that leave it open; refuses a folder
 * that holds answers of another model, of the same one asked in another way, computed on another device, or
 * made of files that have changed since.
 */
enum mt_status mt_answers_claim(struct mt_context *ctx, const struct mt_answers_source *source,
                                const struct mt_text_form *form, const char *device,
                                const struct mt_log *log);

/* Moves all that an evaluation left in the folder into OUT/before-1, -2, ...: nothing is lost. */
enum mt_status mt_answers_put_aside(struct mt_context *ctx, const char *out, const struct mt_log *log);

#endif
