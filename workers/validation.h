/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `validate`: whether content that is in the store is what the document asks for. First the kind, size and lines of all
 * of it, on the helper thread; then the commands, one after the other, each in a box of its own: the agent's base with
 * what its setup made (where it has a preparation: the base alone), no network, its `files`, the artifact read-only at
 * /workspace/in/NAME, which BULKHEAD_ARTIFACT names. Exit status 0 passes. Nothing of the agent's own box, environment
 * or secrets is in it.
 */
#pragma once

#include "workers/capture.h"
#include "workers/execution.h"
#include "workers/verdict.h"

struct bh_validation_item { /* borrowed */
    const char *name;
    const struct bh_object *object;
    const struct bh_lease_validate *validate;
    const char *provenance; /* JSON text or NULL */
};

struct bh_validation_spec { /* all borrowed until it is freed */
    const struct bh_execution_host *host;
    struct bh_run_files *run;
    const struct bh_lease *lease;
    struct bh_capture *capture;
    const struct bh_validation_item *items;
    size_t n_items;
    bool is_gate; /* of inputs: what does not pass ends by `policy`; else they are outputs: `output-invalid` */
};

/* Whether there is anything to look at. */
bool bh_validate_asks(const struct bh_lease_validate *v);

struct bh_validation;
/* Takes the verdict; the validation may be freed inside. */
typedef void (*bh_validation_fn)(void *arg, struct bh_verdict *verdict);
/* Never calls fn from inside. */
struct bh_validation *bh_validation_start(const struct bh_validation_spec *spec, bh_validation_fn fn, void *arg);
/* Somebody asks that it end: fn comes as always, cancelled. */
void bh_validation_stop(struct bh_validation *v);
/* Kills what still runs; fn is not called any more. NULL is fine. */
void bh_validation_free(struct bh_validation *v);
