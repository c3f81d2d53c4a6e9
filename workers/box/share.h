/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the processes of one exec have taken, added up over the host's /proc. A guess at a moment, as all of
 * disk/processes.h. Numbers that nobody may read stay -1. Blocks for some microseconds a process.
 */
#pragma once

#include "workers/box/box.h"

/* `pid`: the exec's PID 1 as the host numbers it; itself and all below it are counted. Fills what is -1. */
void bh_share_of_processes(int pid, struct bh_box_share *share);

/* Whether a process below `pid` has the file open for writing; what nobody may look into has nothing. */
bool bh_share_holds(int pid, dev_t device, uint64_t inode);

/* TCP ports on which somebody listens in the network of process `pid`, and the numbers of their sockets. */
#define BH_LISTENERS_MAX 64
struct bh_listeners {
    struct bh_listener {
        uint16_t port;
        uint64_t inode;
    } of[BH_LISTENERS_MAX];
    size_t n;
};
void bh_listeners_read(int pid, struct bh_listeners *ret);
/* Which of them processes from `pid` on hold, into the share's ports. */
void bh_share_ports(int pid, const struct bh_listeners *l, struct bh_box_share *share);
