/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds to the audit log: under a lock, behind what is there, synced before it returns. What a crash left behind the
 * mark of the log's end is taken over where it is whole and follows on; half a line is taken away, since nobody was
 * told that it was noted. Everything else that is wrong with the log stays as it is for whoever verifies it, and
 * adding goes on behind it; where the mark itself is gone or cannot be read, a line says so, since the next mark would
 * hide that lines may have gone with it.
 */
#include "policies/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/val.h"
#include "policies/audit_priv.h"

static int fail(const struct bh_home *home, int why, struct bh_err **err)
{
    return bh_err_set(err, BH_E_IO, why, "cannot write the audit log of '%s'", home->path);
}

static int open_folder(const struct bh_home *home)
{
    int fd = bh_home_open_folder(home, BH_AUDIT_FOLDER);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    if (mkdirat(home->dirfd, BH_AUDIT_FOLDER, 0700) < 0 && errno != EEXIST)
        return -1;
    (void)fsync(home->dirfd);
    return bh_home_open_folder(home, BH_AUDIT_FOLDER);
}

static int open_locked(int folder)
{
    BH_CLEANUP_FD int fd =
        openat(folder, BH_AUDIT_LOG, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0 || bh_flock(fd, LOCK_EX) < 0)
        return -1;
    return BH_TAKE_FD(fd);
}

/* --- what is behind the mark --- */

/* Whole lines that follow on, in `text`, move the head on. Gives how many bytes those and all other whole lines are. */
static size_t take_over(const struct bh_buf *text, struct bh_audit_head *head)
{
    size_t at = 0;
    const char *end;
    while ((end = memchr(text->data + at, '\n', text->len - at)) != NULL) {
        struct bh_audit_line line;
        size_t len = (size_t)(end - text->data) - at;
        if (bh_audit_line_read(text->data + at, len, &line)) {
            bh_val_free(line.map);
            if (line.sealed && line.seq == head->seq + 1 && bh_digest_equal(&line.prev, &head->hash))
                *head = (struct bh_audit_head){.seq = line.seq, .size = head->size, .hash = line.hash};
        }
        at += len + 1;
    }
    return at;
}

/* Without a mark: from the last line that says something. */
static void find_last(const struct bh_buf *text, struct bh_audit_head *head)
{
    size_t end = text->len;
    while (end > 0) {
        const char *before = end > 1 ? memrchr(text->data, '\n', end - 1) : NULL;
        size_t start = before ? (size_t)(before - text->data) + 1 : 0;
        struct bh_audit_line line;
        if (text->data[end - 1] == '\n' && bh_audit_line_read(text->data + start, end - 1 - start, &line)) {
            bh_val_free(line.map);
            *head = (struct bh_audit_head){.seq = line.seq, .hash = line.hash};
            return;
        }
        end = start;
    }
}

static int read_from(int fd, int64_t offset, int64_t size, struct bh_buf *out)
{
    while (offset < size) {
        char part[64 * 1024];
        ssize_t n = pread(fd, part, sizeof(part), offset);
        if (n <= 0)
            return (int)n;
        bh_buf_add(out, part, (size_t)n);
        offset += n;
    }
    return 0;
}

/* A mark before the first line, so that whoever dies behind that line leaves no log without one. */
static int make_mark(int folder)
{
    const struct bh_audit_head none = {0};
    if (bh_audit_head_write(folder, &none) < 0)
        return -1;
    BH_CLEANUP_FD int fd = openat(folder, BH_AUDIT_HEAD, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return fd < 0 || fsync(fd) < 0 || fsync(folder) < 0 ? -1 : 0;
}

/* Where the next line goes, and behind which; what is wrong with the mark, or NULL. 0, or -1 with errno. */
static int find_end(int folder, int fd, struct bh_audit_head *head, const char **ret_mark)
{
    BH_CLEANUP_BUF struct bh_buf rest = BH_BUF_INIT;
    struct stat st;
    *head = (struct bh_audit_head){0};
    int found = bh_audit_head_read(folder, head);
    if (found == -1 || fstat(fd, &st) < 0)
        return -1;
    if (found != 1)
        *head = (struct bh_audit_head){0};
    *ret_mark = found == 1 || st.st_size == 0 ? NULL : found == 0 ? "gone" : "unreadable";
    if (found != 1 && st.st_size == 0 && make_mark(folder) < 0)
        return -1;
    if (st.st_size == head->size)
        return 0;
    int64_t from = st.st_size > head->size ? head->size : st.st_size;
    if (read_from(fd, from, st.st_size, &rest) < 0)
        return -1;
    if (found != 1)
        find_last(&rest, head);
    int64_t whole = from + (int64_t)take_over(&rest, head);
    head->size = whole;
    return whole < st.st_size ? ftruncate(fd, whole) : 0;
}

/* --- adding --- */

/* Not where somebody cut the log within a line. */
static bool ends_line(int fd, int64_t size)
{
    char last = '\n';
    return size == 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

static void add_about_mark(struct bh_buf *text, struct bh_audit_head *head, const char *mark)
{
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
    bh_val_set_str(fields, "what", BH_AUDIT_ABOUT_MARK);
    bh_val_set_str(fields, "mark", mark);
    bh_audit_line_add(text, head, BH_AUDIT_OVERRIDE, fields);
}

static int add_behind(int folder, int fd, const struct bh_audit_entry *entries, size_t n)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_audit_head head;
    const char *mark;
    if (find_end(folder, fd, &head, &mark) < 0)
        return -1;
    bool first = head.size == 0;
    if (!ends_line(fd, head.size))
        bh_buf_addc(&text, '\n');
    head.size += (int64_t)text.len;
    if (mark)
        add_about_mark(&text, &head, mark);
    for (size_t i = 0; i < n; i++)
        bh_audit_line_add(&text, &head, entries[i].kind, entries[i].fields);
    if (bh_write_all(fd, text.data, text.len) < 0 || fdatasync(fd) < 0)
        return -1;
    if (first && fsync(folder) < 0)
        return -1;
    return bh_audit_head_write(folder, &head);
}

void bh_audit_entries_free(struct bh_audit_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_val_free(entries[i].fields);
    bh_free(entries);
}

int bh_audit_add_all(const struct bh_home *home, const struct bh_audit_entry *entries, size_t n, struct bh_err **err)
{
    if (n == 0)
        return 0;
    BH_CLEANUP_FD int folder = open_folder(home);
    if (folder < 0)
        return fail(home, errno, err);
    BH_CLEANUP_FD int fd = open_locked(folder);
    if (fd < 0 || add_behind(folder, fd, entries, n) < 0)
        return fail(home, errno, err);
    return 0;
}

int bh_audit_add(const struct bh_home *home, enum bh_audit_kind kind, const struct bh_val *fields, struct bh_err **err)
{
    const struct bh_audit_entry entry = {.kind = kind, .fields = (struct bh_val *)(uintptr_t)fields}; /* only read */
    return bh_audit_add_all(home, &entry, 1, err);
}
