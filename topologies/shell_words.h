/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A shell text as simple commands, read conservatively: for those who look for what a command line says outright, never
 * for those who would run it. What is not literal (variables, substitutions) is known to be so, and nothing behind a
 * here-document is read at all.
 */
#pragma once

#include "base/compiler.h"

struct bh_arena;

struct bh_shell_word {
    const char *s; /* without quotes */
    bool literal;  /* false: it has a variable, a substitution or a pattern in it */
};
struct bh_shell_command {
    struct bh_shell_word *words; /* assignments before the command are left out, keywords (if, then, !) too */
    size_t n, cap;
    size_t depth; /* of ( ): what `cd` does inside ends there */
};
struct bh_shell_commands {
    struct bh_shell_command *items;
    size_t len, cap;
};

/* Everything lives in the arena. */
void bh_shell_split(const char *text, struct bh_arena *arena, struct bh_shell_commands *ret);
