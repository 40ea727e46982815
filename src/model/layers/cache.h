/*
 * What attention remembers of tokens it has seen: for each layer and slot (one sequence's place) as many
 * positions as were asked for at opening, and never more memory than that.
 *
 * Grouped attention keeps keys and values as attention reads them, rotated. Latent attention keeps the
 * normalised latent and the rotated part of the key that all heads share, C+Dr numbers a token; for few
 * queries keys and values of the heads are never made again. With W = [K_h; V_h] for head h of kv_b:
 *   q_h · K_h c = (K_hᵀ q_h) · c,   Σ p V_h c = V_h Σ p c
 * so queries are moved into the latent space instead, where all heads read one key, and the sum is moved out.
 */
#ifndef MT_MODEL_CACHE_H
#define MT_MODEL_CACHE_H

#include "base/arena.h"
#include "metier/buffer.h"
#include "model/params/params.h"

struct mt_layer_cache {
    struct mt_tensor key;    // [slots·positions, G·D]; grouped attention
    struct mt_tensor value;  // [slots·positions, G·Dv]
    struct mt_tensor latent; // [slots·positions, C+Dr]; latent attention
    // Latent attention: views by head of kv_b's weight, filled in by who is about to read it, and of its
    // LoRA B; NULL where there are none.
    struct mt_tensor *head_key;   // H views [Dn,C]
    struct mt_tensor *head_value; // H views [Dv,C]
    struct mt_tensor *lora_key;   // H views [Dn,r]
    struct mt_tensor *lora_value; // H views [Dv,r]
};

struct mt_cache {
    struct mt_device *device; // borrowed
    enum mt_dtype type;
    struct mt_arena arena; // owns the views
    struct mt_buffer buffer;
    struct mt_layer_cache *layer; // [layers]
    int64_t layers;
    int64_t slots, positions;
};

struct mt_cache_shape {
    int64_t slots, positions;
    enum mt_dtype type; // of activations
};

/* Takes all the memory. The parameters outlive the cache; the caller destroys. */
enum mt_status mt_cache_create(struct mt_device *device, const struct mt_model_desc *desc,
                               const struct mt_params *params, const struct mt_cache_shape *shape,
                               struct mt_cache *cache);
void mt_cache_destroy(struct mt_cache *cache); // a zeroed struct is allowed

/* H views each of a [H·(Dn+Dv), columns] matrix: every head's rows for keys, and those for values. */
void mt_cache_cut_heads(const struct mt_model_desc *desc, const struct mt_tensor *matrix,
                        struct mt_tensor *key, struct mt_tensor *value);

/* The first `tokens` positions of slot `from` become slot `to`'s. */
enum mt_status mt_cache_copy(const struct mt_cache *cache, int64_t from, int64_t to, int64_t tokens);

#endif
