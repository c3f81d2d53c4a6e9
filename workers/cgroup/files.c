/* SPDX-License-Identifier: Apache-2.0 */
/* The small files of a control group, and the walk over groups below one. Every name is made by us. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "workers/cgroup/priv.h"

#define DEPTH_MAX 8

int bh_cgroup_open_dir(int dirfd, const char *path)
{
    return openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int open_file(int dirfd, const char *group, const char *file, int flags)
{
    char path[256];
    int n = snprintf(path, sizeof(path), "%s/%s", group, file);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return openat(dirfd, path, flags | O_NOFOLLOW | O_CLOEXEC);
}

int bh_cgroup_write(int dirfd, const char *group, const char *file, const char *text)
{
    BH_CLEANUP_FD int fd = open_file(dirfd, group, file, O_WRONLY);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

int bh_cgroup_write_number(int dirfd, const char *group, const char *file, int64_t n)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%lld", (long long)n);
    return bh_cgroup_write(dirfd, group, file, text);
}

ssize_t bh_cgroup_read(int dirfd, const char *group, const char *file, char *text, size_t size)
{
    BH_CLEANUP_FD int fd = open_file(dirfd, group, file, O_RDONLY);
    ssize_t n = fd >= 0 ? read(fd, text, size - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    return n;
}

int64_t bh_cgroup_read_number(int dirfd, const char *group, const char *file)
{
    char text[64];
    int64_t value;
    if (bh_cgroup_read(dirfd, group, file, text, sizeof(text)) <= 0)
        return -1;
    text[strcspn(text, "\n")] = '\0';
    return bh_parse_int(text, &value) == 0 ? value : -1;
}

int64_t bh_cgroup_value(const char *text, const char *key)
{
    size_t len = strlen(key);
    for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
        char number[24];
        int64_t value;
        if (strncmp(at, key, len) != 0 || at[len] != ' ')
            continue;
        size_t digits = strspn(at + len + 1, "0123456789");
        if (digits == 0 || digits >= sizeof(number))
            return -1;
        memcpy(number, at + len + 1, digits);
        number[digits] = '\0';
        return bh_parse_int(number, &value) == 0 ? value : -1;
    }
    return -1;
}

bool bh_cgroup_has_word(const char *text, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = text; *at; at += strcspn(at, " \n"), at += strspn(at, " \n")) {
        if (strcspn(at, " \n") == len && strncmp(at, word, len) == 0)
            return true;
    }
    return false;
}

/* The list may be longer than what one read gives, and grows and shrinks while it is read. */
bool bh_cgroup_says(const char *text, bool freezer, const char *name, const char *group)
{
    BH_CLEANUP_FREE char *want = bh_asprintf("/%s/%s", name, group);
    size_t len = strlen(want);
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *list = memchr(line, ':', (size_t)(end - line));
        if (!list || bh_starts_with(list, ":freezer:") != freezer)
            continue;
        const char *at = memmem(list, (size_t)(end - list), want, len);
        if (at && (at + len == end || (!freezer && at[len] == '/')))
            return true;
    }
    return false;
}

int bh_cgroup_each(int dirfd, const char *group, int (*fn)(pid_t pid, void *arg), void *arg)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = open_file(dirfd, group, "cgroup.procs", O_RDONLY);
    if (fd < 0)
        return -1;
    if (bh_read_all(fd, 64 << 20, &text, NULL) != 0) {
        errno = EIO;
        return -1;
    }
    char *next = NULL;
    for (char *line = strtok_r(text.data, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        int64_t pid;
        /* 0 is a process of another pid namespace, and to kill() something else altogether. */
        if (bh_parse_int(line, &pid) != 0 || pid <= 0 || pid > INT32_MAX)
            continue;
        int rc = fn((pid_t)pid, arg);
        if (rc != 0)
            return rc;
    }
    return 0;
}

typedef int (*group_fn)(int dirfd, const char *name, int depth, void *arg);

static int each_below(int above, const char *group, int depth, group_fn fn, void *arg)
{
    int rc = 0;
    DIR *dir = bh_dir_stream(bh_cgroup_open_dir(above, group));
    if (!dir)
        return -1;
    for (struct dirent *e; depth > 0 && (e = readdir(dir));) {
        if (e->d_type == DT_DIR && e->d_name[0] != '.' && fn(dirfd(dir), e->d_name, depth - 1, arg) < 0)
            rc = -1;
    }
    (void)closedir(dir);
    return rc;
}

static int remove_one(int dirfd, const char *name, int depth, void *arg)
{
    (void)each_below(dirfd, name, depth, remove_one, arg); /* what stays there is what the next call meets */
    return unlinkat(dirfd, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

int bh_cgroup_rmdir(int dirfd, const char *group)
{
    /* Most groups have none below them. */
    if (unlinkat(dirfd, group, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    return remove_one(dirfd, group, DEPTH_MAX, NULL);
}

struct walk {
    void (*fn)(int dirfd, const char *group, void *arg);
    void *arg;
};

static int walk_one(int dirfd, const char *name, int depth, void *arg)
{
    const struct walk *w = arg;
    (void)each_below(dirfd, name, depth, walk_one, arg);
    w->fn(dirfd, name, w->arg);
    return 0;
}

void bh_cgroup_walk(int dirfd, const char *group, void (*fn)(int dirfd, const char *group, void *arg), void *arg)
{
    struct walk w = {fn, arg};
    (void)walk_one(dirfd, group, DEPTH_MAX, &w);
}
