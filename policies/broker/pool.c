/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors are what the host gives this process; bytes are a choice. */
#include "policies/broker/pool.h"

#include <sys/resource.h>

enum { LEAST_FILES = 64 };

size_t bh_pool_share(size_t all, size_t n, size_t least, size_t most)
{
    size_t each = n > 0 ? all / n : all;
    return each < least ? least : each > most ? most : each;
}

/* A quarter is kept for sockets of boxes that are still to come, and for ourselves. */
size_t bh_pool_conns(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur < LEAST_FILES)
        return 1;
    return (size_t)(files.rlim_cur - files.rlim_cur / 4) / 2;
}
