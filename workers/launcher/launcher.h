/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-launcher, inside: the one process that makes boxes. Single-threaded, started before the worker has threads,
 * dies with the worker and takes everything that it made with it. It keeps no state of a box: once a shell has become
 * one, the worker holds its socket and its pidfd, and the launcher only reaps it.
 */
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include "base/process.h"
#include "workers/cgroup/cgroup.h"
#include "workers/init/fail.h"

struct bh_shell {
    pid_t pid;
    int pidfd, channel;
    char start[BH_PROCESS_START]; /* /proc's start time, for the pid file */
    uint32_t group;               /* the number of its control group, 0: none */
    bool group_again;             /* that of a box may be used again */
};

#define BH_POOL_SHELLS 2 /* made ahead; more are made when they are asked for */
#define BH_GROUPS_KEPT 8 /* groups that boxes share one after the other */
#define BH_TREES_MAX 8
#define BH_AGENT_NS_MAX 4
#define BH_SUBMOUNTS_MAX 4

/* A control group that is used more than once, with the descriptors by which a shell joins it. */
struct bh_kept_group {
    uint32_t number; /* 0: none */
    bool free;       /* nobody is in it */
    int64_t cpus;    /* its limit, 0: none */
    bool into;
    int fds[BH_CGROUP_PARTS], n;
};

/* A directory of the host that boxes see. */
struct bh_host_tree {
    const char *name;                  /* "usr": at /usr of our root as it is, for overlays of a box's own */
    bool shown;                        /* at /shown/usr through an overlay: what boxes see that change nothing */
    bool may_overlay;                  /* where /usr is asked for writable */
    char *submounts[BH_SUBMOUNTS_MAX]; /* mounts of the host below it, relative to "/" */
    size_t n_submounts;
};

struct bh_launcher {
    const char *program, *home_path; /* as we were started with */
    bool in_tree;                    /* our root is the tree of tree.c */
    bool stranded;                   /* in a user namespace without ids: no try tells anything any more */
    int worker, spawner, signals;
    int host_spawner; /* makes shells in our network, for boxes that have it; -1: no such box was asked for yet */
    int init;         /* bulkhead-init, to be executed */
    int home;         /* of the state directory, in our mount namespace */
    enum bh_id_mode mode;
    uint32_t first_id;
    bool mask_proc;
    struct bh_fail fail;    /* why mode is NONE */
    int range_ns, agent_ns; /* user namespaces for idmapped mounts, -1: none */
    struct bh_agent_ns {    /* of users of images, beside agent_ns */
        uint32_t uid;       /* 0: none */
        int ns;
    } agents[BH_AGENT_NS_MAX];
    size_t next_agent;
    bool no_idmap; /* the file system of the state directory cannot do it */
    struct bh_host_tree trees[BH_TREES_MAX];
    size_t n_trees;
    int filter, server_filter; /* memfds */
    struct bh_shell pool[BH_POOL_SHELLS];
    size_t pool_len, pool_asked;
    struct bh_cgroup cgroup;
    struct bh_cgroup_limits usual;      /* what most boxes get, and groups have from the beginning; not cpus */
    uint32_t preset;                    /* BH_CGROUP_BITs of it that could be set */
    uint32_t groups;                    /* how many were made */
    uint32_t asked[BH_POOL_SHELLS + 1]; /* those of the shells that are asked for, which come in that order */
    struct bh_kept_group kept[BH_GROUPS_KEPT];
    uint32_t box_flags; /* BH_BOX_* of every box */
    uint32_t boxes;
};

/* ids.c: finds out how ids can be mapped, by doing it; enters namespaces of our own. */
int bh_ids_enter(struct bh_launcher *l);
/* Through which a mount shows what is ours as owned by that id of a box; -1: it cannot. Borrowed. */
int bh_ids_agent_ns(struct bh_launcher *l, uint32_t uid);
/* Clones a child into new namespaces (CLONE_NEW*, with NEWUSER) with its ids mapped as those of boxes, runs fn in it as
 * root of it and gives its errno (0: it went well). *ret_call (may be NULL): what failed where it was not fn. */
int bh_ids_try(const struct bh_launcher *l, uint64_t namespaces, int (*fn)(const struct bh_launcher *l),
               const char **ret_call);

/*
 * The same for a child that is not waited for: it runs fn as it is after the clone, with its ids mapped, and exits with
 * what fn gives. -1 with errno where there is no such child.
 */
int bh_ids_start(const struct bh_launcher *l, uint64_t namespaces, int (*fn)(void *arg), void *arg);

/* tree.c: the small tree that is our root and that shells start from. */
int bh_tree_enter(struct bh_launcher *l, const char *home);

/* inherit.c: sets what children inherit and nobody should have from the caller. */
void bh_inherit_little(void);

/* filter.c */
struct bh_filter {
    struct sock_filter code[BPF_MAXINSNS];
    unsigned len;
    bool too_far; /* a jump that does not fit */
};
/* The program for AUDIT_ARCH_X86_64 or AUDIT_ARCH_AARCH64, on any machine. -1: it knows no such architecture. */
int bh_filter_build(uint32_t audit_arch, struct bh_filter *ret);
int bh_filter_build_server(uint32_t audit_arch, struct bh_filter *ret); /* of a fork server */
/* A memfd with the program of this machine; -1 and fail. */
int bh_filter_make(bool server, struct bh_fail *fail);

/* pool.c */
int bh_pool_start(struct bh_launcher *l);
void bh_pool_refill(struct bh_launcher *l);
/* What the process that makes shells has said. -1: it is gone. */
int bh_pool_on_spawner(struct bh_launcher *l);
/* A shell that is the caller's. Blocks for a clone where none is ready. */
int bh_pool_take(struct bh_launcher *l, struct bh_shell *ret, struct bh_fail *fail);
/* One made for the occasion: its user and pid namespaces are children of `beneath`, as agents with these ids own them.
 */
struct bh_beneath {
    int user_ns, pid_ns;
    uint32_t agent_uid, agent_gid;
};
int bh_pool_make_beneath(struct bh_launcher *l, const struct bh_beneath *where, struct bh_shell *ret,
                         struct bh_fail *fail);
/* One made for the occasion that is in our network, by a process that makes no others. */
int bh_pool_make_on_host(struct bh_launcher *l, struct bh_shell *ret, struct bh_fail *fail);
void bh_shell_close(struct bh_shell *s);

/* groups.c */
/* Before any change of namespaces. */
void bh_groups_start(struct bh_launcher *l, bool off);
/* What holds where there are no control groups; once ids are known. */
void bh_groups_fall_back(struct bh_launcher *l);
/* The group of the shell that is asked for next, used `once` or perhaps again: how many descriptors go with the
 * message, or -1. They are to be closed where *ret_close. */
int bh_groups_take(struct bh_launcher *l, struct bh_msg_spawn *msg, bool once, int fds[static BH_CGROUP_PARTS],
                   uint32_t *ret, bool *ret_close);
void bh_groups_answer(struct bh_launcher *l, const struct bh_msg_group *msg);
void bh_groups_drop(struct bh_launcher *l, uint32_t group); /* of a shell that has become nothing */
int bh_groups_limit(struct bh_launcher *l, const struct bh_msg_create *msg, struct bh_shell *shell,
                    struct bh_fail *fail);

/* create.c: from a request to an order to a shell; the answer is sent. */
void bh_create(struct bh_launcher *l, const void *msg, size_t len, const int *fds, size_t nfds);

/* unpack.c: starts bulkhead-unpack, which answers on the first of `fds`. */
void bh_unpack_start(struct bh_launcher *l, const void *msg, size_t len, const int *fds, size_t nfds);

/* probe.c */
/* All that a box needs, in one go, 2 ms: so that what cannot be had is refused before a run begins. -1 and l->fail. On
 * a new state directory overlays are tried as well. */
int bh_probe_all(struct bh_launcher *l);
/* One by one, for `doctor` and for the reader of an error; the answer is sent. */
void bh_probe(struct bh_launcher *l);
