/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the declared outputs of an execution that has ended well into the content store: opened by the box, checked and
 * copied out here. All of them or none: what was stored before one is found wanting stays unreferenced.
 */
#pragma once

#include <time.h>

#include "artifact-bus/lease.h"
#include "workers/box/box.h"
#include "workers/helper.h"
#include "workers/run_files.h"
#include "workers/verdict.h"

struct bh_collect_source { /* how an output is opened: as struct bh_box_ops.open_output */
    void *ctx;
    void *(*open)(void *ctx, const char *root, const char *path, bh_box_opened_fn fn, void *arg);
    void (*forget)(void *opening); /* what open gave: its callback is not called any more */
};

/* In a shared box: how one output was found. */
struct bh_collect_item {
    const char *name, *path;                /* path: relative to /workspace */
    dev_t device;                           /* of the box, and */
    uint64_t inode;                         /* as the box has it; 0: it is gone */
    uint64_t file;                          /* bh_file_key of it; 0: it is gone */
    struct timespec changed;                /* its ctime when it was first looked at */
    bool since_seal;                        /* it is another file, or has changed, since it was first looked at, */
    bool while_copied;                      /* while it was copied, */
    bool vanished;                          /* or it is not there any more */
    bool held;                              /* somebody has it open for writing, or mapped so */
    const struct bh_digest *digest, *later; /* of what was copied, and of what was there after a change; or NULL */
};

struct bh_mask;
struct bh_collect_spec {
    struct bh_helper *helper;
    struct bh_run_files *run;
    const struct bh_lease *lease; /* both borrowed until the collect is freed */
    struct bh_collect_source source;
    /*
     * Of a shared box, or NULL: whether the output is whose it should be. False: `ret` is filled and is the end. Every
     * output is looked at once more before the first is copied.
     */
    bool (*judge)(void *ctx, const struct bh_collect_item *item, struct bh_verdict *ret);
    void *judge_ctx;
    struct bh_mask *mask; /* of the secrets that no output may hold, or NULL; borrowed likewise */
};

struct bh_collect;
/* The verdict may be taken from. The collect may be freed inside. */
typedef void (*bh_collected_fn)(void *arg, struct bh_verdict *verdict);

/* Never calls fn from inside. */
struct bh_collect *bh_collect_start(const struct bh_collect_spec *spec, bh_collected_fn fn, void *arg);
/* After a good verdict: durable objects, in the order of the declaration. The caller owns them. */
void bh_collect_take(struct bh_collect *c, struct bh_result_output **ret, size_t *ret_n);
void bh_collect_free(struct bh_collect *c); /* NULL is fine; at any time */
