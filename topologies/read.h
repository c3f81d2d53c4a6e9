/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the loader reads a map: by a table of keys. The walk finds unknown keys (with the nearest known one), reserved
 * keys and missing ones; each key's reader checks the type of its value. Errors are collected, and reading goes on.
 *
 * Readers give nothing back: what they cannot read they report and leave out of the model, which is thrown away in the
 * end where there was an error.
 */
#pragma once

#include "topologies/yaml_tree.h"

struct bh_map;

struct bh_reader {
    struct bh_pipeline *p;
    struct bh_arena *arena;
    struct bh_errlist *errors;
    struct bh_map
        *said;        /* errors and later keys that were said already: a value may be read again through `defaults` */
    size_t later_cap; /* of p->later */
    struct bh_node **agent_nodes; /* every agent with its defaults, those of `finally`, and `defaults` */
    size_t n_agent_nodes, agent_nodes_cap;
    size_t n_agents_read;
    size_t defaults_nodes; /* how many nodes `defaults` has */
    size_t inherited;      /* nodes that agents took from `defaults` */
    size_t not_said;       /* errors beyond BH_PIPELINE_MAX_ERRORS */
};

typedef void bh_read_fn(struct bh_reader *r, struct bh_node *n, void *field);

enum {
    BH_KEY_REQUIRED = 1, /* absent is an error */
    BH_KEY_LATER = 2,    /* of a later version, whatever its value */
    BH_KEY_RESERVED = 4, /* refused as not-supported; not in the schema */
    BH_KEY_MERGED = 8,   /* in `defaults`: a map of the agent and one of the defaults become one */
    BH_KEY_OWN = 16,     /* an agent's own: no `defaults` for it */
};

struct bh_key {
    const char *name;
    bh_read_fn *read;
    size_t offset; /* of the field in the struct that the table fills */
    unsigned flags;
};

struct bh_key_table {
    const char *name; /* in the schema: $defs/NAME */
    const char *what; /* in messages: "an agent" */
    const struct bh_key *keys;
    size_t len;
    unsigned refuse; /* keys with one of these flags are unknown here */
};

/* All tables, ended by NULL. */
extern const struct bh_key_table *const bh_key_tables[];

/* NULL where the table has none, or refuses it. */
const struct bh_key *bh_key_find(const struct bh_key_table *t, const char *name);

/* Reads the map `n` into `target`. Anything but a map is an error and gives false. */
bool bh_read_map(struct bh_reader *r, struct bh_node *n, const struct bh_key_table *t, void *target);

/* Checks the kind; reports "expected <what>, found …" otherwise. */
bool bh_expect(struct bh_reader *r, const struct bh_node *n, enum bh_node_kind kind, const char *what);

/* "expected <what>, found …" with BH_E_WRONG_TYPE (bh_read_wrong) or BH_E_BAD_VALUE (bh_read_bad). The hint may be
 * NULL. */
void bh_read_wrong(struct bh_reader *r, const struct bh_node *n, const char *what, const char *hint);
void bh_read_bad(struct bh_reader *r, const struct bh_node *n, const char *what, const char *hint);

/* An error at a node; at the key that holds it; at a map that lacks a key. */
void bh_read_error(struct bh_reader *r, const struct bh_node *n, enum bh_code code, const char *hint, const char *fmt,
                   ...) BH_PRINTF(5, 6);
void bh_read_key_error(struct bh_reader *r, const struct bh_node *n, enum bh_code code, const char *hint,
                       const char *fmt, ...) BH_PRINTF(5, 6);
void bh_read_missing(struct bh_reader *r, const struct bh_node *map, const char *key, const char *hint, const char *fmt,
                     ...) BH_PRINTF(5, 6);

/* Notes that the value `n` asks for what this version lacks. */
void bh_read_later(struct bh_reader *r, const struct bh_node *n, const char *key);

/* "did you mean 'x'?" for a near one of `words`, else NULL. In the arena. */
const char *bh_read_nearest(struct bh_reader *r, const char *word, const char *const *words, size_t n);
