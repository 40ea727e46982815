/*
 * What two ranks say to each other before the first of them trusts the other, as bytes. The one that listens
 * sends a challenge, the other a hello, and a reply ends it. Hello and reply carry a code over both sides'
 * random numbers, with the job's token as its key: the token never crosses the wire, and what was heard once
 * opens no second connection.
 *
 * Numbers travel lowest byte first. Nothing here reads or writes sockets.
 */
#ifndef MT_COMM_TCP_HELLO_H
#define MT_COMM_TCP_HELLO_H

#include <stdbool.h>
#include <stdint.h>

#define MT_TCP_NONCE           32
#define MT_TCP_JOB             16
#define MT_TCP_BUILD           48

#define MT_TCP_CHALLENGE_BYTES 40
#define MT_TCP_HELLO_BYTES     156
#define MT_TCP_REPLY_BYTES     88

enum mt_tcp_verdict {
    MT_TCP_WELCOME,
    MT_TCP_OTHER_TOKEN,
    MT_TCP_OTHER_BUILD,
    MT_TCP_OTHER_SIZE,
    MT_TCP_NO_RANK, // none that is waited for
    MT_TCP_RANK_TWICE,
    MT_TCP_VERDICTS
};

struct mt_tcp_hello {
    unsigned char nonce[MT_TCP_NONCE];
    unsigned char job[MT_TCP_JOB]; // what rank 0 drew for it; zeros while a rank does not know yet
    uint32_t rank, size, port;     // port: where this rank listens
    uint64_t machine;              // the same for ranks of one machine
    char build[MT_TCP_BUILD];      // version and commit; NUL-terminated
};

struct mt_tcp_reply {
    enum mt_tcp_verdict verdict;
    uint32_t size;            // what the one that listens knows
    char build[MT_TCP_BUILD]; // NUL-terminated
};

/* What both sides know when they make and check codes. */
struct mt_tcp_secret {
    const char *token;                     // borrowed
    unsigned char challenge[MT_TCP_NONCE]; // of the one that listens
};

void mt_tcp_put(unsigned char *at, uint64_t number, int bytes);
uint64_t mt_tcp_get(const unsigned char *at, int bytes);

void mt_tcp_write_challenge(const struct mt_tcp_secret *secret, unsigned char bytes[MT_TCP_CHALLENGE_BYTES]);
/* False: this is not from a rank of ours. */
bool mt_tcp_read_challenge(const unsigned char bytes[MT_TCP_CHALLENGE_BYTES], struct mt_tcp_secret *secret);

void mt_tcp_write_hello(const struct mt_tcp_secret *secret, const struct mt_tcp_hello *hello,
                        unsigned char bytes[MT_TCP_HELLO_BYTES]);
/* False: not from anybody who knows the token. */
bool mt_tcp_read_hello(const struct mt_tcp_secret *secret, const unsigned char bytes[MT_TCP_HELLO_BYTES],
                       struct mt_tcp_hello *hello);

/* `nonce`: the hello's. The refusal of a token carries no code: it would be one more to guess it with. */
void mt_tcp_write_reply(const struct mt_tcp_secret *secret, const unsigned char nonce[MT_TCP_NONCE],
                        const struct mt_tcp_reply *reply, unsigned char bytes[MT_TCP_REPLY_BYTES]);
/* Whoever does not know our token has another: the verdict is then OTHER_TOKEN, whatever it says. */
void mt_tcp_read_reply(const struct mt_tcp_secret *secret, const unsigned char nonce[MT_TCP_NONCE],
                       const unsigned char bytes[MT_TCP_REPLY_BYTES], struct mt_tcp_reply *reply);

#endif
