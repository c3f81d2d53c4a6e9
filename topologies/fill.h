/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills the {{ }} of one key of the document and checks again what came out: a value may spoil a name or lead a path
 * out of its folder. Errors are reported at the key; the text then stays as it was written.
 */
#pragma once

#include "topologies/plan_priv.h"

/* Where a text stands. The path of the document is written out only for an error. */
struct bh_where {
    const char *owner; /* "stages[0].agents[1]"; "" for the top level */
    const char *key;
    bool in_list, in_map;
    size_t index;
    const char *entry;
};
#define BH_AT(owner_, key_) ((struct bh_where){.owner = (owner_), .key = (key_)})
#define BH_AT_INDEX(owner_, key_, i_) \
    ((struct bh_where){.owner = (owner_), .key = (key_), .in_list = true, .index = (i_)})
#define BH_AT_ENTRY(owner_, key_, e_) \
    ((struct bh_where){.owner = (owner_), .key = (key_), .in_map = true, .entry = (e_)})
const char *bh_where_path(struct bh_planner *pl, struct bh_where at);

/* All of them give NULL for an absent text. */
const char *bh_fill_text(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text, struct bh_where at);
/* A name or a glob of artifacts; `is_input` allows name@2. */
struct bh_text bh_fill_artifact(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text, bool is_glob,
                                bool is_input, struct bh_where at);
/* A path in a box, relative and clean. */
const char *bh_fill_path(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text, struct bh_where at);
/* A path of the host, beneath the pipeline's folder. */
const char *bh_fill_host_path(struct bh_planner *pl, const struct bh_scope *scope, struct bh_str text,
                              struct bh_where at);
/* argv; a string command becomes {"/bin/sh", "-ceu", TEXT} and is never expanded. NULL, 0 where there is none. */
const char **bh_fill_command(struct bh_planner *pl, const struct bh_scope *scope, const struct bh_command *cmd,
                             const char *owner, const char *key, size_t *ret_n);
/* `files`: path in the box → path of the host; as many as the document has. */
struct bh_pair *bh_fill_files(struct bh_planner *pl, const struct bh_scope *scope, const struct bh_pairs *files,
                              const char *owner);
/* `env`: only the values. */
struct bh_pair *bh_fill_env(struct bh_planner *pl, const struct bh_scope *scope, const struct bh_pairs *env,
                            const char *owner);
