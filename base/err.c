/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error object and the table of codes. Owns its texts. Must never log, and must never look at errno
 * except where a caller hands it over.
 */
#include "base/err.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"

struct bh_err {
    enum bh_code code;
    int saved_errno;
    char *message, *detail, *hint;
    char *file, *path;
    int line, column;
};

static const struct bh_code_info table[] = {
#define BH_X(name, text, exit, http, retry, remedy) {BH_E_##name, text, exit, http, retry, remedy},
#include "base/err_codes.def"
#undef BH_X
};

const struct bh_code_info *bh_code_info(int code)
{
    int64_t wanted = code < 0 ? -(int64_t)code : code;
    if (wanted <= BH_OK || wanted >= BH_E_MAX_)
        wanted = BH_E_INTERNAL;
    return &table[wanted - 1]; /* the enumeration and the table come from the same lines */
}

enum bh_code bh_code_parse(const char *text)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(table); i++) {
        if (bh_streq(table[i].text, text))
            return table[i].code;
    }
    return BH_OK;
}

static enum bh_code refine(enum bh_code code, int saved_errno)
{
    if (code != BH_E_IO)
        return code;
    switch (saved_errno) {
    case ENOSPC:
    case EDQUOT:
        return BH_E_DISK_FULL;
    case EACCES:
    case EPERM:
    case EROFS:
        return BH_E_PERMISSION;
    default:
        return code;
    }
}

static char *vtext(const char *fmt, va_list ap)
{
    struct bh_buf buf = BH_BUF_INIT;
    bh_buf_vaddf(&buf, fmt, ap);
    return bh_buf_take(&buf);
}

int bh_err_set(struct bh_err **err, enum bh_code code, int saved_errno, const char *fmt, ...)
{
    BH_ASSERT(code > BH_OK && code < BH_E_MAX_);
    code = refine(code, saved_errno);
    if (!err)
        return -(int)code;
    BH_ASSERT(*err == NULL);
    struct bh_err *e = bh_alloc(sizeof(*e));
    struct bh_buf text = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    if (saved_errno) {
        const char *reason = strerrordesc_np(saved_errno);
        bh_buf_addf(&text, reason ? ": %s" : ": error %s%d", reason ? reason : "", saved_errno);
    }
    e->code = code;
    e->saved_errno = saved_errno;
    e->message = bh_buf_take(&text);
    *err = e;
    return -(int)code;
}

int bh_err_wrap(struct bh_err **err, int fallback, const char *fmt, ...)
{
    if (!err || !*err)
        return fallback;
    struct bh_buf text = BH_BUF_INIT;
    va_list ap;
    va_start(ap, fmt);
    bh_buf_vaddf(&text, fmt, ap);
    va_end(ap);
    bh_buf_addf(&text, ": %s", (*err)->message);
    bh_free((*err)->message);
    (*err)->message = bh_buf_take(&text);
    return -(int)(*err)->code;
}

static void replace(char **field, char *text)
{
    bh_free(*field);
    *field = text;
}

void bh_err_detail(struct bh_err **err, const char *fmt, ...)
{
    if (!err || !*err)
        return;
    va_list ap;
    va_start(ap, fmt);
    replace(&(*err)->detail, vtext(fmt, ap));
    va_end(ap);
}

void bh_err_hint(struct bh_err **err, const char *fmt, ...)
{
    if (!err || !*err)
        return;
    va_list ap;
    va_start(ap, fmt);
    replace(&(*err)->hint, vtext(fmt, ap));
    va_end(ap);
}

void bh_err_at(struct bh_err **err, const char *file, int line, int column, const char *path)
{
    if (!err || !*err)
        return;
    replace(&(*err)->file, bh_strdup(file));
    replace(&(*err)->path, bh_strdup(path));
    (*err)->line = line;
    (*err)->column = column;
}

void bh_err_free(struct bh_err *err)
{
    if (!err)
        return;
    bh_free(err->message);
    bh_free(err->detail);
    bh_free(err->hint);
    bh_free(err->file);
    bh_free(err->path);
    bh_free(err);
}

enum bh_code bh_err_code(const struct bh_err *err)
{
    return err ? err->code : BH_OK;
}

int bh_err_errno(const struct bh_err *err)
{
    return err ? err->saved_errno : 0;
}

const char *bh_err_message(const struct bh_err *err)
{
    return err ? err->message : "";
}

const char *bh_err_get_detail(const struct bh_err *err)
{
    return err ? err->detail : NULL;
}

const char *bh_err_get_hint(const struct bh_err *err)
{
    if (!err)
        return NULL;
    if (err->hint)
        return err->hint;
    const char *remedy = bh_code_info((int)err->code)->remedy;
    return *remedy ? remedy : NULL;
}

const char *bh_err_file(const struct bh_err *err)
{
    return err ? err->file : NULL;
}

int bh_err_line(const struct bh_err *err)
{
    return err ? err->line : 0;
}

int bh_err_column(const struct bh_err *err)
{
    return err ? err->column : 0;
}

const char *bh_err_path(const struct bh_err *err)
{
    return err ? err->path : NULL;
}

static void add_escaped(struct bh_buf *out, const char *text)
{
    bh_escape_terminal(out, text, strlen(text));
}

/* Each line of `text` behind `first` or, from the second line on, `next`. */
static void add_lines(struct bh_buf *out, const char *first, const char *next, const char *text)
{
    const char *lead = first;
    do {
        size_t len = strcspn(text, "\n");
        bh_buf_adds(out, lead);
        bh_escape_terminal(out, text, len);
        bh_buf_addc(out, '\n');
        text += len + (text[len] == '\n');
        lead = next;
    } while (*text);
}

void bh_err_format(const struct bh_err *err, struct bh_buf *out)
{
    if (!err)
        return;
    if (err->file)
        add_escaped(out, err->file);
    if (err->line > 0)
        bh_buf_addf(out, err->file ? ":%d" : "line %d", err->line);
    if (err->line > 0 && err->column > 0)
        bh_buf_addf(out, ":%d", err->column);
    if (err->file || err->line > 0)
        bh_buf_adds(out, ": ");
    if (err->path && *err->path) {
        add_escaped(out, err->path);
        bh_buf_adds(out, ": ");
    }
    add_escaped(out, err->message);
    bh_buf_addc(out, '\n');
    if (err->detail)
        add_lines(out, "  ", "  ", err->detail);
    const char *hint = bh_err_get_hint(err);
    if (hint)
        add_lines(out, "  hint: ", "        ", hint);
}

static void set_position(struct bh_val *map, const char *key, int n)
{
    bh_val_set(map, key, n > 0 ? bh_val_int(n) : bh_val_null());
}

struct bh_val *bh_err_to_val(const struct bh_err *err)
{
    struct bh_val *map = bh_val_map();
    bh_val_set_str(map, "code", bh_code_info((int)bh_err_code(err))->text);
    bh_val_set_str(map, "message", bh_err_message(err));
    bh_val_set_str(map, "detail", bh_err_get_detail(err));
    bh_val_set_str(map, "hint", bh_err_get_hint(err));
    bh_val_set_str(map, "file", bh_err_file(err));
    set_position(map, "line", bh_err_line(err));
    set_position(map, "column", bh_err_column(err));
    bh_val_set_str(map, "path", bh_err_path(err));
    return map;
}

void bh_errlist_add(struct bh_errlist *list, struct bh_err *err)
{
    if (err)
        *BH_PUSH(list->items, list->len, list->cap) = err;
}

struct sort_item {
    struct bh_err *err;
    size_t index, file; /* file: index of the first error of the same file */
};

static size_t first_of_file(const struct bh_errlist *list, size_t i)
{
    const char *file = list->items[i]->file;
    for (size_t k = 0; k < i; k++) {
        if (bh_streq(list->items[k]->file, file))
            return k;
    }
    return i;
}

static int by_position(const void *pa, const void *pb)
{
    const struct sort_item *a = pa, *b = pb;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    if (a->err->line != b->err->line)
        return a->err->line < b->err->line ? -1 : 1;
    if (a->err->column != b->err->column)
        return a->err->column < b->err->column ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

void bh_errlist_sort(struct bh_errlist *list)
{
    if (list->len < 2)
        return;
    BH_CLEANUP_FREE struct sort_item *items = bh_calloc(list->len, sizeof(*items));
    for (size_t i = 0; i < list->len; i++)
        items[i] = (struct sort_item){.err = list->items[i], .index = i, .file = first_of_file(list, i)};
    qsort(items, list->len, sizeof(*items), by_position);
    for (size_t i = 0; i < list->len; i++)
        list->items[i] = items[i].err;
}

void bh_errlist_fini(struct bh_errlist *list)
{
    for (size_t i = 0; i < list->len; i++)
        bh_err_free(list->items[i]);
    bh_free(list->items);
    *list = (struct bh_errlist){0};
}
