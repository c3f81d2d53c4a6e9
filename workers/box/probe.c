/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher's probes as the command line wants them. */
#include <errno.h>
#include <poll.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/box/box.h"
#include "workers/box/proto.h"

#define PROBE_TIMEOUT_MS 60000

static int ask(int sock, char *msg, size_t size, size_t *ret_len, struct bh_err **err)
{
    struct bh_msg_probe ask = {.kind = BH_MSG_PROBE};
    struct pollfd polled = {.fd = sock, .events = POLLIN};
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    if (bh_msg_send(sock, &ask, sizeof(ask), NULL, 0) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot speak to the launcher");
    ssize_t n = poll(&polled, 1, PROBE_TIMEOUT_MS) == 1 ? bh_msg_recv(sock, msg, size, fds, &nfds) : -1;
    if (n <= 0)
        return bh_err_set(err, BH_E_HOST, 0, "the launcher does not answer");
    *ret_len = (size_t)n;
    return 0;
}

static int parse(const char *data, size_t len, struct bh_box_probe **ret, size_t *ret_n)
{
    const struct bh_msg_probe *head = (const void *)data;
    if (len < sizeof(*head) || head->kind != BH_MSG_PROBE || head->n > BH_PROBES_MAX)
        return -1;
    struct bh_unpack u = {data + sizeof(*head), data + len};
    struct bh_box_probe *probes = bh_calloc(head->n, sizeof(*probes));
    for (size_t i = 0; i < head->n; i++) {
        const char *name = bh_unpack_str(&u), *found = bh_unpack_str(&u), *effect = bh_unpack_str(&u);
        const char *remedy = bh_unpack_str(&u);
        probes[i] = (struct bh_box_probe){
            .name = bh_strdup(name),
            .ok = head->ok >> i & 1,
            .required = head->required >> i & 1,
            .found = bh_strdup(found),
            .effect = bh_strdup(effect),
            .remedy = bh_strdup(remedy),
        };
    }
    *ret = probes;
    *ret_n = head->n;
    if (bh_unpack_done(&u))
        return 0;
    bh_box_probes_free(probes, head->n);
    return -1;
}

int bh_boxes_probe(int sock, struct bh_box_probe **ret, size_t *ret_n, struct bh_err **err)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    size_t len = 0;
    int rc = ask(sock, msg, sizeof(msg), &len, err);
    if (rc != 0)
        return rc;
    return parse(msg, len, ret, ret_n) == 0 ? 0 : bh_err_set(err, BH_E_PROTOCOL, 0, "the launcher speaks nonsense");
}

void bh_boxes_explain(int sock, struct bh_err **err)
{
    struct bh_box_probe *probes = NULL;
    size_t n = 0;
    BH_CLEANUP_ERR struct bh_err *lost = NULL;
    if (bh_boxes_probe(sock, &probes, &n, &lost) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct bh_box_probe *p = &probes[i];
        if (p->ok || !p->required || !p->remedy[0])
            continue;
        bh_err_detail(err, "%s: %s; %s", p->name, p->found, p->effect);
        bh_err_hint(err, "%s", p->remedy);
        break;
    }
    bh_box_probes_free(probes, n);
}

void bh_box_probes_free(struct bh_box_probe *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bh_free((char *)(uintptr_t)p[i].name);
        bh_free(p[i].found);
        bh_free(p[i].effect);
        bh_free(p[i].remedy);
    }
    bh_free(p);
}
