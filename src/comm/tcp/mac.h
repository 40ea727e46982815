/*
 * A message authentication code: HMAC (RFC 2104) with SHA-256 (FIPS 180-4). Who does not know the key can
 * neither make one nor learn the key from those that were sent.
 */
#ifndef MT_COMM_TCP_MAC_H
#define MT_COMM_TCP_MAC_H

#include <stdbool.h>
#include <stddef.h>

#define MT_MAC_BYTES 32

/* Of one stretch of memory. */
void mt_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
            unsigned char mac[MT_MAC_BYTES]);

/* Takes the same time wherever the two differ. */
bool mt_mac_equal(const unsigned char *a, const unsigned char *b);

#endif
