/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bulkhead-init, inside. One process (main.c) clones shells and never execs; a shell (shell.c) makes the namespaces'
 * contents that do not depend on a box, waits, and becomes PID 1 of a box (assemble.c, serve.c); for every exec it
 * clones a child with a mount namespace of its own (stage.c), which becomes the command (become.c), in a shared box
 * under a small PID 1 of its own (group.c). A box with the host's network: own_net.c.
 *
 * The root of a box's init is a tmpfs of its own with these directories; agents' root is /box and nothing above it.
 */
#pragma once

#include <linux/filter.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/list.h"
#include "workers/init/fail.h"

#define BH_AT_BOX "/box"         /* the root file system of the agents */
#define BH_AT_DELIVER "/deliver" /* what the worker has linked for the box, read-only */
#define BH_AT_EMPTY "/empty"     /* an empty directory, read-only */
#define BH_AT_MAKE "/make"       /* where a mount stands until it is moved to its place */

/* The same for every shell of a launcher. */
struct bh_init_setup {
    enum bh_id_mode mode;
    bool mask_proc;
    int oom_score_adj; /* of agents */
    bool host_network; /* shells are in the launcher's network, for boxes of which some exec is to have it */
    struct sock_fprog filter, server_filter;
};

struct bh_exec_plan;

struct bh_init {
    const struct bh_init_setup *setup;
    int control;                   /* to the worker */
    int box;                       /* O_PATH descriptor of BH_AT_BOX */
    int before;                    /* /workspace beneath the one that another box has left; -1: there is none */
    bool shared;                   /* execs have a pid namespace of their own */
    bool readonly;                 /* since a barrier */
    uint32_t agent_uid, agent_gid; /* as agents see them */
    uint32_t flags;                /* BH_BOX_* */
    uint32_t number;
    struct bh_msg_limits limits; /* of the box */
    int memory;                  /* on the root in memory, -1: it is on disk */
    int lent;                    /* a detached mount of the root, for a box to come; -1: none */
    int own_net;                 /* with host_network: where execs are that do not have it; else -1 */
    int narrow; /* an empty mount namespace for the first exec of a box that is not shared; -1: it is used */
    struct bh_list execs;
    uint64_t barrier; /* the request that waits for everything to be dead, 0: none */
    unsigned lingers; /* somebody who is no child of ours still dies: how often it was seen */
    /* Warm forks (warm_orphans.c): children that were left to us, and a mount namespace that their server may know. */
    struct bh_orphans *orphans;
    int known_narrow;
};

/* Files by which a process joins control groups: their opener had the right to, not we. */
struct bh_join {
    int fds[4];
    size_t n;
};
int bh_join_groups(const struct bh_join *join, struct bh_fail *fail); /* limits.c: the caller */
void bh_join_close(struct bh_join *join);

/* Never returns: serves a launcher on `channel` until it goes away. */
BH_NORETURN void bh_shell_main(int channel, const struct bh_init_setup *setup, const struct bh_join *join);

/*
 * warm_shell.c, in the process that shells are cloned from: a shell whose user namespace is a child of `user_ns` and
 * owned there by uid, whose pid namespace is a child of `pid_ns`, with a network namespace of its own. It runs
 * bh_shell_main. Returns its pid and pidfd, or -1.
 */
struct bh_beneath_what {
    int user_ns, pid_ns;
    uint32_t uid, gid; /* in user_ns */
    int channel;       /* of the shell */
    const struct bh_init_setup *setup;
    const struct bh_join *join;
};
pid_t bh_shell_clone_beneath(const struct bh_beneath_what *what, int *ret_pidfd, struct bh_fail *fail);
int bh_loopback_up(struct bh_fail *fail); /* nets.c: of the caller's network namespace */

/*
 * nets.c: network namespaces with loopback up, in the process that shells are cloned from; a shell is in the one that
 * its parent is in. Start enters the caller's own. Enter goes into one for a box, new or left as new by a box that has
 * ended; leave goes back, and says who is pid 1 of all that are in it (a pidfd, which stays the caller's; -1: nobody).
 * `net` is NULL for one that is used once.
 */
struct bh_net;
int bh_nets_start(struct bh_fail *fail);
int bh_nets_enter(struct bh_net **ret, struct bh_fail *fail);
void bh_nets_leave(struct bh_net *net, int pidfd);

/*
 * own_net.c, with host_network. Make: in a shell, a network namespace with loopback up, which the caller does not
 * enter; a descriptor, or -1. Enter: in the child that becomes an exec, first of all, in every box. Listen: as
 * bh_listen_open, there. Resolver: /etc/resolv.conf of `box` is this text, in the mount namespace of the caller.
 */
int bh_own_net_make(struct bh_fail *fail);
int bh_own_net_enter(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail);
int bh_own_net_listen(const struct bh_init *in, int port);
int bh_own_net_resolver(int box, const char *text, struct bh_fail *fail);

/* The mounts of a shell: its own root, and what is alike in all boxes in places to be moved from. */
int bh_shell_prepare(const struct bh_init_setup *setup, struct bh_fail *fail);
/* A proc mount of the caller's pid namespace beneath dirfd, with what is not for agents covered. The current directory
 * is the stage. */
int bh_proc_mount(const struct bh_init_setup *setup, int dirfd, const char *path, struct bh_fail *fail);

/* From the launcher's message to a box; takes nothing (descriptors stay the caller's). */
int bh_box_assemble(struct bh_init *in, const void *msg, size_t len, const int *fds, size_t nfds, struct bh_fail *fail);

/*
 * overlay.c: directories, newest first, and an overlay of them at `at`, which is ours. `tree`: with what is written
 * going to /home/upper/TREE; NULL: read-only.
 */
struct bh_lowers {
    char *paths; /* each with its NUL */
    size_t n, len, cap;
};
void bh_lowers_add(struct bh_lowers *l, const char *fmt, ...) BH_PRINTF(2, 3);
void bh_lowers_fini(struct bh_lowers *l);
int bh_overlay_mount(struct bh_lowers *l, const char *tree, const char *at, struct bh_fail *fail);

/* memory.c: a file system over /home for what the box writes; a descriptor of its top, or -1. */
int bh_memory_mount(const struct bh_msg_limits *limits, struct bh_fail *fail);
/* The limit of inodes, when everything of ours is in it. */
int bh_memory_limit(int fd, const struct bh_msg_limits *limits, struct bh_fail *fail);

/* Never returns. */
BH_NORETURN void bh_box_serve(struct bh_init *in);

/* --- execs --- */

/* A parsed request; strings and arrays are one allocation. */
struct bh_exec_plan {
    uint64_t id;
    uint32_t flags;
    struct bh_msg_limits limits;
    char **argv, **envp;
    const char *cwd, *inputs, *prompt, *params, *needs, *resolver;
    const char **empty;
    uint32_t n_empty;
    struct bh_plan_copy {
        const char *from, *to;
        bool exec;
    } * copies;
    uint32_t n_copies;
    int stdio[3];
    int server; /* WARM: the socket of the fork server; WARM_SERVER: its own end of it; else -1 */
    struct bh_join join;
    void *memory; /* of the arrays */
    char *text;   /* of the strings, where they came in a memfd */
    size_t text_len;
};
/* Whether an exec has a pid namespace of its own, under a small PID 1 of its own. */
static inline bool bh_exec_is_own(const struct bh_init *in, const struct bh_exec_plan *plan)
{
    return in->shared || plan->flags & BH_EXEC_BESIDE;
}
/* Whether it enters the mount namespace that was made ahead; who comes beside it leaves that alone. */
static inline bool bh_exec_enters(const struct bh_init *in, const struct bh_exec_plan *plan)
{
    return in->narrow >= 0 && !(plan->flags & BH_EXEC_BESIDE);
}

/* Takes fds. `msg` is borrowed as long as the plan. -1 with errno: a request that cannot be read. */
int bh_exec_plan_parse(struct bh_exec_plan *plan, const void *msg, size_t len, const int *fds, size_t nfds);
void bh_exec_plan_fini(struct bh_exec_plan *plan);

/* What comes back over the pipe of an exec, before the exec or from the small PID 1 of a shared box's exec. */
#define BH_NOTE_FORKED 2
struct bh_exec_note {
    uint32_t ended; /* 1: wait_status is that of the main process; 0: fail says why it never ran; BH_NOTE_FORKED: a
                       pidfd of the checked fork comes along */
    int32_t wait_status;
    uint64_t mount; /* in a shared box: the mount of the root of this exec */
    struct bh_fail fail;
};

/* In a shell: an empty mount namespace for an exec to come, which the caller does not enter. Its descriptor, or -1. */
int bh_narrow_make(struct bh_fail *fail);
/* In the cloned child: everything up to the command. */
BH_NORETURN void bh_stage_main(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd);
/* PID 1 of an exec in a shared box. */
BH_NORETURN void bh_group_main(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd);
/* limits.c: what a command is held to by itself, before and after it has its ids. */
int bh_limits_before_ids(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail);
int bh_limits_after_ids(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail);
/* When nothing is opened any more: the descriptors of init, of which there may be many, lie in the way until exec. */
int bh_limits_of_files(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail);
/* Where no control group bounds the box: behind everybody else on the host, from the last moment before the exec. */
int bh_limits_be_idle(const struct bh_init *in, struct bh_fail *fail);
/* The caller and its children run on fewer processors, where that was asked for: so that `nproc` agrees. */
int bh_limits_narrow_cpus(const struct bh_msg_limits *limits, uint32_t number, struct bh_fail *fail);

/* views.c: what the box is shown of the host where it was asked to be smaller. In a place where mounts can be made. */
int bh_view_cpus(const struct bh_init *in, struct bh_fail *fail);
/* Over /proc/meminfo of the proc mount at `path`. */
int bh_view_memory(const struct bh_msg_limits *limits, int dirfd, const char *path, struct bh_fail *fail);

/* Gives up everything and runs the command. On return (-1) it has set fail. */
int bh_become(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd, struct bh_fail *fail);
BH_NORETURN void bh_exec_fail(int note_fd, const struct bh_fail *fail);

struct bh_owner {
    uid_t uid;
    gid_t gid;
};
/* The ids that the agent's files have, as init sees them. */
static inline struct bh_owner bh_agent_owner(const struct bh_init *in)
{
    bool range = in->setup->mode == BH_IDS_RANGE;
    return (struct bh_owner){.uid = range ? in->agent_uid : 0, .gid = range ? in->agent_gid : 0};
}

/* --- warm forks (docs/warm.md) --- */

#define BH_WARM_FD 3 /* of a fork server, as BULKHEAD_WARM_FD says */

/* warm_server.c: whether what the server has said is that it is ready. */
bool bh_warm_is_ready(const char *said, size_t len);
/* Starts a child that looks whether the server is alone in its box and makes the box's root read-only, in `narrow` as
 * well, where the server is. Its exit status is 0, or not, and then *bh_warm_why() says why. -1 with errno. */
pid_t bh_warm_start_sealing(const struct bh_init *in, int narrow, pid_t server);
const struct bh_fail *bh_warm_why(void);
/* The root in `narrow` read-only, by a child that is waited for. 0 or an errno. */
int bh_warm_seal(int narrow);

/* warm_stage.c: in the staged child, instead of bh_become: asks the server for a fork, checks it, says FORKED, waits
 * for one byte, tells the fork what to run. Returns (-1) with fail only. */
int bh_warm_fork(const struct bh_init *in, const struct bh_exec_plan *plan, int note_fd, struct bh_fail *fail);

/* warm_check.c: whether the only other process of this pid namespace is what a fork must be. What it is compared with
 * does not change, and is looked at while the server forks. */
#define BH_WARM_PLACES 10
struct bh_warm_ours {
    struct bh_buf status, cgroup;
    struct stat places[BH_WARM_PLACES];
};
int bh_warm_look_at_ourselves(struct bh_warm_ours *ours, struct bh_fail *fail);
struct bh_warm_wanted {
    const struct bh_warm_ours *ours;
    uint32_t uid, gid;
    int stdio[3];
    ino_t reply; /* the inode of its end of the socket that it answers on */
    int filters; /* how many seccomp filters it has more than we do */
};
int64_t bh_warm_last_number(const char *loadavg);   /* the greatest of a process in the box, or -1 */
int bh_warm_find(pid_t *ret, struct bh_fail *fail); /* a pidfd of the only one, or -1 */
int bh_warm_check(pid_t pid, int pidfd, const struct bh_warm_wanted *wanted, struct bh_fail *fail);

/* warm_orphans.c: how those ended who were left to us by a fork server. The worker asks by pid. */
struct bh_orphans;
struct bh_orphan {
    pid_t pid;
    int status; /* of wait */
    int64_t cpu_ms, max_rss_bytes;
};
void bh_orphans_ended(struct bh_init *in, const struct bh_orphan *o);
/* Where nothing is known of it and it is no child of ours, or shares what it must not, it is said to have not started;
 * else that it may. */
void bh_orphans_adopt(struct bh_init *in, uint64_t id, pid_t pid);
/* warm_kin.c: that no process in the caller's pid namespace (its `proc`) shares anything with `fork`. */
int bh_warm_check_kin(pid_t fork, const char *proc, struct bh_fail *fail);
/* serve.c */
void bh_orphans_adopted(struct bh_init *in, uint64_t id);
void bh_orphans_report(struct bh_init *in, uint64_t id, const struct bh_orphan *o);
void bh_orphans_refuse(struct bh_init *in, uint64_t id, const struct bh_fail *why);

/* become.c: the agent's user namespace where there is one id. */
int bh_become_deeper(const struct bh_init *in, const struct bh_exec_plan *plan, struct bh_fail *fail);
/* The box's own null device where fd is one; else -1. */
int bh_become_null(int fd, int to);

/* --- files, all beneath a directory descriptor --- */

struct bh_place {
    int workspace, deliver;
    struct bh_owner owner;
    bool replace; /* a copy removes what stands in its way, whatever it is */
};
/* As bh_place_copy, for what the document names: refuses the names under which each agent finds what is its own. */
int bh_place_file(const struct bh_place *p, const char *from, const char *to, bool exec, struct bh_fail *fail);
/* A regular file of deliver into the workspace; a symlink in the way is replaced, never followed. */
int bh_place_copy(const struct bh_place *p, const char *from, const char *to, bool exec, struct bh_fail *fail);
/* `path`, which ends in '/', is a folder, through no symlink: what else stands on the way is replaced as by a copy. */
int bh_place_folder(const struct bh_place *p, const char *path, struct bh_fail *fail);
/* Removes a path and what is below it; a missing one is fine. */
int bh_place_empty(const struct bh_place *p, const char *path, struct bh_fail *fail);
/* A private copy of a deliver file in the directory `dir`, for a bind mount. */
int bh_place_private(const struct bh_place *p, const char *from, int dir, const char *name, struct bh_fail *fail);
/* shadows.c: what tools find by themselves in the workspace is again what it is in the directory `before`. */
int bh_shadows_restore(const struct bh_place *p, int before, const struct bh_exec_plan *plan, struct bh_fail *fail);
/* An existing directory (or file) at name, as a place to mount on; replaces a symlink. */
int bh_place_target(int workspace, const char *name, bool directory, struct bh_fail *fail);

/* Gives the agent everything in /workspace and its home. In a process of its own: blocks. */
int bh_give_to_agent(int box, struct bh_owner owner, struct bh_fail *fail);

/* Opens an output: a descriptor, or -1 with errno. */
int bh_output_open(int box, const char *root, const char *path);
/* listen.c: a socket that listens on the loopback of the caller's network namespace, at this port or one of the next
 * ones that are free: a descriptor, or -1 with errno. */
int bh_listen_open(int port);

/* --- privileges --- */

/* Leaves init the capabilities that it needs in its own user namespace. */
int bh_caps_of_init(bool warm); /* warm: it looks into processes with ids of their own */
/* For the small PID 1 of an exec: to kill, and nothing else. */
int bh_caps_to_kill(void);
int bh_caps_none(void);
/* Empties the bounding set: nothing that is executed from here on can gain a capability. Needs SETPCAP. */
int bh_caps_unbound(void);
/* Confines the caller to what is beneath its root, where the kernel has Landlock. After the last mount, with no new
 * privileges. `talks`: by abstract sockets to others in the same network. */
int bh_landlock_enter(bool talks, struct bh_fail *fail);
