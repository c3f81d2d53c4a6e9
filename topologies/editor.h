/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small changes to a pipeline document as a person would make them: a key set, a key taken away, an agent put behind
 * another one. The rest of the text, its comments and its layout, stay as they are. Pure.
 *
 * Every change answers whether it could be made: a place that comes from an alias, a value over several lines and the
 * like are left to the person.
 */
#pragma once

#include "topologies/yaml_tree.h"

struct bh_buf;
struct bh_map;

struct bh_editor {
    const char *text; /* borrowed, as is the tree that was read from it */
    size_t len;
    const struct bh_node *root;
    size_t *lines; /* where each begins; made on first use, as is the index of the agents */
    size_t n_lines, cap_lines;
    struct bh_map *agents;
    struct bh_edit {
        size_t at, len; /* bytes of the text that go … */
        char *put;      /* … and what comes in their place */
    } * edits;
    size_t n_edits, cap_edits;
};
void bh_editor_init(struct bh_editor *ed, const char *text, size_t len, const struct bh_node *root);
void bh_editor_fini(struct bh_editor *ed);

/* The map of an agent, also one of `finally`; NULL where no agent has that name. */
const struct bh_node *bh_editor_agent(struct bh_editor *ed, const char *name);

/* Replaces the value of a key that has one on a single line, or adds the entry behind that of `name`. `value` is YAML
 * on one line. */
bool bh_editor_set(struct bh_editor *ed, const struct bh_node *map, const char *key, const char *value);
/* Takes an entry away; true where there is none. */
bool bh_editor_remove(struct bh_editor *ed, const struct bh_node *map, const char *key);
/* Puts an agent behind `agent`: pairs of key and value in YAML on one line, ended by NULL. */
bool bh_editor_add_agent(struct bh_editor *ed, const struct bh_node *agent, const char *const *entries);
/* The value of an entry as it is written, where it is on one line; else false. Appended. */
bool bh_editor_value_text(struct bh_editor *ed, const struct bh_node *value, struct bh_buf *out);

/* Any text as YAML on one line: in double quotes. The caller owns it. */
char *bh_editor_quote(const char *text);

/* The text with all changes in it; false where two of them meet. */
bool bh_editor_result(struct bh_editor *ed, struct bh_buf *out);
