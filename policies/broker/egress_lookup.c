/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Up to HELPERS processes that each look up one name at a time, and whose turn it is: every box that wants something
 * has a queue of its own, and the boxes take turns. Half of the helpers are for boxes that have none at work, so that
 * a few boxes with names that nobody answers for do not hold all of them.
 */
#include "policies/broker/egress_lookup.h"

#include <errno.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/mem.h"
#include "policies/host_name.h"

enum { HELPERS = 16, SHARED = HELPERS / 2, OF_ONE = 4, HELPER_FD = 3 };

struct answer {
    int n;
    unsigned char addresses[BH_LOOKUP_MAX][BH_ADDRESS_LEN];
};

struct turn { /* of who has a lookup that waits or runs */
    struct bh_list link, queue;
    const void *who;
    size_t running;
};

struct helper {
    struct bh_lookups *all;
    pid_t pid; /* 0: not started */
    int sock;
    struct event *readable, *patience;
    bool busy;
    struct turn *turn;        /* while busy */
    struct bh_lookup *lookup; /* NULL while busy: nobody waits any more */
};

struct bh_lookup {
    struct bh_list link; /* in the queue, or alone */
    struct helper *helper;
    struct turn *turn;
    bh_lookup_done_fn *done;
    void *arg;
    char name[BH_HOST_TEXT];
};

struct bh_lookups {
    struct event_base *loop;
    bh_lookup_fn *look_up;
    struct timeval patience;
    struct bh_list turns; /* whose turn is next comes first */
    struct event *pump;
    struct helper helpers[HELPERS];
};

/* --- the helper process --- */

int bh_lookup_host(const char *name, unsigned char ret[BH_LOOKUP_MAX][BH_ADDRESS_LEN])
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    struct answer answer = {0};
    int rc = getaddrinfo(name, NULL, &hints, &list);
    for (const struct addrinfo *i = rc == 0 ? list : NULL; i && answer.n < BH_LOOKUP_MAX; i = i->ai_next)
        answer.n += bh_address_from_sockaddr(i->ai_addr, answer.addresses[answer.n]);
    if (rc == 0)
        freeaddrinfo(list);
    memcpy(ret, answer.addresses, sizeof(answer.addresses));
    return rc == 0 ? answer.n : rc == EAI_NONAME || rc == EAI_NODATA ? 0 : -1;
}

BH_NORETURN static void help(const struct bh_lookups *all, int sock, pid_t parent)
{
    char name[BH_HOST_TEXT];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(sock, HELPER_FD) < 0)
        _exit(1);
    (void)close_range(HELPER_FD + 1, ~0U, 0);
    (void)setenv("LOCALDOMAIN", ".", 1); /* no search domain: not what was decided about */
    (void)setenv("RES_OPTIONS", "timeout:3 attempts:2", 1);
    for (;;) {
        struct answer answer = {0};
        ssize_t n = recv(HELPER_FD, name, sizeof(name) - 1, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(0);
        name[n] = '\0';
        answer.n = all->look_up(name, answer.addresses);
        if (send(HELPER_FD, &answer, sizeof(answer), MSG_NOSIGNAL) < 0)
            _exit(0);
    }
}

/* --- turns --- */

static struct turn *turn_of(struct bh_lookups *all, const void *who)
{
    BH_LIST_FOREACH (it, next, &all->turns) {
        struct turn *t = BH_CONTAINER(it, struct turn, link);
        if (t->who == who)
            return t;
    }
    struct turn *t = bh_alloc(sizeof(*t));
    t->who = who;
    bh_list_init(&t->queue);
    bh_list_init(&t->link);
    bh_list_append(&all->turns, &t->link);
    return t;
}

static void leave(struct turn *t)
{
    if (t->running > 0 || !bh_list_empty(&t->queue))
        return;
    bh_list_remove(&t->link);
    bh_free(t);
}

static void end_turn(struct turn *t)
{
    if (!t)
        return;
    t->running--;
    leave(t);
}

/* --- helpers as we see them --- */

static void stop_helper(struct helper *h)
{
    if (h->pid == 0)
        return;
    (void)kill(h->pid, SIGKILL);
    while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    event_free(h->readable);
    event_free(h->patience);
    bh_close(h->sock);
    *h = (struct helper){.all = h->all, .sock = -1};
}

static void free_lookup(struct bh_lookup *lookup)
{
    if (lookup->helper)
        lookup->helper->lookup = NULL;
    bh_list_remove(&lookup->link);
    leave(lookup->turn);
    bh_free(lookup);
}

/* The helper has nothing to do any more; who waited is told. */
static void finish(struct helper *h, const struct answer *answer)
{
    struct bh_lookup *lookup = h->lookup;
    (void)event_active(h->all->pump, EV_TIMEOUT, 0);
    if (h->pid != 0)
        (void)event_del(h->patience);
    h->busy = false;
    struct turn *turn = BH_TAKE(h->turn);
    if (!lookup) {
        end_turn(turn);
        return;
    }
    bh_lookup_done_fn *done = lookup->done;
    void *arg = lookup->arg;
    free_lookup(lookup);
    end_turn(turn);
    done(arg, answer->addresses, answer->n);
}

static void give_up(struct helper *h)
{
    const struct answer late = {.n = -1};
    struct bh_lookup *lookup = h->lookup;
    struct turn *turn = h->turn;
    stop_helper(h);
    h->lookup = lookup;
    h->turn = turn;
    if (lookup)
        lookup->helper = h;
    finish(h, &late);
}

static void on_answer(evutil_socket_t fd, short what, void *arg)
{
    struct helper *h = arg;
    struct answer answer;
    (void)what;
    ssize_t n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n != sizeof(answer) || !h->busy || answer.n > BH_LOOKUP_MAX)
        give_up(h);
    else
        finish(h, &answer);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    give_up(arg);
}

static bool start_helper(struct helper *h)
{
    int pair[2];
    pid_t parent = getpid();
    if (bh_seqpacket_pair(pair, NULL) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0)
        help(h->all, pair[1], parent);
    bh_close(pair[1]);
    if (pid < 0) {
        bh_close(pair[0]);
        return false;
    }
    h->pid = pid;
    h->sock = pair[0];
    h->readable = event_new(h->all->loop, h->sock, EV_READ | EV_PERSIST, on_answer, h);
    h->patience = evtimer_new(h->all->loop, on_patience, h);
    BH_ASSERT(h->readable && h->patience);
    (void)event_add(h->readable, NULL);
    return true;
}

/* --- the queue --- */

static size_t count_busy(const struct bh_lookups *all)
{
    size_t n = 0;
    for (size_t i = 0; i < HELPERS; i++)
        n += all->helpers[i].busy;
    return n;
}

static struct turn *next_turn(struct bh_lookups *all)
{
    size_t most = count_busy(all) < SHARED ? OF_ONE : 1;
    BH_LIST_FOREACH (it, next, &all->turns) {
        struct turn *t = BH_CONTAINER(it, struct turn, link);
        if (t->running < most && !bh_list_empty(&t->queue))
            return t;
    }
    return NULL;
}

/* One that runs is better than one that would have to be started. */
static struct helper *idle_helper(struct bh_lookups *all)
{
    struct helper *found = NULL;
    for (size_t i = 0; i < HELPERS; i++) {
        struct helper *h = &all->helpers[i];
        if (!h->busy && (!found || (found->pid == 0 && h->pid != 0)))
            found = h;
    }
    return found;
}

/* Whether the helper has it; one that cannot be started or spoken to fails the lookup. */
static void hand_over(struct helper *h, struct bh_lookup *lookup)
{
    bh_list_remove(&lookup->link);
    lookup->helper = h;
    h->lookup = lookup;
    h->busy = true;
    h->turn = lookup->turn;
    h->turn->running++;
    if (h->pid == 0 && !start_helper(h)) {
        give_up(h);
        return;
    }
    (void)event_add(h->patience, &h->all->patience);
    if (send(h->sock, lookup->name, strlen(lookup->name), MSG_NOSIGNAL) < 0)
        give_up(h);
}

static void on_pump(evutil_socket_t fd, short what, void *arg)
{
    struct bh_lookups *all = arg;
    (void)fd;
    (void)what;
    struct helper *h;
    struct turn *t;
    while ((h = idle_helper(all)) && (t = next_turn(all))) {
        bh_list_remove(&t->link);
        bh_list_append(&all->turns, &t->link);
        hand_over(h, BH_CONTAINER(t->queue.next, struct bh_lookup, link));
    }
}

struct bh_lookups *bh_lookups_new(struct event_base *loop, bh_lookup_fn *look_up, int64_t patience_ms)
{
    struct bh_lookups *all = bh_alloc(sizeof(*all));
    all->loop = loop;
    all->look_up = look_up;
    all->patience = (struct timeval){.tv_sec = patience_ms / 1000, .tv_usec = patience_ms % 1000 * 1000};
    bh_list_init(&all->turns);
    all->pump = evtimer_new(loop, on_pump, all);
    BH_ASSERT(all->pump);
    for (size_t i = 0; i < HELPERS; i++)
        all->helpers[i] = (struct helper){.all = all, .sock = -1};
    return all;
}

void bh_lookups_free(struct bh_lookups *all)
{
    if (!all)
        return;
    for (size_t i = 0; i < HELPERS; i++) {
        struct turn *turn = all->helpers[i].turn;
        if (all->helpers[i].lookup)
            free_lookup(all->helpers[i].lookup);
        stop_helper(&all->helpers[i]);
        end_turn(turn);
    }
    while (!bh_list_empty(&all->turns)) { /* nothing runs: the last that waits takes its turn with it */
        struct turn *t = BH_CONTAINER(all->turns.next, struct turn, link);
        free_lookup(BH_CONTAINER(t->queue.next, struct bh_lookup, link));
    }
    event_free(all->pump);
    bh_free(all);
}

struct bh_lookup *bh_lookup_ask(struct bh_lookups *all, const void *who, const char *name, bh_lookup_done_fn *done,
                                void *arg)
{
    struct bh_lookup *lookup = bh_alloc(sizeof(*lookup));
    size_t len = strlen(name);
    BH_ASSERT(len < sizeof(lookup->name));
    *lookup = (struct bh_lookup){.turn = turn_of(all, who), .done = done, .arg = arg};
    memcpy(lookup->name, name, len + 1);
    bh_list_init(&lookup->link);
    bh_list_append(&lookup->turn->queue, &lookup->link);
    (void)event_active(all->pump, EV_TIMEOUT, 0);
    return lookup;
}

void bh_lookup_cancel(struct bh_lookup *lookup)
{
    if (lookup)
        free_lookup(lookup);
}
