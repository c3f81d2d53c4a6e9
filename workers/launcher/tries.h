/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that a box needs of the host, as things to try. Each runs in a child in namespaces of its own, so nothing
 * that it does stays.
 */
#pragma once

#include "workers/launcher/launcher.h"

enum bh_try {
    BH_TRY_USER,
    BH_TRY_MOUNT,
    BH_TRY_PID,
    BH_TRY_NET,
    BH_TRY_IPC,
    BH_TRY_UTS,
    BH_TRY_CGROUP,
    BH_TRY_CALLS,
    BH_TRY_MOUNT_CALLS,
    BH_TRY_OVERLAY,
    BH_TRY_PROC,
    BH_TRY_ROOT,
    BH_TRY_CAPS,
    BH_TRY_SECCOMP,
    BH_TRIES_REQUIRED,
    BH_TRY_LANDLOCK = BH_TRIES_REQUIRED,
    BH_TRIES,
};

/* Tries one; needs bh_tries_begin. 0, or -1 with what failed in it. */
int bh_try(const struct bh_launcher *l, enum bh_try what, struct bh_fail *ret);
/* All that is required in one go: what a box costs. 0, or -1 and which one it is. */
int bh_try_all(const struct bh_launcher *l, bool with_overlay, enum bh_try *ret_which, struct bh_fail *ret);

/* Makes and removes what overlays are tried on, below the state directory. */
void bh_tries_begin(const struct bh_launcher *l, bool with_overlay);
void bh_tries_end(const struct bh_launcher *l);
