/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The root file system of a box from the mounts that the launcher hands over. The layers and the upper may have been
 * written by hostile agents: every place that something is attached to is opened without following a symlink.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

struct order {
    const struct bh_msg_box *msg;
    struct bh_unpack strings;
    const char *base[BH_BASE_MAX], *layers[64], *snapshots[64];
    const int *fds; /* what is left of them */
    size_t nfds;
};

/* Mounts that come only where something is said. */
static size_t parts_of(const struct bh_msg_box *msg)
{
    return (size_t)(msg->n_layers > 0) + (msg->n_snapshots > 0) + !!(msg->flags & BH_CREATE_USR_DIRS) +
           !!(msg->flags & (BH_CREATE_WORKSPACE | BH_CREATE_KEPT));
}

static int parse(struct order *o, const void *data, size_t len, const int *fds, size_t nfds)
{
    const struct bh_msg_box *msg = data;
    if (len < sizeof(*msg) || msg->kind != BH_MSG_BOX || msg->n_layers > BH_ARRAY_LEN(o->layers) ||
        msg->n_base > BH_ARRAY_LEN(o->base) || msg->n_snapshots > BH_ARRAY_LEN(o->snapshots) ||
        msg->n_mounts > BH_BOX_MOUNTS_MAX ||
        nfds != (msg->flags & BH_CREATE_LENT ? 2 : 3) + parts_of(msg) + msg->n_mounts)
        return -1;
    const char *text = data;
    *o = (struct order){.msg = msg, .strings = {text + sizeof(*msg), text + len}, .fds = fds, .nfds = nfds};
    for (uint32_t i = 0; i < msg->n_base; i++)
        o->base[i] = bh_unpack_str(&o->strings);
    for (uint32_t i = 0; i < msg->n_layers; i++)
        o->layers[i] = bh_unpack_str(&o->strings);
    for (uint32_t i = 0; i < msg->n_snapshots; i++)
        o->snapshots[i] = bh_unpack_str(&o->strings);
    return o->strings.at ? 0 : -1;
}

static int attach_next(struct order *o, const char *path, struct bh_fail *fail)
{
    int rc = move_mount(*o->fds, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH);
    o->fds++;
    return rc < 0 ? bh_fail(fail, errno, "attach %s", path) : 0;
}

static void add_where_it_is(const char *where, const char *layer, const char *tree, struct bh_lowers *lowers)
{
    char path[512];
    struct stat st;
    (void)snprintf(path, sizeof(path), "%s/%s/%s", where, layer, tree);
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
        bh_lowers_add(lowers, "%s", path);
}

/* One tree of every layer and snapshot that has it. */
static void add_layers(const struct order *o, const char *tree, struct bh_lowers *lowers)
{
    if (o->msg->flags & BH_CREATE_KEPT)
        add_where_it_is("", "past", tree, lowers);
    for (uint32_t i = 0; i < o->msg->n_layers; i++)
        add_where_it_is("/layers", o->layers[i], tree, lowers);
    for (uint32_t i = 0; i < o->msg->n_snapshots; i++)
        add_where_it_is("/snapshots", o->snapshots[i], tree, lowers);
}

static int make_tree_overlay(struct order *o, const char *tree, struct bh_init *in, struct bh_fail *fail)
{
    char lowest[16];
    bool writable = o->msg->flags & BH_CREATE_WRITABLE_USR;
    (void)snprintf(lowest, sizeof(lowest), "/%s", tree);
    if (attach_next(o, lowest, fail) < 0)
        return -1;
    struct bh_lowers lowers = {0};
    add_layers(o, tree, &lowers);
    if (o->msg->flags & BH_CREATE_USR_DIRS)
        bh_lowers_add(&lowers, "/dirs/%s", tree);
    bh_lowers_add(&lowers, "%s", lowest);
    int rc = bh_overlay_mount(&lowers, writable ? tree : NULL, BH_AT_MAKE, fail);
    bh_lowers_fini(&lowers);
    if (rc < 0)
        return -1;
    return bh_mount_move(BH_AT_MAKE, in->box, tree) < 0 ? bh_fail(fail, errno, "attach /%s", tree) : 0;
}

static int make_mount(struct order *o, struct bh_init *in, struct bh_fail *fail)
{
    const char *what = bh_unpack_str(&o->strings);
    if (!what || !what[0])
        return bh_fail(fail, EPROTO, "read the order");
    if (what[0] == BH_MOUNT_OVERLAY)
        return make_tree_overlay(o, what + 1, in, fail);
    if (bh_mount_attach(*o->fds, in->box, what + 1) < 0)
        return bh_fail(fail, errno, "attach /%s", what + 1);
    o->fds++;
    return 0;
}

/* It was made by a box before, with a mapping of ids like ours, and nothing was ever written to it. */
static int attach_root(struct order *o, struct bh_fail *fail)
{
    return attach_next(o, BH_AT_DELIVER, fail) < 0 ? -1 : attach_next(o, BH_AT_BOX, fail);
}

static int open_root(const struct order *o, struct bh_init *in, struct bh_fail *fail)
{
    in->box = open(BH_AT_BOX, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (in->box < 0)
        return bh_fail(fail, errno, "open the root");
    if (o->msg->flags & BH_CREATE_LEND && (in->lent = bh_mount_clone(in->box, "", false)) < 0)
        return bh_fail(fail, errno, "copy the mount of the root");
    return 0;
}

static int make_root(struct order *o, struct bh_init *in, struct bh_fail *fail)
{
    bool in_memory = o->msg->flags & BH_CREATE_IN_MEMORY;
    if (attach_next(o, "/home", fail) < 0 || (in_memory && (in->memory = bh_memory_mount(&o->msg->limits, fail)) < 0))
        return -1;
    if (attach_next(o, BH_AT_DELIVER, fail) < 0 || attach_next(o, "/base", fail) < 0 ||
        (o->msg->n_layers > 0 && attach_next(o, "/layers", fail) < 0) ||
        (o->msg->n_snapshots > 0 && attach_next(o, "/snapshots", fail) < 0) ||
        (o->msg->flags & BH_CREATE_USR_DIRS && attach_next(o, "/dirs", fail) < 0) ||
        (o->msg->flags & (BH_CREATE_WORKSPACE | BH_CREATE_KEPT) && attach_next(o, "/past", fail) < 0))
        return -1;
    struct bh_lowers lowers = {0};
    add_layers(o, "root", &lowers);
    for (uint32_t i = 0; i < o->msg->n_base; i++)
        bh_lowers_add(&lowers, "/base/%s/root", o->base[i]);
    if (o->msg->n_base == 0)
        bh_lowers_add(&lowers, "/base");
    int rc = bh_overlay_mount(&lowers, "root", BH_AT_BOX, fail);
    bh_lowers_fini(&lowers);
    return rc;
}

/* --- a workspace that another box has left --- */

/* `path`, where it is a directory; false: nothing below it shows. */
static bool add_workspace(const char *path, struct bh_lowers *lowers)
{
    struct stat st;
    char value = 0;
    if (lstat(path, &st) < 0)
        return errno == ENOENT;
    if (!S_ISDIR(st.st_mode))
        return false;
    bh_lowers_add(lowers, "%s", path);
    return !(getxattr(path, "user.overlay.opaque", &value, 1) == 1 && value == 'y');
}

/* Newest first, as the overlay of the whole root would find them: the box before, layers, snapshots, base. */
static void add_workspaces(const struct order *o, struct bh_lowers *lowers)
{
    char path[512];
    bool more = add_workspace("/past/root/workspace", lowers);
    for (uint32_t i = 0; more && i < o->msg->n_layers; i++) {
        (void)snprintf(path, sizeof(path), "/layers/%s/root/workspace", o->layers[i]);
        more = add_workspace(path, lowers);
    }
    for (uint32_t i = 0; more && i < o->msg->n_snapshots; i++) {
        (void)snprintf(path, sizeof(path), "/snapshots/%s/root/workspace", o->snapshots[i]);
        more = add_workspace(path, lowers);
    }
    for (uint32_t i = 0; more && i < o->msg->n_base; i++) {
        (void)snprintf(path, sizeof(path), "/base/%s/root/workspace", o->base[i]);
        more = add_workspace(path, lowers);
    }
    if (more && o->msg->n_base == 0)
        (void)add_workspace("/base/workspace", lowers);
}

/* What is written to it goes beside what is written to the root, in a directory that looks like the newest. */
static int make_upper(const char *newest, struct bh_fail *fail)
{
    static const char upper[] = "/home/upper/workspace", work[] = "/home/work/workspace";
    struct stat st;
    if (lstat(newest, &st) < 0 || mkdir(upper, 0700) < 0 || mkdir(work, 0700) < 0 ||
        chown(upper, st.st_uid, st.st_gid) < 0 || chmod(upper, st.st_mode & 07777) < 0)
        return bh_fail(fail, errno, "make a place for /workspace");
    return 0;
}

/* Over /workspace of the root, which then shows nothing of what the box before did elsewhere. */
static int make_workspace(const struct order *o, struct bh_init *in, struct bh_fail *fail)
{
    struct bh_lowers lowers = {0};
    in->before = bh_open_beneath(in->box, "workspace", O_RDONLY | O_DIRECTORY, 0);
    if (in->before < 0)
        return bh_fail(fail, errno, "open the /workspace of before");
    add_workspaces(o, &lowers);
    int rc = lowers.n > 0 ? make_upper(lowers.paths, fail) : bh_fail(fail, ENOTDIR, "find the /workspace of before");
    if (rc == 0)
        rc = bh_overlay_mount(&lowers, "workspace", BH_AT_MAKE, fail);
    bh_lowers_fini(&lowers);
    if (rc < 0)
        return -1;
    return bh_mount_move(BH_AT_MAKE, in->box, "workspace") < 0 ? bh_fail(fail, errno, "attach /workspace") : 0;
}

/* The box sees the size that it was asked to have. */
static int show_limits(struct bh_init *in, struct bh_fail *fail)
{
    int narrowed = bh_limits_narrow_cpus(&in->limits, in->number, fail);
    if (narrowed < 0 || (narrowed > 0 && bh_view_cpus(in, fail) < 0))
        return -1;
    return bh_view_memory(&in->limits, in->box, "proc/meminfo", fail);
}

/*
 * What the overlays are made of stays attached beside the box, where no agent sees it: an unmount waits for every
 * processor, and here somebody waits for us.
 */
int bh_box_assemble(struct bh_init *in, const void *msg, size_t len, const int *fds, size_t nfds, struct bh_fail *fail)
{
    struct order o;
    if (parse(&o, msg, len, fds, nfds) < 0)
        return bh_fail(fail, EPROTO, "read the order");
    in->memory = in->lent = in->before = -1;
    in->shared = o.msg->flags & BH_CREATE_SHARED;
    in->agent_uid = o.msg->agent_uid ? o.msg->agent_uid : BH_AGENT_UID;
    in->agent_gid = o.msg->agent_uid ? o.msg->agent_gid : BH_AGENT_UID;
    in->flags = o.msg->flags;
    in->number = o.msg->number;
    in->limits = o.msg->limits;
    int rc = o.msg->flags & BH_CREATE_LENT ? attach_root(&o, fail) : make_root(&o, in, fail);
    if (rc < 0 || open_root(&o, in, fail) < 0 ||
        (o.msg->flags & BH_CREATE_WORKSPACE && make_workspace(&o, in, fail) < 0))
        return -1;
    for (uint32_t i = 0; i < o.msg->n_mounts; i++) {
        if (make_mount(&o, in, fail) < 0)
            return -1;
    }
    if (in->memory >= 0 && bh_memory_limit(in->memory, &o.msg->limits, fail) < 0)
        return -1;
    if (!bh_unpack_done(&o.strings))
        return bh_fail(fail, EPROTO, "read the order");
    if (bh_mount_move("/proc", in->box, "proc") < 0 || bh_mount_move("/dev", in->box, "dev") < 0)
        return bh_fail(fail, errno, "attach /proc and /dev");
    return show_limits(in, fail);
}
