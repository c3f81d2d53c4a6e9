/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that does not read: nothing is lost, nothing overtakes, descriptors arrive. */
#include "workers/box/outbox.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/support/t.h"

#define MANY 3000

static void keeps_the_order(void **state)
{
    (void)state;
    struct event_base *loop = event_base_new();
    struct bh_outbox box;
    int pair[2];
    T_OK(bh_seqpacket_pair(pair, &err));
    T_INT(bh_fd_set_nonblock(pair[0], true), 0);
    T_INT(bh_fd_set_nonblock(pair[1], true), 0);
    bh_outbox_init(&box, loop, pair[0]);
    BH_CLEANUP_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < MANY; i++) {
        char msg[200] = "";
        memcpy(msg, &i, sizeof(i));
        T_INT(bh_outbox_send(&box, msg, sizeof(msg), &null, i % 100 == 0 ? 1 : 0), 0);
    }
    T_TRUE(!bh_list_empty(&box.waiting)); /* the socket did not take them all: this test tests something */
    for (uint32_t want = 0; want < MANY;) {
        char msg[200];
        uint32_t got;
        int fds[BH_MSG_MAX_FDS];
        size_t nfds;
        ssize_t n = bh_msg_recv(pair[1], msg, sizeof(msg), fds, &nfds);
        if (n < 0 && errno == EAGAIN) {
            (void)event_base_loop(loop, EVLOOP_NONBLOCK);
            continue;
        }
        T_INT(n, sizeof(msg));
        memcpy(&got, msg, sizeof(got));
        T_INT(got, want);
        T_INT(nfds, want % 100 == 0 ? 1 : 0);
        if (nfds)
            bh_close(fds[0]);
        want++;
    }
    T_TRUE(bh_list_empty(&box.waiting));
    bh_outbox_fini(&box);
    bh_outbox_fini(&box);
    bh_close(pair[0]);
    bh_close(pair[1]);
    event_base_free(loop);
}

static void notices_a_dead_peer(void **state)
{
    (void)state;
    struct event_base *loop = event_base_new();
    struct bh_outbox box;
    int pair[2];
    T_OK(bh_seqpacket_pair(pair, &err));
    bh_outbox_init(&box, loop, pair[0]);
    bh_close(pair[1]);
    T_INT(bh_outbox_send(&box, "x", 1, NULL, 0), -1);
    T_INT(errno, EPIPE);
    bh_outbox_fini(&box);
    bh_close(pair[0]);
    event_base_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keeps_the_order), cmocka_unit_test(notices_a_dead_peer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
