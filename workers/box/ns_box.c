/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box, from its making to its end (the states: ns_priv.h). Two things make it alive: the launcher's answer with the
 * pidfd, and the init's READY on the box's own socket; they come in any order. One thing makes it dead: its pidfd,
 * which is readable when the last process of its pid namespace is gone.
 */
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/ns_priv.h"
#include "workers/rootfs/layers.h"
#include "workers/rootfs/usr_dirs.h"

static void free_stand(struct bh_box_stand *stand)
{
    if (stand)
        bh_box_stand_fini(stand);
    bh_free(stand);
}

static void free_box(struct bh_box *box)
{
    bh_ns_talk_stop(box);
    bh_ns_disk_stop(box);
    bh_ns_watch_fini(box);
    bh_ns_warm_drop(box);
    if (box->pidfd_event)
        event_free(box->pidfd_event);
    if (box->soon)
        event_free(box->soon);
    if (box->drop_soon)
        event_free(box->drop_soon);
    bh_close(box->pidfd);
    bh_close(box->root);
    box->ns->n_lending -= box->lends;
    bh_ns_group_drop_box(box);
    bh_list_remove(&box->link);
    for (size_t i = 0; i < box->n_layers; i++)
        bh_free(box->layers[i]);
    bh_free(box->layers);
    bh_free(box->layer);
    free_stand(box->stand);
    bh_free(box->run_dir);
    bh_free(box->key);
    bh_err_free(box->why);
    box->magic = 0;
    bh_free(box);
}

static void send_kill(struct bh_box *box)
{
    if (box->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, box->pidfd, SIGKILL, NULL, 0);
    if (box->frozen)
        (void)bh_ns_box_freezer(box, false);
    bh_ns_group_hurry(box);
}

/* --- the end: dead, then the folder, then the answer --- */

struct folder_job {
    char *run_dir, *key, *layer, *below;
    const struct bh_box_stand *stand; /* the box's, which outlives the job: one that never ran is done again by hand */
    enum box_ending ending;
    int rc;
    struct bh_err *err;
};

static void free_folder_job(void *data)
{
    struct folder_job *job = data;
    bh_free(job->run_dir);
    bh_free(job->key);
    bh_free(job->layer);
    bh_free(job->below);
    bh_err_free(job->err);
    bh_free(job);
}

/* Best effort: who looks at the box later is told that nothing says what it stood on. */
static void note_stand(const struct folder_job *job)
{
    bool frozen = job->ending == END_FREEZE;
    BH_CLEANUP_FREE char *path =
        bh_asprintf("%s/%s/%s", job->run_dir, frozen ? "layers" : "boxes", frozen ? job->layer : job->key);
    BH_CLEANUP_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && job->stand)
        (void)!bh_box_stand_write(dir, job->stand);
}

static void run_folder_job(void *data)
{
    struct folder_job *job = data;
    if (job->ending == END_FREEZE)
        job->rc = bh_box_folder_freeze(job->run_dir, job->key, job->layer, job->below, &job->err);
    else
        job->rc = bh_box_folder_remove(job->run_dir, job->key, job->ending == END_KEEP, &job->err);
    if (job->rc == 0 && (job->ending == END_FREEZE || job->ending == END_KEEP))
        note_stand(job);
}

static struct folder_job *folder_job_of(const struct bh_box *box)
{
    struct folder_job *job = bh_alloc(sizeof(*job));
    *job = (struct folder_job){
        .run_dir = bh_strdup(box->run_dir),
        .key = bh_strdup(box->key),
        .layer = bh_strdup(box->layer),
        .below = bh_strdup(box->n_layers > 0 ? box->layers[0] : NULL),
        .stand = box->stand,
        .ending = box->ending,
    };
    return job;
}

/* The box is freed before its owner is told: nothing that the owner does then can find it. */
static void answer_end(struct bh_box *box, int code, const struct bh_err *err)
{
    struct bh_box gone = *box;
    struct bh_err *why = box->ending == END_FAILED ? BH_TAKE(box->why) : NULL;
    bh_ns_talk_drop(box);
    free_box(box);
    bh_ns_spare_wake(gone.ns);
    if (gone.ending == END_FAILED)
        gone.created(gone.arg, NULL, -(int)bh_err_code(why), why);
    else if (gone.done)
        gone.done(gone.done_arg, code, err);
    bh_err_free(why);
}

static void folder_done(void *owner, void *data)
{
    const struct folder_job *job = data;
    answer_end(owner, job->rc, job->err);
}

static const struct bh_job_ops folder_job_ops = {run_folder_job, folder_done, free_folder_job};

static void start_folder_job(struct bh_box *box)
{
    bh_ns_disk_stop(box);
    bh_ns_disk_release(box);
    bool goes = box->ending == END_REMOVE || box->ending == END_FAILED;
    if (!goes || box->ending == END_FAILED)
        bh_close(BH_TAKE_FD(box->root));
    if (!box->rack || (goes && bh_rack_put(box->rack, box->key, box->root, &box->stamp) == 0)) {
        box->root = box->rack ? -1 : box->root;
        answer_end(box, 0, NULL);
        return;
    }
    bh_close(BH_TAKE_FD(box->root)); /* what is to become a layer, or to go, is mounted nowhere */
    bh_rack_forget(box->rack);
    box->job = bh_helper_submit(box->ns->helper, &folder_job_ops, box, folder_job_of(box));
}

static void on_soon(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    start_folder_job(arg);
}

/* ENDING and nothing to wait for: go on from the loop, never from inside the caller's call. */
static void go_on_soon(struct bh_box *box)
{
    if (box->soon) /* it was just given away (on_handed), and has died */
        event_free(box->soon);
    box->soon = event_new(box->ns->loop, -1, 0, on_soon, box);
    BH_ASSERT(box->soon);
    event_active(box->soon, 0, 0);
}

/* --- death --- */

static void lose(struct bh_box *box)
{
    box->state = BOX_LOST;
    bh_close(BH_TAKE_FD(box->root));
    bh_ns_talk_drop(box);
    box->on_lost(box->arg);
}

static void on_dead(evutil_socket_t fd, short what, void *arg)
{
    struct bh_box *box = arg;
    struct bh_err *why = NULL;
    (void)fd;
    (void)what;
    (void)event_del(box->pidfd_event);
    box->dead = true;
    box->group_again = box->group_again && box->state == BOX_ENDING; /* of others nobody knows what they died of */
    bh_ns_disk_stop(box);
    bh_ns_watch_stop(box);
    bh_ns_talk_stop(box);
    switch (box->state) {
    case BOX_MAKING:
        (void)bh_err_set(&why, BH_E_HOST, 0, "box '%s' died while it was made", box->key);
        bh_ns_box_failed(box, why);
        break;
    case BOX_ALIVE:
        lose(box);
        break;
    case BOX_ENDING:
        start_folder_job(box);
        break;
    case BOX_LOST:
        break;
    }
}

static void begin_end(struct bh_box *box, enum box_ending ending)
{
    box->state = BOX_ENDING;
    box->ending = ending;
    bh_ns_talk_stop(box);
    if (!box->dead && box->pidfd >= 0)
        send_kill(box);
    else if (!box->asked)
        go_on_soon(box);
}

void bh_ns_box_end(struct bh_box *box, enum box_ending ending, bh_box_done_fn fn, void *arg)
{
    BH_ASSERT(box->magic == NS_BOX_MAGIC && (box->state == BOX_ALIVE || box->state == BOX_LOST));
    box->done = fn;
    box->done_arg = arg;
    begin_end(box, ending);
}

/* Of a box that is being made the launcher says why it is not, or its pidfd says that it died. */
void bh_ns_box_distrust(struct bh_box *box)
{
    bh_ns_talk_stop(box);
    send_kill(box);
}

/* --- being made --- */

void bh_ns_box_failed(struct bh_box *box, struct bh_err *why)
{
    if (box->state != BOX_MAKING) {
        bh_err_free(why);
        return;
    }
    bh_ns_spare_none(box->ns);
    box->why = why;
    begin_end(box, END_FAILED);
}

static void maybe_alive(struct bh_box *box)
{
    if (box->state != BOX_MAKING || !box->ready || box->pidfd < 0)
        return;
    box->state = BOX_ALIVE;
    bh_ns_warm_expect_nothing(box);
    if (!box->spare)
        bh_ns_disk_start(box);
    box->created(box->arg, box, 0, NULL);
}

void bh_ns_box_ready(struct bh_box *box)
{
    box->ready = true;
    maybe_alive(box);
}

static void not_made(struct bh_box *box, struct bh_err *why)
{
    if (box->state == BOX_ENDING) { /* by its own word already */
        bh_err_free(why);
        go_on_soon(box);
        return;
    }
    if (!why)
        (void)bh_err_set(&why, BH_E_HOST, 0, "cannot make box '%s': the launcher has ended", box->key);
    bh_ns_box_failed(box, why);
}

void bh_ns_box_answered(struct bh_box *box, int pidfd, struct bh_err *why)
{
    if (!box->asked) { /* said twice */
        bh_close(pidfd);
        bh_err_free(why);
        return;
    }
    box->asked = false;
    box->pidfd = pidfd;
    if (pidfd < 0) {
        not_made(box, why);
        return;
    }
    box->pidfd_event = event_new(box->ns->loop, pidfd, EV_READ | EV_PERSIST, on_dead, box);
    BH_ASSERT(box->pidfd_event && event_add(box->pidfd_event, NULL) == 0);
    if (box->state == BOX_ENDING || box->control < 0)
        send_kill(box);
    else
        maybe_alive(box);
}

/* "runs/RUN" of an absolute path below home. */
static const char *below_home(const struct ns *ns, const char *run_dir)
{
    size_t len = strlen(ns->home);
    if (strncmp(run_dir, ns->home, len) != 0 || run_dir[len] != '/')
        return NULL;
    while (run_dir[len] == '/')
        len++;
    return run_dir + len;
}

static int read_layers(struct bh_box *box, const struct bh_box_spec *spec, struct bh_err **err)
{
    struct bh_layer_chain chain = {0};
    BH_CLEANUP_FREE char *path = spec->fork_of ? bh_asprintf("%s/%s/layers", box->ns->home, spec->fork_of)
                                               : bh_asprintf("%s/layers", spec->run_dir);
    size_t cap = 0;
    if (spec->n_layers == 0)
        return 0;
    BH_CLEANUP_FD int layers = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (layers < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", path);
    for (size_t i = 0; i + 1 < spec->n_layers; i++)
        *BH_PUSH(box->layers, box->n_layers, cap) = bh_strdup(spec->layers[i]);
    int rc = bh_layer_chain_read(layers, spec->layers[spec->n_layers - 1], &chain, err);
    for (size_t i = 0; rc == 0 && i < chain.n; i++)
        *BH_PUSH(box->layers, box->n_layers, cap) = BH_TAKE(chain.names[i]);
    bh_layer_chain_fini(&chain);
    return rc;
}

static int ask_launcher(struct bh_box *box, const struct bh_box_spec *spec, int their_end, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    struct bh_msg_create msg = {.kind = BH_MSG_CREATE, .id = box->id, .n_layers = (uint32_t)box->n_layers};
    msg.n_snapshots = (uint32_t)spec->n_snapshots;
    msg.n_base = spec->n_base_layers ? (uint32_t)spec->n_base_layers : 1;
    msg.agent_uid = spec->agent_uid;
    msg.agent_gid = spec->agent_gid;
    msg.limits = bh_msg_limits_of(&spec->limits);
    if (msg.limits.cpus >= (int64_t)box->ns->host_cpus * 1000)
        msg.limits.cpus = 0; /* all that there are hold it */
    msg.flags = (spec->n_base_layers ? 0 : BH_CREATE_HOST_TREES) | (spec->writable_usr ? BH_CREATE_WRITABLE_USR : 0) |
                (spec->shared ? BH_CREATE_SHARED : 0) | (box->disk_by == BH_BY_TMPFS ? BH_CREATE_IN_MEMORY : 0);
    bool dirs = spec->writable_usr && spec->n_base_layers == 0 && !bh_box_owner_maps(&box->ns->owner);
    msg.flags |= (box->lends ? BH_CREATE_LEND : 0) | (box->root >= 0 ? BH_CREATE_LENT : 0);
    msg.flags |= spec->host_network ? BH_CREATE_HOST_NETWORK : 0;
    msg.flags |= (dirs ? BH_CREATE_USR_DIRS : 0) | (spec->workspace_of ? BH_CREATE_WORKSPACE : 0) |
                 (spec->fork_of ? BH_CREATE_FORK : 0);
    int fds[3] = {their_end};
    size_t nfds = 1;
    if (box->root >= 0)
        fds[nfds++] = box->root;
    if (bh_ns_warm_create(box, spec, &msg, fds, &nfds) < 0)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "cannot make box '%s': the fork server has ended", box->key);
    bh_buf_add(&out, &msg, sizeof(msg));
    bh_pack_str(&out, below_home(box->ns, spec->run_dir));
    bh_pack_str(&out, box->key);
    for (size_t i = 0; i < spec->n_base_layers; i++)
        bh_pack_str(&out, spec->base_layers[i]);
    if (spec->n_base_layers == 0)
        bh_pack_str(&out, box->ns->base_name);
    for (size_t i = 0; i < box->n_layers; i++)
        bh_pack_str(&out, box->layers[i]);
    for (size_t i = 0; i < spec->n_snapshots; i++)
        bh_pack_str(&out, spec->snapshots[i]);
    if (dirs)
        bh_pack_str(&out, box->ns->usr_dirs);
    if (spec->workspace_of)
        bh_pack_str(&out, spec->workspace_of);
    if (spec->fork_of) {
        bh_pack_str(&out, spec->fork_of);
        bh_pack_str(&out, spec->kept ? spec->kept : "");
    }
    if (bh_outbox_send(&box->ns->to_launcher, out.data, out.len, fds, nfds) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot speak to the launcher");
    box->asked = true;
    bh_close(BH_TAKE_FD(box->root)); /* it comes back with READY */
    return 0;
}

static struct bh_rack *rack_of(struct ns *ns, const char *run_dir, bool writable_usr)
{
    BH_LIST_FOREACH (it, tmp, &ns->racks) {
        struct bh_rack *r = BH_CONTAINER(it, struct bh_rack, link);
        if (r->writable_usr == writable_usr && bh_streq(r->run_dir, run_dir))
            return r;
    }
    struct bh_rack *r = bh_rack_new(ns->loop, ns->helper, run_dir, &ns->owner, writable_usr);
    bh_list_append(&ns->racks, &r->link);
    return r;
}

/* Once per host. */
static int need_usr_dirs(struct ns *ns, const struct bh_box_spec *spec, struct bh_err **err)
{
    if (!spec->writable_usr || spec->n_base_layers > 0 || bh_box_owner_maps(&ns->owner) || ns->usr_dirs)
        return 0;
    return bh_usr_dirs_ensure(ns->home, &ns->owner, &ns->usr_dirs, err);
}

static char **copy_list(const char *const *list, size_t n)
{
    char **copy = bh_calloc(n + 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = bh_strdup(list[i]);
    return copy;
}

static struct bh_box_stand *make_stand(const struct bh_box *box, const struct bh_box_spec *spec)
{
    const struct ns *ns = box->ns;
    struct bh_box_stand *stand = bh_alloc(sizeof(*stand));
    bool host = spec->n_base_layers == 0;
    *stand = (struct bh_box_stand){
        .base = bh_strdup(host ? ns->base_name : NULL),
        .base_layers = copy_list(spec->base_layers, spec->n_base_layers),
        .n_base_layers = spec->n_base_layers,
        .usr_dirs = bh_strdup(host && spec->writable_usr ? ns->usr_dirs : NULL),
        .layers = copy_list((const char *const *)box->layers, box->n_layers),
        .n_layers = box->n_layers,
        .snapshots = copy_list(spec->snapshots, spec->n_snapshots),
        .n_snapshots = spec->n_snapshots,
        .writable_usr = spec->writable_usr,
        .shared = spec->shared,
        .agent_uid = spec->agent_uid,
        .agent_gid = spec->agent_gid,
        .owner = ns->owner,
    };
    return stand;
}

/*
 * Whether it is of the kind whose roots are lent: all of them show the base `host` and are held to nothing that belongs
 * to their folder. Each costs us a descriptor.
 */
static bool may_lend(const struct bh_box *box, const struct bh_box_spec *spec)
{
    const enum bh_enforcer means = bh_ns_disk_means(box->ns, spec);
    return box->ns->n_lending < BH_RACK_MAX && !spec->shared && !spec->writable_usr && !spec->warm && !spec->beneath &&
           !spec->host_network && !spec->workspace_of && !spec->fork_of && spec->n_base_layers == 0 &&
           box->n_layers == 0 && spec->n_snapshots == 0 && (means == BH_BY_NOTHING || means == BH_BY_WATCHDOG);
}

static int start(struct bh_box *box, const struct bh_box_spec *spec, struct bh_err **err)
{
    struct ns *ns = box->ns;
    int pair[2];
    if (ns->broken)
        return bh_err_set(err, bh_err_code(ns->broken), 0, "%s", bh_err_message(ns->broken));
    if (!below_home(ns, spec->run_dir))
        return bh_err_set(err, BH_E_INTERNAL, 0, "the run's folder '%s' is not below '%s'", spec->run_dir, ns->home);
    int rc = bh_ns_disk_room(ns, err);
    if (rc == 0)
        rc = read_layers(box, spec, err);
    if (rc == 0)
        rc = need_usr_dirs(ns, spec, err);
    if (rc == 0 && !spec->disposable)
        box->stand = make_stand(box, spec);
    if (rc == 0 && may_lend(box, spec)) {
        box->lends = true;
        ns->n_lending++;
    }
    if (rc == 0)
        rc = bh_rack_take(rack_of(ns, spec->run_dir, spec->writable_usr), spec->key, box->lends ? &box->root : NULL,
                          &box->stamp, err);
    if (rc != 0)
        return rc;
    box->rack = rack_of(ns, spec->run_dir, spec->writable_usr);
    rc = bh_ns_disk_prepare(box, spec, err);
    if (rc != 0)
        return rc;
    rc = bh_seqpacket_pair(pair, err);
    if (rc != 0)
        return rc;
    box->control = pair[0];
    BH_CLEANUP_FD int theirs = pair[1];
    if (bh_ns_talk_start(box) < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot watch box '%s'", spec->key);
    return ask_launcher(box, spec, theirs, err);
}

struct bh_box *bh_ns_box_make(struct ns *ns, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                              void (*on_lost)(void *arg))
{
    struct bh_err *err = NULL;
    struct bh_box *box = bh_alloc(sizeof(*box));
    *box = (struct bh_box){
        .head.boxes = &ns->base,
        .magic = NS_BOX_MAGIC,
        .ns = ns,
        .id = ++ns->last_id,
        .run_dir = bh_strdup(spec->run_dir),
        .key = bh_strdup(spec->key),
        .shared = spec->shared,
        .agent_uid = spec->agent_uid ? spec->agent_uid : BH_AGENT_UID,
        .best_effort = spec->best_effort,
        .control = -1,
        .pidfd = -1,
        .memory_fd = -1,
        .root = -1,
        .held = -1,
        .created = fn,
        .on_lost = on_lost,
        .arg = arg,
    };
    bh_list_init(&box->link);
    bh_list_append(&ns->boxes, &box->link);
    bh_list_init(&box->execs);
    bh_list_init(&box->asks);
    struct bh_box_spec filled = *spec;
    int rc = bh_ns_limits_fill(ns, spec, &filled.limits, &err);
    box->watch_memory = bh_ns_limits_watch_memory(ns, &filled.limits);
    if (rc == 0)
        rc = start(box, &filled, &err);
    if (rc != 0)
        bh_ns_box_failed(box, err);
    return box;
}

static void on_handed(evutil_socket_t fd, short what, void *arg)
{
    struct bh_box *box = arg;
    (void)fd;
    (void)what;
    event_free(BH_TAKE(box->soon));
    maybe_alive(box);
}

/* One that was made ahead: the rest of its making is to be its owner's, told from the loop like that of any other. */
static void hand_over(struct bh_box *box, bh_box_created_fn fn, void *arg, void (*on_lost)(void *arg))
{
    box->created = fn;
    box->on_lost = on_lost;
    box->arg = arg;
    if (box->state != BOX_ALIVE)
        return;
    box->state = BOX_MAKING;
    box->soon = event_new(box->ns->loop, -1, 0, on_handed, box);
    BH_ASSERT(box->soon);
    event_active(box->soon, 0, 0);
}

void bh_ns_box_create(struct ns *ns, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                      void (*on_lost)(void *arg))
{
    struct bh_box *box = bh_ns_spare_take(ns, spec);
    if (box)
        hand_over(box, fn, arg, on_lost);
    else
        (void)bh_ns_box_make(ns, spec, fn, arg, on_lost);
    bh_ns_spare_order(ns, spec);
}

/* --- close --- */

static void wait_dead(struct bh_box *box)
{
    struct pollfd polled = {.fd = box->pidfd, .events = POLLIN};
    send_kill(box);
    while (poll(&polled, 1, -1) < 0 && errno == EINTR)
        ;
}

void bh_ns_box_finish_now(struct bh_box *box)
{
    struct bh_err *err = NULL;
    int rc = 0;
    if (!box->dead && box->pidfd >= 0)
        wait_dead(box);
    bh_ns_talk_drop(box);
    if (box->state == BOX_MAKING) {
        (void)bh_err_set(&box->why, BH_E_INTERRUPTED, 0, "box '%s' was given up", box->key);
        box->ending = END_FAILED;
    } else if (box->state != BOX_ENDING) {
        box->ending = END_REMOVE;
    }
    bh_ns_disk_stop(box);
    bh_ns_watch_stop(box);
    bh_ns_disk_release(box);
    bh_close(BH_TAKE_FD(box->root));
    if (box->rack) {
        struct folder_job *job = folder_job_of(box);
        run_folder_job(job);
        rc = job->rc;
        err = BH_TAKE(job->err);
        free_folder_job(job);
    }
    answer_end(box, rc, err);
    bh_err_free(err);
}
