/*
 * An OpenAI-compatible endpoint (vLLM and others) as the answerer of an evaluation. Answers in writing are
 * asked for as a chat, the prompt being what a user says, or as a plain text to go on with; likelihoods
 * always of plain texts (completion_api.h). Every answer and every choice is a request of its own, several
 * at a time; what is tried again, and what ends the run: http.h.
 */
#ifndef MT_EVAL_ENDPOINT_H
#define MT_EVAL_ENDPOINT_H

#include "eval/answerer.h"
#include "eval/endpoint/http.h"

struct mt_endpoint_options {
    const char *model; // as the endpoint calls it; borrowed, as all texts
    bool plain;        // prompts are plain texts
    struct mt_http_options http;
    double temperature; // negative: 0 for one answer, 0.8 for several
    double top_p;       // not positive: 1
    uint64_t seed;      // added to the task's
};

struct mt_endpoint; // opaque

/* Refuses what cannot be asked; nothing is sent. The caller destroys. */
enum mt_status mt_endpoint_create(struct mt_context *ctx, const struct mt_endpoint_options *options,
                                  struct mt_endpoint **endpoint);
void mt_endpoint_destroy(struct mt_endpoint *endpoint); // NULL is allowed

/* Where requests go, for answers or for likelihoods, for people; lives as long as the endpoint. */
const char *mt_endpoint_place(const struct mt_endpoint *endpoint, bool likelihoods);

/* What a runner is given, valid until it is destroyed. */
struct mt_answerer mt_endpoint_answerer(struct mt_endpoint *endpoint);

#endif
