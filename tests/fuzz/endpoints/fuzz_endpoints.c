/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What boxes and services send to the endpoint broker: requests with their targets and chunked bodies, replies that are
 * counted and sifted. Whatever the pieces are cut into, the outcome is one; nothing of a secret passes; a path that was
 * normalised is normal.
 */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "policies/broker/endpoint_rules.h"
#include "policies/broker/endpoint_usage.h"
#include "policies/broker/http.h"
#include "policies/needles.h"

#define SECRET "sk-secret-aab"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void normalise(const char *target)
{
    struct bh_endpoint_target once = {0}, twice = {0};
    const char *why;
    if (bh_endpoint_normalise(target, &once, &why) < 0)
        return;
    BH_ASSERT(once.compared[0] == '/' && !strstr(once.compared, "/../"));
    BH_ASSERT(bh_endpoint_normalise(once.sent, &twice, &why) == 0);
    BH_ASSERT(strcmp(once.sent, twice.sent) == 0 && strcmp(once.compared, twice.compared) == 0);
    char *rules[] = {(char *)(uintptr_t) "GET /v1/**"};
    if (bh_endpoint_allows(rules, 1, "GET", once.compared))
        BH_ASSERT(strncmp(once.sent, "/v1/", 4) == 0 || strncmp(once.compared, "/v1/", 4) == 0);
    bh_endpoint_target_fini(&once);
    bh_endpoint_target_fini(&twice);
}

static void unchunk(const char *text, size_t len, size_t piece, struct bh_buf *out)
{
    struct bh_http_chunks chunks = {0};
    size_t at = 0;
    while (at < len && chunks.state != BH_CHUNK_DONE) {
        const char *payload;
        size_t n, size = piece < len - at ? piece : len - at;
        ssize_t took = bh_http_chunks_take(&chunks, text + at, size, &payload, &n);
        if (took < 0)
            return;
        BH_ASSERT(took > 0 && (size_t)took <= size && n <= (size_t)took);
        if (n > 0)
            bh_buf_add(out, payload, n);
        at += (size_t)took;
    }
}

static void request(const char *text, size_t len)
{
    struct bh_http_request req;
    const char *why;
    long n = bh_http_read_head(text, len, &req, &why);
    BH_ASSERT(n <= (long)len);
    if (n <= 0)
        return;
    normalise(req.target);
    BH_CLEANUP_BUF struct bh_buf whole = BH_BUF_INIT, bytes = BH_BUF_INIT;
    unchunk(text + n, len - (size_t)n, len, &whole);
    unchunk(text + n, len - (size_t)n, 1, &bytes);
    BH_ASSERT(whole.len == bytes.len && memcmp(whole.data, bytes.data, whole.len) == 0);
    bh_http_request_fini(&req);
}

static int64_t count(const char *type, const char *text, size_t len, size_t piece)
{
    struct bh_usage usage;
    bh_usage_begin(&usage, type);
    for (size_t at = 0; at < len; at += piece)
        bh_usage_feed(&usage, text + at, piece < len - at ? piece : len - at);
    BH_ASSERT(bh_usage_in(&usage) >= 0 && bh_usage_out(&usage) >= 0);
    return bh_usage_in(&usage) * 31 + bh_usage_out(&usage);
}

static bool sift(const struct bh_needles *set, const char *text, size_t len, size_t piece, struct bh_buf *out)
{
    char room[64 + 7]; /* what waits may be longer */
    struct bh_sieve sieve = {.set = set};
    const char *pass, *found = NULL;
    size_t n;
    for (size_t at = 0; at <= len && !found; at += piece) {
        size_t size = piece < len - at ? piece : len - at;
        if (size > 0 && size <= 7 && at + piece <= len) {
            memcpy(room + 64, text + at, size);
            found = bh_sieve_push_behind(&sieve, 64, room + 64, size, &pass, &n);
        } else {
            found = bh_sieve_push(&sieve, text + at, size, at + piece > len, &pass, &n);
        }
        bh_buf_add(out, pass, n);
    }
    bh_sieve_fini(&sieve);
    return found;
}

static void reply(const char *text, size_t len)
{
    BH_CLEANUP_BUF struct bh_buf whole = BH_BUF_INIT, bytes = BH_BUF_INIT;
    BH_ASSERT(count("application/json", text, len, len + 1) == count("application/json", text, len, 1));
    BH_ASSERT(count("text/event-stream", text, len, len + 1) == count("text/event-stream", text, len, 3));
    struct bh_needles *set = bh_needles_new();
    (void)bh_needles_add(set, "key", SECRET, strlen(SECRET));
    bool cut = sift(set, text, len, len + 1, &whole);
    BH_ASSERT(cut == sift(set, text, len, 1, &bytes));
    BH_ASSERT(whole.len == bytes.len && memcmp(whole.data, bytes.data, whole.len) == 0);
    BH_ASSERT(!memmem(whole.data, whole.len, SECRET, strlen(SECRET)));
    BH_ASSERT(cut || (whole.len == len && memcmp(whole.data, text, len) == 0));
    bh_needles_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = bh_alloc(size + 1);
    if (size > 0)
        memcpy(text, data, size);
    request(text, size);
    reply(text, size);
    if (!memchr(text, '\0', size))
        normalise(text);
    bh_free(text);
    return 0;
}
