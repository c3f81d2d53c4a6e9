/* SPDX-License-Identifier: Apache-2.0 */
/* The store kit on SQLite, and what only this backend can meet: versions, changed rows, lost files. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/store/db.h"
#include "scheduler/store/store_priv.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

static int set_up(void **state)
{
    struct kit_home *h = calloc(1, sizeof(*h));
    kit_home_make(h);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    kit_home_remove(*state);
    free(*state);
    return 0;
}

static struct bh_store *open_store(struct kit_home *h, enum bh_store_mode mode)
{
    struct bh_store *s = NULL;
    T_OK(bh_store_open(&h->home, mode, &s, &err));
    return s;
}

/* Three events and a row of each kind for run 1. */
static void fill(struct kit_home *h)
{
    struct bh_run_id id = kit_run_id(1);
    struct bh_store *s = open_store(h, BH_STORE_WRITE);
    struct bh_run_row run = kit_run_row(id.s, "running");
    run.document = (char *)(uintptr_t) "version: 1";
    struct bh_agent_row agent = {.run = id.s, .name = (char *)(uintptr_t) "a"};
    struct bh_attempt_row attempt = {.run = id.s, .instance = (char *)(uintptr_t) "i"};
    struct bh_artifact_row artifact = {.run = id.s, .name = (char *)(uintptr_t) "f", .size = 5};
    struct bh_store_batch batch = {id.s, NULL, 0, &run, &agent, 1, &attempt, 1, &artifact, 1};
    T_OK(bh_store_commit(s, &batch, &err));
    T_OK(kit_commit_events(s, id.s, 1, 3, &err));
    bh_store_close(s);
}

static char *db_path(struct kit_home *h)
{
    return bh_home_path(&h->home, "store/bulkhead.db");
}

/* As somebody with the sqlite3 program would. */
static void tamper(struct kit_home *h, const char *sql)
{
    char *path = db_path(h);
    struct bh_db *db = NULL;
    T_OK(bh_db_open(path, BH_DB_WRITE, &db, &err));
    T_OK(bh_db_begin(db, &err));
    T_OK(bh_db_script(db, sql, &err));
    T_OK(bh_db_commit(db, &err));
    bh_db_close(db);
    bh_free(path);
}

/* --- events and rows that were changed --- */

static void changed_events_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *part;
        int64_t delivered;
    } cases[] = {
        {"UPDATE events SET payload = payload || ' ' WHERE seq = 2", "event 2 of run '1000000001", 1},
        {"UPDATE events SET kind = 'kit.9' WHERE seq = 1", "event 1 of run", 0},
        {"UPDATE events SET at = 1 WHERE seq = 3", "event 3 of run '10000000010000000000000000' was changed", 2},
        {"UPDATE events SET chain = x'00' WHERE seq = 2", "event 2 of run", 1},
        {"UPDATE events SET chain = x'00' WHERE seq = 3", "event 3 of run", 0},
        {"DELETE FROM events WHERE seq = 2", "event 2 of run '10000000010000000000000000' is missing", 1},
        {"DELETE FROM events WHERE seq = 1", "event 1 of run '10000000010000000000000000' is missing", 0},
        {"DELETE FROM events WHERE seq = 3", "it ends at event 2, the head mark names event 3", 0},
        {"DELETE FROM events", "it ends at event 0, the head mark names event 3", 0},
        {"UPDATE events SET seq = 9 WHERE seq = 2", "event 2 of run '10000000010000000000000000' is missing", 1},
        {"UPDATE events SET payload = 5 WHERE seq = 2", "event 2 of run", 1},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct kit_home own;
        kit_home_make(&own);
        fill(&own);
        tamper(&own, cases[i].sql);
        struct bh_store *s = open_store(&own, BH_STORE_READ);
        int64_t n = 0;
        T_ERR(kit_replay(s, kit_run_id(1).s, &n, &err), BH_E_STORE_CORRUPT, cases[i].part);
        T_INT(n, cases[i].delivered);
        bh_store_close(s);
        kit_home_remove(&own);
    }
}

static int read_all(struct bh_store *s, const char *run, struct bh_err **err)
{
    struct bh_run_row row, *runs;
    struct bh_agent_row *agents;
    struct bh_attempt_row *attempts;
    struct bh_artifact_row *artifacts;
    size_t n;
    int rc = bh_store_get_run(s, run, &row, err);
    if (rc)
        return rc;
    bh_run_row_fini(&row);
    rc = bh_store_list_runs(s, &runs, &n, err);
    if (rc)
        return rc;
    bh_run_rows_free(runs, n);
    rc = bh_store_list_agents(s, run, &agents, &n, err);
    if (rc)
        return rc;
    bh_agent_rows_free(agents, n);
    rc = bh_store_list_attempts(s, run, &attempts, &n, err);
    if (rc)
        return rc;
    bh_attempt_rows_free(attempts, n);
    rc = bh_store_list_artifacts(s, run, &artifacts, &n, err);
    if (rc)
        return rc;
    bh_artifact_rows_free(artifacts, n);
    return 0;
}

static void changed_rows_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *sql, *part;
    } cases[] = {
        {"UPDATE artifacts SET size = 6", "a row of 'artifacts' does not have the digest"},
        {"UPDATE attempts SET selected = 1", "a row of 'attempts'"},
        {"UPDATE agents SET stage = ''", "a row of 'agents'"}, /* NULL and the empty text differ */
        {"UPDATE agents SET run = 'x'", "the table 'agents' has 0 rows where 1 were written"},
        {"UPDATE run_texts SET content = 'version: 2'", "a row of 'run_texts'"},
        {"UPDATE runs SET sum = x''", "a row of 'runs'"},
        {"DELETE FROM artifacts", "the table 'artifacts' has 0 rows where 1 were written"},
        {"DELETE FROM attempts", "the table 'attempts' has 0 rows where 1 were written"},
        {"DELETE FROM run_texts", "the table 'run_texts' has 0 rows where 1 were written"},
        {"DELETE FROM row_counts WHERE name = 'runs'", "the table 'runs' has 1 rows where 0 were written"},
        {"DELETE FROM runs", "the store has events of run '10000000010000000000000000', but not the run"},
        {"DELETE FROM runs; DELETE FROM events", "the store has lost run '10000000010000000000000000'"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct kit_home own;
        kit_home_make(&own);
        fill(&own);
        struct bh_store *s = open_store(&own, BH_STORE_READ);
        T_OK(read_all(s, kit_run_id(1).s, &err));
        bh_store_close(s);
        tamper(&own, cases[i].sql);
        s = open_store(&own, BH_STORE_READ);
        T_ERR(read_all(s, kit_run_id(1).s, &err), BH_E_STORE_CORRUPT, cases[i].part);
        bh_store_close(s);
        kit_home_remove(&own);
    }
}

/* --- versions --- */

static void a_newer_store_is_refused_untouched(void **state)
{
    struct kit_home *h = *state;
    fill(h);
    tamper(h, "PRAGMA user_version=7");
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    T_INT(bh_store_open(&h->home, BH_STORE_WRITE, &s, &why), -BH_E_STORE_VERSION);
    T_TRUE(strstr(bh_err_message(why), "bulkhead.db': the store has version 7, this bulkhead knows up to 5") != NULL);
    T_STR(bh_err_get_hint(why), "use the newer bulkhead, or another --home");
    bh_err_free(why);
    T_ERR(bh_store_open(&h->home, BH_STORE_READ, &s, &err), BH_E_STORE_VERSION, "version 7");
    tamper(h, "PRAGMA user_version=5");
    s = open_store(h, BH_STORE_READ);
    T_OK(read_all(s, kit_run_id(1).s, &err));
    bh_store_close(s);
}

/* Rows that were written before there were the columns have the sums that they had; new ones cover them. */
static void an_older_store_is_brought_up(void **state)
{
    struct kit_home *h = *state;
    struct bh_run_id id = kit_run_id(1);
    fill(h);
    tamper(h, "ALTER TABLE runs DROP COLUMN limits; ALTER TABLE attempts DROP COLUMN limits; "
              "ALTER TABLE attempts DROP COLUMN output_dropped; ALTER TABLE attempts DROP COLUMN evidence; "
              "ALTER TABLE attempts DROP COLUMN kind; ALTER TABLE attempts DROP COLUMN snapshot; "
              "ALTER TABLE attempts DROP COLUMN snapshot_reused; ALTER TABLE attempts DROP COLUMN score; "
              "DROP INDEX artifacts_tainted; "
              "PRAGMA user_version=1");
    struct bh_store *s = NULL;
    T_ERR(bh_store_open(&h->home, BH_STORE_READ, &s, &err), BH_E_STORE_VERSION, "has version 1, this bulkhead reads 5");
    s = open_store(h, BH_STORE_WRITE);
    T_OK(read_all(s, id.s, &err));
    struct bh_attempt_row attempt = {.run = id.s, .instance = (char *)(uintptr_t) "i", .output_dropped = 3};
    struct bh_store_batch batch = {.run = id.s, .attempts = &attempt, .n_attempts = 1};
    T_OK(bh_store_commit(s, &batch, &err));
    T_OK(read_all(s, id.s, &err));
    bh_store_close(s);
    tamper(h, "UPDATE attempts SET output_dropped = 0");
    s = open_store(h, BH_STORE_READ);
    T_ERR(read_all(s, id.s, &err), BH_E_STORE_CORRUPT, "a row of 'attempts' does not have the digest");
    bh_store_close(s);
    tamper(h, "UPDATE attempts SET output_dropped = 3, limits = ''");
    s = open_store(h, BH_STORE_READ);
    T_ERR(read_all(s, id.s, &err), BH_E_STORE_CORRUPT, "a row of 'attempts' does not have the digest");
    bh_store_close(s);
}

/* --- files --- */

static void a_missing_database_is_told_from_none(void **state)
{
    struct kit_home *h = *state;
    fill(h);
    char *path = db_path(h);
    struct bh_store *s = NULL;
    const char *part = "is gone or empty, but run '10000000010000000000000000' was recorded in it up to event 3";
    assert_int_equal(unlink(path), 0);
    T_ERR(bh_store_open(&h->home, BH_STORE_READ, &s, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err), BH_E_STORE_CORRUPT, part); /* and stays so */
    assert_int_equal(bh_store_open(&h->home, BH_STORE_WRITE, &s, NULL), -BH_E_STORE_CORRUPT);
    bh_free(path);
}

static void an_empty_file_is_an_empty_store(void **state)
{
    struct kit_home *h = *state;
    char *path = db_path(h);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    struct bh_store *s = NULL;
    T_ERR(bh_store_open(&h->home, BH_STORE_READ, &s, &err), BH_E_NOT_FOUND, "no run was made in");
    s = open_store(h, BH_STORE_WRITE);
    T_OK(kit_commit_events(s, kit_run_id(1).s, 1, 1, &err));
    bh_store_close(s);
    bh_free(path);
}

static void copy_file(const char *from, const char *to)
{
    struct bh_buf text = BH_BUF_INIT;
    T_OK(bh_read_file(from, 64 << 20, &text, &err));
    T_OK(bh_write_file_atomic(to, text.data, text.len, 0600, &err));
    bh_buf_fini(&text);
}

/* The WAL of a process that was killed holds everything since the last checkpoint; somebody removes it. */
static void a_deleted_wal_is_noticed(void **state)
{
    struct kit_home *h = *state;
    struct bh_run_id old = kit_run_id(1), fresh = kit_run_id(2);
    fill(h);
    char *path = db_path(h), *kept = bh_asprintf("%s.kept", path), *wal = bh_asprintf("%s-wal", path);
    struct bh_store *s = open_store(h, BH_STORE_WRITE), *r = NULL;
    T_OK(kit_commit_events(s, old.s, 4, 2, &err));
    T_OK(kit_commit_run(s, fresh.s, "running", &err));
    copy_file(path, kept); /* as it is without its WAL */
    bh_store_close(s);
    assert_int_equal(rename(kept, path), 0);
    (void)unlink(wal);
    r = open_store(h, BH_STORE_READ);
    int64_t n = 0;
    char *got = NULL;
    T_ERR(kit_replay(r, old.s, &n, &err), BH_E_STORE_CORRUPT, "it ends at event 3, the head mark names event 5");
    T_ERR(bh_store_resolve(r, "@latest", &got, &err), BH_E_STORE_CORRUPT, "has lost run '1000000002");
    T_ERR(bh_store_resolve(r, fresh.s, &got, &err), BH_E_STORE_CORRUPT, "has lost run '1000000002");
    bh_store_close(r);
    bh_free(path);
    bh_free(kept);
    bh_free(wal);
}

static void a_locked_store_is_busy_and_goes_on(void **state)
{
    struct kit_home *h = *state;
    struct bh_run_id run = kit_run_id(1);
    struct bh_store *s = open_store(h, BH_STORE_WRITE);
    T_OK(kit_commit_events(s, run.s, 1, 1, &err));
    char *path = db_path(h);
    struct bh_db *other = NULL;
    T_OK(bh_db_open(path, BH_DB_WRITE, &other, &err));
    T_OK(bh_db_begin(other, &err));
    bh_db_set_wait(s->db, 10 * INT64_C(1000000));
    T_ERR(kit_commit_events(s, run.s, 2, 1, &err), BH_E_BUSY,
          "recording run '10000000010000000000000000': cannot write");
    int64_t n = 0;
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, 1);
    bh_db_rollback(other);
    T_OK(kit_commit_events(s, run.s, 2, 1, &err)); /* nothing had been begun */
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, 2);
    bh_db_close(other);
    bh_store_close(s);
    bh_free(path);
}

static void an_unwritable_home_is_refused(void **state)
{
    struct kit_home *h = *state;
    char *store = bh_home_path(&h->home, "store");
    struct bh_store *s = NULL;
    fill(h);
    assert_int_equal(chmod(h->dir, 0755) + chmod(store, 0555), 0);
    if (geteuid() == 0)
        assert_int_equal(seteuid(65534), 0);
    T_ERR(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err), BH_E_PERMISSION, "store");
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(store, 0700), 0);
    char *path = db_path(h);
    assert_int_equal(unlink(path), 0);
    (void)bh_rmtree_at(h->home.dirfd, "runs");
    assert_int_equal(rmdir(store), 0);
    int fd = open(store, O_WRONLY | O_CREAT, 0600); /* a file where the folder should be */
    close(fd);
    T_ERR(bh_store_open(&h->home, BH_STORE_WRITE, &s, &err), BH_E_IO, "store");
    bh_free(path);
    bh_free(store);
}

static void the_store_outlives_the_callers_home(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(h, BH_STORE_WRITE);
    bh_home_close(&h->home);
    T_OK(kit_commit_events(s, kit_run_id(1).s, 1, 1, &err));
    bh_store_close(s);
    T_OK(bh_home_open(h->dir, false, &h->home, &err));
}

int main(void)
{
    const struct store_kit_backend sqlite = {"store kit: sqlite", bh_store_open};
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(changed_events_are_named),
        TEST(changed_rows_are_named),
        TEST(a_newer_store_is_refused_untouched),
        TEST(an_older_store_is_brought_up),
        TEST(a_missing_database_is_told_from_none),
        TEST(an_empty_file_is_an_empty_store),
        TEST(a_deleted_wal_is_noticed),
        TEST(a_locked_store_is_busy_and_goes_on),
        TEST(an_unwritable_home_is_refused),
        TEST(the_store_outlives_the_callers_home),
    };
    int failed = store_kit_run(&sqlite);
    return cmocka_run_group_tests(tests, NULL, NULL) + failed;
}
