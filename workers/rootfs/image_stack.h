/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looking into layers that are not mounted, as an overlay of them would: the newest that has a name decides, whiteouts
 * and opaque directories hide what is below. No symlink is followed.
 */
#pragma once

#include "base/compiler.h"

enum bh_stack_found {
    BH_STACK_NONE,
    BH_STACK_FILE,
    BH_STACK_DIR,
    BH_STACK_OTHER,  /* a symlink on the way, too */
    BH_STACK_CLOSED, /* its mode, or that of a directory on the way, keeps us out: nothing can be said of it */
};

/*
 * `roots`: descriptors, newest first. `path` is clean. *ret_fd (may be NULL): of a FILE, to read; of a DIR, O_PATH of
 * the one whose owner and mode count.
 */
enum bh_stack_found bh_stack_find(const int *roots, size_t n, const char *path, int *ret_fd);
