/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/store/migrate.h"
#include "tests/support/t.h"

static const struct bh_migration list[] = {
    {1, "CREATE TABLE a (x BIGINT); INSERT INTO a (x) VALUES (1)"},
    {2, "CREATE TABLE b (x BIGINT); INSERT INTO b (x) SELECT x + 1 FROM a"},
    {3, "UPDATE a SET x = 10; CREATE TABLE broken ("},
};

struct fixture {
    char *dir, *path;
    struct bh_db *db;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->dir = t_tmpdir();
    f->path = bh_path_join(f->dir, "m.db");
    T_OK(bh_db_open(f->path, BH_DB_WRITE, &f->db, &err));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bh_db_close(f->db);
    bh_free(f->path);
    t_tmpdir_free(f->dir);
    free(f);
    return 0;
}

static int64_t ask(struct bh_db *db, const char *sql)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    bool row = false;
    T_OK(bh_db_prepare(db, sql, &stmt, &err));
    T_OK(bh_db_next(stmt, &row, &err));
    return row ? bh_db_int(stmt, 0) : -1;
}

static void version_is(struct bh_db *db, int64_t want)
{
    int64_t got = -1;
    T_OK(bh_db_version(db, &got, &err));
    T_INT(got, want);
}

static void applies_what_is_missing_once(void **state)
{
    struct fixture *f = *state;
    version_is(f->db, 0);
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 1, &err));
    version_is(f->db, 1);
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 1, &err));
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 2, &err));
    version_is(f->db, 2);
    T_INT(ask(f->db, "SELECT count(*) FROM a"), 1);
    T_INT(ask(f->db, "SELECT x FROM b"), 2);
    T_OK(bh_migrate(f->db, BH_DB_READ, list, 2, &err));
}

static void a_failing_migration_changes_nothing(void **state)
{
    struct fixture *f = *state;
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 1, &err));
    T_ERR(bh_migrate(f->db, BH_DB_WRITE, list, 3, &err), BH_E_STORE_CORRUPT, "migration 3: cannot write the store");
    version_is(f->db, 1);
    T_INT(ask(f->db, "SELECT x FROM a"), 1);
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 2, &err)); /* no transaction was left open */
}

static void versions_that_do_not_fit_are_named(void **state)
{
    struct fixture *f = *state;
    T_ERR(bh_migrate(f->db, BH_DB_READ, list, 2, &err), BH_E_NOT_FOUND, "the store is empty");
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 1, &err));
    T_ERR(bh_migrate(f->db, BH_DB_READ, list, 2, &err), BH_E_STORE_VERSION, "has version 1, this bulkhead reads 2");
    T_OK(bh_migrate(f->db, BH_DB_WRITE, list, 2, &err));
    T_ERR(bh_migrate(f->db, BH_DB_WRITE, list, 1, &err), BH_E_STORE_VERSION, "version 2, this bulkhead knows up to 1");
    T_ERR(bh_migrate(f->db, BH_DB_READ, list, 1, &err), BH_E_STORE_VERSION, "version 2, this bulkhead knows up to 1");
}

static void the_built_in_ones_are_numbered(void **state)
{
    struct fixture *f = *state;
    T_TRUE(bh_store_n_migrations >= 1);
    for (size_t i = 0; i < bh_store_n_migrations; i++)
        T_INT(bh_store_migrations[i].number, i + 1);
    T_OK(bh_migrate(f->db, BH_DB_WRITE, bh_store_migrations, bh_store_n_migrations, &err));
    version_is(f->db, (int64_t)bh_store_n_migrations);
    T_INT(ask(f->db, "SELECT count(*) FROM events"), 0);
}

/* --- several processes that all found the old version --- */

static bool tell(int fd)
{
    return write(fd, "x", 1) == 1;
}

static void wait_for(int fd, size_t bytes)
{
    char c;
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(read(fd, &c, 1), 1);
}

/* Keeps everybody from writing until `until` ends. */
static int hold_lock(const char *path, int ready, int until)
{
    struct bh_db *db = NULL;
    char c;
    if (bh_db_open(path, BH_DB_WRITE, &db, NULL) != 0 || bh_db_begin(db, NULL) != 0 || !tell(ready))
        return 1;
    while (read(until, &c, 1) > 0)
        continue;
    bh_db_close(db);
    return 0;
}

static int migrate_behind_lock(const char *path, int ready)
{
    struct bh_db *db = NULL;
    if (bh_db_open(path, BH_DB_WRITE, &db, NULL) != 0 || !tell(ready))
        return 1;
    int rc = bh_migrate(db, BH_DB_WRITE, list, 2, NULL);
    bh_db_close(db);
    return rc ? 2 : 0;
}

static bool is_asleep(pid_t pid)
{
    BH_CLEANUP_BUF struct bh_buf stat = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%d/stat", (int)pid);
    T_OK(bh_read_file(path, 4096, &stat, &err));
    const char *end = strrchr(stat.data, ')');
    return end && (end[2] == 'S' || end[2] == 'Z');
}

static void several_processes_migrate_once(void **state)
{
    struct fixture *f = *state;
    int ready[2], until[2], status = 0;
    pid_t pids[4];
    bh_db_close(f->db); /* nothing of it is carried through the forks */
    f->db = NULL;
    assert_int_equal(pipe2(ready, O_CLOEXEC) + pipe2(until, O_CLOEXEC), 0);
    for (int i = 0; i < 4; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            close(until[1]);
            _exit(i == 0 ? hold_lock(f->path, ready[1], until[0]) : migrate_behind_lock(f->path, ready[1]));
        }
        wait_for(ready[0], 1);
    }
    for (int i = 1; i < 4; i++) { /* each has read the version and naps between two attempts to write */
        while (!is_asleep(pids[i]))
            continue;
    }
    close(until[1]);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        T_INT(status, 0);
    }
    close(ready[0]);
    close(ready[1]);
    close(until[0]);
    T_OK(bh_db_open(f->path, BH_DB_WRITE, &f->db, &err));
    version_is(f->db, 2);
    T_INT(ask(f->db, "SELECT count(*) FROM b"), 1);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(applies_what_is_missing_once),       TEST(a_failing_migration_changes_nothing),
        TEST(versions_that_do_not_fit_are_named), TEST(the_built_in_ones_are_numbered),
        TEST(several_processes_migrate_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
