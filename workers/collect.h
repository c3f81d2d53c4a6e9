/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the declared outputs of an execution that has ended well into the content store: opened by the box, checked and
 * copied out here. All of them or none: what was stored before one is found wanting stays unreferenced.
 */
#pragma once

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

struct bh_collect_spec {
    struct bh_helper *helper;
    struct bh_run_files *run;
    const struct bh_lease *lease; /* both borrowed until the collect is freed */
    struct bh_collect_source source;
};

struct bh_collect;
/* The verdict may be taken from. The collect may be freed inside. */
typedef void (*bh_collected_fn)(void *arg, struct bh_verdict *verdict);

/* Never calls fn from inside. */
struct bh_collect *bh_collect_start(const struct bh_collect_spec *spec, bh_collected_fn fn, void *arg);
/* After a good verdict: durable objects, in the order of the declaration. The caller owns them. */
void bh_collect_take(struct bh_collect *c, struct bh_result_output **ret, size_t *ret_n);
void bh_collect_free(struct bh_collect *c); /* NULL is fine; at any time */
