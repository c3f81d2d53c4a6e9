/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts values into the {{ }} of a text. What is put in is never looked at again: a value that holds {{ }} stays as it
 * is. Pure.
 */
#pragma once

#include "topologies/pipeline.h"

struct bh_map;

/* What {{ }} may name in one place. */
struct bh_scope {
    struct bh_map *params; /* name → struct bh_param_slot (plan_priv.h); marked as used */
    const struct bh_pair *matrix;
    size_t n_matrix;
    bool has_item, has_round; /* inside for_each, repeat: kept as written, known at run time */
    bool has_attempts;        /* more than one: {{attempt}} is kept; else it is 1 */
    bool before_attempts;     /* made once for all attempts: {{attempt}} is an error */
    bool is_brain;            /* {{mcp_config}} is kept */
    size_t *budget;           /* bytes that may still be made; less after each call */
    struct bh_map *named;     /* NULL, or a set to which the names of parameters are added */
};

/* What becomes of the places that are known only at run time, and of parameters without a value (lint). */
enum bh_open_style {
    BH_OPEN_KEEP,   /* as written */
    BH_OPEN_SAMPLE, /* an example: 0001, 1, x */
    BH_OPEN_GLOB,   /* '*' */
};

/*
 * Gives the text with values put in: `text` itself where it has no {{ }}, else in the arena. *ret_open (may be NULL)
 * says whether a place stayed open. Errors: UNDEFINED (a name that does not exist here), SYNTAX (never closed),
 * TOO_LARGE.
 */
int bh_expand(const struct bh_scope *scope, const char *text, enum bh_open_style style, struct bh_arena *arena,
              const char **ret, bool *ret_open, struct bh_err **err) BH_MUST_CHECK;

/* The largest text that may come out. */
#define BH_EXPAND_MAX (4 * 1024 * 1024)
