/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/cas.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

enum { LARGE = 3 * 1024 * 1024 + 17 }; /* copied in the kernel, with the hashing thread; not a multiple of anything */

struct fixture {
    char *dir, *store, *tmp;
    int dirfd;
    struct bh_cas *cas;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->store = bh_path_join(f->dir, "cas");
    f->tmp = bh_path_join(f->dir, "tmp");
    f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_OK(bh_cas_open(f->store, f->tmp, &f->cas, &err));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_cas_close(f->cas);
    bh_close(f->dirfd);
    t_tmpdir_free(f->dir);
    bh_free(f->store);
    bh_free(f->tmp);
    bh_free(f);
    return 0;
}

/* A file below the fixture's folder, open for reading and writing. */
static int make_file(const struct fixture *f, const char *name, const void *data, size_t len)
{
    int fd = openat(f->dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    T_INT(bh_write_all(fd, data, len), 0);
    return fd;
}

static char *make_bytes(size_t len, unsigned seed)
{
    char *data = bh_alloc(len + 1);
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1103515245u + 12345u;
        data[i] = (char)(seed >> 16);
    }
    return data;
}

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

/* "<store>/sha256/ab/REST" and the ending. */
static char *object_path(const struct fixture *f, const struct bh_digest *d, const char *ending)
{
    char text[BH_DIGEST_TEXT];
    const char *hex = bh_digest_format(d, text) + 7;
    return bh_asprintf("%s/sha256/%.2s/%s%s", f->store, hex, hex + 2, ending);
}

static bool exists(const struct fixture *f, const struct bh_digest *d, const char *ending, struct stat *ret)
{
    BH_CLEANUP_FREE char *path = object_path(f, d, ending);
    return lstat(path, ret) == 0;
}

static void assert_object_is(struct bh_cas *cas, const struct bh_digest *d, const char *data, size_t len)
{
    BH_CLEANUP_FD int fd = -1;
    BH_CLEANUP_BUF struct bh_buf got = BH_BUF_INIT;
    T_OK(bh_cas_open_object(cas, d, &fd, &err));
    T_INT(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    T_INT(fcntl(fd, F_GETFD), FD_CLOEXEC);
    T_OK(bh_read_all(fd, len + 1, &got, &err));
    T_INT(got.len, len);
    assert_memory_equal(got.data, data, len);
}

static const size_t sizes[] = {0, 1, 4096, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, LARGE};

static void test_put_of_every_size(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < BH_ARRAY_LEN(sizes); i++) {
        BH_CLEANUP_FREE char *data = make_bytes(sizes[i], (unsigned)i);
        BH_CLEANUP_FD int fd = make_file(f, "source", data, sizes[i]);
        struct bh_digest want = bh_digest_of(data, sizes[i]);
        struct bh_object o;
        struct stat st;
        /* the offset of the descriptor does not count, and is left alone */
        T_INT(lseek(fd, 0, SEEK_CUR), sizes[i]);
        T_OK(bh_cas_put_fd(f->cas, fd, false, -1, &o, &err));
        T_INT(lseek(fd, 0, SEEK_CUR), sizes[i]);
        assert_true(bh_digest_equal(&o.digest, &want));
        T_INT(o.size, sizes[i]);
        assert_false(o.executable);
        /* pending: there for us, without a name yet */
        assert_true(bh_cas_has(f->cas, &o.digest));
        assert_object_is(f->cas, &o.digest, data, sizes[i]);
        assert_false(exists(f, &o.digest, "", &st));
        T_OK(bh_cas_sync(f->cas, &err));
        assert_true(exists(f, &o.digest, "", &st));
        T_INT(st.st_mode & 07777, 0444);
        assert_object_is(f->cas, &o.digest, data, sizes[i]);
        T_OK(bh_cas_verify(f->cas, &o.digest, &err));
        T_INT(count_entries(f->tmp), 0);
    }
}

static void test_put_bytes(void **state)
{
    struct fixture *f = *state;
    struct bh_object o, empty;
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_OK(bh_cas_put_bytes(f->cas, NULL, 0, &empty, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    assert_object_is(f->cas, &o.digest, "abc", 3);
    assert_object_is(f->cas, &empty.digest, "", 0);
}

static void test_same_content_is_stored_once(void **state)
{
    struct fixture *f = *state;
    static const size_t lens[] = {100, LARGE};
    for (size_t i = 0; i < BH_ARRAY_LEN(lens); i++) {
        BH_CLEANUP_FREE char *data = make_bytes(lens[i], 9);
        BH_CLEANUP_FD int fd = make_file(f, "source", data, lens[i]);
        struct bh_object a, b, c;
        struct stat before, after;
        T_OK(bh_cas_put_fd(f->cas, fd, false, -1, &a, &err));
        T_OK(bh_cas_put_fd(f->cas, fd, false, -1, &b, &err)); /* while the first is pending */
        T_INT(count_entries(f->tmp), 1);
        T_OK(bh_cas_sync(f->cas, &err));
        assert_true(exists(f, &a.digest, "", &before));
        T_OK(bh_cas_put_fd(f->cas, fd, false, -1, &c, &err)); /* and when it has its name */
        T_INT(count_entries(f->tmp), 0);
        T_OK(bh_cas_sync(f->cas, &err));
        assert_true(exists(f, &a.digest, "", &after));
        T_INT(before.st_ino, after.st_ino);
        assert_true(bh_digest_equal(&a.digest, &b.digest) && bh_digest_equal(&a.digest, &c.digest));
    }
}

static void test_many_objects_one_sync(void **state)
{
    struct fixture *f = *state;
    struct bh_object o[600];
    struct stat st;
    for (int i = 0; i < 600; i++) {
        char text[32];
        int n = snprintf(text, sizeof(text), "object %d", i);
        T_OK(bh_cas_put_bytes(f->cas, text, (size_t)n, &o[i], &err));
    }
    T_INT(count_entries(f->tmp), 600);
    T_OK(bh_cas_sync(f->cas, &err));
    T_INT(count_entries(f->tmp), 0);
    for (int i = 0; i < 600; i++)
        assert_true(exists(f, &o[i].digest, "", &st));
    T_OK(bh_cas_sync(f->cas, &err)); /* nothing to do */
}

static void test_executable_twin(void **state)
{
    struct fixture *f = *state;
    static const size_t lens[] = {20, LARGE};
    for (size_t i = 0; i < BH_ARRAY_LEN(lens); i++) {
        BH_CLEANUP_FREE char *data = make_bytes(lens[i], 5);
        BH_CLEANUP_FD int fd = make_file(f, "source", data, lens[i]);
        struct bh_object o;
        struct stat plain, twin;
        T_OK(bh_cas_put_fd(f->cas, fd, true, -1, &o, &err));
        assert_true(o.executable);
        T_OK(bh_cas_sync(f->cas, &err));
        assert_true(exists(f, &o.digest, "", &plain));
        assert_true(exists(f, &o.digest, ".x", &twin));
        T_INT(plain.st_mode & 07777, 0444);
        T_INT(twin.st_mode & 07777, 0555);
        assert_true(plain.st_ino != twin.st_ino);
        T_INT(twin.st_size, lens[i]);
        T_OK(bh_cas_verify(f->cas, &o.digest, &err));
        T_INT(count_entries(f->tmp), 0);
    }
}

static void test_link(void **state)
{
    struct fixture *f = *state;
    struct bh_object o;
    struct stat object, link;
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_OK(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "pending", &err)); /* before it is durable */
    T_OK(bh_cas_sync(f->cas, &err));
    T_OK(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "in/deep/er/x", &err));
    assert_true(exists(f, &o.digest, "", &object));
    T_INT(object.st_nlink, 3);
    T_INT(fstatat(f->dirfd, "in/deep/er/x", &link, 0), 0);
    T_INT(link.st_ino, object.st_ino);
    T_INT(fstatat(f->dirfd, "pending", &link, 0), 0);
    T_INT(link.st_ino, object.st_ino);
    T_INT(fstatat(f->dirfd, "in/deep", &link, 0), 0);
    T_INT(link.st_mode & 07777, 0755);
}

static void test_link_of_the_twin_makes_it(void **state)
{
    struct fixture *f = *state;
    struct bh_object o;
    struct stat plain, link, twin;
    T_OK(bh_cas_put_bytes(f->cas, "#!/bin/sh\n", 10, &o, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    assert_false(exists(f, &o.digest, ".x", &twin));
    T_OK(bh_cas_link(f->cas, &o.digest, true, f->dirfd, "tool", &err));
    T_OK(bh_cas_sync(f->cas, &err));
    assert_true(exists(f, &o.digest, "", &plain));
    assert_true(exists(f, &o.digest, ".x", &twin));
    T_INT(fstatat(f->dirfd, "tool", &link, 0), 0);
    T_INT(link.st_mode & 07777, 0555);
    T_INT(link.st_ino, twin.st_ino);
    assert_true(link.st_ino != plain.st_ino);
}

static void test_link_refuses(void **state)
{
    struct fixture *f = *state;
    struct bh_object o;
    struct bh_digest missing = bh_digest_of("missing", 7);
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_OK(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "x", &err));
    T_ERR(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "x", &err), BH_E_EXISTS, "cannot deliver 'x': ");
    T_ERR(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "x/y", &err), BH_E_IO, "cannot deliver 'x/y': ");
    T_ERR(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "../y", &err), BH_E_BAD_NAME, "leaves its folder");
    T_ERR(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "/y", &err), BH_E_BAD_NAME, "leaves its folder");
    T_ERR(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "", &err), BH_E_BAD_NAME, "leaves its folder");
    T_ERR(bh_cas_link(f->cas, &missing, false, f->dirfd, "y", &err), BH_E_NOT_FOUND, "does not have 'sha256:");
    T_ERR(bh_cas_link(f->cas, &missing, true, f->dirfd, "y", &err), BH_E_NOT_FOUND, "does not have 'sha256:");
    T_INT(symlinkat("/tmp", f->dirfd, "away"), 0);
    T_ERR(bh_cas_link(f->cas, &o.digest, false, f->dirfd, "away/y", &err), BH_E_IO, "cannot deliver 'away/y': ");
}

static void test_missing_object(void **state)
{
    struct fixture *f = *state;
    struct bh_digest missing = bh_digest_of("missing", 7);
    int fd = 4711;
    assert_false(bh_cas_has(f->cas, &missing));
    T_ERR(bh_cas_open_object(f->cas, &missing, &fd, &err), BH_E_NOT_FOUND, "'sha256:");
    T_INT(fd, 4711);
    T_ERR(bh_cas_verify(f->cas, &missing, &err), BH_E_NOT_FOUND, "'sha256:");
}

/* Flips one byte of a stored object. */
static void damage(const struct fixture *f, const struct bh_digest *d, const char *ending, const char *bytes)
{
    BH_CLEANUP_FREE char *path = object_path(f, d, ending);
    T_INT(chmod(path, 0644), 0);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    T_INT(bh_write_all(fd, bytes, strlen(bytes)), 0);
}

static void test_verify_finds_damage(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FD int fd = make_file(f, "source", "abc", 3);
    struct bh_object o;
    T_OK(bh_cas_put_fd(f->cas, fd, true, -1, &o, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    damage(f, &o.digest, ".x", "abd");
    T_ERR(bh_cas_verify(f->cas, &o.digest, &err), BH_E_STORE_CORRUPT, "holds other bytes, whose digest is sha256:a52d");
    damage(f, &o.digest, ".x", "abc");
    T_OK(bh_cas_verify(f->cas, &o.digest, &err));
    damage(f, &o.digest, "", "abd");
    T_ERR(bh_cas_verify(f->cas, &o.digest, &err), BH_E_STORE_CORRUPT, "'sha256:ba7816bf");
}

static void test_put_mends_an_object_of_the_wrong_length(void **state)
{
    struct fixture *f = *state;
    struct bh_object o;
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    damage(f, &o.digest, "", "");
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    T_OK(bh_cas_verify(f->cas, &o.digest, &err));
    T_INT(count_entries(f->tmp), 0);
}

/* --- what is refused, and that it leaves nothing --- */

static void assert_nothing_kept(const struct fixture *f)
{
    BH_CLEANUP_FREE char *objects = bh_path_join(f->store, "sha256");
    T_INT(count_entries(f->tmp), 0);
    T_OK(bh_cas_sync(f->cas, &err));
    T_INT(count_entries(objects), 0);
}

static void test_too_large(void **state)
{
    struct fixture *f = *state;
    static const size_t lens[] = {1, 1000, 256 * 1024, LARGE};
    for (size_t i = 0; i < BH_ARRAY_LEN(lens); i++) {
        BH_CLEANUP_FREE char *data = make_bytes(lens[i], 3);
        BH_CLEANUP_FD int fd = make_file(f, "source", data, lens[i]);
        struct bh_object o = {.size = 4711};
        T_ERR(bh_cas_put_fd(f->cas, fd, false, (int64_t)lens[i] - 1, &o, &err), BH_E_TOO_LARGE,
              "more than the allowed");
        T_INT(o.size, 4711);
        assert_nothing_kept(f);
    }
    BH_CLEANUP_FD int fits = make_file(f, "source", "abc", 3);
    struct bh_object o;
    T_OK(bh_cas_put_fd(f->cas, fits, false, 3, &o, &err));
}

/* Files of /proc say length 0: they are read until they end, and the limit holds. */
static void test_file_without_a_length(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FD int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    struct bh_object o;
    T_ERR(bh_cas_put_fd(f->cas, fd, false, 10, &o, &err), BH_E_TOO_LARGE, "more than the allowed 10 bytes");
    assert_nothing_kept(f);
    T_OK(bh_cas_put_fd(f->cas, fd, false, -1, &o, &err));
    assert_true(o.size > 100);
}

static void test_not_a_file(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FD int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct bh_object o;
    T_ERR(bh_cas_put_fd(f->cas, f->dirfd, false, -1, &o, &err), BH_E_BAD_VALUE, "no regular file");
    T_ERR(bh_cas_put_fd(f->cas, null, false, -1, &o, &err), BH_E_BAD_VALUE, "no regular file");
    T_ERR(bh_cas_put_fd(f->cas, -1, false, -1, &o, &err), BH_E_IO, "Bad file descriptor");
    assert_nothing_kept(f);
}

static void test_source_that_cannot_be_read(void **state)
{
    struct fixture *f = *state;
    static const size_t lens[] = {3, LARGE};
    for (size_t i = 0; i < BH_ARRAY_LEN(lens); i++) {
        BH_CLEANUP_FREE char *data = make_bytes(lens[i], 3);
        bh_close(make_file(f, "source", data, lens[i]));
        BH_CLEANUP_FD int write_only = openat(f->dirfd, "source", O_WRONLY | O_CLOEXEC);
        struct bh_object o;
        T_ERR(bh_cas_put_fd(f->cas, write_only, false, -1, &o, &err), BH_E_IO, ": Bad file descriptor");
        assert_nothing_kept(f);
    }
}

static void test_close_drops_what_is_pending(void **state)
{
    struct fixture *f = *state;
    struct bh_object o;
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_INT(count_entries(f->tmp), 1);
    bh_cas_close(f->cas);
    T_INT(count_entries(f->tmp), 0);
    T_OK(bh_cas_open(f->store, f->tmp, &f->cas, &err));
    assert_false(bh_cas_has(f->cas, &o.digest));
    bh_cas_close(NULL);
}

static void test_stale_temporary_name(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *name = bh_asprintf("tmp/object-%d-0", (int)getpid());
    bh_close(make_file(f, name, "stale", 5)); /* of a dead process that had our number */
    struct bh_object o;
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &o, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    assert_object_is(f->cas, &o.digest, "abc", 3);
    T_INT(count_entries(f->tmp), 1);
}

static void test_open_refuses(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *file = bh_path_join(f->dir, "file");
    BH_CLEANUP_FREE char *below = bh_path_join(file, "cas");
    struct bh_cas *cas = (struct bh_cas *)f;
    bh_close(make_file(f, "file", "x", 1));
    T_ERR(bh_cas_open(below, f->tmp, &cas, &err), BH_E_IO, "file");
    T_ERR(bh_cas_open(f->store, below, &cas, &err), BH_E_IO, "file");
    assert_ptr_equal(cas, f);
    struct stat here, shm;
    T_INT(stat(f->dir, &here), 0);
    if (stat("/dev/shm", &shm) != 0 || shm.st_dev == here.st_dev || access("/dev/shm", W_OK) != 0)
        t_skip("second-filesystem", "/dev/shm is not another writable file system");
    BH_CLEANUP_FREE char *away = bh_asprintf("/dev/shm/bh-test-%d", (int)getpid());
    T_ERR(bh_cas_open(f->store, away, &cas, &err), BH_E_HOST, "is on another file system than the store");
    T_INT(rmdir(away), 0);
}

static void test_two_handles_of_one_store(void **state)
{
    struct fixture *f = *state;
    struct bh_cas *other;
    struct bh_object a, b;
    struct stat st, after;
    T_OK(bh_cas_open(f->store, f->tmp, &other, &err));
    T_OK(bh_cas_put_bytes(f->cas, "abc", 3, &a, &err));
    T_OK(bh_cas_put_bytes(other, "abc", 3, &b, &err));
    T_OK(bh_cas_sync(f->cas, &err));
    assert_true(exists(f, &a.digest, "", &st));
    T_OK(bh_cas_sync(other, &err)); /* comes second and drops its copy */
    assert_true(exists(f, &a.digest, "", &after));
    T_INT(st.st_ino, after.st_ino);
    T_INT(count_entries(f->tmp), 0);
    bh_cas_close(other);
}

/* Holes first, last and between; the copy has the same bytes and about the same blocks, also where it is all one
 * hole. */
static void test_holes_stay_holes(void **state)
{
    struct fixture *f = *state;
    enum { SIZE = 48 * 1024 * 1024 };
    static const off_t islands[][3] = {
        {-1, -1, -1}, {0, -1, -1}, {SIZE - 4096, -1, -1}, {9000000, 20000001, SIZE - 10000}};
    for (size_t i = 0; i < BH_ARRAY_LEN(islands); i++) {
        BH_CLEANUP_FD int fd = make_file(f, "sparse", "", 0);
        BH_CLEANUP_FD int back = -1;
        struct bh_object object;
        struct bh_digest want;
        struct stat in, out;
        int64_t size;
        assert_int_equal(ftruncate(fd, SIZE), 0);
        for (size_t k = 0; k < 3 && islands[i][k] >= 0; k++)
            assert_int_equal(pwrite(fd, "island", 6, islands[i][k]), 6);
        T_OK(bh_digest_fd(fd, &want, &size, &err));
        T_OK(bh_cas_put_fd(f->cas, fd, false, -1, &object, &err));
        assert_true(bh_digest_equal(&want, &object.digest));
        T_INT(object.size, SIZE);
        T_OK(bh_cas_open_object(f->cas, &object.digest, &back, &err));
        assert_int_equal(fstat(fd, &in), 0);
        assert_int_equal(fstat(back, &out), 0);
        T_INT(out.st_size, SIZE);
        if (in.st_blocks < SIZE / 512 / 2) /* else this file system knows no holes */
            assert_true(out.st_blocks < SIZE / 512 / 2);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_holes_stay_holes),
        T(test_put_of_every_size),
        T(test_put_bytes),
        T(test_same_content_is_stored_once),
        T(test_many_objects_one_sync),
        T(test_executable_twin),
        T(test_link),
        T(test_link_of_the_twin_makes_it),
        T(test_link_refuses),
        T(test_missing_object),
        T(test_verify_finds_damage),
        T(test_put_mends_an_object_of_the_wrong_length),
        T(test_too_large),
        T(test_file_without_a_length),
        T(test_not_a_file),
        T(test_source_that_cannot_be_read),
        T(test_close_drops_what_is_pending),
        T(test_stale_temporary_name),
        T(test_open_refuses),
        T(test_two_handles_of_one_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
