/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking questions to the launcher, for before its socket is on a loop. */
#pragma once

#include "base/fd.h"
#include "workers/box/proto.h"

/* The path of a program that is ours; NULL: it is nowhere. The caller owns it. */
char *bh_program_find(const char *name);

/* The descriptors that come with it are the caller's. */
int bh_launcher_hello(int sock, struct bh_msg_hello *ret, int fds[static BH_MSG_MAX_FDS], size_t *ret_nfds,
                      struct bh_err **err) BH_MUST_CHECK;
