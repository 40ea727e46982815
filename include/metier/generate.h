/*
 * Generating: many prompts together, each with the answer it would have alone, to the last bit.
 *
 * Every fallible function returns a status and leaves a sentence in the context. What may be NULL is said
 * where it is declared. Anything else that is NULL is MT_ERR_USAGE; where the context or the generator is, no
 * sentence can be left.
 *
 * Threads: a generator and its context belong to one thread at a time; generators with contexts of their own
 * may be used side by side.
 */
#ifndef METIER_GENERATE_H
#define METIER_GENERATE_H

#include "metier/context.h"
#include "metier/export.h"

#include <stdbool.h>
#include <stdint.h>

MT_PUBLIC_BEGIN

struct mt_generator; // opaque

/* All texts are borrowed until mt_generator_open returns. */
struct mt_generator_options {
    const char *adapter;       // applied, not merged; NULL: none
    const char *device;        // metier/device.h; NULL: "auto"
    int threads;               // 0: as many as the machine has
    int64_t together;          // answers computed at the same time; 0: as many as there is memory for
    int64_t context;           // tokens of a prompt and its answer; 0: 4096, or what the model was made for
    const char *chat_template; // "model": its own; a name of share/metier/templates beside the library, or a
                               // file: prompts are then what a user says. "none": plain texts. NULL: as the
                               // run was trained that made the adapter or the model, else plain texts
};

/* Opens a model folder with a device of its own. NULL options: all as said there. The caller closes. */
enum mt_status mt_generator_open(struct mt_context *ctx, const char *folder,
                                 const struct mt_generator_options *options, struct mt_generator **generator);
void mt_generator_close(struct mt_generator *generator); // NULL is allowed

enum mt_generate_end {
    MT_GENERATE_ENDED,   // the model ended its answer
    MT_GENERATE_STOPPED, // by a stop string, or by the caller
    MT_GENERATE_LENGTH,  // max_new, or no room for more
};

/* A prompt and what becomes of it; texts are the caller's, who keeps them until mt_generate returns. */
struct mt_generate_request {
    const char *prompt;
    size_t bytes;
    double temperature;        // 0: always the most likely token
    double top_p;              // 1: all
    int64_t top_k;             // 0: all
    double repetition_penalty; // 1: none
    uint64_t seed;
    int64_t max_new;          // tokens
    const char *const *stops; // texts that end the answer and are no part of it; NULL at the end. NULL: none
    // The answer as it comes: each call goes on where the last one ended. *stop ends it. NULL: not wanted.
    enum mt_status (*text)(void *self, const char *text, size_t bytes, bool *stop);
    void *self; // handed to it
    // Filled in:
    enum mt_generate_end end;
    int64_t prompt_tokens, tokens;
};

/* A request that samples as the model's authors say (generation_config.json), 256 tokens at the most. Without
 * a generator all numbers are 0. */
struct mt_generate_request mt_generate_prepare(const struct mt_generator *generator, const char *prompt,
                                               size_t bytes);

/* Answers all of them. A status that `text` returns ends it. */
enum mt_status mt_generate(struct mt_generator *generator, struct mt_generate_request *requests,
                           size_t count);

MT_PUBLIC_END

#endif
