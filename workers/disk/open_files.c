/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What processes hold that has no name any more (processes.h). Descriptors belong to threads: one may have a table of
 * its own, and that of a main thread that has ended is empty while the others go on. So every thread is looked at.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/units.h"
#include "workers/disk/processes.h"

#define OVERLAY_MAGIC 0x794c7630
#define TEXT_MAX (4 << 20)
#define GONE " (deleted)"

struct open_count {
    struct bh_disk_seen seen;
    const struct bh_disk_bounds *bounds;
    struct bh_disk_usage *usage;
};

static bool enough(const struct open_count *c)
{
    const struct bh_disk_bounds *b = c->bounds;
    return (b->bytes > 0 && c->usage->bytes > b->bytes) || (b->inodes > 0 && c->usage->inodes > b->inodes) ||
           (b->given_up && atomic_load(b->given_up));
}

static bool is_on_overlay(int dirfd, const char *name)
{
    struct statfs fs;
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_PATH | O_CLOEXEC);
    return fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == OVERLAY_MAGIC;
}

/* An overlay gives every directory that it has merged one link, removed or not. */
static bool is_nameless(int dirfd, const char *name, const struct stat *st)
{
    char path[4096];
    if (st->st_nlink == 0 || !S_ISDIR(st->st_mode))
        return st->st_nlink == 0;
    ssize_t n = readlinkat(dirfd, name, path, sizeof(path) - 1);
    if (n < 0)
        return false;
    path[n] = '\0';
    return bh_ends_with(path, GONE);
}

static void count_open(struct open_count *c, int dirfd, const char *name)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, 0) < 0 || !is_nameless(dirfd, name, &st) || !is_on_overlay(dirfd, name) ||
        !bh_disk_seen_add(&c->seen, st.st_ino))
        return;
    c->usage->inodes++;
    c->usage->bytes += (int64_t)st.st_blocks * 512;
    if (S_ISREG(st.st_mode) && st.st_size > c->usage->largest)
        c->usage->largest = st.st_size;
}

/* `thread`: its folder in /proc. */
static int count_descriptors(struct open_count *c, int thread)
{
    DIR *dir = bh_dir_stream(openat(thread, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return -1;
    for (const struct dirent *e; !enough(c) && (e = readdir(dir));) {
        if (e->d_name[0] != '.')
            count_open(c, dirfd(dir), e->d_name);
    }
    (void)closedir(dir);
    return 0;
}

/*
 * "START-END PERMS OFFSET DEV INODE      PATH (deleted)": the first word is the name of a link that root may follow.
 * False where the thread has no memory any more: another of the process may.
 */
static bool count_mappings(struct open_count *c, int thread, int64_t tid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int maps = openat(thread, "maps", O_RDONLY | O_CLOEXEC);
    char path[48], *rest = NULL;
    if (maps < 0 || bh_read_all(maps, TEXT_MAX, &text, NULL) != 0 || text.len == 0)
        return false;
    /* /proc has every thread by its number, though it lists none but the main ones. */
    (void)snprintf(path, sizeof(path), "/proc/%d/map_files", (int)tid);
    BH_CLEANUP_FD int links = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (links < 0 || !strstr(text.data, GONE "\n"))
        return true;
    for (char *line = strtok_r(text.data, "\n", &rest); line && !enough(c); line = strtok_r(NULL, "\n", &rest)) {
        size_t len = strcspn(line, " ");
        if (!bh_ends_with(line, GONE))
            continue;
        line[len] = '\0';
        count_open(c, links, line);
    }
    return true;
}

/* Threads of most programs have one table: it is read once. Whoever may not ask reads it for each. */
static bool same_files(int64_t a, int64_t b)
{
    return a > 0 && syscall(SYS_kcmp, (pid_t)a, (pid_t)b, KCMP_FILES, 0, 0) == 0;
}

static bool same_folders(int64_t a, int64_t b)
{
    return a > 0 && syscall(SYS_kcmp, (pid_t)a, (pid_t)b, KCMP_FS, 0, 0) == 0;
}

struct threads {
    int64_t before; /* the one that was looked at last; 0: none */
    bool mapped;    /* mappings, which all share, are counted */
};

static void count_thread(struct open_count *c, int task, const char *name, struct threads *t)
{
    int64_t tid;
    if (bh_parse_int(name, &tid) != 0)
        return;
    BH_CLEANUP_FD int thread = openat(task, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (thread < 0)
        return;
    if (!same_files(t->before, tid) && count_descriptors(c, thread) < 0) {
        c->usage->hidden += errno == EACCES || errno == EPERM;
        return;
    }
    if (!same_folders(t->before, tid)) {
        count_open(c, thread, "cwd");
        count_open(c, thread, "root");
    }
    t->mapped = t->mapped || count_mappings(c, thread, tid);
    t->before = tid;
}

static void count_process(struct open_count *c, int pid)
{
    char path[48];
    struct threads threads = {0};
    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    DIR *dir = bh_dir_stream(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return;
    for (const struct dirent *e; !enough(c) && (e = readdir(dir));) {
        if (e->d_name[0] != '.')
            count_thread(c, dirfd(dir), e->d_name, &threads);
    }
    (void)closedir(dir);
}

void bh_disk_count_open(const struct bh_disk_processes *p, const struct bh_disk_bounds *bounds,
                        struct bh_disk_usage *usage)
{
    struct open_count c = {.bounds = bounds, .usage = usage};
    for (size_t i = 0; i < p->len && !enough(&c); i++)
        count_process(&c, p->items[i].pid);
    usage->cut = usage->cut || enough(&c);
    bh_disk_seen_fini(&c.seen);
}

/* "write_bytes: 123\n", or 0. */
static int64_t number_after(const char *text, const char *word)
{
    char digits[24];
    int64_t value;
    const char *at = strstr(text, word);
    if (!at)
        return 0;
    at += strlen(word);
    size_t len = strspn(at, "0123456789");
    if (len == 0 || len >= sizeof(digits))
        return 0;
    memcpy(digits, at, len);
    digits[len] = '\0';
    return bh_parse_int(digits, &value) == 0 ? value : 0;
}

int64_t bh_disk_processes_written(const struct bh_disk_processes *p, bool in_memory)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int64_t sum = 0;
    for (size_t i = 0; i < p->len; i++) {
        char path[48];
        (void)snprintf(path, sizeof(path), "/proc/%d/io", p->items[i].pid);
        BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
        bh_buf_clear(&text);
        if (fd >= 0 && bh_read_all(fd, TEXT_MAX, &text, NULL) == 0 && text.len > 0)
            sum += number_after(text.data, in_memory ? "wchar: " : "\nwrite_bytes: ");
    }
    return sum;
}
