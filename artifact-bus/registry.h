/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is on the bus in one run, and the publish transaction. Memory only: the run's event log is what makes it durable
 * (the event that says "this attempt succeeded with these outputs" is the commit), and replaying that log rebuilds the
 * registry.
 */
#pragma once

#include "artifact-bus/cas.h"
#include "base/clock.h"

struct bh_artifact {
    const char *name;
    struct bh_object object;
    const char *agent;    /* "" for a source */
    int attempt;          /* 0 for a source */
    const char *instance; /* "" for a source */
    bool tainted, private_;
    bool selected; /* the plain name of what its instance has published as name@N */
    struct bh_wall published;
    const char *provenance; /* JSON text */
};

struct bh_registry;
struct bh_registry *bh_registry_new(void);
void bh_registry_free(struct bh_registry *r);

/*
 * All of `items` or none: -BH_E_COLLISION names both agents, their attempts and digests (also when the bytes are
 * equal). The same instance may publish the same items again (a repeated message): 0 and nothing changes. A later try
 * of an attempt takes the place of an earlier one under name@N. Copies the items.
 */
int bh_registry_publish(struct bh_registry *r, const struct bh_artifact *items, size_t n,
                        struct bh_err **err) BH_MUST_CHECK;
/* The check alone. */
int bh_registry_check(const struct bh_registry *r, const struct bh_artifact *items, size_t n,
                      struct bh_err **err) BH_MUST_CHECK;

const struct bh_artifact *bh_registry_get(const struct bh_registry *r, const char *name); /* borrowed or NULL */
size_t bh_registry_len(const struct bh_registry *r);
/* In order of publication. One that a later try has taken the place of is still there; bh_registry_get gives the
 * newest. */
const struct bh_artifact *bh_registry_at(const struct bh_registry *r, size_t i);
