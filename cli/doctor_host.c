/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of `bulkhead doctor` that need no launcher. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/doctor.h"

#define BOX_PATH "/usr/local/bin:/usr/bin:/bin"

void bh_doctor_kernel(struct bh_report *r)
{
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) < 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2)
        return;
    bool wsl1 = strstr(name.release, "-Microsoft") != NULL, wsl = wsl1 || strstr(name.release, "microsoft");
    bool old = major < 5 || (major == 5 && minor < 12);
    BH_CLEANUP_FREE char *found = bh_asprintf("Linux %s%s", name.release, wsl1 ? " (WSL 1)" : wsl ? " (WSL 2)" : "");
    bh_report_add(r, &(struct bh_check){
                         .name = "kernel",
                         .ok = !old && !wsl1,
                         .found = found,
                         .effect = "boxes need what Linux has since 5.12; what is missing of it stands below",
                         .remedy = wsl1 ? "use WSL 2: wsl --set-version DISTRO 2" : "use Linux 5.12 or later",
                     });
}

void bh_doctor_process(struct bh_report *r)
{
    struct rlimit files = {RLIM_INFINITY, RLIM_INFINITY}, tasks = {RLIM_INFINITY, RLIM_INFINITY};
    char text[2][24] = {"unlimited", "unlimited"};
    (void)getrlimit(RLIMIT_NOFILE, &files);
    (void)getrlimit(RLIMIT_NPROC, &tasks);
    if (files.rlim_max != RLIM_INFINITY)
        (void)snprintf(text[0], sizeof(text[0]), "%llu", (unsigned long long)files.rlim_max);
    if (tasks.rlim_cur != RLIM_INFINITY)
        (void)snprintf(text[1], sizeof(text[1]), "%llu", (unsigned long long)tasks.rlim_cur);
    BH_CLEANUP_FREE char *found = bh_asprintf("%s open files, %s processes", text[0], text[1]);
    bh_report_add(r, &(struct bh_check){
                         .name = "limits of this process",
                         .ok = files.rlim_max >= 1024 && tasks.rlim_cur >= 512,
                         .found = found,
                         .effect = "few boxes can live at once, or none: a box takes six files, bulkhead itself some "
                                   "dozen threads",
                         .remedy = "raise them: ulimit -n 4096; ulimit -u 4096",
                     });
}

/* --- the file system of the state directory --- */

static const struct file_system {
    unsigned long magic;
    const char *name, *effect, *remedy; /* remedy: of what is no place for a state directory */
} file_systems[] = {
#define ELSEWHERE "choose a folder on ext4, xfs or btrfs with --home DIR or $BULKHEAD_HOME"
    {EXT4_SUPER_MAGIC, "ext4", NULL, NULL},
    {XFS_SUPER_MAGIC, "xfs", NULL, NULL},
    {BTRFS_SUPER_MAGIC, "btrfs", NULL, NULL},
    {F2FS_SUPER_MAGIC, "f2fs", NULL, NULL},
    {0x2fc12fc1, "zfs", NULL, NULL},
    {0xca451a4e, "bcachefs", NULL, NULL},
    {TMPFS_MAGIC, "tmpfs", "runs and artifacts take memory and are gone after the next boot", ELSEWHERE},
    {RAMFS_MAGIC, "ramfs", "runs and artifacts take memory and are gone after the next boot", ELSEWHERE},
    {OVERLAYFS_SUPER_MAGIC, "overlay", "boxes cannot have their upper layers on another overlay",
     "mount a volume for it (Docker: -v bulkhead:/var/lib/bulkhead) and name it with --home or $BULKHEAD_HOME"},
    {NFS_SUPER_MAGIC, "nfs", "boxes cannot have their upper layers there, and locks of the store cannot be trusted",
     ELSEWHERE ", local to this host"},
    {CIFS_SUPER_MAGIC, "cifs", "boxes cannot have their upper layers there", ELSEWHERE ", local to this host"},
    {SMB2_SUPER_MAGIC, "smb", "boxes cannot have their upper layers there", ELSEWHERE ", local to this host"},
    {FUSE_SUPER_MAGIC, "fuse", "few FUSE file systems can hold the upper layers of boxes", ELSEWHERE},
    {MSDOS_SUPER_MAGIC, "fat", "it has no owners, modes or extended attributes", ELSEWHERE},
    {0x2011bab0, "exfat", "it has no owners, modes or extended attributes", ELSEWHERE},
    {V9FS_MAGIC, "9p", "boxes cannot have their upper layers there",
     ELSEWHERE "; under WSL that is a folder of the distribution, not one below /mnt/c"},
};

static const struct file_system *file_system_of(int dirfd)
{
    struct statfs fs;
    if (fstatfs(dirfd, &fs) < 0)
        return NULL;
    for (size_t i = 0; i < BH_ARRAY_LEN(file_systems); i++) {
        if ((unsigned long)fs.f_type == file_systems[i].magic)
            return &file_systems[i];
    }
    return NULL;
}

/* Whether a file in it can be a program: the kernel says so for a file, not for a folder. */
static bool can_execute(int dirfd)
{
    char name[40];
    (void)snprintf(name, sizeof(name), ".doctor-%d", (int)getpid());
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0700);
    if (fd < 0)
        return true; /* who cannot write there is told so elsewhere */
    bool can = faccessat(dirfd, name, X_OK, AT_EACCESS) == 0;
    (void)unlinkat(dirfd, name, 0);
    return can;
}

void bh_doctor_file_system(struct bh_report *r, const struct bh_home *home)
{
    const struct file_system *fs = file_system_of(home->dirfd);
    struct statvfs how = {0};
    (void)fstatvfs(home->dirfd, &how);
    bool runs = can_execute(home->dirfd);
    BH_CLEANUP_FREE char *found =
        bh_asprintf("%s%s%s%s", fs ? fs->name : "unknown", how.f_flag & ST_RDONLY ? ", read-only" : "",
                    runs ? "" : ", noexec", how.f_flag & ST_NOSUID ? ", nosuid" : "");
    struct bh_check check = {.name = "file system of the state directory", .found = found, .ok = true};
    if (!runs) {
        check.ok = false;
        check.effect = "agents cannot start programs that they wrote or were given";
        check.remedy = "mount it without noexec, or " ELSEWHERE;
    } else if (fs && fs->effect) {
        check.ok = false;
        check.effect = fs->effect;
        check.remedy = fs->remedy;
    }
    bh_report_add(r, &check);
}

/* --- python3 inside and outside --- */

static char *find_in(const char *path, const char *name)
{
    for (const char *at = path; at && *at; at = strchr(at, ':'), at = at ? at + 1 : NULL) {
        int len = (int)strcspn(at, ":");
        BH_CLEANUP_FREE char *file = bh_asprintf("%.*s/%s", len, at, name);
        if (len > 0 && access(file, X_OK) == 0)
            return BH_TAKE(file);
    }
    return NULL;
}

/* What a program prints with one argument, its first line; "" where it does not. The caller owns it. */
static char *first_line(const char *program, const char *argument)
{
    int out[2];
    pid_t pid;
    char text[128] = "";
    posix_spawn_file_actions_t actions;
    char *argv[] = {(char *)(uintptr_t)program, (char *)(uintptr_t)argument, NULL};
    if (pipe2(out, O_CLOEXEC) < 0)
        return bh_strdup("");
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    (void)posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int rc = posix_spawn(&pid, program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    bh_close(out[1]);
    ssize_t n = rc == 0 ? read(out[0], text, sizeof(text) - 1) : 0;
    bh_close(out[0]);
    if (rc == 0)
        (void)waitpid(pid, NULL, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return bh_strdup(text);
}

void bh_doctor_python(struct bh_report *r)
{
    BH_CLEANUP_FREE char *outside = find_in(getenv("PATH"), "python3");
    BH_CLEANUP_FREE char *inside = find_in(BOX_PATH, "python3");
    struct bh_check check = {.name = "python3", .ok = true};
    if (!outside && !inside)
        return;
    BH_CLEANUP_FREE char *ours = outside ? first_line(outside, "--version") : bh_strdup("");
    BH_CLEANUP_FREE char *theirs = inside ? first_line(inside, "--version") : bh_strdup("");
    BH_CLEANUP_FREE char *found = bh_asprintf("%s in boxes (%s), %s here (%s)", inside ? theirs : "none",
                                              inside ? inside : "-", outside ? ours : "none", outside ? outside : "-");
    check.ok = outside && inside && bh_streq(ours, theirs);
    check.found = check.ok ? theirs : found;
    check.effect = "an agent gets another python3, with other modules, than you do: boxes see /usr and /opt alone";
    check.remedy = "install what agents need below /usr or /opt, in a 'setup', or in an image ('base: oci:…')";
    bh_report_add(r, &check);
}

/* --- subordinate ids --- */

/* The first line of /etc/subuid that is for us: by name or by number. */
static bool find_sub_ids(const char *file, uid_t uid, int64_t *ret_first, int64_t *ret_count)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    const struct passwd *user = getpwuid(uid);
    char number[24], *next = NULL;
    (void)snprintf(number, sizeof(number), "%u", (unsigned)uid);
    if (bh_read_file(file, 1 << 20, &text, NULL) != 0 || text.len == 0)
        return false;
    for (char *line = strtok_r(text.data, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;
        if (!count)
            continue;
        *first++ = *count++ = '\0';
        bool ours = bh_streq(line, number) || (user && bh_streq(line, user->pw_name));
        if (ours && bh_parse_int(first, ret_first) == 0 && bh_parse_int(count, ret_count) == 0 && *ret_count > 0)
            return true;
    }
    return false;
}

static int run_map_helper(const char *program, pid_t pid, unsigned own, int64_t first, int64_t count)
{
    char text[5][24];
    pid_t child;
    int status = -1;
    (void)snprintf(text[0], sizeof(text[0]), "%d", (int)pid);
    (void)snprintf(text[1], sizeof(text[1]), "%u", own);
    (void)snprintf(text[2], sizeof(text[2]), "%lld", (long long)first);
    (void)snprintf(text[3], sizeof(text[3]), "%lld", (long long)count);
    const char *argv[] = {program, text[0], "0", text[1], "1", "1", text[2], text[3], NULL};
    if (posix_spawn(&child, program, NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

/* A process in a user namespace that gets the map. */
static bool map_works(const char *program, int64_t first, int64_t count)
{
    int ready[2];
    char c;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (unshare(CLONE_NEWUSER) == 0 && write(ready[1], "", 1) == 1)
            (void)pause();
        _exit(1);
    }
    bh_close(ready[1]);
    bool works =
        pid > 0 && read(ready[0], &c, 1) == 1 && run_map_helper(program, pid, (unsigned)geteuid(), first, count) == 0;
    bh_close(ready[0]);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    return works;
}

void bh_doctor_ids(struct bh_report *r)
{
    int64_t first = 0, count = 0, gid_first = 0, gid_count = 0;
    uid_t uid = geteuid();
    struct bh_check check = {.name = "subordinate ids"};
    if (uid == 0)
        return; /* has a range without them, or has one id because a user namespace gave it no more */
    BH_CLEANUP_FREE char *helper = find_in("/usr/local/bin:/usr/bin:/bin", "newuidmap");
    BH_CLEANUP_FREE char *found = NULL;
    check.effect = "files of images that belong to several users get one owner";
    check.remedy = "as root: apt-get install uidmap; usermod --add-subuids 200000-265535 --add-subgids 200000-265535 "
                   "YOU";
    if (!helper)
        check.found = "there is no newuidmap";
    else if (!find_sub_ids("/etc/subuid", uid, &first, &count) ||
             !find_sub_ids("/etc/subgid", uid, &gid_first, &gid_count))
        check.found = "/etc/subuid and /etc/subgid have no line for this user";
    else if (!map_works(helper, first, count))
        check.found = "newuidmap does not map them";
    else {
        check.ok = true;
        check.found = found = bh_asprintf("%lld-%lld", (long long)first, (long long)(first + count - 1));
    }
    bh_report_add(r, &check);
}
