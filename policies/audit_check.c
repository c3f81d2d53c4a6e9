/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the audit log, and finds what is wrong with it. Adders are kept out only while the end is looked up: what lies
 * before it does not change any more. Never writes.
 */
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
#include "base/text.h"
#include "base/val.h"
#include "policies/audit_priv.h"

struct log {
    int fd;       /* -1: there is none */
    int64_t size; /* when it was opened */
    int head_found;
    struct bh_audit_head head;
};

static int fail(const struct bh_home *home, int why, struct bh_err **err)
{
    return bh_err_set(err, BH_E_IO, why, "cannot read the audit log of '%s'", home->path);
}

static int look_at_end(int folder, struct log *log)
{
    struct stat st;
    if (bh_flock(log->fd, LOCK_SH) < 0)
        return -1;
    log->head_found = bh_audit_head_read(folder, &log->head);
    int rc = fstat(log->fd, &st);
    log->size = rc == 0 ? st.st_size : 0;
    (void)flock(log->fd, LOCK_UN);
    return log->head_found == -1 ? -1 : rc;
}

static int open_log(const struct bh_home *home, struct log *ret, struct bh_err **err)
{
    *ret = (struct log){.fd = -1};
    BH_CLEANUP_FD int folder = bh_home_open_folder(home, BH_AUDIT_FOLDER);
    if (folder < 0)
        return errno == ENOENT ? 0 : fail(home, errno, err);
    ret->fd = openat(folder, BH_AUDIT_LOG, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (ret->fd < 0 && errno != ENOENT)
        return fail(home, errno, err);
    if (ret->fd < 0)
        ret->head_found = bh_audit_head_read(folder, &ret->head);
    else if (look_at_end(folder, ret) < 0)
        return fail(home, errno, err);
    return 0;
}

/* --- lines --- */

typedef bool line_fn(void *arg, const char *text, size_t len);

static bool give_lines(struct bh_buf *text, line_fn *fn, void *arg)
{
    size_t at = 0;
    const char *end;
    bool on = true;
    while (on && (end = memchr(text->data + at, '\n', text->len - at)) != NULL) {
        size_t len = (size_t)(end - text->data) - at;
        on = fn(arg, text->data + at, len);
        at += len + 1;
    }
    bh_buf_consume(text, at);
    return on;
}

/* Every whole line; what is longer than a line can be is given in parts. 0, or -1 with errno. */
static int walk(const struct log *log, line_fn *fn, void *arg)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FREE char *part = bh_alloc(64 * 1024);
    int64_t at = 0;
    while (at < log->size) {
        int64_t left = log->size - at;
        ssize_t n = pread(log->fd, part, left < 64 * 1024 ? (size_t)left : 64 * 1024, at);
        if (n <= 0)
            return (int)n;
        at += n;
        bh_buf_add(&text, part, (size_t)n);
        if (!give_lines(&text, fn, arg))
            return 0;
        if (text.len > BH_AUDIT_LINE_MAX) {
            if (!fn(arg, text.data, text.len))
                return 0;
            bh_buf_clear(&text);
        }
    }
    return 0;
}

struct reading {
    bh_audit_fn *fn;
    void *arg;
};

static bool read_line(void *arg, const char *text, size_t len)
{
    const struct reading *r = arg;
    struct bh_audit_line line;
    if (!bh_audit_line_read(text, len, &line))
        return true;
    bool on = r->fn(r->arg, line.map);
    bh_val_free(line.map);
    return on;
}

int bh_audit_read(const struct bh_home *home, bh_audit_fn *fn, void *arg, struct bh_err **err)
{
    struct log log;
    struct reading reading = {.fn = fn, .arg = arg};
    int rc = open_log(home, &log, err);
    BH_CLEANUP_FD int fd = log.fd;
    if (rc == 0 && fd >= 0 && walk(&log, read_line, &reading) < 0)
        rc = fail(home, errno, err);
    return rc;
}

/* --- what is wrong --- */

struct check {
    struct bh_audit_report *report;
    struct bh_audit_head last; /* the line before */
};

static void BH_PRINTF(3, 4) wrong(struct bh_audit_report *report, int64_t line, const char *fmt, ...)
{
    report->n_problems++;
    if (report->n_kept == BH_AUDIT_MAX_PROBLEMS)
        return;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    *BH_PUSH(report->problems, report->n_kept, report->cap) =
        (struct bh_audit_problem){.line = line, .text = bh_buf_take(&text)};
}

static void check_place(struct check *c, const struct bh_audit_line *line)
{
    struct bh_audit_report *report = c->report;
    int64_t expected = c->last.seq + 1;
    if (line->seq > expected)
        wrong(report, report->lines, "%lld lines are missing before it: it has number %lld, and %lld was to come",
              (long long)(line->seq - expected), (long long)line->seq, (long long)expected);
    else if (line->seq < expected)
        wrong(report, report->lines, "stands in the wrong place: it has number %lld, and %lld was to come",
              (long long)line->seq, (long long)expected);
    else if (!bh_digest_equal(&line->prev, &c->last.hash))
        wrong(report, report->lines, "does not follow on the line before: one of the two was put in another's place");
}

static bool is_about_mark(const struct bh_val *line)
{
    return bh_streq(bh_val_str_of(line, "kind"), bh_audit_kind_text(BH_AUDIT_OVERRIDE)) &&
           bh_streq(bh_val_str_of(line, "what"), BH_AUDIT_ABOUT_MARK);
}

static bool check_line(void *arg, const char *text, size_t len)
{
    struct check *c = arg;
    struct bh_audit_line line;
    c->report->lines++;
    if (!bh_audit_line_read(text, len, &line)) {
        wrong(c->report, c->report->lines, "is no line of an audit log");
        return true;
    }
    if (is_about_mark(line.map))
        wrong(c->report, c->report->lines,
              "was added where the mark of the log's end was gone or broken: nobody can tell whether lines are missing "
              "before it");
    bh_val_free(line.map);
    if (!line.sealed)
        wrong(c->report, c->report->lines, "was changed: its hash is not that of its text");
    check_place(c, &line);
    c->last = (struct bh_audit_head){.seq = line.seq, .hash = line.hash};
    return true;
}

static void check_end(const struct check *c, const struct log *log)
{
    struct bh_audit_report *report = c->report;
    const struct bh_audit_head *head = &log->head;
    if (log->head_found == -BH_E_STORE_CORRUPT)
        wrong(report, 0, "the mark of its end cannot be read, so nobody can tell whether lines are missing there");
    else if (log->head_found == 0 && report->lines > 0)
        wrong(report, 0, "the mark of its end is gone, so nobody can tell whether lines are missing there");
    else if (log->head_found == 1 && c->last.seq < head->seq)
        wrong(report, 0, "%lld lines are missing at its end: the last has number %lld, and %lld were noted",
              (long long)(head->seq - c->last.seq), (long long)c->last.seq, (long long)head->seq);
    else if (log->head_found == 1 && c->last.seq == head->seq && !bh_digest_equal(&c->last.hash, &head->hash))
        wrong(report, 0, "its last line is not the one that was noted last");
}

int bh_audit_verify(const struct bh_home *home, struct bh_audit_report *ret, struct bh_err **err)
{
    struct log log;
    struct bh_audit_report report = {0};
    struct check check = {.report = &report};
    int rc = open_log(home, &log, err);
    BH_CLEANUP_FD int fd = log.fd;
    if (rc == 0 && fd >= 0 && walk(&log, check_line, &check) < 0)
        rc = fail(home, errno, err);
    if (rc == 0) {
        check_end(&check, &log);
        *ret = report;
    } else {
        bh_audit_report_fini(&report);
    }
    return rc;
}

void bh_audit_report_fini(struct bh_audit_report *report)
{
    for (size_t i = 0; i < report->n_kept; i++)
        bh_free(report->problems[i].text);
    bh_free(report->problems);
    *report = (struct bh_audit_report){0};
}
