/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ns backend, inside. ns.c: the backend and the launcher's answers; ns_box.c: a box from its making to its end;
 * ns_talk.c: what is said to a live box and what it says.
 */
#pragma once

#include "base/list.h"
#include "workers/box/box.h"
#include "workers/box/folder.h"
#include "workers/box/outbox.h"
#include "workers/box/proto.h"
#include "workers/box/rack.h"
#include "workers/box/stand.h"
#include "workers/cgroup/cgroup.h"
#include "workers/helper.h"

struct event;

struct bh_disk_budget;
struct bh_disk_watch;
struct bh_ns_spare;
struct bh_disk_box;
struct bh_ns_server; /* ns_warm.c */
struct bh_fan;

#define NS_MAGIC 0x6e736261u
#define NS_BOX_MAGIC 0x6e736262u
#define NS_EXEC_MAGIC 0x6e736263u

#define BH_NS_GROUP_NAME 48
/* A group to be removed. */
struct bh_ns_gone {
    char name[BH_NS_GROUP_NAME];
    unsigned tries;
    uint32_t box; /* the number of a box's own, 0: of an exec */
    bool again;   /* the next box may have it, if nothing is left in it */
};

struct ns {
    struct bh_boxes base;
    unsigned magic;
    struct event_base *loop;
    int launcher; /* -1: it is gone */
    int launcher_pidfd;
    struct event *launcher_event;
    struct bh_outbox to_launcher;
    char *home, *base_name, *usr_dirs; /* usr_dirs NULL: nobody has needed them yet */
    struct bh_box_owner owner;
    struct bh_err *broken; /* why no box can be made */
    struct bh_helper *helper;
    struct bh_disk_watch *disk;
    struct bh_disk_budget *budget; /* NULL: none */
    struct bh_list boxes;
    struct bh_list racks; /* one or two a run */
    uint64_t last_id;
    struct bh_cgroup cgroup;
    uint32_t box_flags; /* BH_BOX_* */
    int64_t host_memory;
    int host_cpus;
    struct bh_ns_spare *spare; /* NULL: none */
    char *kind;                /* of the last box that was asked for; NULL: of none of which one is made ahead */
    unsigned alike;            /* how many of that kind there were in a row */
    uint64_t n_spares;
    size_t n_lending; /* boxes whose root may be lent */
    struct event *spare_idle;
    struct bh_ns_gone *gone;
    size_t n_gone, cap_gone;
    struct bh_job *gone_job;
    struct event *gone_again;
    bool unwatched; /* who writes in shared boxes cannot be seen here */
};

/*
 *   MAKING --pidfd and READY--> ALIVE --died--> LOST
 *      |                          |              |
 *      +--failed--> ENDING <------+--------------+    by bh_ns_box_end; then dead, folder done, freed
 */
enum box_state { BOX_MAKING, BOX_ALIVE, BOX_LOST, BOX_ENDING };
enum box_ending { END_REMOVE, END_KEEP, END_FREEZE, END_FAILED };

struct bh_box {
    struct bh_box_head head;
    unsigned magic;
    struct bh_list link; /* of the backend */
    struct ns *ns;
    uint64_t id;
    enum box_state state;
    char *run_dir, *key;
    char **layers;
    size_t n_layers;
    struct bh_box_stand *stand; /* for who looks at it when it is kept or frozen; NULL: it will be neither */
    struct bh_rack *rack;       /* NULL: it has no folder */
    bool shared, ready, dead;
    bool spare;         /* nobody has asked for it yet */
    uint32_t agent_uid; /* inside */
    bool asked;         /* the launcher has not answered yet: there may be a process that we do not know */
    int pid;            /* of its init */
    uint32_t group;     /* the number of its control group, 0: none */
    bool group_again;   /* nothing was set in it that others do not have */
    bool best_effort, frozen, was_frozen;
    struct bh_cgroup_events seen; /* when the last exec ended */
    struct bh_limits limits;
    enum bh_enforcer disk_by;
    uint32_t project;          /* of its quota, 0: none */
    int memory_fd;             /* on its root in memory, until the watch has it */
    bool lends;                /* its root may be that of a box to come, if nobody writes to it */
    int root;                  /* a detached mount of it; first the one that it is made of; -1: none */
    struct bh_box_stamp stamp; /* of that root before anybody was in it */
    bool watch_memory;         /* nothing else holds the limit of memory */
    struct bh_disk_box *disk;  /* while it is alive */
    int64_t held;              /* afterwards: what it held on disk, -1: nobody has looked */
    int control, pidfd;
    struct event *control_event, *pidfd_event;
    struct bh_outbox to_box;
    struct bh_list execs, asks;
    bool warm;                       /* a command in it may be a fork server, or a fork of one */
    struct bh_ns_server *server;     /* is ready in it; NULL: none */
    uint64_t beneath;                /* the box of the server that this one is beneath; 0: none */
    struct event *patience;          /* with a box beneath a server, who may stop its init */
    struct bh_fan *fan;              /* of a shared box in which several have run; NULL: none */
    struct event *fan_event;         /* while it watches */
    uint32_t root_major, root_minor; /* the device of its root, once it has been watched */
    bool lasting_mounts;             /* no number of a mount is used twice */

    bh_box_created_fn created;
    void (*on_lost)(void *arg);
    void *arg;
    struct bh_err *why; /* of END_FAILED */

    enum box_ending ending;
    char *layer;
    bh_box_done_fn done;
    void *done_arg;
    struct bh_job *job;
    struct event *soon;      /* the next step of a box that waits for nothing */
    struct event *drop_soon; /* answers to calls on a box that is gone */
};

struct bh_exec {
    struct bh_box_head head;
    unsigned magic;
    struct bh_list link;
    struct bh_box *box;
    uint64_t id;
    int refused; /* errno where the request could not be made */
    const char *refused_step;
    bool grouped;                   /* it has a control group of its own */
    struct bh_cgroup_events before; /* of the box, when it began */
    bool disk_full, oom;            /* the watch stopped it */
    int64_t memory;                 /* its own limit, where nothing but the watch holds it; 0: none */
    struct bh_disk_scale *scale;    /* which begins when it has started */
    char note[240];
    struct bh_box_share share; /* as it was noted when the box was stopped, where it is */
    bool weighed;
    uint64_t tag; /* of whoever asked for it */
    int inside;   /* in a shared box: its PID 1 as init numbers it, 0: not told yet */
    bool named;   /* the watch knows its mount */
    void (*on_warm)(void *arg);
    bool fork, ended, orphaned; /* a fork, of which its box, and that of its server have told the end */
    struct bh_exec_result how;  /* what one of them has told */
    char step[BH_STEP_MAX];     /* of it */
    bh_exec_done_fn fn;
    void *arg;
};

/* BARRIER, OPEN or LISTEN that waits for an answer. */
struct ns_ask {
    struct bh_list link;
    uint64_t id;
    enum bh_msg_kind answer;
    bh_box_done_fn done;
    bh_box_opened_fn opened;
    void *arg;
};

/* ns_box.c */
void bh_ns_box_create(struct ns *ns, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                      void (*on_lost)(void *arg));
/* The launcher's answer: a pidfd, or -1 and why there is none (NULL: it is gone). Takes both. */
void bh_ns_box_answered(struct bh_box *box, int pidfd, struct bh_err *why);
void bh_ns_box_failed(struct bh_box *box, struct bh_err *why); /* takes it; the first reason stays */
void bh_ns_box_ready(struct bh_box *box);
/* It has said nonsense, or its socket broke: killed, and lost. */
void bh_ns_box_distrust(struct bh_box *box);
void bh_ns_box_end(struct bh_box *box, enum box_ending ending, bh_box_done_fn fn, void *arg);
/* For close: everything of it is over when it returns, callbacks included. */
void bh_ns_box_finish_now(struct bh_box *box);

/* The same for who keeps the box in mind while it is made. */
struct bh_box *bh_ns_box_make(struct ns *ns, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                              void (*on_lost)(void *arg));

/* ns_spare.c: a box made ahead. */
/* Such a box is asked for: one that is the caller's, with the spec's key; NULL: there is none. */
struct bh_box *bh_ns_spare_take(struct ns *ns, const struct bh_box_spec *spec);
void bh_ns_spare_order(struct ns *ns,
                       const struct bh_box_spec *spec); /* it is on its way: makes another where it pays */
void bh_ns_spare_none(struct ns *ns); /* a box could not be made: nothing is made ahead until some could */
void bh_ns_spare_wake(struct ns *ns); /* some box has ended */
void bh_ns_spare_fini(struct ns *ns);

/* ns_disk.c */
int bh_ns_disk_room(const struct ns *ns, struct bh_err **err);                          /* for another box */
enum bh_enforcer bh_ns_disk_means(const struct ns *ns, const struct bh_box_spec *spec); /* BH_BY_NOTHING: no limit */
/* Its folder is there, nobody else knows of it yet. */
int bh_ns_disk_prepare(struct bh_box *box, const struct bh_box_spec *spec, struct bh_err **err);
void bh_ns_disk_start(struct bh_box *box); /* it is alive */
void bh_ns_disk_stop(struct bh_box *box);
void bh_ns_disk_release(struct bh_box *box); /* its folder is let go of */
/* Of both, what the exec is to be told is changed. */
void bh_ns_disk_exec(struct bh_exec *exec, const struct bh_exec_spec *spec, struct bh_msg_exec *msg);
void bh_ns_disk_started(struct bh_exec *exec); /* its PID 1 in the box is known */
void bh_ns_disk_ended(struct bh_exec *exec, struct bh_exec_result *result);
void bh_ns_disk_enforced(const struct bh_box *box, const struct bh_limits *own, struct bh_enforced *ret);
int64_t bh_ns_disk_bytes(const struct bh_box *box);

/* ns_limits.c */
/* What the launcher has said; takes the descriptors. */
void bh_ns_limits_read(struct ns *ns, const struct bh_msg_hello *hello, const int *fds, size_t nfds);
uint32_t bh_ns_limits_enforceable(const struct ns *ns); /* of MEMORY, CPUS, PIDS, NOFILE */
const char *bh_ns_limits_why_not(const struct ns *ns);
void bh_ns_limits_enforced(const struct bh_box *box, const struct bh_limits *own, struct bh_enforced *ret);
/* The limits of a box to be made: what was asked for, checked, and what is usual. */
int bh_ns_limits_fill(const struct ns *ns, const struct bh_box_spec *spec, struct bh_limits *ret,
                      struct bh_err **err) BH_MUST_CHECK;
bool bh_ns_limits_watch_memory(const struct ns *ns, const struct bh_limits *limits);
int bh_ns_limits_check_exec(const struct bh_box *box, const struct bh_limits *limits);

/* ns_groups.c */
/* In a shared box: makes the group of an exec; how many of fds it joins by (the caller's), or -1 with errno. */
int bh_ns_group_exec(struct bh_exec *exec, const struct bh_limits *limits, int fds[static BH_CGROUP_PARTS]);
/* Of its own group, what is -1 in it. */
void bh_ns_group_share(const struct bh_exec *exec, struct bh_box_share *ret);
/* What the kernel has counted goes into the result. While the groups are there. */
void bh_ns_group_ended(struct bh_exec *exec, struct bh_exec_result *result);
/* Stops every process of a box, its init too, and lets them go on. Blocks for up to some 15 ms. -1 with errno: ENOTSUP
 * where there are no control groups. A box that ends is let go by itself. */
int bh_ns_box_freezer(struct bh_box *box, bool on);
/* It is being killed. */
void bh_ns_group_hurry(const struct bh_box *box);
void bh_ns_group_drop(struct ns *ns, const char *name); /* removed soon */
void bh_ns_group_drop_box(struct bh_box *box);
void bh_ns_groups_fini(struct ns *ns); /* the launcher has ended */

/* ns_watch.c */
void bh_ns_watch_exec(struct bh_exec *exec);    /* it is about to begin */
void bh_ns_watch_started(struct bh_exec *exec); /* its number is known */
void bh_ns_watch_killed(struct bh_exec *exec);  /* it is about to be */
/* It has ended; `mount` is what it says of itself, 0: nothing. It is still in the list. */
void bh_ns_watch_ended(struct bh_exec *exec, uint64_t mount);
void bh_ns_watch_stop(struct bh_box *box); /* nothing of it runs any more */
void bh_ns_watch_fini(struct bh_box *box);
uint64_t bh_ns_moment(struct bh_box *box);
bool bh_ns_writers(struct bh_box *box, uint64_t since, uint64_t inode, const char *path, struct bh_box_writers *ret);

/* ns_warm.c: fork servers and their forks. */
/* What the launcher is to be told beside; appends to fds, which stay ours. -1: the server is gone. */
int bh_ns_warm_create(struct bh_box *box, const struct bh_box_spec *spec, struct bh_msg_create *msg, int fds[static 3],
                      size_t *nfds);
/* A copy of the server's socket and what the box's groups are joined by, all the caller's; 0 or an errno. */
int bh_ns_warm_exec(struct bh_exec *exec, const struct bh_exec_spec *spec, struct bh_msg_exec *msg, int *fds,
                    size_t *nfds);
/* WARM, FORKED, ADOPTED, ORPHAN; takes fds. False: the box is not to be believed. */
bool bh_ns_warm_report(struct bh_box *box, const struct bh_msg_report *r, const int *fds, size_t nfds);
/* Of ENDED: whether how it ended is still to be told by another box; else *result is whole. */
bool bh_ns_warm_holds(struct bh_exec *exec, struct bh_exec_result *result);
void bh_ns_warm_ended(struct bh_exec *exec); /* whatever it was */
void bh_ns_warm_drop(struct bh_box *box);    /* forgets a server */
/* An answer is due from a box; one beneath a server that does not give it in time is killed. */
void bh_ns_warm_expect(struct bh_box *box);
void bh_ns_warm_expect_nothing(struct bh_box *box);

/* ns_census.c */
/* The box is about to be stopped: what each exec has taken is noted as it is now. */
void bh_ns_census_note(struct bh_box *box);
size_t bh_ns_census(struct bh_box *box, struct bh_box_share *ret, size_t max);
size_t bh_ns_holders(struct bh_box *box, dev_t device, uint64_t inode, uint64_t *ret, size_t max);
/* While its groups are there. */
void bh_ns_census_ended(const struct bh_exec *exec, struct bh_exec_result *result);

/* ns_talk.c */
void bh_ns_say(struct bh_box *box, const void *data, size_t len, const int *fds, size_t nfds);
void bh_ns_finish_exec(struct bh_exec *exec, const struct bh_exec_result *result);
int bh_ns_talk_start(struct bh_box *box);
void bh_ns_talk_stop(struct bh_box *box);
/* Ends whatever is open: execs with BOX_LOST, asks with an error. */
void bh_ns_talk_drop(struct bh_box *box);
struct bh_exec *bh_ns_exec(struct bh_box *box, const struct bh_exec_spec *spec, bh_exec_done_fn fn, void *arg);
void bh_ns_kill(struct bh_exec *exec, int sig);
void bh_ns_barrier(struct bh_box *box, bh_box_done_fn fn, void *arg);
void bh_ns_open_output(struct bh_box *box, const char *root, const char *path, bh_box_opened_fn fn, void *arg);
void bh_ns_listen(struct bh_box *box, int port, bh_box_opened_fn fn, void *arg);
