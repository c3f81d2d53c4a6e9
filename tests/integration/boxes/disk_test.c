/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a box may write: watched on the disk, exact in memory. Where an execution only ends because it is stopped, the
 * kit's patience is the bound.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/integration/boxes/kit.h"
#include "tests/support/t.h"

#define MIB (INT64_C(1) << 20)

static struct kit_how with(int64_t disk, int64_t inodes)
{
    struct kit_how how = {.limits.of = {[BH_LIMIT_DISK] = disk, [BH_LIMIT_INODES] = inodes}};
    how.limits.asked = (disk ? 1u << BH_LIMIT_DISK : 0) | (inodes ? 1u << BH_LIMIT_INODES : 0);
    return how;
}

static struct kit_how in_memory(int64_t disk, int64_t inodes)
{
    struct kit_how how = with(disk, inodes);
    how.disposable = true;
    how.limits.of[BH_LIMIT_MEMORY] = 1024 * MIB;
    return how;
}

static unsigned held_by(const struct kit_box *b, enum bh_limit limit)
{
    return kit.boxes->ops->enforced(b->box, NULL).by[limit];
}

static int64_t bytes_of(const struct kit_box *b)
{
    return kit.boxes->ops->disk_bytes(b->box);
}

static void start_sh(struct kit_box *b, struct kit_exec *e, const char *text)
{
    const char *argv[] = {"/bin/sh", "-c", text, NULL};
    *e = (struct kit_exec){.spec.argv = argv};
    kit_start(b, e);
    e->spec.argv = NULL;
}

static void wait_for_output(struct kit_exec *e)
{
    char c;
    T_INT(read(e->out_fd, &c, 1), 1);
}

static void was_stopped(const struct kit_exec *e, const char *note)
{
    T_INT(e->result.end, BH_EXEC_SIGNALED);
    T_INT(e->result.status, SIGKILL);
    T_TRUE(e->result.disk_full);
    if (!strstr(e->result.note, note))
        fail_msg("the note '%s' does not hold '%s'", e->result.note, note);
}

/* Where the file system of the state directory has project quotas, they hold a box instead. */
static bool only_by(struct kit_box *b, enum bh_enforcer by)
{
    if (held_by(b, BH_LIMIT_DISK) == by || held_by(b, BH_LIMIT_INODES) == by)
        return true;
    T_INT(kit_destroy(b, false), 0);
    skip();
    return false;
}

/* --- watched --- */

static void zeros_over_the_limit(void **state)
{
    struct kit_how how = with(32 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    T_INT(held_by(&b, BH_LIMIT_INODES), BH_BY_WATCHDOG); /* of what nobody has said there is a usual limit */
    /* Many files, each far below the limit: only the watch can stop them. It writes no further than a while. */
    kit_sh(&b, &e, "i=0; while [ $i -lt 4000 ]; do head -c 1M /dev/zero > f$i || exit 9; i=$((i + 1)); done");
    was_stopped(&e, "its limit is 32.0 MiB");
    kit_exec_fini(&e);
    T_TRUE(bytes_of(&b) > 32 * MIB);
    T_TRUE(bytes_of(&b) < 2048 * MIB);
    T_INT(kit_destroy(&b, false), 0);
}

static void many_small_files(void **state)
{
    struct kit_how how = with(0, 2000);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    kit_sh(&b, &e, "i=0; while :; do true > f$i || exit 9; i=$((i + 1)); done");
    was_stopped(&e, "its limit is 2000");
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

/* Written to after its name is gone: no tree shows it. */
static void deleted_file(void **state)
{
    struct kit_how how = with(32 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    kit_sh(&b, &e,
           "i=3; while [ $i -lt 8 ]; do eval \"exec $i> gone\"; rm gone; head -c 16M /dev/zero >&$i; "
           "i=$((i + 1)); done; sleep 1000");
    was_stopped(&e, "its limit is 32.0 MiB");

    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

/* Held by a thread whose process's first one has ended: that one's descriptors are gone, and so is its memory. */
static void deleted_file_of_a_thread(void **state)
{
    static const char *const program =
        "command -v python3 > /dev/null || exit 77\n"
        "exec python3 -c '\n"
        "import ctypes, os, threading\n"
        "main = os.getpid()\n"
        "def hold():\n"
        "    while open(f\"/proc/{main}/stat\").read().rsplit(\")\")[-1].split()[0] != \"Z\":\n"
        "        threading.Event().wait(0.01)\n"
        "    held = []\n"
        "    for i in range(8):\n"
        "        held.append(open(\"gone\", \"wb\"))\n"
        "        os.unlink(\"gone\")\n"
        "        held[-1].write(bytes(16 << 20))\n"
        "        held[-1].flush()\n"
        "    threading.Event().wait()\n"
        "threading.Thread(target=hold).start()\n"
        "ctypes.CDLL(None).syscall(60 if os.uname().machine == \"x86_64\" else 93, 0)\n"
        "'";
    struct kit_how how = with(32 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    kit_sh(&b, &e, program);
    if (e.result.end == BH_EXEC_EXITED && e.result.status == 77) {
        kit_exec_fini(&e);
        T_INT(kit_destroy(&b, false), 0);
        t_skip("python3", "boxes find no python3");
    }
    was_stopped(&e, "its limit is 32.0 MiB");
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

/* A folder without a name is an inode, too. */
static void deleted_folders(void **state)
{
    struct kit_how how = with(0, 500);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    /* Each stands in one that is gone; what they write makes the watch look. */
    kit_sh(&b, &e,
           "for i in 1 2 3 4 5 6 7 8; do (for j in 0 1 2 3 4 5 6 7 8 9 a b c d e f; do mkdir d$i$j && (cd d$i$j && "
           "rmdir ../d$i$j && "
           "sleep 1000) & done; wait) & done; "
           "sleep 1; i=0; while [ $i -lt 440 ]; do echo x > f$i; i=$((i + 1)); done; "
           "while :; do head -c 1M /dev/zero > f; rm f; done");
    was_stopped(&e, "its limit is 500");
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

/* Nor does one whose folder is closed to all, its owner too. */
static void closed_folder(void **state)
{
    struct kit_how how = with(32 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    kit_sh(
        &b, &e,
        "mkdir d; exec 3> d/a 4> d/b 5> d/c 6> d/d; chmod 0 d; for i in 3 4 5 6; do head -c 16M /dev/zero >&$i; done; "
        "sleep 1000");
    was_stopped(&e, "its limit is 32.0 MiB");
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

static void sparse_is_not_counted(void **state)
{
    struct kit_how how = with(32 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    kit_sh(&b, &e, "for i in 1 2 3 4 5 6 7 8 9; do truncate -s 30M sparse$i || exit 9; done; head -c 4M /dev/zero > f");
    T_INT(e.result.end, BH_EXEC_EXITED);
    T_INT(e.result.status, 0);
    T_TRUE(!e.result.disk_full);
    T_STR(e.result.note, "");
    kit_exec_fini(&e);
    T_TRUE(bytes_of(&b) >= 4 * MIB && bytes_of(&b) < 8 * MIB);
    T_INT(kit_destroy(&b, false), 0);
}

static void one_file_stops_exactly(void **state)
{
    struct kit_how how = with(4 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    kit_sh(&b, &e, "exec head -c 100M /dev/zero > f");
    T_INT(e.result.end, BH_EXEC_SIGNALED);
    /* The file and the folders that lead to it are more than the limit: on a slow machine the watch may be faster. */
    T_TRUE(e.result.status == SIGXFSZ || (e.result.status == SIGKILL && e.result.disk_full));
    kit_exec_fini(&e);
    T_TRUE(bytes_of(&b) <= 4 * MIB + 65536);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_create(&kit, &b, &how), 0);
    /* Whoever ignores the signal has an error, and is told apart all the same. */
    kit_sh(&b, &e, "trap '' XFSZ; head -c 100M /dev/zero > f || exit 5");
    T_TRUE(e.result.status == 5 || e.result.status == SIGKILL);
    T_TRUE(e.result.disk_full);
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

static void neighbour_runs_on(void **state)
{
    struct kit_how how = with(16 * MIB, 0), wide = with(1024 * MIB, 0);
    const char *const argv[] = {"/bin/sh", "-c", "echo ready; read -r go; head -c 1M /dev/zero > mine && echo mine",
                                NULL};
    struct kit_box bad, good;
    struct kit_exec e, other;
    int go[2];
    (void)state;
    T_INT(kit_create(&kit, &good, &wide), 0);
    T_INT(kit_create(&kit, &bad, &how), 0);
    if (held_by(&bad, BH_LIMIT_DISK) != BH_BY_WATCHDOG) {
        T_INT(kit_destroy(&bad, false), 0);
        T_INT(kit_destroy(&good, false), 0);
        skip();
    }
    T_INT(pipe2(go, O_CLOEXEC), 0);
    other = (struct kit_exec){.spec = {.argv = argv, .stdin_fd = go[0]}};
    kit_start(&good, &other);
    wait_for_output(&other);
    kit_sh(&bad, &e, "i=0; while [ $i -lt 4000 ]; do head -c 1M /dev/zero > f$i || exit 9; i=$((i + 1)); done");
    was_stopped(&e, "its limit is 16.0 MiB");
    kit_exec_fini(&e);
    T_INT(write(go[1], "go\n", 3), 3);
    kit_finish(&good, &other);
    T_INT(other.result.end, BH_EXEC_EXITED);
    T_INT(other.result.status, 0);
    T_TRUE(!other.result.disk_full);
    kit_exec_fini(&other);
    bh_close(go[0]);
    bh_close(go[1]);
    T_INT(kit_destroy(&bad, false), 0);
    T_INT(kit_destroy(&good, false), 0);
}

static void all_agents_of_a_shared_box(void **state)
{
    struct kit_how how = with(16 * MIB, 0);
    struct kit_box b;
    struct kit_exec e, other;
    (void)state;
    how.shared = true;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    start_sh(&b, &other, "echo ready; sleep 1000");
    wait_for_output(&other);
    kit_sh(&b, &e, "i=0; while [ $i -lt 4000 ]; do head -c 1M /dev/zero > f$i || exit 9; i=$((i + 1)); done");
    was_stopped(&e, "all agents that ran in it were stopped");
    kit_exec_fini(&e);
    kit_finish(&b, &other);
    was_stopped(&other, "its limit is 16.0 MiB");
    kit_exec_fini(&other);
    T_INT(kit_destroy(&b, false), 0);
}

static void kept_box_can_be_looked_at(void **state)
{
    struct kit_how how = with(8 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    struct stat st;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    BH_CLEANUP_FREE char *file = kit_path(&b, "upper/root/workspace/f3");
    kit_sh(&b, &e, "i=0; while [ $i -lt 4000 ]; do head -c 1M /dev/zero > f$i || exit 9; i=$((i + 1)); done");
    was_stopped(&e, "8.0 MiB");
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, true), 0);
    T_INT(stat(file, &st), 0);
    T_INT(st.st_size, MIB);
}

/* --- the limit of memory where nothing else holds it --- */

static void memory_is_watched(void **state)
{
    struct kit_how how = {.best_effort = true, .limits.asked = 1u << BH_LIMIT_MEMORY};
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    how.limits.of[BH_LIMIT_MEMORY] = 64 * MIB;
    if (kit_create(&kit, &b, &how) != 0)
        fail_msg("%s", b.message);
    if (held_by(&b, BH_LIMIT_MEMORY) == BH_BY_WATCHDOG) {
        /* The shell is small: what it starts is the largest. */
        kit_sh(&b, &e, "sh -c 'x=$(head -c 100M /dev/zero | tr \"\\0\" x); exec sleep 1000'; exit 3");
        T_INT(e.result.status, 3);
        T_TRUE(e.result.oom);
        T_TRUE(strstr(e.result.note, "its limit is 64.0 MiB") != NULL);
        kit_exec_fini(&e);
    }
    T_INT(kit_destroy(&b, false), 0);
}

/* --- in memory --- */

static void skip_without_memory(const struct kit_box *b)
{
    if (held_by(b, BH_LIMIT_DISK) == BH_BY_QUOTA)
        skip();
    if (held_by(b, BH_LIMIT_DISK) != BH_BY_TMPFS)
        t_skip("tmpfs-xattr", "this kernel's tmpfs keeps no attributes");
}

static void exact_in_memory(void **state)
{
    struct kit_how how = in_memory(8 * MIB, 100);
    struct kit_box b;
    struct kit_exec e;
    char bytes[8];
    int error;
    (void)state;
    how.writable_usr = *state != NULL;
    T_INT(kit_create(&kit, &b, &how), 0);
    skip_without_memory(&b);
    T_INT(held_by(&b, BH_LIMIT_INODES), BH_BY_TMPFS);
    kit_sh(&b, &e,
           "mkdir -p out; echo result > out/r; head -c 100M /dev/zero > f; echo status $?; "
           "echo more > g && [ ! -s g ] && echo empty; stat -c %s f");
    T_TRUE(strstr(e.err.data, "No space left on device") != NULL);
    T_TRUE(strstr(e.out.data, "status 1\n") != NULL);
    T_TRUE(e.result.disk_full);
    kit_exec_fini(&e);
    T_TRUE(bytes_of(&b) >= 8 * MIB - 65536 && bytes_of(&b) <= 8 * MIB);
    /* What it declared is right all the same. */
    T_INT(kit_barrier(&b), 0);
    BH_CLEANUP_FD int fd = kit_open_output(&b, "out", "r", &error);
    T_TRUE(fd >= 0);
    T_INT(read(fd, bytes, sizeof(bytes)), 7);
    T_TRUE(memcmp(bytes, "result\n", 7) == 0);
    T_INT(kit_destroy(&b, false), 0);
}

static void inodes_in_memory(void **state)
{
    struct kit_how how = in_memory(64 * MIB, 100);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    skip_without_memory(&b);
    kit_sh(&b, &e, "i=0; while true > /tmp/f$i; do i=$((i + 1)); done 2> /dev/null; echo $i");
    T_TRUE(e.result.disk_full);
    /* A few are the folders that lead to them, copied up. */
    T_TRUE(atoi(e.out.data) > 90 && atoi(e.out.data) <= 100);
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

/* What a layer below hides and shows works there as on a disk. */
static void memory_is_a_whole_root(void **state)
{
    struct kit_how how = in_memory(64 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    skip_without_memory(&b);
    kit_sh(&b, &e,
           "set -e; rm -r out; mkdir out; touch out/x; mkdir -p a/b; ln -s b a/c; ln out/x out/y; mv a d; "
           "chmod 750 d; [ -L d/c ]; stat -c %h out/x; rm -r d; ls");
    T_INT(e.result.status, 0);
    T_STR(e.out.data, "2\nin\nout\n");
    T_TRUE(!e.result.disk_full);
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

static void large_or_kept_is_on_disk(void **state)
{
    struct kit_how large = in_memory(257 * MIB, 0), kept = in_memory(8 * MIB, 0), tight = in_memory(200 * MIB, 0);
    const struct kit_how *hows[] = {&large, &kept, &tight};
    struct kit_box b;
    (void)state;
    kept.disposable = false;
    tight.limits.of[BH_LIMIT_MEMORY] = 300 * MIB;
    for (size_t i = 0; i < BH_ARRAY_LEN(hows); i++) {
        T_INT(kit_create(&kit, &b, hows[i]), 0);
        T_TRUE(held_by(&b, BH_LIMIT_DISK) == BH_BY_WATCHDOG || held_by(&b, BH_LIMIT_DISK) == BH_BY_QUOTA);
        T_INT(kit_destroy(&b, false), 0);
    }
}

/* --- by quota --- */

static void exact_by_quota(void **state)
{
    struct kit_how how = with(8 * MIB, 0), wide = with(64 * MIB, 0);
    struct kit_box b, other;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_QUOTA))
        return;
    T_INT(kit_create(&kit, &other, &wide), 0);
    kit_sh(&b, &e, "echo result > r; head -c 100M /dev/zero > f; echo status $?; cat r");
    T_TRUE(strstr(e.out.data, "status 1\nresult\n") != NULL);
    T_TRUE(strstr(e.err.data, "No space left") != NULL || strstr(e.err.data, "quota exceeded") != NULL);
    T_TRUE(e.result.disk_full);
    kit_exec_fini(&e);
    T_TRUE(bytes_of(&b) > 7 * MIB && bytes_of(&b) <= 8 * MIB);
    kit_sh(&other, &e, "head -c 32M /dev/zero > f");
    T_INT(e.result.status, 0);
    T_TRUE(!e.result.disk_full);
    kit_exec_fini(&e);
    /* A layer is not limited any more, and the box on it has a quota of its own. */
    T_INT(kit_freeze(&b, "l1"), 0);
    how.layer = "l1";
    T_INT(kit_create(&kit, &b, &how), 0);
    kit_sh(&b, &e, "cat r; head -c 4M /dev/zero > g && mv f h && rm h");
    T_INT(e.result.status, 1); /* to move a file of 8 MiB it has to be copied up first */
    T_TRUE(strncmp(e.out.data, "result\n", 7) == 0);
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
    T_INT(kit_destroy(&other, false), 0);
}

static void inodes_by_quota(void **state)
{
    struct kit_how how = with(0, 200);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, &how), 0);
    if (!only_by(&b, BH_BY_QUOTA))
        return;
    kit_sh(&b, &e, "i=0; while true > /tmp/f$i; do i=$((i + 1)); done 2> /dev/null; echo $i");
    T_TRUE(e.result.disk_full);
    T_TRUE(atoi(e.out.data) > 180 && atoi(e.out.data) <= 200);
    kit_exec_fini(&e);
    T_INT(kit_destroy(&b, false), 0);
}

/* The folder of one is another's next, without its quota. */
static void folders_come_back(void **state)
{
    struct kit_how how = with(MIB, 0), wide = with(64 * MIB, 0);
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    for (int i = 0; i < 12; i++) {
        T_INT(kit_create(&kit, &b, i % 2 ? &wide : &how), 0);
        if (!only_by(&b, BH_BY_QUOTA))
            return;
        kit_sh(&b, &e, "head -c 3M /dev/zero > f; exit $?");
        T_INT(e.result.status, i % 2 ? 0 : 1);
        kit_exec_fini(&e);
        T_INT(kit_destroy(&b, false), 0);
    }
}

static void nothing_is_known_of_no_run(void **state)
{
    struct kit_box b;
    struct kit_exec e;
    (void)state;
    T_INT(kit_create(&kit, &b, NULL), 0);
    if (!only_by(&b, BH_BY_WATCHDOG))
        return;
    T_INT(bytes_of(&b), -1);
    kit_sh(&b, &e, "head -c 1M /dev/zero > f");
    kit_exec_fini(&e);
    T_TRUE(bytes_of(&b) >= MIB);
    T_INT(kit_destroy(&b, false), 0);
}

int main(void)
{
    static char writable_usr[] = "writable /usr";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zeros_over_the_limit),
        cmocka_unit_test(many_small_files),
        cmocka_unit_test(deleted_file),
        cmocka_unit_test(deleted_file_of_a_thread),
        cmocka_unit_test(deleted_folders),
        cmocka_unit_test(closed_folder),
        cmocka_unit_test(sparse_is_not_counted),
        cmocka_unit_test(one_file_stops_exactly),
        cmocka_unit_test(neighbour_runs_on),
        cmocka_unit_test(all_agents_of_a_shared_box),
        cmocka_unit_test(kept_box_can_be_looked_at),
        cmocka_unit_test(memory_is_watched),
        cmocka_unit_test(exact_in_memory),
        cmocka_unit_test_prestate(exact_in_memory, writable_usr),
        cmocka_unit_test(inodes_in_memory),
        cmocka_unit_test(memory_is_a_whole_root),
        cmocka_unit_test(large_or_kept_is_on_disk),
        cmocka_unit_test(exact_by_quota),
        cmocka_unit_test(inodes_by_quota),
        cmocka_unit_test(folders_come_back),
        cmocka_unit_test(nothing_is_known_of_no_run),
    };
    KIT_MAIN(tests);
}
