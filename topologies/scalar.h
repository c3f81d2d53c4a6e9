/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers of single values. A scalar is read by the type its key expects: text is whatever stands there (`no`, `1e3`,
 * `08`), an integer or a bool must be written without quotes, a duration or a size may have them.
 *
 * Each reports what it cannot read and returns false; then its output is untouched.
 */
#pragma once

#include "topologies/read.h"

/* Which {{ }} a text may hold. */
enum bh_holds {
    BH_HOLDS_NONE,   /* none: the text is used as it stands */
    BH_HOLDS_SHELL,  /* none, and the hint says how a command gets a value */
    BH_HOLDS_PARAMS, /* params: outside of agents */
    BH_HOLDS_AGENT,  /* params, matrix, item, round, attempt */
    BH_HOLDS_BRAIN,  /* those and mcp_config */
    BH_HOLDS_SECRET, /* secrets */
    BH_HOLDS_URL,    /* url */
};

/* Checks the {{ }} of a text that stands at `n`; `at_key`: that is the key of `n`. */
bool bh_check_holds(struct bh_reader *r, const struct bh_node *n, const char *text, enum bh_holds holds, bool at_key);

/* A text, also an empty one. `what`: "a description". */
bool bh_read_text(struct bh_reader *r, const struct bh_node *n, const char *what, enum bh_holds holds,
                  struct bh_str *ret);
/* The same, not empty. */
bool bh_read_filled(struct bh_reader *r, const struct bh_node *n, const char *what, enum bh_holds holds,
                    struct bh_str *ret);

/* Plain decimal digits between min and max. */
bool bh_read_int(struct bh_reader *r, struct bh_node *n, int64_t min, int64_t max, int64_t *ret);
bool bh_read_bool(struct bh_reader *r, struct bh_node *n, bool *ret);
bool bh_read_duration(struct bh_reader *r, const struct bh_node *n, bool zero_too, int64_t *ret_ns);
bool bh_read_size(struct bh_reader *r, const struct bh_node *n, int64_t *ret_bytes);

/* One of `words`: gives its index. */
bool bh_read_word(struct bh_reader *r, const struct bh_node *n, const char *const *words, size_t len, size_t *ret);

/* Names of agents, stages, boxes; and the looser one of params, secrets, endpoints, matrix axes. */
bool bh_is_name(const char *text);
bool bh_is_identifier(const char *text);
/* Says why a key or a text is no name; at the key where `at_key`. */
void bh_report_name(struct bh_reader *r, const struct bh_node *n, const char *text, bool at_key);
bool bh_read_name(struct bh_reader *r, const struct bh_node *n, struct bh_str *ret);
/* Checks the key of an entry; reports it as "'x' is no name of <what>". */
bool bh_check_identifier_key(struct bh_reader *r, const struct bh_node *n, const char *what);
/* A variable of the environment: not empty, no '='. */
bool bh_check_env_key(struct bh_reader *r, const struct bh_node *n);
/* What the environment and an argument of a program may hold. */
enum { BH_ENV_MAX = 128 * 1024 };

/*
 * A path that stands at `n` (or is its key), relative to a folder `root` ("/workspace") which may be written in front
 * of it, and cleaned of "./" and doubled slashes. '..' is refused.
 */
bool bh_clean_path(struct bh_reader *r, const struct bh_node *n, const char *text, const char *root, bool at_key,
                   struct bh_str *ret);
/* A path beneath the pipeline's folder, kept as written: relative, and never above that folder. */
bool bh_read_host_path(struct bh_reader *r, const struct bh_node *n, enum bh_holds holds, struct bh_str *ret);

/* A command: a string or a list of strings. `holds` is what a list may hold; a string may hold none. */
bool bh_read_command(struct bh_reader *r, const struct bh_node *n, enum bh_holds holds, struct bh_command *ret);
