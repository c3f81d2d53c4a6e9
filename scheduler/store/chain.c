/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes events into a chain. Knows neither database nor file. */
#include "scheduler/store/chain.h"

#include <string.h>

#include "base/buf.h"

void bh_chain_add_int(struct bh_buf *out, int64_t value)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)value >> (56 - 8 * i));
    bh_buf_add(out, bytes, sizeof(bytes));
}

void bh_chain_add_text(struct bh_buf *out, const char *text)
{
    bh_chain_add_int(out, text ? (int64_t)strlen(text) : -1);
    if (text)
        bh_buf_adds(out, text);
}

struct bh_digest bh_chain_start(const char *run)
{
    return bh_digest_of(run, strlen(run));
}

struct bh_head bh_chain_next(const struct bh_head *prev, const char *run, struct bh_wall at, const char *kind,
                             const char *payload, struct bh_buf *scratch)
{
    struct bh_head next = {.seq = prev->seq + 1};
    bh_buf_clear(scratch);
    bh_buf_add(scratch, prev->chain.b, sizeof(prev->chain.b));
    bh_chain_add_text(scratch, run);
    bh_chain_add_int(scratch, next.seq);
    bh_chain_add_int(scratch, at.us);
    bh_chain_add_text(scratch, kind);
    bh_chain_add_text(scratch, payload);
    next.chain = bh_digest_of(scratch->data, scratch->len);
    return next;
}
