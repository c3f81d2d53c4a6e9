/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes: init, and those of the host. Inside the victim is pid 1, outside a child of ours. */
#include <errno.h>
#include <fcntl.h>
#include <linux/ioprio.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/escape/escape.h"

static bool trace(void)
{
    return TRIED(ptrace(PTRACE_SEIZE, victim(), 0, 0));
}

static bool attach(void)
{
    return TRIED(ptrace(PTRACE_ATTACH, victim(), 0, 0));
}

static bool trace_child(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 ? errno : 0);
    int status = 0;
    (void)waitpid(pid, &status, 0);
    errno = WEXITSTATUS(status);
    return tried(errno ? -1 : 0, "PTRACE_TRACEME");
}

/* The stack of ours is where that of a child is. */
static bool read_memory(void)
{
    char here[16] = "x", there[16];
    struct iovec to = {there, sizeof(there)}, from = {here, sizeof(here)};
    return TRIED(process_vm_readv(victim(), &to, 1, &from, 1, 0));
}

static bool write_memory(void)
{
    char here[16] = "x";
    struct iovec to = {here, sizeof(here)};
    return TRIED(process_vm_writev(victim(), &to, 1, &to, 1, 0));
}

static bool memory_file(void)
{
    return opens(victim_proc("mem"), O_RDWR);
}

static bool environment(void)
{
    return opens(victim_proc("environ"), O_RDONLY);
}

static bool maps(void)
{
    static char text[4096];
    int fd = open(victim_proc("maps"), O_RDONLY | O_CLOEXEC);
    return tried(fd, "open maps") && TRIED(slurp(fd, text, sizeof(text)) > 0 ? 0 : -1);
}

static bool follows(const char *name)
{
    char path[512];
    return tried(readlink(victim_proc(name), path, sizeof(path)), name);
}

static bool root_link(void)
{
    return opens(victim_proc("root/"), O_RDONLY | O_DIRECTORY) || follows("root");
}

static bool cwd_link(void)
{
    return opens(victim_proc("cwd/"), O_RDONLY | O_DIRECTORY) || follows("cwd");
}

static bool exe_link(void)
{
    return opens(victim_proc("exe"), O_RDONLY) || follows("exe");
}

static bool descriptors(void)
{
    return opens(victim_proc("fd"), O_RDONLY | O_DIRECTORY);
}

static bool namespace_file(void)
{
    return opens(victim_proc("ns/mnt"), O_RDONLY);
}

static bool join_namespace(const char *name, int type)
{
    int fd = open(victim_proc(name), O_RDONLY | O_CLOEXEC);
    if (fd < 0) /* not by its file: by the process */
        fd = (int)syscall(SYS_pidfd_open, victim(), 0);
    return tried(fd, "pidfd_open") && TRIED(setns(fd, type));
}

static bool join_mounts(void)
{
    return join_namespace("ns/mnt", CLONE_NEWNS);
}

static bool join_pids(void)
{
    return join_namespace("ns/pid", CLONE_NEWPID);
}

static bool join_network(void)
{
    return join_namespace("ns/net", CLONE_NEWNET);
}

static bool take_descriptor(void)
{
    int fd = (int)syscall(SYS_pidfd_open, victim(), 0);
    return tried(fd, "pidfd_open") && TRIED(syscall(SYS_pidfd_getfd, fd, 0, 0));
}

static bool compares(void)
{
    return TRIED(syscall(SYS_kcmp, getpid(), victim(), 2 /* files */, 0, 0));
}

static bool gone(pid_t pid)
{
    int status;
    if (outside)
        return waitpid(pid, &status, 0) == pid;
    return kill(pid, 0) < 0 && errno == ESRCH;
}

static bool kills(void)
{
    pid_t pid = victim();
    (void)tried(kill(pid, SIGKILL), "kill");
    return gone(pid);
}

static bool stops(void)
{
    pid_t pid = victim();
    int status;
    if (!tried(kill(pid, SIGSTOP), "SIGSTOP"))
        return false;
    if (!outside) /* pid 1 of a namespace does not stop for those in it, and that nothing was done is what counts */
        return false;
    return waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status);
}

static bool signals_host(void)
{
    return TRIED(kill((pid_t)target_number("pid"), 0));
}

static bool sees_host(void)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", target_number("pid"));
    return opens(path, O_RDONLY);
}

static bool limits(void)
{
    const struct rlimit few = {16, 16};
    return TRIED(prlimit(victim(), RLIMIT_NOFILE, &few, NULL));
}

static bool nice_value(void)
{
    return TRIED(setpriority(PRIO_PROCESS, (id_t)victim(), 19));
}

static bool nice_of_user(void)
{
    (void)tried(setpriority(PRIO_USER, 0, 7), "setpriority of the user"); /* of ours, that goes */
    return getpriority(PRIO_PROCESS, (id_t)victim()) == 7;
}

static bool scheduling(void)
{
    const struct sched_param none = {0};
    return TRIED(sched_setscheduler(victim(), SCHED_IDLE, &none));
}

static bool affinity(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    return TRIED(sched_setaffinity(victim(), sizeof(one), &one));
}

static bool scheduling_attributes(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t deadline[3];
    } attr = {.size = 48, .policy = SCHED_IDLE};
    return TRIED(syscall(SYS_sched_setattr, victim(), &attr, 0));
}

static bool io_priority(void)
{
    return TRIED(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, victim(), IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)));
}

static bool oom_of_victim(void)
{
    return opens(victim_proc("oom_score_adj"), O_WRONLY);
}

static bool oom_below(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    return tried(fd, "open oom_score_adj") && TRIED(write(fd, "-500", 4));
}

static bool real_time(void)
{
    return TRIED(sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1}));
}

static bool better_nice(void)
{
    return TRIED(setpriority(PRIO_PROCESS, 0, -5));
}

static bool migrates(void)
{
    unsigned long from = 1, to = 1;
    return TRIED(syscall(SYS_migrate_pages, victim(), 1, &from, &to));
}

const struct attempt attempts_process[] = {
    {"ptrace-seize", "trace init", trace},
    {"ptrace-attach", "stop and trace init", attach},
    {"ptrace-child", "be traced at all", trace_child},
    {"vm-read", "read init's memory", read_memory},
    {"vm-write", "write init's memory", write_memory},
    {"proc-mem", "open init's memory as a file", memory_file},
    {"proc-environ", "read init's environment", environment},
    {"proc-maps", "read where init's memory lies", maps},
    {"proc-root", "go through init's root", root_link},
    {"proc-cwd", "go through init's working directory", cwd_link},
    {"proc-exe", "open init's program", exe_link},
    {"proc-fd", "list init's descriptors", descriptors},
    {"proc-ns", "open a namespace of init", namespace_file},
    {"setns-mounts", "join init's mounts", join_mounts},
    {"setns-pids", "join init's processes", join_pids},
    {"setns-network", "join init's network", join_network},
    {"pidfd-getfd", "take a descriptor of init", take_descriptor},
    {"kcmp", "compare oneself with init", compares},
    {"kill-init", "kill init", kills},
    {"stop-init", "stop init", stops},
    {"signal-host", "signal a process of the host", signals_host},
    {"proc-host", "see a process of the host", sees_host},
    {"prlimit-init", "limit init", limits},
    {"nice-init", "make init wait: nice", nice_value},
    {"nice-user", "make init wait: nice of the user", nice_of_user,
     .not_outside = "all of the user's processes would be slowed"},
    {"sched-init", "make init wait: its class", scheduling},
    {"sched-attr-init", "make init wait: its attributes", scheduling_attributes},
    {"affinity-init", "make init wait: its processors", affinity},
    {"ioprio-init", "make init wait: its disk", io_priority, .may_lack = "CONFIG_BLOCK"},
    {"oom-init", "have init killed first when memory runs out", oom_of_victim},
    {"oom-below", "be killed last when memory runs out", oom_below, .may_lack = "CAP_SYS_RESOURCE"},
    {"real-time", "run before everybody else", real_time, .may_lack = "CONFIG_RT_GROUP_SCHED's share"},
    {"better-nice", "run before others", better_nice},
    {"migrate-pages", "move init's memory", migrates, .may_lack = "a second node of memory"},
    {NULL},
};
