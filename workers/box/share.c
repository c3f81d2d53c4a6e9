/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/box/share.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/text.h"
#include "base/units.h"
#include "workers/disk/processes.h"

#define PROCESSES_MAX 1024 /* that are looked at; of more the rest is left out */
#define TEXT_MAX (1 << 20)
#define LISTENS 0x0a

static bool read_proc(int pid, const char *file, struct bh_buf *out)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    bh_buf_clear(out);
    return fd >= 0 && bh_read_all(fd, TEXT_MAX, out, NULL) == 0 && out->len > 0;
}

/* Fields behind "PID (any text) ", from 3 on, as proc(5) counts them; 0 where there is none. */
static int64_t stat_field(const char *text, int n)
{
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < n; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoll(at + 1, NULL, 10) : 0;
}

static void add(int64_t *to, int64_t n)
{
    *to = (*to < 0 ? 0 : *to) + (n > 0 ? n : 0);
}

/* Processor time of children that were waited for is their parent's. */
static void add_times(struct bh_box_share *sum, const char *stat)
{
    int64_t ticks = 0;
    for (int field = 14; field <= 17; field++) /* user, system, and both of children */
        ticks += stat_field(stat, field);
    add(&sum->cpu_ms, ticks * 1000 / sysconf(_SC_CLK_TCK));
    add(&sum->memory_bytes, stat_field(stat, 24) * sysconf(_SC_PAGESIZE));
}

/* "RUN WAIT SLICES": how long it could have run and did not, in nanoseconds. */
static void add_waiting(struct bh_box_share *sum, const char *text)
{
    const char *at = strchr(text, ' ');
    if (at)
        add(&sum->waited_ms, strtoll(at + 1, NULL, 10) / BH_NS_PER_MS);
}

/* What was to go to a disk; a file system in memory is not charged, there it is whatever was written anywhere. */
static void add_written(struct bh_box_share *sum, const char *text)
{
    const char *any = strstr(text, "wchar: "), *disk = strstr(text, "\nwrite_bytes: ");
    int64_t bytes = disk ? strtoll(disk + strlen("\nwrite_bytes: "), NULL, 10) : 0;
    add(&sum->written_bytes, bytes > 0 || !any ? bytes : strtoll(any + strlen("wchar: "), NULL, 10));
}

static void add_process(struct bh_box_share *sum, int pid)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (!read_proc(pid, "stat", &text))
        return;
    add_times(sum, text.data);
    sum->processes++;
    if (read_proc(pid, "schedstat", &text))
        add_waiting(sum, text.data);
    if (read_proc(pid, "io", &text))
        add_written(sum, text.data);
}

static void fill(int64_t *to, int64_t n)
{
    if (*to < 0)
        *to = n;
}

void bh_share_of_processes(int pid, struct bh_box_share *share)
{
    struct bh_disk_processes p = {0};
    struct bh_box_share sum = {
        .cpu_ms = -1, .memory_bytes = -1, .memory_peak_bytes = -1, .written_bytes = -1, .waited_ms = -1};
    bh_disk_processes_find(pid, &p);
    add_process(&sum, pid);
    for (size_t i = 0; i < p.len && i < PROCESSES_MAX; i++)
        add_process(&sum, p.items[i].pid);
    bh_disk_processes_fini(&p);
    fill(&share->cpu_ms, sum.cpu_ms);
    fill(&share->memory_bytes, sum.memory_bytes);
    fill(&share->written_bytes, sum.written_bytes);
    fill(&share->waited_ms, sum.waited_ms);
    fill(&share->processes, sum.processes > 0 ? sum.processes - 1 : -1); /* its PID 1 is ours */
}

/* --- descriptors --- */

static DIR *open_fds(int pid)
{
    char path[48];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    return bh_dir_stream(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* The links of descriptors have the rights of those: what can be written may be written through the link. */
static bool is_held_by(int pid, dev_t device, uint64_t inode)
{
    struct stat st, link;
    bool found = false;
    DIR *dir = open_fds(pid);
    for (const struct dirent *e; dir && !found && (e = readdir(dir));) {
        found = e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, 0) == 0 && st.st_ino == inode &&
                st.st_dev == device && fstatat(dirfd(dir), e->d_name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
                link.st_mode & S_IWUSR;
    }
    if (dir)
        (void)closedir(dir);
    return found;
}

bool bh_share_holds(int pid, dev_t device, uint64_t inode)
{
    struct bh_disk_processes p = {0};
    bool found = false;
    bh_disk_processes_find(pid, &p);
    for (size_t i = 0; i < p.len && i < PROCESSES_MAX && !found; i++)
        found = is_held_by(p.items[i].pid, device, inode);
    bh_disk_processes_fini(&p);
    return found;
}

/* --- ports --- */

/* "  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 31337 1 …" */
static void add_listener(struct bh_listeners *l, char *line)
{
    const char *words[10];
    char *rest = NULL;
    size_t n = 0;
    for (char *word = strtok_r(line, " ", &rest); word && n < BH_ARRAY_LEN(words); word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    if (n < BH_ARRAY_LEN(words) || strtoul(words[3], NULL, 16) != LISTENS || l->n >= BH_LISTENERS_MAX)
        return;
    const char *port = strrchr(words[1], ':');
    if (port)
        l->of[l->n++] = (struct bh_listener){(uint16_t)strtoul(port + 1, NULL, 16), strtoull(words[9], NULL, 10)};
}

void bh_listeners_read(int pid, struct bh_listeners *ret)
{
    static const char *const files[] = {"net/tcp", "net/tcp6"};
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    ret->n = 0;
    for (size_t i = 0; i < BH_ARRAY_LEN(files); i++) {
        char *rest = NULL;
        if (!read_proc(pid, files[i], &text))
            continue;
        for (char *line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
            add_listener(ret, line);
    }
}

static void add_port(struct bh_box_share *share, uint16_t port)
{
    for (size_t i = 0; i < share->n_ports; i++) {
        if (share->ports[i] == port)
            return;
    }
    if (share->n_ports < BH_BOX_PORTS_MAX)
        share->ports[share->n_ports++] = port;
}

static void look_at_link(const char *text, const struct bh_listeners *l, struct bh_box_share *share)
{
    static const char lead[] = "socket:[";
    if (!bh_starts_with(text, lead))
        return;
    uint64_t inode = strtoull(text + strlen(lead), NULL, 10);
    for (size_t i = 0; i < l->n; i++) {
        if (l->of[i].inode == inode)
            add_port(share, l->of[i].port);
    }
}

static void look_at_process(int pid, const struct bh_listeners *l, struct bh_box_share *share)
{
    char text[64];
    DIR *dir = open_fds(pid);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        ssize_t n = e->d_name[0] == '.' ? -1 : readlinkat(dirfd(dir), e->d_name, text, sizeof(text) - 1);
        if (n > 0) {
            text[n] = '\0';
            look_at_link(text, l, share);
        }
    }
    if (dir)
        (void)closedir(dir);
}

void bh_share_ports(int pid, const struct bh_listeners *l, struct bh_box_share *share)
{
    struct bh_disk_processes p = {0};
    if (l->n == 0)
        return;
    bh_disk_processes_find(pid, &p);
    for (size_t i = 0; i < p.len && i < PROCESSES_MAX; i++)
        look_at_process(p.items[i].pid, l, share);
    bh_disk_processes_fini(&p);
}
