/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker between a fake box backend and a scripted engine, all on one loop. A test makes leases, lets the loop run
 * until something was said, and looks at what was said. Nothing sleeps: rig_until fails after ten seconds.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/val.h"
#include "tests/support/fake_boxes.h"
#include "tests/support/t.h"
#include "workers/worker.h"

struct bh_bus_request;

struct rig {
    char *home, *url;
    struct bh_run_id run;
    struct event_base *loop;
    struct bh_boxes *backend;
    struct fake_boxes *boxes; /* the same, where it is the fake */
    struct bh_worker *worker;
    struct bh_cas *cas; /* the test's own handle of the store */
    unsigned instances;

    /* the engine */
    struct bh_bus_server *server;
    struct event *readable;
    struct rig_lane {
        struct bh_bus_request *parked;
        struct bh_val *queue[64];
        size_t n;
    } work, control;
    int hellos;
    bool refuse_hello, drop_done, stale;
    struct bh_buf said; /* one line per message: "state 1 booting", "done 1", "frozen crew.1 ok", "released crew.1" */
    struct bh_map *results; /* struct bh_result by instance */
};

struct rig *rig_new(void);
/* With another backend: `make` is called before the bus is touched. NULL where it gives none. */
struct rig *rig_new_with(struct bh_boxes *(*make)(struct event_base *loop, const char *home));
void rig_free(struct rig *r);
/* For cmocka. */
int rig_setup(void **state);
int rig_teardown(void **state);

void rig_engine_start(struct rig *r);
void rig_engine_stop(struct rig *r); /* as if it had died */
void rig_worker_start(struct rig *r);
void rig_worker_stop(struct rig *r);
void rig_worker_again(struct rig *r); /* after a stop; returns when it has been greeted */

/* Runs the loop until it holds; fails the test where it does not come to hold. */
void rig_until(struct rig *r, bool (*holds)(struct rig *r, const void *arg), const void *arg);
void rig_until_said(struct rig *r, const char *line);
bool rig_said(const struct rig *r, const char *line);

/*
 * A lease of the next instance with a box of its own; `steps` (NULL-terminated) are what `run` does (fake_boxes.h). The
 * test may change it before it is sent.
 */
struct bh_lease rig_lease(struct rig *r, const char *const *steps);
#define RIG_LEASE(r, ...) rig_lease((r), (const char *const[]){__VA_ARGS__, NULL})
/* Instead: a real command line. */
void rig_set_argv(char ***argv, size_t *n, const char *const *words);
#define RIG_RUN(lease, ...) rig_set_argv(&(lease)->run_argv, &(lease)->n_run, (const char *const[]){__VA_ARGS__, NULL})
void rig_set_setup(struct bh_lease *lease, const char *const *steps);
#define RIG_SETUP(lease, ...) rig_set_setup((lease), (const char *const[]){__VA_ARGS__, NULL})
void rig_set_shared(struct bh_lease *lease, const char *key);
void rig_set_box_setup(struct bh_lease *lease, const char *const *steps);
#define RIG_BOX_SETUP(lease, ...) rig_set_box_setup((lease), (const char *const[]){__VA_ARGS__, NULL})
struct bh_lease_output *rig_add_output(struct bh_lease *lease, const char *name);
struct bh_lease_output *rig_add_glob(struct bh_lease *lease, const char *glob);
struct bh_object rig_store(struct rig *r, const char *text);
void rig_set_text(char **field, const char *text);

/* Sends it (and frees it), gives its instance. */
struct bh_instance_id rig_send(struct rig *r, struct bh_lease *lease);
void rig_send_kill(struct rig *r, struct bh_instance_id instance, int64_t epoch);
void rig_send_box(struct rig *r, const char *kind, const char *key, const char *layer);
/* Runs until it is done. */
const struct bh_result *rig_result(struct rig *r, struct bh_instance_id instance);
const struct bh_result *rig_run(struct rig *r, struct bh_lease *lease);
/* Both texts of the log: "stdout|stderr", lines without an end marked by "\\". */
char *rig_log(struct rig *r, struct bh_instance_id instance);
char *rig_gate_log(struct rig *r, struct bh_instance_id instance); /* of its gates' commands */
void rig_expect_object(struct rig *r, const struct bh_result_output *output, const char *name, const char *text);
