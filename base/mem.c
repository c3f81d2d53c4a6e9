/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation, and the two ways in which a process of ours ends itself: memory refused for something
 * small, and a broken assertion. The only file that calls malloc. Must never print through the
 * allocator or the log.
 */
#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_BLOCK ((size_t)0)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_BLOCK ((size_t)0)
#endif
#endif
/* Under AddressSanitizer each allocation of an arena is a block of its own, so that overruns are seen. */
#ifndef ARENA_BLOCK
#define ARENA_BLOCK ((size_t)16 * 1024)
#endif

static unsigned fail_nth;

BH_NORETURN static void BH_PRINTF(1, 2) die(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1;
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written;
    abort();
}

BH_NORETURN static void out_of_memory(size_t size)
{
    die("bulkhead: out of memory (%zu bytes)\n", size);
}

void bh_assert_fail(const char *expr, const char *file, int line)
{
    die("bulkhead: assertion failed: %s (%s:%d)\n", expr, file, line);
}

static size_t times(size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        out_of_memory(SIZE_MAX);
    return total;
}

static size_t plus(size_t a, size_t b)
{
    size_t total;
    if (__builtin_add_overflow(a, b, &total))
        out_of_memory(SIZE_MAX);
    return total;
}

void *bh_alloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);
    if (!p)
        out_of_memory(size);
    return p;
}

void *bh_calloc(size_t n, size_t size)
{
    return bh_alloc(times(n, size));
}

void *bh_realloc_array(void *p, size_t n, size_t size)
{
    size_t total = times(n, size);
    void *moved = realloc(p, total ? total : 1);
    if (!moved)
        out_of_memory(total);
    return moved;
}

char *bh_strdup(const char *s)
{
    return s ? bh_memdup(s, strlen(s) + 1) : NULL;
}

char *bh_strndup(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = bh_alloc(plus(len, 1));
    memcpy(copy, s, len);
    return copy;
}

char *bh_asprintf(const char *fmt, ...)
{
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory(strlen(fmt));
    return s;
}

void *bh_memdup(const void *p, size_t n)
{
    void *copy = bh_alloc(n);
    if (n)
        memcpy(copy, p, n);
    return copy;
}

static bool must_fail(void)
{
    unsigned n = __atomic_load_n(&fail_nth, __ATOMIC_RELAXED);
    return n && __atomic_fetch_sub(&fail_nth, 1, __ATOMIC_RELAXED) == 1;
}

void *bh_try_alloc(size_t size)
{
    return must_fail() ? NULL : calloc(1, size ? size : 1);
}

void bh_free(void *p)
{
    int saved = errno;
    free(p);
    errno = saved;
}

void bh_mem_fail_nth(unsigned n)
{
    __atomic_store_n(&fail_nth, n, __ATOMIC_RELAXED);
}

static size_t grown_cap(size_t need, size_t cap)
{
    if (need <= cap)
        return cap;
    size_t twice = cap > SIZE_MAX / 2 ? SIZE_MAX : cap * 2;
    size_t at_least = need < 8 ? 8 : need;
    return twice > at_least ? twice : at_least;
}

void *bh_grow(void *arr, size_t need, size_t *cap, size_t item_size)
{
    size_t wanted = grown_cap(need, *cap);
    if (wanted == *cap && arr)
        return arr;
    arr = bh_realloc_array(arr, wanted, item_size);
    *cap = wanted;
    return arr;
}

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(max_align_t) char data[];
};

struct bh_arena {
    struct block *blocks; /* the first one is being filled */
};

struct bh_arena *bh_arena_new(void)
{
    return bh_alloc(sizeof(struct bh_arena));
}

void bh_arena_free(struct bh_arena *arena)
{
    if (!arena)
        return;
    for (struct block *b = arena->blocks, *next; b; b = next) {
        next = b->next;
        bh_free(b);
    }
    bh_free(arena);
}

static struct block *new_block(size_t size)
{
    struct block *b = bh_alloc(plus(sizeof(struct block), size));
    b->size = size;
    return b;
}

void *bh_arena_alloc(struct bh_arena *arena, size_t size)
{
    const size_t align = _Alignof(max_align_t);
    size_t room = plus(size ? size : 1, align - 1) / align * align;
    struct block *b = arena->blocks;
    if (!b || b->size - b->used < room) {
        /* A large one goes behind the block that is being filled, whose rest stays usable. */
        bool alone = room > ARENA_BLOCK / 4;
        struct block *fresh = new_block(alone ? room : ARENA_BLOCK);
        struct block **where = alone && b ? &b->next : &arena->blocks;
        fresh->next = *where;
        *where = fresh;
        b = fresh;
    }
    void *p = b->data + b->used;
    b->used += room;
    return p;
}

char *bh_arena_strdup(struct bh_arena *arena, const char *s)
{
    return s ? bh_arena_strndup(arena, s, strlen(s)) : NULL;
}

char *bh_arena_strndup(struct bh_arena *arena, const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = bh_arena_alloc(arena, plus(len, 1));
    memcpy(copy, s, len);
    return copy;
}

char *bh_arena_printf(struct bh_arena *arena, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        out_of_memory(strlen(fmt));
    char *s = bh_arena_alloc(arena, (size_t)n + 1);
    (void)vsnprintf(s, (size_t)n + 1, fmt, again);
    va_end(again);
    return s;
}

void *bh_arena_grow(struct bh_arena *arena, void *arr, size_t len, size_t *cap, size_t item_size)
{
    if (len < *cap)
        return arr;
    size_t wanted = grown_cap(plus(len, 1), *cap);
    void *moved = bh_arena_alloc(arena, times(wanted, item_size));
    if (len)
        memcpy(moved, arr, len * item_size);
    *cap = wanted;
    return moved;
}
