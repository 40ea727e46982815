/*
 * Answers of `metier serve` that were recorded with their routing, on the server's own page without a server.
 *
 * The file has a line of JSON for each answer, as /v1/completions and /v1/chat/completions return it for a
 * request with "metier": {"routing": true}. Answers to the same tokens that follow each other stand side by
 * side.
 */
#ifndef MT_REPORT_ROUTING_PAGE_H
#define MT_REPORT_ROUTING_PAGE_H

#include "formats/text/lists.h"

/* Appends the page: `page` (share/serve/page.html) with the answers of the file in it. */
enum mt_status mt_routing_page(struct mt_context *ctx, const char *file, const char *page, size_t page_bytes,
                               struct mt_byte_list *html);

#endif
