/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delivery: an object appears as a file below a folder of the caller's, as a hard link, so that no bytes are copied. A
 * box that could write to the link would write to the store: callers present deliveries read-only.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "artifact-bus/cas_priv.h"
#include "artifact-bus/copy_hash_priv.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

enum { LINK_DIR_MODE = 0755 };

static int link_failed(const char *name, int saved_errno, struct bh_err **err)
{
    return bh_err_set(err, saved_errno == EEXIST ? BH_E_EXISTS : BH_E_IO, saved_errno, "cannot deliver '%s'", name);
}

/*
 * Where the host refuses the link: the object belongs to another user (protected_hardlinks), has as many links as the
 * file system counts, or the target is another file system.
 */
static int copy_out(const struct bh_cas_place *p, int parent, const char *base, bool executable, const char *name,
                    struct bh_err **err)
{
    BH_CLEANUP_FD int from = -1;
    if (bh_cas_place_open(p, &from) != 0)
        return link_failed(name, errno, err);
    BH_CLEANUP_FD int to = openat(parent, base, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (to < 0)
        return link_failed(name, errno, err);
    int rc = bh_copy_file(from, to, p->size, err);
    if (rc == 0 && fchmod(to, executable ? BH_CAS_EXEC_MODE : BH_CAS_PLAIN_MODE) != 0)
        rc = link_failed(name, errno, err);
    if (rc != 0)
        (void)unlinkat(parent, base, 0);
    return rc;
}

static int open_parent(int dirfd, const char *name, int *ret_fd)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(name);
    if (strcmp(folder, ".") != 0 && bh_mkdirat_p(dirfd, folder, LINK_DIR_MODE) != 0)
        return -1;
    *ret_fd = bh_open_beneath(dirfd, folder, O_PATH | O_DIRECTORY, 0);
    return *ret_fd >= 0 ? 0 : -1;
}

int bh_cas_link(struct bh_cas *cas, const struct bh_digest *digest, bool executable, int dirfd, const char *name,
                struct bh_err **err)
{
    struct bh_cas_place p;
    BH_CLEANUP_FD int parent = -1;
    int rc = executable ? bh_cas_make_twin(cas, digest, err) : 0;
    if (rc != 0)
        return rc;
    if (!bh_cas_find(cas, digest, executable, &p))
        return bh_cas_complain(err, BH_E_NOT_FOUND, 0, digest, "the content store does not have");
    if (!bh_path_is_clean(name))
        return bh_err_set(err, BH_E_BAD_NAME, 0, "cannot deliver '%s': the name leaves its folder", name);
    if (open_parent(dirfd, name, &parent) != 0)
        return link_failed(name, errno, err);
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    if (linkat(p.dirfd, p.name, parent, base, 0) == 0)
        return 0;
    if (errno == EMLINK || errno == EPERM || errno == EXDEV)
        return copy_out(&p, parent, base, executable, name, err);
    return link_failed(name, errno, err);
}
