/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes, as the worker sees them. Two backends pass one test kit: `ns` (namespaces, through bulkhead-launcher) and
 * `fake` (tests only, not in the product).
 *
 * Everything is asynchronous on the worker's event loop: a call returns at once and its callback runs later, exactly
 * once, never from inside the call. A box that dies by itself ends every open exec with BH_EXEC_BOX_LOST and then calls
 * on_lost. Isolation that cannot be had is an error (-BH_E_HOST) of create, never a fallback.
 */
#pragma once

#include <sys/types.h>

#include "base/clock.h"
#include "base/err.h"
#include "topologies/limits.h"

struct event_base;

struct bh_box_spec {
    const char *run_dir; /* absolute path of runs/RUN: boxes/KEY and layers/ lie below it */
    const char *key;     /* a single path segment; its folder must not exist yet */
    /* Folders below the state directory's bases/images, newest first; NULL, 0: the base `host`, whose /usr and /opt are
     * shown. */
    const char *const *base_layers;
    size_t n_base_layers;
    uint32_t agent_uid, agent_gid; /* of the agent inside; 0, 0: the usual 1000 */
    const char *const *layers;     /* names below run_dir/layers, newest first */
    size_t n_layers;
    const char *const *snapshots; /* folders below the state directory's snapshots, newest first; below `layers` */
    size_t n_snapshots;
    /*
     * The key of a dead box of this run that was kept: /workspace is as that box left it, and everything else as the
     * layers and snapshots have it. Nobody writes to that box's folder as long as this one lives. NULL: none.
     */
    const char *workspace_of;
    /*
     * A fork of a finished box: `layers` lie in this folder below the state directory ("runs/RUN"), not in run_dir, and
     * what its box `kept` (a key, NULL: none) has written lies above them. Neither is written to. NULL: none.
     */
    const char *fork_of, *kept;
    bool writable_usr;       /* /usr and /opt as overlays, not read-only binds */
    bool shared;             /* several agents: every exec gets a mount and a pid namespace of its own */
    struct bh_limits limits; /* of the whole box; 0: none. OUTPUT is not the box's business */
    bool best_effort;        /* what was asked for and cannot be enforced exactly is watched instead of refused */
    /*
     * Warm forks (docs/warm.md): the first command may end as a fork server; or the box is for a fork of that one,
     * which is `beneath` it and dies with its box.
     */
    bool warm;
    struct bh_exec *beneath; /* is ready (on_warm), of a box on the same backend; NULL: none */
    bool disposable;         /* its folder is never kept and never frozen: its root may live in memory */
    /*
     * Some exec in it is to have the network that the launcher is in. It is made for this alone: nothing of it was made
     * ahead, or is used again. Not with `warm` or `beneath`.
     */
    bool host_network;
};

/* A file that must lie in the box before a command runs; bytes come from boxes/KEY/deliver/NAME, where the worker
 * linked them. Everything below deliver/ must be readable by all (files 0444, folders 0755): root of a box has no
 * capability to read what only the agent may. */
struct bh_box_copy {
    const char *from; /* relative to the deliver folder of the box */
    const char *to;   /* relative to /workspace; parents are made; a symlink in the way is replaced, not followed */
    unsigned mode;    /* 0644 or 0755 */
};

struct bh_exec_spec {
    /* In a `warm` box: it may become a fork server; called at most once, when it is one, alone in its box and the root
     * cannot be written any more. It then stands as long as the server does. With the argument of the end's callback.
     * NULL: an ordinary command. */
    void (*on_warm)(void *arg);
    /* In a box that is beneath one: not executed, but a fork of it, which finds argv, env and cwd. In a fork server
     * that has ended, says nothing or is not believed, NOT_STARTED. */
    bool fork;
    const char *const *argv; /* NULL-terminated; argv[0] is looked up in the PATH of env when it holds no '/' */
    const char *const *env;  /* NULL-terminated "NAME=value" */
    const char *cwd;
    bool root;         /* uid 0 in the box, else the agent's uid 1000 */
    bool terminal;     /* stdin_fd is a terminal made for it alone, which controls it */
    bool host_network; /* it has the host's network, in a box that was made so; else the box's own, which is loopback */
    bool beside;       /* in a box that is not shared, beside the one that it is for: its end ends nothing else */
    int stdin_fd, stdout_fd,
        stderr_fd; /* borrowed until the callback or the end of the call, whichever the backend needs; dup'ed */
    const struct bh_box_copy *copies; /* carried out before the command, in order */
    size_t n_copies;
    bool restore; /* in a box with workspace_of, before the copies: what tools find by themselves is as it was before */
    bool replace; /* copies: whatever stands at a path, or on the way to it and is no directory, is removed first */
    const char
        *inputs; /* folder below deliver/ that appears read-only as /workspace/in (lower-only overlay); NULL: empty */
    /* own files of the agent at /workspace/{prompt.md,params.json,needs.json}: names below deliver/, NULL where there
     * is none */
    const char *prompt, *params, *needs;
    const char *const
        *empty_first; /* paths relative to /workspace that are removed before the command (NULL-terminated) or NULL */
    /* In a shared box: MEMORY, CPUS and PIDS of this agent alone, inside those of the box. NOFILE here too. 0: none. */
    struct bh_limits limits;
    uint64_t tag;       /* in a shared box: who it is, for `writers` and `census`; 0: nobody asks */
    bool give_to_agent; /* after it has ended well, /workspace and /home/agent are given to the agent (setup) */
};

/* What one exec of a shared box has taken; -1: not known. */
#define BH_BOX_PORTS_MAX 8
struct bh_box_share {
    uint64_t tag;
    int64_t cpu_ms, memory_bytes, memory_peak_bytes; /* memory: now, without the cache of files; peak: with it */
    int64_t written_bytes; /* handed to the kernel by processes that live, or were waited for */
    int64_t waited_ms;     /* its living processes, for a processor */
    int64_t processes;
    uint16_t ports[BH_BOX_PORTS_MAX]; /* TCP ports that it listens on */
    size_t n_ports;
};

enum bh_exec_end { BH_EXEC_EXITED, BH_EXEC_SIGNALED, BH_EXEC_NOT_STARTED, BH_EXEC_BOX_LOST };
struct bh_exec_result {
    enum bh_exec_end end;
    int status;           /* exit code, signal, or errno of what kept it from starting */
    const char *step;     /* NOT_STARTED: "exec", "copy files/x", … : which step; borrowed for the callback */
    struct bh_wall ended; /* when its last process was gone, as init has it; us 0: not told */
    int64_t cpu_ms, max_rss_bytes;
    bool oom, pids, disk_full; /* a limit was hit while it ran (by it, as far as the kernel tells) */
    bool inodes;               /* with disk_full: it is files that were too many, not bytes */
    struct bh_box_share share; /* in a shared box: what it took, as far as that is known at its end */
    char note[240];            /* which limit and how, in words for people, where a watch stopped it; or "" */
};

/* Who has written to a file of a shared box, as far as the kernel tells (fan.h says what it does not). */
struct bh_box_writer {
    uint64_t tag;      /* of the exec's spec; 0: somebody else, bulkhead's own init among them */
    bool wrote;        /* false: it had it open for writing, which may have been for nothing */
    struct bh_wall at; /* when that was noticed last */
};
#define BH_BOX_WRITERS_MAX 16
struct bh_box_writers {
    struct bh_box_writer of[BH_BOX_WRITERS_MAX];
    size_t n;
    bool whole; /* nobody was missed since then */
};

struct bh_box;
struct bh_exec;
struct bh_boxes; /* a backend at work */

/* `code` 0, or negative with `err` (borrowed). On failure the box is already gone. */
typedef void (*bh_box_created_fn)(void *arg, struct bh_box *box, int code, const struct bh_err *err);
/* The main process has ended and every other process of the exec is dead (in a box that is not shared: every process
 * but its init). */
typedef void (*bh_exec_done_fn)(void *arg, const struct bh_exec_result *result);
/* `fd` is owned by the callback, -1 with `error` an errno. */
typedef void (*bh_box_opened_fn)(void *arg, int fd, int error);
typedef void (*bh_box_done_fn)(void *arg, int code, const struct bh_err *err);

struct bh_box_ops {
    const char *name; /* "ns" */
    /* One bit for each enum bh_limit that this host can hold a box to (watched ones too, where the watch is a fair
     * substitute: DISK and INODES). A create that asks for another fails with -BH_E_HOST unless best_effort. */
    uint32_t (*enforceable)(const struct bh_boxes *b);
    /* Why MEMORY, CPUS or PIDS cannot be had, for people ("no cgroup may be written: …"); NULL where they can. May be
     * absent. */
    const char *(*why_not)(const struct bh_boxes *b);
    /* What holds the limits of a live box; in a shared one with `own`, the limits of one exec (NULL: the box alone). */
    struct bh_enforced (*enforced)(const struct bh_box *box, const struct bh_limits *own);
    /* Whose the files of a box's root are on disk; may be absent: the caller's. */
    uint32_t (*owner)(const struct bh_boxes *b);
    /* Bytes that its root holds now, as far as somebody has looked; -1: nobody has. */
    int64_t (*disk_bytes)(const struct bh_box *box);
    /* Destroys what is left, blocks until it is gone. Callbacks that are still owed are called before it returns. */
    void (*close)(struct bh_boxes *b);
    void (*create)(struct bh_boxes *b, const struct bh_box_spec *spec, bh_box_created_fn fn, void *arg,
                   void (*on_lost)(void *arg));
    struct bh_exec *(*exec)(struct bh_box *box, const struct bh_exec_spec *spec, bh_exec_done_fn fn, void *arg);
    /* To every process of the exec (its pid namespace; in a box that is not shared all of the box but init). SIGKILL
     * cannot be outrun. */
    void (*kill)(struct bh_exec *exec, int sig);
    /*
     * No more writing: every process of a box that is not shared is dead and its root is made read-only (-BH_E_BUSY
     * where somebody still holds a file open for writing). In a shared box: makes sure that the exec's own processes
     * are dead.
     */
    void (*barrier)(struct bh_box *box, bh_box_done_fn fn, void *arg);
    /*
     * Opens `path`, relative to `root` (itself relative to /workspace: "out" or "."), beneath it, no symlinks,
     * non-blocking, read-only. What it is (FIFO, device …) the caller checks by fstat. Directories give an
     * O_PATH|O_DIRECTORY descriptor that may only be walked by openat2 beneath it.
     */
    void (*open_output)(struct bh_box *box, const char *root, const char *path, bh_box_opened_fn fn, void *arg);
    /*
     * A socket that listens on the box's loopback at this port, or one of the next that are free, for somebody outside
     * to accept from: the box's processes can connect to it and nothing else (those on the host's network cannot). May
     * be absent.
     */
    void (*listen)(struct bh_box *box, int port, bh_box_opened_fn fn, void *arg);
    /*
     * Shared boxes; may be absent, as `writers` may. What is written later than a moment is told by `writers`. While
     * one exec runs alone nothing is recorded: it is not worth it.
     */
    uint64_t (*moment)(struct bh_box *box);
    /*
     * Since a moment: who wrote to the file (bh_file_key of mount_id.h; 0: none), or to what had this path. False
     * where nobody can tell.
     */
    bool (*writers)(struct bh_box *box, uint64_t since, uint64_t file, const char *path, struct bh_box_writers *ret);
    /* Of a shared box: the tags of those whose processes have the file open for writing, as far as that may be seen.
     * May be absent. */
    size_t (*holders)(struct bh_box *box, dev_t device, uint64_t inode, uint64_t *ret, size_t max);
    /* Of a shared box: what each exec that runs in it has taken. May be absent. */
    size_t (*census)(struct bh_box *box, struct bh_box_share *ret, size_t max);
    /* Ends the (quiet) box and turns its upper into run_dir/layers/LAYER, durable on success; the box is gone
     * afterwards either way. */
    void (*freeze)(struct bh_box *box, const char *layer, bh_box_done_fn fn, void *arg);
    /*
     * Ends the box, whatever runs in it (open execs end with BOX_LOST before fn). keep: its folder (upper) stays, else
     * it has gone from boxes/KEY when fn is called; what it held may be removed a little later. A lost box, too, is
     * destroyed by its owner.
     */
    void (*destroy)(struct bh_box *box, bool keep, bh_box_done_fn fn, void *arg);
};

struct bh_boxes {
    const struct bh_box_ops *ops;
};
/* Every backend's struct bh_box and struct bh_exec begin with this. */
struct bh_box_head {
    struct bh_boxes *boxes;
};

/*
 * The ns backend. bh_launcher_start must come before any thread is started (nng, database): it starts bulkhead-launcher
 * with posix_spawn and returns the socket to it; `keep_fd` (-1: none) is inherited by it, so that a run stays locked
 * until the launcher too is gone. Finds bulkhead-launcher and bulkhead-init beside the running program or in
 * ../libexec/bulkhead. Blocks until the launcher has said hello or -BH_E_HOST.
 */
int bh_launcher_start(const char *home, int keep_fd, int *ret_sock, int64_t *ret_pid,
                      struct bh_err **err) BH_MUST_CHECK;
/* Takes the socket. */
int bh_boxes_ns_new(struct event_base *loop, int launcher_sock, const char *home, struct bh_boxes **ret,
                    struct bh_err **err) BH_MUST_CHECK;

/*
 * Before any box: how much the state directory may hold; `who` says who wants it so. DISK_FULL where it holds more
 * already; later creates fail by that. Blocks while it is counted.
 */
int bh_boxes_ns_budget(struct bh_boxes *boxes, int64_t bytes, const char *who, struct bh_err **err) BH_MUST_CHECK;

/*
 * Clears up after a dead owner of a run, before anything new is started: processes of boxes that still live (pid and
 * start time compared), boxes/ but the kept ones, tmp/, half-made layers. `keep_layers`: names of layers that are in
 * use.
 */
int bh_boxes_reclaim(const char *run_dir, const char *const *keep_layers, size_t n, struct bh_err **err) BH_MUST_CHECK;

/* Probes by really doing: for `doctor` and for the error of a failed create. One entry per capability. */
struct bh_box_probe {
    const char *name; /* "user namespace", "overlay in a user namespace", "seccomp filter", … */
    bool ok, required;
    char *found;  /* what was found: "works", "EPERM from clone3" */
    char *effect; /* what follows where it is missing */
    char *remedy;
};
/* Needs a launcher. The caller frees each text and the array. */
int bh_boxes_probe(int launcher_sock, struct bh_box_probe **ret, size_t *ret_n, struct bh_err **err) BH_MUST_CHECK;
/* Adds to the error of a launcher that cannot make boxes what is missing first, and what to do about it. */
void bh_boxes_explain(int launcher_sock, struct bh_err **err);
void bh_box_probes_free(struct bh_box_probe *p, size_t n);
