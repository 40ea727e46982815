/*
 * What every expert's gate projection makes of every row of the router, for terms that couple the two
 * (MT_NEEDS_PROXIES): n·n rows W_j r_i, r_i = row i with noise, and their squared lengths. Of weights alone:
 * its cost does not depend on tokens. LoRA pairs count, without dropout. All experts must be here.
 */
#ifndef MT_MODEL_EXPERTS_PROXIES_H
#define MT_MODEL_EXPERTS_PROXIES_H

#include "metier/buffer.h"
#include "model/layers/linear.h"

struct mt_proxies {            // all of it work memory: backward computes the responses again
    int64_t layer;             // in the model
    struct mt_linear gates;    // the gate projections, without the dropout of their pairs
    struct mt_tensor turned;   // i32 [n,n]: the row of proxy i at expert j; as a list, the slot of each row
    struct mt_tensor own;      // i32 [n·n,1]: every row's own number
    struct mt_tensor offsets;  // i32 [n+1]
    struct mt_tensor rows;     // [n·n,d]: all rows of the router, for one expert after the other
    struct mt_tensor noisy;    // [n,d]
    struct mt_tensor response; // [n·n,I]: W_j r_i in row j·n + i; in backward its gradient
    struct mt_tensor dnoisy;   // [n,d]
    struct mt_tensor coupling; // [n,n]: what responses are multiplied with in backward; absent without one
    struct mt_lora_trace lora;
};

/* n·n. */
int64_t mt_proxies_rows(const struct mt_model_desc *desc);

/* Where rows come from and go to, the same for all layers, on the device; the caller releases the buffer. */
enum mt_status mt_proxies_places(struct mt_device *device, const struct mt_model_desc *desc,
                                 struct mt_buffer *places);
struct mt_tensor mt_proxies_view(const struct mt_model_desc *desc, const struct mt_buffer *places);

void mt_proxies_plan(struct mt_proxies *proxies, const struct mt_pass *pass,
                     const struct mt_mlp_params *params, int64_t layer, bool backward,
                     struct mt_planner *work);

/* record.proxy_squares, of record.router_weight; noise in training alone. */
enum mt_status mt_proxies_forward(const struct mt_pass *pass, const struct mt_proxies *proxies,
                                  const struct mt_routing *record);

/* From coupling to the gate projections' parameters and to drouter_weight [n,d] (absent: frozen), which is
 * added to.
 */
enum mt_status mt_proxies_backward(const struct mt_pass *pass, const struct mt_proxies *proxies,
                                   const struct mt_routing *record, const struct mt_tensor *drouter_weight);

#endif
