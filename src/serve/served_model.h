/*
 * The models a server answers for: folders, and adapters on them, each with an engine and a cache of its own,
 * under one name.
 */
#ifndef MT_SERVE_SERVED_MODEL_H
#define MT_SERVE_SERVED_MODEL_H

#include "infer/routing_log.h"

#define MT_SERVED_NAME_BYTES 128
#define MT_SERVED_MOST       64 // models and adapters at a time

struct mt_served_model {
    struct mt_served_model *next;
    char name[MT_SERVED_NAME_BYTES];
    char base[MT_SERVED_NAME_BYTES]; // of an adapter: the model it is on; "": it is a model
    struct mt_session session;
    struct mt_routing_log *log; // NULL: no layer has experts
    float *logits;              // [vocabulary]: those of the token at hand
    int64_t asks;               // that it is at work on
    int64_t requests;           // since the server began
    bool leaving;               // gets no more, and goes when `asks` is 0
};

/*
 * Opens a session for a model folder, or with an adapter on it (NULL: without) beside the session of its
 * model. The session is zeroed.
 */
struct mt_model_opener {
    void *self;
    enum mt_status (*open)(void *self, const char *directory, const char *adapter,
                           const struct mt_session *beside, struct mt_session *session);
};

struct mt_served_models {
    struct mt_context *ctx;        // borrowed
    struct mt_model_opener opener; // what it points to is borrowed
    struct mt_served_model *first;
};

/* Frees the models; nothing may be in their engines. */
void mt_served_models_close(struct mt_served_models *models);

/*
 * One more model, behind the others. Its name may be that of one which is leaving. `adapter` may be NULL;
 * then `base` is, too. An adapter reads the weights of its model, the base of that name, which has to be
 * there.
 */
enum mt_status mt_served_models_add(struct mt_served_models *models, const char *name, const char *directory,
                                    const char *adapter, const char *base);

/* The one of that name; NULL: there is none, or it is leaving. A NULL name: the first. */
struct mt_served_model *mt_served_models_find(const struct mt_served_models *models, const char *name);

/* Closes those that are leaving and idle. */
void mt_served_models_sweep(struct mt_served_models *models);

/* True for a name that paths, labels and messages can hold as it is: letters, digits and -_.:/ */
bool mt_served_name_valid(const char *name);

#endif
