/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command in a box.
 *
 *     RUNS --ask_to_end--> TERM_SENT --on_deadline--> KILL_SENT
 *       \_____________________|__________________________/
 *                             on_exec_done: what lies in the pipes is read, the callback is called
 *
 * It ends in one way only, by the backend's answer: all processes of it are dead then.
 */
#include "workers/command.h"

#include <fcntl.h>
#include <signal.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/box_call.h"
#include "workers/deadline.h"

#define MAGIC 0x636d6e64u

struct bh_command {
    uint32_t magic;
    enum { RUNS, TERM_SENT, KILL_SENT } state;
    struct bh_box_call *call; /* NULL once it has ended */
    struct bh_pipes *pipes;
    int stdin_fd; /* a duplicate: the backend may look at it until it answers */
    struct bh_deadline *deadline;
    int64_t grace_ns;
    bool timed_out, stopped;
    void (*late)(void *arg);
    void *late_arg;
    void (*on_warm)(void *arg);
    bh_command_done_fn fn; /* NULL: its owner has freed it */
    void *arg;
};

static struct bh_command *check(void *arg)
{
    struct bh_command *c = arg;
    BH_ASSERT(c->magic == MAGIC);
    return c;
}

static void destroy(struct bh_command *c)
{
    bh_deadline_free(c->deadline);
    bh_pipes_free(c->pipes);
    bh_close(c->stdin_fd);
    c->magic = 0;
    bh_free(c);
}

static void send_kill(struct bh_command *c)
{
    c->state = KILL_SENT;
    bh_deadline_clear(c->deadline);
    bh_box_call_kill(c->call, SIGKILL);
}

static void ask_to_end(struct bh_command *c)
{
    if (c->state != RUNS)
        return;
    if (c->grace_ns <= 0) {
        send_kill(c);
        return;
    }
    c->state = TERM_SENT;
    bh_box_call_kill(c->call, SIGTERM);
    bh_deadline_set(c->deadline, c->grace_ns);
}

static void on_deadline(void *arg)
{
    struct bh_command *c = check(arg);
    if (c->state == RUNS) {
        c->timed_out = true;
        if (c->late && c->fn)
            c->late(c->late_arg);
        ask_to_end(c);
    } else {
        send_kill(c);
    }
}

static void on_warm(void *arg)
{
    struct bh_command *c = check(arg);
    if (!c->fn || c->state != RUNS)
        return; /* it is to end already */
    bh_deadline_clear(c->deadline);
    c->on_warm(c->arg);
}

void bh_command_give(struct bh_command *c, bh_command_done_fn fn, void *arg)
{
    c->fn = fn;
    c->arg = arg;
}

struct bh_exec *bh_command_server(const struct bh_command *c)
{
    return c->call ? bh_box_call_server(c->call) : NULL;
}

static void on_exec_done(void *arg, const struct bh_exec_result *result)
{
    struct bh_command *c = check(arg);
    c->call = NULL;
    if (!c->fn) {
        destroy(c);
        return;
    }
    bh_deadline_clear(c->deadline);
    bh_pipes_end(c->pipes);
    struct bh_command_end end = {
        .result = *result, .timed_out = c->timed_out, .stopped = c->stopped, .killed = c->state == KILL_SENT};
    c->fn(c->arg, &end);
}

int bh_command_start(const struct bh_command_spec *spec, bh_command_done_fn fn, void *arg, struct bh_command **ret,
                     struct bh_err **err)
{
    BH_CLEANUP_FD int stdin_fd = fcntl(spec->exec.stdin_fd, F_DUPFD_CLOEXEC, 0);
    if (stdin_fd < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot duplicate the standard input");
    struct bh_pipes *pipes = NULL;
    int rc = bh_pipes_new(spec->loop, spec->capture, &pipes, err);
    if (rc != 0)
        return rc;
    struct bh_command *c = bh_alloc(sizeof(*c));
    c->magic = MAGIC;
    c->pipes = pipes;
    c->stdin_fd = BH_TAKE_FD(stdin_fd);
    c->grace_ns = spec->grace_ns;
    c->late = spec->late;
    c->late_arg = spec->late_arg;
    c->fn = fn;
    c->arg = arg;
    c->deadline = bh_deadline_new(spec->loop, on_deadline, c);
    struct bh_exec_spec exec = spec->exec;
    exec.stdin_fd = c->stdin_fd;
    c->on_warm = spec->exec.on_warm;
    exec.on_warm = c->on_warm ? on_warm : NULL;
    exec.stdout_fd = bh_pipes_stdout(pipes);
    exec.stderr_fd = bh_pipes_stderr(pipes);
    c->call = bh_box_call_exec(spec->box, &exec, on_exec_done, c);
    bh_deadline_set(c->deadline, spec->timeout_ns);
    *ret = c;
    return 0;
}

void bh_command_stop(struct bh_command *c)
{
    if (!c->call || c->stopped)
        return;
    c->stopped = true;
    ask_to_end(c);
}

void bh_command_free(struct bh_command *c)
{
    if (!c)
        return;
    if (!c->call) {
        destroy(c);
        return;
    }
    c->fn = NULL;
    bh_deadline_free(BH_TAKE(c->deadline)); /* the loop may be gone before the answer comes */
    bh_pipes_abandon(c->pipes);
    if (c->state != KILL_SENT)
        bh_box_call_kill(c->call, SIGKILL);
}
