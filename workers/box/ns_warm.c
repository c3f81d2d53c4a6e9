/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warm forks (docs/warm.md), from the worker's side. A fork server lives in a box; the box of each fork is beneath it.
 * Two inits tell of a fork: that of its own box, who checks it, hands over a pidfd of it and says when all of the box
 * is dead; and that of the server's, whose child it is, who compares it with others and alone learns how it ended.
 *
 *   box: FORKED (pidfd), checks it -> here: ADOPT to the server's box, meanwhile -> server's box: ADOPTED
 *   -> here: GO to the box, which lets it go when its check has found nothing
 *   -> box: ENDED, server's box: ORPHAN
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/box/ns_priv.h"

#define PATIENCE_S 12 /* a box is made, and a killed one dies, in milliseconds; others before it may be waited for */

struct bh_ns_server {
    struct bh_exec *exec; /* of its box */
    int socket, user_ns, pid_ns;
};

#define BOX(it) BH_CONTAINER(it, struct bh_box, link)
#define EXEC(it) BH_CONTAINER(it, struct bh_exec, link)

static struct bh_box *find_box(struct ns *ns, uint64_t id)
{
    BH_LIST_FOREACH (it, tmp, &ns->boxes) {
        if (BOX(it)->id == id && id != 0)
            return BOX(it);
    }
    return NULL;
}

/* Whose forks are told of by `server`. */
static struct bh_exec *find_fork(struct bh_box *server, uint64_t id)
{
    BH_LIST_FOREACH (b, tmp_b, &server->ns->boxes) {
        if (BOX(b)->beneath != server->id)
            continue;
        BH_LIST_FOREACH (it, tmp, &BOX(b)->execs) {
            if (EXEC(it)->id == id && EXEC(it)->fork)
                return EXEC(it);
        }
    }
    return NULL;
}

/* --- boxes that may be stopped by the server that they are beneath --- */

static void on_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bh_ns_box_distrust(arg);
}

void bh_ns_warm_expect(struct bh_box *box)
{
    const struct timeval patience = {PATIENCE_S, 0};
    if (box->beneath == 0)
        return;
    if (!box->patience)
        box->patience = evtimer_new(box->ns->loop, on_late, box);
    BH_ASSERT(box->patience && event_add(box->patience, &patience) == 0);
}

void bh_ns_warm_expect_nothing(struct bh_box *box)
{
    if (box->patience)
        (void)event_del(box->patience);
}

void bh_ns_warm_drop(struct bh_box *box)
{
    if (box->patience)
        event_free(BH_TAKE(box->patience));
    struct bh_ns_server *server = BH_TAKE(box->server);
    if (!server)
        return;
    bh_close(server->socket);
    bh_close(server->user_ns);
    bh_close(server->pid_ns);
    bh_free(server);
}

/* --- asking --- */

int bh_ns_warm_create(struct bh_box *box, const struct bh_box_spec *spec, struct bh_msg_create *msg, int fds[static 3],
                      size_t *nfds)
{
    box->warm = spec->warm || spec->beneath;
    msg->flags |= box->warm ? BH_CREATE_WARM : 0;
    if (!spec->beneath)
        return 0;
    struct bh_box *of = spec->beneath->box;
    BH_ASSERT(spec->beneath->magic == NS_EXEC_MAGIC && of->ns == box->ns);
    if (!of->server || of->server->exec != spec->beneath)
        return -1;
    box->beneath = of->id;
    bh_ns_warm_expect(box);
    msg->flags |= BH_CREATE_BENEATH;
    fds[(*nfds)++] = of->server->user_ns;
    fds[(*nfds)++] = of->server->pid_ns;
    return 0;
}

static int add_joins(struct bh_box *box, struct bh_msg_exec *msg, int *fds, size_t *nfds)
{
    char name[BH_NS_GROUP_NAME];
    if (box->group == 0)
        return 0;
    (void)snprintf(name, sizeof(name), "b%u", box->group);
    int n = bh_cgroup_open(&box->ns->cgroup, name, fds + *nfds);
    if (n < 0)
        return errno;
    msg->n_join = (uint32_t)n;
    *nfds += (size_t)n;
    return 0;
}

int bh_ns_warm_exec(struct bh_exec *exec, const struct bh_exec_spec *spec, struct bh_msg_exec *msg, int *fds,
                    size_t *nfds)
{
    const struct bh_box *server = find_box(exec->box->ns, exec->box->beneath);
    exec->on_warm = spec->on_warm;
    exec->fork = spec->fork;
    if (spec->on_warm)
        msg->flags |= BH_EXEC_WARM_SERVER;
    if (!spec->fork)
        return 0;
    int copy = server && server->server ? fcntl(server->server->socket, F_DUPFD_CLOEXEC, 3) : -1;
    if (copy < 0)
        return ESRCH;
    msg->flags |= BH_EXEC_WARM;
    fds[(*nfds)++] = copy;
    return add_joins(exec->box, msg, fds, nfds);
}

/* --- hearing --- */

static bool on_warm(struct bh_box *box, const struct bh_msg_report *r, const int *fds)
{
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        struct bh_exec *exec = EXEC(it);
        if (exec->id != r->id || !exec->on_warm || box->server)
            continue;
        box->server = bh_alloc(sizeof(*box->server));
        *box->server = (struct bh_ns_server){exec, fds[0], fds[1], fds[2]};
        /* Whoever asks for a fork waits for as long as he likes, not for as long as it is busy. */
        (void)bh_fd_set_nonblock(fds[0], true);
        exec->on_warm(exec->arg);
        return true;
    }
    return false;
}

/* Its number in the namespace above its own; -1: it is gone. */
static int number_at_server(int pidfd)
{
    char path[48], text[512], *end;
    (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    long above = -1, last = -1;
    if (n <= 0)
        return -1;
    text[n] = '\0';
    const char *at = strstr(text, "NSpid:");
    for (at = at ? at + strlen("NSpid:") : NULL; at && *at != '\n' && *at; at = end) {
        long next = strtol(at, &end, 10);
        if (end == at)
            break;
        above = last;
        last = next;
    }
    return above > 1 && above <= INT32_MAX ? (int)above : -1;
}

static void keep_how(struct bh_exec *exec, const struct bh_exec_result *how)
{
    exec->how = *how;
    bh_step_set(exec->step, how->step ? how->step : "");
    exec->how.step = how->step ? exec->step : NULL;
}

static void give_up(struct bh_exec *exec, int error, const char *step)
{
    const struct bh_msg_ask stop = {.kind = BH_MSG_KILL, .signal = SIGKILL, .id = exec->id};
    exec->orphaned = true;
    keep_how(exec, &(struct bh_exec_result){.end = BH_EXEC_NOT_STARTED, .status = error, .step = step});
    bh_ns_say(exec->box, &stop, sizeof(stop), NULL, 0);
}

static bool on_forked(struct bh_box *box, const struct bh_msg_report *r, int pidfd)
{
    struct bh_box *server = find_box(box->ns, box->beneath);
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        struct bh_exec *exec = EXEC(it);
        if (exec->id != r->id || !exec->fork)
            continue;
        int pid = number_at_server(pidfd);
        if (!server || pid < 0) {
            give_up(exec, ESRCH, "fork the warm process: it has ended");
            return true;
        }
        const struct bh_msg_ask adopt = {.kind = BH_MSG_ADOPT, .signal = pid, .id = r->id};
        bh_ns_say(server, &adopt, sizeof(adopt), NULL, 0);
        return true;
    }
    return false;
}

static bool on_adopted(struct bh_box *server, const struct bh_msg_report *r)
{
    struct bh_exec *exec = find_fork(server, r->id);
    const struct bh_msg_ask go = {.kind = BH_MSG_GO, .id = r->id};
    if (exec && !exec->orphaned) /* else its box has died meanwhile */
        bh_ns_say(exec->box, &go, sizeof(go), NULL, 0);
    return true;
}

/* How it ended is what its server's box says, when is what its own does. */
static struct bh_exec_result whole_of(const struct bh_exec *exec, struct bh_wall ended)
{
    struct bh_exec_result whole = exec->how;
    whole.ended = ended;
    return whole;
}

static bool on_orphan(struct bh_box *server, const struct bh_msg_report *r)
{
    struct bh_exec *exec = find_fork(server, r->id);
    if (!exec || exec->orphaned)
        return true; /* its box has died meanwhile */
    struct bh_wall when = exec->how.ended;
    if (r->end == BH_EXEC_NOT_STARTED) {
        give_up(exec, r->status, r->step);
    } else {
        exec->orphaned = true;
        keep_how(exec, &(struct bh_exec_result){.end = (enum bh_exec_end)r->end,
                                                .status = r->status,
                                                .cpu_ms = r->cpu_ms,
                                                .max_rss_bytes = r->max_rss_bytes});
    }
    if (exec->ended) {
        struct bh_exec_result whole = whole_of(exec, when);
        bh_ns_finish_exec(exec, &whole);
    }
    return true;
}

bool bh_ns_warm_report(struct bh_box *box, const struct bh_msg_report *r, const int *fds, size_t nfds)
{
    bool believed = r->kind == BH_MSG_WARM      ? on_warm(box, r, fds)
                    : r->kind == BH_MSG_FORKED  ? on_forked(box, r, fds[0])
                    : r->kind == BH_MSG_ADOPTED ? on_adopted(box, r)
                                                : on_orphan(box, r);
    for (size_t i = 0; i < nfds && !(believed && r->kind == BH_MSG_WARM); i++)
        bh_close(fds[i]);
    return believed;
}

bool bh_ns_warm_holds(struct bh_exec *exec, struct bh_exec_result *result)
{
    bool refused = exec->orphaned && exec->how.end == BH_EXEC_NOT_STARTED;
    if (!exec->fork)
        return false;
    /* What its own box has refused holds, unless that was only killed because the server's had. */
    if (result->end == BH_EXEC_NOT_STARTED && !(refused && result->status == ECANCELED))
        return false;
    exec->ended = true;
    if (exec->orphaned)
        *result = whole_of(exec, result->ended);
    else
        exec->how.ended = result->ended;
    return !exec->orphaned;
}

void bh_ns_warm_ended(struct bh_exec *exec)
{
    bh_ns_warm_expect_nothing(exec->box);
    if (exec->box->server && exec->box->server->exec == exec)
        bh_ns_warm_drop(exec->box);
}
