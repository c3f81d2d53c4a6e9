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
 * Only what is not the agent's yet: a change of owner copies a file of a lower layer up. The group stays root's, so
 * that a later setup can write there again.
 */
static int give(int dirfd, const char *name, const struct stat *st, uid_t owner)
{
    if (st->st_uid == owner)
        return 0;
    return fchownat(dirfd, name, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW);
}

static int open_to_root(int dir, const struct stat *st)
{
    mode_t want = (st->st_mode & 07777) | S_ISGID | S_IRWXG;
    return st->st_gid != 0 || (st->st_mode & 07777) == want ? 0 : fchmod(dir, want);
}

static int give_tree(int dirfd, const char *name, uid_t owner, int depth);

static int give_entry(int dirfd, const char *name, uid_t owner, int depth)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || give(dirfd, name, &st, owner) < 0)
        return errno == ENOENT ? 0 : -1; /* removed meanwhile */
    return S_ISDIR(st.st_mode) ? give_tree(dirfd, name, owner, depth + 1) : 0;
}

static int give_tree(int dirfd, const char *name, uid_t owner, int depth)
{
    int fd = depth < DEPTH_MAX ? openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0) {
        errno = depth < DEPTH_MAX ? errno : ELOOP;
        return errno == ENOENT || errno == ENOTDIR ? 0 : -1;
    }
    struct stat st;
    DIR *dir = fstat(fd, &st) == 0 && open_to_root(fd, &st) == 0 ? fdopendir(fd) : NULL;
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

int bh_give_to_agent(int box, uid_t owner, struct bh_fail *fail)
{
    BH_CLEANUP_FD int home = bh_open_beneath(box, "home", O_RDONLY | O_DIRECTORY, 0);
    if (give_entry(box, "workspace", owner, 0) < 0)
        return bh_fail(fail, errno, "give /workspace to the agent");
    if (home >= 0 && give_entry(home, "agent", owner, 0) < 0)
        return bh_fail(fail, errno, "give /home/agent to the agent");
    return 0;
}
