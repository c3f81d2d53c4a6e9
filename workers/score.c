/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/score.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box_call.h"

#define SCORE_MAX 4096

void bh_score_fini(struct bh_score *s)
{
    bh_free(s->problem);
    *s = (struct bh_score){0};
}

static size_t digits(const char *at, const char *end)
{
    size_t n = 0;
    while (at + n < end && isdigit((unsigned char)at[n]))
        n++;
    return n;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before the exponent. */
static bool is_decimal(const char *at, const char *end)
{
    at += at < end && (*at == '+' || *at == '-');
    size_t whole = digits(at, end), part = 0;
    at += whole;
    if (at < end && *at == '.') {
        part = digits(at + 1, end);
        at += 1 + part;
    }
    if (whole + part == 0)
        return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        size_t n = digits(at, end);
        if (n == 0)
            return false;
        at += n;
    }
    return at == end;
}

bool bh_score_parse(const char *text, size_t len, double *ret)
{
    const char *end = text + len;
    while (text < end && isspace((unsigned char)*text))
        text++;
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    if (!is_decimal(text, end))
        return false;
    BH_CLEANUP_FREE char *copy = bh_strndup(text, (size_t)(end - text));
    double value = strtod(copy, NULL);
    if (!isfinite(value))
        return false;
    *ret = value == 0 ? 0 : value; /* of two zeros none is the better */
    return true;
}

/* --- reading it --- */

struct bh_score_read {
    struct bh_box_call *call;
    char *path;
    bh_score_fn fn;
    void *arg;
};

static void problem(struct bh_score *score, const struct bh_score_read *r, const char *what)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, "score file '");
    bh_escape_terminal(&text, r->path, strlen(r->path));
    bh_buf_addf(&text, "' %s", what);
    score->problem = bh_buf_take(&text);
}

static void judge_bytes(struct bh_score *score, const struct bh_score_read *r, int fd)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    int rc = bh_read_all(fd, SCORE_MAX, &text, NULL);
    if (rc == -BH_E_TOO_LARGE)
        problem(score, r, "is larger than 4 KiB");
    else if (rc != 0)
        problem(score, r, "cannot be read");
    else if (bh_score_parse(text.data, text.len, &score->value))
        score->known = true;
    else
        problem(score, r, "does not hold one finite decimal number");
}

static void judge(struct bh_score *score, const struct bh_score_read *r, int fd, int error)
{
    struct stat st;
    if (fd < 0 && (error == ENOENT || error == ENOTDIR))
        problem(score, r, "is missing");
    else if (fd < 0 && (error == ELOOP || error == EXDEV))
        problem(score, r, "is, or lies behind, a symlink");
    else if (fd < 0)
        problem(score, r, "cannot be opened");
    else if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        problem(score, r, "is no regular file");
    else
        judge_bytes(score, r, fd);
}

static void free_read(struct bh_score_read *r)
{
    bh_free(r->path);
    bh_free(r);
}

static void on_opened(void *arg, int fd, int error)
{
    struct bh_score_read *r = arg;
    struct bh_score score = {0};
    BH_CLEANUP_FD int owned = fd;
    judge(&score, r, owned, error);
    bh_score_fn fn = r->fn;
    void *fn_arg = r->arg;
    free_read(r);
    fn(fn_arg, &score);
    bh_score_fini(&score);
}

struct bh_score_read *bh_score_read(struct bh_box *box, const char *path, bh_score_fn fn, void *arg)
{
    struct bh_score_read *r = bh_alloc(sizeof(*r));
    *r = (struct bh_score_read){.path = bh_strdup(path), .fn = fn, .arg = arg};
    r->call = bh_box_call_open(box, ".", path, on_opened, r);
    return r;
}

void bh_score_forget(struct bh_score_read *r)
{
    if (!r)
        return;
    bh_box_call_forget(r->call);
    free_read(r);
}
