/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk fills up under the store: an error that says so, nothing acknowledged is lost, and it goes on with room. Or
 * it can only be read.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    bh_close(fd);
    return good;
}

/* An ordinary user is root of a user namespace of its own. */
static bool become_root_here(void)
{
    char uids[32], gids[32];
    (void)snprintf(uids, sizeof(uids), "0 %u 1", getuid());
    (void)snprintf(gids, sizeof(gids), "0 %u 1", getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", uids) && write_text("/proc/self/gid_map", gids);
}

/* A small file system of our own on `dir`, in a mount namespace of this process. */
static bool mount_small(const char *dir)
{
    if (unshare(CLONE_NEWNS) < 0 && !become_root_here())
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("small", dir, "tmpfs", 0, "size=2m,mode=0700") == 0;
}

static char *ballast_path(const struct kit_home *h)
{
    return bh_path_join(h->dir, "ballast");
}

/* Leaves `room` bytes. */
static void fill_up(const struct kit_home *h, size_t room)
{
    char *path = ballast_path(h);
    struct statvfs fs;
    assert_int_equal(statvfs(h->dir, &fs), 0);
    size_t left = (size_t)fs.f_bavail * fs.f_bsize;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    static const char block[4096];
    for (; left > room; left -= sizeof(block))
        assert_int_equal(write(fd, block, sizeof(block)), sizeof(block));
    close(fd);
    bh_free(path);
}

static void empty(const struct kit_home *h)
{
    char *path = ballast_path(h);
    assert_int_equal(unlink(path), 0);
    bh_free(path);
}

/* Commits until the disk is full. Returns what was acknowledged. */
static int64_t commit_until_full(struct bh_store *s, const char *run, int64_t done)
{
    struct bh_err *why = NULL;
    int rc = 0;
    for (;;) {
        rc = kit_commit_events(s, run, done + 1, 5, &why);
        if (rc)
            break;
        done += 5;
    }
    T_INT(rc, -BH_E_DISK_FULL);
    T_TRUE(strstr(bh_err_message(why), run) != NULL);
    T_STR(bh_err_get_hint(why), "free space, then go on with 'bulkhead run --resume'");
    bh_err_free(why);
    return done;
}

static void a_full_disk_loses_nothing(struct kit_home *h)
{
    struct bh_run_id run = kit_run_id(1), second = kit_run_id(2);
    struct bh_store *s = NULL, *other = NULL;
    T_OK(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err));
    T_OK(kit_commit_run(s, run.s, "running", &err));
    fill_up(h, 200000);
    int64_t done = commit_until_full(s, run.s, 0), n = 0;
    T_TRUE(done > 0);
    fill_up(h, 0);
    T_ERR(kit_commit_events(s, run.s, done + 1, 1, &err), BH_E_IO, "an earlier write of it failed");
    T_ERR(kit_commit_events(s, second.s, 1, 1, &err), BH_E_DISK_FULL, "2000000000"); /* and a new run as well */
    T_OK(kit_replay(s, run.s, &n, &err));                                            /* reading goes on */
    T_INT(n, done);
    T_OK(bh_store_open(&h->home, BH_STORE_READ, &other, &err));
    T_OK(kit_replay(other, run.s, &n, &err));
    bh_store_close(other);
    bh_store_close(s); /* on a full disk */

    T_OK(bh_store_open(&h->home, BH_STORE_READ, &s, &err));
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, done);
    bh_store_close(s);
    empty(h);
    T_OK(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err));
    T_OK(kit_commit_events(s, run.s, done + 1, 3, &err));
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, done + 3);
    T_OK(kit_commit_events(s, second.s, 1, 1, &err));
    bh_store_close(s);
}

static void a_store_is_not_half_made(struct kit_home *h)
{
    struct bh_store *s = NULL;
    fill_up(h, 0);
    T_ERR(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err), BH_E_DISK_FULL, "store");
    assert_int_equal(bh_store_open(&h->home, BH_STORE_READ, &s, NULL), -BH_E_NOT_FOUND);
    empty(h);
    for (size_t room = 4096; room < 40 * 4096; room += 4096) { /* wherever the making of it stops */
        fill_up(h, room);
        struct bh_err *why = NULL;
        int rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, &why);
        if (rc == 0)
            bh_store_close(s);
        else
            t_check_err(rc, why, BH_E_DISK_FULL, "store", "open", __FILE__, __LINE__);
        empty(h);
    }
    T_OK(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err));
    T_OK(kit_commit_events(s, kit_run_id(1).s, 1, 1, &err));
    bh_store_close(s);
}

static void set_read_only(struct kit_home *h, bool on)
{
    assert_int_equal(mount(NULL, h->dir, NULL, MS_REMOUNT | (on ? MS_RDONLY : 0), NULL), 0);
}

/* A backup, a snapshot: what a dead process left in the WAL is read as well. */
static void a_read_only_store_can_be_read(struct kit_home *h)
{
    struct bh_run_id run = kit_run_id(1);
    struct bh_store *s = NULL;
    int64_t n = 0;
    for (int closed = 0; closed < 2; closed++) {
        int status = 0;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            int rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, NULL);
            if (rc == 0)
                rc = kit_commit_events(s, run.s, 1 + closed * 5, 5, NULL);
            if (closed)
                bh_store_close(s);
            _exit(rc ? 1 : 0);
        }
        assert_true(waitpid(pid, &status, 0) == pid && status == 0);
        set_read_only(h, true);
        T_OK(bh_store_open(&h->home, BH_STORE_READ, &s, &err));
        T_OK(kit_replay(s, run.s, &n, &err));
        T_INT(n, 5 + closed * 5);
        bh_store_close(s);
        struct bh_err *why = NULL;
        T_INT(bh_store_open(&h->home, BH_STORE_WRITE, &s, &why), -BH_E_PERMISSION);
        T_TRUE(strstr(bh_err_get_hint(why), "on a file system that can be written") != NULL);
        bh_err_free(why);
        set_read_only(h, false);
    }
}

/* The namespace must not stay with the other tests. */
static void in_a_small_place(void (*test)(struct kit_home *))
{
    char *dir = t_tmpdir();
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct kit_home h = {.dir = dir};
        if (!mount_small(dir))
            _exit(77);
        if (bh_home_open(dir, true, &h.home, NULL) != 0)
            _exit(2);
        test(&h);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    t_tmpdir_free(dir);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        t_skip("mount", "no small file system can be mounted here");
    T_INT(status, 0);
}

static void full_disk(void **state)
{
    (void)state;
    in_a_small_place(a_full_disk_loses_nothing);
}

static void full_disk_at_the_start(void **state)
{
    (void)state;
    in_a_small_place(a_store_is_not_half_made);
}

static void read_only(void **state)
{
    (void)state;
    in_a_small_place(a_read_only_store_can_be_read);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_disk),
        cmocka_unit_test(full_disk_at_the_start),
        cmocka_unit_test(read_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
