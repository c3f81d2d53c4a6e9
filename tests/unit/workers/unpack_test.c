/* SPDX-License-Identifier: Apache-2.0 */
/* What bulkhead-unpack does with entries, archives and streams of directories; needs no privileges. */
#include "workers/unpack/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/rootfs/image_tree.h"

struct rig {
    char *dir;
    int root;
    struct bh_putter p;
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    r.root = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bh_putter_init(&r.p, r.root, BH_UNPACK_LAYER, false, 1000, 1 << 20);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_putter_fini(&r->p);
    bh_close(r->root);
    t_tmpdir_free(r->dir);
    return 0;
}

static int put(struct rig *r, enum bh_put_type type, const char *path, const char *link)
{
    const struct bh_put_entry e = {.path = path, .type = type, .mode = 06755, .link = link, .sec = 1000000000};
    int fd;
    if (bh_put_begin(&r->p, &e, &fd) < 0)
        return -1;
    if (fd >= 0 && bh_put_data(&r->p, fd, 0, path, strlen(path)) < 0) {
        bh_close(fd);
        return -1;
    }
    return bh_put_end(&r->p, &e, fd);
}

static mode_t mode_of(struct rig *r, const char *path)
{
    struct stat st;
    return fstatat(r->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode : 0;
}

static void refused(struct rig *r, enum bh_put_type type, const char *path, const char *link, const char *why)
{
    r->p.fault = (struct bh_unpack_fault){0};
    T_INT(put(r, type, path, link), -1);
    T_INT(r->p.fault.blame, BH_UNPACK_BAD_ARCHIVE);
    if (!strstr(r->p.fault.why, why))
        fail_msg("'%s': wanted '%s', got '%s'", path, why, r->p.fault.why);
    if (strncmp(r->p.fault.entry, path, BH_UNPACK_ENTRY_MAX - 1) != 0)
        fail_msg("'%s' is named '%s'", path, r->p.fault.entry);
}

static void test_entries(void **state)
{
    struct rig *r = *state;
    T_INT(put(r, BH_PUT_FILE, "./a//b/./c", NULL), 0);
    T_INT(mode_of(r, "a/b/c"), S_IFREG | 0755); /* no set-user-id */
    T_INT(mode_of(r, "a/b"), S_IFDIR | 0755);
    T_INT(put(r, BH_PUT_DIR, "d/", NULL), 0);
    T_INT(mode_of(r, "d") & 07777, 02755);
    T_INT(put(r, BH_PUT_HARDLINK, "d/c", "./a/b/c"), 0);
    T_INT(put(r, BH_PUT_HARDLINK, "d/c", "d/c"), 0); /* to itself */
    T_INT(put(r, BH_PUT_SYMLINK, "l", "/etc"), 0);
    T_INT(put(r, BH_PUT_HARDLINK, "l2", "l"), 0);
    T_TRUE(S_ISLNK(mode_of(r, "l2")));
    T_INT(put(r, BH_PUT_FIFO, "fifo", NULL), 0);
    T_TRUE(S_ISFIFO(mode_of(r, "fifo")));
    T_INT(put(r, BH_PUT_DEVICE, "dev/null", NULL), 0); /* left out */
    T_INT(mode_of(r, "dev"), 0);
    T_INT(put(r, BH_PUT_DIR, "./", NULL), 0);
    T_INT(bh_put_finish(&r->p), 0);
}

static void test_replacing(void **state)
{
    struct rig *r = *state;
    T_INT(put(r, BH_PUT_SYMLINK, "x", "/tmp"), 0);
    T_INT(put(r, BH_PUT_DIR, "x", NULL), 0); /* a directory in the place of a link */
    T_INT(put(r, BH_PUT_FILE, "x/y/z", NULL), 0);
    T_INT(put(r, BH_PUT_FILE, "x", NULL), 0); /* a file in the place of a tree */
    T_TRUE(S_ISREG(mode_of(r, "x")));
    T_INT(put(r, BH_PUT_HARDLINK, "y", "x"), 0);
    T_INT(put(r, BH_PUT_FILE, "x", NULL), 0); /* anew, not through the other name */
    struct stat st;
    T_INT(fstatat(r->root, "x", &st, 0), 0);
    T_INT(st.st_nlink, 1);
    T_INT(put(r, BH_PUT_DIR, "gone", NULL), 0);
    T_INT(put(r, BH_PUT_FILE, "gone", NULL), 0);
    T_INT(bh_put_finish(&r->p), 0); /* the time of a directory that is none any more */
}

static bool opaque(struct rig *r, const char *path)
{
    char value[2];
    BH_CLEANUP_FD int fd = openat(r->root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fgetxattr(fd, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

static void test_whiteouts(void **state)
{
    struct rig *r = *state;
    struct stat st;
    if (fsetxattr(r->root, "user.overlay.x", "y", 1, 0) < 0)
        t_skip("xattr", "the file system has no user attributes");
    T_INT(put(r, BH_PUT_FILE, "d/.wh.gone", NULL), 0);
    T_INT(fstatat(r->root, "d/gone", &st, AT_SYMLINK_NOFOLLOW), 0);
    T_TRUE(S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0));
    T_INT(put(r, BH_PUT_FILE, "d/.wh..wh..opq", NULL), 0);
    T_TRUE(opaque(r, "d"));
    T_INT(put(r, BH_PUT_FILE, ".wh..wh.plnk", NULL), 0); /* of aufs */
    T_INT(put(r, BH_PUT_FILE, "own", NULL), 0);
    T_INT(put(r, BH_PUT_FILE, ".wh.own", NULL), 0); /* of the layers below: ours stays */
    T_TRUE(S_ISREG(mode_of(r, "own")));
    T_INT(put(r, BH_PUT_DIR, "tree", NULL), 0);
    T_INT(put(r, BH_PUT_FILE, ".wh.tree", NULL), 0);
    T_TRUE(opaque(r, "tree"));
    T_INT(put(r, BH_PUT_FILE, ".wh.later", NULL), 0);
    T_INT(put(r, BH_PUT_FILE, "later/file", NULL), 0); /* in the place of the whiteout, hiding as it did */
    T_TRUE(opaque(r, "later"));
    T_INT(put(r, BH_PUT_FILE, ".wh.dir", NULL), 0);
    T_INT(put(r, BH_PUT_DIR, "dir", NULL), 0);
    T_TRUE(opaque(r, "dir"));
    refused(r, BH_PUT_HARDLINK, "h", "d/gone", "which this layer does not hold");
}

static void test_refused(void **state)
{
    struct rig *r = *state;
    char name[300], path[5000];
    memset(name, 'n', 256);
    name[256] = '\0';
    for (size_t i = 0; i < sizeof(path); i++)
        path[i] = i % 100 == 99 ? '/' : 'p';
    path[sizeof(path) - 1] = '\0';
    char *outside = t_tmpdir();
    BH_CLEANUP_FREE char *there = bh_asprintf("%s/x", outside);
    T_INT(put(r, BH_PUT_SYMLINK, "out", outside), 0);
    T_INT(put(r, BH_PUT_FILE, "file", NULL), 0);
    T_INT(put(r, BH_PUT_DIR, "dir", NULL), 0);
    refused(r, BH_PUT_FILE, "", NULL, "no name");
    refused(r, BH_PUT_FILE, "/etc/x", NULL, "absolute");
    refused(r, BH_PUT_FILE, "a/../x", NULL, "'..'");
    refused(r, BH_PUT_FILE, "..", NULL, "'..'");
    refused(r, BH_PUT_FILE, name, NULL, "longer than 255");
    refused(r, BH_PUT_FILE, path, NULL, "longer than 4000");
    refused(r, BH_PUT_FILE, "out/x", NULL, "written through 'out', which is a symbolic link");
    refused(r, BH_PUT_DIR, "out/x", NULL, "written through 'out'");
    refused(r, BH_PUT_FILE, "file/x", NULL, "lies in 'file', which is no directory");
    refused(r, BH_PUT_FILE, ".", NULL, "in the place of the root directory");
    refused(r, BH_PUT_SYMLINK, "s", "", "a symbolic link to nothing");
    refused(r, BH_PUT_SYMLINK, "s", path, "a path that is too long");
    refused(r, BH_PUT_HARDLINK, "h", "nowhere", "which this layer does not hold");
    refused(r, BH_PUT_HARDLINK, "h", "out/x", "reached through a symbolic link");
    refused(r, BH_PUT_HARDLINK, "h", "dir", "the directory 'dir'");
    refused(r, BH_PUT_HARDLINK, "h", "../x", "'..'");
    refused(r, BH_PUT_DEVICE, "sda", NULL, "a device node");
    refused(r, BH_PUT_FILE, ".wh.", NULL, "a whiteout of nothing");
    refused(r, BH_PUT_FILE, "dir/.wh...", NULL, "a whiteout of nothing");
    T_INT(access(there, F_OK), -1);
    t_tmpdir_free(outside);
}

static void test_budgets(void **state)
{
    struct rig *r = *state;
    r->p.max_entries = 3;
    r->p.max_bytes = 8;
    refused(r, BH_PUT_FILE, "ninebytes", NULL, "more than 8 bytes");
    T_INT(put(r, BH_PUT_DIR, "a", NULL), 0);
    refused(r, BH_PUT_DIR, "b/c/d", NULL, "more than 3 entries");
    const struct bh_put_entry holes = {.path = "h", .type = BH_PUT_FILE, .size = INT64_C(1) << 40};
    int fd;
    r->p.fault = (struct bh_unpack_fault){0};
    r->p.entries = 0;
    T_INT(bh_put_begin(&r->p, &holes, &fd), 0);
    T_INT(bh_put_end(&r->p, &holes, fd), -1); /* a hole of a terabyte */
    T_TRUE(strstr(r->p.fault.why, "more than 8 bytes") != NULL);
}

/* The first fault is the one that is told. */
static void test_first_fault(void **state)
{
    struct rig *r = *state;
    T_INT(put(r, BH_PUT_FILE, "/first", NULL), -1);
    T_INT(put(r, BH_PUT_FILE, "/second", NULL), -1);
    errno = ENOSPC;
    T_INT(bh_put_host(&r->p, "third"), -1);
    T_STR(r->p.fault.entry, "/first");
    T_INT(r->p.fault.blame, BH_UNPACK_BAD_ARCHIVE);
}

/* --- tar --- */

static void add_header(struct bh_buf *out, const char *name, char type, size_t size, const char *link)
{
    char block[512] = {0};
    unsigned sum = 8 * ' ';
    (void)snprintf(block, 100, "%s", name);
    memcpy(block + 100, "0000644", 8);
    memcpy(block + 108, "0000000", 8);
    memcpy(block + 116, "0000000", 8);
    (void)snprintf(block + 124, 12, "%011zo", size & 0x1ffffffff); /* 11 digits */
    memcpy(block + 136, "07346545000", 12);
    block[156] = type;
    (void)snprintf(block + 157, 100, "%s", link ? link : "");
    memcpy(block + 257, "ustar\00000", 8);
    for (size_t i = 0; i < sizeof(block); i++)
        sum += i >= 148 && i < 156 ? 0 : (unsigned char)block[i];
    (void)snprintf(block + 148, 8, "%06o", sum);
    block[155] = ' ';
    bh_buf_add(out, block, sizeof(block));
}

static void add_file(struct bh_buf *out, const char *name, const char *text)
{
    static const char zeros[512];
    size_t len = strlen(text);
    add_header(out, name, '0', len, NULL);
    bh_buf_add(out, text, len);
    bh_buf_add(out, zeros, (512 - len % 512) % 512);
}

static void add_end(struct bh_buf *out)
{
    static const char zeros[1024];
    bh_buf_add(out, zeros, sizeof(zeros));
}

static int unpack(struct rig *r, const struct bh_buf *tar, struct bh_digest *digest)
{
    BH_CLEANUP_FD int fd = memfd_create("tar", MFD_CLOEXEC);
    T_INT(bh_write_all(fd, tar->data, tar->len), 0);
    T_INT(lseek(fd, 0, SEEK_SET), 0);
    return bh_unpack_tar(&r->p, fd, digest);
}

static void test_tar(void **state)
{
    struct rig *r = *state;
    struct bh_digest digest;
    BH_CLEANUP_BUF struct bh_buf tar = BH_BUF_INIT;
    add_file(&tar, "a", "hello\n");
    add_header(&tar, "l", '2', 0, "a");
    add_header(&tar, "h", '1', 0, "a");
    add_end(&tar);
    add_end(&tar); /* padding */
    T_INT(unpack(r, &tar, &digest), 0);
    struct bh_digest want = bh_digest_of(tar.data, tar.len);
    T_TRUE(bh_digest_equal(&digest, &want));
    T_TRUE(S_ISLNK(mode_of(r, "l")));
    struct stat st;
    T_INT(fstatat(r->root, "h", &st, 0), 0);
    T_INT(st.st_nlink, 2);
    T_INT(st.st_size, 6);
    T_INT(st.st_mtime, 1000000000);
    T_INT(r->p.entries, 3);
}

static void bad_tar(struct rig *r, const struct bh_buf *tar, const char *why)
{
    struct bh_digest digest;
    bh_putter_fini(&r->p);
    bh_putter_init(&r->p, r->root, BH_UNPACK_LAYER, false, 1000, 1 << 20);
    T_INT(unpack(r, tar, &digest), -1);
    T_INT(r->p.fault.blame, BH_UNPACK_BAD_ARCHIVE);
    if (!strstr(r->p.fault.why, why))
        fail_msg("wanted '%s', got '%s'", why, r->p.fault.why);
}

static void test_bad_tars(void **state)
{
    struct rig *r = *state;
    BH_CLEANUP_BUF struct bh_buf tar = BH_BUF_INIT;
    bad_tar(r, &tar, "it is empty");
    bh_buf_adds(&tar, "no tar at all, but long enough to be looked at");
    bad_tar(r, &tar, "it is no tar archive");
    bh_buf_clear(&tar);
    add_file(&tar, "a", "hello\n");
    tar.len = 514;
    bad_tar(r, &tar, "truncated or damaged");
    bh_buf_clear(&tar);
    add_file(&tar, "a", "hello\n");
    add_end(&tar);
    bh_buf_adds(&tar, "behind");
    bad_tar(r, &tar, "there is something else behind its end");
    bh_buf_clear(&tar);
    add_file(&tar, "/abs", "x");
    bad_tar(r, &tar, "absolute");
    T_STR(r->p.fault.entry, "/abs");
}

/* Of an archive of images: no whiteouts, modes that we can read by. */
static void test_files(void **state)
{
    struct rig *r = *state;
    r->p.kind = BH_UNPACK_FILES;
    T_INT(put(r, BH_PUT_FILE, ".wh.x", NULL), 0);
    T_INT(mode_of(r, ".wh.x"), S_IFREG | 0644);
    T_INT(put(r, BH_PUT_FIFO, "fifo", NULL), 0);
    T_INT(mode_of(r, "fifo"), 0);
}

/* --- a directory, there and back --- */

struct feeding {
    const char *from;
    int sock, rc;
    struct bh_digest key;
};

static int send_all(void *arg, const void *data, size_t len)
{
    const struct feeding *f = arg;
    return bh_write_all(f->sock, data, len);
}

static void *feed(void *arg)
{
    struct feeding *f = arg;
    BH_CLEANUP_FD int dir = open(f->from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    f->rc = bh_tree_read(dir, "tree", send_all, f, &f->key, NULL);
    bh_close(f->sock);
    return NULL;
}

static struct bh_digest key_of(const char *path)
{
    struct bh_digest key;
    BH_CLEANUP_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_OK(bh_tree_read(dir, "tree", NULL, NULL, &key, &err));
    return key;
}

/* 1 MiB of zeros in pieces that meet no border, a little in the middle, and zeros to the end. */
static void test_holes(void **state)
{
    struct rig *r = *state;
    static char bytes[1 << 20], back[sizeof(bytes)];
    const struct bh_put_entry e = {.path = "sparse", .type = BH_PUT_FILE, .mode = 0644, .size = sizeof(bytes)};
    struct stat st;
    int fd;
    memcpy(bytes + 300001, "middle", 6);
    T_INT(bh_put_begin(&r->p, &e, &fd), 0);
    for (size_t at = 0, n = 100003; at < sizeof(bytes); at += n) {
        n = sizeof(bytes) - at < n ? sizeof(bytes) - at : n;
        T_INT(bh_put_data(&r->p, fd, (int64_t)at, bytes + at, n), 0);
    }
    T_INT(bh_put_end(&r->p, &e, fd), 0);
    T_INT(fstatat(r->root, "sparse", &st, AT_SYMLINK_NOFOLLOW), 0);
    T_INT(st.st_size, sizeof(bytes));
    T_TRUE(st.st_blocks * 512 < 200000);
    BH_CLEANUP_FD int in = openat(r->root, "sparse", O_RDONLY | O_CLOEXEC);
    T_INT(pread(in, back, sizeof(back), 0), (ssize_t)sizeof(back));
    T_TRUE(memcmp(back, bytes, sizeof(bytes)) == 0);
}

static void test_tree(void **state)
{
    struct rig *r = *state;
    struct rig from = {.dir = t_tmpdir()};
    from.root = open(from.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bh_putter_init(&from.p, from.root, BH_UNPACK_TREE, false, 1000, 1 << 20);
    T_INT(put(&from, BH_PUT_FILE, "a/b/c", NULL), 0);
    T_INT(put(&from, BH_PUT_HARDLINK, "a/d", "a/b/c"), 0);
    T_INT(put(&from, BH_PUT_SYMLINK, "a/l", "/etc/shadow"), 0);
    T_INT(put(&from, BH_PUT_FIFO, "f", NULL), 0);
    T_INT(put(&from, BH_PUT_FILE, ".wh.name", NULL), 0); /* a name like any other */
    struct bh_digest before = key_of(from.dir);
    int pair[2];
    pthread_t thread;
    T_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct feeding f = {.from = from.dir, .sock = pair[0]};
    T_INT(pthread_create(&thread, NULL, feed, &f), 0);
    r->p.kind = BH_UNPACK_TREE;
    T_INT(bh_unpack_tree(&r->p, pair[1]), 0);
    T_INT(pthread_join(thread, NULL), 0);
    bh_close(pair[1]);
    T_INT(f.rc, 0);
    T_TRUE(bh_digest_equal(&f.key, &before));
    struct stat st;
    T_INT(fstatat(r->root, "a/d", &st, AT_SYMLINK_NOFOLLOW), 0);
    T_INT(st.st_nlink, 2);
    T_TRUE(S_ISLNK(mode_of(r, "a/l")) && S_ISFIFO(mode_of(r, "f")) && S_ISREG(mode_of(r, ".wh.name")));
    T_INT(put(&from, BH_PUT_FILE, "a/new", NULL), 0);
    struct bh_digest after = key_of(from.dir);
    T_TRUE(!bh_digest_equal(&after, &before));
    tear_down((void *[]){&from});
}

/* A key is of this directory as it is: one that only looks the same, by size and time, is another. */
static void test_look_alikes(void **state)
{
    const struct timespec times[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    struct bh_digest keys[2];
    (void)state;
    for (size_t i = 0; i < BH_ARRAY_LEN(keys); i++) {
        BH_CLEANUP_FREE char *dir = t_tmpdir(), *file = bh_path_join(dir, "tool");
        BH_CLEANUP_FD int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        T_INT(bh_write_all(fd, i ? "evil" : "good", 4), 0);
        T_INT(futimens(fd, times), 0);
        T_INT(utimensat(AT_FDCWD, dir, times, 0), 0);
        keys[i] = key_of(dir);
        struct bh_digest again = key_of(dir);
        T_TRUE(bh_digest_equal(&again, &keys[i]));
        t_tmpdir_free(BH_TAKE(dir));
    }
    T_TRUE(!bh_digest_equal(&keys[0], &keys[1]));
}

static void test_bad_streams(void **state)
{
    struct rig *r = *state;
    static const char *const texts[] = {"", "something else than a tree", BH_TREE_MAGIC};
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        BH_CLEANUP_FD int fd = memfd_create("tree", MFD_CLOEXEC);
        T_INT(bh_write_all(fd, texts[i], strlen(texts[i]) + (i == 2)), 0);
        T_INT(lseek(fd, 0, SEEK_SET), 0);
        r->p.fault = (struct bh_unpack_fault){0};
        T_INT(bh_unpack_tree(&r->p, fd), -1);
        T_INT(r->p.fault.blame, BH_UNPACK_BAD_ARCHIVE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_entries),     TEST(test_replacing),   TEST(test_whiteouts),   TEST(test_refused), TEST(test_budgets),
        TEST(test_first_fault), TEST(test_tar),         TEST(test_bad_tars),    TEST(test_files),   TEST(test_tree),
        TEST(test_holes),       TEST(test_look_alikes), TEST(test_bad_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
