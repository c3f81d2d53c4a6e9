/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap of logs by the time of their next line. A log is
 *
 *   not wanted   no reader
 *   waiting      in the heap, by the time of its first line; parked
 *   being read   in the heap, with a line in hand
 *   dry          not in the heap: read to its present end; parked
 */
#include "cli/log_merge.h"

#include <dirent.h>
#include <errno.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

struct source {
    struct bh_log_reader *reader; /* NULL: not wanted */
    const char *instance;
    struct bh_log_line line; /* the one in hand, borrowed from the reader; of a waiting log the time alone */
    bool waiting, dry;
};

struct bh_log_merge {
    char *dir;
    bh_log_wanted_fn wanted;
    void *arg;
    struct bh_map *sources; /* by file name */
    struct source **heap;
    size_t n, cap;
    bool given; /* the line of heap[0] has been given out */
};

static void source_free(void *arg)
{
    struct source *s = arg;
    bh_log_reader_close(s->reader);
    bh_free(s);
}

struct bh_log_merge *bh_log_merge_new(const char *dir, bh_log_wanted_fn wanted, void *arg)
{
    struct bh_log_merge *m = bh_alloc(sizeof(*m));
    m->dir = bh_strdup(dir);
    m->wanted = wanted;
    m->arg = arg;
    m->sources = bh_map_new(source_free);
    return m;
}

void bh_log_merge_free(struct bh_log_merge *m)
{
    if (!m)
        return;
    bh_map_free(m->sources);
    bh_free(m->heap);
    bh_free(m->dir);
    bh_free(m);
}

/* --- the heap --- */

static bool is_before(const struct source *a, const struct source *b)
{
    if (a->line.time.us != b->line.time.us)
        return a->line.time.us < b->line.time.us;
    return strcmp(a->instance, b->instance) < 0;
}

static void swap(struct bh_log_merge *m, size_t i, size_t j)
{
    struct source *s = m->heap[i];
    m->heap[i] = m->heap[j];
    m->heap[j] = s;
}

static void sink(struct bh_log_merge *m, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < m->n; child++) {
            if (is_before(m->heap[child], m->heap[least]))
                least = child;
        }
        if (least == i)
            return;
        swap(m, i, least);
        i = least;
    }
}

static void push(struct bh_log_merge *m, struct source *s)
{
    size_t i = m->n;
    *BH_PUSH(m->heap, m->n, m->cap) = s;
    for (; i > 0 && is_before(m->heap[i], m->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(m, i, (i - 1) / 2);
}

static void drop_first(struct bh_log_merge *m)
{
    m->heap[0] = m->heap[--m->n];
    sink(m, 0);
}

/* --- sources --- */

/* The next line of a log, or it is dry. */
static int refill(struct source *s, struct bh_err **err)
{
    int rc = bh_log_reader_next(s->reader, &s->line, err);
    s->dry = rc == 0;
    if (rc == 0)
        bh_log_reader_park(s->reader);
    return rc < 0 ? rc : 0;
}

/* Its first line is read for the time alone, and again when its turn comes. */
static int enrol(struct bh_log_merge *m, struct source *s, struct bh_err **err)
{
    s->instance = bh_log_reader_tags(s->reader)->instance;
    int rc = refill(s, err);
    if (rc != 0 || s->dry)
        return rc;
    bh_log_reader_rewind(s->reader);
    s->waiting = true;
    push(m, s);
    return 0;
}

static int add_source(struct bh_log_merge *m, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_path_join(m->dir, name);
    struct bh_log_reader *reader = NULL;
    int rc = bh_log_reader_open(path, &reader, err);
    if (rc == -BH_E_AGAIN) /* its head is not written yet */
        return 0;
    if (rc != 0)
        return rc;
    struct source *s = bh_alloc(sizeof(*s));
    bh_map_put(m->sources, name, s);
    s->reader = reader;
    if (m->wanted(m->arg, bh_log_reader_tags(reader)))
        return enrol(m, s, err);
    bh_log_reader_close(BH_TAKE(s->reader));
    return 0;
}

int bh_log_merge_touch(struct bh_log_merge *m, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FREE char *log = bh_strdup(name);
    char *end = strstr(log, ".log");
    if (!end)
        return 0;
    end[strlen(".log")] = '\0'; /* a segment belongs to its log */
    struct source *s = bh_map_get(m->sources, log);
    if (!s)
        return bh_streq(log, name) ? add_source(m, name, err) : 0;
    if (!s->reader || !s->dry)
        return 0;
    int rc = refill(s, err);
    if (rc == 0 && !s->dry)
        push(m, s);
    return rc;
}

int bh_log_merge_look(struct bh_log_merge *m, struct bh_err **err)
{
    DIR *dir = opendir(m->dir);
    int rc = 0;
    if (!dir)
        return errno == ENOENT ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot open the logs in '%s'", m->dir);
    for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
        if (bh_ends_with(e->d_name, ".log"))
            rc = bh_log_merge_touch(m, e->d_name, err);
    }
    closedir(dir);
    return rc;
}

/* --- lines --- */

/* The first of the heap gives its next line, or leaves. */
static int advance(struct bh_log_merge *m, struct bh_err **err)
{
    struct source *s = m->heap[0];
    int rc = refill(s, err);
    s->waiting = false;
    if (rc == 0 && s->dry)
        drop_first(m);
    else if (rc == 0)
        sink(m, 0);
    return rc;
}

int bh_log_merge_next(struct bh_log_merge *m, struct bh_log_line *ret, const struct bh_log_tags **ret_tags,
                      struct bh_err **err)
{
    int rc = m->given ? advance(m, err) : 0;
    m->given = false;
    while (rc == 0 && m->n > 0 && m->heap[0]->waiting)
        rc = advance(m, err);
    if (rc != 0 || m->n == 0)
        return rc;
    *ret = m->heap[0]->line;
    *ret_tags = bh_log_reader_tags(m->heap[0]->reader);
    m->given = true;
    return 1;
}
