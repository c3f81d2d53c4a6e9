/* SPDX-License-Identifier: Apache-2.0 */
/* The content store under a full disk, writers that do not stop, several processes, and refused links. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "artifact-bus/cas.h"
#include "artifact-bus/copy_hash_priv.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

enum { LARGE = 4 * 1024 * 1024 };

struct fixture {
    char *dir, *store, *tmp;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->store = bh_path_join(f->dir, "cas");
    f->tmp = bh_path_join(f->dir, "tmp");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)umount2(f->dir, MNT_DETACH);
    t_tmpdir_free(f->dir);
    bh_free(f->store);
    bh_free(f->tmp);
    bh_free(f);
    return 0;
}

static int new_file(size_t len, char fill)
{
    int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    BH_CLEANUP_FREE char *data = bh_alloc(len + 1);
    assert_true(fd >= 0);
    memset(data, fill, len);
    T_INT(bh_write_all(fd, data, len), 0);
    return fd;
}

static int count_below(const char *path)
{
    BH_CLEANUP_FREE char *command = bh_asprintf("find '%s' -type f | wc -l", path);
    FILE *p = popen(command, "r");
    int n = -1;
    assert_non_null(p);
    T_INT(fscanf(p, "%d", &n), 1);
    pclose(p);
    return n;
}

/* --- a full disk --- */

static bool mount_small(const char *dir, const char *options)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", dir, "tmpfs", 0, options) == 0;
}

static void test_full_disk(void **state)
{
    struct fixture *f = *state;
    static const size_t lens[] = {200 * 1024, LARGE}; /* by the small way and by the large one */
    struct bh_cas *cas;
    struct bh_object o;
    if (geteuid() != 0 || !mount_small(f->dir, "size=1m,mode=0700"))
        t_skip("mount", "a small tmpfs cannot be mounted here");
    T_OK(bh_cas_open(f->store, f->tmp, &cas, &err));
    for (size_t i = 0; i < BH_ARRAY_LEN(lens); i++) {
        int rc = 0;
        for (char fill = 'a'; rc == 0; fill++) { /* different content until nothing more fits */
            BH_CLEANUP_FD int fd = new_file(lens[i], fill);
            struct bh_err *err = NULL;
            int before = count_below(f->dir);
            rc = bh_cas_put_fd(cas, fd, false, -1, &o, &err);
            if (rc != 0) {
                T_INT(rc, -BH_E_DISK_FULL);
                assert_non_null(strstr(bh_err_message(err), "No space left on device"));
                T_INT(count_below(f->dir), before);
            }
            bh_err_free(err);
        }
    }
    /* what was put before the disk was full is whole */
    T_OK(bh_cas_sync(cas, &err));
    BH_CLEANUP_FREE char *first = bh_alloc(lens[0]);
    memset(first, 'a', lens[0]);
    struct bh_digest d = bh_digest_of(first, lens[0]);
    T_OK(bh_cas_verify(cas, &d, &err));
    T_INT(count_below(f->tmp), 0);
    bh_cas_close(cas);
}

static void test_no_inode_left(void **state)
{
    struct fixture *f = *state;
    struct bh_cas *cas;
    struct bh_object o;
    if (geteuid() != 0 || !mount_small(f->dir, "nr_inodes=12,mode=0700"))
        t_skip("mount", "a small tmpfs cannot be mounted here");
    T_OK(bh_cas_open(f->store, f->tmp, &cas, &err));
    int rc = 0;
    for (int i = 0; rc == 0; i++)
        rc = bh_cas_put_bytes(cas, &i, sizeof(i), &o, NULL);
    T_INT(rc, -BH_E_DISK_FULL);
    /* the names need folders, for which there is no inode: all of it is given up, and the space comes back */
    T_ERR(bh_cas_sync(cas, &err), BH_E_DISK_FULL, "cannot make a folder in the content store");
    T_INT(count_below(f->tmp), 0);
    T_OK(bh_cas_put_bytes(cas, "x", 1, &o, &err));
    T_OK(bh_cas_sync(cas, &err));
    T_OK(bh_cas_verify(cas, &o.digest, &err));
    bh_cas_close(cas);
}

/* --- writers that do not stop --- */

struct writer {
    int fd;
    atomic_bool stop;
    bool append;
};

static void *write_on(void *arg)
{
    struct writer *w = arg;
    char piece[4096] = {0};
    for (unsigned i = 0; !atomic_load(&w->stop); i++) {
        memset(piece, (int)i, sizeof(piece));
        if (w->append)
            (void)!write(w->fd, piece, sizeof(piece));
        else
            (void)!pwrite(w->fd, piece, sizeof(piece), (i % 64) * 4096);
    }
    return NULL;
}

static void put_while_written(struct fixture *f, size_t len, bool append)
{
    BH_CLEANUP_FD int fd = new_file(len, 'x');
    struct writer w = {.fd = fd, .append = append};
    struct bh_cas *cas;
    struct bh_object o;
    pthread_t thread;
    T_OK(bh_cas_open(f->store, f->tmp, &cas, &err));
    T_INT(pthread_create(&thread, NULL, write_on, &w), 0);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 1000000; i++) /* the writer may only just have started */
        rc = bh_cas_put_fd(cas, fd, false, -1, &o, NULL);
    T_INT(rc, -BH_E_BUSY);
    atomic_store(&w.stop, true);
    pthread_join(thread, NULL);
    T_OK(bh_cas_put_fd(cas, fd, false, -1, &o, &err)); /* quiet now */
    T_OK(bh_cas_sync(cas, &err));
    T_OK(bh_cas_verify(cas, &o.digest, &err));
    T_INT(count_below(f->tmp), 0);
    bh_cas_close(cas);
}

static void test_growing_file(void **state)
{
    put_while_written(*state, 4096, true);
    put_while_written(*state, LARGE, true);
}

static void test_file_that_is_written_in_place(void **state)
{
    put_while_written(*state, 64 * 4096 + LARGE, false);
}

static void test_shrinking_is_a_change(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FD int src = new_file(1000, 'x'), dst = new_file(0, 'x');
    struct bh_copied copied;
    (void)f;
    /* said to be longer than it is: the plain read has the last word */
    T_OK(bh_copy_hash(src, dst, 5000, 5000, &copied, &err));
    T_INT(copied.size, 1000);
    assert_false(copied.more);
}

static void test_copy_stops_at_its_limit(void **state)
{
    (void)state;
    BH_CLEANUP_FD int src = new_file(LARGE, 'x'), dst = new_file(0, 'x');
    BH_CLEANUP_FREE char *data = bh_alloc(1000);
    struct bh_copied copied;
    memset(data, 'x', 1000);
    struct bh_digest want = bh_digest_of(data, 1000);
    T_OK(bh_copy_hash(src, dst, 1000, 1000, &copied, &err));
    T_INT(copied.size, 1000);
    assert_true(copied.more);
    assert_true(bh_digest_equal(&copied.digest, &want));
}

/* From memory to disk copy_file_range is refused (EXDEV) or not, as the kernel likes; the bytes are the same. */
static void test_copy_between_file_systems(void **state)
{
    (void)state;
    BH_CLEANUP_FD int src = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), dst = new_file(0, 'x');
    struct bh_copied copied;
    if (src < 0)
        t_skip("second-filesystem", "no temporary file in /dev/shm");
    BH_CLEANUP_FREE char *data = bh_alloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        data[i] = (char)(i * 7 + i / 4096);
    T_INT(bh_write_all(src, data, LARGE), 0);
    struct bh_digest want = bh_digest_of(data, LARGE);
    T_OK(bh_copy_hash(src, dst, LARGE, LARGE, &copied, &err));
    assert_true(bh_digest_equal(&copied.digest, &want));
    T_INT(copied.size, LARGE);
}

/* --- several processes --- */

enum { PUTTERS = 4, ROUNDS = 30 };

/* Exit status of a putter: 0, or which step failed. */
static int put_rounds(const struct fixture *f, int go)
{
    struct bh_cas *cas = NULL;
    char byte;
    if (bh_cas_open(f->store, f->tmp, &cas, NULL) != 0)
        return 1;
    if (read(go, &byte, 1) != 0) /* all start when the parent closes its end */
        return 2;
    for (int round = 0; round < ROUNDS; round++) {
        struct bh_object o;
        char small[32];
        int n = snprintf(small, sizeof(small), "round %d", round);
        if (bh_cas_put_bytes(cas, small, (size_t)n, &o, NULL) != 0)
            return 3;
        if (round % 10 == 0) {
            BH_CLEANUP_FD int fd = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
            if (fd < 0 || ftruncate(fd, 300000 + round) != 0 || bh_cas_put_fd(cas, fd, true, -1, &o, NULL) != 0)
                return 4;
        }
        if (bh_cas_sync(cas, NULL) != 0)
            return 5;
        if (bh_cas_verify(cas, &o.digest, NULL) != 0)
            return 6;
    }
    bh_cas_close(cas);
    return 0;
}

static void test_processes_put_the_same(void **state)
{
    struct fixture *f = *state;
    int go[2];
    pid_t pids[PUTTERS];
    T_INT(pipe2(go, O_CLOEXEC), 0);
    for (int i = 0; i < PUTTERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            close(go[1]);
            _exit(put_rounds(f, go[0]));
        }
    }
    close(go[0]);
    close(go[1]);
    for (int i = 0; i < PUTTERS; i++) {
        int status;
        T_INT(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        T_INT(WEXITSTATUS(status), 0);
    }
    T_INT(count_below(f->tmp), 0);
    T_INT(count_below(f->store), ROUNDS + 2 * ROUNDS / 10); /* once each, the large ones with a twin */
}

/* --- links that the host refuses --- */

static void test_delivery_to_another_file_system_copies(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *away = bh_asprintf("/dev/shm/bh-test-link-%d", (int)getpid());
    struct bh_cas *cas;
    struct bh_object o;
    struct stat here, there;
    if (mkdir(away, 0700) != 0 || stat(away, &there) != 0 || stat(f->dir, &here) != 0 || here.st_dev == there.st_dev)
        t_skip("second-filesystem", "/dev/shm is not another writable file system");
    BH_CLEANUP_FD int dirfd = open(away, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_OK(bh_cas_open(f->store, f->tmp, &cas, &err));
    T_OK(bh_cas_put_bytes(cas, "abc", 3, &o, &err));
    T_OK(bh_cas_link(cas, &o.digest, false, dirfd, "x", &err));
    T_OK(bh_cas_link(cas, &o.digest, true, dirfd, "d/y", &err));
    T_ERR(bh_cas_link(cas, &o.digest, false, dirfd, "x", &err), BH_E_EXISTS, "cannot deliver 'x'");
    T_INT(fstatat(dirfd, "x", &there, 0), 0);
    T_INT(there.st_mode & 07777, 0444);
    T_INT(there.st_size, 3);
    T_INT(fstatat(dirfd, "d/y", &there, 0), 0);
    T_INT(there.st_mode & 07777, 0555);
    bh_cas_close(cas);
    t_tmpdir_free(BH_TAKE(away));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_growing_file),
        T(test_file_that_is_written_in_place),
        T(test_shrinking_is_a_change),
        T(test_copy_stops_at_its_limit),
        T(test_copy_between_file_systems),
        T(test_processes_put_the_same),
        T(test_delivery_to_another_file_system_copies),
        T(test_full_disk), /* these two leave the process in a mount namespace of its own */
        T(test_no_inode_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
