/* SPDX-License-Identifier: Apache-2.0 */
/* The ns backend: its life, and the launcher's answers. */
#include <event2/event.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/launcher_client.h"
#include "workers/box/ns_priv.h"
#include "workers/disk/budget.h"
#include "workers/disk/watch.h"
#include "workers/rootfs/skeleton.h"

#define END_TIMEOUT_MS 10000

static struct ns *ns_of(struct bh_boxes *boxes)
{
    struct ns *ns = (struct ns *)(void *)boxes;
    BH_ASSERT(ns->magic == NS_MAGIC);
    return ns;
}

#define BOX(it) BH_CONTAINER(it, struct bh_box, link)

/* --- the launcher --- */

static struct bh_box *find_box(struct ns *ns, uint64_t id)
{
    BH_LIST_FOREACH (it, tmp, &ns->boxes) {
        if (BOX(it)->id == id)
            return BOX(it);
    }
    return NULL;
}

/* Every box dies with it, by the kernel's hand; those that wait for its answer are told here. */
static void launcher_gone(struct ns *ns)
{
    event_free(ns->launcher_event);
    ns->launcher_event = NULL;
    bh_outbox_fini(&ns->to_launcher);
    bh_close(ns->launcher);
    ns->launcher = -1;
    if (!ns->broken)
        (void)bh_err_set(&ns->broken, BH_E_HOST, 0, "the launcher has ended");
    BH_LIST_FOREACH (it, tmp, &ns->boxes) {
        if (BOX(it)->asked)
            bh_ns_box_answered(BOX(it), -1, NULL);
    }
}

static struct bh_err *why_not(const struct bh_box *box, const struct bh_msg_created *msg)
{
    struct bh_err *why = NULL;
    /* The kernel answers ENOSPC also where a limit of namespaces is reached. */
    bool full = (msg->error == ENOSPC && !bh_starts_with(msg->step, "clone")) || msg->error == EDQUOT;
    (void)bh_err_set(&why, full ? BH_E_IO : BH_E_HOST, msg->error, "cannot make box '%s': cannot %s", box->key,
                     msg->step);
    return why;
}

static void on_created(struct ns *ns, struct bh_msg_created *msg, int *fds, size_t nfds)
{
    struct bh_box *box = find_box(ns, msg->id);
    msg->step[BH_STEP_MAX - 1] = '\0';
    if (box) {
        box->group = msg->group;
        box->group_again = msg->group_again;
    }
    if (box && msg->error)
        bh_ns_box_answered(box, -1, why_not(box, msg));
    else if (box && nfds == 1) {
        box->pid = msg->pid;
        bh_ns_box_answered(box, BH_TAKE_FD(fds[0]), NULL);
    }
    for (size_t i = 0; i < nfds; i++)
        bh_close(fds[i]);
}

static void on_launcher(evutil_socket_t sock, short what, void *arg)
{
    struct ns *ns = arg;
    (void)what;
    for (;;) {
        struct bh_msg_created msg;
        int fds[BH_MSG_MAX_FDS];
        size_t nfds;
        ssize_t n = bh_msg_recv(sock, &msg, sizeof(msg), fds, &nfds);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n != (ssize_t)sizeof(msg) || msg.kind != BH_MSG_CREATED) {
            launcher_gone(ns);
            return;
        }
        on_created(ns, &msg, fds, nfds);
    }
}

/* --- operations --- */

static void op_create(struct bh_boxes *boxes, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                      void (*on_lost)(void *arg))
{
    bh_ns_box_create(ns_of(boxes), spec, fn, arg, on_lost);
}

static void op_freeze(struct bh_box *box, const char *layer, bh_box_done_fn fn, void *arg)
{
    BH_ASSERT(box->disk_by != BH_BY_TMPFS); /* what lies in memory is gone with the box */
    box->layer = bh_strdup(layer);
    bh_ns_box_end(box, END_FREEZE, fn, arg);
}

static void op_destroy(struct bh_box *box, bool keep, bh_box_done_fn fn, void *arg)
{
    bh_ns_box_end(box, keep ? END_KEEP : END_REMOVE, fn, arg);
}

/* It ends when its socket does; what it made dies with it. */
static void end_launcher(struct ns *ns)
{
    struct pollfd polled = {.fd = ns->launcher_pidfd, .events = POLLIN};
    if (ns->launcher_event)
        event_free(BH_TAKE(ns->launcher_event));
    bh_outbox_fini(&ns->to_launcher);
    bh_close(BH_TAKE_FD(ns->launcher));
    while (polled.fd >= 0 && poll(&polled, 1, END_TIMEOUT_MS) < 0 && errno == EINTR)
        ;
    bh_close(BH_TAKE_FD(ns->launcher_pidfd));
}

static void free_ns(struct ns *ns)
{
    bh_helper_free(ns->helper);
    bh_disk_watch_free(ns->disk);
    bh_disk_budget_free(ns->budget);
    end_launcher(ns);
    bh_ns_groups_fini(ns);
    bh_err_free(ns->broken);
    bh_free(ns->home);
    bh_free(ns->base_name);
    bh_free(ns->usr_dirs);
    ns->magic = 0;
    bh_free(ns);
}

static bool some_asked(const struct ns *ns)
{
    BH_LIST_FOREACH (it, tmp, &ns->boxes) {
        if (BOX(it)->asked)
            return true;
    }
    return false;
}

static void op_close(struct bh_boxes *boxes)
{
    struct ns *ns = ns_of(boxes);
    /* A box that the launcher has not told us of yet has a process to be waited for like all others. */
    while (ns->launcher >= 0 && some_asked(ns)) {
        struct pollfd polled = {.fd = ns->launcher, .events = POLLIN};
        (void)event_base_loop(ns->loop, EVLOOP_NONBLOCK);
        (void)poll(&polled, 1, 10);
    }
    bh_helper_free(BH_TAKE(ns->helper)); /* a job that has not run is done by hand below */
    while (!bh_list_empty(&ns->boxes))
        bh_ns_box_finish_now(BOX(ns->boxes.next));
    bh_ns_spare_fini(ns);
    while (!bh_list_empty(&ns->racks))
        bh_rack_free(BH_CONTAINER(ns->racks.next, struct bh_rack, link));
    free_ns(ns);
}

/* Of the limits, those of one process alone are the kernel's everywhere, and what is on disk is at least watched. */
static uint32_t op_owner(const struct bh_boxes *boxes)
{
    const struct bh_box_owner *owner = &((const struct ns *)(const void *)boxes)->owner;
    return owner->mode == BH_IDS_RANGE ? owner->first_id : geteuid();
}

static uint32_t op_enforceable(const struct bh_boxes *boxes)
{
    return bh_ns_limits_enforceable((const struct ns *)(const void *)boxes) | 1u << BH_LIMIT_OUTPUT |
           1u << BH_LIMIT_DISK | 1u << BH_LIMIT_INODES;
}

static const char *op_why_not(const struct bh_boxes *boxes)
{
    return bh_ns_limits_why_not((const struct ns *)(const void *)boxes);
}

static struct bh_enforced op_enforced(const struct bh_box *box, const struct bh_limits *own)
{
    struct bh_enforced enforced = {0};
    bh_ns_limits_enforced(box, own, &enforced);
    bh_ns_disk_enforced(box, own, &enforced);
    return enforced;
}

static const struct bh_box_ops ns_ops = {
    .name = "ns",
    .enforceable = op_enforceable,
    .why_not = op_why_not,
    .enforced = op_enforced,
    .owner = op_owner,
    .disk_bytes = bh_ns_disk_bytes,
    .close = op_close,
    .create = op_create,
    .exec = bh_ns_exec,
    .kill = bh_ns_kill,
    .barrier = bh_ns_barrier,
    .open_output = bh_ns_open_output,
    .listen = bh_ns_listen,
    .moment = bh_ns_moment,
    .writers = bh_ns_writers,
    .census = bh_ns_census,
    .holders = bh_ns_holders,
    .freeze = op_freeze,
    .destroy = op_destroy,
};

static int set_up(struct ns *ns, struct bh_err **err)
{
    struct bh_msg_hello hello;
    int fds[BH_MSG_MAX_FDS];
    size_t nfds;
    int rc = bh_launcher_hello(ns->launcher, &hello, fds, &nfds, err);
    if (rc != 0)
        return rc;
    bh_ns_limits_read(ns, &hello, fds, nfds);
    ns->launcher_pidfd = (int)syscall(SYS_pidfd_open, hello.pid, 0);
    if (hello.mode == BH_IDS_NONE) {
        rc = bh_err_set(err, BH_E_HOST, hello.error, "this host cannot make boxes: cannot %s", hello.step);
        bh_boxes_explain(ns->launcher, err);
        return rc;
    }
    ns->owner = (struct bh_box_owner){.mode = (enum bh_id_mode)hello.mode, .first_id = hello.first_id};
    rc = bh_skeleton_ensure(ns->home, &ns->owner, &ns->base_name, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "making the base 'host'");
    rc = bh_helper_new(ns->loop, &ns->helper, err);
    if (rc != 0)
        return rc;
    rc = bh_disk_watch_new(ns->loop, ns->home, &ns->disk, err);
    if (rc != 0)
        return rc;
    bh_outbox_init(&ns->to_launcher, ns->loop, ns->launcher);
    ns->launcher_event = event_new(ns->loop, ns->launcher, EV_READ | EV_PERSIST, on_launcher, ns);
    if (bh_fd_set_nonblock(ns->launcher, true) < 0 || !ns->launcher_event || event_add(ns->launcher_event, NULL) < 0)
        return bh_err_set(err, BH_E_HOST, 0, "cannot watch the launcher");
    return 0;
}

int bh_boxes_ns_new(struct event_base *loop, int launcher_sock, const char *home, struct bh_boxes **ret,
                    struct bh_err **err)
{
    struct ns *ns = bh_alloc(sizeof(*ns));
    *ns = (struct ns){
        .base.ops = &ns_ops, .magic = NS_MAGIC, .loop = loop, .launcher = launcher_sock, .launcher_pidfd = -1};
    ns->home = bh_strdup(home);
    bh_list_init(&ns->boxes);
    bh_list_init(&ns->racks);
    int rc = set_up(ns, err);
    if (rc != 0) {
        free_ns(ns);
        return rc;
    }
    *ret = &ns->base;
    return 0;
}

int bh_boxes_ns_budget(struct bh_boxes *boxes, int64_t bytes, const char *who, struct bh_err **err)
{
    struct ns *ns = ns_of(boxes);
    int rc = bh_disk_budget_new(ns->loop, ns->home, bytes, who, &ns->budget, err);
    return rc == 0 ? bh_disk_budget_room(ns->budget, err) : rc;
}
