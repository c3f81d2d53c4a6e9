/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors that carry their context.
 *
 * Every fallible function returns 0 or a negative code (-BH_E_*) and takes `struct bh_err **err` last.
 * On failure *err holds a new error that the caller owns; on success it is untouched. `err == NULL`
 * means that the caller wants only the code. *err must be NULL on entry (asserted).
 *
 * Message rules: one line, lower case, no full stop, the subject in 'single quotes', the reason
 * always. The hint says what the reader should do. Whoever detects the failure sets the message
 * once; every layer above may wrap it with what it was doing. Nobody logs and returns.
 */
#pragma once

#include <stdarg.h>

#include "base/compiler.h"

enum bh_code {
    BH_OK = 0,
#define BH_X(name, text, exit, http, retry, remedy) BH_E_##name,
#include "base/err_codes.def"
#undef BH_X
    BH_E_MAX_
};

struct bh_code_info {
    enum bh_code code;
    const char *text; /* "not-supported" */
    int exit_status;  /* of the command line */
    int http_status;
    bool retryable;
    const char *remedy; /* "" where there is none */
};

/* Borrowed, static. Any value is accepted (0 and unknown codes give the row of INTERNAL); the sign is ignored. */
const struct bh_code_info *bh_code_info(int code);
/* The code with this text, or BH_OK where there is none. */
enum bh_code bh_code_parse(const char *text);

struct bh_err;

/*
 * Sets a new error and returns -code. `saved_errno` is 0 or the errno of the call that failed (its
 * text is appended as ": No such file or directory"); ENOSPC, EDQUOT turn the code IO into DISK_FULL
 * and EACCES, EPERM, EROFS turn it into PERMISSION.
 */
int bh_err_set(struct bh_err **err, enum bh_code code, int saved_errno, const char *fmt, ...) BH_PRINTF(4, 5);
/* Prepends "<text>: " to the primary message. Returns the error's code, negative. A NULL *err is left alone and
 * `fallback` is returned. */
int bh_err_wrap(struct bh_err **err, int fallback, const char *fmt, ...) BH_PRINTF(3, 4);
void bh_err_detail(struct bh_err **err, const char *fmt, ...) BH_PRINTF(2, 3);
void bh_err_hint(struct bh_err **err, const char *fmt, ...) BH_PRINTF(2, 3);
/* Where in a document. `file` and `path` are copied; line and column are 1-based, 0 for unknown. */
void bh_err_at(struct bh_err **err, const char *file, int line, int column, const char *path);
void bh_err_free(struct bh_err *err); /* NULL is fine; saves errno */

enum bh_code bh_err_code(const struct bh_err *err); /* positive code; NULL gives BH_OK */
int bh_err_errno(const struct bh_err *err);
const char *bh_err_message(const struct bh_err *err);
const char *bh_err_get_detail(const struct bh_err *err); /* NULL where there is none */
const char *bh_err_get_hint(const struct bh_err *err);   /* own hint, else the table's remedy, else NULL */
const char *bh_err_file(const struct bh_err *err);       /* NULL where there is none */
int bh_err_line(const struct bh_err *err);
int bh_err_column(const struct bh_err *err);
const char *bh_err_path(const struct bh_err *err);

struct bh_buf;
struct bh_val;
/* "file:line:column: path: message" plus indented detail and "hint: " lines; control bytes are escaped. Ends with a
 * newline. */
void bh_err_format(const struct bh_err *err, struct bh_buf *out);
/* {"code","message","detail","hint","file","line","column","path"}, null where absent. The caller owns it. */
struct bh_val *bh_err_to_val(const struct bh_err *err);

static inline void bh_err_freep(struct bh_err **err)
{
    bh_err_free(*err);
}
#define BH_CLEANUP_ERR BH_CLEANUP(bh_err_freep)

/* Errors of documents, in the order of their positions. Zero-initialise; owns its members. */
struct bh_errlist {
    struct bh_err **items;
    size_t len, cap;
};
void bh_errlist_add(struct bh_errlist *list, struct bh_err *err); /* takes err */
void bh_errlist_sort(
    struct bh_errlist *list); /* stable: files in the order in which they first come, then by line, column */
void bh_errlist_fini(struct bh_errlist *list);
