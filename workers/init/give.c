/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving trees to the agent after a setup that ran as root. In a shared box other agents may be at work in them, so
 * every step goes from a descriptor to a name in it and no symlink is followed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/init/init.h"

#define DEPTH_MAX 400 /* a descriptor a level */

/*
 * Only what is not the agent's yet: a change of owner copies a file of a lower layer up.
 */
static int give(int dirfd, const char *name, const struct stat *st, struct bh_owner owner)
{
    if (st->st_uid == owner.uid)
        return 0;
    return fchownat(dirfd, name, owner.uid, owner.gid, AT_SYMLINK_NOFOLLOW);
}

/* A later setup, which is in the group of the agent, can write there again. */
static int open_to_group(int dir, const struct stat *st, gid_t group)
{
    mode_t want = (st->st_mode & 07777) | S_IRWXG;
    return st->st_gid != group || (st->st_mode & 07777) == want ? 0 : fchmod(dir, want);
}

static int give_tree(int dirfd, const char *name, struct bh_owner owner, int depth);

static int give_entry(int dirfd, const char *name, struct bh_owner owner, int depth)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || give(dirfd, name, &st, owner) < 0)
        return errno == ENOENT ? 0 : -1; /* removed meanwhile */
    return S_ISDIR(st.st_mode) ? give_tree(dirfd, name, owner, depth + 1) : 0;
}

static int give_tree(int dirfd, const char *name, struct bh_owner owner, int depth)
{
    int fd = depth < DEPTH_MAX ? openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0) {
        errno = depth < DEPTH_MAX ? errno : ELOOP;
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    }
    struct stat st;
    DIR *dir = fstat(fd, &st) == 0 && open_to_group(fd, &st, owner.gid) == 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        bh_close(fd);
        return -1;
    }
    int rc = 0;
    while (rc == 0) {
        errno = 0;
        struct dirent *e = readdir(dir);
        if (!e)
            break;
        if (!bh_streq(e->d_name, ".") && !bh_streq(e->d_name, ".."))
            rc = give_entry(fd, e->d_name, owner, depth);
    }
    int why = errno;
    (void)closedir(dir);
    errno = why;
    return rc == 0 && why == 0 ? 0 : -1;
}

int bh_give_to_agent(int box, struct bh_owner owner, struct bh_fail *fail)
{
    BH_CLEANUP_FD int home = bh_open_beneath(box, "home", O_RDONLY | O_DIRECTORY, 0);
    if (give_entry(box, "workspace", owner, 0) < 0)
        return bh_fail(fail, errno, "give /workspace to the agent");
    if (home >= 0 && give_entry(home, "agent", owner, 0) < 0)
        return bh_fail(fail, errno, "give /home/agent to the agent");
    return 0;
}
