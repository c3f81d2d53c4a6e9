/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/disk/processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"

#define PROCESSES_MAX 65536
#define TEXT_MAX (4 << 20)

/* --- who they are --- */

static int open_process(int pid)
{
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/%d", pid);
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int read_text(int dirfd, const char *name, struct bh_buf *out)
{
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    bh_buf_clear(out);
    return fd >= 0 && bh_read_all(fd, TEXT_MAX, out, NULL) == 0 ? 0 : -1;
}

/* A number of "PID (any text) S PPID …", counted as proc(5) does, from 4 on. */
static int64_t stat_field(const char *text, int n)
{
    const char *at = strrchr(text, ')');
    char digits[24];
    int64_t value;
    for (int field = 2; at && field < n; field++)
        at = strchr(at + 1, ' ');
    if (!at)
        return -1;
    size_t len = strspn(at + 1, "0123456789");
    if (len == 0 || len >= sizeof(digits))
        return -1;
    memcpy(digits, at + 1, len);
    digits[len] = '\0';
    return bh_parse_int(digits, &value) == 0 ? value : -1;
}

static int read_process(int dirfd, int pid, struct bh_disk_process *ret)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (read_text(dirfd, "stat", &text) < 0)
        return -1;
    *ret = (struct bh_disk_process){
        .pid = pid,
        .parent = (int)stat_field(text.data, 4),
        .started = stat_field(text.data, 22),
        .rss_bytes = stat_field(text.data, 24) * sysconf(_SC_PAGESIZE),
    };
    return ret->started < 0 || ret->rss_bytes < 0 ? -1 : 0;
}

int64_t bh_disk_process_started(int pid)
{
    struct bh_disk_process process;
    BH_CLEANUP_FD int dirfd = open_process(pid);
    return dirfd >= 0 && read_process(dirfd, pid, &process) == 0 ? process.started : -1;
}

/* The list is old when it is read: a number may be another's by now, and then has another parent. */
static void add_child(struct bh_disk_processes *p, int parent, int64_t pid)
{
    struct bh_disk_process child;
    BH_CLEANUP_FD int dirfd = open_process((int)pid);
    if (dirfd < 0 || read_process(dirfd, (int)pid, &child) < 0 || child.parent != parent || p->len >= PROCESSES_MAX)
        return;
    *BH_PUSH(p->items, p->len, p->cap) = child;
}

static void add_children(struct bh_disk_processes *p, int parent, char *list)
{
    char *rest = NULL;
    for (const char *word = strtok_r(list, " \n", &rest); word; word = strtok_r(NULL, " \n", &rest)) {
        int64_t pid;
        if (bh_parse_int(word, &pid) == 0 && pid > 0 && pid < INT32_MAX)
            add_child(p, parent, pid);
    }
}

/* Children belong to the thread that made them. */
static void add_children_of(struct bh_disk_processes *p, int pid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int process = open_process(pid);
    DIR *dir = bh_dir_stream(process >= 0 ? openat(process, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
    if (!dir)
        return;
    for (const struct dirent *e; (e = readdir(dir));) {
        char name[300];
        (void)snprintf(name, sizeof(name), "%s/children", e->d_name);
        if (e->d_name[0] != '.' && read_text(dirfd(dir), name, &text) == 0)
            add_children(p, pid, text.data);
    }
    (void)closedir(dir);
}

void bh_disk_processes_find(int init, struct bh_disk_processes *ret)
{
    add_children_of(ret, init);
    for (size_t i = 0; i < ret->len; i++)
        add_children_of(ret, ret->items[i].pid);
}

/* "NSpid:\t4711\t12\t1\n": the last but one is its number in the namespace above the one that it is PID 1 of. */
static int64_t number_above(int pid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int dirfd = open_process(pid);
    int64_t number = -1, last = -1, before = -1;
    char *rest = NULL;
    char *at = dirfd >= 0 && read_text(dirfd, "status", &text) == 0 ? strstr(text.data, "\nNSpid:") : NULL;
    if (!at)
        return -1;
    at += strlen("\nNSpid:");
    at[strcspn(at, "\n")] = '\0';
    for (const char *word = strtok_r(at, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
        if (bh_parse_int(word, &number) != 0)
            return -1;
        before = last;
        last = number;
    }
    return last == 1 ? before : -1;
}

void bh_disk_processes_of_execs(int init, const int *inside, int *ret, size_t n)
{
    struct bh_disk_processes children = {0};
    memset(ret, 0, n * sizeof(*ret));
    add_children_of(&children, init);
    for (size_t i = 0; i < children.len; i++) {
        int64_t number = number_above(children.items[i].pid);
        for (size_t k = 0; number > 0 && k < n; k++) {
            if (inside[k] == number && ret[k] == 0)
                ret[k] = children.items[i].pid;
        }
    }
    bh_disk_processes_fini(&children);
}

int bh_disk_process_of_exec(int init, int inside)
{
    int found;
    bh_disk_processes_of_execs(init, &inside, &found, 1);
    return found;
}

void bh_disk_processes_fini(struct bh_disk_processes *p)
{
    bh_free(p->items);
    *p = (struct bh_disk_processes){0};
}

/* --- memory --- */

/* "Pss:               123 kB", or -1. */
static int64_t share_of(const struct bh_disk_process *process)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int dirfd = open_process(process->pid);
    char digits[24];
    int64_t kib;
    const char *at = dirfd >= 0 && read_text(dirfd, "smaps_rollup", &text) == 0 ? strstr(text.data, "\nPss:") : NULL;
    if (!at)
        return -1;
    at += 5;
    at += strspn(at, " \t");
    size_t len = strspn(at, "0123456789");
    if (len == 0 || len >= sizeof(digits))
        return -1;
    memcpy(digits, at, len);
    digits[len] = '\0';
    return bh_parse_int(digits, &kib) == 0 ? kib * 1024 : -1;
}

int64_t bh_disk_processes_memory(const struct bh_disk_processes *p, int64_t limit, size_t *ret_largest)
{
    int64_t resident = 0, sum = 0, largest = -1;
    for (size_t i = 0; i < p->len; i++)
        resident += p->items[i].rss_bytes;
    if (resident <= limit)
        return resident;
    for (size_t i = 0; i < p->len; i++) {
        int64_t share = share_of(&p->items[i]);
        if (share < 0)
            share = p->items[i].rss_bytes;
        sum += share;
        if (share > largest) {
            largest = share;
            *ret_largest = i;
        }
    }
    return sum;
}

void bh_disk_process_kill(const struct bh_disk_process *process)
{
    struct bh_disk_process now;
    BH_CLEANUP_FD int pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
    BH_CLEANUP_FD int dirfd = open_process(process->pid);
    /* The descriptor first: what is read after it is of the process that it holds, or of nobody. */
    if (pidfd < 0 || dirfd < 0 || read_process(dirfd, process->pid, &now) < 0 || now.started != process->started)
        return;
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}
