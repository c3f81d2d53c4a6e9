/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ns backend driven step by step, for tests and benchmarks: each call runs the loop until its answer is there.
 */
#pragma once

#include "base/buf.h"
#include "workers/box/box.h"

struct event_base;

struct kit {
    struct event_base *loop;
    struct bh_boxes *boxes;
    char *home, *run_dir;
    int64_t launcher;
    unsigned serial;
    long patience_s; /* how long it waits for one thing; 0: 30 s */
};

/* A launcher on a new home below `dir`, and a run in it. 0, or a negative code with err. */
int kit_open(struct kit *k, const char *dir, struct bh_err **err) BH_MUST_CHECK;
/* A second backend on the same home and run, after the first is closed. */
int kit_reopen(struct kit *k, struct bh_err **err) BH_MUST_CHECK;
void kit_close(struct kit *k); /* the home stays */
void kit_fini(struct kit *k);
/* Runs the loop until *flag; fails the process where that takes longer than its patience. */
void kit_wait(struct kit *k, const bool *flag);
void kit_turn(struct kit *k); /* one turn of the loop; fails the process after 30 s */

struct kit_box {
    struct kit *kit;
    struct bh_box *box;
    char *key;
    bool created, lost, done;
    unsigned lost_calls;
    int code;
    char *message; /* of a failed create, or of the last call */
};

struct kit_how {
    bool writable_usr, shared, disposable, best_effort, warm, host_network;
    struct bh_exec *beneath;
    const char *layer;
    const char *const *base; /* folders of an image, newest first */
    size_t n_base;
    struct bh_limits limits;
};
/* 0 or the code of create; then `message` says why, until kit_forget. */
void kit_forget(struct kit_box *b);
int kit_create(struct kit *k, struct kit_box *b, const struct kit_how *how);
int kit_destroy(struct kit_box *b, bool keep);
int kit_freeze(struct kit_box *b, const char *layer);
int kit_barrier(struct kit_box *b);
/* Descriptor, or -1 and *ret_errno. */
int kit_open_output(struct kit_box *b, const char *root, const char *path, int *ret_errno);

/* A socket that listens in it; -1 and *ret_errno. */
int kit_listen(struct kit_box *b, int port, int *ret_errno);

struct kit_exec {
    struct bh_exec_spec spec; /* stdio is filled in by kit_start where it is 0 */
    struct bh_exec *exec;
    bool done;
    struct bh_exec_result result;
    char step[256];
    struct bh_buf out, err; /* what it wrote */
    int out_fd, err_fd;
    unsigned calls;
};
/* Starts it with fresh pipes; kit_finish waits and reads them. */
void kit_start(struct kit_box *b, struct kit_exec *e);
void kit_finish(struct kit_box *b, struct kit_exec *e);
void kit_drain(struct kit *k, struct kit_exec *e); /* a turn of the loop, and what it has written until then */
void kit_exec_fini(struct kit_exec *e);
/* Both, for `sh -c text`; *e is overwritten. The environment has PATH only. */
void kit_sh(struct kit_box *b, struct kit_exec *e, const char *text);
/* The same with more of the spec (argv is set); *e must be zero but for spec. */
void kit_sh_with(struct kit_box *b, struct kit_exec *e, const char *text);
/* For a shell in a box: the names of all processes that it sees, by builtins alone, so that it starts none itself. */
#define KIT_PS "for p in /proc/[0-9]*; do read -r c < $p/comm && echo $c; done"
#define KIT_PS_ALONE "sh\n" /* init is not for agents to see */
/* Writes a file below the box's deliver folder, as the worker does: 0444 in folders of 0755. */
void kit_deliver(struct kit_box *b, const char *name, const char *content);
/* From the box's pid file. */
int64_t kit_init_pid(struct kit_box *b);
char *kit_path(struct kit_box *b, const char *name); /* below the box's folder; the caller owns it */

/*
 * For cmocka: a kit for all tests of a program. Where this host cannot make boxes at all, the program skips (77),
 * unless $BH_MUST_RUN says that it must run.
 */
extern struct kit kit;
int kit_begin(void); /* 0, or what main returns */
void kit_end(void);
#define KIT_MAIN(tests)                                          \
    do {                                                         \
        int kit_rc_ = kit_begin();                               \
        if (kit_rc_ == 0) {                                      \
            kit_rc_ = cmocka_run_group_tests(tests, NULL, NULL); \
            kit_end();                                           \
        }                                                        \
        return kit_rc_;                                          \
    } while (0)
