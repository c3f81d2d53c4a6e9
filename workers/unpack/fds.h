/* SPDX-License-Identifier: Apache-2.0 */
/* What bulkhead-unpack is started with: by launcher/unpack.c, and read by unpack/main.c. */
#pragma once

enum {
    BH_UNPACK_FD_ANSWER = 3,
    BH_UNPACK_FD_STREAM,
    BH_UNPACK_FD_ROOT,   /* the folder to fill */
    BH_UNPACK_FD_EMPTY,  /* an empty directory that nobody can write */
    BH_UNPACK_FD_FILTER, /* the system call filter of agents */
    BH_UNPACK_FD_PROGRAM,
    BH_UNPACK_FD_END,
};
