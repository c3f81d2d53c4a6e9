/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a command in a box, from its lease. Pure; everything lies in the arena. */
#pragma once

#include "artifact-bus/lease.h"
#include "base/mem.h"

/* A list of "NAME=value" that is being made. */
struct bh_env_list {
    struct bh_arena *arena;
    const char **items;
    size_t len, cap;
};
bool bh_env_has(const struct bh_env_list *env, const char *name);
void bh_env_add(struct bh_env_list *env, const char *name, const char *value); /* whether it is there or not */
const char *const *bh_env_end(struct bh_env_list *env);                        /* NULL-terminates it */

/*
 * "NAME=value", NULL-terminated: what the lease says, and HOME, PATH, LANG and TMPDIR where it does not. For root, an
 * agent's home in HOME becomes /root.
 */
const char *const *bh_exec_env(struct bh_arena *arena, const struct bh_lease *lease, bool root);
/* For a check: PATH is the one that everybody gets, whatever the document says, and there is no prompt. */
const char *const *bh_exec_env_of_check(struct bh_arena *arena, const struct bh_lease *lease, bool root);
/* Of the setup of a shared box: nothing that is one agent's own, only the run, its parameters and the four above. */
const char *const *bh_exec_env_of_box(struct bh_arena *arena, const struct bh_lease *lease);
/* The NULL-terminated copy of n texts. */
const char *const *bh_exec_texts(struct bh_arena *arena, char *const *texts, size_t n);
