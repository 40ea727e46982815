/*
 * Added tokens: texts that are found before anything else happens and become one id. Those not to be
 * normalized are looked for in the text as it came, then the others in what the normalizer made of the rest.
 */
#ifndef MT_FORMATS_TOKENIZER_ADDED_H
#define MT_FORMATS_TOKENIZER_ADDED_H

#include "formats/text/lists.h"
#include "formats/tokenizer/regex.h"

struct mt_added_token {
    int32_t id;
    struct mt_byte_list content;
    struct mt_byte_list found_as; // what is looked for and decoded to: normalized, where that is asked for
    bool single_word;             // only where no word character stands beside it
    bool lstrip;                  // swallows white space before it
    bool rstrip;                  // and behind it
    bool normalized;
    bool special;
    bool decodes_as_special; // skipped when decoding without special tokens
};

/* All texts of one pass, found leftmost, then longest. */
struct mt_added_trie {
    uint64_t *edges;    // open addressing: (node << 8 | byte) + 1, 0 free
    uint32_t *children; // beside edges
    size_t slots;       // a power of two; 0: no texts
    uint32_t *tokens;   // by node: index + 1, or 0
    size_t node_count;
    size_t node_capacity;
    uint8_t first[32]; // bit set: some text starts with this byte
};

struct mt_added_tokens {
    struct mt_context *ctx; // borrowed
    struct mt_added_token *tokens;
    size_t count;
    size_t capacity;
    struct mt_added_trie raw;
    struct mt_added_trie normalized;
    struct mt_regex *word; // one word character; only when some token is single_word
};

void mt_added_tokens_free(struct mt_added_tokens *added);

/* Adds a token with the given content; flags and found_as are set through *token, valid until the next add.
 */
enum mt_status mt_added_tokens_add(struct mt_added_tokens *added, const char *content, size_t bytes,
                                   int32_t id, struct mt_added_token **token);

/* Builds the tries, once all tokens and their found_as are there. */
enum mt_status mt_added_tokens_finish(struct mt_added_tokens *added);

struct mt_added_walk {
    size_t from; // where the search goes on
    size_t done; // text up to here has been handed out
    size_t text_start;
    size_t text_end;                    // the text before the token found, possibly empty
    const struct mt_added_token *token; // NULL at the end
};

/*
 * Finds the next token of a pass in valid UTF-8: fills the text before it and the token. At the end the token
 * is NULL and the text is what is left. With `skip_special`, special tokens are text.
 */
enum mt_status mt_added_tokens_next(const struct mt_added_tokens *added, const struct mt_added_trie *trie,
                                    struct mt_regex_matcher *matcher, const uint8_t *text, size_t bytes,
                                    bool skip_special, struct mt_added_walk *walk);

#endif
