/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overlays of any number of directories. The old call takes all options in one page, which is enough for most and is
 * the fastest; the new one takes directory by directory (Linux 6.8); where there is only the old one, many directories
 * are named by short names, those of descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define PAGE 4095

void bh_lowers_add(struct bh_lowers *l, const char *fmt, ...)
{
    char path[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(path, sizeof(path), fmt, ap);
    va_end(ap);
    BH_ASSERT(n > 0 && (size_t)n < sizeof(path)); /* of names that were checked to be short */
    l->paths = bh_grow(l->paths, l->len + (size_t)n + 1, &l->cap, 1);
    memcpy(l->paths + l->len, path, (size_t)n + 1);
    l->len += (size_t)n + 1;
    l->n++;
}

void bh_lowers_fini(struct bh_lowers *l)
{
    bh_free(l->paths);
    *l = (struct bh_lowers){0};
}

/* Where what is written goes, and how. volatile: nothing in an upper has to survive a crash of the host, and without it
 * every unmount would write back the whole file system that the upper is on. Freezing and publishing sync what they
 * keep. */
static void add_upper(const char *tree, struct bh_buf *options)
{
    if (tree)
        bh_buf_addf(options, ",upperdir=/home/upper/%s,workdir=/home/work/%s,volatile", tree, tree);
    bh_buf_adds(options, ",userxattr");
}

static int mount_by_names(const struct bh_lowers *l, const char *tree, const char *at)
{
    BH_CLEANUP_BUF struct bh_buf options = BH_BUF_INIT;
    bh_buf_adds(&options, "lowerdir=");
    for (const char *p = l->paths; p < l->paths + l->len; p += strlen(p) + 1)
        bh_buf_addf(&options, "%s%s", p == l->paths ? "" : ":", p);
    add_upper(tree, &options);
    return bh_mount_overlay(at, options.data, !tree);
}

static int set(int fs, const char *key, const char *fmt, const char *tree)
{
    char value[128];
    (void)snprintf(value, sizeof(value), fmt, tree);
    return fsconfig(fs, FSCONFIG_SET_STRING, key, value, 0);
}

static int configure_upper(int fs, const char *tree)
{
    if (!tree)
        return 0;
    if (set(fs, "upperdir", "/home/upper/%s", tree) < 0 || set(fs, "workdir", "/home/work/%s", tree) < 0)
        return -1;
    return fsconfig(fs, FSCONFIG_SET_FLAG, "volatile", NULL, 0);
}

/* -1 with EINVAL also where the kernel knows no "lowerdir+". */
static int mount_one_by_one(const struct bh_lowers *l, const char *tree, const char *at)
{
    unsigned attrs = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NODIRATIME | (tree ? 0 : MOUNT_ATTR_RDONLY);
    BH_CLEANUP_FD int fs = fsopen("overlay", FSOPEN_CLOEXEC);
    if (fs < 0)
        return -1;
    for (const char *p = l->paths; p < l->paths + l->len; p += strlen(p) + 1) {
        if (fsconfig(fs, FSCONFIG_SET_STRING, "lowerdir+", p, 0) < 0)
            return -1;
    }
    (void)fsconfig(fs, FSCONFIG_SET_STRING, "source", "overlay", 0);
    if (configure_upper(fs, tree) < 0 || fsconfig(fs, FSCONFIG_SET_FLAG, "userxattr", NULL, 0) < 0 ||
        fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -1;
    BH_CLEANUP_FD int fd = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
    return fd < 0 ? -1 : move_mount(fd, "", AT_FDCWD, at, MOVE_MOUNT_F_EMPTY_PATH);
}

static int mount_by_descriptors(const struct bh_lowers *l, const char *tree, const char *at)
{
    BH_CLEANUP_FREE int *fds = bh_calloc(l->n + 1, sizeof(*fds));
    BH_CLEANUP_BUF struct bh_buf options = BH_BUF_INIT;
    size_t n = 0;
    bh_buf_adds(&options, "lowerdir=");
    for (const char *p = l->paths; p < l->paths + l->len; p += strlen(p) + 1) {
        fds[n] = open(p, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fds[n] < 0)
            break;
        bh_buf_addf(&options, "%s/proc/self/fd/%d", n ? ":" : "", fds[n]);
        n++;
    }
    add_upper(tree, &options);
    int rc = -1;
    if (n == l->n) {
        errno = E2BIG;
        rc = options.len < PAGE ? bh_mount_overlay(at, options.data, !tree) : -1;
    }
    int why = errno;
    for (size_t i = 0; i < n; i++)
        bh_close(fds[i]);
    errno = why;
    return rc;
}

int bh_overlay_mount(struct bh_lowers *l, const char *tree, const char *at, struct bh_fail *fail)
{
    const size_t rest = 128; /* of the options behind the directories */
    if (!tree)
        bh_lowers_add(l, "%s", BH_AT_EMPTY); /* an overlay of one directory is none */
    int rc;
    if (l->len + rest < PAGE) {
        rc = mount_by_names(l, tree, at);
    } else {
        rc = mount_one_by_one(l, tree, at);
        if (rc < 0 && errno == EINVAL)
            rc = mount_by_descriptors(l, tree, at);
    }
    if (rc < 0)
        return bh_fail(fail, errno, "mount overlay %s%s", tree ? tree : "", errno == E2BIG ? ": too many layers" : "");
    return 0;
}
