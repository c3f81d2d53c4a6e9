/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `bulkhead run`: engine, store and worker in one process, over the same bus code as between hosts. Blocks until the
 * run has ended or was interrupted; handles SIGINT, SIGTERM and SIGHUP while it does.
 */
#pragma once

#include "base/err.h"
#include "base/home.h"
#include "scheduler/core/engine.h"
#include "topologies/plan.h"

struct bh_run_source { /* --source NAME=PATH */
    const char *name, *path;
};

/* What a front end is told as the run goes; called on the loop, must not block. Any member may be NULL. */
struct bh_run_watch {
    void *arg;
    /* Both are valid until `ended`; of a resumed run the engine holds what had been reached before. */
    /* Before it starts: limits that are not enforced, with the site's leave: "best-effort: memory cpus". */
    void (*limits)(void *arg, const char *watched);
    /* Before it starts: a base has to be unpacked, which may take a while. */
    void (*importing)(void *arg, const char *base);
    void (*started)(void *arg, const char *run, const struct bh_plan *plan, const struct bh_engine *engine);
    void (*node)(void *arg, size_t agent, enum bh_node_state state, const struct bh_attempt *attempt,
                 const char *detail);
    void (*attempt)(void *arg, size_t agent, enum bh_attempt_state state);
    /* A gate was asked, was decided, or has expired: `facts` is the payload of that event (question.h), with who and
     * why where somebody decided. */
    void (*gate)(void *arg, const struct bh_gate *gate, const struct bh_val *facts);
    void (*interrupted)(void *arg, int signal); /* the first one: from here on the run is being cancelled */
    void (*tick)(void *arg);                    /* four times a second, for what shows elapsed time */
    void (*ended)(void *arg, enum bh_run_status status);
};

struct bh_run_options {
    const struct bh_home *home;
    const char *file; /* the document's path: files and sources are found beneath its folder */
    const char *text; /* the document */
    size_t text_len;
    const struct bh_param_value *params;
    size_t n_params;
    const struct bh_run_source *sources;
    size_t n_sources;
    int64_t max_parallel; /* 0: as the document says */
    bool keep_going;
    const char *const *only, *const *from; /* NULL-terminated agent names or NULL */
    /* What the plan asks for beyond the folder of the document (never none): 0, or a code and *err. NULL: refused. */
    int (*grant)(void *arg, const struct bh_plan *plan, struct bh_err **err);
    void *grant_arg;
    struct bh_run_watch watch;
};
struct bh_run_outcome {
    struct bh_run_id run;
    enum bh_run_status status;
    enum bh_reason reason; /* of a failed one */
    int signal;            /* that interrupted it, or 0 */
};

/* A new run. The document must load and plan without errors; keys of a later version are -BH_E_NOT_SUPPORTED before
 * anything is made. */
int bh_run_new(const struct bh_run_options *options, struct bh_run_outcome *ret,
               struct bh_errlist *errors) BH_MUST_CHECK;
/*
 * Goes on with a run. file/text may be NULL; where they are given and differ from the run's document: USAGE. BUSY where
 * another process owns it. A run that has succeeded starts nothing.
 */
int bh_run_resume(const struct bh_run_options *options, const char *run, struct bh_run_outcome *ret,
                  struct bh_errlist *errors) BH_MUST_CHECK;
