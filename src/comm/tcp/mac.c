/* SHA-256 and HMAC, as the standards write them down. */
#include "comm/tcp/mac.h"

#include <stdint.h>
#include <string.h>

#define BLOCK 64

struct hash {
    uint32_t state[8];
    uint64_t bytes; // added so far
    unsigned char block[BLOCK];
};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void mix_block(struct hash *hash)
{
    // The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
    static const uint32_t roots[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
    uint32_t words[64];
    uint32_t s[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *at = hash->block + 4 * i;
        words[i] = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = words[i - 15];
        uint32_t b = words[i - 2];
        words[i] = words[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + words[i - 7] +
                   (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, hash->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t first = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25)) +
                         ((s[4] & s[5]) ^ (~s[4] & s[6])) + roots[i] + words[i];
        uint32_t second = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22)) +
                          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += first;
        s[0] = first + second;
    }
    for (int i = 0; i < 8; i++) hash->state[i] += s[i];
}

static void begin(struct hash *hash)
{
    *hash = (struct hash){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                    0x1f83d9ab, 0x5be0cd19}};
}

static void add(struct hash *hash, const void *data, size_t bytes)
{
    const unsigned char *next = data;
    for (size_t i = 0; i < bytes; i++) {
        hash->block[hash->bytes % BLOCK] = next[i];
        hash->bytes++;
        if (hash->bytes % BLOCK == 0) mix_block(hash);
    }
}

static void finish(struct hash *hash, unsigned char digest[MT_MAC_BYTES])
{
    unsigned char end[BLOCK + 8] = {0x80};
    uint64_t bits = hash->bytes * 8;
    size_t rest = (size_t)(hash->bytes % BLOCK);
    size_t zeros = (rest < 56 ? 56 : 120) - rest;
    for (int i = 0; i < 8; i++) end[zeros + (size_t)i] = (unsigned char)(bits >> (56 - 8 * i));
    add(hash, end, zeros + 8);
    for (int i = 0; i < MT_MAC_BYTES; i++)
        digest[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void mt_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
            unsigned char mac[MT_MAC_BYTES])
{
    struct hash hash;
    unsigned char short_key[BLOCK] = {0};
    unsigned char pad[BLOCK];
    if (key_bytes > BLOCK) {
        begin(&hash);
        add(&hash, key, key_bytes);
        finish(&hash, short_key);
    } else if (key_bytes > 0) {
        memcpy(short_key, key, key_bytes);
    }
    for (int i = 0; i < BLOCK; i++) pad[i] = short_key[i] ^ 0x36;
    begin(&hash);
    add(&hash, pad, BLOCK);
    add(&hash, data, bytes);
    finish(&hash, mac);
    for (int i = 0; i < BLOCK; i++) pad[i] = short_key[i] ^ 0x5c;
    begin(&hash);
    add(&hash, pad, BLOCK);
    add(&hash, mac, MT_MAC_BYTES);
    finish(&hash, mac);
}

bool mt_mac_equal(const unsigned char *a, const unsigned char *b)
{
    unsigned char differ = 0;
    for (int i = 0; i < MT_MAC_BYTES; i++) differ |= a[i] ^ b[i];
    return differ == 0;
}
