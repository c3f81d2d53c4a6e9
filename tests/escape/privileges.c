/* SPDX-License-Identifier: Apache-2.0 */
/* Rights: ids, capabilities, files that give them. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/escape/escape.h"

static unsigned long long status_field(pid_t pid, const char *key, int base, int nth)
{
    char path[64], text[8192];
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    (void)slurp(fd, text, sizeof(text));
    close(fd);
    char *at = strstr(text, key);
    for (at = at ? at + strlen(key) : NULL; at && nth > 0; nth--)
        (void)strtoull(at, &at, base);
    return at ? strtoull(at, NULL, base) : 0;
}

static bool has_capability(void)
{
    unsigned long long all = status_field(getpid(), "CapEff:", 16, 0) | status_field(getpid(), "CapPrm:", 16, 0) |
                             status_field(getpid(), "CapInh:", 16, 0) | status_field(getpid(), "CapBnd:", 16, 0) |
                             status_field(getpid(), "CapAmb:", 16, 0);
    note("all sets together: %llx", all);
    return all != 0;
}

static bool raises_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    if (syscall(SYS_capget, &head, data) < 0)
        return tried(-1, "capget");
    data[0].permitted |= 1u << CAP_SYS_ADMIN;
    data[0].effective |= 1u << CAP_SYS_ADMIN;
    return TRIED(syscall(SYS_capset, &head, data));
}

static bool raises_ambient(void)
{
    return TRIED(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHOWN, 0, 0)) || has_capability();
}

static bool keeps_capabilities(void)
{
    return TRIED(prctl(PR_SET_KEEPCAPS, 1));
}

static bool unlocks_secure_bits(void)
{
    int bits = prctl(PR_GET_SECUREBITS);
    note("secure bits %x", (unsigned)bits);
    return (bits & SECBIT_NOROOT_LOCKED) == 0 || TRIED(prctl(PR_SET_SECUREBITS, 0));
}

static bool new_privileges(void)
{
    int on = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    note("no_new_privs is %d", on);
    return on != 1;
}

static bool no_filter(void)
{
    int mode = prctl(PR_GET_SECCOMP);
    note("seccomp mode %d", mode);
    return mode != 2;
}

static bool becomes_other(void)
{
    uid_t to = getuid() == 0 && !outside ? 1 : outside ? 1 : 0;
    return TRIED(setresuid(to, to, to));
}

static bool takes_groups(void)
{
    gid_t shadow = 42;
    return TRIED(setgroups(1, &shadow));
}

static bool other_fsuid(void)
{
    uid_t to = getuid() == 12345 ? 1 : 12345;
    (void)setfsuid(to);
    note("setfsuid(%u)", (unsigned)to);
    return setfsuid((uid_t)-1) == (int)to;
}

static bool gives_file_away(void)
{
    (void)close(open("given", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    return TRIED(chown("given", 12345, 12345));
}

static bool maps_ids(void)
{
    /* Outside a namespace is made for it, whose owner writes the map. */
    if (outside && syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */) < 0)
        return tried(-1, "unshare");
    int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    return tried(fd, "open uid_map") && TRIED(write(fd, "0 0 1\n", 6));
}

/* Runs it with a standard input that never says anything, and looks at whom it has become. */
static bool gains(const char *program)
{
    int gone[2], in[2];
    char byte;
    if (pipe2(gone, O_CLOEXEC) < 0 || pipe2(in, O_CLOEXEC) < 0)
        return false;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        (void)setsid();
        (void)dup2(in[0], 0);
        (void)dup2(null, 1);
        (void)dup2(null, 2);
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(gone[1]);
    (void)!read(gone[0], &byte, 1); /* ends with the exec */
    close(gone[0]);
    unsigned long long real = status_field(pid, "Uid:", 10, 0), effective = status_field(pid, "Uid:", 10, 1);
    unsigned long long caps = status_field(pid, "CapEff:", 16, 0);
    bool seen = status_field(pid, "Pid:", 10, 0) == (unsigned long long)pid;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    close(in[0]);
    close(in[1]);
    if (!seen)
        return false;
    note("%s runs as %llu/%llu with capabilities %llx", program, real, effective, caps);
    return real != effective || caps != 0;
}

static bool set_user_id(void)
{
    static const char *const programs[] = {"/usr/bin/su", "/usr/bin/passwd", "/usr/bin/sudo", "/usr/bin/newgrp"};
    errno = ENOENT;
    (void)tried(-1, "a program that sets the user id");
    for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
        struct stat st;
        if (stat(programs[i], &st) == 0 && st.st_mode & S_ISUID && gains(programs[i]))
            return true;
    }
    return false;
}

static bool copies_self(const char *to)
{
    static char bytes[1 << 16];
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    (void)unlink(to);
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    ssize_t n = -1;
    while (from >= 0 && fd >= 0 && (n = read(from, bytes, sizeof(bytes))) > 0) {
        if (write(fd, bytes, (size_t)n) != n)
            return false;
    }
    close(from);
    close(fd);
    return n == 0;
}

static bool file_capability(void)
{
    const struct vfs_cap_data caps = {.magic_etc = VFS_CAP_REVISION_2 | VFS_CAP_FLAGS_EFFECTIVE,
                                      .data = {{.permitted = 1u << CAP_NET_RAW}}};
    return copies_self("able") && TRIED(setxattr("able", "security.capability", &caps, sizeof(caps), 0));
}

static bool trusted_attribute(void)
{
    (void)close(open("trusted", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    return TRIED(setxattr("trusted", "trusted.overlay.opaque", "y", 1, 0));
}

static bool immutable_file(void)
{
    int fd = open("immutable", O_RDWR | O_CREAT | O_CLOEXEC, 0644), flags = 0;
    (void)syscall(SYS_ioctl, fd, 0x80086601 /* FS_IOC_GETFLAGS */, &flags);
    flags |= 0x10;
    bool set = TRIED(syscall(SYS_ioctl, fd, 0x40086602 /* FS_IOC_SETFLAGS */, &flags));
    flags &= ~0x10;
    if (set)
        (void)syscall(SYS_ioctl, fd, 0x40086602, &flags);
    return set;
}

static bool raises_hard_limit(void)
{
    struct rlimit now;
    (void)getrlimit(RLIMIT_NOFILE, &now);
    now.rlim_max++;
    return TRIED(setrlimit(RLIMIT_NOFILE, &now));
}

static bool locks_memory(void)
{
    const size_t size = 256 << 20;
    void *at = malloc(size);
    return at && TRIED(syscall(SYS_mlock, at, size));
}

const struct attempt attempts_privileges[] = {
    {"caps-have", "have a capability in any set", has_capability},
    {"caps-raise", "take a capability", raises_capabilities},
    {"caps-ambient", "hand on a capability", raises_ambient},
    {"caps-keep", "keep capabilities over a change of ids", keeps_capabilities},
    {"secure-bits", "take back the secure bits", unlocks_secure_bits},
    {"no-new-privs", "be without no_new_privs", new_privileges},
    {"no-seccomp", "be without a filter", no_filter},
    {"setuid", "become another user", becomes_other},
    {"setgroups", "join a group", takes_groups},
    {"setfsuid", "be another user for files", other_fsuid},
    {"chown", "give a file to another user", gives_file_away},
    {"uid-map", "map root of the host", maps_ids},
    {"suid-program", "gain by a program that sets the user id", set_user_id, .as_nobody = true,
     .may_lack = "su, passwd, sudo or newgrp"},
    {"file-capability", "give a program a capability", file_capability},
    {"xattr-trusted", "forge the overlay's own attributes", trusted_attribute,
     .may_lack = "attributes of this file system"},
    {"immutable", "make a file that nobody can remove", immutable_file, .may_lack = "attributes of this file system"},
    {"hard-limit", "raise a hard limit", raises_hard_limit, .may_lack = "CAP_SYS_RESOURCE"},
    {"mlock", "lock much memory", locks_memory},
    {NULL},
};
