/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 through libcrypto, which is used here and nowhere else.
 *
 * The algorithm is fetched once per process: EVP_sha256() looks it up again at every digest, which costs more than the
 * digest of a short text. A libcrypto without SHA-256 is no state of the world that anybody can go on in, so failures
 * of the library abort.
 */
#include "artifact-bus/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>

#include "base/fd.h"
#include "base/mem.h"

#define HASHER_MAGIC 0x48415348u
#define TEXT_PREFIX "sha256:"
enum { READ_SIZE = 256 * 1024 };

struct bh_hasher {
    uint32_t magic;
    EVP_MD_CTX *ctx;
};

static EVP_MD *algorithm;

static void fetch(void)
{
    algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    BH_ASSERT(algorithm != NULL);
}

static const EVP_MD *sha256(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BH_ASSERT(pthread_once(&once, fetch) == 0);
    return algorithm;
}

struct bh_digest bh_digest_of(const void *data, size_t len)
{
    struct bh_digest d;
    BH_ASSERT(EVP_Digest(data, len, d.b, NULL, sha256(), NULL) == 1);
    return d;
}

struct bh_hasher *bh_hasher_new(void)
{
    struct bh_hasher *h = bh_alloc(sizeof(*h));
    h->magic = HASHER_MAGIC;
    h->ctx = EVP_MD_CTX_new();
    BH_ASSERT(h->ctx != NULL);
    BH_ASSERT(EVP_DigestInit_ex2(h->ctx, sha256(), NULL) == 1);
    return h;
}

void bh_hasher_add(struct bh_hasher *h, const void *data, size_t len)
{
    BH_ASSERT(h && h->magic == HASHER_MAGIC);
    BH_ASSERT(EVP_DigestUpdate(h->ctx, data, len) == 1);
}

struct bh_digest bh_hasher_end(struct bh_hasher *h)
{
    BH_ASSERT(h && h->magic == HASHER_MAGIC);
    struct bh_digest d;
    BH_ASSERT(EVP_DigestFinal_ex(h->ctx, d.b, NULL) == 1);
    BH_ASSERT(EVP_DigestInit_ex2(h->ctx, sha256(), NULL) == 1);
    return d;
}

void bh_hasher_free(struct bh_hasher *h)
{
    if (!h)
        return;
    BH_ASSERT(h->magic == HASHER_MAGIC);
    h->magic = 0;
    EVP_MD_CTX_free(h->ctx);
    bh_free(h);
}

static int hash_to_end(int fd, struct bh_hasher *h, char *piece, int64_t *ret_size, struct bh_err **err)
{
    int64_t size = 0;
    for (;;) {
        ssize_t n = read(fd, piece, READ_SIZE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot read the file to hash it");
        if (n == 0)
            break;
        bh_hasher_add(h, piece, (size_t)n);
        size += n;
    }
    *ret_size = size;
    return 0;
}

int bh_digest_fd(int fd, struct bh_digest *ret, int64_t *ret_size, struct bh_err **err)
{
    struct bh_hasher *h = bh_hasher_new();
    BH_CLEANUP_FREE char *piece = bh_alloc(READ_SIZE);
    int64_t size = 0;
    int rc = hash_to_end(fd, h, piece, &size, err);
    if (rc == 0) {
        *ret = bh_hasher_end(h);
        if (ret_size)
            *ret_size = size;
    }
    bh_hasher_free(h);
    return rc;
}

char *bh_digest_format(const struct bh_digest *d, char buf[static BH_DIGEST_TEXT])
{
    static const char hex[] = "0123456789abcdef";
    memcpy(buf, TEXT_PREFIX, strlen(TEXT_PREFIX));
    char *p = buf + strlen(TEXT_PREFIX);
    for (size_t i = 0; i < sizeof(d->b); i++) {
        *p++ = hex[d->b[i] >> 4];
        *p++ = hex[d->b[i] & 15];
    }
    *p = '\0';
    return buf;
}

/* Lower case only: a digest has one spelling, so texts may be compared. */
static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int bh_digest_parse(const char *text, struct bh_digest *ret)
{
    struct bh_digest d;
    size_t prefix = strlen(TEXT_PREFIX);
    if (!text || strncmp(text, TEXT_PREFIX, prefix) != 0 || strlen(text) != prefix + 2 * sizeof(d.b))
        return -BH_E_BAD_VALUE;
    for (size_t i = 0; i < sizeof(d.b); i++) {
        int high = hex_digit(text[prefix + 2 * i]), low = hex_digit(text[prefix + 2 * i + 1]);
        if (high < 0 || low < 0)
            return -BH_E_BAD_VALUE;
        d.b[i] = (unsigned char)(high << 4 | low);
    }
    *ret = d;
    return 0;
}

bool bh_digest_equal(const struct bh_digest *a, const struct bh_digest *b)
{
    return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}
