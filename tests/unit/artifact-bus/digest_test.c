/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/digest.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"

/* FIPS 180-2, appendix B, and the empty text. */
static const struct {
    const char *text, *digest;
} vectors[] = {
    {"", "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "sha256:248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};
#define MILLION_A "sha256:cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"

static void test_vectors(void **state)
{
    (void)state;
    char text[BH_DIGEST_TEXT];
    for (size_t i = 0; i < BH_ARRAY_LEN(vectors); i++) {
        struct bh_digest d = bh_digest_of(vectors[i].text, strlen(vectors[i].text));
        T_STR(bh_digest_format(&d, text), vectors[i].digest);
    }
}

static void test_pieces_give_the_same(void **state)
{
    (void)state;
    char text[BH_DIGEST_TEXT], piece[997];
    memset(piece, 'a', sizeof(piece));
    struct bh_hasher *h = bh_hasher_new();
    for (int round = 0; round < 2; round++) { /* after its end a hasher starts anew */
        for (size_t left = 1000000; left > 0;) {
            size_t n = left < sizeof(piece) ? left : sizeof(piece);
            bh_hasher_add(h, piece, n);
            left -= n;
        }
        struct bh_digest d = bh_hasher_end(h);
        T_STR(bh_digest_format(&d, text), MILLION_A);
    }
    bh_hasher_free(h);
    bh_hasher_free(NULL);
}

static void test_fd_from_its_offset(void **state)
{
    (void)state;
    BH_CLEANUP_FD int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    struct bh_digest d;
    int64_t size = -1;
    char text[BH_DIGEST_TEXT];
    assert_true(fd >= 0);
    T_INT(bh_write_all(fd, "xyabc", 5), 0);
    T_INT(lseek(fd, 2, SEEK_SET), 2);
    T_OK(bh_digest_fd(fd, &d, &size, &err));
    T_INT(size, 3);
    T_STR(bh_digest_format(&d, text), vectors[1].digest);
    T_OK(bh_digest_fd(fd, &d, NULL, &err)); /* at the end now */
    T_STR(bh_digest_format(&d, text), vectors[0].digest);
}

static void test_fd_that_cannot_be_read(void **state)
{
    (void)state;
    BH_CLEANUP_FD int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct bh_digest d = {.b = {7}};
    int64_t size = 42;
    T_ERR(bh_digest_fd(folder, &d, &size, &err), BH_E_IO, "cannot read the file to hash it: ");
    T_INT(d.b[0], 7);
    T_INT(size, 42);
}

static void test_parse(void **state)
{
    (void)state;
    char text[BH_DIGEST_TEXT];
    struct bh_digest d, other;
    T_INT(bh_digest_parse(vectors[1].digest, &d), 0);
    T_STR(bh_digest_format(&d, text), vectors[1].digest);
    other = bh_digest_of("abc", 3);
    assert_true(bh_digest_equal(&d, &other));
    other.b[31] ^= 1;
    assert_false(bh_digest_equal(&d, &other));
}

static void test_parse_refuses(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "sha256:",
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0",
        "sha256:BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha256:ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "sha512:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        " sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
    };
    struct bh_digest d = {.b = {7}};
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++)
        T_INT(bh_digest_parse(bad[i], &d), -BH_E_BAD_VALUE);
    T_INT(bh_digest_parse(NULL, &d), -BH_E_BAD_VALUE);
    T_INT(d.b[0], 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_pieces_give_the_same),
        cmocka_unit_test(test_fd_from_its_offset),
        cmocka_unit_test(test_fd_that_cannot_be_read),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
