/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: replay of a run's events, single rows and lists. */
#include <string.h>

#include "base/mem.h"
#include "scheduler/store/rows.h"
#include "scheduler/store/store_priv.h"

/* --- replay --- */

static int bad_event(const char *run, int64_t seq, const char *what, struct bh_err **err)
{
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "event %lld of run '%s' %s", (long long)seq, run, what);
}

/* Checks the current row against the chain and moves `head` to it. */
static int check_link(struct bh_store *s, struct bh_db_stmt *stmt, const char *run, struct bh_head *head,
                      struct bh_err **err)
{
    int64_t seq = bh_db_int(stmt, 0);
    const char *kind = bh_db_text(stmt, 2), *payload = bh_db_text(stmt, 3);
    if (seq != head->seq + 1)
        return bad_event(run, head->seq + 1, "is missing", err);
    struct bh_head next = bh_chain_next(head, run, (struct bh_wall){bh_db_int(stmt, 1)}, kind, payload, &s->scratch);
    size_t len = 0;
    const void *stored = bh_db_blob(stmt, 4, &len);
    if (!kind || !payload || len != sizeof(next.chain.b) || memcmp(stored, next.chain.b, len) != 0)
        return bad_event(run, seq, "was changed: it does not fit into the chain", err);
    *head = next;
    return 0;
}

int bh_store_replay(struct bh_store *s, const char *run, bh_store_event_fn fn, void *arg, struct bh_err **err)
{
    bh_store_check(s);
    if (!bh_run_id_valid(run))
        return bh_store_no_run(run, err);
    struct bh_head last;
    bool known = false;
    int rc = bh_store_check_head(s, run, err);
    if (rc == 0)
        rc = bh_store_last(s, run, &last, &known, err);
    if (rc)
        return rc;
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    rc = bh_db_prepare(s->db, "SELECT seq, at, kind, payload, chain FROM events WHERE run = $1 ORDER BY seq", &stmt,
                       err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    struct bh_head head = {.chain = bh_chain_start(run)};
    bool row = false;
    rc = bh_db_next(stmt, &row, err);
    while (rc == 0 && row) {
        rc = check_link(s, stmt, run, &head, err);
        if (rc == 0)
            rc = fn(arg, head.seq, (struct bh_wall){bh_db_int(stmt, 1)}, bh_db_text(stmt, 2), bh_db_text(stmt, 3), err);
        if (rc == 0)
            rc = bh_db_next(stmt, &row, err);
    }
    if (rc == 0 && head.seq < last.seq) /* a damaged index ends the walk early */
        rc = bad_event(run, head.seq + 1, "is missing", err);
    return rc;
}

/* --- one run --- */

static int read_text(struct bh_store *s, const char *run, const char *name, char **ret, size_t *n, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc =
        bh_db_prepare(s->db, "SELECT run, name, content, sum FROM run_texts WHERE run = $1 AND name = $2", &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    bh_db_bind_text(stmt, 2, name);
    bool row = false;
    rc = bh_db_next(stmt, &row, err);
    if (rc || !row)
        return rc;
    struct bh_text_row text;
    rc = bh_row_read(stmt, &bh_store_table_texts, &s->scratch, &text, err);
    if (rc)
        return rc;
    *ret = BH_TAKE(text.content);
    ++*n;
    bh_row_clear(&bh_store_table_texts, &text);
    return 0;
}

static int read_run(struct bh_store *s, const char *run, struct bh_run_row *ret, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc =
        bh_db_prepare(s->db,
                      "SELECT run, name, status, file, created, started, ended, params, failure, limits, sum FROM runs "
                      "WHERE run = $1",
                      &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    bool row = false;
    rc = bh_db_next(stmt, &row, err);
    if (rc)
        return rc;
    if (row)
        return bh_row_read(stmt, &bh_store_table_runs, &s->scratch, ret, err);
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the store has events of run '%s', but not the run", run);
}

static int read_texts(struct bh_store *s, const char *run, struct bh_run_row *row, struct bh_err **err)
{
    size_t n = 0;
    int rc = read_text(s, run, "document", &row->document, &n, err);
    if (rc == 0)
        rc = read_text(s, run, "submission", &row->submission, &n, err);
    return rc ? rc : bh_rows_expect(s->db, &bh_store_table_texts, run, n, err);
}

int bh_store_get_run(struct bh_store *s, const char *run, struct bh_run_row *ret, struct bh_err **err)
{
    bh_store_check(s);
    if (!bh_run_id_valid(run))
        return bh_store_no_run(run, err);
    struct bh_run_row row = {0};
    int rc = bh_store_check_head(s, run, err);
    if (rc == 0)
        rc = bh_db_begin_read(s->db, err);
    if (rc)
        return rc;
    rc = read_run(s, run, &row, err);
    if (rc == 0)
        rc = read_texts(s, run, &row, err);
    bh_db_end_read(s->db);
    if (rc) {
        bh_run_row_fini(&row);
        return rc;
    }
    *ret = row;
    return 0;
}

/* --- lists --- */

static int read_list(struct bh_store *s, const struct bh_store_table *table, const char *sql, const char *run,
                     void **ret, size_t *ret_n, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    void *rows = NULL;
    size_t n = 0;
    int rc = bh_db_prepare(s->db, sql, &stmt, err);
    if (rc)
        return rc;
    if (run)
        bh_db_bind_text(stmt, 1, run);
    rc = bh_rows_read(stmt, table, &rows, &n, err);
    if (rc)
        return rc;
    rc = bh_rows_expect(s->db, table, run, n, err);
    if (rc) {
        bh_rows_clear(table, rows, n);
        return rc;
    }
    *ret = rows;
    *ret_n = n;
    return 0;
}

/* `run` NULL: the list of runs. */
static int list(struct bh_store *s, const struct bh_store_table *table, const char *sql, const char *run, void **ret,
                size_t *ret_n, struct bh_err **err)
{
    bh_store_check(s);
    int rc = bh_db_begin_read(s->db, err);
    if (rc)
        return rc;
    rc = read_list(s, table, sql, run, ret, ret_n, err);
    bh_db_end_read(s->db);
    return rc;
}

/* Rows follow from events: what was lost of these is missing there. */
static int list_of_run(struct bh_store *s, const struct bh_store_table *table, const char *sql, const char *run,
                       void **ret, size_t *ret_n, struct bh_err **err)
{
    struct bh_err *why = NULL;
    int rc = bh_run_id_valid(run) ? bh_store_check_head(s, run, &why) : -BH_E_NOT_FOUND;
    if (rc == 0)
        return list(s, table, sql, run, ret, ret_n, err);
    if (rc == -BH_E_NOT_FOUND) {
        *ret = NULL;
        *ret_n = 0;
        rc = 0;
    } else if (err) {
        *err = BH_TAKE(why);
    }
    bh_err_free(why);
    return rc;
}

int bh_store_read_runs(struct bh_store *s, struct bh_run_row **ret, size_t *ret_n, struct bh_err **err)
{
    void *rows = NULL;
    int rc = list(s, &bh_store_table_runs,
                  "SELECT run, name, status, file, created, started, ended, params, failure, limits, sum FROM runs "
                  "ORDER BY created DESC, run DESC",
                  NULL, &rows, ret_n, err);
    if (rc == 0)
        *ret = rows;
    return rc;
}

int bh_store_list_runs(struct bh_store *s, struct bh_run_row **ret, size_t *ret_n, struct bh_err **err)
{
    bh_store_check(s);
    int rc = bh_store_check_lost(s, "", "", err);
    return rc ? rc : bh_store_read_runs(s, ret, ret_n, err);
}

int bh_store_list_agents(struct bh_store *s, const char *run, struct bh_agent_row **ret, size_t *ret_n,
                         struct bh_err **err)
{
    void *rows = NULL;
    int rc = list_of_run(s, &bh_store_table_agents,
                         "SELECT run, name, stage, topology, box, status, label, reason, position, sum FROM agents "
                         "WHERE run = $1 ORDER BY position, name",
                         run, &rows, ret_n, err);
    if (rc == 0)
        *ret = rows;
    return rc;
}

int bh_store_list_attempts(struct bh_store *s, const char *run, struct bh_attempt_row **ret, size_t *ret_n,
                           struct bh_err **err)
{
    void *rows = NULL;
    int rc = list_of_run(
        s, &bh_store_table_attempts,
        "SELECT t.run, t.instance, t.agent, t.status, t.reason, t.detail, t.box, t.attempt, t.try, t.epoch, "
        "t.exit_code, t.signal, t.created, t.started, t.ended, t.selected, t.usage, t.kept_box, t.limits, "
        "t.output_dropped, t.evidence, t.kind, t.snapshot, t.snapshot_reused, t.score, t.sum "
        "FROM attempts t LEFT JOIN agents a ON a.run = t.run AND a.name = t.agent WHERE t.run = $1 "
        "ORDER BY coalesce(a.position, 9223372036854775807), t.agent, t.attempt, t.try, t.instance",
        run, &rows, ret_n, err);
    if (rc == 0)
        *ret = rows;
    return rc;
}

int bh_store_list_artifacts(struct bh_store *s, const char *run, struct bh_artifact_row **ret, size_t *ret_n,
                            struct bh_err **err)
{
    void *rows = NULL;
    int rc =
        list_of_run(s, &bh_store_table_artifacts,
                    "SELECT run, name, digest, kind, agent, instance, label, provenance, size, attempt, executable, "
                    "private, published, sum FROM artifacts WHERE run = $1 ORDER BY published, name",
                    run, &rows, ret_n, err);
    if (rc == 0)
        *ret = rows;
    return rc;
}

int bh_store_find_tainted(struct bh_store *s, const char *digest, char **ret, struct bh_wall *ret_published,
                          struct bh_err **err)
{
    bh_store_check(s);
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    bool row = false;
    *ret = NULL;
    int rc = bh_db_prepare(
        s->db,
        "SELECT run, name, published FROM artifacts WHERE digest = $1 AND label = 'tainted' ORDER BY published "
        "LIMIT 1",
        &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, digest);
    rc = bh_db_next(stmt, &row, err);
    if (rc == 0 && row) {
        *ret = bh_asprintf("'%s' of run %s", bh_db_text(stmt, 1), bh_db_text(stmt, 0));
        *ret_published = (struct bh_wall){bh_db_int(stmt, 2)};
    }
    return rc;
}
