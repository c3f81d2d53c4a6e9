/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between a person and a command in a box. The command never gets a descriptor of ours: it has the far ends of three
 * pipes, or, where a person sits at a terminal, a terminal of its own that is made here, outside the box, and shares
 * nothing with the person's. What it writes is carried over; to a terminal escaped (filter.h), unless asked for raw.
 *
 * On the loop it is given, which must be able to watch regular files (bh_shell_loop_new).
 */
#pragma once

#include "base/err.h"

struct event_base;
struct bh_shell_io;

struct event_base *bh_shell_loop_new(void); /* NULL where there is none to be had */

/* Whether standard input and output are a terminal. */
bool bh_shell_io_is_terminal(void);
struct bh_shell_io_spec {
    struct event_base *loop;
    bool terminal; /* a terminal of its own for the command; ours is put into raw mode until the end */
    bool raw;      /* bytes to a terminal as they are */
};
int bh_shell_io_new(const struct bh_shell_io_spec *spec, struct bh_shell_io **ret, struct bh_err **err) BH_MUST_CHECK;
/* Of the command: 0, 1, 2; borrowed. */
int bh_shell_io_fd(const struct bh_shell_io *io, int stream);
/* The command has them: ours are closed, and carrying begins. */
void bh_shell_io_start(struct bh_shell_io *io);
/* The command is over: what it has still written is carried over, and the terminal is as it was. */
void bh_shell_io_end(struct bh_shell_io *io);
void bh_shell_io_free(struct bh_shell_io *io); /* NULL is fine; the terminal is as it was */
