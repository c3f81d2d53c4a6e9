/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child of init that becomes a command, in a mount namespace that holds what this one exec is to see: deliver and
 * init's own directories are not hidden there but gone. There are two ways into it.
 *
 * The first exec of a box that is not shared finds a namespace that the shell has made ahead, empty (bh_narrow_make),
 * enters it and mounts a copy of the box over its root: nothing has to be unmounted, which the kernel would wait for.
 * Every other one was cloned with a copy of init's namespace, puts things in place there, and narrows it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

struct stage {
    const struct bh_init *in;
    const struct bh_exec_plan *plan;
    int box;
    struct bh_place place;
    int inputs; /* a detached mount for /workspace/in, where a narrow namespace is entered; else -1 */
};

BH_NORETURN void bh_exec_fail(int note_fd, const struct bh_fail *fail)
{
    struct bh_exec_note note = {.fail = *fail};
    ssize_t n = write(note_fd, &note, sizeof(note));
    _exit(n == (ssize_t)sizeof(note) ? 127 : 126);
}

/* Descriptors of init belong to init's mount namespace; these are the same places in ours. */
static int open_places(struct stage *s, struct bh_fail *fail)
{
    const int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    s->box = open(BH_AT_BOX, flags);
    s->place.deliver = open(BH_AT_DELIVER, flags);
    if (s->box < 0 || s->place.deliver < 0)
        return bh_fail(fail, errno, "open the box");
    s->place.workspace = bh_open_beneath(s->box, "workspace", O_RDONLY | O_DIRECTORY, 0);
    if (s->place.workspace < 0)
        return bh_fail(fail, errno, "open /workspace");
    s->place.owner = bh_agent_owner(s->in);
    s->place.replace = s->plan->flags & BH_EXEC_REPLACE;
    return 0;
}

/*
 * Inputs share their inodes with the store and with other boxes. An overlay of nothing but lower directories gives them
 * inodes of their own, so that no lease, lock or watch reaches past this exec.
 */
static int make_inputs(struct stage *s, struct bh_fail *fail)
{
    char lower[128];
    const char *const options[] = {lower, NULL};
    const uint64_t attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (!s->plan->inputs) {
        s->inputs = bh_mount_clone(AT_FDCWD, BH_AT_EMPTY, false);
        return s->inputs < 0 ? bh_fail(fail, errno, "attach /workspace/in") : 0;
    }
    BH_CLEANUP_FD int fd = bh_open_beneath(s->place.deliver, s->plan->inputs, O_PATH | O_DIRECTORY, 0);
    if (fd < 0)
        return bh_fail(fail, errno, "open the inputs '%s'", s->plan->inputs);
    (void)snprintf(lower, sizeof(lower), "lowerdir=" BH_AT_BOX "/proc/self/fd/%d:" BH_AT_EMPTY, fd);
    s->inputs = bh_mount_new("overlay", options, attrs, fail);
    return s->inputs < 0 ? -1 : 0;
}

static int attach_inputs(struct stage *s, int dirfd, const char *path, struct bh_fail *fail)
{
    if (bh_mount_attach(s->inputs, dirfd, path) < 0)
        return bh_fail(fail, errno, "attach /workspace/in");
    bh_close(BH_TAKE_FD(s->inputs));
    return 0;
}

static int mount_inputs(struct stage *s, struct bh_fail *fail)
{
    if (bh_place_target(s->place.workspace, "in", true, fail) < 0 || make_inputs(s, fail) < 0)
        return -1;
    return bh_exec_enters(s->in, s->plan) ? 0 : attach_inputs(s, s->place.workspace, "in", fail);
}

struct own_file {
    const char *from, *name;
};

static size_t own_files(const struct bh_exec_plan *plan, struct own_file ret[3])
{
    size_t n = 0;
    if (plan->prompt)
        ret[n++] = (struct own_file){plan->prompt, "prompt.md"};
    if (plan->params)
        ret[n++] = (struct own_file){plan->params, "params.json"};
    if (plan->needs)
        ret[n++] = (struct own_file){plan->needs, "needs.json"};
    return n;
}

static int show_private(struct stage *s, const char *name, struct bh_fail *fail)
{
    char path[64];
    (void)snprintf(path, sizeof(path), BH_AT_MAKE "/%s", name);
    BH_CLEANUP_FD int fd = bh_mount_clone(AT_FDCWD, path, false);
    if (fd < 0 || bh_place_target(s->place.workspace, name, false, fail) < 0)
        return fd < 0 ? bh_fail(fail, errno, "copy '%s'", name) : -1;
    if (bh_mount_attach(fd, s->place.workspace, name) < 0)
        return bh_fail(fail, errno, "attach /workspace/%s", name);
    return 0;
}

/* In a shared box the root is everybody's: files of one agent's own are mounted over it, from memory. */
static int mount_own_files(struct stage *s, const struct own_file *files, size_t n, struct bh_fail *fail)
{
    static const char *const options[] = {"mode=0700", "size=50%", NULL};
    BH_CLEANUP_FD int fd = bh_mount_new("tmpfs", options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, fail);
    if (fd < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        BH_CLEANUP_FD int none = files[i].from ? -1 : openat(fd, files[i].name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
        if (files[i].from ? bh_place_private(&s->place, files[i].from, fd, files[i].name, fail) < 0 : none < 0)
            return files[i].from ? -1 : bh_fail(fail, errno, "make %s", files[i].name);
    }
    if (bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0 ||
        move_mount(fd, "", AT_FDCWD, BH_AT_MAKE, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "attach own files");
    for (size_t i = 0; i < n; i++) {
        if (show_private(s, files[i].name, fail) < 0)
            return -1;
    }
    return umount2(BH_AT_MAKE, MNT_DETACH) < 0 ? bh_fail(fail, errno, "let go of own files") : 0;
}

static int place_own_files(struct stage *s, struct bh_fail *fail)
{
    struct own_file files[3];
    size_t n = own_files(s->plan, files);
    if (s->in->shared) {
        const struct own_file all[3] = {
            {s->plan->prompt, "prompt.md"}, {s->plan->params, "params.json"}, {s->plan->needs, "needs.json"}};
        return mount_own_files(s, all, 3, fail);
    }
    for (size_t i = 0; i < n; i++) {
        if (bh_place_copy(&s->place, files[i].from, files[i].name, false, fail) < 0)
            return -1;
    }
    return 0;
}

static int place_files(struct stage *s, struct bh_fail *fail)
{
    if (s->plan->flags & BH_EXEC_RESTORE && s->in->before >= 0 &&
        bh_shadows_restore(&s->place, s->in->before, s->plan, fail) < 0)
        return -1;
    for (uint32_t i = 0; i < s->plan->n_empty; i++) {
        if (bh_place_empty(&s->place, s->plan->empty[i], fail) < 0)
            return -1;
    }
    for (uint32_t i = 0; i < s->plan->n_copies; i++) {
        if (bh_place_file(&s->place, s->plan->copies[i].from, s->plan->copies[i].to, s->plan->copies[i].exec, fail) < 0)
            return -1;
    }
    return place_own_files(s, fail);
}

/* --- the namespace --- */

int bh_narrow_make(struct bh_fail *fail)
{
    BH_CLEANUP_FD int wide = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (wide < 0 || unshare(CLONE_NEWNS) < 0)
        return bh_fail(fail, errno, "make a mount namespace");
    BH_CLEANUP_FD int narrow = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
    BH_CLEANUP_FD int root = bh_mount_clone(AT_FDCWD, BH_AT_EMPTY, false);
    if (narrow < 0 || root < 0 || move_mount(root, "", AT_FDCWD, BH_AT_EMPTY, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return bh_fail(fail, errno, "attach an empty root");
    if (fchdir(root) < 0 || bh_mount_enter() < 0)
        return bh_fail(fail, errno, "enter an empty root");
    if (setns(wide, CLONE_NEWNS) < 0)
        return bh_fail(fail, errno, "come back to the own mount namespace");
    return BH_TAKE_FD(narrow);
}

/*
 * chroot because the root of a process does not follow when something is mounted over it. It is the topmost mount on
 * the root of its namespace, so nothing lies above it, and below it an empty directory.
 */
static int enter_narrow(struct stage *s, struct bh_fail *fail)
{
    BH_CLEANUP_FD int box = bh_mount_clone(AT_FDCWD, BH_AT_BOX, true);
    if (box < 0)
        return bh_fail(fail, errno, "copy the mounts of the box");
    if (setns(s->in->narrow, CLONE_NEWNS) < 0)
        return bh_fail(fail, errno, "enter a mount namespace");
    if (move_mount(box, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(box) < 0 || chroot(".") < 0)
        return bh_fail(fail, errno, "enter the box");
    return attach_inputs(s, box, "workspace/in", fail);
}

static int narrow(struct stage *s, struct bh_fail *fail)
{
    if (bh_exec_enters(s->in, s->plan))
        return enter_narrow(s, fail);
    if (bh_exec_is_own(s->in, s->plan)) {
        /* The new one first: the kernel asks that one can be seen already. */
        if (bh_proc_mount(s->in->setup, s->box, "proc", fail) < 0)
            return -1;
        const struct bh_msg_limits *own = s->plan->limits.asked & BH_LIMITS_MEMORY ? &s->plan->limits : &s->in->limits;
        if (bh_view_memory(own, s->box, "proc/meminfo", fail) < 0)
            return -1;
    }
    if (fchdir(s->box) < 0 || bh_mount_enter() < 0)
        return bh_fail(fail, errno, "enter the box");
    return 0;
}

static int stage(struct stage *s, struct bh_fail *fail)
{
    if (open_places(s, fail) < 0 || mount_inputs(s, fail) < 0 || place_files(s, fail) < 0)
        return -1;
    if (s->plan->resolver && bh_own_net_resolver(s->box, s->plan->resolver, fail) < 0)
        return -1;
    return narrow(s, fail);
}

BH_NORETURN void bh_stage_main(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd)
{
    struct bh_fail fail = {0};
    struct stage s = {.in = in, .plan = plan, .inputs = -1};
    const bool warm = plan->flags & BH_EXEC_WARM;
    umask(022);
    if (note_fd == BH_WARM_FD && plan->flags & BH_EXEC_WARM_SERVER)
        note_fd = fcntl(note_fd, F_DUPFD_CLOEXEC, BH_WARM_FD + 1);
    if ((!warm && bh_join_groups(&plan->join, &fail) < 0) || bh_own_net_enter(in, plan, &fail) < 0 ||
        stage(&s, &fail) < 0)
        bh_exec_fail(note_fd, &fail);
    if (warm) {
        (void)bh_warm_fork(in, plan, note_fd, &fail);
        bh_exec_fail(note_fd, &fail);
    }
    if (bh_exec_is_own(in, plan))
        bh_group_main(in, plan, note_fd);
    (void)bh_become(in, plan, note_fd, &fail);
    bh_exec_fail(note_fd, &fail);
}
