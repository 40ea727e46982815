/* The message authentication code, against the numbers of RFC 4231. */
#include <stdio.h>
#include <string.h>

#include "comm/tcp/mac.h"
#include "support/cmocka_all.h"

static void expect(const void *key, size_t key_bytes, const char *data, size_t bytes, const char *digits)
{
    unsigned char mac[MT_MAC_BYTES];
    char text[2 * MT_MAC_BYTES + 1];
    mt_mac(key, key_bytes, data, bytes, mac);
    for (int i = 0; i < MT_MAC_BYTES; i++) (void)snprintf(text + 2 * i, 3, "%02x", mac[i]);
    assert_string_equal(text, digits);
}

/* Its test cases 1, 2, 4, 6 and 7: keys and texts that are short, of a block's length, and longer. */
static void test_published(void **state)
{
    unsigned char key[131];
    char text[50];
    (void)state;
    memset(key, 0x0b, 20);
    expect(key, 20, "Hi There", 8, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect("Jefe", 4, "what do ya want for nothing?", 28,
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    for (int i = 0; i < 25; i++) key[i] = (unsigned char)(i + 1);
    memset(text, 0xcd, sizeof text);
    expect(key, 25, text, sizeof text, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    memset(key, 0xaa, sizeof key);
    expect(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    expect(key, sizeof key,
           "This is a test using a larger than block-size key and a larger than block-size data. The key "
           "needs to "
           "be hashed before being used by the HMAC algorithm.",
           152, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void test_equal(void **state)
{
    unsigned char a[MT_MAC_BYTES] = {0};
    unsigned char b[MT_MAC_BYTES] = {0};
    (void)state;
    assert_true(mt_mac_equal(a, b));
    for (int i = 0; i < MT_MAC_BYTES; i++) {
        b[i] = 0x80;
        assert_false(mt_mac_equal(a, b));
        b[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_published), cmocka_unit_test(test_equal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
