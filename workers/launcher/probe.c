/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this host can do, found out by doing it (tries.c). The answers are for people: what was found, what follows
 * where it is missing, what to do about it (cause.c). What can only be missing because something else is says so.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "workers/launcher/cause.h"

static const struct probe {
    const char *name, *doing, *effect;
    enum bh_try needs; /* another one, or itself */
} probes[BH_TRIES] = {
    [BH_TRY_USER] = {"user namespace", "make a user namespace", "no box can be made", BH_TRY_USER},
    [BH_TRY_MOUNT] = {"mount namespace", "make a mount namespace", "no box can be made", BH_TRY_USER},
    [BH_TRY_PID] = {"pid namespace", "make a pid namespace", "no box can be made", BH_TRY_USER},
    [BH_TRY_NET] = {"network namespace", "make a network namespace", "a box could not be cut off from the network",
                    BH_TRY_USER},
    [BH_TRY_IPC] = {"ipc namespace", "make an ipc namespace", "no box can be made", BH_TRY_USER},
    [BH_TRY_UTS] = {"uts namespace", "make a uts namespace", "no box can be made", BH_TRY_USER},
    [BH_TRY_CGROUP] = {"cgroup namespace", "make a cgroup namespace", "no box can be made", BH_TRY_USER},
    [BH_TRY_MOUNT_CALLS] = {"mount calls", "use the mount calls", "no box can be made", BH_TRY_MOUNT},
    [BH_TRY_OVERLAY] = {"overlay in a user namespace", "mount an overlay in a user namespace",
                        "a box has no root file system that it can write to", BH_TRY_MOUNT_CALLS},
    [BH_TRY_PROC] = {"fresh /proc", "mount a fresh /proc", "a box would see the host's processes", BH_TRY_MOUNT_CALLS},
    [BH_TRY_ROOT] = {"change of root", "change the root directory", "a box would see the host's files",
                     BH_TRY_MOUNT_CALLS},
    [BH_TRY_CALLS] = {"process calls", "start programs in a box", "no box can be made", BH_TRY_USER},
    [BH_TRY_CAPS] = {"capabilities", "take capabilities away", "agents could change their box", BH_TRY_USER},
    [BH_TRY_SECCOMP] = {"seccomp filter", "load a seccomp filter", "agents could make any system call", BH_TRY_USER},
    [BH_TRY_LANDLOCK] = {"Landlock", "use Landlock",
                         "one wall less: agents are held by namespaces, ids and the seccomp filter alone", BH_TRY_USER},
};

struct answer {
    struct bh_msg_probe head;
    struct bh_buf strings;
};

static void add(struct answer *a, const char *name, bool ok, bool required, const char *found, const char *effect,
                const char *remedy)
{
    uint64_t bit = UINT64_C(1) << a->head.n++;
    a->head.ok |= ok ? bit : 0;
    a->head.required |= required ? bit : 0;
    bh_pack_str(&a->strings, name);
    bh_pack_str(&a->strings, found);
    bh_pack_str(&a->strings, ok ? "" : effect);
    bh_pack_str(&a->strings, ok ? "" : remedy);
}

static void run_probe(const struct bh_launcher *l, enum bh_try what, uint64_t *missing, struct answer *a)
{
    const struct probe *p = &probes[what];
    bool required = what < BH_TRIES_REQUIRED;
    struct bh_fail fail = {0};
    char found[BH_STEP_MAX + 64] = "works";
    BH_CLEANUP_BUF struct bh_buf remedy = BH_BUF_INIT;
    bool base = p->needs != what && (*missing & UINT64_C(1) << p->needs);
    if (base)
        (void)snprintf(found, sizeof(found), "not tried: needs what is missing above (%s)", probes[p->needs].name);
    else if (l->stranded)
        fail = l->fail;
    else
        (void)bh_try(l, what, &fail);
    if (fail.error == ECANCELED)
        (void)snprintf(found, sizeof(found), "not tried: needs the set-up of boxes, see below");
    else if (fail.error) {
        (void)snprintf(found, sizeof(found), "%s from %s", strerrorname_np(fail.error), fail.step);
        bh_cause_of(l, what, &fail, &remedy);
    }
    bool ok = !base && fail.error == 0;
    *missing |= ok ? 0 : UINT64_C(1) << what;
    add(a, p->name, ok, required, found, p->effect, remedy.len > 0 ? remedy.data : "");
}

static void add_own_state(const struct bh_launcher *l, uint64_t missing, struct answer *a)
{
    char found[BH_STEP_MAX + 64] = "works";
    BH_CLEANUP_BUF struct bh_buf remedy = BH_BUF_INIT;
    if (l->fail.error) {
        (void)snprintf(found, sizeof(found), "cannot %s: %s", l->fail.step, strerror(l->fail.error));
        if (missing & ((UINT64_C(1) << BH_TRIES_REQUIRED) - 1))
            bh_buf_adds(&remedy, "see the first thing that is missing above");
        else
            bh_cause_of_setup(l, &remedy);
    }
    add(a, "set-up of boxes", !l->fail.error, true, found, "no box can be made", remedy.len > 0 ? remedy.data : "");
    bool range = l->mode == BH_IDS_RANGE;
    add(a, "range of ids", range, false, range ? "200000-265535" : "one id",
        "root and the agent of a box are the same user outside; files of the host in a writable /usr cannot be changed",
        "run as root");
    add(a, "ids of inputs", !range || (!l->no_idmap && l->agent_ns >= 0), false,
        !range        ? "not needed"
        : l->no_idmap ? "the file system cannot do it"
                      : "works",
        range ? "inputs have no owner in a box (they can be read)" : "", "");
}

void bh_probe(struct bh_launcher *l)
{
    struct answer a = {.head = {.kind = BH_MSG_PROBE}, .strings = BH_BUF_INIT};
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    uint64_t missing = 0;
    bh_tries_begin(l, true);
    (void)prctl(PR_SET_DUMPABLE, 1); /* the maps of a child that is not dumpable belong to root; no box is there yet */
    for (int i = 0; i < BH_TRIES; i++)
        run_probe(l, (enum bh_try)i, &missing, &a);
    (void)prctl(PR_SET_DUMPABLE, 0);
    bh_tries_end(l);
    add_own_state(l, missing, &a);
    bh_buf_add(&out, &a.head, sizeof(a.head));
    bh_buf_add(&out, a.strings.data, a.strings.len);
    bh_buf_fini(&a.strings);
    if (bh_msg_send(l->worker, out.data, out.len, NULL, 0) < 0)
        _exit(1);
}

/* No base was ever made here: whether boxes can live on this file system is not known. */
static bool is_new_home(const struct bh_launcher *l)
{
    DIR *dir = bh_dir_stream(openat(l->home, "bases", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    size_t n = 0;
    if (!dir)
        return true;
    while (readdir(dir))
        n++;
    (void)closedir(dir);
    return n <= 2; /* "." and ".." */
}

int bh_probe_all(struct bh_launcher *l)
{
    struct bh_fail fail = {0};
    enum bh_try which = BH_TRY_USER;
    bool new_home = is_new_home(l);
    bh_tries_begin(l, new_home);
    int rc = bh_try_all(l, new_home, &which, &fail);
    bh_tries_end(l);
    return rc == 0 ? 0 : bh_fail(&l->fail, fail.error, "%s (%s)", probes[which].doing, fail.step);
}
