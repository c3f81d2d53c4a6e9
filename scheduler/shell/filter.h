/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command in a box writes, on its way to a person's terminal: text, line ends, tabs, backspaces and bells pass,
 * everything that could steer the terminal is shown escaped. A stream: characters may be cut anywhere. Pure.
 */
#pragma once

#include "base/compiler.h"

struct bh_buf;
struct bh_shell_filter { /* zero-initialise */
    char cut[4];         /* the beginning of a character whose rest has not come yet */
    size_t n_cut;
};
void bh_shell_filter(struct bh_shell_filter *f, const char *data, size_t len, struct bh_buf *out);
/* Nothing more comes. */
void bh_shell_filter_end(struct bh_shell_filter *f, struct bh_buf *out);
