/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets: a document names where a value is; the process that needs it asks here at the last moment. The value lives
 * in memory that no core dump holds, that is locked where the limit of locked memory allows it, and that is wiped when
 * it is let go. It is never in a message, a log or an error.
 */
#pragma once

#include "base/err.h"

enum {
    BH_SECRET_MAX = 64 * 1024,        /* bytes of a value */
    BH_SECRET_COMMAND_TIMEOUT_S = 30, /* for a command that gives one */
};

/* Exactly one of env, file, command. All borrowed. */
struct bh_secret_ref {
    const char *name;           /* of the document, for messages */
    const char *env;            /* a variable of this process */
    const char *file;           /* a regular file; a relative path is relative to the current folder */
    const char *const *command; /* argv; the first is looked for in PATH. What it writes to its standard output */
    size_t n_command;
    int give_up_fd; /* above 0: when it can be read, a command is not waited for any more */
};

struct bh_secret {
    char *value; /* NUL behind it, none in it; never empty */
    size_t len;
};

/*
 * Finds the value. One line end behind that of a file, and all behind that of a command, are left out. Blocks: on the
 * disk, and on a command for at most BH_SECRET_COMMAND_TIMEOUT_S, whose input is empty and whose standard error goes
 * nowhere: a failing command may say the value there. May be called from any thread. Errors, which say which secret and
 * why and hold nothing of what was read: HOST (there is no such variable, file or program; it is empty, too large or
 * holds a NUL; the command failed).
 */
int bh_secret_resolve(const struct bh_secret_ref *ref, struct bh_secret *ret, struct bh_err **err) BH_MUST_CHECK;
/* Whether it could be had, as far as can be told without having it: commands are looked for, not run. The same errors.
 */
int bh_secret_check(const struct bh_secret_ref *ref, struct bh_err **err) BH_MUST_CHECK;
void bh_secret_fini(struct bh_secret *secret); /* wipes it; an empty one is fine */

/* Memory of the same kind, for what is made of secrets (a header, an environment). Zeroed; NULL where there is none. */
void *bh_secret_alloc(size_t size) BH_MUST_CHECK;
void bh_secret_free(void *p, size_t size); /* the size that was asked for; NULL is fine */

static inline void bh_secret_finip(struct bh_secret *secret)
{
    bh_secret_fini(secret);
}
#define BH_CLEANUP_SECRET BH_CLEANUP(bh_secret_finip)
