/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiler attributes and the two ownership macros that every file uses.
 *
 * A local that owns something carries a cleanup attribute (the type's own header defines it, for
 * example BH_CLEANUP_FREE in mem.h); ownership leaves the function by BH_TAKE(p).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BH_MUST_CHECK __attribute__((warn_unused_result))
#define BH_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define BH_NORETURN __attribute__((noreturn))
#define BH_CLEANUP(fn) __attribute__((cleanup(fn)))
#define BH_UNUSED __attribute__((unused))

#define BH_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Gives the value of the pointer or struct-free scalar `p` and leaves NULL behind. */
#define BH_TAKE(p)                     \
    ({                                 \
        __typeof__(p) *taken_ = &(p);  \
        __typeof__(p) kept_ = *taken_; \
        *taken_ = NULL;                \
        kept_;                         \
    })

/* The same for a file descriptor: leaves -1 behind. */
#define BH_TAKE_FD(fd)       \
    ({                       \
        int *taken_ = &(fd); \
        int kept_ = *taken_; \
        *taken_ = -1;        \
        kept_;               \
    })

/*
 * A programmer's error: stays on in release, prints file:line and the expression, aborts.
 * Never used on anything that a document, a peer, a file or the kernel decided.
 */
#define BH_ASSERT(expr) ((expr) ? (void)0 : bh_assert_fail(#expr, __FILE__, __LINE__))
BH_NORETURN void bh_assert_fail(const char *expr, const char *file, int line);
