/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The values of an execution's secrets: found at the last moment, off the loop, noted in the audit log before anybody
 * has them, put into the environment of `run` and forgotten as soon as that has been sent. What stays is the mask, for
 * as long as something can be printed.
 */
#pragma once

#include "artifact-bus/lease.h"

struct event_base;
struct bh_arena;
struct bh_mask;

/* The threads that look for values: commands may take their time, so there are a few, made when they are needed. */
struct bh_secret_desk;
struct bh_secret_desk *bh_secret_desk_new(struct event_base *loop, const char *home);
/* After all whom it serves. Waits for threads, which nobody waits for any more: at once. NULL is fine. */
void bh_secret_desk_free(struct bh_secret_desk *d);

struct bh_secrets;
void bh_secrets_free(struct bh_secrets *s); /* wipes; NULL is fine */
/* `env` and the variables of the secrets, which win. The list is in the arena, what it points to is in `s`. */
const char *const *bh_secrets_env(const struct bh_secrets *s, struct bh_arena *arena, const char *const *env);
struct bh_mask *bh_secrets_mask(const struct bh_secrets *s); /* a reference for the caller */

/* Called from the loop: the values, which the caller takes, or NULL and why. */
typedef void (*bh_secrets_done_fn)(void *arg, struct bh_secrets *found, int code, const struct bh_err *err);
struct bh_secrets_call;
/*
 * Copies what it needs of the lease. The call may be given up until fn is called, which is not inside this one. POLICY
 * where the lease is tainted: nothing is looked for then.
 */
int bh_secrets_find(struct bh_secret_desk *d, const struct bh_lease *lease, bh_secrets_done_fn fn, void *arg,
                    struct bh_secrets_call **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_secrets_give_up(struct bh_secrets_call *call); /* NULL is fine */
