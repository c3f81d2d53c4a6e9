/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversation with a box's init. What comes from there is judged before it is looked at (bh_report_valid), must
 * answer something that was asked, and otherwise ends the box: an init that errs once is not believed again.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workers/box/ns_priv.h"

#define EXEC(it) BH_CONTAINER(it, struct bh_exec, link)
#define ASK(it) BH_CONTAINER(it, struct ns_ask, link)
#define INLINE_MAX 32768 /* a larger request goes into a memfd */
#define RESOLVER_MAX 65536

/* --- what a box says --- */

void bh_ns_finish_exec(struct bh_exec *exec, const struct bh_exec_result *result)
{
    struct bh_exec gone = *exec;
    struct bh_exec_result whole = *result;
    if (exec->box->shared)
        bh_ns_census_ended(exec, &whole);
    bh_ns_group_ended(exec, &whole);
    bh_ns_disk_ended(exec, &whole);
    bh_ns_warm_ended(exec);
    if (whole.step == exec->step)
        whole.step = gone.step;
    bh_list_remove(&exec->link);
    exec->magic = 0;
    bh_free(exec);
    gone.fn(gone.arg, &whole);
}

static bool on_ended(struct bh_box *box, const struct bh_msg_report *r)
{
    struct bh_exec_result result = {
        .end = (enum bh_exec_end)r->end,
        .status = r->status,
        .step = r->end == BH_EXEC_NOT_STARTED ? r->step : NULL,
        .ended = {r->ended_us},
        .cpu_ms = r->cpu_ms,
        .max_rss_bytes = r->max_rss_bytes,
    };
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        if (EXEC(it)->id != r->id)
            continue;
        bh_ns_watch_ended(EXEC(it), r->mount);
        if (!bh_ns_warm_holds(EXEC(it), &result))
            bh_ns_finish_exec(EXEC(it), &result);
        return true;
    }
    return false;
}

static bool on_started(struct bh_box *box, const struct bh_msg_report *r)
{
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        struct bh_exec *exec = EXEC(it);
        if (exec->id != r->id || exec->inside != 0 || !box->shared)
            continue;
        exec->inside = r->status;
        bh_ns_disk_started(exec);
        bh_ns_watch_started(exec);
        return true;
    }
    return false;
}

static void finish_ask(struct ns_ask *ask, int error, int fd, const char *what)
{
    struct ns_ask gone = *ask;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    bh_list_remove(&ask->link);
    bh_free(ask);
    if (gone.opened) {
        gone.opened(gone.arg, error ? -1 : fd, error);
        return;
    }
    int rc = error == 0 ? 0 : bh_err_set(&err, error == EBUSY ? BH_E_BUSY : BH_E_HOST, error, "%s", what);
    gone.done(gone.arg, rc, err);
}

/* An output is only ever read; a descriptor that can write is not what was asked for. */
static bool readable_only(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY;
}

static int option_of(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);
    return getsockopt(fd, SOL_SOCKET, option, &value, &len) == 0 ? value : -1;
}

/* Whoever accepts from it believes that it is in the box: so is a socket of the loopback that listens. */
static bool listens_on_loopback(int fd)
{
    struct sockaddr_in at = {.sin_family = AF_UNSPEC};
    socklen_t len = sizeof(at);
    return option_of(fd, SO_DOMAIN) == AF_INET && option_of(fd, SO_TYPE) == SOCK_STREAM &&
           option_of(fd, SO_ACCEPTCONN) == 1 && getsockname(fd, (struct sockaddr *)(void *)&at, &len) == 0 &&
           at.sin_addr.s_addr == htonl(INADDR_LOOPBACK);
}

/* Takes fd where it returns true. */
static bool on_answer(struct bh_box *box, const struct bh_msg_report *r, int fd)
{
    if (fd >= 0 && !(r->kind == BH_MSG_LISTENING ? listens_on_loopback(fd) : readable_only(fd)))
        return false;
    BH_LIST_FOREACH (it, tmp, &box->asks) {
        struct ns_ask *ask = ASK(it);
        if (ask->id != r->id || ask->answer != r->kind)
            continue;
        bool last = box->asks.next == box->asks.prev;
        if (last)
            bh_ns_warm_expect_nothing(box);
        finish_ask(ask, r->status, fd, "the box could not be made quiet");
        return true;
    }
    return false;
}

static struct bh_err *why_failed(const struct bh_box *box, const struct bh_msg_report *r)
{
    struct bh_err *why = NULL;
    bool full = r->status == ENOSPC || r->status == EDQUOT;
    (void)bh_err_set(&why, full ? BH_E_IO : BH_E_HOST, r->status, "cannot make box '%s': cannot %s", box->key, r->step);
    return why;
}

/* False: the box is not to be believed. The box may be gone afterwards. */
static bool on_report(struct bh_box *box, const struct bh_msg_report *r, int *fd)
{
    bool making = box->state == BOX_MAKING && !box->ready;
    switch (r->kind) {
    case BH_MSG_READY:
        if (!making || (*fd >= 0) != (box->disk_by == BH_BY_TMPFS || box->lends))
            return false;
        *(box->lends ? &box->root : &box->memory_fd) = BH_TAKE_FD(*fd);
        if (box->lends && !box->stamp.taken) /* else it is that of the first who had it */
            bh_box_folder_stamp(box->run_dir, box->key, &box->stamp);
        bh_ns_box_ready(box);
        return true;
    case BH_MSG_FAILED:
        if (making)
            bh_ns_box_failed(box, why_failed(box, r));
        return making;
    case BH_MSG_ENDED:
        return on_ended(box, r);
    case BH_MSG_STARTED:
        return on_started(box, r);
    default:
        return on_answer(box, r, *fd) ? (*fd = -1, true) : false;
    }
}

static void on_control(evutil_socket_t sock, short what, void *arg)
{
    struct bh_box *box = arg;
    struct bh_msg_report r;
    int fds[BH_MSG_MAX_FDS], fd = -1;
    size_t nfds;
    (void)what;
    /* One a turn: its callback may end the box. */
    ssize_t n = bh_msg_recv(sock, &r, sizeof(r), fds, &nfds);
    if (n < 0 && errno == EAGAIN)
        return;
    bool valid = n > 0 && bh_report_valid(&r, (size_t)n, nfds);
    if (valid && nfds == 1)
        fd = fds[0];
    for (size_t i = 0; !valid && i < nfds; i++)
        bh_close(fds[i]);
    if (valid &&
        (r.kind == BH_MSG_WARM || r.kind == BH_MSG_FORKED || r.kind == BH_MSG_ADOPTED || r.kind == BH_MSG_ORPHAN)) {
        if (!bh_ns_warm_report(box, &r, fds, nfds))
            bh_ns_box_distrust(box);
        return;
    }
    if (valid && on_report(box, &r, &fd))
        return;
    bh_close(fd);
    bh_ns_box_distrust(box);
}

int bh_ns_talk_start(struct bh_box *box)
{
    bh_outbox_init(&box->to_box, box->ns->loop, box->control);
    box->control_event = event_new(box->ns->loop, box->control, EV_READ | EV_PERSIST, on_control, box);
    if (bh_fd_set_nonblock(box->control, true) < 0 || !box->control_event)
        return -1;
    return event_add(box->control_event, NULL);
}

void bh_ns_talk_stop(struct bh_box *box)
{
    if (box->control_event)
        event_free(BH_TAKE(box->control_event));
    bh_outbox_fini(&box->to_box);
    bh_close(BH_TAKE_FD(box->control));
}

void bh_ns_talk_drop(struct bh_box *box)
{
    static const struct bh_exec_result lost = {.end = BH_EXEC_BOX_LOST};
    while (!bh_list_empty(&box->execs))
        bh_ns_finish_exec(EXEC(box->execs.next), &lost);
    while (!bh_list_empty(&box->asks))
        finish_ask(ASK(box->asks.next), EPIPE, -1, "the box is gone");
}

/* --- what is said to a box --- */

/* Ends the execs whose request could not be made, and everything where the box is gone. */
static void on_drop_soon(evutil_socket_t fd, short what, void *arg)
{
    struct bh_box *box = arg;
    (void)fd;
    (void)what;
    if (box->state != BOX_ALIVE) {
        bh_ns_talk_drop(box);
        return;
    }
    BH_LIST_FOREACH (it, tmp, &box->execs) {
        struct bh_exec_result refused = {
            .end = BH_EXEC_NOT_STARTED, .status = EXEC(it)->refused, .step = EXEC(it)->refused_step};
        if (refused.status)
            bh_ns_finish_exec(EXEC(it), &refused);
    }
}

/* A call on a box that cannot be spoken to is answered all the same, from the loop. */
static void drop_soon(struct bh_box *box)
{
    if (!box->drop_soon)
        box->drop_soon = event_new(box->ns->loop, -1, 0, on_drop_soon, box);
    BH_ASSERT(box->drop_soon);
    event_active(box->drop_soon, 0, 0);
}

/* Where the socket is dead the pidfd will tell, and everything open ends then. */
void bh_ns_say(struct bh_box *box, const void *data, size_t len, const int *fds, size_t nfds)
{
    if (box->state != BOX_ALIVE)
        drop_soon(box);
    else if (box->control >= 0 && bh_outbox_send(&box->to_box, data, len, fds, nfds) < 0)
        bh_ns_box_distrust(box);
}

static uint32_t pack_list(struct bh_buf *out, const char *const *list)
{
    uint32_t n = 0;
    for (; list && list[n]; n++)
        bh_pack_str(out, list[n]);
    return n;
}

static void pack_optional(struct bh_buf *out, const char *s, uint32_t flag, uint32_t *flags)
{
    if (!s)
        return;
    bh_pack_str(out, s);
    *flags |= flag;
}

/*
 * By whom names are resolved on the host: the box's own /etc says nothing of it, or what was so elsewhere. NULL: nobody
 * can tell, and then nothing is put over what is there.
 */
static char *resolver_of_host(void)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = open("/etc/resolv.conf", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || bh_read_all(fd, RESOLVER_MAX, &text, NULL) != 0 ||
        text.len == 0 || memchr(text.data, '\0', text.len))
        return NULL;
    return bh_buf_take(&text);
}

static void pack_exec(struct bh_exec *exec, struct bh_buf *out, const struct bh_exec_spec *spec,
                      struct bh_msg_exec *msg)
{
    BH_CLEANUP_FREE char *resolver = spec->host_network ? resolver_of_host() : NULL;
    msg->flags = (spec->terminal ? BH_EXEC_TERMINAL : 0) | (spec->beside ? BH_EXEC_BESIDE : 0) |
                 (spec->root ? BH_EXEC_ROOT : 0) | (spec->give_to_agent ? BH_EXEC_GIVE : 0) |
                 (spec->replace ? BH_EXEC_REPLACE : 0) | (spec->restore ? BH_EXEC_RESTORE : 0) |
                 (spec->host_network ? BH_EXEC_HOST_NETWORK : 0);
    msg->argc = pack_list(out, spec->argv);
    msg->envc = pack_list(out, spec->env);
    bh_pack_str(out, spec->cwd);
    pack_optional(out, spec->inputs, BH_EXEC_HAS_INPUTS, &msg->flags);
    pack_optional(out, spec->prompt, BH_EXEC_HAS_PROMPT, &msg->flags);
    pack_optional(out, spec->params, BH_EXEC_HAS_PARAMS, &msg->flags);
    pack_optional(out, spec->needs, BH_EXEC_HAS_NEEDS, &msg->flags);
    pack_optional(out, resolver, BH_EXEC_HAS_RESOLVER, &msg->flags);
    msg->n_empty = pack_list(out, spec->empty_first);
    for (size_t i = 0; i < spec->n_copies; i++) {
        bh_pack_str(out, spec->copies[i].from);
        bh_pack_str(out, spec->copies[i].to);
        bh_pack_str(out, spec->copies[i].mode & 0111 ? "x" : "-");
    }
    msg->n_copies = (uint32_t)spec->n_copies;
    msg->limits = bh_msg_limits_of(&spec->limits);
    bh_ns_disk_exec(exec, spec, msg);
}

static int in_memfd(const struct bh_buf *strings)
{
    BH_CLEANUP_FD int fd = memfd_create("exec", MFD_CLOEXEC);
    if (fd < 0 || bh_write_all(fd, strings->data, strings->len) < 0)
        return -1;
    return BH_TAKE_FD(fd);
}

/*
 * A pipe belongs to who made it, and /dev/stdout opens it again: with ids of its own the agent could write to its
 * streams but not open them.
 */
static void give_pipes(const struct bh_box *box, const struct bh_exec_spec *spec)
{
    const struct ns *ns = box->ns;
    const int fds[] = {spec->stdin_fd, spec->stdout_fd, spec->stderr_fd};
    uid_t id = ns->owner.first_id + (spec->root ? 0 : box->agent_uid);
    for (size_t i = 0; i < BH_ARRAY_LEN(fds) && ns->owner.mode == BH_IDS_RANGE; i++) {
        struct stat st;
        if (fstat(fds[i], &st) == 0 && S_ISFIFO(st.st_mode) && fchown(fds[i], id, id) < 0)
            return; /* not ours to give: the agent does without */
    }
}

/* What goes along: the streams, a memfd with the strings where they are long, the groups to be joined. */
struct send {
    struct bh_buf strings, out;
    int fds[5 + BH_CGROUP_PARTS]; /* the first three are the caller's */
    size_t nfds;
};

static int collect_fds(struct bh_exec *exec, const struct bh_exec_spec *spec, struct send *s, struct bh_msg_exec *msg)
{
    s->fds[0] = spec->stdin_fd;
    s->fds[1] = spec->stdout_fd;
    s->fds[2] = spec->stderr_fd;
    s->nfds = 3;
    if (s->strings.len > INLINE_MAX) {
        int memfd = in_memfd(&s->strings);
        if (memfd < 0)
            return errno;
        msg->in_memfd = (uint32_t)s->strings.len;
        s->fds[s->nfds++] = memfd;
    }
    exec->refused_step = "fork a warm process that has ended";
    int why = bh_ns_warm_exec(exec, spec, msg, s->fds, &s->nfds);
    if (why || spec->fork)
        return why;
    exec->refused_step = "make the control group of an agent";
    int n = bh_ns_group_exec(exec, &spec->limits, s->fds + s->nfds);
    if (n < 0)
        return errno;
    exec->refused_step = "exec";
    msg->n_join = (uint32_t)n;
    s->nfds += (size_t)n;
    return 0;
}

static int fill_send(struct bh_exec *exec, const struct bh_exec_spec *spec, struct send *s)
{
    struct bh_box *box = exec->box;
    struct bh_msg_exec msg = {.kind = BH_MSG_EXEC, .id = exec->id};
    exec->refused_step = "hold it to its limits";
    int why = bh_ns_limits_check_exec(box, &spec->limits);
    if (why)
        return why;
    exec->refused_step = "exec";
    pack_exec(exec, &s->strings, spec, &msg);
    if (s->strings.len > BH_PROTO_EXEC_MAX)
        return E2BIG;
    why = collect_fds(exec, spec, s, &msg);
    if (why)
        return why;
    bh_buf_add(&s->out, &msg, sizeof(msg));
    if (!msg.in_memfd)
        bh_buf_add(&s->out, s->strings.data, s->strings.len);
    return 0;
}

/* 0 or an errno. */
static int send_exec(struct bh_exec *exec, const struct bh_exec_spec *spec)
{
    struct send s = {.strings = BH_BUF_INIT, .out = BH_BUF_INIT, .nfds = 3};
    int why = fill_send(exec, spec, &s);
    if (why == 0) {
        give_pipes(exec->box, spec);
        bh_ns_say(exec->box, s.out.data, s.out.len, s.fds, s.nfds);
    }
    for (size_t i = 3; i < s.nfds; i++)
        bh_close(s.fds[i]);
    bh_buf_wipe(&s.strings);
    bh_buf_wipe(&s.out);
    return why;
}

struct bh_exec *bh_ns_exec(struct bh_box *box, const struct bh_exec_spec *spec, bh_exec_done_fn fn, void *arg)
{
    struct bh_exec *exec = bh_alloc(sizeof(*exec));
    BH_ASSERT(box->magic == NS_BOX_MAGIC && spec->argv && spec->argv[0]);
    *exec = (struct bh_exec){
        .head.boxes = &box->ns->base,
        .magic = NS_EXEC_MAGIC,
        .box = box,
        .id = ++box->ns->last_id,
        .tag = spec->tag,
        .fn = fn,
        .arg = arg,
    };
    bh_list_init(&exec->link);
    bh_list_append(&box->execs, &exec->link);
    bh_ns_watch_exec(exec);
    exec->refused = send_exec(exec, spec);
    if (exec->refused)
        drop_soon(box);
    return exec;
}

void bh_ns_kill(struct bh_exec *exec, int sig)
{
    BH_ASSERT(exec->magic == NS_EXEC_MAGIC);
    if (sig == SIGKILL && exec->box->shared)
        bh_ns_watch_killed(exec);
    struct bh_msg_ask msg = {.kind = BH_MSG_KILL, .signal = sig, .id = exec->id};
    if (exec->box->state == BOX_ALIVE)
        bh_ns_say(exec->box, &msg, sizeof(msg), NULL, 0);
    if (sig == SIGKILL)
        bh_ns_warm_expect(exec->box);
}

static struct ns_ask *new_ask(struct bh_box *box, enum bh_msg_kind answer, void *arg)
{
    struct ns_ask *ask = bh_alloc(sizeof(*ask));
    BH_ASSERT(box->magic == NS_BOX_MAGIC);
    *ask = (struct ns_ask){.id = ++box->ns->last_id, .answer = answer, .arg = arg};
    bh_list_init(&ask->link);
    bh_list_append(&box->asks, &ask->link);
    return ask;
}

void bh_ns_barrier(struct bh_box *box, bh_box_done_fn fn, void *arg)
{
    struct ns_ask *ask = new_ask(box, BH_MSG_QUIET, arg);
    struct bh_msg_ask msg = {.kind = BH_MSG_BARRIER, .id = ask->id};
    ask->done = fn;
    bh_ns_say(box, &msg, sizeof(msg), NULL, 0);
    bh_ns_warm_expect(box);
}

void bh_ns_open_output(struct bh_box *box, const char *root, const char *path, bh_box_opened_fn fn, void *arg)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    struct ns_ask *ask = new_ask(box, BH_MSG_OPENED, arg);
    struct bh_msg_ask msg = {.kind = BH_MSG_OPEN, .id = ask->id};
    ask->opened = fn;
    bh_ns_warm_expect(box);
    bh_buf_add(&out, &msg, sizeof(msg));
    bh_pack_str(&out, root);
    bh_pack_str(&out, path);
    bh_ns_say(box, out.data, out.len, NULL, 0);
}

void bh_ns_listen(struct bh_box *box, int port, bh_box_opened_fn fn, void *arg)
{
    struct ns_ask *ask = new_ask(box, BH_MSG_LISTENING, arg);
    struct bh_msg_ask msg = {.kind = BH_MSG_LISTEN, .signal = port, .id = ask->id};
    ask->opened = fn;
    bh_ns_say(box, &msg, sizeof(msg), NULL, 0);
    bh_ns_warm_expect(box);
}
