/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds the database against the head marks. A mark is always read before the database: it is never ahead of it, so a
 * database that is looked at later has what the mark names, unless something was lost. A mark that moved meanwhile is
 * looked at again before anybody is alarmed.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "scheduler/store/store_priv.h"

int bh_store_no_run(const char *text, struct bh_err **err)
{
    return bh_err_set(err, BH_E_NOT_FOUND, 0, "no run '%s'", text);
}

static bool read_chain(struct bh_db_stmt *stmt, int column, struct bh_digest *ret)
{
    size_t len = 0;
    const void *data = bh_db_blob(stmt, column, &len);
    if (len != sizeof(ret->b))
        return false;
    memcpy(ret->b, data, len);
    return true;
}

static int is_in(struct bh_store *s, const char *sql, const char *run, bool *ret, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(s->db, sql, &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    return bh_db_next(stmt, ret, err);
}

static int last_event(struct bh_store *s, const char *run, struct bh_head *ret, bool *ret_found, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(s->db, "SELECT seq, chain FROM events WHERE run = $1 ORDER BY seq DESC LIMIT 1", &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    rc = bh_db_next(stmt, ret_found, err);
    if (rc || !*ret_found)
        return rc;
    ret->seq = bh_db_int(stmt, 0);
    if (!read_chain(stmt, 1, &ret->chain))
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "event %lld of run '%s' is damaged: its link has another length",
                          (long long)ret->seq, run);
    return 0;
}

int bh_store_last(struct bh_store *s, const char *run, struct bh_head *ret, bool *ret_known, struct bh_err **err)
{
    *ret = (struct bh_head){.chain = bh_chain_start(run)};
    int rc = last_event(s, run, ret, ret_known, err);
    if (rc || *ret_known)
        return rc;
    return is_in(s, "SELECT 1 FROM runs WHERE run = $1", run, ret_known, err);
}

/* The link at `seq` in the database; *ret_found false where there is no such event. */
static int link_at(struct bh_store *s, const char *run, int64_t seq, struct bh_digest *ret, bool *ret_found,
                   struct bh_err **err)
{
    if (seq == 0) {
        *ret = bh_chain_start(run);
        *ret_found = true;
        return 0;
    }
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(s->db, "SELECT chain FROM events WHERE run = $1 AND seq = $2", &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    bh_db_bind_int(stmt, 2, seq);
    rc = bh_db_next(stmt, ret_found, err);
    if (rc || !*ret_found)
        return rc;
    if (!read_chain(stmt, 0, ret))
        *ret = (struct bh_digest){{0}}; /* equal to no link */
    return 0;
}

static void lost_hint(const struct bh_store *s, const char *run, struct bh_err **err)
{
    bh_err_hint(err, "restore the state directory from a backup, or move '%s/runs/%s' away to go on without that run",
                s->home.path, run);
}

static int tail_lost(const char *run, int64_t have, int64_t want, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0,
                        "the store has lost events of run '%s': it ends at event %lld, the head mark names event %lld",
                        run, (long long)have, (long long)want);
    bh_err_detail(err, "events %lld to %lld were recorded and are gone", (long long)have + 1, (long long)want);
    return rc;
}

static int run_lost(struct bh_store *s, const char *run, int64_t seq, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0,
                        "the store has lost run '%s': it was recorded up to event %lld and is not there", run,
                        (long long)seq);
    lost_hint(s, run, err);
    return rc;
}

/* One comparison. The mark was read before; -NOT_FOUND where neither side knows the run. */
static int compare(struct bh_store *s, const char *run, const struct bh_mark *mark, struct bh_err **err)
{
    struct bh_head last;
    bool known = false, found = false;
    int rc = bh_store_last(s, run, &last, &known, err);
    if (rc)
        return rc;
    if (!known)
        return bh_mark_is_set(mark) ? run_lost(s, run, mark->head.seq, err) : bh_store_no_run(run, err);
    if (!mark->found)
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0,
                          "the head mark '%s/runs/%s/head' is missing: nothing says whether event %lld is the last of "
                          "the run",
                          s->home.path, run, (long long)last.seq);
    if (!bh_mark_is_set(mark))
        return 0;
    struct bh_digest chain;
    rc = link_at(s, run, mark->head.seq, &chain, &found, err);
    if (rc)
        return rc;
    if (!found)
        return tail_lost(run, last.seq, mark->head.seq, err);
    if (!bh_digest_equal(&chain, &mark->head.chain))
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "event %lld of run '%s' is not the one that the head mark names",
                          (long long)mark->head.seq, run);
    return 0;
}

int bh_store_check_head(struct bh_store *s, const char *run, struct bh_err **err)
{
    struct bh_mark mark, again;
    int rc = bh_mark_read(&s->home, run, &mark, err);
    while (rc == 0) {
        struct bh_err *why = NULL;
        int verdict = compare(s, run, &mark, &why);
        rc = verdict ? bh_mark_read(&s->home, run, &again, NULL) : 0;
        if (verdict == 0 || rc || bh_mark_equal(&mark, &again)) {
            if (err)
                *err = why;
            else
                bh_err_free(why);
            return verdict;
        }
        bh_err_free(why);
        mark = again;
    }
    return rc;
}

/* --- runs that have a mark only --- */

struct lost_search {
    struct bh_store *store;
    const char *prefix, *after;
    struct bh_run_id newest; /* "" where there is none */
};

static int look_at_run(void *arg, const char *run, struct bh_err **err)
{
    struct lost_search *search = arg;
    if (!bh_starts_with(run, search->prefix) || strcmp(run, search->after) <= 0 || strcmp(run, search->newest.s) <= 0)
        return 0;
    bool known = false;
    int rc = is_in(search->store, "SELECT 1 FROM runs WHERE run = $1", run, &known, err);
    if (rc || known)
        return rc;
    struct bh_err *why = NULL;
    rc = bh_store_check_head(search->store, run, &why);
    if (rc == -BH_E_STORE_CORRUPT)
        (void)snprintf(search->newest.s, sizeof(search->newest.s), "%s", run);
    if (rc == 0 || rc == -BH_E_STORE_CORRUPT || rc == -BH_E_NOT_FOUND || !err) {
        bh_err_free(why);
        return rc == -BH_E_STORE_CORRUPT || rc == -BH_E_NOT_FOUND ? 0 : rc;
    }
    *err = why;
    return rc;
}

int bh_store_check_lost(struct bh_store *s, const char *prefix, const char *after, struct bh_err **err)
{
    struct lost_search search = {.store = s, .prefix = prefix, .after = after};
    int rc = bh_mark_each_run(&s->home, look_at_run, &search, err);
    if (rc || !search.newest.s[0])
        return rc;
    return bh_store_check_head(s, search.newest.s, err);
}
