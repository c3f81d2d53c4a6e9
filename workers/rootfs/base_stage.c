/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/base_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

#define TRIES 100

/* Who sweeps may come between the making and the lock: it must still have its name when the lock is ours. */
int bh_base_stage(int bases, const char *what, char **ret_name)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct stat st;
        BH_CLEANUP_FREE char *name = bh_asprintf(BH_TEMPORARY_PREFIX "%s-%d-%u", what, (int)getpid(), i);
        if (mkdirat(bases, name, 0700) < 0) {
            if (errno != EEXIST)
                return -1;
            continue;
        }
        BH_CLEANUP_FD int fd = openat(bases, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 && st.st_nlink > 0) {
            *ret_name = BH_TAKE(name);
            return BH_TAKE_FD(fd);
        }
    }
    errno = EAGAIN;
    return -1;
}
