/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/box/outbox.h"

#include <event2/event.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/mem.h"

struct letter {
    struct bh_list link;
    void *data;
    size_t len, nfds;
    int fds[BH_MSG_MAX_FDS];
};

#define LETTER(it) BH_CONTAINER(it, struct letter, link)

static void free_letter(struct letter *l)
{
    bh_list_remove(&l->link);
    for (size_t i = 0; i < l->nfds; i++)
        bh_close(l->fds[i]);
    explicit_bzero(l->data, l->len); /* it may hold secrets */
    bh_free(l->data);
    bh_free(l);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct bh_outbox *box = arg;
    (void)fd;
    (void)what;
    while (!bh_list_empty(&box->waiting)) {
        struct letter *l = LETTER(box->waiting.next);
        if (bh_msg_send(box->sock, l->data, l->len, l->fds, l->nfds) < 0 && errno == EAGAIN)
            return;
        free_letter(l); /* also where the peer is dead, which whoever reads the socket finds out */
    }
    (void)event_del(box->writable);
}

void bh_outbox_init(struct bh_outbox *box, struct event_base *loop, int sock)
{
    box->sock = sock;
    box->writable = event_new(loop, sock, EV_WRITE | EV_PERSIST, on_writable, box);
    bh_list_init(&box->waiting);
}

static int keep(struct bh_outbox *box, const void *data, size_t len, const int *fds, size_t nfds)
{
    struct letter *l = bh_alloc(sizeof(*l));
    bh_list_init(&l->link);
    l->data = bh_memdup(data, len);
    l->len = len;
    for (; l->nfds < nfds; l->nfds++) {
        l->fds[l->nfds] = fcntl(fds[l->nfds], F_DUPFD_CLOEXEC, 3);
        if (l->fds[l->nfds] < 0) {
            int why = errno;
            free_letter(l);
            errno = why;
            return -1;
        }
    }
    bh_list_append(&box->waiting, &l->link);
    return event_add(box->writable, NULL);
}

int bh_outbox_send(struct bh_outbox *box, const void *data, size_t len, const int *fds, size_t nfds)
{
    if (!box->writable) {
        errno = ENOMEM;
        return -1;
    }
    if (bh_list_empty(&box->waiting)) {
        if (bh_msg_send(box->sock, data, len, fds, nfds) == 0)
            return 0;
        if (errno != EAGAIN)
            return -1;
    }
    return keep(box, data, len, fds, nfds);
}

void bh_outbox_fini(struct bh_outbox *box)
{
    if (!box->writable)
        return;
    event_free(box->writable);
    box->writable = NULL;
    while (!bh_list_empty(&box->waiting))
        free_letter(LETTER(box->waiting.next));
}
