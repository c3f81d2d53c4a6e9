/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answering side, on the loop of the run's owner. One connection is one command; its end is the command's. It asks
 * the worker, knows nothing of boxes, and must never hold the run up: nothing here blocks.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "artifact-bus/lease.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/val.h"
#include "policies/audit.h"
#include "scheduler/shell/live.h"
#include "scheduler/shell/wire_priv.h"
#include "workers/box/box.h"
#include "workers/box/proto.h"
#include "workers/box_call.h"
#include "workers/worker.h"

enum { ARGC_MAX = 1024, SESSIONS_MAX = 64 };

struct bh_shell_server {
    struct event_base *loop;
    struct bh_worker *worker;
    const struct bh_home *home;
    char *run;
    int dir, sock;
    struct event *accept;
    struct bh_list sessions;
    size_t n_sessions;
};

struct session {
    struct bh_list link;
    struct bh_shell_server *server;
    int sock;
    struct ucred peer;
    struct event *event;
    struct bh_box_call *call;
    char *agent, *program, *instance, *box;
    int attempt;
};

/* --- notes --- */

/* What cannot be noted must not happen: -1 with errno. */
static int note(const struct session *s, const char *what, const char *const *argv, const struct bh_shell_end *end)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf line = BH_BUF_INIT;
    char time[BH_WALL_TEXT];
    bh_val_set_str(v, "time", bh_wall_format(bh_wall_now(), time));
    bh_val_set_str(v, "event", what);
    bh_val_set_str(v, "agent", s->agent);
    bh_val_set_int(v, "attempt", s->attempt);
    bh_val_set_str(v, "instance", s->instance);
    bh_val_set_str(v, "box", s->box);
    bh_val_set_int(v, "uid", (int64_t)s->peer.uid);
    bh_val_set_int(v, "pid", (int64_t)s->peer.pid);
    struct bh_val *list = argv ? bh_val_set(v, "command", bh_val_list()) : NULL;
    for (size_t i = 0; argv && argv[i]; i++)
        bh_val_add(list, bh_val_str(argv[i]));
    if (end)
        bh_val_set_int(v, "status", end->status);
    bh_json_format(v, &line);
    bh_buf_addc(&line, '\n');
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
    BH_CLEANUP_FD int fd = openat(s->server->dir, BH_SHELL_NOTES, flags, 0600);
    return fd >= 0 ? bh_write_all(fd, line.data, line.len) : -1;
}

static int audit(const struct session *s, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
    bh_val_set_str(fields, "what", "shell");
    bh_val_set_str(fields, "run", s->server->run);
    bh_val_set_str(fields, "agent", s->agent);
    bh_val_set_int(fields, "attempt", s->attempt);
    bh_val_set_str(fields, "instance", s->instance);
    bh_val_set_str(fields, "box", s->box);
    bh_val_set_str(fields, "program", s->program);
    bh_val_set_int(fields, "uid", (int64_t)s->peer.uid);
    return bh_audit_add(s->server->home, BH_AUDIT_OVERRIDE, fields, err);
}

/* --- one command --- */

static void free_session(struct session *s)
{
    bh_list_remove(&s->link);
    s->server->n_sessions--;
    event_free(s->event);
    bh_close(s->sock);
    bh_free(s->agent);
    bh_free(s->program);
    bh_free(s->instance);
    bh_free(s->box);
    bh_free(s);
}

static void say(const struct session *s, enum bh_shell_kind kind, int value, const char *why)
{
    struct bh_shell_msg msg = {.kind = kind, .version = BH_SHELL_VERSION, .value = value};
    (void)snprintf(msg.why, sizeof(msg.why), "%s", why);
    (void)!bh_msg_send(s->sock, &msg, sizeof(msg), NULL, 0);
}

static void on_done(void *arg, const struct bh_exec_result *result)
{
    struct session *s = arg;
    struct bh_shell_end end;
    s->call = NULL;
    bh_shell_end_of(result, s->program, &end);
    (void)!note(s, "ended", NULL, &end);
    say(s, BH_SHELL_ENDED, end.status, end.why);
    free_session(s);
}

struct request {
    const struct bh_shell_msg *msg;
    const char *agent, *term, *argv[ARGC_MAX + 1];
};

static bool parse(const void *data, size_t len, struct request *ret)
{
    const struct bh_shell_msg *msg = data;
    const char *text = data;
    if (len < sizeof(*msg) || msg->kind != BH_SHELL_ASK || msg->version != BH_SHELL_VERSION || msg->argc == 0 ||
        msg->argc > ARGC_MAX)
        return false;
    struct bh_unpack u = {text + sizeof(*msg), text + len};
    *ret = (struct request){.msg = msg, .agent = bh_unpack_str(&u), .term = bh_unpack_str(&u)};
    for (uint32_t i = 0; i < msg->argc; i++)
        ret->argv[i] = bh_unpack_str(&u);
    return bh_unpack_done(&u);
}

static bool refuse(const struct session *s, enum bh_code code, const char *fmt, const char *arg)
{
    char why[BH_SHELL_WHY];
    (void)snprintf(why, sizeof(why), fmt, arg);
    say(s, BH_SHELL_REFUSED, (int)code, why);
    return false;
}

/* Whose box it will be; false: refused. */
static bool find(struct session *s, const struct request *r)
{
    const struct bh_lease *lease = bh_worker_whom(s->server->worker, r->agent, (int)r->msg->attempt);
    if (!lease)
        return refuse(s, BH_E_NOT_FOUND, "agent '%s' is in no box at this moment", r->agent);
    if (lease->kind != BH_LEASE_RUN)
        return refuse(s, BH_E_BUSY, "the box in use is that of a %s, whose state attempts and later runs start from",
                      lease->kind == BH_LEASE_SETUP ? "setup" : "preparation");
    s->agent = bh_strdup(r->agent);
    s->program = bh_strdup(r->argv[0]);
    s->instance = bh_strdup(lease->instance.s);
    s->box = bh_strdup(lease->box.id);
    s->attempt = lease->attempt;
    return true;
}

/* False: the session is over. */
static bool start(struct session *s, const void *data, size_t len, const int *fds, size_t nfds)
{
    struct request r;
    if (s->call || !parse(data, len, &r) || nfds != 3)
        return refuse(s, BH_E_PROTOCOL, "the process that owns the run is another version of bulkhead%s", "");
    if (!find(s, &r))
        return false;
    if (note(s, "started", r.argv, NULL) < 0)
        return refuse(s, BH_E_IO, "it cannot be noted who asks: %s", strerror(errno));
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (audit(s, &err) != 0)
        return refuse(s, BH_E_IO, "%s", bh_err_message(err));
    BH_CLEANUP_FREE char *term = *r.term ? bh_asprintf("TERM=%s", r.term) : NULL;
    const struct bh_worker_visit visit = {
        .agent = r.agent,
        .attempt = s->attempt,
        .argv = r.argv,
        .more_env = term,
        .terminal = r.msg->terminal != 0,
        .stdio = {fds[0], fds[1], fds[2]},
    };
    s->call = bh_worker_visit(s->server->worker, &visit, on_done, s);
    if (!s->call)
        return refuse(s, BH_E_NOT_FOUND, "agent '%s' is in no box at this moment", r.agent);
    say(s, BH_SHELL_STARTED, s->attempt, s->box);
    return true;
}

static void pass_on(const struct session *s, const struct bh_shell_msg *msg, size_t len)
{
    static const int allowed[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    for (size_t i = 0; s->call && len == sizeof(*msg) && i < BH_ARRAY_LEN(allowed); i++) {
        if (msg->value == allowed[i])
            bh_box_call_kill(s->call, allowed[i]);
    }
}

static void on_message(evutil_socket_t sock, short what BH_UNUSED, void *arg)
{
    static char msg[BH_PROTO_MAX] __attribute__((aligned(8)));
    struct session *s = arg;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    ssize_t n = bh_msg_recv(sock, msg, sizeof(msg), fds, &nfds);
    if (n < 0 && errno == EAGAIN)
        return;
    bool more = n > 0;
    const struct bh_shell_msg *head = (const void *)msg;
    if (more && (size_t)n >= sizeof(*head) && head->kind == BH_SHELL_SIGNAL)
        pass_on(s, head, (size_t)n);
    else if (more)
        more = start(s, msg, (size_t)n, fds, nfds);
    for (size_t i = 0; n > 0 && i < nfds; i++)
        bh_close(fds[i]);
    if (more)
        return;
    if (s->call) { /* whoever asked has gone; its end is waited for */
        (void)event_del(s->event);
        bh_box_call_kill(s->call, SIGKILL);
    } else {
        free_session(s);
    }
}

/* --- who asks --- */

static bool is_us(int sock, struct ucred *ret)
{
    socklen_t len = sizeof(*ret);
    return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, ret, &len) == 0 && (ret->uid == geteuid() || ret->uid == 0);
}

static void on_accept(evutil_socket_t listener, short what BH_UNUSED, void *arg)
{
    struct bh_shell_server *server = arg;
    struct ucred peer;
    BH_CLEANUP_FD int sock = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock < 0 || server->n_sessions >= SESSIONS_MAX || !is_us(sock, &peer))
        return;
    struct session *s = bh_alloc(sizeof(*s));
    *s = (struct session){.server = server, .sock = BH_TAKE_FD(sock), .peer = peer};
    s->event = event_new(server->loop, s->sock, EV_READ | EV_PERSIST, on_message, s);
    BH_ASSERT(s->event && event_add(s->event, NULL) == 0);
    bh_list_append(&server->sessions, &s->link);
    server->n_sessions++;
}

static int listen_at(int dir, int *ret_sock)
{
    BH_CLEANUP_FD int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/" BH_SHELL_SOCKET, dir);
    (void)unlinkat(dir, BH_SHELL_SOCKET, 0);
    if (sock < 0 || bind(sock, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
        fchmodat(dir, BH_SHELL_SOCKET, 0600, 0) < 0 || listen(sock, 8) < 0)
        return -1;
    *ret_sock = BH_TAKE_FD(sock);
    return 0;
}

int bh_shell_server_new(struct event_base *loop, const struct bh_home *home, const char *run, struct bh_worker *worker,
                        struct bh_shell_server **ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *rel = bh_asprintf("runs/%s", run);
    struct bh_shell_server *s = bh_alloc(sizeof(*s));
    *s = (struct bh_shell_server){.loop = loop, .worker = worker, .home = home, .run = bh_strdup(run), .sock = -1};
    bh_list_init(&s->sessions);
    s->dir = bh_home_open_folder(home, rel);
    if (s->dir < 0 || listen_at(s->dir, &s->sock) < 0) {
        int rc = bh_err_set(err, BH_E_HOST, errno, "cannot listen for shells in '%s/%s'", home->path, rel);
        bh_shell_server_free(s);
        return rc;
    }
    s->accept = event_new(loop, s->sock, EV_READ | EV_PERSIST, on_accept, s);
    BH_ASSERT(s->accept && event_add(s->accept, NULL) == 0);
    *ret = s;
    return 0;
}

void bh_shell_server_free(struct bh_shell_server *s)
{
    if (!s)
        return;
    if (s->accept)
        event_free(s->accept);
    if (s->sock >= 0)
        (void)unlinkat(s->dir, BH_SHELL_SOCKET, 0);
    bh_close(s->sock);
    BH_LIST_FOREACH (it, tmp, &s->sessions) {
        struct session *one = BH_CONTAINER(it, struct session, link);
        if (one->call)
            bh_box_call_kill(one->call, SIGKILL);
        bh_box_call_forget(BH_TAKE(one->call));
        free_session(one);
    }
    bh_close(s->dir);
    bh_free(s->run);
    bh_free(s);
}
