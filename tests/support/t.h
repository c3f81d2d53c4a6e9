/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The house's way to write a test: cmocka for structure, these macros for checks (they print the error chain on
 * failure), and a temporary folder per test. Tests wait on events or drive a virtual clock; none sleeps.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

/* `call` is an expression that takes &err; it must give 0. */
#define T_OK(call)                                         \
    do {                                                   \
        struct bh_err *err = NULL;                         \
        int t_rc_ = (call);                                \
        t_check_ok(t_rc_, err, #call, __FILE__, __LINE__); \
    } while (0)
/* It must give exactly -BH_E_<code>, and the message must hold `part` (NULL: any). */
#define T_ERR(call, code, part)                                         \
    do {                                                                \
        struct bh_err *err = NULL;                                      \
        int t_rc_ = (call);                                             \
        t_check_err(t_rc_, err, code, part, #call, __FILE__, __LINE__); \
    } while (0)
#define T_STR(got, want) assert_string_equal(got, want)
#define T_INT(got, want) assert_int_equal(got, want)
#define T_TRUE(x) assert_true(x)

void t_check_ok(int rc, struct bh_err *err, const char *call, const char *file, int line);
void t_check_err(int rc, struct bh_err *err, enum bh_code want, const char *part, const char *call, const char *file,
                 int line);

/* A new folder below $TMPDIR; t_tmpdir_free removes it with all that is in it. */
char *t_tmpdir(void);
void t_tmpdir_free(char *dir);
/*
 * Skips the running test with a reason, unless $BH_MUST_RUN (comma list, "all") names `capability`: then it fails. CI
 * sets it.
 */
void t_skip(const char *capability, const char *reason);
