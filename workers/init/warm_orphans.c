/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fork of a warm process lives in another box, but its parent, who went away at once, lived here: so it is our child,
 * and the kernel tells us alone how it ends. The worker, which knows from its pidfd what number it has here, asks.
 * It may have ended before: the last ones are remembered. One that lives may run when it was found to share nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/init/init.h"

#define REMEMBERED 256

struct asked {
    uint64_t id;
    pid_t pid;
};

struct bh_orphans {
    struct asked *asked;
    size_t n, cap;
    struct bh_orphan last[REMEMBERED]; /* pid 0: told */
    size_t next;
};

static struct bh_orphans *of(struct bh_init *in)
{
    if (!in->orphans)
        in->orphans = bh_calloc(1, sizeof(*in->orphans));
    return in->orphans;
}

void bh_orphans_ended(struct bh_init *in, const struct bh_orphan *o)
{
    struct bh_orphans *all = of(in);
    for (size_t i = 0; i < all->n; i++) {
        if (all->asked[i].pid != o->pid)
            continue;
        uint64_t id = all->asked[i].id;
        all->asked[i] = all->asked[--all->n];
        bh_orphans_report(in, id, o);
        return;
    }
    all->last[all->next++ % REMEMBERED] = *o;
}

static struct bh_orphan *remembered(struct bh_orphans *all, pid_t pid)
{
    for (size_t i = 0; i < REMEMBERED; i++) {
        struct bh_orphan *o = &all->last[(all->next + REMEMBERED - 1 - i) % REMEMBERED]; /* the newest first */
        if (o->pid == pid)
            return o;
    }
    return NULL;
}

static bool is_child(pid_t pid)
{
    siginfo_t info;
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/* A fork whose end nobody hears of would keep its box from ending: who has kept it dies, and it is left to us. */
static void kill_parent(pid_t pid)
{
    char path[64], text[1024];
    int parent = 0;
    (void)snprintf(path, sizeof(path), BH_AT_BOX "/proc/%d/status", (int)pid);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (n <= 0)
        return;
    text[n] = '\0';
    const char *at = strstr(text, "\nPPid:");
    if (at && sscanf(at, "\nPPid: %d", &parent) == 1 && parent > 1)
        (void)kill(parent, SIGKILL);
}

void bh_orphans_adopt(struct bh_init *in, uint64_t id, pid_t pid)
{
    struct bh_orphans *all = of(in);
    struct bh_orphan *o = pid > 1 ? remembered(all, pid) : NULL;
    struct bh_fail fail = {0};
    bool child = pid > 1 && is_child(pid); /* a living one may have the number of one that is remembered */
    if (o && !child) {
        bh_orphans_adopted(in, id);
        bh_orphans_report(in, id, o);
        o->pid = 0;
    } else if (!child) {
        if (pid > 1)
            kill_parent(pid);
        (void)bh_fail(&fail, ECHILD, "learn how it ends: its fork server has not let go of it");
        bh_orphans_refuse(in, id, &fail);
    } else if (bh_warm_check_kin(pid, BH_AT_BOX "/proc", &fail) < 0) {
        bh_orphans_refuse(in, id, &fail);
    } else {
        struct asked *a = BH_PUSH(all->asked, all->n, all->cap);
        *a = (struct asked){.id = id, .pid = pid};
        bh_orphans_adopted(in, id);
    }
}
