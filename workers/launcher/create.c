/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the worker's request to an order for a shell. Everything of the host that a box gets is opened here, with our
 * rights, and handed over as a detached mount: the box needs no path of the host and no right to walk one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/process.h"
#include "base/text.h"
#include "workers/box/folder.h"
#include "workers/init/mounts.h"
#include "workers/launcher/launcher.h"

struct order {
    const struct bh_msg_create *msg;
    const char *usr_dirs;  /* NULL: none */
    const char *workspace; /* key of the box that it is of; NULL: none */
    const char *of, *kept; /* whose the layers are, and its kept box: "" or NULL, none */
    const char *run, *key, *base[BH_BASE_MAX], *layers[64], *snapshots[64];
    int root;                /* that was lent, the worker's; -1: none */
    int layers_dir;          /* -1: no layers */
    int snapshots_dir;       /* -1: no snapshots */
    int fds[BH_MSG_MAX_FDS]; /* the first is the worker's, which is not ours to close */
    size_t nfds;
    struct bh_buf out; /* the order */
    uint32_t n_mounts;
};

/* Layer names go into mount options. */
static bool segment_valid(const char *s)
{
    return s && s[0] && s[0] != '.' && !strpbrk(s, "/:,\\") && strlen(s) <= 100;
}

/* That of a box that is made ahead is hidden. */
static bool key_valid(const char *s)
{
    return s && segment_valid(bh_starts_with(s, BH_BOX_GONE) ? s + 1 : s);
}

static bool parse_list(struct bh_unpack *u, const char **list, uint32_t n)
{
    bool valid = true;
    for (uint32_t i = 0; i < n; i++) {
        list[i] = bh_unpack_str(u);
        valid = valid && segment_valid(list[i]);
    }
    return valid;
}

static int parse(struct order *o, const void *data, size_t len, struct bh_fail *fail)
{
    const struct bh_msg_create *msg = data;
    const char *text = data;
    struct bh_unpack u = {text + sizeof(*msg), text + len};
    o->msg = msg;
    if (msg->n_layers > BH_ARRAY_LEN(o->layers) || msg->n_base > BH_ARRAY_LEN(o->base) ||
        msg->n_snapshots > BH_ARRAY_LEN(o->snapshots))
        return bh_fail(fail, E2BIG, "read the request: too many layers");
    o->run = bh_unpack_str(&u);
    o->key = bh_unpack_str(&u);
    bool valid = msg->n_base > 0 && o->run && bh_path_is_clean(o->run) && key_valid(o->key);
    valid = parse_list(&u, o->base, msg->n_base) && valid;
    valid = parse_list(&u, o->layers, msg->n_layers) && valid;
    valid = parse_list(&u, o->snapshots, msg->n_snapshots) && valid;
    if (msg->flags & BH_CREATE_USR_DIRS)
        valid = parse_list(&u, &o->usr_dirs, 1) && valid;
    if (msg->flags & BH_CREATE_WORKSPACE)
        valid = parse_list(&u, &o->workspace, 1) && valid;
    o->of = o->run;
    if (msg->flags & BH_CREATE_FORK) {
        o->of = bh_unpack_str(&u);
        o->kept = bh_unpack_str(&u);
        valid = valid && o->of && bh_path_is_clean(o->of) && o->kept && (!o->kept[0] || segment_valid(o->kept));
    }
    return valid && bh_unpack_done(&u) ? 0 : bh_fail(fail, EINVAL, "read the request");
}

static int add_mount(struct order *o, int fd, const char *what, struct bh_fail *fail)
{
    if (fd < 0)
        return bh_fail(fail, errno, "open %s", what);
    if (o->nfds == BH_MSG_MAX_FDS) {
        bh_close(fd);
        return bh_fail(fail, E2BIG, "open %s", what);
    }
    o->fds[o->nfds++] = fd;
    return 0;
}

/* Read-only view of what root of the host owns, as owned by the agent. Not every file system can do that; then the
 * files have no owner in the box and are readable all the same. */
static int clone_delivered(struct bh_launcher *l, int home, uint32_t agent)
{
    int agent_ns = l->no_idmap ? -1 : bh_ids_agent_ns(l, agent ? agent : BH_AGENT_UID);
    BH_CLEANUP_FD int fd = bh_mount_clone(home, "deliver", false);
    if (fd < 0 || bh_mount_restrict(fd, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, false) < 0)
        return -1;
    if (agent_ns >= 0 && bh_mount_idmap(fd, agent_ns) < 0)
        l->no_idmap = true;
    return BH_TAKE_FD(fd);
}

static int add_home(struct bh_launcher *l, struct order *o, const char *start, pid_t pid, struct bh_fail *fail)
{
    static char boot[BH_PROCESS_BOOT]; /* read once */
    char path[512], text[96];
    (void)snprintf(path, sizeof(path), "%s/boxes/%s", o->run, o->key);
    BH_CLEANUP_FD int home = bh_open_beneath(l->home, path, O_PATH | O_DIRECTORY, 0);
    if (home < 0)
        return bh_fail(fail, errno, "open the box's folder");
    /* Before the box touches anything: from this file the next owner of the run knows what to end. */
    if (!boot[0])
        bh_process_boot(boot);
    int len = snprintf(text, sizeof(text), "%d %s %s\n", (int)pid, start, boot);
    BH_CLEANUP_FD int file = openat(home, "pid", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || bh_write_all(file, text, (size_t)len) < 0)
        return bh_fail(fail, errno, "write the pid file");
    bool lent = o->msg->flags & BH_CREATE_LENT;
    if (!lent && add_mount(o, bh_mount_clone(home, "", false), "the box's folder", fail) < 0)
        return -1;
    return add_mount(o, clone_delivered(l, home, o->msg->agent_uid), "the deliver folder", fail);
}

static int add_folder(struct bh_launcher *l, struct order *o, const char *path, int *ret_dir, const char *what,
                      struct bh_fail *fail)
{
    *ret_dir = bh_open_beneath(l->home, path, O_PATH | O_DIRECTORY, 0);
    if (*ret_dir < 0)
        return bh_fail(fail, errno, "open %s", what);
    return add_mount(o, bh_mount_clone(*ret_dir, "", false), what, fail);
}

static int add_base(struct bh_launcher *l, struct order *o, struct bh_fail *fail)
{
    char path[512];
    bool host = o->msg->flags & BH_CREATE_HOST_TREES; /* of an image the folders are found below the mount, by name */
    if (host)
        (void)snprintf(path, sizeof(path), "bases/%s", o->base[0]);
    else
        (void)snprintf(path, sizeof(path), BH_IMAGES_DIR);
    BH_CLEANUP_FD int base = bh_open_beneath(l->home, path, O_PATH | O_DIRECTORY, 0);
    if (base < 0 || add_mount(o, bh_mount_clone(base, "", false), "the base", fail) < 0)
        return base < 0 ? bh_fail(fail, errno, "open the base '%s'", o->base[0]) : -1;
    return 0;
}

/* There the base is, and nothing else. */
static int add_lent(struct order *o, struct bh_fail *fail)
{
    if (o->root < 0 || o->msg->n_layers > 0 || o->msg->n_snapshots > 0)
        return bh_fail(fail, EPROTO, "read the request");
    return add_mount(o, fcntl(o->root, F_DUPFD_CLOEXEC, 3), "the root", fail);
}

static int add_layers(struct bh_launcher *l, struct order *o, struct bh_fail *fail)
{
    char path[512];
    bool lent = o->msg->flags & BH_CREATE_LENT;
    if ((lent ? add_lent(o, fail) : add_base(l, o, fail)) < 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/layers", o->of);
    if (o->msg->n_layers > 0 && add_folder(l, o, path, &o->layers_dir, "the layers", fail) < 0)
        return -1;
    if (o->msg->n_snapshots == 0)
        return 0;
    return add_folder(l, o, BH_SNAPSHOTS_DIR, &o->snapshots_dir, "the snapshots", fail);
}

static int add_usr_dirs(struct bh_launcher *l, struct order *o, struct bh_fail *fail)
{
    char path[512];
    BH_CLEANUP_FD int dirs = -1;
    if (!o->usr_dirs)
        return 0;
    (void)snprintf(path, sizeof(path), "bases/%s", o->usr_dirs);
    return add_folder(l, o, path, &dirs, "the directories of /usr", fail);
}

/* What a box that is dead has written. */
static int add_past(struct bh_launcher *l, struct order *o, struct bh_fail *fail)
{
    char path[512];
    BH_CLEANUP_FD int upper = -1;
    if (!o->workspace)
        return 0;
    (void)snprintf(path, sizeof(path), "%s/boxes/%s/upper", o->run, o->workspace);
    return add_folder(l, o, path, &upper, "the box before", fail);
}

static bool has_kept(const struct order *o)
{
    return o->kept && o->kept[0];
}

/* What a box that was kept has written: shown to another one, which writes elsewhere. */
static int add_kept(struct bh_launcher *l, struct order *o, struct bh_fail *fail)
{
    char path[512];
    if (!has_kept(o))
        return 0;
    (void)snprintf(path, sizeof(path), "%s/boxes/%s/upper", o->of, o->kept);
    BH_CLEANUP_FD int upper = bh_open_beneath(l->home, path, O_PATH | O_DIRECTORY, 0);
    if (upper < 0)
        return bh_fail(fail, errno, "open the kept box '%s'", o->kept);
    return add_mount(o, bh_mount_clone(upper, "", false), "the kept box", fail);
}

static int add_tree_mount(struct order *o, int fd, char kind, const char *path, struct bh_fail *fail)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "%c%s", kind, path);
    if (add_mount(o, fd, path, fail) < 0)
        return -1;
    bh_pack_str(&o->out, text);
    o->n_mounts++;
    return 0;
}

static int clone_tree(const struct bh_launcher *l, const char *name, bool recursive, bool as_box_root)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "/%s", name);
    BH_CLEANUP_FD int fd = bh_mount_clone(AT_FDCWD, path, recursive);
    if (fd >= 0 && as_box_root && l->range_ns >= 0 && bh_mount_idmap(fd, l->range_ns) < 0)
        return -1;
    return BH_TAKE_FD(fd);
}

/* An overlay cannot have a lower with mounts below it; where there are some, only root of the host can take the top
 * alone, and the others are shown on it as they are. */
static int add_overlay(struct bh_launcher *l, struct order *o, const struct bh_host_tree *t, struct bh_fail *fail)
{
    if (add_tree_mount(o, clone_tree(l, t->name, false, true), BH_MOUNT_OVERLAY, t->name, fail) < 0)
        return -1;
    for (size_t i = 0; i < t->n_submounts; i++) {
        if (add_tree_mount(o, clone_tree(l, t->submounts[i], true, false), BH_MOUNT_BIND, t->submounts[i], fail) < 0)
            return -1;
    }
    return 0;
}

static bool one_has(int dir, const char *const *names, uint32_t n, const char *tree)
{
    for (uint32_t i = 0; i < n; i++) {
        char path[256];
        struct stat st;
        (void)snprintf(path, sizeof(path), "%s/%s", names[i], tree);
        if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
            return true;
    }
    return false;
}

static bool some_layer_has(const struct order *o, const char *tree)
{
    return one_has(o->layers_dir, o->layers, o->msg->n_layers, tree) ||
           one_has(o->snapshots_dir, o->snapshots, o->msg->n_snapshots, tree);
}

/* As it is shown to all boxes (tree.c). */
static int add_shown(struct bh_launcher *l, struct order *o, const struct bh_host_tree *t, struct bh_fail *fail)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "%s%s", t->shown ? "shown/" : "", t->name);
    return add_tree_mount(o, clone_tree(l, path, true, false), BH_MOUNT_BIND, t->name, fail);
}

static int add_trees(struct bh_launcher *l, struct order *o, struct bh_fail *fail)
{
    if (!(o->msg->flags & BH_CREATE_HOST_TREES))
        return 0;
    for (size_t i = 0; i < l->n_trees; i++) {
        const struct bh_host_tree *t = &l->trees[i];
        bool changed = o->msg->flags & BH_CREATE_WRITABLE_USR || some_layer_has(o, t->name);
        bool can = t->may_overlay && (t->n_submounts == 0 || l->range_ns >= 0);
        int rc = changed && can ? add_overlay(l, o, t, fail) : add_shown(l, o, t, fail);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int fill_order(struct bh_launcher *l, struct order *o, const struct bh_shell *shell, struct bh_fail *fail)
{
    struct bh_msg_box head = {.kind = BH_MSG_BOX, .flags = o->msg->flags, .n_layers = o->msg->n_layers};
    head.n_snapshots = o->msg->n_snapshots;
    head.agent_uid = o->msg->agent_uid;
    head.agent_gid = o->msg->agent_gid;
    head.limits = o->msg->limits;
    head.n_base = o->msg->flags & BH_CREATE_HOST_TREES ? 0 : o->msg->n_base;
    head.flags |= l->box_flags | (has_kept(o) ? BH_CREATE_KEPT : 0);
    head.number = ++l->boxes;
    bh_buf_add(&o->out, &head, sizeof(head));
    for (uint32_t i = 0; i < head.n_base; i++)
        bh_pack_str(&o->out, o->base[i]);
    for (uint32_t i = 0; i < o->msg->n_layers; i++)
        bh_pack_str(&o->out, o->layers[i]);
    for (uint32_t i = 0; i < o->msg->n_snapshots; i++)
        bh_pack_str(&o->out, o->snapshots[i]);
    if (add_home(l, o, shell->start, shell->pid, fail) < 0 || add_layers(l, o, fail) < 0 ||
        add_usr_dirs(l, o, fail) < 0 || add_past(l, o, fail) < 0 || add_kept(l, o, fail) < 0 ||
        add_trees(l, o, fail) < 0)
        return -1;
    head.n_mounts = o->n_mounts;
    memcpy(o->out.data, &head, sizeof(head));
    if (bh_msg_send(shell->channel, o->out.data, o->out.len, o->fds, o->nfds) < 0)
        return bh_fail(fail, errno, "give the shell its order");
    return 0;
}

static void reply(struct bh_launcher *l, uint64_t id, const struct bh_shell *shell, const struct bh_fail *fail)
{
    struct bh_msg_created msg = {.kind = BH_MSG_CREATED,
                                 .id = id,
                                 .error = fail->error,
                                 .group = shell->group,
                                 .group_again = shell->group_again};
    bh_step_set(msg.step, fail->step);
    if (!fail->error)
        msg.pid = shell->pid;
    if (bh_msg_send(l->worker, &msg, sizeof(msg), &shell->pidfd, fail->error ? 0 : 1) < 0)
        _exit(1); /* the worker is gone */
}

static int take_shell(struct bh_launcher *l, const struct bh_msg_create *msg, const int *fds, struct bh_shell *ret,
                      struct bh_fail *fail)
{
    if (msg->flags & BH_CREATE_HOST_NETWORK)
        return msg->flags & (BH_CREATE_BENEATH | BH_CREATE_LENT | BH_CREATE_LEND | BH_CREATE_WARM)
                   ? bh_fail(fail, EPROTO, "read the request")
                   : bh_pool_make_on_host(l, ret, fail);
    if (!(msg->flags & BH_CREATE_BENEATH))
        return bh_pool_take(l, ret, fail);
    struct bh_beneath where = {
        .user_ns = fds[1], .pid_ns = fds[2], .agent_uid = BH_AGENT_UID, .agent_gid = BH_AGENT_UID};
    if (msg->agent_uid) {
        where.agent_uid = msg->agent_uid;
        where.agent_gid = msg->agent_gid;
    }
    return bh_pool_make_beneath(l, &where, ret, fail);
}

static size_t fds_of(uint32_t flags)
{
    if (flags & BH_CREATE_BENEATH)
        return 3;
    return flags & BH_CREATE_LENT ? 2 : 1;
}

void bh_create(struct bh_launcher *l, const void *msg, size_t len, const int *fds, size_t nfds)
{
    struct bh_fail fail = {0};
    struct bh_shell shell = {.pidfd = -1, .channel = -1};
    struct order o = {.root = -1, .layers_dir = -1, .snapshots_dir = -1, .out = BH_BUF_INIT, .nfds = 1};
    if (len < sizeof(struct bh_msg_create))
        return;
    const struct bh_msg_create *head = msg;
    uint64_t id = head->id;
    if (nfds != fds_of(head->flags))
        (void)bh_fail(&fail, EPROTO, "read the request");
    else if (l->mode == BH_IDS_NONE)
        fail = l->fail;
    else if (parse(&o, msg, len, &fail) == 0 && take_shell(l, head, fds, &shell, &fail) == 0) {
        o.fds[0] = fds[0];
        o.root = head->flags & BH_CREATE_LENT && nfds == 2 ? fds[1] : -1;
        if (bh_groups_limit(l, msg, &shell, &fail) == 0)
            (void)fill_order(l, &o, &shell, &fail);
    }
    reply(l, id, &shell, &fail);
    for (size_t i = 1; i < o.nfds; i++)
        bh_close(o.fds[i]);
    bh_close(o.layers_dir);
    bh_close(o.snapshots_dir);
    bh_buf_fini(&o.out);
    bh_shell_close(&shell);
    bh_pool_refill(l);
}
