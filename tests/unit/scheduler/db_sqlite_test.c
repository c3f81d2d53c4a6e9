/* SPDX-License-Identifier: Apache-2.0 */
/* The driver by itself: parameters by name, types, errors, transactions, and files that are no store. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "scheduler/store/db.h"
#include "tests/support/t.h"

struct fixture {
    char *dir, *path;
    struct bh_db *db;
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->dir = t_tmpdir();
    f->path = bh_path_join(f->dir, "x.db");
    T_OK(bh_db_open(f->path, BH_DB_WRITE, &f->db, &err));
    T_OK(bh_db_begin(f->db, &err));
    T_OK(bh_db_script(f->db, "CREATE TABLE t (k BIGINT PRIMARY KEY, a TEXT, b BYTEA, n BIGINT)", &err));
    T_OK(bh_db_set_version(f->db, 1, &err));
    T_OK(bh_db_commit(f->db, &err));
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

static const char insert[] = "INSERT INTO t (k, a, b, n) VALUES ($1, $2, $3, $4)";

static int put(struct bh_db *db, int64_t k, const char *a, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(db, insert, &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_int(stmt, 1, k);
    bh_db_bind_text(stmt, 2, a);
    return bh_db_run(stmt, err);
}

static int64_t count(struct bh_db *db)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    bool row = false;
    T_OK(bh_db_prepare(db, "SELECT count(*) FROM t", &stmt, &err));
    T_OK(bh_db_next(stmt, &row, &err));
    return bh_db_int(stmt, 0);
}

static void pragma_is(struct bh_db *db, const char *sql, const char *want)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    bool row = false;
    T_OK(bh_db_prepare(db, sql, &stmt, &err));
    T_OK(bh_db_next(stmt, &row, &err));
    T_STR(bh_db_text(stmt, 0), want);
}

/* SQLite numbers "$2 .. $1" by first appearance; bound by number the columns would change places. */
static void parameters_are_bound_by_their_names(void **state)
{
    struct fixture *f = *state;
    T_OK(put(f->db, 1, "old", &err));
    struct bh_db_stmt *stmt = NULL;
    T_OK(bh_db_prepare(f->db, "UPDATE t SET a = $2, n = $3 WHERE k = $1 AND $1 > 0", &stmt, &err));
    bh_db_bind_int(stmt, 1, 1);
    bh_db_bind_text(stmt, 2, "new");
    bh_db_bind_int(stmt, 3, 42);
    T_OK(bh_db_run(stmt, &err));
    bh_db_done(stmt);
    bool row = false;
    T_OK(bh_db_prepare(f->db, "SELECT a, n FROM t WHERE k = $1", &stmt, &err));
    bh_db_bind_int(stmt, 1, 1);
    T_OK(bh_db_next(stmt, &row, &err));
    T_TRUE(row);
    T_STR(bh_db_text(stmt, 0), "new");
    T_INT(bh_db_int(stmt, 1), 42);
    T_OK(bh_db_next(stmt, &row, &err));
    T_TRUE(!row);
    bh_db_done(stmt);
    bh_db_done(NULL);
}

static void types_come_back(void **state)
{
    struct fixture *f = *state;
    static const char blob[] = {0, 1, '\'', 0, (char)0xff};
    struct bh_db_stmt *stmt = NULL;
    T_OK(bh_db_prepare(f->db, insert, &stmt, &err));
    bh_db_bind_int(stmt, 1, INT64_MIN);
    bh_db_bind_text(stmt, 2, NULL);
    bh_db_bind_blob(stmt, 3, blob, sizeof(blob));
    bh_db_bind_int(stmt, 4, INT64_MAX);
    T_OK(bh_db_run(stmt, &err));
    bh_db_done(stmt);
    T_OK(bh_db_prepare(f->db, insert, &stmt, &err)); /* what was bound before is gone */
    bh_db_bind_int(stmt, 1, 2);
    bh_db_bind_blob(stmt, 3, NULL, 0);
    T_OK(bh_db_run(stmt, &err));
    bh_db_done(stmt);
    T_OK(bh_db_prepare(f->db, "SELECT k, a, b, n, typeof(b) FROM t ORDER BY k", &stmt, &err));
    bool row = false;
    size_t len = 99;
    T_OK(bh_db_next(stmt, &row, &err));
    T_TRUE(bh_db_int(stmt, 0) == INT64_MIN && bh_db_int(stmt, 3) == INT64_MAX);
    assert_null(bh_db_text(stmt, 1));
    const void *got = bh_db_blob(stmt, 2, &len);
    T_INT(len, sizeof(blob));
    assert_memory_equal(got, blob, len);
    T_STR(bh_db_text(stmt, 4), "blob");
    T_OK(bh_db_next(stmt, &row, &err));
    T_INT(bh_db_int(stmt, 3), 0);
    T_TRUE(bh_db_blob(stmt, 2, &len) != NULL && len == 0);
    T_STR(bh_db_text(stmt, 4), "blob");
    bh_db_done(stmt);
}

static void a_taken_key_exists(void **state)
{
    struct fixture *f = *state;
    T_OK(put(f->db, 1, "first", &err));
    T_ERR(put(f->db, 1, "second", &err), BH_E_EXISTS, "UNIQUE constraint failed");
    T_OK(put(f->db, 2, "the statement is usable again", &err));
    T_INT(count(f->db), 2);
}

static void transactions_hold_together(void **state)
{
    struct fixture *f = *state;
    bh_db_rollback(f->db); /* harmless */
    T_OK(bh_db_begin(f->db, &err));
    T_OK(put(f->db, 1, "a", &err));
    T_OK(put(f->db, 2, "b", &err));
    bh_db_rollback(f->db);
    T_INT(count(f->db), 0);
    T_OK(bh_db_begin(f->db, &err));
    T_OK(put(f->db, 1, "a", &err));
    struct bh_db *reader = NULL;
    T_OK(bh_db_open(f->path, BH_DB_READ, &reader, &err)); /* a reader is not kept waiting and sees what was committed */
    bh_db_set_wait(reader, 0);
    T_INT(count(reader), 0);
    T_OK(bh_db_commit(f->db, &err));
    T_INT(count(reader), 1);
    T_ERR(put(reader, 9, "x", &err), BH_E_PERMISSION, "readonly");
    bh_db_close(reader);
}

static void another_writer_is_waited_for(void **state)
{
    struct fixture *f = *state;
    struct bh_db *other = NULL;
    T_OK(bh_db_open(f->path, BH_DB_WRITE, &other, &err));
    T_OK(bh_db_begin(other, &err));
    bh_db_set_wait(f->db, 20 * INT64_C(1000000));
    struct bh_err *why = NULL;
    T_INT(bh_db_begin(f->db, &why), -BH_E_BUSY);
    T_TRUE(strstr(bh_err_message(why), "x.db': database is locked") != NULL);
    T_TRUE(strstr(bh_err_get_hint(why), "another bulkhead is writing") != NULL);
    bh_err_free(why);
    bh_db_rollback(other);
    T_OK(bh_db_begin(f->db, &err));
    bh_db_close(other);
}

static void commits_are_synced(void **state)
{
    struct fixture *f = *state;
    pragma_is(f->db, "PRAGMA synchronous", "2");
    pragma_is(f->db, "PRAGMA journal_mode", "wal");
    pragma_is(f->db, "PRAGMA mmap_size", "0");
}

static void files_are_the_owners_alone(void **state)
{
    struct fixture *f = *state;
    T_OK(put(f->db, 1, "a", &err));
    static const char *const names[] = {"x.db", "x.db-wal", "x.db-shm"};
    for (size_t i = 0; i < 3; i++) {
        char *path = bh_path_join(f->dir, names[i]);
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        T_INT(st.st_mode & 07777, 0600);
        bh_free(path);
    }
}

static void wrong_sql_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct bh_db_stmt *stmt = (struct bh_db_stmt *)state;
    T_ERR(bh_db_prepare(f->db, "SELECT x FROM nowhere", &stmt, &err), BH_E_STORE_CORRUPT, "no such table: nowhere");
    assert_ptr_equal(stmt, state);
    T_ERR(bh_db_script(f->db, "CREATE TABLE u (a TEXT); CREATE BOGUS", &err), BH_E_STORE_CORRUPT, "syntax error");
}

/* --- files that are something else --- */

static void write_at(const char *path, long offset, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && pwrite(fd, data, len, offset) == (ssize_t)len);
    close(fd);
}

static void expect_refused(const char *path, enum bh_code code, const char *part)
{
    struct bh_db *db = (struct bh_db *)(uintptr_t)path;
    T_ERR(bh_db_open(path, BH_DB_WRITE, &db, &err), code, part);
    T_ERR(bh_db_open(path, BH_DB_READ, &db, &err), code, part);
    assert_ptr_equal(db, path);
}

static void what_is_no_store_is_refused(void **state)
{
    struct fixture *f = *state;
    static const char rubbish[8192] = "this is no database, it is a text of some length";
    char *text = bh_path_join(f->dir, "text"), *foreign = bh_path_join(f->dir, "foreign.db");
    write_at(text, 0, rubbish, sizeof(rubbish));
    expect_refused(text, BH_E_STORE_CORRUPT, "file is not a database");
    expect_refused(f->dir, BH_E_IO, "cannot open the store");
    struct bh_db *db = NULL;
    T_OK(bh_db_open(foreign, BH_DB_WRITE, &db, &err));
    T_OK(bh_db_script(db, "CREATE TABLE contacts (name TEXT)", &err));
    bh_db_close(db);
    expect_refused(foreign, BH_E_STORE_CORRUPT, "is a database, but no store of bulkhead");
    char *missing = bh_path_join(f->dir, "missing/x.db");
    T_ERR(bh_db_open(missing, BH_DB_READ, &db, &err), BH_E_NOT_FOUND, "cannot open the store");
    T_ERR(bh_db_open(missing, BH_DB_WRITE, &db, &err), BH_E_IO, "No such file or directory");
    bh_free(missing);
    bh_free(text);
    bh_free(foreign);
}

static void a_damaged_page_is_named(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 100; i++)
        T_OK(put(f->db, i, "some text to fill the page with, and some more of it", &err));
    bh_db_close(f->db);
    f->db = NULL;
    static const char zeros[4096];
    write_at(f->path, 4096, zeros, sizeof(zeros));
    struct bh_db *db = NULL;
    T_OK(bh_db_open(f->path, BH_DB_READ, &db, &err));
    struct bh_db_stmt *stmt = NULL;
    T_OK(bh_db_prepare(db, "SELECT a FROM t ORDER BY k", &stmt, &err));
    T_ERR(bh_db_run(stmt, &err), BH_E_STORE_CORRUPT, "malformed");
    bh_db_done(stmt);
    bh_db_close(db);
    assert_int_equal(truncate(f->path, 4096 + 100), 0);
    expect_refused(f->path, BH_E_STORE_CORRUPT, "x.db': database disk image is malformed");
}

static void odd_paths_are_taken_as_they_are(void **state)
{
    struct fixture *f = *state;
    char *path = bh_path_join(f->dir, "a?immutable=1&mode=ro %41#\xff.db");
    struct bh_db *db = NULL;
    T_OK(bh_db_open(path, BH_DB_WRITE, &db, &err));
    bh_db_close(db);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    bh_free(path);
}

/* --- places that cannot be written --- */

/* As root the mode bits mean nothing; as somebody else they do. */
static void become_ordinary(void)
{
    if (geteuid() == 0)
        assert_int_equal(seteuid(65534), 0);
}

static void become_owner(void)
{
    if (getuid() == 0)
        assert_int_equal(seteuid(0), 0);
}

static void a_reader_needs_no_write_permission(void **state)
{
    struct fixture *f = *state;
    T_OK(put(f->db, 1, "a", &err));
    assert_int_equal(chmod(f->path, 0444) + chmod(f->dir, 0555), 0);
    struct bh_db *db = NULL;
    /* A writer is at work: what it wrote last lies in files that only its own user may open. */
    if (geteuid() == 0) {
        become_ordinary();
        T_ERR(bh_db_open(f->path, BH_DB_READ, &db, &err), BH_E_PERMISSION, "reading that needs write permission");
        become_owner();
    }
    assert_int_equal(chmod(f->path, 0644) + chmod(f->dir, 0755), 0);
    bh_db_close(f->db);
    f->db = NULL;
    assert_int_equal(chmod(f->path, 0444) + chmod(f->dir, 0555), 0);
    become_ordinary();
    T_OK(bh_db_open(f->path, BH_DB_READ, &db, &err));
    T_INT(count(db), 1);
    bh_db_close(db);
    struct bh_err *why = NULL;
    T_INT(bh_db_open(f->path, BH_DB_WRITE, &db, &why), -BH_E_PERMISSION);
    T_TRUE(strstr(bh_err_get_hint(why), "run as the owner of the state directory") != NULL);
    bh_err_free(why);
    become_owner();
    assert_int_equal(chmod(f->path, 0000), 0);
    become_ordinary();
    T_ERR(bh_db_open(f->path, BH_DB_READ, &db, &err), BH_E_PERMISSION, "Permission denied");
    become_owner();
    assert_int_equal(chmod(f->dir, 0755), 0);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(parameters_are_bound_by_their_names),
        TEST(types_come_back),
        TEST(a_taken_key_exists),
        TEST(transactions_hold_together),
        TEST(another_writer_is_waited_for),
        TEST(commits_are_synced),
        TEST(files_are_the_owners_alone),
        TEST(wrong_sql_is_an_error),
        TEST(what_is_no_store_is_refused),
        TEST(a_damaged_page_is_named),
        TEST(odd_paths_are_taken_as_they_are),
        TEST(a_reader_needs_no_write_permission),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
