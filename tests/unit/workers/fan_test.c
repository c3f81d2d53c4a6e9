/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who writes to an overlay, seen through two mounts of it as two agents have them. For root of the host, in a mount
 * namespace of the test's own; others are refused by the kernel, and that is tested.
 */
#include "workers/box/fan.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "tests/support/t.h"
#include "workers/box/mount_id.h"

struct scene {
    char *dir, *a, *b; /* a, b: the overlay, mounted twice */
    struct bh_fan *fan;
    int root;
};

static char *made(const char *dir, const char *name)
{
    char *path = bh_asprintf("%s/%s", dir, name);
    T_INT(mkdir(path, 0755), 0);
    return path;
}

static uint64_t mount_of(const char *path)
{
    struct statx sx;
    return bh_mount_id(AT_FDCWD, path, 0, &sx);
}

static void mount_overlay(struct scene *s)
{
    BH_CLEANUP_FREE char *lower = made(s->dir, "lower"), *upper = made(s->dir, "upper"), *work = made(s->dir, "work");
    BH_CLEANUP_FREE char *options = bh_asprintf("lowerdir=%s,upperdir=%s,workdir=%s", lower, upper, work);
    s->a = made(s->dir, "a");
    s->b = made(s->dir, "b");
    T_INT(mount("overlay", s->a, "overlay", 0, options), 0);
    T_INT(mount(s->a, s->b, NULL, MS_BIND, NULL), 0);
}

static int setup(void **state)
{
    struct scene *s = bh_alloc(sizeof(*s));
    *s = (struct scene){.root = -1};
    *state = s;
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return 0; /* the tests skip */
    char *dir = t_tmpdir();
    T_INT(mount("tmpfs", dir, "tmpfs", 0, "mode=0755"), 0);
    s->dir = dir;
    mount_overlay(s);
    s->fan = bh_fan_new();
    s->root = open(s->a, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return 0;
}

static int teardown(void **state)
{
    struct scene *s = *state;
    bh_fan_free(s->fan);
    bh_close(s->root);
    if (s->dir) {
        (void)umount2(s->b, MNT_DETACH);
        (void)umount2(s->a, MNT_DETACH);
        (void)umount2(s->dir, MNT_DETACH);
        t_tmpdir_free(s->dir);
    }
    bh_free(s->a);
    bh_free(s->b);
    bh_free(s);
    return 0;
}

static struct scene *begin(void **state)
{
    struct scene *s = *state;
    if (!s->dir || bh_fan_start(s->fan, s->root) < 0)
        t_skip("fanotify", "needs root of the host and a mount namespace");
    T_TRUE(mount_of(s->a) != 0 && mount_of(s->a) != mount_of(s->b));
    bh_fan_name(s->fan, mount_of(s->a), 1);
    bh_fan_name(s->fan, mount_of(s->b), 2);
    return s;
}

static void put(const char *dir, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/%s", dir, name);
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
}

static uint64_t file_of(const char *dir, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/%s", dir, name);
    BH_CLEANUP_FD int fd = open(path, O_PATH | O_CLOEXEC);
    T_TRUE(fd >= 0);
    return bh_file_key_of(fd);
}

static void a_file_is_more_than_its_inode(void **state)
{
    struct statx old = {.stx_mask = BH_FILE_KEY_MASK, .stx_ino = 12, .stx_btime = {.tv_sec = 1, .tv_nsec = 5}},
                 next = old;
    (void)state;
    T_TRUE(bh_file_key(&old) == bh_file_key(&next));
    next.stx_btime.tv_nsec = 6; /* its inode has been given to another */
    T_TRUE(bh_file_key(&old) != bh_file_key(&next));
    next = old;
    next.stx_ino = 13;
    T_TRUE(bh_file_key(&old) != bh_file_key(&next));
    old.stx_mask = next.stx_mask = STATX_INO; /* nobody says when */
    T_TRUE(bh_file_key(&old) == 12 && bh_file_key(&next) == 13);
    old.stx_ino = 0;
    T_TRUE(bh_file_key(&old) != 0);
}

static void the_mount_says_who(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    put(s->a, "x", "1");
    uint64_t since = bh_fan_moment(s->fan);
    pid_t pid = fork(); /* gone before anybody asks */
    if (pid == 0) {
        put(s->b, "x", "2");
        _exit(0);
    }
    T_INT(waitpid(pid, NULL, 0), pid);
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_INT(w.n, 2);
    T_TRUE(w.whole && w.of[0].tag == 1 && w.of[1].tag == 2 && w.of[1].wrote);
    bh_fan_ask(s->fan, since, file_of(s->a, "x"), NULL, &w);
    T_INT(w.n, 1);
    T_INT(w.of[0].tag, 2);
    bh_fan_ask(s->fan, bh_fan_moment(s->fan), file_of(s->a, "x"), NULL, &w);
    T_INT(w.n, 0);
}

static void a_name_tells_of_what_was_replaced(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    BH_CLEANUP_FREE char *from = bh_asprintf("%s/t", s->a), *to = bh_asprintf("%s/x", s->a);
    put(s->b, "x", "theirs");
    (void)bh_fan_moment(s->fan); /* its name is read when the event is */
    put(s->a, "t", "mine");
    T_INT(rename(from, to), 0);
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_INT(w.n, 1);
    T_INT(w.of[0].tag, 1);
    BH_CLEANUP_FREE char *name = bh_asprintf("%s/x", s->b); /* as the writer's mount had it */
    bh_fan_ask(s->fan, 0, 0, name, &w);
    T_INT(w.n, 1);
    T_INT(w.of[0].tag, 2);
}

static void a_store_into_a_mapping_is_an_opening(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    put(s->a, "x", "1");
    uint64_t since = bh_fan_moment(s->fan);
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/x", s->b);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    char *map = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T_TRUE(map != MAP_FAILED);
    map[0] = '2';
    munmap(map, 1);
    bh_close(fd);
    bh_fan_ask(s->fan, since, file_of(s->a, "x"), NULL, &w);
    T_INT(w.n, 1);
    T_TRUE(w.of[0].tag == 2 && !w.of[0].wrote);
}

static void reading_is_no_writing(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    char byte;
    put(s->a, "x", "1");
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/x", s->b);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    T_INT(read(fd, &byte, 1), 1);
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_INT(w.n, 1);
    T_INT(w.of[0].tag, 1);
}

static void a_mount_may_be_named_later(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    bh_fan_free(s->fan);
    s->fan = bh_fan_new();
    T_INT(bh_fan_start(s->fan, s->root), 0);
    put(s->a, "x", "1");
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_TRUE(w.n == 1 && w.of[0].tag == 0);
    bh_fan_name(s->fan, mount_of(s->a), 7);
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_TRUE(w.n == 1 && w.of[0].tag == 7);
}

static void what_stopped_keeps_its_record(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    put(s->a, "x", "1");
    (void)bh_fan_moment(s->fan);
    bh_fan_stop(s->fan);
    T_INT(bh_fan_fd(s->fan), -1);
    put(s->b, "x", "2");
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_TRUE(w.n == 1 && w.of[0].tag == 1);
    T_INT(umount2(s->b, 0), 0); /* nothing of ours holds it */
    T_INT(mount(s->a, s->b, NULL, MS_BIND, NULL), 0);
}

/* More than is kept: the record starts anew, and says that it is not whole. */
static void a_flood_is_not_whole(void **state)
{
    struct scene *s = begin(state);
    struct bh_box_writers w;
    char name[32];
    for (int i = 0; i < 9000; i++) {
        snprintf(name, sizeof(name), "f%d", i);
        put(s->a, name, "1");
        if (i % 1000 == 0)
            (void)bh_fan_take(s->fan, 100000);
    }
    put(s->b, "x", "2");
    bh_fan_ask(s->fan, 0, file_of(s->a, "x"), NULL, &w);
    T_TRUE(!w.whole);
    T_TRUE(w.n == 1 && w.of[0].tag == 2);
}

static void nothing_but_a_box_is_watched(void **state)
{
    (void)state;
    struct bh_fan *fan = bh_fan_new();
    BH_CLEANUP_FD int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    T_INT(bh_fan_start(fan, root), -1);
    T_INT(errno, EXDEV);
    T_INT(bh_fan_fd(fan), -1);
    T_TRUE(!bh_fan_take(fan, 1));
    T_INT(bh_fan_moment(fan), 0);
    bh_fan_free(fan);
    bh_fan_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_mount_says_who),
        TEST(a_file_is_more_than_its_inode),
        TEST(a_name_tells_of_what_was_replaced),
        TEST(a_store_into_a_mapping_is_an_opening),
        TEST(reading_is_no_writing),
        TEST(a_mount_may_be_named_later),
        TEST(what_stopped_keeps_its_record),
        TEST(a_flood_is_not_whole),
        cmocka_unit_test(nothing_but_a_box_is_watched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
