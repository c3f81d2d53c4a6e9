/* SPDX-License-Identifier: Apache-2.0 */
/* Packing, unpacking and judging messages. Linked into all three programs; owns no state, makes no system call. */
#include "workers/box/proto.h"

#include <string.h>

#include "workers/box/box.h"

void bh_pack_str(struct bh_buf *out, const char *s)
{
    bh_buf_add(out, s, strlen(s) + 1);
}

const char *bh_unpack_str(struct bh_unpack *u)
{
    if (!u->at)
        return NULL;
    const char *s = u->at, *nul = memchr(s, '\0', (size_t)(u->end - s));
    u->at = nul ? nul + 1 : NULL;
    return nul ? s : NULL;
}

bool bh_unpack_done(const struct bh_unpack *u)
{
    return u->at && u->at == u->end;
}

void bh_step_set(char step[static BH_STEP_MAX], const char *text)
{
    size_t len = strnlen(text, BH_STEP_MAX - 1);
    memcpy(step, text, len);
    memset(step + len, 0, BH_STEP_MAX - len);
}

static bool step_valid(const char *step)
{
    const char *nul = memchr(step, '\0', BH_STEP_MAX);
    if (!nul)
        return false;
    for (const char *p = step; p < nul; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    }
    return true;
}

static bool end_valid(const struct bh_msg_report *r)
{
    if (r->cpu_ms < 0 || r->max_rss_bytes < 0 || r->ended_us < 0)
        return false;
    switch (r->end) {
    case BH_EXEC_EXITED:
        return r->status >= 0 && r->status <= 255;
    case BH_EXEC_SIGNALED:
        return r->status >= 1 && r->status <= 64;
    case BH_EXEC_NOT_STARTED:
        return r->status >= 1 && r->status <= 4095;
    default:
        return false;
    }
}

bool bh_report_valid(const struct bh_msg_report *r, size_t len, size_t nfds)
{
    if (len != sizeof(*r) || !step_valid(r->step))
        return false;
    if (r->kind == BH_MSG_ENDED || r->kind == BH_MSG_ORPHAN)
        return nfds == 0 && end_valid(r);
    if (r->kind == BH_MSG_STARTED)
        return nfds == 0 && r->status > 1;
    if (r->status < 0 || r->status > 4095)
        return false;
    switch (r->kind) {
    case BH_MSG_READY:
        return nfds <= 1 && r->status == 0;
    case BH_MSG_FAILED:
        return nfds == 0 && r->status != 0;
    case BH_MSG_QUIET:
        return nfds == 0;
    case BH_MSG_ADOPTED:
        return nfds == 0 && r->status == 0;
    case BH_MSG_WARM:
        return nfds == BH_WARM_FDS && r->status == 0;
    case BH_MSG_FORKED:
        return nfds == 1 && r->status == 0;
    case BH_MSG_OPENED:
    case BH_MSG_LISTENING:
        return nfds == (r->status == 0 ? 1u : 0u);
    default:
        return false;
    }
}
