/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/shell/io.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "scheduler/shell/filter.h"

enum { CHUNK = 64 << 10, PENDING_MAX = 256 << 10 };

struct bh_shell_io;

/* From the command to one of our streams. */
struct outflow {
    struct bh_shell_io *io;
    int from, to;
    bool filtered;
    struct bh_shell_filter filter;
    struct event *event;
};

struct bh_shell_io {
    struct event_base *loop;
    bool terminal, changed; /* changed: ours is in raw mode */
    struct termios saved;
    int theirs[3], master; /* master: of the command's terminal */
    int input;             /* to the command: the master, or a pipe; -1: it has seen the end */
    struct event *readable, *writable, *resized;
    struct bh_buf pending; /* read from us, not yet taken by the command */
    bool input_over;
    struct outflow out[2];
    size_t n_out;
};

struct event_base *bh_shell_loop_new(void)
{
    struct event_config *config = event_config_new();
    if (!config)
        return NULL;
    (void)event_config_avoid_method(config, "epoll"); /* which cannot watch a regular file */
    struct event_base *loop = event_base_new_with_config(config);
    event_config_free(config);
    return loop;
}

bool bh_shell_io_is_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

/* --- from the command --- */

/* Whoever reads us has gone: the command goes on, as it would behind any pipe that nobody reads. */
static void write_out(struct outflow *o, const char *data, size_t len)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (!o->filtered) {
        (void)!bh_write_all(o->to, data, len);
        return;
    }
    bh_shell_filter(&o->filter, data, len, &text);
    (void)!bh_write_all(o->to, text.data, text.len);
}

/* 1: there may be more. 0: nothing now. -1: the end. */
static int carry_once(struct outflow *o)
{
    static char chunk[CHUNK];
    ssize_t n = read(o->from, chunk, sizeof(chunk));
    if (n > 0) {
        write_out(o, chunk, (size_t)n);
        return 1;
    }
    return n < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1; /* EIO: nobody has the terminal open */
}

static void stop_flow(struct outflow *o)
{
    if (o->event)
        event_free(BH_TAKE(o->event));
}

static void on_output(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct outflow *o = arg;
    if (carry_once(o) < 0)
        stop_flow(o);
}

static void add_flow(struct bh_shell_io *io, int from, int to, bool raw)
{
    struct outflow *o = &io->out[io->n_out++];
    *o = (struct outflow){.io = io, .from = from, .to = to, .filtered = !raw && isatty(to)};
    (void)bh_fd_set_nonblock(from, true);
}

/* --- to the command --- */

static void close_input(struct bh_shell_io *io)
{
    if (!io->terminal)
        bh_close(io->input);
    io->input = -1;
}

static void flush_input(struct bh_shell_io *io)
{
    while (io->input >= 0 && io->pending.len > 0) {
        ssize_t n = write(io->input, io->pending.data, io->pending.len);
        if (n > 0)
            bh_buf_consume(&io->pending, (size_t)n);
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            close_input(io);
    }
    if (io->input >= 0 && io->pending.len > 0)
        (void)event_add(io->writable, NULL);
    else if (io->input_over)
        close_input(io);
    if (io->readable && io->pending.len < PENDING_MAX && !io->input_over && io->input >= 0)
        (void)event_add(io->readable, NULL);
}

static void on_writable(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    flush_input(arg);
}

static void on_input(evutil_socket_t fd, short what BH_UNUSED, void *arg)
{
    static char chunk[CHUNK];
    struct bh_shell_io *io = arg;
    ssize_t n = read(fd, chunk, sizeof(chunk));
    if (n > 0)
        bh_buf_add(&io->pending, chunk, (size_t)n);
    else if (n == 0 || (errno != EAGAIN && errno != EINTR))
        io->input_over = true;
    flush_input(io);
}

/* --- terminals --- */

static void copy_size(const struct bh_shell_io *io)
{
    struct winsize size;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        (void)ioctl(io->master, TIOCSWINSZ, &size);
}

static void on_resized(evutil_socket_t number BH_UNUSED, short what BH_UNUSED, void *arg)
{
    copy_size(arg);
}

static int make_terminal(struct bh_shell_io *io)
{
    io->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (io->master < 0 || grantpt(io->master) < 0 || unlockpt(io->master) < 0)
        return -1;
    int slave = ioctl(io->master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -1;
    struct termios now;
    if (tcgetattr(STDIN_FILENO, &now) == 0)
        (void)tcsetattr(slave, TCSANOW, &now);
    copy_size(io);
    io->theirs[0] = slave;
    io->theirs[1] = io->theirs[2] = -1;
    io->input = io->master;
    return 0;
}

static void own_terminal_raw(struct bh_shell_io *io)
{
    if (tcgetattr(STDIN_FILENO, &io->saved) < 0)
        return;
    struct termios raw = io->saved;
    cfmakeraw(&raw);
    io->changed = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

static void own_terminal_back(struct bh_shell_io *io)
{
    if (io->changed)
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &io->saved);
    io->changed = false;
}

/* --- life --- */

static int make_pipes(struct bh_shell_io *io, int ours[3])
{
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
            return -1;
        io->theirs[i] = ends[i == 0 ? 0 : 1];
        ours[i] = ends[i == 0 ? 1 : 0];
    }
    return 0;
}

static int make_ends(struct bh_shell_io *io, const struct bh_shell_io_spec *spec)
{
    int ours[3] = {-1, -1, -1};
    if (spec->terminal) {
        if (make_terminal(io) < 0)
            return -1;
        add_flow(io, io->master, STDOUT_FILENO, spec->raw);
        return 0;
    }
    int rc = make_pipes(io, ours);
    io->input = ours[0];
    for (int i = 1; i < 3 && ours[i] >= 0; i++)
        add_flow(io, ours[i], i == 1 ? STDOUT_FILENO : STDERR_FILENO, spec->raw);
    return rc;
}

int bh_shell_io_new(const struct bh_shell_io_spec *spec, struct bh_shell_io **ret, struct bh_err **err)
{
    struct bh_shell_io *io = bh_alloc(sizeof(*io));
    *io = (struct bh_shell_io){
        .loop = spec->loop, .terminal = spec->terminal, .theirs = {-1, -1, -1}, .master = -1, .input = -1};
    bh_buf_init(&io->pending);
    if (make_ends(io, spec) < 0) {
        int rc = bh_err_set(err, BH_E_HOST, errno, "cannot make %s", spec->terminal ? "a terminal" : "pipes");
        bh_shell_io_free(io);
        return rc;
    }
    (void)bh_fd_set_nonblock(io->input, true);
    *ret = io;
    return 0;
}

int bh_shell_io_fd(const struct bh_shell_io *io, int stream)
{
    return io->terminal ? io->theirs[0] : io->theirs[stream];
}

static void close_theirs(struct bh_shell_io *io)
{
    for (int i = 0; i < 3; i++)
        bh_close(BH_TAKE_FD(io->theirs[i]));
}

void bh_shell_io_start(struct bh_shell_io *io)
{
    if (!io->terminal) /* the slave stays open: a terminal that nobody has open would tell its end too early */
        close_theirs(io);
    for (size_t i = 0; i < io->n_out; i++) {
        struct outflow *o = &io->out[i];
        o->event = event_new(io->loop, o->from, EV_READ | EV_PERSIST, on_output, o);
        BH_ASSERT(o->event && event_add(o->event, NULL) == 0);
    }
    io->writable = event_new(io->loop, io->input, EV_WRITE, on_writable, io);
    io->readable = event_new(io->loop, STDIN_FILENO, EV_READ, on_input, io);
    BH_ASSERT(io->writable && io->readable);
    if (event_add(io->readable, NULL) < 0) { /* no standard input at all */
        io->input_over = true;
        flush_input(io);
    }
    if (!io->terminal)
        return;
    io->resized = evsignal_new(io->loop, SIGWINCH, on_resized, io);
    if (io->resized)
        (void)event_add(io->resized, NULL);
    own_terminal_raw(io);
}

void bh_shell_io_end(struct bh_shell_io *io)
{
    close_theirs(io);
    for (size_t i = 0; i < io->n_out; i++) {
        struct outflow *o = &io->out[i];
        BH_CLEANUP_BUF struct bh_buf rest = BH_BUF_INIT;
        stop_flow(o);
        while (carry_once(o) > 0)
            ;
        bh_shell_filter_end(&o->filter, &rest);
        (void)!bh_write_all(o->to, rest.data, rest.len);
    }
    own_terminal_back(io);
}

void bh_shell_io_free(struct bh_shell_io *io)
{
    struct event **events[] = {&io->readable, &io->writable, &io->resized};
    if (!io)
        return;
    own_terminal_back(io);
    for (size_t i = 0; i < BH_ARRAY_LEN(events); i++) {
        if (*events[i])
            event_free(*events[i]);
    }
    for (size_t i = 0; i < io->n_out; i++) {
        stop_flow(&io->out[i]);
        if (io->out[i].from != io->master)
            bh_close(io->out[i].from);
    }
    close_input(io);
    close_theirs(io);
    bh_close(io->master);
    bh_buf_fini(&io->pending);
    bh_free(io);
}
