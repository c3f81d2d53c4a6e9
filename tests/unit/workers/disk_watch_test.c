/* SPDX-License-Identifier: Apache-2.0 */
/* The watch over a folder that is no box: the test writes into it, and its children are the box's processes. */
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/disk/watch.h"

#define MIB (INT64_C(1) << 20)

struct rig {
    char *dir, *folder;
    int root; /* upper/root */
    struct event_base *loop;
    struct bh_disk_watch *watch;
    unsigned paused, resumed, full, killed;
    char note[240];
    bool tidy;   /* on a pause: what is too much goes */
    pid_t mover; /* held while paused; 0: nobody */
};

static void on_pause(void *arg, bool on)
{
    struct rig *r = arg;
    r->paused += on;
    r->resumed += !on;
    if (r->mover > 0)
        (void)kill(r->mover, on ? SIGSTOP : SIGCONT);
    if (on && r->tidy)
        T_INT(unlinkat(r->root, "big", 0), 0);
}

static void on_full(void *arg, const char *note)
{
    struct rig *r = arg;
    r->full++;
    (void)snprintf(r->note, sizeof(r->note), "%s", note);
}

static void on_out_of_memory(void *arg, const char *note)
{
    struct rig *r = arg;
    r->killed++;
    (void)snprintf(r->note, sizeof(r->note), "%s", note);
}

static const struct bh_disk_events events = {on_pause, on_full, on_out_of_memory};

static int set_up(void **state)
{
    struct rig *r = bh_alloc(sizeof(*r));
    r->dir = t_tmpdir();
    r->folder = bh_path_join(r->dir, "k1");
    BH_CLEANUP_FREE char *root = bh_path_join(r->folder, "upper/root");
    T_OK(bh_mkdir_p(root, 0700, &err));
    r->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r->loop = event_base_new();
    T_OK(bh_disk_watch_new(r->loop, r->dir, &r->watch, &err));
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_disk_watch_free(r->watch);
    event_base_free(r->loop);
    bh_close(r->root);
    bh_free(r->folder);
    t_tmpdir_free(r->dir);
    bh_free(r);
    return 0;
}

static struct bh_disk_box *watched(struct rig *r, int64_t bytes, int64_t inodes)
{
    const struct bh_disk_box_spec spec = {
        .folder = r->folder, .by = BH_BY_WATCHDOG, .limits = {bytes, inodes}, .memory_fd = -1};
    return bh_disk_box_new(r->watch, &spec, &events, r);
}

static void put(struct rig *r, const char *name, size_t len)
{
    BH_CLEANUP_FREE char *bytes = bh_alloc(len + 1);
    BH_CLEANUP_FD int fd = openat(r->root, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    memset(bytes, 'x', len);
    T_INT(bh_write_all(fd, bytes, len), 0);
}

static void too_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    fail_msg("nothing has happened for 20 s");
}

static void wait_for(struct rig *r, const unsigned *count)
{
    const struct timeval patience = {20, 0};
    struct event *timer = evtimer_new(r->loop, too_late, NULL);
    unsigned before = *count;
    evtimer_add(timer, &patience);
    while (*count == before)
        (void)event_base_loop(r->loop, EVLOOP_ONCE);
    event_free(timer);
}

static void over_is_counted_twice(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, MIB, 0);
    T_INT(bh_disk_box_bytes(b), -1);
    bh_disk_box_begin(b);
    put(r, "big", 4 * MIB);
    wait_for(r, &r->full);
    T_INT(r->paused, 1);
    T_INT(r->resumed, 0);
    T_TRUE(strstr(r->note, "its limit is 1.0 MiB") != NULL);
    T_TRUE(bh_disk_box_end(b));
    T_TRUE(bh_disk_box_bytes(b) >= 4 * MIB);
    bh_disk_box_free(b);
}

static void what_went_in_between_is_forgiven(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, MIB, 0);
    bh_disk_box_begin(b);
    put(r, "big", 4 * MIB);
    r->tidy = true;
    wait_for(r, &r->resumed);
    T_INT(r->paused, 1);
    T_INT(r->full, 0);
    T_TRUE(!bh_disk_box_end(b));
    bh_disk_box_free(b);
}

/* Moves folders about, and lets the file system grow elsewhere, so that there is reason to look. */
static void move_about(int root, int other)
{
    char from[32], to[32];
    BH_CLEANUP_FREE char *bytes = bh_calloc(1, 4 * MIB);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(bytes, 'x', 4 * MIB);
    for (int pass = 0;; pass++) {
        if (pass % 16 == 0 && (ftruncate(other, 0) < 0 || lseek(other, 0, SEEK_SET) < 0))
            _exit(1);
        if (bh_write_all(other, bytes, 4 * MIB) < 0)
            _exit(1);
        for (int i = 0; i < 300; i++) {
            (void)snprintf(from, sizeof(from), "a/d%d", i);
            (void)snprintf(to, sizeof(to), "b/d%d", i);
            if (renameat(root, from, root, to) < 0 && renameat(root, to, root, from) < 0)
                _exit(1);
        }
    }
}

/* What was moved away under the walker is counted while nothing moves, and only then it is known what there is. */
static void moved_is_counted_again(void **state)
{
    struct rig *r = *state;
    char name[32];
    T_INT(mkdirat(r->root, "a", 0755), 0);
    T_INT(mkdirat(r->root, "b", 0755), 0);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof(name), "a/d%d", i);
        T_INT(mkdirat(r->root, name, 0755), 0);
    }
    BH_CLEANUP_FREE char *path = bh_path_join(r->dir, "other");
    BH_CLEANUP_FD int other = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_TRUE(other >= 0);
    struct bh_disk_box *b = watched(r, 4 * MIB, 1000);
    r->mover = fork();
    if (r->mover == 0)
        move_about(r->root, other);
    bh_disk_box_begin(b);
    wait_for(r, &r->resumed);
    T_INT(r->paused, 1);
    T_INT(r->full, 0);
    pid_t mover = r->mover;
    r->mover = 0;
    (void)kill(mover, SIGKILL);
    (void)waitpid(mover, NULL, 0);
    T_TRUE(!bh_disk_box_end(b));
    bh_disk_box_free(b);
}

static void too_many_files(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, 0, 20);
    char name[16];
    bh_disk_box_begin(b);
    for (int i = 0; i < 60; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        put(r, name, 0);
    }
    wait_for(r, &r->full);
    T_TRUE(strstr(r->note, "files, and its limit is 20") != NULL);
    bh_disk_box_free(b); /* while it runs */
}

/* Found over its limit when it begins: what is left of an earlier time is looked at first. */
static void over_from_the_start(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, MIB, 0);
    put(r, "big", 2 * MIB);
    bh_disk_box_begin(b);
    T_TRUE(bh_disk_box_end(b)); /* it ended before anybody could stop it */
    T_INT(r->full, 0);
    bh_disk_box_begin(b);
    wait_for(r, &r->full);
    T_TRUE(bh_disk_box_end(b));
    bh_disk_box_free(b);
}

static void an_end_is_a_look(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, 0, 0);
    bh_disk_box_begin(b);
    put(r, "a", 100000);
    T_TRUE(!bh_disk_box_end(b));
    T_TRUE(bh_disk_box_bytes(b) >= 100000 && bh_disk_box_bytes(b) < 200000);
    bh_disk_box_free(b);
}

/* A file as large as any may be: whoever wanted more had an error or a signal. */
static void as_large_as_may_be(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, MIB, 0);
    BH_CLEANUP_FD int fd = openat(r->root, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    bh_disk_box_begin(b);
    T_INT(ftruncate(fd, MIB - 1), 0);
    T_TRUE(!bh_disk_box_end(b));
    bh_disk_box_begin(b);
    T_INT(ftruncate(fd, MIB), 0);
    T_TRUE(bh_disk_box_end(b));
    bh_disk_box_free(b);
}

static void two_run_in_one(void **state)
{
    struct rig *r = *state;
    struct bh_disk_box *b = watched(r, 100 * MIB, 0);
    bh_disk_box_begin(b);
    bh_disk_box_begin(b);
    T_TRUE(!bh_disk_box_end(b));
    bh_disk_box_begin(b);
    T_TRUE(!bh_disk_box_end(b));
    T_TRUE(!bh_disk_box_end(b));
    bh_disk_box_free(b);
}

/* --- memory --- */

static void hold(int ready, size_t bytes)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        _exit(1);
    memset(p, 1, bytes);
    if (write(ready, "x", 1) != 1)
        _exit(1);
    for (;;)
        (void)pause();
}

static pid_t start_init(int *ret_alive)
{
    int fds[2];
    char c;
    T_INT(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fork() == 0)
            hold(fds[1], 64 * (size_t)MIB);
        bh_close(fds[1]);
        for (;;)
            (void)pause();
    }
    bh_close(fds[1]);
    T_INT(read(fds[0], &c, 1), 1);
    *ret_alive = fds[0]; /* at its end when the large one is dead */
    return pid;
}

static void the_largest_goes(void **state)
{
    struct rig *r = *state;
    int alive;
    char c;
    pid_t pid = start_init(&alive);
    struct bh_disk_box_spec spec = {.folder = r->folder, .memory = 1024 * MIB, .memory_fd = -1, .init = pid};
    struct bh_disk_box *b = bh_disk_box_new(r->watch, &spec, &events, r);
    bh_disk_box_begin(b);
    spec.memory = 16 * MIB;
    struct bh_disk_box *tight = bh_disk_box_new(r->watch, &spec, &events, r);
    bh_disk_box_begin(tight);
    wait_for(r, &r->killed);
    T_INT(read(alive, &c, 1), 0);
    T_TRUE(strstr(r->note, "of memory, and its limit is 16.0 MiB") != NULL);
    T_INT(r->full + r->paused, 0);
    bh_disk_box_free(tight);
    bh_disk_box_free(b);
    bh_close(alive);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

static void no_such_home(void **state)
{
    struct rig *r = *state;
    struct bh_disk_watch *w;
    T_ERR(bh_disk_watch_new(r->loop, "/nowhere/at/all", &w, &err), BH_E_IO, "cannot watch the disk");
    T_OK(bh_disk_watch_room(r->watch, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(over_is_counted_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_went_in_between_is_forgiven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(moved_is_counted_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(too_many_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(over_from_the_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_is_a_look, set_up, tear_down),
        cmocka_unit_test_setup_teardown(as_large_as_may_be, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_run_in_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_largest_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_such_home, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
