/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Project quotas. $BH_QUOTA_DIR names a directory on a file system that has them, for root of the host; without it,
 * what is tested is that a file system which has none is told from one that has.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/disk/quota.h"

#define MIB (INT64_C(1) << 20)

static void none_in_memory(void **state)
{
    uint32_t project = 0;
    struct bh_disk_usage u;
    (void)state;
    if (!getenv("BH_QUOTA_DIR"))
        T_TRUE(!bh_disk_quota_works("/proc"));
    T_TRUE(!bh_disk_quota_works("/nowhere"));
    BH_CLEANUP_FD int memory = memfd_create("none", MFD_CLOEXEC);
    T_INT(bh_disk_quota_read(memory, 1, &u, NULL), -1);
    T_INT(bh_disk_quota_set(memory, &(struct bh_disk_limits){MIB, 10}, &project), -1);
    T_INT(project, 0);
}

struct box {
    char *path;
    int fd;
};

static void make_box(struct box *b)
{
    static const char *const dirs[] = {"upper/root", "work/root"};
    const char *home = getenv("BH_QUOTA_DIR");
    if (!home || geteuid() != 0)
        t_skip("quota", "BH_QUOTA_DIR names no directory on a file system with project quotas, or we are not root");
    b->path = bh_asprintf("%s/box-XXXXXX", home);
    T_TRUE(mkdtemp(b->path) != NULL);
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        BH_CLEANUP_FREE char *dir = bh_path_join(b->path, dirs[i]);
        T_OK(bh_mkdir_p(dir, 0777, &err));
        T_INT(chmod(dir, 0777), 0);
    }
    T_INT(chmod(b->path, 0755), 0);
    b->fd = open(b->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_TRUE(b->fd >= 0);
}

static void drop_box(struct box *b)
{
    (void)bh_rmtree_at(AT_FDCWD, b->path);
    bh_close(b->fd);
    bh_free(b->path);
}

/* As somebody who may not exceed limits: 0, or the errno of the first write that failed. */
static int fill(const struct box *b, const char *name, int files, size_t len)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        char bytes[4096] = {1}, path[64];
        if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
            _exit(255);
        for (int i = 0; i < files; i++) {
            (void)snprintf(path, sizeof(path), "upper/root/%s%d", name, i);
            int fd = openat(b->fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
            for (size_t done = 0; fd >= 0 && done < len; done += sizeof(bytes)) {
                if (write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
                    _exit(errno);
            }
            if (fd < 0)
                _exit(errno);
            bh_close(fd);
        }
        _exit(0);
    }
    T_INT(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static bool is_full(int error)
{
    return error == EDQUOT || error == ENOSPC;
}

static void works(void **state)
{
    struct box b;
    (void)state;
    make_box(&b);
    T_TRUE(bh_disk_quota_works(getenv("BH_QUOTA_DIR")));
    drop_box(&b);
}

static void bytes_are_exact(void **state)
{
    const struct bh_disk_limits limits = {.bytes = 4 * MIB};
    struct bh_disk_usage before, after;
    struct box b, other;
    uint32_t project;
    (void)state;
    make_box(&b);
    make_box(&other);
    T_INT(bh_disk_quota_set(b.fd, &limits, &project), 0);
    T_INT(bh_disk_quota_read(b.fd, project, &before, NULL), 0);
    T_TRUE(is_full(fill(&b, "f", 1, 100 * (size_t)MIB)));
    T_INT(bh_disk_quota_read(b.fd, project, &after, NULL), 0);
    T_TRUE(after.bytes - before.bytes <= limits.bytes);
    T_TRUE(after.bytes - before.bytes > limits.bytes - 65536);
    T_INT(fill(&other, "f", 1, 8 * (size_t)MIB), 0); /* a neighbour writes on */
    bh_disk_quota_clear(b.fd, project);
    T_INT(fill(&b, "g", 1, 8 * (size_t)MIB), 0);
    drop_box(&b);
    drop_box(&other);
}

static void inodes_are_exact(void **state)
{
    const struct bh_disk_limits limits = {.inodes = 50};
    struct bh_disk_limits held;
    struct bh_disk_usage before, after;
    struct box b;
    uint32_t project;
    (void)state;
    make_box(&b);
    T_INT(bh_disk_quota_set(b.fd, &limits, &project), 0);
    T_INT(bh_disk_quota_read(b.fd, project, &before, NULL), 0);
    T_INT(fill(&b, "f", 50, 0), 0);
    T_TRUE(is_full(fill(&b, "g", 1, 0)));
    T_INT(bh_disk_quota_read(b.fd, project, &after, NULL), 0);
    T_INT(after.inodes - before.inodes, 50);
    T_INT(bh_disk_quota_read(b.fd, project, &after, &held), 0);
    T_INT(held.inodes, after.inodes);
    T_INT(held.bytes, 0);
    bh_disk_quota_clear(b.fd, project);
    drop_box(&b);
}

/* A folder that is used again charges nobody. */
static void cleared_for_the_next(void **state)
{
    const struct bh_disk_limits limits = {.bytes = MIB};
    struct bh_disk_usage u;
    struct box b;
    uint32_t first, second;
    (void)state;
    make_box(&b);
    T_INT(bh_disk_quota_set(b.fd, &limits, &first), 0);
    bh_disk_quota_clear(b.fd, first);
    T_INT(bh_disk_quota_set(b.fd, &limits, &second), 0);
    T_TRUE(first != second);
    T_INT(bh_disk_quota_read(b.fd, first, &u, NULL), 0);
    T_INT(u.inodes, 0);
    T_TRUE(is_full(fill(&b, "f", 1, 2 * (size_t)MIB)));
    bh_disk_quota_clear(b.fd, second);
    drop_box(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_in_memory),       cmocka_unit_test(works),
        cmocka_unit_test(bytes_are_exact),      cmocka_unit_test(inodes_are_exact),
        cmocka_unit_test(cleared_for_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
