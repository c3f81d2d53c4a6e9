/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/boxes/kit.h"

#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/units.h"

#define PATIENCE_S 30

static const char *const plain_env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", NULL};

struct kit kit;

static void die(const char *what)
{
    fprintf(stderr, "kit: %s\n", what);
    abort();
}

int kit_reopen(struct kit *k, struct bh_err **err)
{
    int sock;
    const char *bin = getenv("BH_BIN");
    if (bin)
        (void)setenv("BULKHEAD_LIBEXEC", bin, 0);
    int rc = bh_launcher_start(k->home, -1, &sock, &k->launcher, err);
    if (rc != 0)
        return rc;
    if (!k->loop)
        k->loop = event_base_new();
    return bh_boxes_ns_new(k->loop, sock, k->home, &k->boxes, err);
}

int kit_open(struct kit *k, const char *dir, struct bh_err **err)
{
    *k = (struct kit){.home = bh_asprintf("%s/home", dir)};
    k->run_dir = bh_asprintf("%s/runs/r1", k->home);
    int rc = bh_mkdir_p(k->run_dir, 0700, err);
    return rc == 0 ? kit_reopen(k, err) : rc;
}

void kit_close(struct kit *k)
{
    if (!k->boxes)
        return;
    k->boxes->ops->close(k->boxes);
    k->boxes = NULL;
    if (waitpid((pid_t)k->launcher, NULL, 0) != (pid_t)k->launcher)
        die("the launcher is no child of ours");
}

void kit_fini(struct kit *k)
{
    kit_close(k);
    if (k->loop)
        event_base_free(k->loop);
    bh_free(k->home);
    bh_free(k->run_dir);
}

static void too_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    die("nothing has happened for too long");
}

void kit_wait(struct kit *k, const bool *flag)
{
    struct event *timer = evtimer_new(k->loop, too_late, NULL);
    const struct timeval patience = {k->patience_s ? k->patience_s : PATIENCE_S, 0};
    evtimer_add(timer, &patience);
    while (!*flag)
        (void)event_base_loop(k->loop, EVLOOP_ONCE);
    event_free(timer);
}

void kit_turn(struct kit *k)
{
    struct event *timer = evtimer_new(k->loop, too_late, NULL);
    const struct timeval patience = {k->patience_s ? k->patience_s : PATIENCE_S, 0};
    evtimer_add(timer, &patience);
    (void)event_base_loop(k->loop, EVLOOP_ONCE);
    event_free(timer);
}

static void on_created(void *arg, struct bh_box *box, int code, const struct bh_err *err)
{
    struct kit_box *b = arg;
    b->box = box;
    b->code = code;
    b->created = true;
    b->message = err ? bh_strdup(bh_err_message(err)) : NULL;
}

static void on_lost(void *arg)
{
    struct kit_box *b = arg;
    b->lost = true;
    b->lost_calls++;
}

int kit_create(struct kit *k, struct kit_box *b, const struct kit_how *how)
{
    *b = (struct kit_box){.kit = k, .key = bh_asprintf("k%u", ++k->serial)};
    struct bh_box_spec spec = {.run_dir = k->run_dir, .key = b->key};
    if (how) {
        spec.writable_usr = how->writable_usr;
        spec.shared = how->shared;
        spec.disposable = how->disposable;
        spec.best_effort = how->best_effort;
        spec.warm = how->warm;
        spec.host_network = how->host_network;
        spec.beneath = how->beneath;
        spec.limits = how->limits;
        spec.layers = &how->layer;
        spec.n_layers = how->layer ? 1 : 0;
        spec.base_layers = how->base;
        spec.n_base_layers = how->n_base;
    }
    k->boxes->ops->create(k->boxes, &spec, on_created, b, on_lost);
    if (b->created)
        die("answered from inside the call");
    kit_wait(k, &b->created);
    return b->code;
}

static void on_done(void *arg, int code, const struct bh_err *err)
{
    struct kit_box *b = arg;
    bh_free(b->message);
    b->message = err ? bh_strdup(bh_err_message(err)) : NULL;
    b->code = code;
    b->done = true;
}

void kit_forget(struct kit_box *b)
{
    bh_free(BH_TAKE(b->key));
    bh_free(BH_TAKE(b->message));
}

static void end_box(struct kit_box *b)
{
    kit_wait(b->kit, &b->done);
    kit_forget(b);
}

int kit_destroy(struct kit_box *b, bool keep)
{
    b->done = false;
    b->kit->boxes->ops->destroy(b->box, keep, on_done, b);
    end_box(b);
    return b->code;
}

int kit_freeze(struct kit_box *b, const char *layer)
{
    b->done = false;
    b->kit->boxes->ops->freeze(b->box, layer, on_done, b);
    kit_wait(b->kit, &b->done);
    if (b->message)
        fprintf(stderr, "freeze: %s\n", b->message);
    end_box(b);
    return b->code;
}

int kit_barrier(struct kit_box *b)
{
    b->done = false;
    b->kit->boxes->ops->barrier(b->box, on_done, b);
    kit_wait(b->kit, &b->done);
    return b->code;
}

struct opened {
    bool done;
    int fd, error;
};

static void on_opened(void *arg, int fd, int error)
{
    struct opened *o = arg;
    *o = (struct opened){true, fd, error};
}

int kit_open_output(struct kit_box *b, const char *root, const char *path, int *ret_errno)
{
    struct opened o = {0};
    b->kit->boxes->ops->open_output(b->box, root, path, on_opened, &o);
    kit_wait(b->kit, &o.done);
    *ret_errno = o.error;
    return o.fd;
}

int kit_listen(struct kit_box *b, int port, int *ret_errno)
{
    struct opened o = {0};
    b->kit->boxes->ops->listen(b->box, port, on_opened, &o);
    kit_wait(b->kit, &o.done);
    *ret_errno = o.error;
    return o.fd;
}

static void on_exec(void *arg, const struct bh_exec_result *result)
{
    struct kit_exec *e = arg;
    e->result = *result;
    (void)snprintf(e->step, sizeof(e->step), "%s", result->step ? result->step : "");
    e->result.step = e->step;
    e->done = true;
    e->calls++;
}

static void make_pipe(int *ret_read, int *ret_write)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        die("pipe");
    *ret_read = fds[0];
    *ret_write = fds[1];
}

void kit_start(struct kit_box *b, struct kit_exec *e)
{
    int out = -1, err = -1;
    BH_CLEANUP_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    bh_buf_init(&e->out);
    bh_buf_init(&e->err);
    make_pipe(&e->out_fd, &out);
    make_pipe(&e->err_fd, &err);
    struct bh_exec_spec spec = e->spec;
    spec.stdin_fd = spec.stdin_fd ? spec.stdin_fd : null;
    spec.stdout_fd = spec.stdout_fd ? spec.stdout_fd : out;
    spec.stderr_fd = spec.stderr_fd ? spec.stderr_fd : err;
    spec.env = spec.env ? spec.env : plain_env;
    spec.cwd = spec.cwd ? spec.cwd : "/workspace";
    e->exec = b->kit->boxes->ops->exec(b->box, &spec, on_exec, e);
    bh_close(out);
    bh_close(err);
}

static void drain(int fd, struct bh_buf *into)
{
    char bytes[65536];
    ssize_t n;
    (void)bh_fd_set_nonblock(fd, true);
    while ((n = read(fd, bytes, sizeof(bytes))) > 0)
        bh_buf_add(into, bytes, (size_t)n);
}

static void on_output(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    drain(fd, arg);
}

void kit_finish(struct kit_box *b, struct kit_exec *e)
{
    struct event *out = event_new(b->kit->loop, e->out_fd, EV_READ | EV_PERSIST, on_output, &e->out);
    struct event *err = event_new(b->kit->loop, e->err_fd, EV_READ | EV_PERSIST, on_output, &e->err);
    (void)bh_fd_set_nonblock(e->out_fd, true);
    (void)bh_fd_set_nonblock(e->err_fd, true);
    event_add(out, NULL);
    event_add(err, NULL);
    kit_wait(b->kit, &e->done); /* a stream at its end keeps the loop busy until then, which is soon */
    event_free(out);
    event_free(err);
    drain(e->out_fd, &e->out);
    drain(e->err_fd, &e->err);
    bh_close(e->out_fd);
    bh_close(e->err_fd);
}

void kit_drain(struct kit *k, struct kit_exec *e)
{
    const struct timeval soon = {0, 1000};
    (void)event_base_loopexit(k->loop, &soon);
    (void)event_base_loop(k->loop, EVLOOP_ONCE);
    drain(e->out_fd, &e->out);
}

void kit_exec_fini(struct kit_exec *e)
{
    bh_buf_fini(&e->out);
    bh_buf_fini(&e->err);
}

void kit_sh_with(struct kit_box *b, struct kit_exec *e, const char *text)
{
    const char *argv[] = {"/bin/sh", "-c", text, NULL};
    e->spec.argv = argv;
    kit_start(b, e);
    kit_finish(b, e);
    e->spec.argv = NULL;
}

void kit_sh(struct kit_box *b, struct kit_exec *e, const char *text)
{
    *e = (struct kit_exec){0};
    kit_sh_with(b, e, text);
}

char *kit_path(struct kit_box *b, const char *name)
{
    return bh_asprintf("%s/boxes/%s/%s", b->kit->run_dir, b->key, name);
}

int64_t kit_init_pid(struct kit_box *b)
{
    BH_CLEANUP_FREE char *path = kit_path(b, "pid");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int64_t pid;
    if (bh_read_file(path, 64, &text, NULL) != 0)
        die("no pid file");
    text.data[strcspn(text.data, " ")] = '\0';
    if (bh_parse_int(text.data, &pid) != 0)
        die("a bad pid file");
    return pid;
}

void kit_deliver(struct kit_box *b, const char *name, const char *content)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/boxes/%s/deliver/%s", b->kit->run_dir, b->key, name);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(path);
    if (bh_mkdir_p(dir, 0755, NULL) != 0)
        die("deliver");
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (fd < 0 || bh_write_all(fd, content, strlen(content)) < 0)
        die("deliver");
}

static char *kit_dir;

int kit_begin(void)
{
    struct bh_err *err = NULL;
    const char *base = getenv("TMPDIR"), *must = getenv("BH_MUST_RUN");
    kit_dir = bh_asprintf("%s/bh-kit-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(kit_dir))
        die("mkdtemp");
    if (kit_open(&kit, kit_dir, &err) == 0)
        return 0;
    struct bh_buf text = BH_BUF_INIT;
    bh_err_format(err, &text);
    printf("SKIP boxes: %s", text.data);
    bh_buf_fini(&text);
    bh_err_free(err);
    return must && (strstr(must, "boxes") || strstr(must, "all")) ? 1 : 77;
}

void kit_end(void)
{
    kit_fini(&kit);
    (void)bh_rmtree_at(AT_FDCWD, kit_dir);
    bh_free(BH_TAKE(kit_dir));
}
