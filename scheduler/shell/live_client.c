/* SPDX-License-Identifier: Apache-2.0 */
/* The asking side: our streams, carried to and from the command by io.c, and one connection to the run's owner. */
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/shell/io.h"
#include "scheduler/shell/live.h"
#include "scheduler/shell/wire_priv.h"
#include "workers/box/proto.h"

enum { N_SIGNALS = 3 };

struct client {
    const struct bh_shell_live *what;
    struct event_base *loop;
    int sock;
    struct bh_shell_io *io;
    struct event *answer, *signals[N_SIGNALS];
    bool started, over, told;
    struct bh_shell_msg last;
};

/* The path of a socket is short, that of a state directory may not be. */
static int reach(const struct bh_shell_live *what, int *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *rel = bh_path_join("runs", what->run);
    BH_CLEANUP_FD int dir = bh_home_open_folder(what->home, rel);
    BH_CLEANUP_FD int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "/proc/self/fd/%d/" BH_SHELL_SOCKET, dir);
    if (dir >= 0 && sock >= 0 && connect(sock, (const struct sockaddr *)&name, sizeof(name)) == 0) {
        *ret = BH_TAKE_FD(sock);
        return 0;
    }
    int rc = bh_err_set(err, BH_E_UNREACHABLE, errno, "the process that owns run '%s' cannot be reached", what->run);
    bh_err_hint(err, "try again, or when the agent has ended: a box that was kept can be entered then");
    return rc;
}

static int ask(struct client *c, bool terminal, struct bh_err **err)
{
    const char *const *argv = c->what->argv ? c->what->argv : bh_shell_argv, *term = getenv("TERM");
    const int fds[] = {bh_shell_io_fd(c->io, 0), bh_shell_io_fd(c->io, 1), bh_shell_io_fd(c->io, 2)};
    struct bh_shell_msg msg = {.kind = BH_SHELL_ASK, .version = BH_SHELL_VERSION, .terminal = terminal};
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    msg.attempt = c->what->attempt;
    while (argv[msg.argc])
        msg.argc++;
    bh_buf_add(&out, &msg, sizeof(msg));
    bh_pack_str(&out, c->what->agent);
    bh_pack_str(&out, !terminal ? "" : c->what->raw && term && *term ? term : "dumb");
    for (uint32_t i = 0; i < msg.argc; i++)
        bh_pack_str(&out, argv[i]);
    if (out.len > BH_PROTO_MAX)
        return bh_err_set(err, BH_E_USAGE, 0, "the command is too long");
    if (bh_msg_send(c->sock, out.data, out.len, fds, BH_ARRAY_LEN(fds)) < 0)
        return bh_err_set(err, BH_E_UNREACHABLE, errno, "cannot speak to the process that owns run '%s'", c->what->run);
    return 0;
}

static void on_answer(evutil_socket_t sock, short what BH_UNUSED, void *arg)
{
    struct client *c = arg;
    struct bh_shell_msg msg = {0};
    int fds[BH_MSG_MAX_FDS];
    size_t nfds = 0;
    ssize_t n = bh_msg_recv(sock, &msg, sizeof(msg), fds, &nfds);
    for (size_t i = 0; n > 0 && i < nfds; i++)
        bh_close(fds[i]);
    if (n < 0 && errno == EAGAIN)
        return;
    msg.why[sizeof(msg.why) - 1] = '\0';
    if (n == (ssize_t)sizeof(msg) && msg.kind == BH_SHELL_STARTED) {
        c->started = true;
        if (c->what->entered)
            c->what->entered(c->what->arg, msg.value, msg.why);
        return;
    }
    c->over = n == (ssize_t)sizeof(msg);
    c->last = msg;
    (void)event_base_loopbreak(c->loop);
}

static void on_signal(evutil_socket_t number, short what BH_UNUSED, void *arg)
{
    struct client *c = arg;
    if (number != SIGINT || c->told) { /* for us; and it ends when we let go of it */
        c->last = (struct bh_shell_msg){.kind = BH_SHELL_ENDED, .value = 128 + (int32_t)number};
        c->over = true;
        (void)event_base_loopbreak(c->loop);
        return;
    }
    c->told = true;
    const struct bh_shell_msg msg = {.kind = BH_SHELL_SIGNAL, .version = BH_SHELL_VERSION, .value = (int32_t)number};
    (void)!bh_msg_send(c->sock, &msg, sizeof(msg), NULL, 0);
}

static int watch(struct client *c, struct bh_err **err)
{
    static const int numbers[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    c->answer = event_new(c->loop, c->sock, EV_READ | EV_PERSIST, on_answer, c);
    if (!c->answer || event_add(c->answer, NULL) != 0)
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot watch a socket");
    for (size_t i = 0; i < N_SIGNALS; i++) {
        c->signals[i] = evsignal_new(c->loop, numbers[i], on_signal, c);
        if (c->signals[i])
            (void)event_add(c->signals[i], NULL);
    }
    return 0;
}

static int judge(const struct client *c, struct bh_shell_end *ret, struct bh_err **err)
{
    if (!c->over)
        return bh_err_set(err, BH_E_UNREACHABLE, 0, "the process that owns run '%s' has gone", c->what->run);
    if (c->last.kind == BH_SHELL_REFUSED) {
        int rc = bh_err_set(err, (enum bh_code)c->last.value, 0, "%s", c->last.why);
        if (c->last.value == BH_E_BUSY)
            bh_err_hint(err,
                        "wait until it has ended and enter the box of an attempt; 'bulkhead logs %s -f' follows it",
                        c->what->run);
        else
            bh_err_hint(err, "'bulkhead show %s' says who is in a box now", c->what->run);
        return rc;
    }
    ret->status = c->last.value;
    (void)snprintf(ret->why, sizeof(ret->why), "%s", c->last.why);
    return 0;
}

static void fini(struct client *c)
{
    bh_shell_io_free(c->io);
    if (c->answer)
        event_free(c->answer);
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (c->signals[i])
            event_free(c->signals[i]);
    }
    if (c->loop)
        event_base_free(c->loop);
    bh_close(c->sock);
}

static int converse(struct client *c, struct bh_shell_end *ret, struct bh_err **err)
{
    const struct bh_shell_io_spec spec = {.loop = c->loop, .terminal = bh_shell_io_is_terminal(), .raw = c->what->raw};
    int rc = bh_shell_io_new(&spec, &c->io, err);
    if (rc == 0)
        rc = ask(c, spec.terminal, err);
    if (rc == 0)
        rc = watch(c, err);
    if (rc != 0)
        return rc;
    bh_shell_io_start(c->io);
    (void)event_base_dispatch(c->loop);
    bh_shell_io_end(c->io);
    return judge(c, ret, err);
}

int bh_shell_live(const struct bh_shell_live *what, struct bh_shell_end *ret, struct bh_err **err)
{
    struct client c = {.what = what, .sock = -1};
    *ret = (struct bh_shell_end){0};
    int rc = reach(what, &c.sock, err);
    if (rc != 0)
        return rc;
    c.loop = bh_shell_loop_new();
    rc = c.loop ? converse(&c, ret, err) : bh_err_set(err, BH_E_INTERNAL, 0, "cannot make an event loop");
    fini(&c);
    return rc;
}
