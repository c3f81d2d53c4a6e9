/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening and writing. A commit is one transaction of events, each a link of the run's chain, and of the rows that
 * follow from them; after it the head mark is written. The mark is synced when the run ends, when the store is closed
 * and every MARK_SYNC_EVERY commits: a kill loses nothing of it, a power cut at most what was written since.
 *
 * One process writes a run at a time (its owner lock, base/home.h); several processes write their own runs at once.
 */
#include "scheduler/store/store.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/store/migrate.h"
#include "scheduler/store/rows.h"
#include "scheduler/store/store_priv.h"

#define MARK_SYNC_EVERY 256

/* --- open and close --- */

static int found_mark(void *arg, const char *run, struct bh_err **err)
{
    struct bh_store *s = arg;
    struct bh_mark mark;
    int rc = bh_mark_read(&s->home, run, &mark, err);
    if (rc || !bh_mark_is_set(&mark))
        return rc;
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0,
                      "the database '%s/store/bulkhead.db' is gone or empty, but run '%s' was recorded in it up to "
                      "event %lld",
                      s->home.path, run, (long long)mark.head.seq);
}

static int nothing_yet(struct bh_store *s, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "no run was made in '%s' yet", s->home.path);
    bh_err_hint(err, "'bulkhead run FILE' makes one; --home names another state directory");
    return rc;
}

/* *ret_empty: there is a database with nothing in it, or none. */
static int open_db(struct bh_store *s, const char *path, bool *ret_empty, struct bh_err **err)
{
    enum bh_db_mode mode = s->mode == BH_STORE_WRITE ? BH_DB_WRITE : BH_DB_READ;
    struct bh_err *why = NULL;
    int64_t version = 0;
    int rc = bh_db_open(path, mode, &s->db, &why);
    if (rc == 0)
        rc = bh_db_version(s->db, &version, &why);
    *ret_empty = rc == -BH_E_NOT_FOUND || (rc == 0 && version == 0);
    if (*ret_empty) {
        bh_err_free(why);
        return 0;
    }
    if (err)
        *err = why;
    else
        bh_err_free(why);
    return rc;
}

static int open_once(struct bh_store *s, bool *ret_empty, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_home_path(&s->home, "store/bulkhead.db");
    bh_db_close(BH_TAKE(s->db));
    int rc = open_db(s, path, ret_empty, err);
    if (rc == 0 && *ret_empty)
        rc = bh_mark_each_run(&s->home, found_mark, s, err);
    if (rc)
        return rc;
    if (*ret_empty && s->mode == BH_STORE_READ)
        return nothing_yet(s, err);
    enum bh_db_mode mode = s->mode == BH_STORE_WRITE ? BH_DB_WRITE : BH_DB_READ;
    rc = bh_migrate(s->db, mode, bh_store_migrations, bh_store_n_migrations, err);
    return rc ? bh_err_wrap(err, rc, "'%s'", path) : 0;
}

static int make_folder(struct bh_store *s, struct bh_err **err)
{
    if (bh_mkdirat_p(s->home.dirfd, "store", 0700) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make '%s/store'", s->home.path);
    BH_CLEANUP_FD int fd = bh_open_beneath(s->home.dirfd, ".", O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 || fsync(fd) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot sync '%s'", s->home.path);
    return 0;
}

static void free_tail(void *p)
{
    struct bh_tail *tail = p;
    if (tail->unsynced)
        (void)fdatasync(tail->mark_fd); /* nobody is left to be told; an older mark is still a true one */
    bh_close(tail->mark_fd);
    bh_free(tail);
}

int bh_store_open(const struct bh_home *home, enum bh_store_mode mode, struct bh_store **ret, struct bh_err **err)
{
    struct bh_store *s = bh_alloc(sizeof(*s));
    *s = (struct bh_store){.magic = BH_STORE_MAGIC, .mode = mode};
    s->home.path = bh_strdup(home->path);
    s->home.dirfd = fcntl(home->dirfd, F_DUPFD_CLOEXEC, 0);
    s->tails = bh_map_new(free_tail);
    bh_buf_init(&s->scratch);
    int rc = mode == BH_STORE_WRITE ? make_folder(s, err) : 0;
    bool empty = false;
    if (rc == 0)
        rc = open_once(s, &empty, err);
    if (rc == -BH_E_STORE_CORRUPT && empty) { /* another process may have made it between the look and the marks */
        if (err)
            bh_err_free(BH_TAKE(*err));
        rc = open_once(s, &empty, err);
    }
    if (rc) {
        bh_store_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void bh_store_close(struct bh_store *s)
{
    if (!s)
        return;
    bh_store_check(s);
    int saved = errno;
    bh_map_free(s->tails);
    bh_db_close(s->db);
    bh_home_close(&s->home);
    bh_buf_fini(&s->scratch);
    s->magic = 0;
    bh_free(s);
    errno = saved;
}

/* --- the runs that this process writes --- */

static int load_tail(struct bh_store *s, const char *run, struct bh_tail *tail, struct bh_err **err)
{
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    int rc = bh_store_check_head(s, run, &why);
    if (rc == -BH_E_NOT_FOUND) {
        tail->head = (struct bh_head){.chain = bh_chain_start(run)};
        return bh_mark_make(&s->home, run, &tail->mark_fd, err);
    }
    if (rc) {
        if (err)
            *err = BH_TAKE(why);
        return rc;
    }
    bool known = false;
    rc = bh_store_last(s, run, &tail->head, &known, err);
    return rc ? rc : bh_mark_open(&s->home, run, &tail->mark_fd, err);
}

static int get_tail(struct bh_store *s, const char *run, struct bh_tail **ret, struct bh_err **err)
{
    struct bh_tail *tail = bh_map_get(s->tails, run);
    if (!tail) {
        tail = bh_alloc(sizeof(*tail));
        tail->mark_fd = -1;
        int rc = load_tail(s, run, tail, err);
        if (rc) {
            free_tail(tail);
            return rc;
        }
        (void)bh_map_put(s->tails, run, tail);
    }
    *ret = tail;
    return 0;
}

static int save_mark(struct bh_store *s, const struct bh_store_batch *batch, struct bh_tail *tail, struct bh_err **err)
{
    int rc = bh_mark_write(tail->mark_fd, &tail->head, batch->run, err);
    if (rc)
        return rc;
    bool ended = batch->run_row && batch->run_row->ended.us != 0;
    if (++tail->unsynced >= MARK_SYNC_EVERY || ended) {
        rc = bh_mark_sync(tail->mark_fd, batch->run, err);
        tail->unsynced = 0;
    }
    if (rc == 0 && ended)
        (void)bh_map_del(s->tails, batch->run); /* a server must not keep a descriptor for each run of its life */
    return rc;
}

/* --- commit --- */

static int put_event(struct bh_store *s, const char *run, const struct bh_store_event *event, struct bh_head *head,
                     struct bh_err **err)
{
    struct bh_head next = bh_chain_next(head, run, event->at, event->kind, event->payload, &s->scratch);
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(
        s->db, "INSERT INTO events (run, seq, at, kind, payload, chain) VALUES ($1, $2, $3, $4, $5, $6)", &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    bh_db_bind_int(stmt, 2, next.seq);
    bh_db_bind_int(stmt, 3, event->at.us);
    bh_db_bind_text(stmt, 4, event->kind);
    bh_db_bind_text(stmt, 5, event->payload);
    bh_db_bind_blob(stmt, 6, next.chain.b, sizeof(next.chain.b));
    rc = bh_db_run(stmt, err);
    if (rc == 0)
        *head = next;
    return rc;
}

static int put_text(struct bh_store *s, const struct bh_run_row *row, const char *name, const char *content,
                    struct bh_err **err)
{
    if (!content)
        return 0;
    struct bh_text_row text = {row->run, (char *)(uintptr_t)name, (char *)(uintptr_t)content};
    return bh_row_put(s->db, &bh_store_table_texts, &text, &s->scratch, err);
}

static int put_rows(struct bh_store *s, const struct bh_store_table *table, const void *rows, size_t n,
                    struct bh_err **err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = bh_row_put(s->db, table, (const char *)rows + i * table->row_size, &s->scratch, err);
    return rc;
}

static int put_batch(struct bh_store *s, const struct bh_store_batch *batch, struct bh_head *head, struct bh_err **err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < batch->n_events; i++)
        rc = put_event(s, batch->run, &batch->events[i], head, err);
    if (rc == 0 && batch->run_row)
        rc = put_rows(s, &bh_store_table_runs, batch->run_row, 1, err);
    if (rc == 0 && batch->run_row)
        rc = put_text(s, batch->run_row, "document", batch->run_row->document, err);
    if (rc == 0 && batch->run_row)
        rc = put_text(s, batch->run_row, "submission", batch->run_row->submission, err);
    if (rc == 0)
        rc = put_rows(s, &bh_store_table_agents, batch->agents, batch->n_agents, err);
    if (rc == 0)
        rc = put_rows(s, &bh_store_table_attempts, batch->attempts, batch->n_attempts, err);
    if (rc == 0)
        rc = put_rows(s, &bh_store_table_artifacts, batch->artifacts, batch->n_artifacts, err);
    return rc;
}

static int failed_before(const char *run, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_IO, 0, "run '%s' cannot be recorded any further: an earlier write of it failed", run);
    bh_err_hint(err, "go on with 'bulkhead run --resume %s'", run);
    return rc;
}

static int written_twice(const char *run, int64_t seq, struct bh_err **err)
{
    if (err)
        bh_err_free(BH_TAKE(*err));
    return bh_err_set(err, BH_E_BUSY, 0, "run '%s' was written by another process after event %lld", run,
                      (long long)seq);
}

int bh_store_commit(struct bh_store *s, const struct bh_store_batch *batch, struct bh_err **err)
{
    bh_store_check(s);
    BH_ASSERT(s->mode == BH_STORE_WRITE && bh_run_id_valid(batch->run));
    struct bh_tail *tail = NULL;
    int rc = get_tail(s, batch->run, &tail, err);
    if (rc)
        return rc;
    if (tail->failed)
        return failed_before(batch->run, err);
    rc = bh_db_begin(s->db, err);
    if (rc)
        return bh_err_wrap(err, rc, "recording run '%s'", batch->run);
    struct bh_head head = tail->head;
    rc = put_batch(s, batch, &head, err);
    if (rc)
        bh_db_rollback(s->db);
    else
        rc = bh_db_commit(s->db, err);
    if (rc == -BH_E_EXISTS)
        rc = written_twice(batch->run, tail->head.seq, err);
    if (rc == 0) {
        tail->head = head;
        rc = save_mark(s, batch, tail, err);
    }
    if (rc == 0)
        return 0;
    tail->failed = true;
    return bh_err_wrap(err, rc, "recording run '%s'", batch->run);
}
