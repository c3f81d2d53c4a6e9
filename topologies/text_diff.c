/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the comparison of two texts by lines: what is equal at both ends is set aside, the middle is compared by the
 * table of longest common subsequences. Lines keep their ends, so that a last line without one differs.
 */
#include "topologies/text_diff.h"

#include "base/buf.h"
#include "base/mem.h"

enum { CONTEXT = 3, TABLE_MAX = 4000000 };

struct line {
    const char *s;
    size_t len;
};
struct lines {
    struct line *items;
    size_t len, cap;
};

/* A line of the answer: of both, of the old text alone, of the new one alone. */
struct step {
    char kind; /* ' ', '-', '+' */
    struct line line;
};
struct steps {
    struct step *items;
    size_t len, cap;
};

static struct lines split(const char *text, size_t len)
{
    struct lines lines = {0};
    for (size_t at = 0; at < len;) {
        const char *end = memchr(text + at, '\n', len - at);
        size_t n = end ? (size_t)(end - text) - at + 1 : len - at;
        *BH_PUSH(lines.items, lines.len, lines.cap) = (struct line){text + at, n};
        at += n;
    }
    return lines;
}

static bool equal(struct line a, struct line b)
{
    return a.len == b.len && memcmp(a.s, b.s, a.len) == 0;
}

static void push(struct steps *steps, char kind, struct line line)
{
    *BH_PUSH(steps->items, steps->len, steps->cap) = (struct step){kind, line};
}

static void push_all(struct steps *steps, char kind, const struct line *lines, size_t n)
{
    for (size_t i = 0; i < n; i++)
        push(steps, kind, lines[i]);
}

/* table[i][k]: how many lines the ends from a[i] and b[k] have in common. */
static void compare(struct steps *steps, const struct line *a, size_t n, const struct line *b, size_t m)
{
    if (n == 0 || m == 0 || n > TABLE_MAX / m) {
        push_all(steps, '-', a, n);
        push_all(steps, '+', b, m);
        return;
    }
    size_t width = m + 1, i = 0, k = 0;
    BH_CLEANUP_FREE uint32_t *table = bh_calloc((n + 1) * width, sizeof(*table));
    for (i = n; i-- > 0;) {
        for (k = m; k-- > 0;) {
            uint32_t down = table[(i + 1) * width + k], right = table[i * width + k + 1];
            table[i * width + k] = equal(a[i], b[k]) ? table[(i + 1) * width + k + 1] + 1 : down > right ? down : right;
        }
    }
    for (i = 0, k = 0; i < n && k < m;) {
        if (equal(a[i], b[k])) {
            push(steps, ' ', a[i]);
            i++;
            k++;
        } else if (table[(i + 1) * width + k] >= table[i * width + k + 1]) {
            push(steps, '-', a[i++]);
        } else {
            push(steps, '+', b[k++]);
        }
    }
    push_all(steps, '-', a + i, n - i);
    push_all(steps, '+', b + k, m - k);
}

static struct steps all_steps(const struct lines *a, const struct lines *b)
{
    struct steps steps = {0};
    size_t head = 0, tail = 0, least = a->len < b->len ? a->len : b->len;
    while (head < least && equal(a->items[head], b->items[head]))
        head++;
    while (tail < least - head && equal(a->items[a->len - 1 - tail], b->items[b->len - 1 - tail]))
        tail++;
    push_all(&steps, ' ', a->items, head);
    compare(&steps, a->items + head, a->len - head - tail, b->items + head, b->len - head - tail);
    push_all(&steps, ' ', a->items + a->len - tail, tail);
    return steps;
}

/* Where the hunk that begins with the change at `first` ends: behind the last change that is near enough. */
static size_t end_of_hunk(const struct steps *steps, size_t first)
{
    size_t last = first;
    for (size_t i = first; i < steps->len && i - last <= 2 * CONTEXT + 1; i++) {
        if (steps->items[i].kind != ' ')
            last = i;
    }
    return last + 1;
}

static void print_range(struct bh_buf *out, char sign, size_t before, size_t n)
{
    bh_buf_addf(out, "%c%zu,%zu ", sign, n == 0 ? before : before + 1, n);
}

static void print_hunk(const struct steps *steps, size_t from, size_t to, struct bh_buf *out)
{
    size_t old_before = 0, new_before = 0, n_old = 0, n_new = 0;
    for (size_t i = 0; i < to; i++) {
        char kind = steps->items[i].kind;
        *(i < from ? &old_before : &n_old) += kind != '+';
        *(i < from ? &new_before : &n_new) += kind != '-';
    }
    bh_buf_adds(out, "@@ ");
    print_range(out, '-', old_before, n_old);
    print_range(out, '+', new_before, n_new);
    bh_buf_adds(out, "@@\n");
    for (size_t i = from; i < to; i++) {
        struct line line = steps->items[i].line;
        bh_buf_addc(out, steps->items[i].kind);
        bh_buf_add(out, line.s, line.len);
        if (line.len == 0 || line.s[line.len - 1] != '\n')
            bh_buf_adds(out, "\n\\ No newline at end of file\n");
    }
}

void bh_text_diff(const char *file, const char *from, size_t from_len, const char *to, size_t to_len,
                  struct bh_buf *out)
{
    struct lines a = split(from, from_len), b = split(to, to_len);
    struct steps steps = all_steps(&a, &b);
    bool any = false;
    for (size_t i = 0; i < steps.len; i++) {
        if (steps.items[i].kind == ' ')
            continue;
        if (!any)
            bh_buf_addf(out, "--- %s\n+++ %s\n", file, file);
        any = true;
        size_t end = end_of_hunk(&steps, i), to_print = end + CONTEXT < steps.len ? end + CONTEXT : steps.len;
        print_hunk(&steps, i > CONTEXT ? i - CONTEXT : 0, to_print, out);
        i = end - 1;
    }
    bh_free(a.items);
    bh_free(b.items);
    bh_free(steps.items);
}
