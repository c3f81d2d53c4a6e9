/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation. The malloc family is banned elsewhere (base/banned.h).
 *
 * Small allocations whose size we choose never return NULL: when the system refuses one, the process
 * says so in one line and aborts, which every process of this project survives by design (the store
 * is durable before effects; docs/adr/0002). Sizes that a document, a message or a file chooses go
 * through bh_try_alloc, whose NULL is reported as BH_E_NOMEM.
 */
#pragma once

#include <string.h>

#include "base/compiler.h"

void *bh_alloc(size_t size);                            /* zeroed; size 0 gives a unique pointer */
void *bh_calloc(size_t n, size_t size);                 /* zeroed, overflow checked */
void *bh_realloc_array(void *p, size_t n, size_t size); /* overflow checked; new bytes are not zeroed */
char *bh_strdup(const char *s);                         /* NULL gives NULL */
char *bh_strndup(const char *s, size_t n);
char *bh_asprintf(const char *fmt, ...) BH_PRINTF(1, 2);
void *bh_memdup(const void *p, size_t n);
void *bh_try_alloc(size_t size) BH_MUST_CHECK; /* zeroed or NULL */
void bh_free(void *p);                         /* NULL is fine; saves errno */

/* For tests: the n-th bh_try_alloc from now on fails (1 is the next); 0 switches it off. */
void bh_mem_fail_nth(unsigned n);

static inline void bh_freep(void *p)
{
    void *v;
    memcpy(&v, p, sizeof(v));
    bh_free(v);
}
#define BH_CLEANUP_FREE BH_CLEANUP(bh_freep)

/*
 * Grows the array `arr` (fields or locals: pointer, length, capacity) by one zeroed element and gives
 * a pointer to it: `struct x *x = BH_PUSH(l->items, l->len, l->cap);`
 */
#define BH_PUSH(arr, len, cap)                                     \
    ({                                                             \
        (arr) = bh_grow((arr), (len) + 1, &(cap), sizeof(*(arr))); \
        memset(&(arr)[(len)], 0, sizeof(*(arr)));                  \
        &(arr)[(len)++];                                           \
    })
void *bh_grow(void *arr, size_t need, size_t *cap, size_t item_size);

/* An arena: everything in it is freed at once. Used for things that are built once and then read. */
struct bh_arena;
struct bh_arena *bh_arena_new(void);
void bh_arena_free(struct bh_arena *arena);                   /* NULL is fine */
void *bh_arena_alloc(struct bh_arena *arena, size_t size);    /* zeroed, aligned for any type */
char *bh_arena_strdup(struct bh_arena *arena, const char *s); /* NULL gives NULL */
char *bh_arena_strndup(struct bh_arena *arena, const char *s, size_t n);
char *bh_arena_printf(struct bh_arena *arena, const char *fmt, ...) BH_PRINTF(2, 3);
/* As BH_PUSH for arrays that live in an arena (an outgrown copy stays until the arena goes). */
#define BH_ARENA_PUSH(arena, arr, len, cap)                                   \
    ({                                                                        \
        (arr) = bh_arena_grow((arena), (arr), (len), &(cap), sizeof(*(arr))); \
        &(arr)[(len)++];                                                      \
    })
void *bh_arena_grow(struct bh_arena *arena, void *arr, size_t len, size_t *cap, size_t item_size);
