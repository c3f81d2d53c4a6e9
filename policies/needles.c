/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the search for secrets in what passes by. Assumes that a set is complete before the first search. Must never let
 * a byte of a needle pass before it knows that the needle ends otherwise, and a sieve must never show by what it holds
 * back how a needle begins: who chooses the text would read the whole secret out of that, byte by byte.
 */
#include "policies/needles.h"

#include <string.h>

#include "base/mem.h"
#include "policies/needle_forms.h"

/* A shift fits a byte; more than that is hardly ever skipped at once. */
#define WINDOW_MAX 128

/* A secret of an ordinary length is held back like any other one. */
#define HELD_LEAST 1024

enum held_class { HELD_WORD, HELD_PRINTED, HELD_LINE, HELD_ALL };

struct needle {
    char *name;
    unsigned char *bytes;
    size_t len;
    size_t *fall; /* of its first i bytes, the longest proper end that is also a beginning */
};

struct bh_needles {
    struct needle *items;
    size_t n, cap;
    size_t window, longest;
    bool held[256]; /* the class of characters that are held back, by character */
    size_t held_max;
    unsigned char shift[65536]; /* by the last two bytes of the window */
};

struct bh_needles *bh_needles_new(void)
{
    return bh_alloc(sizeof(struct bh_needles));
}

void bh_needles_free(struct bh_needles *set)
{
    if (!set)
        return;
    for (size_t i = 0; i < set->n; i++) {
        explicit_bzero(set->items[i].bytes, set->items[i].len);
        bh_free(set->items[i].bytes);
        bh_free(set->items[i].name);
        bh_free(set->items[i].fall);
    }
    bh_free(set->items);
    explicit_bzero(set, sizeof(*set));
    bh_free(set);
}

static size_t block(const unsigned char *p)
{
    return (size_t)p[0] << 8 | p[1];
}

static void make_shifts(struct bh_needles *set)
{
    set->window = WINDOW_MAX;
    for (size_t i = 0; i < set->n; i++)
        set->window = set->items[i].len < set->window ? set->items[i].len : set->window;
    memset(set->shift, (int)(set->window - 1), sizeof(set->shift));
    for (size_t i = 0; i < set->n; i++) {
        for (size_t end = 1; end < set->window; end++) {
            unsigned char *shift = &set->shift[block(set->items[i].bytes + end - 1)];
            size_t least = set->window - 1 - end;
            *shift = least < *shift ? (unsigned char)least : *shift;
        }
    }
}

/*
 * What is held back at the end of a piece is visible to who chose the piece, and may tell nothing of the secrets: a run
 * of characters of one of these classes, whose end no needle can reach over, and as many as a power of two. So all that
 * can be learned is which class, and about how long.
 */
static bool in_class(enum held_class kind, unsigned char c)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    switch (kind) {
    case HELD_WORD:
        return letter || (c && strchr("+/=_-.~%\\", c));
    case HELD_PRINTED:
        return c > ' ' && c < 0x7f;
    case HELD_LINE:
        return c != '\n' && c != '\r';
    case HELD_ALL:
        break;
    }
    return true;
}

static bool all_in_class(const struct bh_needles *set, enum held_class kind)
{
    for (size_t i = 0; i < set->n; i++) {
        for (size_t at = 0; at < set->items[i].len; at++) {
            if (!in_class(kind, set->items[i].bytes[at]))
                return false;
        }
    }
    return true;
}

static void choose_held(struct bh_needles *set)
{
    enum held_class kind = HELD_WORD;
    while (!all_in_class(set, kind))
        kind++;
    for (int c = 0; c < 256; c++)
        set->held[c] = in_class(kind, (unsigned char)c);
    set->held_max = HELD_LEAST;
    while (set->held_max < set->longest)
        set->held_max *= 2;
}

/* As Knuth, Morris and Pratt have it: fall[i] for the first i bytes. */
static size_t *make_fall(const unsigned char *bytes, size_t len)
{
    size_t *fall = bh_calloc(len + 1, sizeof(*fall));
    for (size_t i = 1, k = 0; i < len; i++) {
        while (k > 0 && bytes[i] != bytes[k])
            k = fall[k];
        k += bytes[i] == bytes[k];
        fall[i + 1] = k;
    }
    return fall;
}

static void add_needle(struct bh_needles *set, const char *name, const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < set->n; i++) {
        if (set->items[i].len == len && memcmp(set->items[i].bytes, bytes, len) == 0)
            return;
    }
    *BH_PUSH(set->items, set->n, set->cap) = (struct needle){
        .name = bh_strdup(name), .bytes = bh_memdup(bytes, len), .len = len, .fall = make_fall(bytes, len)};
    set->longest = len > set->longest ? len : set->longest;
}

struct adding {
    struct bh_needles *set;
    const char *name;
};

static void add_form(void *arg, const void *bytes, size_t len)
{
    struct adding *a = arg;
    add_needle(a->set, a->name, bytes, len);
}

bool bh_needles_add(struct bh_needles *set, const char *name, const void *value, size_t len)
{
    struct adding a = {set, name};
    if (len < BH_NEEDLE_MIN)
        return false;
    bh_needle_forms(value, len, add_form, &a);
    make_shifts(set);
    choose_held(set);
    return true;
}

/* A needle that begins at `at`. */
static const struct needle *needle_at(const struct bh_needles *set, const unsigned char *at, size_t len)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct needle *n = &set->items[i];
        if (n->len <= len && memcmp(n->bytes, at, n->len) == 0)
            return n;
    }
    return NULL;
}

/* Skips windows that hold nothing: four at once, whose places do not depend on what is read in the one before. */
static size_t skip_far(const struct bh_needles *set, const unsigned char *p, size_t len, size_t end)
{
    const unsigned char *shift = set->shift;
    size_t far = set->window - 1;
    while (end + 3 * far < len && shift[block(p + end - 1)] == far && shift[block(p + end + far - 1)] == far &&
           shift[block(p + end + 2 * far - 1)] == far && shift[block(p + end + 3 * far - 1)] == far)
        end += 4 * far;
    return end;
}

/* The first one, and where it begins. */
static const struct needle *first_needle(const struct bh_needles *set, const void *data, size_t len, size_t *ret_start)
{
    const unsigned char *p = data;
    if (!set || set->n == 0 || len < set->window)
        return NULL;
    for (size_t end = set->window - 1; (end = skip_far(set, p, len, end)) < len;) {
        size_t shift = set->shift[block(p + end - 1)];
        if (shift > 0) {
            end += shift;
            continue;
        }
        *ret_start = end + 1 - set->window;
        const struct needle *found = needle_at(set, p + *ret_start, len - *ret_start);
        if (found)
            return found;
        end++;
    }
    return NULL;
}

size_t bh_needles_find(const struct bh_needles *set, const void *data, size_t len, const char **ret_name)
{
    size_t start = len;
    const struct needle *found = first_needle(set, data, len, &start);
    if (!found)
        return len;
    *ret_name = found->name;
    return start;
}

size_t bh_needles_match(const struct bh_needles *set, const void *data, size_t len, size_t *ret_len)
{
    size_t start = len;
    const struct needle *found = first_needle(set, data, len, &start);
    *ret_len = found ? found->len : 0;
    return found ? start : len;
}

/* How many bytes at the end may be the beginning of this needle. */
static size_t open_end(const struct needle *n, const unsigned char *data, size_t len)
{
    size_t look = len < n->len - 1 ? len : n->len - 1, k = 0;
    for (size_t i = len - look; i < len; i++) {
        while (k > 0 && data[i] != n->bytes[k])
            k = n->fall[k];
        k += data[i] == n->bytes[k];
    }
    return k;
}

size_t bh_needles_open_end(const struct bh_needles *set, const void *data, size_t len)
{
    size_t most = 0;
    for (size_t i = 0; i < set->n; i++) {
        size_t n = open_end(&set->items[i], data, len);
        most = n > most ? n : most;
    }
    return most;
}

size_t bh_needles_run(const struct bh_needles *set, const void *data, size_t len)
{
    const unsigned char *p = data;
    size_t n = 0;
    while (n < len && n < set->held_max && set->held[p[len - 1 - n]])
        n++;
    return n;
}

static void wipe(struct bh_sieve *s)
{
    if (s->bytes)
        explicit_bzero(s->bytes, s->cap);
    bh_free(s->bytes);
}

static void reserve(struct bh_sieve *s, size_t cap)
{
    if (cap <= s->cap)
        return;
    char *bytes = bh_alloc(cap);
    if (s->n_held > 0)
        memcpy(bytes, s->bytes + s->held_at, s->n_held);
    wipe(s);
    s->bytes = bytes;
    s->cap = cap;
    s->held_at = 0;
}

/* What was held back and the new piece as one. */
static const char *join(struct bh_sieve *s, const char *data, size_t *len)
{
    if (s->n_held == 0)
        return data;
    reserve(s, s->n_held + *len);
    memmove(s->bytes, s->bytes + s->held_at, s->n_held);
    if (*len > 0)
        memcpy(s->bytes + s->n_held, data, *len);
    *len += s->n_held;
    return s->bytes;
}

/* The last `open` bytes of `data`, which may be our own: what goes on lies before them, and stays. */
static void hold(struct bh_sieve *s, const char *data, size_t len, size_t open)
{
    s->n_held = 0;
    s->held_at = data == s->bytes ? len - open : 0;
    if (open > 0 && data != s->bytes) {
        reserve(s, open);
        memcpy(s->bytes, data + len - open, open);
    }
    s->n_held = open;
}

const char *bh_sieve_push(struct bh_sieve *s, const char *data, size_t len, bool last, const char **ret_pass,
                          size_t *ret_n)
{
    const char *name = NULL;
    *ret_pass = data;
    *ret_n = len;
    if (!s->set || s->set->n == 0)
        return NULL;
    *ret_pass = data = join(s, data, &len);
    *ret_n = bh_needles_find(s->set, data, len, &name);
    if (name)
        return name;
    hold(s, data, len, last ? 0 : bh_needles_run(s->set, data, len));
    *ret_n = len - s->n_held;
    return NULL;
}

const char *bh_sieve_push_behind(struct bh_sieve *s, size_t before, char *data, size_t len, const char **ret_pass,
                                 size_t *ret_n)
{
    size_t n = s->n_held;
    if (n == 0 || n > before)
        return bh_sieve_push(s, data, len, false, ret_pass, ret_n);
    memcpy(data - n, s->bytes + s->held_at, n);
    s->n_held = 0;
    return bh_sieve_push(s, data - n, n + len, false, ret_pass, ret_n);
}

void bh_sieve_fini(struct bh_sieve *s)
{
    wipe(s);
    *s = (struct bh_sieve){.set = s->set};
}
