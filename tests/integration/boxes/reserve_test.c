/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes on a disk of their own, small enough to be filled: a file system in memory in a mount namespace of the test. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

#define MIB (INT64_C(1) << 20)

static char *disk;

static void resize(const char *options, unsigned long flags)
{
    T_INT(mount(NULL, disk, NULL, MS_REMOUNT | flags, options), 0);
}

struct pair {
    struct kit_box quiet, loud;
    struct kit_exec waits, e;
    int go[2];
};

/* One that has written a little and waits, and one that writes whatever happens. */
static void start_quiet(struct pair *p, const struct kit_how *how)
{
    const char *const argv[] = {"/bin/sh", "-c", "head -c 2M /dev/zero > mine; echo ready; read -r go; exit 7", NULL};
    char c;
    T_INT(pipe2(p->go, O_CLOEXEC), 0);
    T_INT(kit_create(&kit, &p->quiet, how), 0);
    T_INT(kit_create(&kit, &p->loud, NULL), 0);
    p->waits = (struct kit_exec){.spec = {.argv = argv, .stdin_fd = p->go[0]}};
    kit_start(&p->quiet, &p->waits);
    T_INT(read(p->waits.out_fd, &c, 1), 1);
}

static void end_quiet(struct pair *p)
{
    T_INT(write(p->go[1], "go\n", 3), 3);
    kit_finish(&p->quiet, &p->waits);
    T_INT(p->waits.result.end, BH_EXEC_EXITED);
    T_INT(p->waits.result.status, 7);
    T_TRUE(!p->waits.result.disk_full);
    kit_exec_fini(&p->waits);
    bh_close(p->go[0]);
    bh_close(p->go[1]);
    T_INT(kit_destroy(&p->quiet, false), 0);
}

static void was_stopped(const struct kit_exec *e, const char *note)
{
    T_INT(e->result.end, BH_EXEC_SIGNALED);
    T_INT(e->result.status, SIGKILL);
    T_TRUE(e->result.disk_full);
    if (!strstr(e->result.note, note))
        fail_msg("the note '%s' does not hold '%s'", e->result.note, note);
}

/* Its folder goes at once, which a box that is destroyed does in its own time. */
static void remove_kept(struct kit_box *b)
{
    BH_CLEANUP_FREE char *folder = kit_path(b, "");
    T_INT(kit_destroy(b, true), 0);
    T_INT(bh_rmtree_at(AT_FDCWD, folder), 0);
}

static void the_largest_is_stopped(void **state)
{
    struct pair p;
    struct kit_box refused;
    (void)state;
    start_quiet(&p, NULL);
    kit_sh(&p.loud, &p.e, "while :; do head -c 1M /dev/zero >> f; done 2> /dev/null");
    was_stopped(&p.e, "the host's disk is nearly full");
    kit_exec_fini(&p.e);
    T_INT(kit_create(&kit, &refused, NULL), -BH_E_DISK_FULL);
    T_TRUE(strstr(refused.message, "nearly full") != NULL);
    kit_forget(&refused);
    end_quiet(&p); /* runs on, and has its own end */
    remove_kept(&p.loud);
    T_INT(kit_create(&kit, &refused, NULL), 0);
    T_INT(kit_destroy(&refused, false), 0);
}

static void inodes_run_out(void **state)
{
    struct pair p;
    struct kit_box refused;
    (void)state;
    start_quiet(&p, NULL);
    resize("nr_inodes=8000", 0);
    kit_sh(&p.loud, &p.e, "i=0; while :; do true > f$i; i=$((i + 1)); done 2> /dev/null");
    was_stopped(&p.e, "hardly an inode left");
    kit_exec_fini(&p.e);
    T_INT(kit_create(&kit, &refused, NULL), -BH_E_DISK_FULL);
    kit_forget(&refused);
    end_quiet(&p);
    remove_kept(&p.loud);
    resize("nr_inodes=100000", 0);
}

static void fill_by_others(const char *name)
{
    BH_CLEANUP_FREE char *bytes = bh_alloc((size_t)MIB);
    BH_CLEANUP_FD int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    while (write(fd, bytes, (size_t)MIB) > 0)
        ;
}

/* A box that holds next to nothing is not to blame, and ends as it likes. */
static void not_the_boxes_fault(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    BH_CLEANUP_FREE char *name = bh_path_join(disk, "others");
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    fill_by_others(name);
    kit_sh(&b, &e, "i=0; while [ $i -lt 400 ]; do head -c 1k /dev/zero > f; i=$((i + 1)); done 2> /dev/null; exit 4");
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_INT(e.result.status, 4);
    kit_exec_fini(&e);
    T_INT(unlink(name), 0);
    T_INT(kit_destroy(&b, false), 0);
}

/* In memory of its own a box does not mind what happens to the disk. */
static void memory_does_not_mind(void **state)
{
    struct kit_how how = {.disposable = true};
    struct pair p;
    (void)state;
    how.limits.of[BH_LIMIT_DISK] = 8 * MIB;
    how.limits.of[BH_LIMIT_MEMORY] = 1024 * MIB;
    how.limits.asked = 1u << BH_LIMIT_DISK;
    start_quiet(&p, &how);
    kit_sh(&p.loud, &p.e, "while :; do head -c 1M /dev/zero >> f; done 2> /dev/null");
    was_stopped(&p.e, "nearly full");
    kit_exec_fini(&p.e);
    end_quiet(&p);
    remove_kept(&p.loud);
}

static void read_only(void **state)
{
    struct kit_box b;
    (void)state;
    resize("", MS_RDONLY);
    int code = kit_create(&kit, &b, NULL);
    resize("", 0);
    T_INT(code, -BH_E_PERMISSION);
    T_TRUE(strstr(b.message, "Read-only file system") != NULL);
    kit_forget(&b);
    T_INT(kit_create(&kit, &b, NULL), 0);
    T_INT(kit_destroy(&b, false), 0);
}

/* The disk fills before any box is there. */
static void full(void **state)
{
    struct kit_box b;
    BH_CLEANUP_FREE char *name = bh_path_join(disk, "others");
    (void)state;
    fill_by_others(name);
    T_INT(kit_create(&kit, &b, NULL), -BH_E_DISK_FULL);
    T_TRUE(strstr(b.message, "is nearly full") != NULL);
    kit_forget(&b);
    T_INT(unlink(name), 0);
    T_INT(kit_create(&kit, &b, NULL), 0);
    T_INT(kit_destroy(&b, false), 0);
}

static int begin(void)
{
    struct bh_err *err = NULL;
    const char *base = getenv("TMPDIR");
    disk = bh_asprintf("%s/disk-XXXXXX", base ? base : "/tmp");
    if (!mkdtemp(disk) || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("disk", disk, "tmpfs", 0, "size=200m,nr_inodes=100000,mode=0755") < 0) {
        printf("SKIP mount: no file system of our own can be mounted\n");
        return 77;
    }
    if (kit_open(&kit, disk, &err) == 0)
        return 0;
    printf("SKIP boxes: %s\n", bh_err_message(err));
    bh_err_free(err);
    return 77;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_is_stopped),
        cmocka_unit_test(inodes_run_out),
        cmocka_unit_test(not_the_boxes_fault),
        cmocka_unit_test(memory_does_not_mind),
        cmocka_unit_test(read_only),
        cmocka_unit_test(full),
    };
    int rc = begin();
    if (rc == 0) {
        rc = cmocka_run_group_tests(tests, NULL, NULL);
        kit_fini(&kit);
        (void)umount2(disk, MNT_DETACH);
    }
    (void)rmdir(disk);
    bh_free(disk);
    return rc;
}
