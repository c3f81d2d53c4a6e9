/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box's /proc. A new instance of the kernel's, in which files of the whole machine are left that nobody in a box has
 * business with: they are covered, as container runtimes do, with an empty file or directory, and what can be written
 * is made read-only. A cover is a mount and costs each box some microseconds, so one is put only where the kernel would
 * let an agent in: most of these files are for their owner, and that is root of the host, nobody in a box.
 *
 * Where agents *are* root of the host (`unshare -r`), everything is covered that is not named as harmless.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/text.h"
#include "workers/init/init.h"
#include "workers/init/mounts.h"

#define ATTRS (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* Settings of the network, of message queues and semaphores belong to root of the box, the others to the host's. */
static const char *const read_only[] = {"sys", "sysrq-trigger", "irq", "bus", "fs"};
#define ALWAYS_READ_ONLY 1 /* the first so many */

/* Keys, hardware, and what tells when others are at work. */
static const char *const hidden[] = {
    "acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "latency_stats", "sched_debug", "scsi", "timer_list",
};

/* For agents that are root of the host: what remains in sight beside the processes. */
static const char *const harmless[] = {
    "buddyinfo",   "bus",         "cgroups",  "cmdline", "cpuinfo",  "crypto",   "devices", "diskstats", "execdomains",
    "fb",          "filesystems", "fs",       "irq",     "loadavg",  "locks",    "meminfo", "misc",      "mounts",
    "net",         "partitions",  "pressure", "self",    "softirqs", "stat",     "swaps",   "sys",       "sysvipc",
    "thread-self", "tty",         "uptime",   "version", "vmstat",   "zoneinfo",
};

/* One segment in an instance of our own: nobody else has put anything there, and a symlink is not followed. */
static int attach(int mount_fd, int proc, const char *name)
{
    return move_mount(mount_fd, "", proc, name, MOVE_MOUNT_F_EMPTY_PATH);
}

static int make_read_only(int proc, const char *name)
{
    BH_CLEANUP_FD int fd = bh_mount_clone(proc, name, false);
    if (fd < 0)
        return errno == ENOENT ? 0 : -1;
    return bh_mount_restrict(fd, MOUNT_ATTR_RDONLY, false) < 0 ? -1 : attach(fd, proc, name);
}

/* Both are on the stage, read-only, and so is every copy. */
static int cover(int proc, const char *name, const struct stat *st)
{
    BH_CLEANUP_FD int fd = bh_mount_clone(AT_FDCWD, S_ISDIR(st->st_mode) ? "empty" : "nothing", false);
    return fd < 0 ? -1 : attach(fd, proc, name);
}

/* Root of the host has no number in a box, unless it is who runs there. */
static bool agent_can_read(const struct stat *st)
{
    return st->st_mode & S_IROTH || st->st_uid == 0;
}

static int cover_hidden(int proc, struct bh_fail *fail)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(hidden); i++) {
        struct stat st;
        if (fstatat(proc, hidden[i], &st, AT_SYMLINK_NOFOLLOW) < 0 || !agent_can_read(&st))
            continue;
        if (cover(proc, hidden[i], &st) < 0)
            return bh_fail(fail, errno, "cover /proc/%s", hidden[i]);
    }
    return 0;
}

static bool is_harmless(const char *name)
{
    if (strspn(name, "0123456789") == strlen(name) || name[0] == '.')
        return true;
    for (size_t i = 0; i < BH_ARRAY_LEN(harmless); i++) {
        if (bh_streq(name, harmless[i]))
            return true;
    }
    return false;
}

static int cover_unknown(int proc, struct bh_fail *fail)
{
    DIR *dir = bh_dir_stream(openat(proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct dirent *e;
    int rc = 0;
    if (!dir)
        return bh_fail(fail, errno, "read /proc");
    while (rc == 0 && (e = readdir(dir))) {
        struct stat st;
        if (is_harmless(e->d_name) || fstatat(proc, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || S_ISLNK(st.st_mode))
            continue;
        if (cover(proc, e->d_name, &st) < 0)
            rc = bh_fail(fail, errno, "cover /proc/%s", e->d_name);
    }
    (void)closedir(dir);
    return rc;
}

int bh_proc_mount(const struct bh_init_setup *setup, int dirfd, const char *path, struct bh_fail *fail)
{
    BH_CLEANUP_FD int fd = bh_mount_new("proc", (const char *const[]){"hidepid=ptraceable", NULL}, ATTRS, fail);
    if (fd < 0)
        return -1;
    if (bh_mount_attach(fd, dirfd, path) < 0)
        return bh_fail(fail, errno, "attach /proc");
    size_t n = setup->mask_proc ? BH_ARRAY_LEN(read_only) : ALWAYS_READ_ONLY;
    for (size_t i = 0; i < n; i++) {
        if (make_read_only(fd, read_only[i]) < 0)
            return bh_fail(fail, errno, "make /proc/%s read-only", read_only[i]);
    }
    return setup->mask_proc ? cover_unknown(fd, fail) : cover_hidden(fd, fail);
}
