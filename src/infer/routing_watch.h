/*
 * Which experts a session's model uses: every token the engine computes is counted, once, by a collector
 * (analysis/collector/collector.h). The figures are those of all tokens since the watch began; they depend on
 * the questions (infer/answerer.h), not on what was computed together, nor on the ranks that shared them.
 */
#ifndef MT_INFER_ROUTING_WATCH_H
#define MT_INFER_ROUTING_WATCH_H

#include "analysis/collector/collector.h"
#include "infer/session.h"

struct mt_routing_watch; // opaque

/* The session outlives the watch. The caller destroys; the model is then observed no more. NULL: no layer has
 * experts. */
enum mt_status mt_routing_watch_create(struct mt_session *session, struct mt_routing_watch **watch);
void mt_routing_watch_destroy(struct mt_routing_watch *watch); // NULL is allowed

/* Begins again, with nothing counted; questions will have numbers below `questions`. */
enum mt_status mt_routing_watch_begin(struct mt_routing_watch *watch, size_t questions);

/* What counts; the watch's own, until it begins again. The last pass may not be in it before the watch has
 * settled. */
enum mt_status mt_routing_watch_settle(struct mt_routing_watch *watch);
struct mt_collector *mt_routing_watch_collector(struct mt_routing_watch *watch);

/*
 * The figures so far, of all ranks together. Collective, and agreed on; rank 0 gets the figures and frees
 * them, the others get none.
 */
enum mt_status mt_routing_watch_figures(struct mt_routing_watch *watch, struct mt_comm *comm,
                                        struct mt_figures *figures);

#endif
