/* The bytes of the handshake. */
#include "comm/tcp/hello.h"

#include <string.h>

#include "comm/tcp/mac.h"

#define MAGIC_BYTES 8
#define MOST_BYTES  192 // of what a code is over

static const char magic[MAGIC_BYTES] = {'m', 'e', 't', 'i', 'e', 'r', '\n', 1}; // the last: of the protocol

void mt_tcp_put(unsigned char *at, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++) at[i] = (unsigned char)(number >> (8 * i));
}

uint64_t mt_tcp_get(const unsigned char *at, int bytes)
{
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++) number |= (uint64_t)at[i] << (8 * i);
    return number;
}

/* Over: who says it, the challenge, the hello's nonce, and the message. */
static void make_code(const struct mt_tcp_secret *secret, char who, const unsigned char *nonce,
                      const unsigned char *message, size_t bytes, unsigned char mac[MT_MAC_BYTES])
{
    unsigned char all[1 + 2 * MT_TCP_NONCE + MOST_BYTES];
    all[0] = (unsigned char)who;
    memcpy(all + 1, secret->challenge, MT_TCP_NONCE);
    memcpy(all + 1 + MT_TCP_NONCE, nonce, MT_TCP_NONCE);
    memcpy(all + 1 + 2 * MT_TCP_NONCE, message, bytes);
    mt_mac(secret->token, strlen(secret->token), all, 1 + 2 * MT_TCP_NONCE + bytes, mac);
}

void mt_tcp_write_challenge(const struct mt_tcp_secret *secret, unsigned char bytes[MT_TCP_CHALLENGE_BYTES])
{
    memcpy(bytes, magic, MAGIC_BYTES);
    memcpy(bytes + MAGIC_BYTES, secret->challenge, MT_TCP_NONCE);
}

bool mt_tcp_read_challenge(const unsigned char bytes[MT_TCP_CHALLENGE_BYTES], struct mt_tcp_secret *secret)
{
    memcpy(secret->challenge, bytes + MAGIC_BYTES, MT_TCP_NONCE);
    return memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

enum { NONCE_AT = MAGIC_BYTES, JOB_AT = 40, RANK_AT = 56, SIZE_AT = 60, PORT_AT = 64, MACHINE_AT = 68 };
enum { BUILD_AT = 76, HELLO_MAC_AT = MT_TCP_HELLO_BYTES - MT_MAC_BYTES };

void mt_tcp_write_hello(const struct mt_tcp_secret *secret, const struct mt_tcp_hello *hello,
                        unsigned char bytes[MT_TCP_HELLO_BYTES])
{
    memcpy(bytes, magic, MAGIC_BYTES);
    memcpy(bytes + NONCE_AT, hello->nonce, MT_TCP_NONCE);
    memcpy(bytes + JOB_AT, hello->job, MT_TCP_JOB);
    mt_tcp_put(bytes + RANK_AT, hello->rank, 4);
    mt_tcp_put(bytes + SIZE_AT, hello->size, 4);
    mt_tcp_put(bytes + PORT_AT, hello->port, 4);
    mt_tcp_put(bytes + MACHINE_AT, hello->machine, 8);
    memcpy(bytes + BUILD_AT, hello->build, MT_TCP_BUILD);
    make_code(secret, 'h', hello->nonce, bytes, HELLO_MAC_AT, bytes + HELLO_MAC_AT);
}

bool mt_tcp_read_hello(const struct mt_tcp_secret *secret, const unsigned char bytes[MT_TCP_HELLO_BYTES],
                       struct mt_tcp_hello *hello)
{
    unsigned char mac[MT_MAC_BYTES];
    memcpy(hello->nonce, bytes + NONCE_AT, MT_TCP_NONCE);
    memcpy(hello->job, bytes + JOB_AT, MT_TCP_JOB);
    hello->rank = (uint32_t)mt_tcp_get(bytes + RANK_AT, 4);
    hello->size = (uint32_t)mt_tcp_get(bytes + SIZE_AT, 4);
    hello->port = (uint32_t)mt_tcp_get(bytes + PORT_AT, 4);
    hello->machine = mt_tcp_get(bytes + MACHINE_AT, 8);
    memcpy(hello->build, bytes + BUILD_AT, MT_TCP_BUILD);
    hello->build[MT_TCP_BUILD - 1] = '\0';
    make_code(secret, 'h', hello->nonce, bytes, HELLO_MAC_AT, mac);
    return memcmp(bytes, magic, MAGIC_BYTES) == 0 && mt_mac_equal(mac, bytes + HELLO_MAC_AT);
}

enum { REPLY_BUILD_AT = 8, REPLY_MAC_AT = MT_TCP_REPLY_BYTES - MT_MAC_BYTES };

void mt_tcp_write_reply(const struct mt_tcp_secret *secret, const unsigned char nonce[MT_TCP_NONCE],
                        const struct mt_tcp_reply *reply, unsigned char bytes[MT_TCP_REPLY_BYTES])
{
    memset(bytes, 0, MT_TCP_REPLY_BYTES);
    mt_tcp_put(bytes, (uint64_t)reply->verdict, 4);
    if (reply->verdict == MT_TCP_OTHER_TOKEN) return;
    mt_tcp_put(bytes + 4, reply->size, 4);
    memcpy(bytes + REPLY_BUILD_AT, reply->build, MT_TCP_BUILD);
    make_code(secret, 'r', nonce, bytes, REPLY_MAC_AT, bytes + REPLY_MAC_AT);
}

void mt_tcp_read_reply(const struct mt_tcp_secret *secret, const unsigned char nonce[MT_TCP_NONCE],
                       const unsigned char bytes[MT_TCP_REPLY_BYTES], struct mt_tcp_reply *reply)
{
    unsigned char mac[MT_MAC_BYTES];
    uint64_t verdict = mt_tcp_get(bytes, 4);
    reply->size = (uint32_t)mt_tcp_get(bytes + 4, 4);
    memcpy(reply->build, bytes + REPLY_BUILD_AT, MT_TCP_BUILD);
    reply->build[MT_TCP_BUILD - 1] = '\0';
    make_code(secret, 'r', nonce, bytes, REPLY_MAC_AT, mac);
    reply->verdict = MT_TCP_OTHER_TOKEN;
    if (verdict < MT_TCP_VERDICTS && mt_mac_equal(mac, bytes + REPLY_MAC_AT))
        reply->verdict = (enum mt_tcp_verdict)verdict;
}
