/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of the bus, and who may listen at a path. Knows nothing of the library behind it. */
#pragma once

#include "base/err.h"

/* inproc://NAME, NAME of [A-Za-z0-9._-] up to 64 bytes, or ipc://PATH of up to 107: NOT_SUPPORTED or BAD_VALUE. */
int bh_bus_url_check(const char *url, struct bh_err **err) BH_MUST_CHECK;
const char *bh_bus_ipc_path(const char *url); /* borrowed; NULL where it is none */
/* What the library is given for a good url; the caller owns it. */
char *bh_bus_stream_url(const char *url);

/* A path that is taken by this process; others take it for a lock on PATH.lock, which goes with the process. */
struct bh_bus_path {
    char *lock_name;
    int lock_fd; /* -1: not taken */
};
/*
 * Takes `path` and removes a socket that a dead server left there. BUSY: another process has it; PERMISSION: its folder
 * is open to other users. bh_bus_path_leave must follow, on failure too.
 */
int bh_bus_path_take(struct bh_bus_path *p, const char *path, struct bh_err **err) BH_MUST_CHECK;
void bh_bus_path_leave(struct bh_bus_path *p);
