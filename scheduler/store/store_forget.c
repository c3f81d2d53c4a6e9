/* SPDX-License-Identifier: Apache-2.0 */
/* The one way out of the store. */
#include "base/mem.h"
#include "scheduler/store/store_priv.h"

static int run_with(struct bh_store *s, const char *sql, const char *run, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(s->db, sql, &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run);
    return bh_db_run(stmt, err);
}

/* The count of runs first: it asks whether there is one. */
static int remove_rows(struct bh_store *s, const char *run, struct bh_err **err)
{
    static const char *const statements[] = {
        "UPDATE row_counts SET n = n - 1 WHERE run = '' AND name = 'runs' AND EXISTS (SELECT 1 FROM runs WHERE run = "
        "$1)",
        "DELETE FROM runs WHERE run = $1",
        "DELETE FROM agents WHERE run = $1",
        "DELETE FROM attempts WHERE run = $1",
        "DELETE FROM artifacts WHERE run = $1",
        "DELETE FROM run_texts WHERE run = $1",
        "DELETE FROM row_counts WHERE run = $1",
        "DELETE FROM events WHERE run = $1",
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < BH_ARRAY_LEN(statements); i++)
        rc = run_with(s, statements[i], run, err);
    return rc;
}

int bh_store_forget(struct bh_store *s, const char *run, struct bh_err **err)
{
    bh_store_check(s);
    BH_ASSERT(s->mode == BH_STORE_WRITE && bh_run_id_valid(run));
    int rc = bh_db_begin(s->db, err);
    if (rc)
        return bh_err_wrap(err, rc, "forgetting run '%s'", run);
    rc = remove_rows(s, run, err);
    if (rc)
        bh_db_rollback(s->db);
    else
        rc = bh_db_commit(s->db, err);
    (void)bh_map_del(s->tails, run);
    return rc ? bh_err_wrap(err, rc, "forgetting run '%s'", run) : 0;
}
