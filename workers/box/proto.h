/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between the worker, bulkhead-launcher and bulkhead-init: one struct per kind over SEQPACKET, followed by
 * packed strings where a kind has them. All three programs come from one build; the version is checked in the hello.
 *
 * Who believes whom: launcher and init believe the worker (and still check lengths); the worker believes nothing that a
 * box says, because its init shares a kernel with hostile processes. So what an init may say is one struct of fixed
 * size.
 */
#pragma once

#include "base/buf.h"
#include "base/compiler.h"
#include "topologies/limits.h"

#define BH_PROTO_VERSION 1
#define BH_PROTO_MAX 65536 /* the largest message; an exec request that is larger travels in a memfd */
#define BH_PROTO_EXEC_MAX (16 << 20)
#define BH_STEP_MAX 160

enum bh_msg_kind {
    /* worker and launcher */
    BH_MSG_HELLO = 1,
    BH_MSG_CREATE,
    BH_MSG_CREATED,
    BH_MSG_PROBE,
    /* launcher and the bulkhead-init that makes shells */
    BH_MSG_SETUP,
    BH_MSG_SPAWN,
    BH_MSG_SHELL,
    /* launcher to a shell */
    BH_MSG_BOX,
    /* worker to a box */
    BH_MSG_EXEC,
    BH_MSG_KILL,
    BH_MSG_BARRIER,
    BH_MSG_OPEN,
    /* box to worker */
    BH_MSG_READY,
    BH_MSG_FAILED,
    BH_MSG_ENDED,
    BH_MSG_QUIET,
    BH_MSG_OPENED,
    /* worker to launcher; the answer comes over a socket of its own */
    BH_MSG_UNPACK,
    BH_MSG_UNPACKED,
    /* box to worker */
    BH_MSG_STARTED,
    /* Warm forks (docs/warm.md). Box to worker: a fork server is ready; a fork was checked and waits; how an orphan
     * ended. Worker to box: a fork may run; whose end is to be told. */
    BH_MSG_WARM,
    BH_MSG_FORKED,
    BH_MSG_ORPHAN,
    BH_MSG_GO,
    BH_MSG_ADOPT,
    /* worker to launcher, no answer */
    BH_MSG_GROUP,
    /* box to worker: the fork that was to be adopted shares nothing and may run */
    BH_MSG_ADOPTED,
    /* Worker to box: a socket that listens on its loopback, for a broker to accept from; and the answer, which carries
     * it. */
    BH_MSG_LISTEN,
    BH_MSG_LISTENING,
};

/* How ids are mapped into boxes. */
enum bh_id_mode {
    BH_IDS_NONE,   /* no box can be made; the hello says why */
    BH_IDS_SINGLE, /* box 0 is the user who runs us, agents see it as 1000 in a user namespace of their own */
    BH_IDS_RANGE,  /* box 0..65535 is a range of real ids */
};
#define BH_RANGE_FIRST 200000u
#define BH_RANGE_COUNT 65536u
#define BH_SUBORDINATE_FIRST 1u /* of a range in a user namespace of subordinate ids, where 0 is the user */
#define BH_AGENT_UID 1000u

/* Both ways: asked with everything 0. Descriptors of the answer: bh_cgroup_tops. */
struct bh_msg_hello {
    uint32_t kind, version;
    uint32_t mode, first_id; /* first_id: which id of ours box root is */
    int32_t pid;             /* of the launcher */
    int32_t error;           /* mode NONE: the errno, and in `step` what failed */
    char step[BH_STEP_MAX];
    uint32_t box_flags;               /* BH_BOX_*: how every box is held to what no control group holds it to */
    uint32_t cgroup_kind, cgroup_can; /* struct bh_cgroup (cgroup/cgroup.h) */
    char cgroup_name[64], cgroup_found[320], cgroup_remedy[160];
};

/* Limits as numbers, 0: none (topologies/limits.h has the units). */
struct bh_msg_limits {
    int64_t memory, cpus, pids, disk, inodes, nofile;
    uint32_t asked; /* BH_LIMITS_*: the document says it */
};
#define BH_LIMITS_MEMORY (1u << BH_LIMIT_MEMORY)
#define BH_LIMITS_CPUS (1u << BH_LIMIT_CPUS)
#define BH_LIMITS_PIDS (1u << BH_LIMIT_PIDS)

static inline struct bh_msg_limits bh_msg_limits_of(const struct bh_limits *l)
{
    const int64_t *of = l->of;
    return (struct bh_msg_limits){.memory = of[BH_LIMIT_MEMORY],
                                  .cpus = of[BH_LIMIT_CPUS],
                                  .pids = of[BH_LIMIT_PIDS],
                                  .disk = of[BH_LIMIT_DISK],
                                  .inodes = of[BH_LIMIT_INODES],
                                  .nofile = of[BH_LIMIT_NOFILE],
                                  .asked = l->asked};
}

/* Strings: run folder below home, key, then the folders of the base, the layers of the run and the snapshots, each
 * newest first, then those that the flags say. Descriptors: the box's end of its socket, and what the flags say. */
struct bh_msg_create {
    uint32_t kind, flags;
    uint64_t id;
    uint32_t n_base, n_layers, n_snapshots;
    uint32_t agent_uid, agent_gid;
    struct bh_msg_limits limits;
};
#define BH_CREATE_WRITABLE_USR 1u
#define BH_CREATE_SHARED 2u
#define BH_CREATE_HOST_TREES 4u /* /usr, /opt … of the host are shown: the base `host` */
#define BH_CREATE_USR_DIRS 16u  /* a string names a layer of the directories of /usr and /opt below bases */
#define BH_CREATE_WORKSPACE                                                                                        \
    512u                       /* the last string is the key of a dead box of the run: /workspace is as it left it \
                                */
#define BH_CREATE_WARM 32u     /* a command in it may be a fork server, or a fork of one */
#define BH_CREATE_BENEATH 64u  /* its user and pid namespaces are children of those that come along, in that order */
#define BH_CREATE_FORK 1024u   /* two last strings: whose layers they are, and the key of a kept box of it, or "" */
#define BH_CREATE_KEPT 2048u   /* of BH_MSG_BOX: what that box wrote comes along, above the layers */
#define BH_CREATE_LENT 128u    /* the root comes along: it was lent by a box that has left it as it was new */
#define BH_CREATE_LEND 256u    /* READY is to bring the root, for a box to come */
#define BH_CREATE_IN_MEMORY 8u /* the upper is a tmpfs of limits.disk bytes and limits.inodes files */
#define BH_CREATE_HOST_NETWORK 4096u /* its init is in the launcher's network; execs are where their flags say */

/* Descriptor where error is 0: the pidfd of the box's init. */
struct bh_msg_created {
    uint32_t kind;
    int32_t error, pid;
    uint64_t id;
    uint32_t group;       /* its control group is b1, b2, …; 0: none. Also of one that was not made: to be removed */
    uint32_t group_again; /* nothing was set in it that others do not have: it may be given back (BH_MSG_GROUP) */
    char step[BH_STEP_MAX];
};

/* The control group of a box that is gone is as it was made, and the next shell may have it; or it is removed. */
struct bh_msg_group {
    uint32_t kind, group;
    uint32_t removed;
};

/* Answered by one of these and strings: name, found, effect, remedy for each. */
struct bh_msg_probe {
    uint32_t kind, n;
    uint64_t ok, required; /* one bit each */
};
#define BH_PROBES_MAX 64

/* Descriptors: memfds that hold the seccomp filters of agents and of fork servers, arrays of struct sock_filter. */
struct bh_msg_setup {
    uint32_t kind, mode, first_id;
    uint32_t mask_proc;    /* box root is a host id that owns files in /proc */
    int32_t oom_score_adj; /* of agents */
    uint32_t host_network; /* its shells are for boxes with BH_CREATE_HOST_NETWORK, and for no others */
};

/*
 * Descriptors: those of the user and the pid namespace that the shell's are to be children of, where it is BENEATH
 * some; the directory of the control group that the shell is cloned into, or the files that it joins some by.
 */
struct bh_msg_spawn {
    uint32_t kind;
    uint32_t into;    /* there is a descriptor, and it is a directory */
    uint32_t beneath; /* it is for a fork of an agent with these ids */
    uint32_t agent_uid, agent_gid;
};

/* Descriptors where error is 0: pidfd, socket to the shell. */
struct bh_msg_shell {
    uint32_t kind;
    int32_t error, pid;
    char step[BH_STEP_MAX];
};

/*
 * Descriptors: the socket for the answer, bulkhead-unpack, the stream. String: the folder to fill, below home, which
 * the launcher hands on as a mount of its own: from a descriptor of ours `..` would lead to the host's root. Answered
 * by the launcher where it cannot start the program, else by the program; an end of the socket without an answer is its
 * death.
 */
enum bh_unpack_kind {
    BH_UNPACK_LAYER, /* a tar, compressed or not: whiteouts become those of an overlay */
    BH_UNPACK_FILES, /* a tar: regular files and directories as ours, for us to read */
    BH_UNPACK_TREE,  /* a directory (rootfs/image_tree.h) */
};
struct bh_msg_unpack {
    uint32_t kind, what; /* enum bh_unpack_kind */
    int64_t max_entries, max_bytes;
};
#define BH_UNPACK_ENTRY_MAX 512
enum bh_unpack_blame { BH_UNPACK_DONE, BH_UNPACK_BAD_ARCHIVE, BH_UNPACK_HOST };
struct bh_msg_unpacked {
    uint32_t kind, blame; /* enum bh_unpack_blame */
    int32_t error;        /* an errno, 0: none */
    int64_t entries, bytes;
    unsigned char digest[32]; /* of the stream without its compression: what the program says */
    char why[BH_STEP_MAX];
    char entry[BH_UNPACK_ENTRY_MAX]; /* bytes of the archive; "" where it is about no entry */
};

/*
 * What a shell becomes a box from. Descriptors: the worker's socket, then detached mounts: the box's folder, deliver,
 * the base (LENT: deliver and the root instead of the three), the layers and the snapshots (where there are some),
 * USR_DIRS, WORKSPACE (where the flags are set: the upper of that box), then one for each string of the second group.
 * Strings: the folders of the base, the layers and the snapshots, each newest first; then for each mount a kind and a
 * path relative to the box's root.
 */
struct bh_msg_box {
    uint32_t kind, flags; /* BH_CREATE_*, BH_BOX_* */
    uint32_t number;      /* counts boxes */
    uint32_t n_base;      /* folders of the base below the mount of it; 0: the mount is the base */
    uint32_t n_layers, n_snapshots, n_mounts;
    uint32_t agent_uid, agent_gid;
    struct bh_msg_limits limits;
};
#define BH_BOX_NPROC (1u << 16)      /* `pids` is held by RLIMIT_NPROC */
#define BH_BOX_IDLE (1u << 17)       /* agents get what processor time nobody else wants: no group bounds them */
#define BH_IMAGES_DIR "bases/images" /* below home: the folders of images */
#define BH_SNAPSHOTS_DIR "snapshots" /* below home (rootfs/snapshot.h) */
#define BH_BASE_MAX 440              /* with the layers of a run what the kernel stacks: 500 */
/* A mount's path begins with one of these: */
#define BH_MOUNT_BIND '='    /* attached as it is (it is read-only already) */
#define BH_MOUNT_OVERLAY '+' /* the lowest layer of an overlay of the same name below the layers */
#define BH_BOX_MOUNTS_MAX 11

/*
 * Descriptors: stdin, stdout, stderr, a memfd with the strings where they do not follow the struct, the socket of the
 * fork server where it is WARM, and the files by which the exec joins its control groups.
 * Strings: argv, env, cwd; the present ones of inputs, prompt, params, needs, resolver; paths to empty; for each copy
 * from, to and "x" or "-".
 */
struct bh_msg_exec {
    uint32_t kind, flags;
    uint64_t id;
    uint32_t argc, envc, n_empty, n_copies;
    uint32_t in_memfd; /* length of the strings in the memfd; 0: they follow */
    uint32_t n_join;
    struct bh_msg_limits limits;
};
#define BH_EXEC_ROOT 1u
#define BH_EXEC_GIVE 2u
#define BH_EXEC_HAS_INPUTS 4u
#define BH_EXEC_HAS_PROMPT 8u
#define BH_EXEC_HAS_PARAMS 16u
#define BH_EXEC_HAS_NEEDS 32u
#define BH_EXEC_REPLACE 2048u
#define BH_EXEC_RESTORE 16384u
#define BH_EXEC_TERMINAL 4096u /* its streams are a terminal, which is to control it */
/* Beside others in a box that is not shared: a pid namespace of its own, as if it were. */
#define BH_EXEC_BESIDE 8192u
#define BH_EXEC_HOST_NETWORK 512u  /* in a box that has it: the launcher's network; without it the box's own */
#define BH_EXEC_HAS_RESOLVER 1024u /* text for /etc/resolv.conf, of this exec alone */
#define BH_EXEC_TELL_PID 64u       /* in a shared box: STARTED is to be said of it */
#define BH_EXEC_WARM_SERVER 128u   /* it may become a fork server, and finds its socket in BULKHEAD_WARM_FD */
#define BH_EXEC_WARM 256u          /* not executed: a fork of the server gets all that is here */

/* KILL (signal), BARRIER, OPEN (strings: root, path), GO, ADOPT (signal: a pid; id: what ORPHAN will say), LISTEN
 * (signal: the port, or where that is taken one of the next). */
struct bh_msg_ask {
    uint32_t kind;
    int32_t signal;
    uint64_t id;
};

/*
 * Everything that a box ever says. OPENED may carry one descriptor, READY one where the root is in memory or LEND, WARM
 * the server's socket, its user and its pid namespace, FORKED a pidfd, nothing else carries any.
 */
struct bh_msg_report {
    uint32_t kind;
    uint32_t end;   /* ENDED, ORPHAN: enum bh_exec_end, never BOX_LOST */
    int32_t status; /* ENDED, ORPHAN: exit code, signal or errno; STARTED: the exec's PID 1, as init numbers it; else an
                       errno, 0 where it went well */
    uint64_t id;
    int64_t cpu_ms, max_rss_bytes;
    int64_t ended_us; /* ENDED: wall time at which its last process was gone */
    uint64_t mount;   /* ENDED in a shared box: the root mount of its namespace (mount_id.h), 0: not known */
    char step[BH_STEP_MAX];
};

/* Strings behind a struct: each with its NUL, nothing between. */
void bh_pack_str(struct bh_buf *out, const char *s);
struct bh_unpack {
    const char *at, *end;
};
/* NULL (for this and every later call) where the next string is missing or not terminated. */
const char *bh_unpack_str(struct bh_unpack *u);
bool bh_unpack_done(const struct bh_unpack *u); /* nothing is left, and nothing was missing */

/* Copies at most BH_STEP_MAX - 1 bytes and terminates. */
void bh_step_set(char step[static BH_STEP_MAX], const char *text);

/*
 * The worker's check of a datagram from a box: length, kind, ranges, a terminated step without control bytes, and no
 * more descriptors than the kind carries. False: the box is not to be believed any more.
 */
#define BH_WARM_FDS 3 /* of WARM */
bool bh_report_valid(const struct bh_msg_report *report, size_t len, size_t nfds);
