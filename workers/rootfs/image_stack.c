/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/image_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

enum one { ONE_NONE, ONE_HIDES, ONE_FILE, ONE_DIR, ONE_OPAQUE, ONE_OTHER, ONE_CLOSED };

static enum one look_at_dir(int root, const char *path)
{
    char value[2];
    BH_CLEANUP_FD int dir = bh_open_beneath(root, path, O_RDONLY | O_DIRECTORY, 0);
    if (dir < 0 && errno == EACCES)
        return ONE_CLOSED;
    bool opaque = dir >= 0 && fgetxattr(dir, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
    return opaque ? ONE_OPAQUE : ONE_DIR;
}

static enum one look(int root, const char *path)
{
    struct stat st;
    BH_CLEANUP_FD int fd = bh_open_beneath(root, path, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0 && errno == ELOOP)
        return ONE_OTHER;
    if (fd < 0 && errno == EACCES)
        return ONE_CLOSED;
    if (fd < 0 || fstat(fd, &st) < 0)
        return ONE_NONE;
    if (S_ISDIR(st.st_mode))
        return look_at_dir(root, path);
    if (S_ISREG(st.st_mode))
        return ONE_FILE;
    return S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0) ? ONE_HIDES : ONE_OTHER;
}

/* One segment further: `live` are the layers whose directories so far are merged. */
static enum bh_stack_found step(const int *roots, size_t n, bool *live, const char *path, size_t *ret_at)
{
    bool found = false, hidden = false;
    for (size_t i = 0; i < n; i++) {
        enum one one = live[i] && !hidden ? look(roots[i], path) : ONE_NONE;
        live[i] = one == ONE_DIR || one == ONE_OPAQUE;
        if (one == ONE_NONE)
            continue;
        if (one == ONE_CLOSED)
            return BH_STACK_CLOSED;
        if (!live[i] && !found && one != ONE_HIDES) {
            *ret_at = i;
            return one == ONE_FILE ? BH_STACK_FILE : BH_STACK_OTHER;
        }
        if (live[i] && !found)
            *ret_at = i;
        found = found || live[i];
        hidden = one != ONE_DIR;
    }
    return found ? BH_STACK_DIR : BH_STACK_NONE;
}

enum bh_stack_found bh_stack_find(const int *roots, size_t n, const char *path, int *ret_fd)
{
    BH_CLEANUP_FREE bool *live = bh_calloc(n + 1, sizeof(*live));
    enum bh_stack_found found = BH_STACK_DIR;
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        live[i] = true;
    for (const char *end = path; found == BH_STACK_DIR && *end;) {
        end += *end == '/';
        end += strcspn(end, "/");
        BH_CLEANUP_FREE char *prefix = bh_strndup(path, (size_t)(end - path));
        found = step(roots, n, live, prefix, &at);
        if (found == BH_STACK_FILE && *end)
            return BH_STACK_OTHER;
    }
    if ((found == BH_STACK_FILE || found == BH_STACK_DIR) && ret_fd) {
        int flags = found == BH_STACK_FILE ? O_RDONLY | O_NOFOLLOW | O_NONBLOCK : O_PATH | O_DIRECTORY;
        *ret_fd = bh_open_beneath(roots[at], path, flags, 0);
        if (*ret_fd < 0)
            return errno == EACCES ? BH_STACK_CLOSED : BH_STACK_OTHER;
    }
    return found;
}
