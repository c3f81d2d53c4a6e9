/* SPDX-License-Identifier: Apache-2.0 */
/* The order matters: the folder and its lock, the launcher (before any thread), the box, the command; and back. */
#include "scheduler/shell/fork.h"

#include <dirent.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/dispatch/lease_make.h"
#include "scheduler/shell/io.h"
#include "workers/box/box.h"
#include "workers/box_call.h"
#include "workers/deliver.h"
#include "workers/exec_env.h"
#include "workers/lease_limits.h"

#define KEY "box"
enum { N_SIGNALS = 3 };

const char *const bh_shell_argv[] = {
    "/bin/sh", "-c", "if command -v bash > /dev/null 2>&1; then exec bash; else exec /bin/sh; fi", NULL};

struct fork {
    const struct bh_shell_fork *what;
    struct bh_arena *arena;
    char *folder; /* below home */
    char *dir;    /* absolute */
    int lock, run_lock, launcher;
    struct event_base *loop;
    struct bh_boxes *boxes;
    struct bh_lease lease;
    struct bh_run_files *files;
    struct bh_delivery delivery;
    struct bh_box_handle *box;
    struct bh_box_call *call;
    struct bh_shell_io *io;
    struct event *signals[N_SIGNALS];
    bool told;    /* a signal has been passed on */
    int ended_by; /* the signal that ended it all, 0: none */
    const char *const *argv;
    struct bh_shell_end end;
    struct bh_err *failed;
    int rc;
};

/* --- the folder --- */

static int open_shells(const struct bh_home *home, struct bh_err **err)
{
    if (bh_mkdirat_p(home->dirfd, BH_SHELLS, 0700) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s/" BH_SHELLS "'", home->path);
    return 0;
}

static int make_folder(struct fork *f, struct bh_err **err)
{
    const struct bh_home *home = f->what->home;
    int rc = open_shells(home, err);
    if (rc != 0)
        return rc;
    struct bh_run_id id = bh_run_id_new();
    f->folder = bh_asprintf(BH_SHELLS "/%s", id.s);
    f->dir = bh_home_path(home, f->folder);
    BH_CLEANUP_FREE char *owner = bh_path_join(f->folder, "owner");
    if (bh_mkdirat_p(home->dirfd, f->folder, 0700) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s'", f->dir);
    f->lock = bh_open_beneath(home->dirfd, owner, O_RDWR | O_CREAT, 0600);
    if (f->lock < 0 || flock(f->lock, LOCK_EX | LOCK_NB) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot lock '%s'", f->dir);
    return 0;
}

/* Held shared; whoever removes the run asks for it alone. */
static int open_run_folder(const struct bh_home *home, const char *run)
{
    BH_CLEANUP_FREE char *rel = bh_path_join("runs", run);
    return bh_home_open_folder(home, rel);
}

static int hold_run(struct fork *f, struct bh_err **err)
{
    f->run_lock = open_run_folder(f->what->home, f->what->run);
    if (f->run_lock >= 0 && flock(f->run_lock, LOCK_SH | LOCK_NB) == 0)
        return 0;
    return bh_err_set(err, errno == EWOULDBLOCK ? BH_E_BUSY : BH_E_IO, errno, "cannot hold the run '%s'", f->what->run);
}

static void sweep_one(const struct bh_home *home, int shells, const char *name, const struct bh_reclaim *how)
{
    BH_CLEANUP_FREE char *owner = bh_asprintf("%s/owner", name);
    BH_CLEANUP_FREE char *dir = bh_asprintf("%s/" BH_SHELLS "/%s", home->path, name);
    const struct bh_reclaim quiet = {.dry_run = how->dry_run};
    BH_CLEANUP_FD int lock = bh_open_beneath(shells, owner, O_RDONLY, 0);
    if (lock < 0 ? errno != ENOENT : flock(lock, LOCK_EX | LOCK_NB) < 0)
        return;
    static const char *const none[1] = {NULL};
    (void)!bh_boxes_reclaim_how(dir, none, 0, &quiet, NULL); /* its processes first */
    (void)bh_reclaim_one(how, "shell", BH_SHELLS, shells, name);
}

/* One that has no lock yet is being made at this moment, by somebody who is quick; its name is a run's: a time. */
void bh_shells_sweep(const struct bh_home *home, const struct bh_reclaim *how)
{
    DIR *dir = bh_home_list(home, BH_SHELLS);
    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        BH_CLEANUP_FREE char *owner = bh_asprintf("%s/owner", e->d_name);
        if (bh_run_id_valid(e->d_name) && faccessat(dirfd(dir), owner, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            sweep_one(home, dirfd(dir), e->d_name, how);
    }
    (void)closedir(dir);
}

/* --- what the agent had --- */

static int find_node(const struct bh_live_run *run, const char *agent, size_t *ret, struct bh_err **err)
{
    const struct bh_plan *plan = bh_live_run_plan(run);
    for (size_t i = 0; i < plan->n_agents; i++) {
        if (bh_streq(plan->agents[i].name, agent)) {
            *ret = i;
            return 0;
        }
    }
    return bh_err_set(err, BH_E_NOT_FOUND, 0, "the plan of run '%s' has no agent '%s'", bh_live_run_id(run), agent);
}

static int make_lease(struct fork *f, struct bh_err **err)
{
    const struct bh_attempt_row *row = f->what->attempt;
    struct bh_live_run *run = NULL;
    struct bh_lease_order order = {.attempt = (int)row->attempt, .try_ = (int)row->try_, .box_key = KEY};
    (void)snprintf(order.instance.s, sizeof(order.instance.s), "%s", row->instance);
    int rc = bh_live_run_load(f->what->store, f->what->run, &run, err);
    if (rc == 0)
        rc = find_node(run, f->what->agent, &order.node, err);
    if (rc == 0)
        rc = bh_lease_make(run, &order, &f->lease, err);
    bh_live_run_free(run);
    f->lease.box.shared = false;
    return rc;
}

/* --- the command --- */

static void fail(struct fork *f, int rc, struct bh_err *err)
{
    f->rc = rc;
    if (f->failed)
        bh_err_free(err);
    else
        f->failed = err;
    (void)event_base_loopbreak(f->loop);
}

static struct bh_err *copy_of(const struct bh_err *err)
{
    struct bh_err *copy = NULL;
    (void)bh_err_set(&copy, bh_err_code(err), 0, "%s", bh_err_message(err));
    if (bh_err_get_detail(err))
        bh_err_detail(&copy, "%s", bh_err_get_detail(err));
    if (bh_err_get_hint(err))
        bh_err_hint(&copy, "%s", bh_err_get_hint(err));
    return copy;
}

void bh_shell_end_of(const struct bh_exec_result *result, const char *program, struct bh_shell_end *ret)
{
    *ret = (struct bh_shell_end){.status = result->status};
    switch (result->end) {
    case BH_EXEC_EXITED:
        break;
    case BH_EXEC_SIGNALED:
        ret->status = 128 + result->status;
        break;
    case BH_EXEC_NOT_STARTED:
        ret->status = result->status == ENOENT ? 127 : 126;
        if (bh_streq(result->step, "exec"))
            (void)snprintf(ret->why, sizeof(ret->why), "cannot start '%s': %s", program, strerror(result->status));
        else
            (void)snprintf(ret->why, sizeof(ret->why), "cannot %s: %s", result->step, strerror(result->status));
        break;
    case BH_EXEC_BOX_LOST:
        ret->status = 128 + SIGKILL;
        (void)snprintf(ret->why, sizeof(ret->why), "its box was lost");
        break;
    }
    if (result->note[0])
        (void)snprintf(ret->why, sizeof(ret->why), "%s", result->note);
}

static void on_done(void *arg, const struct bh_exec_result *result)
{
    struct fork *f = arg;
    f->call = NULL;
    bh_shell_io_end(f->io);
    bh_shell_end_of(result, f->argv[0], &f->end);
    if (f->ended_by)
        f->end = (struct bh_shell_end){.status = 128 + f->ended_by};
    (void)event_base_loopbreak(f->loop);
}

/* A terminal that looks like ours where its bytes reach ours; else one that can do nothing. */
static const char *const *environment(struct fork *f, bool root, bool terminal)
{
    const char *const *env = bh_exec_env(f->arena, &f->lease, root), *own = getenv("TERM");
    size_t n = 0;
    while (env[n])
        n++;
    const char **more = bh_arena_alloc(f->arena, (n + 2) * sizeof(*more));
    for (size_t i = 0; i < n; i++)
        more[i] = env[i];
    if (terminal)
        more[n] = bh_arena_printf(f->arena, "TERM=%s", f->what->raw && own && *own ? own : "dumb");
    return more;
}

static void start_command(struct fork *f)
{
    bool root = bh_streq(f->lease.user, "root");
    bool terminal = bh_shell_io_is_terminal();
    bool own = !f->what->stand->shared; /* they are files in the box, as the agent has left them */
    const struct bh_shell_io_spec spec = {.loop = f->loop, .terminal = terminal, .raw = f->what->raw};
    struct bh_err *err = NULL;
    int rc = bh_shell_io_new(&spec, &f->io, &err);
    if (rc != 0) {
        fail(f, rc, err);
        return;
    }
    const struct bh_exec_spec exec = {
        .argv = f->argv,
        .env = environment(f, root, terminal),
        .cwd = f->lease.workdir,
        .root = root,
        .terminal = terminal,
        .stdin_fd = bh_shell_io_fd(f->io, 0),
        .stdout_fd = bh_shell_io_fd(f->io, 1),
        .stderr_fd = bh_shell_io_fd(f->io, 2),
        .inputs = f->delivery.inputs,
        .prompt = own ? NULL : f->delivery.prompt,
        .params = own ? NULL : f->delivery.params,
        .needs = own ? NULL : f->delivery.needs,
    };
    f->call = bh_box_call_exec(bh_box_handle_box(f->box), &exec, on_done, f);
    bh_shell_io_start(f->io);
}

/* --- the box --- */

static void on_created(void *arg, int code, const struct bh_err *err)
{
    struct fork *f = arg;
    struct bh_err *why = NULL;
    if (code != 0) {
        fail(f, code, copy_of(err));
        return;
    }
    int rc = bh_deliver_lease(f->files, &f->lease, f->arena, &f->delivery, &why);
    if (rc != 0)
        fail(f, rc, why);
    else
        start_command(f);
}

static void on_lost(void *arg)
{
    struct fork *f = arg;
    struct bh_err *err = NULL;
    int rc = bh_err_set(&err, BH_E_HOST, 0, "the fork of the box was lost");
    if (!f->call && !f->io)
        fail(f, rc, err);
    else
        bh_err_free(err); /* the command has ended with it, and said so */
}

static const char *const *layers_of(struct fork *f, size_t *ret_n)
{
    const struct bh_box_stand *s = f->what->stand;
    size_t n = 0;
    const char **list = bh_arena_alloc(f->arena, (s->n_layers + 1) * sizeof(*list));
    if (f->what->layer)
        list[n++] = f->what->layer;
    for (size_t i = 0; i < s->n_layers; i++)
        list[n++] = s->layers[i];
    *ret_n = n;
    return list;
}

static void make_box(struct fork *f)
{
    static const struct bh_box_events events = {on_created, on_lost};
    const struct bh_box_stand *s = f->what->stand;
    size_t n_layers = 0;
    const char *const *layers = layers_of(f, &n_layers);
    const struct bh_box_spec spec = {
        .run_dir = f->dir,
        .key = KEY,
        .fork_of = bh_arena_printf(f->arena, "runs/%s", f->what->run),
        .kept = f->what->kept,
        .base_layers = (const char *const *)s->base_layers,
        .n_base_layers = s->n_base_layers,
        .agent_uid = (uint32_t)s->agent_uid,
        .agent_gid = (uint32_t)s->agent_gid,
        .layers = layers,
        .n_layers = n_layers,
        .snapshots = (const char *const *)s->snapshots,
        .n_snapshots = s->n_snapshots,
        .writable_usr = s->writable_usr,
        .limits = bh_box_limits(&f->lease.box),
        .best_effort = f->lease.box.best_effort,
        .disposable = true,
    };
    f->box = bh_box_handle_new(f->boxes, &spec, &events, f);
}

/* --- signals --- */

static void on_signal(evutil_socket_t number, short what BH_UNUSED, void *arg)
{
    struct fork *f = arg;
    f->end.status = 128 + (int)number;
    if (!f->call) {
        (void)event_base_loopbreak(f->loop);
        return;
    }
    /* An interrupt is for the command, which may have its own mind; the others are for us, and a shell ignores them. */
    bool ours = number != SIGINT;
    f->ended_by = ours ? (int)number : f->ended_by;
    bh_box_call_kill(f->call, f->told || ours ? SIGKILL : (int)number);
    f->told = true;
}

static void watch_signals(struct fork *f)
{
    static const int numbers[N_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < N_SIGNALS; i++) {
        f->signals[i] = evsignal_new(f->loop, numbers[i], on_signal, f);
        if (f->signals[i])
            (void)event_add(f->signals[i], NULL);
    }
}

/* --- life --- */

static int check_owner(const struct fork *f, struct bh_err **err)
{
    const struct bh_box_owner *was = &f->what->stand->owner;
    uint32_t id = f->boxes->ops->owner ? f->boxes->ops->owner(f->boxes) : 0;
    uint32_t had = was->mode == BH_IDS_RANGE ? was->first_id : 0;
    if (!f->boxes->ops->owner || id == had || was->mode != BH_IDS_RANGE)
        return 0;
    int rc = bh_err_set(err, BH_E_NOT_SUPPORTED, 0, "the box was made with other ids than are to be had here");
    bh_err_hint(err, "enter it as the user, and with the subordinate ids, that the run had");
    return rc;
}

static int prepare(struct fork *f, struct bh_err **err)
{
    const struct bh_home *home = f->what->home;
    int64_t pid;
    int rc = make_lease(f, err);
    if (rc == 0)
        rc = hold_run(f, err);
    if (rc == 0)
        rc = make_folder(f, err);
    if (rc == 0)
        rc = bh_launcher_start(home->path, f->lock, &f->launcher, &pid, err);
    if (rc == 0)
        rc = bh_run_files_open_at(home->path, f->folder, &f->files, err);
    if (rc != 0)
        return rc;
    f->loop = bh_shell_loop_new();
    if (!f->loop)
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot make an event loop");
    rc = bh_boxes_ns_new(f->loop, BH_TAKE_FD(f->launcher), home->path, &f->boxes, err);
    return rc == 0 ? check_owner(f, err) : rc;
}

static void finish(struct fork *f)
{
    for (size_t i = 0; i < N_SIGNALS; i++) {
        if (f->signals[i])
            event_free(f->signals[i]);
    }
    bh_box_call_forget(f->call);
    if (f->box)
        (void)bh_box_handle_drop(f->box, false, NULL, NULL);
    if (f->boxes)
        f->boxes->ops->close(f->boxes);
    bh_shell_io_free(f->io);
    bh_run_files_unref(f->files);
    if (f->loop)
        event_base_free(f->loop);
    bh_close(f->launcher);
    if (f->folder && f->lock >= 0)
        (void)bh_rmtree_at(f->what->home->dirfd, f->folder);
    bh_close(f->lock);
    bh_close(f->run_lock);
    bh_lease_fini(&f->lease);
    bh_arena_free(f->arena);
    bh_free(f->folder);
    bh_free(f->dir);
}

int bh_shell_fork(const struct bh_shell_fork *what, struct bh_shell_end *ret, struct bh_err **err)
{
    const struct bh_reclaim how = {0};
    struct fork f = {.what = what,
                     .arena = bh_arena_new(),
                     .lock = -1,
                     .run_lock = -1,
                     .launcher = -1,
                     .argv = what->argv ? what->argv : bh_shell_argv};
    bh_shells_sweep(what->home, &how);
    int rc = prepare(&f, err);
    if (rc == 0) {
        watch_signals(&f);
        make_box(&f);
        (void)event_base_dispatch(f.loop);
        rc = f.rc;
        if (rc != 0 && err)
            *err = f.failed;
        else
            bh_err_free(f.failed);
    }
    *ret = f.end;
    finish(&f);
    return rc;
}
