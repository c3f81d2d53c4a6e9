/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may make an artifact: an index of all declared outputs by name, and of glob families and open names by what they
 * begin with, so that binding 10,000 inputs does not look at 10,000 outputs each.
 */
#pragma once

#include "base/compiler.h"

struct bh_arena;
struct bh_makers;

struct bh_maker {
    const char *name; /* as declared: a name, or the pattern of a family */
    bool is_family;   /* a glob, or a name with places that are known only at run time */
    size_t agent;
};

/* What fits a name or a pattern, in the order of the agents. */
struct bh_maker_list {
    const struct bh_maker **items;
    size_t len, cap;
    size_t *agents; /* of the items, each once; may be shared by all who ask */
    size_t n_agents;
};

struct bh_makers *bh_makers_new(struct bh_arena *arena); /* freed by bh_makers_free; its lists live in the arena */
void bh_makers_free(struct bh_makers *m);
/* `literal` is the text as declared, `pattern` what it may become (the same for a plain name). Both are borrowed. */
void bh_makers_add(struct bh_makers *m, const char *literal, const char *pattern, size_t agent);
void bh_makers_seal(struct bh_makers *m); /* after the last bh_makers_add, before the first look */

/* How many outputs were compared with something since it was asked last. */
size_t bh_makers_work(struct bh_makers *m);

/* Outputs declared with exactly this text. NULL where there is none. */
const struct bh_maker_list *bh_makers_exact(const struct bh_makers *m, const char *literal);
/* All that fit a glob, plain names and families. The same pattern gives the same list. */
const struct bh_maker_list *bh_makers_of_glob(struct bh_makers *m, const char *pattern);
/* Families that may make a name. */
const struct bh_maker_list *bh_makers_of_name(struct bh_makers *m, const char *name);
