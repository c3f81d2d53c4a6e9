/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the check of a document's bytes. Assumes nothing of them; must let nothing through that the YAML library is not
 * safe on.
 */
#include "topologies/bytes.h"

#include <stdlib.h>

#include "base/text.h"
#include "topologies/pipeline.h"

struct scan {
    const unsigned char *p, *end;
    int line, column;
};

static int fail(struct bh_errlist *errors, const char *file, int line, int column, struct bh_err *err)
{
    bh_err_at(&err, file, line, column, NULL);
    int rc = -(int)bh_err_code(err);
    bh_errlist_add(errors, err);
    return rc;
}

/* A text in UTF-16 or UTF-32 starts with its mark, or has a NUL in every other byte. */
static const char *wide_encoding(const unsigned char *p, size_t len)
{
    if (len >= 4 && (memcmp(p, "\xff\xfe\0\0", 4) == 0 || memcmp(p, "\0\0\xfe\xff", 4) == 0))
        return "UTF-32";
    if (len >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0))
        return "UTF-16";
    if (len < 4)
        return NULL;
    if (p[0] && !p[1] && p[2] && !p[3])
        return "UTF-16";
    if (!p[0] && p[1] && !p[2] && p[3])
        return "UTF-16";
    return NULL;
}

/* How many bytes the well-formed character at `p` has. */
static size_t char_len(unsigned char c)
{
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static bool is_mark(const unsigned char *p, size_t left)
{
    return left >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0;
}

/* NULL where the well-formed character may stand in a document, else what it is. */
static const char *char_problem(const unsigned char *p, size_t left)
{
    if (*p == 0)
        return "a NUL byte";
    if ((*p < 0x20 && *p != '\t' && *p != '\n' && *p != '\r') || *p == 0x7f)
        return "a control character";
    if (*p == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 && p[1] != 0x85)
        return "a control character";
    if (is_mark(p, left))
        return "a byte order mark";
    return NULL;
}

static void step(struct scan *s, size_t n)
{
    bool breaks = *s->p == '\n' || (*s->p == '\r' && (s->p + 1 == s->end || s->p[1] != '\n'));
    s->p += n;
    s->line += breaks ? 1 : 0;
    s->column = breaks ? 1 : s->column + 1;
}

static int check_char(const char *file, const struct scan *s, bool binary, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    const char *problem = char_problem(s->p, (size_t)(s->end - s->p));
    if (problem) {
        bh_err_set(&err, BH_E_ENCODING, 0,
                   binary ? "the document is binary data, not text: it holds %s" : "the document holds %s", problem);
        bh_err_detail(&err, "byte 0x%02x", *s->p);
        return fail(errors, file, s->line, s->column, err);
    }
    if (*s->p == '%' && s->column == 1) {
        bh_err_set(&err, BH_E_SYNTAX, 0, "a line starts with '%%': YAML directives are not allowed here");
        bh_err_hint(&err, "take the line out; text that starts with '%%' is indented or quoted");
        return fail(errors, file, s->line, s->column, err);
    }
    return 0;
}

static int scan_text(const char *file, struct scan *s, bool binary, struct bh_errlist *errors)
{
    size_t good = bh_utf8_check(s->p, (size_t)(s->end - s->p));
    const unsigned char *bad = s->p + good;
    if (is_mark(s->p, (size_t)(s->end - s->p)))
        s->p += 3;
    while (s->p < s->end && s->p < bad) {
        int rc = check_char(file, s, binary, errors);
        if (rc < 0)
            return rc;
        step(s, char_len(*s->p));
    }
    if (s->p == s->end)
        return 0;
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_ENCODING, 0,
               binary ? "the document is binary data, not text: byte 0x%02x is not UTF-8" : "byte 0x%02x is not UTF-8",
               *s->p);
    return fail(errors, file, s->line, s->column, err);
}

int bh_bytes_check(const char *file, const char *text, size_t len, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    const unsigned char *p = (const unsigned char *)text;
    if (len > BH_PIPELINE_MAX_BYTES) {
        bh_err_set(&err, BH_E_TOO_LARGE, 0, "the document has %zu bytes; the most is %d (4 MiB)", len,
                   BH_PIPELINE_MAX_BYTES);
        bh_err_hint(&err, "data belongs in files that 'sources' or 'files' name, many alike agents in 'matrix'");
        return fail(errors, file, 1, 1, err);
    }
    const char *wide = wide_encoding(p, len);
    if (wide) {
        bh_err_set(&err, BH_E_ENCODING, 0, "the document is %s text, not UTF-8", wide);
        bh_err_hint(&err, "save it as UTF-8, or convert it: iconv -f %s -t UTF-8", wide);
        return fail(errors, file, 1, 1, err);
    }
    struct scan s = {.p = p, .end = p + len, .line = 1, .column = 1};
    return scan_text(file, &s, len > 0 && memchr(text, 0, len) != NULL, errors);
}
