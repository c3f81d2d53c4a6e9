/* SPDX-License-Identifier: Apache-2.0 */
/* Under which key a setup or preparation is kept. */
#pragma once

#include "artifact-bus/lease.h"

/* What a key holds that no lease does. */
struct bh_snapshot_world {
    const char *network; /* of the box, as the plan has it */
    bool tainted;
    const char *host; /* bh_host_stamp(): what the base `host` is at present */
};

/*
 * 64 hex digits: the digest of all that the snapshot of a SETUP or PREPARE lease is made of: base, commands, files,
 * inputs, environment, user, network, label, architecture. `below` is the key of the snapshot it stands on, or NULL.
 * Who it is made for, in which run, and how long it may take are no part of it, unless it may be warm: then nobody else
 * ever has the same key. The caller owns it. Pure.
 */
char *bh_snapshot_key(const struct bh_lease *lease, const char *below, const struct bh_snapshot_world *world);

/*
 * A text that differs where what the base `host` gives a box differs: the folders of programs and libraries and the
 * package database, by identity and time. Looks at the disk; the caller owns it.
 */
char *bh_host_stamp(void);
