/* SPDX-License-Identifier: Apache-2.0 */
/* The counting walker over trees that do not want to be counted, and what processes hold that no tree shows. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/disk/count.h"
#include "workers/disk/processes.h"

struct rig {
    char *dir;
    int fd;
};

static int set_up(void **state)
{
    struct rig *r = bh_alloc(sizeof(*r));
    r->dir = t_tmpdir();
    r->fd = open(r->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = r;
    return r->fd < 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_close(r->fd);
    t_tmpdir_free(r->dir);
    bh_free(r);
    return 0;
}

static void put(int dirfd, const char *name, size_t len)
{
    BH_CLEANUP_FREE char *bytes = bh_alloc(len + 1);
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    memset(bytes, 'x', len);
    T_TRUE(fd >= 0);
    T_INT(bh_write_all(fd, bytes, len), 0);
}

static struct bh_disk_usage count(int fd)
{
    const struct bh_disk_bounds bounds = {0};
    struct bh_disk_usage u = {0};
    bh_disk_count(fd, &bounds, &u);
    return u;
}

static void blocks_not_sizes(void **state)
{
    const struct rig *r = *state;
    BH_CLEANUP_FD int sparse = -1;
    T_INT(count(r->fd).inodes, 0);
    put(r->fd, "a", 100000);
    sparse = openat(r->fd, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_INT(ftruncate(sparse, INT64_C(1) << 40), 0);
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, 2);
    T_TRUE(u.bytes >= 100000 && u.bytes < 200000);
    T_INT(u.largest, INT64_C(1) << 40);
    T_INT(u.hidden, 0);
    T_TRUE(!u.cut);
}

static void hard_links_once(void **state)
{
    const struct rig *r = *state;
    char name[16];
    put(r->fd, "a", 65536);
    T_INT(mkdirat(r->fd, "d", 0755), 0);
    for (int i = 0; i < 500; i++) {
        (void)snprintf(name, sizeof(name), "d/l%d", i);
        T_INT(linkat(r->fd, "a", r->fd, name, 0), 0);
    }
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, 2);
    T_TRUE(u.bytes < 2 * 65536);
}

static void symlinks_lead_nowhere(void **state)
{
    const struct rig *r = *state;
    T_INT(mkdirat(r->fd, "d", 0755), 0);
    T_INT(symlinkat("/usr", r->fd, "usr"), 0);
    T_INT(symlinkat("..", r->fd, "d/up"), 0);
    T_INT(symlinkat("/proc/self/root", r->fd, "d/root"), 0);
    T_INT(symlinkat("loop", r->fd, "loop"), 0);
    T_INT(mkfifoat(r->fd, "fifo", 0644), 0);
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, 6);
    T_INT(u.hidden, 0);
}

/* Deeper than a path can be long and than there are descriptors to hold. */
static void deep_tree(void **state)
{
    const struct rig *r = *state;
    const int depth = 1500;
    int at = openat(r->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; i++) {
        T_INT(mkdirat(at, "deep", 0755), 0);
        if (i % 500 == 0)
            put(at, "f", 10);
        int next = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bh_close(at);
        at = next;
        T_TRUE(at >= 0);
    }
    bh_close(at);
    put(r->fd, "z", 10);
    T_INT(mkdirat(r->fd, "other", 0755), 0);
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, depth + depth / 500 + 2);
    T_INT(u.hidden, 0);
}

/* Folders at every level of a deep tree, so that the way back up is needed. */
static void bushy_tree(void **state)
{
    const struct rig *r = *state;
    const int depth = 200;
    int at = openat(r->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; i++) {
        T_INT(mkdirat(at, "a", 0755), 0);
        T_INT(mkdirat(at, "b", 0755), 0);
        T_INT(mkdirat(at, "b/c", 0755), 0);
        T_INT(mkdirat(at, "deep", 0755), 0);
        int next = openat(at, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bh_close(at);
        at = next;
    }
    bh_close(at);
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, 4 * depth);
    T_INT(u.hidden, 0);
}

static void names_of_any_bytes(void **state)
{
    const struct rig *r = *state;
    char longest[NAME_MAX + 1];
    memset(longest, 'n', NAME_MAX);
    longest[NAME_MAX] = '\0';
    const char *const names[] = {longest, "two\nlines", "-rf", " ", "\xff\xfe", "...", ".hidden"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        T_INT(mkdirat(r->fd, names[i], 0755), 0);
        BH_CLEANUP_FREE char *inside = bh_asprintf("%s/f", names[i]);
        put(r->fd, inside, 1);
    }
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, 2 * BH_ARRAY_LEN(names));
    T_INT(u.hidden, 0);
}

static void many_names(void **state)
{
    const struct rig *r = *state;
    char name[16];
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        put(r->fd, name, 0);
    }
    T_INT(count(r->fd).inodes, 1500);
}

static void stops_where_it_is_told(void **state)
{
    const struct rig *r = *state;
    atomic_bool given_up = true;
    char name[16];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof(name), "f%d", i);
        put(r->fd, name, 4096);
    }
    const struct bh_disk_bounds bounds[] = {{.bytes = 20000}, {.inodes = 10}, {.entries = 7}, {.given_up = &given_up}};
    for (size_t i = 0; i < BH_ARRAY_LEN(bounds); i++) {
        struct bh_disk_usage u = {0};
        bh_disk_count(r->fd, &bounds[i], &u);
        T_TRUE(u.cut);
        T_TRUE(u.inodes < 50);
        T_TRUE(bounds[i].bytes == 0 || u.bytes > bounds[i].bytes);
        T_TRUE(bounds[i].inodes == 0 || u.inodes == bounds[i].inodes + 1);
        T_TRUE(bounds[i].entries == 0 || u.inodes == bounds[i].entries);
    }
    const struct bh_disk_bounds wide = {.bytes = 1 << 30, .inodes = 50, .entries = 1000};
    struct bh_disk_usage u = {0};
    bh_disk_count(r->fd, &wide, &u);
    T_TRUE(!u.cut);
}

static void what_is_closed_is_said(void **state)
{
    const struct rig *r = *state;
    if (geteuid() == 0)
        skip();
    T_INT(mkdirat(r->fd, "closed", 0755), 0);
    put(r->fd, "closed/f", 1);
    T_INT(fchmodat(r->fd, "closed", 0, 0), 0);
    struct bh_disk_usage u = count(r->fd);
    T_INT(u.inodes, 1);
    T_INT(u.hidden, 1);
    if (bh_disk_count_as_owner(r->fd, &(struct bh_disk_bounds){0}, &u) == 0) { /* where user namespaces can be made */
        T_INT(u.inodes, 2);
        T_INT(u.hidden, 0);
    }
    T_INT(fchmodat(r->fd, "closed", 0700, 0), 0);
}

static void seen(void **state)
{
    struct bh_disk_seen s = {0};
    (void)state;
    for (uint64_t i = 1; i <= 10000; i++)
        T_TRUE(bh_disk_seen_add(&s, i << 20));
    for (uint64_t i = 1; i <= 10000; i++)
        T_TRUE(!bh_disk_seen_add(&s, i << 20));
    T_TRUE(!bh_disk_seen_add(&s, 0));
    T_INT(s.len, 10000);
    bh_disk_seen_fini(&s);
}

/* A tree that is moved about all the time: whatever comes out, nothing is counted twice. */
static void moved_while_counted(void **state)
{
    const struct rig *r = *state;
    char name[32];
    T_INT(mkdirat(r->fd, "a", 0755), 0);
    T_INT(mkdirat(r->fd, "b", 0755), 0);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof(name), "a/d%d", i);
        T_INT(mkdirat(r->fd, name, 0755), 0);
        (void)snprintf(name, sizeof(name), "a/d%d/f", i);
        put(r->fd, name, 10);
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            for (int i = 0; i < 200; i++) {
                char to[32];
                (void)snprintf(name, sizeof(name), "a/d%d", i);
                (void)snprintf(to, sizeof(to), "b/d%d", i);
                if (renameat(r->fd, name, r->fd, to) < 0 && renameat(r->fd, to, r->fd, name) < 0)
                    _exit(1);
            }
        }
    }
    struct bh_disk_usage u = count(r->fd);
    for (int i = 0; u.moved == 0 && i < 1000; i++) {
        T_TRUE(u.inodes <= 402);
        u = count(r->fd);
    }
    T_TRUE(u.moved > 0); /* and it is said that this is no count */
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    u = count(r->fd);
    T_INT(u.moved, 0);
    T_INT(u.inodes, 402);
}

/* --- processes --- */

static void grandchild(int ready, size_t bytes)
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

static pid_t start_family(int *ret_ready)
{
    int fds[2];
    T_INT(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (fork() == 0)
            grandchild(fds[1], 32 << 20);
        if (fork() == 0)
            grandchild(fds[1], 4 << 20);
        for (;;)
            (void)pause();
    }
    for (int i = 0; i < 2; i++) {
        char c;
        T_INT(read(fds[0], &c, 1), 1);
    }
    bh_close(fds[1]);
    *ret_ready = fds[0];
    return pid;
}

static void family(void **state)
{
    struct bh_disk_processes p = {0};
    size_t largest = 99;
    int ready;
    (void)state;
    pid_t pid = start_family(&ready);
    bh_disk_processes_find(pid, &p);
    T_INT(p.len, 2);
    T_INT(p.items[0].parent, pid);
    T_TRUE(bh_disk_processes_memory(&p, 1 << 30, &largest) > 36 << 20);
    T_INT(largest, 99);
    T_TRUE(bh_disk_processes_memory(&p, 20 << 20, &largest) > 36 << 20);
    T_TRUE(p.items[largest].rss_bytes > 32 << 20);
    struct bh_disk_process other = p.items[largest];
    other.started++; /* its number is another's by now */
    bh_disk_process_kill(&other);
    T_INT(kill(other.pid, 0), 0);
    bh_disk_process_kill(&p.items[largest]);
    bh_disk_processes_fini(&p);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    bh_close(ready);
}

static void nobody(void **state)
{
    struct bh_disk_processes p = {0};
    struct bh_disk_usage u = {0};
    const struct bh_disk_bounds bounds = {0};
    (void)state;
    bh_disk_processes_find(0, &p);
    bh_disk_processes_find(INT_MAX, &p);
    T_INT(p.len, 0);
    bh_disk_count_open(&p, &bounds, &u);
    T_INT(u.inodes, 0);
    bh_disk_processes_fini(&p);
}

static void written(void **state)
{
    const struct rig *r = *state;
    struct bh_disk_process self = {.pid = getpid()};
    const struct bh_disk_processes p = {.items = &self, .len = 1};
    int64_t before = bh_disk_processes_written(&p, true);
    put(r->fd, "a", 1 << 20);
    T_TRUE(bh_disk_processes_written(&p, true) >= before + (1 << 20));
    T_TRUE(bh_disk_processes_written(&p, false) >= 0);
    self.pid = INT_MAX;
    T_INT(bh_disk_processes_written(&p, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_not_sizes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(hard_links_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(symlinks_lead_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(deep_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bushy_tree, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_of_any_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stops_where_it_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_closed_is_said, set_up, tear_down),
        cmocka_unit_test(seen),
        cmocka_unit_test_setup_teardown(moved_while_counted, set_up, tear_down),
        cmocka_unit_test(family),
        cmocka_unit_test(nobody),
        cmocka_unit_test_setup_teardown(written, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
