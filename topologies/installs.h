/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which packages a command line installs, in which version and where, as far as it says so outright: pip, npm (also
 * yarn and pnpm), apt (and dpkg), cargo, gem. Conservative: what is computed, and what is not pinned, is not there.
 */
#pragma once

#include "topologies/version_text.h"

struct bh_arena;

struct bh_install {
    const char *kind;  /* "npm", "pip", "apt", "cargo", "gem" */
    const char *place; /* packages at two places do not meet: "/workspace", "/opt/venv", "global", "" */
    const char *name;
    struct bh_version version;
    const char *command; /* "npm install --offline d3-format-2.0.0.tgz" */
};
struct bh_installs {
    struct bh_install *items;
    size_t len, cap;
};

/* `argv` is as the plan has it: a text for the shell is {"/bin/sh", "-ceu", TEXT}. Appended; all in the arena. */
void bh_installs_of(const char *const *argv, size_t n, const char *workdir, struct bh_arena *arena,
                    struct bh_installs *ret);
/* The same package at the same place in versions of which no one can be both. */
bool bh_installs_conflict(const struct bh_install *a, const struct bh_install *b);
