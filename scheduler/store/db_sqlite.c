/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite driver: the only user of the library. WAL with synchronous=FULL, so a transaction is on the disk when its
 * commit returns; writers take turns through BEGIN IMMEDIATE and wait with short sleeps; readers never wait for them.
 *
 * In SQLite "$1" is a name, numbered by first appearance: every parameter is bound through its name.
 * The database file is never opened by hand while a connection may exist: closing such a descriptor would drop the
 * locks of this process. No memory map of the database: a file cut short must be an error and not a SIGBUS.
 */
#include "scheduler/store/db.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"

#define APPLICATION_ID 0x62756c6b /* "bulk": a database with another one is not ours */

struct bh_db_stmt {
    struct bh_db *db;
    sqlite3_stmt *stmt;
    const char *sql;
    int index[BH_DB_PARAMS + 1]; /* SQLite's number of $n; 0: not in the text */
    int bind_rc;
    bool in_use;
};

struct bh_db {
    sqlite3 *conn;
    char *path;
    enum bh_db_mode mode;
    int64_t wait_ns;
    struct bh_mono wait_until;
    unsigned reading; /* depth of bh_db_begin_read */
    struct bh_db_stmt **stmts;
    size_t n_stmts, cap_stmts;
};

/* --- errors --- */

static const struct {
    int rc; /* extended codes first, then primary ones */
    enum bh_code code;
} error_codes[] = {
    {SQLITE_IOERR_SHORT_READ, BH_E_STORE_CORRUPT},
    {SQLITE_IOERR_CORRUPTFS, BH_E_STORE_CORRUPT},
    {SQLITE_IOERR_NOMEM, BH_E_NOMEM},
    {SQLITE_IOERR_SHMSIZE, BH_E_DISK_FULL}, /* the wal-index is grown by writing, which fails for want of room alone */
    {SQLITE_CORRUPT, BH_E_STORE_CORRUPT},
    {SQLITE_NOTADB, BH_E_STORE_CORRUPT},
    {SQLITE_FULL, BH_E_DISK_FULL},
    {SQLITE_IOERR, BH_E_IO},
    {SQLITE_CANTOPEN, BH_E_IO},
    {SQLITE_BUSY, BH_E_BUSY},
    {SQLITE_LOCKED, BH_E_BUSY},
    {SQLITE_PROTOCOL, BH_E_BUSY},
    {SQLITE_READONLY, BH_E_PERMISSION},
    {SQLITE_PERM, BH_E_PERMISSION},
    {SQLITE_NOMEM, BH_E_NOMEM},
    {SQLITE_CONSTRAINT, BH_E_EXISTS},
    {SQLITE_TOOBIG, BH_E_TOO_LARGE},
    /* Our statements are fixed and tested: one that does not fit finds tables that are not ours any more. */
    {SQLITE_ERROR, BH_E_STORE_CORRUPT},
    {SQLITE_SCHEMA, BH_E_STORE_CORRUPT},
};

static enum bh_code code_of(int rc)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(error_codes); i++) {
        if (error_codes[i].rc == rc || error_codes[i].rc == (rc & 0xff))
            return error_codes[i].code;
    }
    return BH_E_INTERNAL;
}

static void hint_of(enum bh_code code, struct bh_err **err)
{
    if (code == BH_E_PERMISSION)
        bh_err_hint(err, "run as the owner of the state directory, on a file system that can be written, or give "
                         "another --home");
    else if (code == BH_E_BUSY)
        bh_err_hint(err, "another bulkhead is writing, or stopped while it was: end it and try again");
}

/* SQLite does not keep the errno of every file that it could not make. */
static int cause_of(struct bh_db *db, int rc)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(db->path);
    if ((rc & 0xff) == SQLITE_CANTOPEN && db->mode == BH_DB_WRITE && faccessat(AT_FDCWD, folder, W_OK, AT_EACCESS) < 0)
        return errno;
    return sqlite3_system_errno(db->conn);
}

/* `rc` is what the failing call gave; called before any other call on the connection. */
static int fail(struct bh_db *db, int rc, const char *doing, struct bh_err **err)
{
    enum bh_code code = code_of(rc);
    int cause = code == BH_E_IO ? cause_of(db, rc) : 0;
    const char *text = db->conn && sqlite3_extended_errcode(db->conn) == rc ? sqlite3_errmsg(db->conn) : NULL;
    int ret =
        bh_err_set(err, code, cause, "cannot %s the store '%s': %s", doing, db->path, text ? text : sqlite3_errstr(rc));
    hint_of((enum bh_code) - ret, err);
    return ret;
}

static const char *doing(const struct bh_db *db)
{
    return db->mode == BH_DB_WRITE ? "write" : "read";
}

static void log_hook(void *arg, int rc, const char *message)
{
    (void)arg;
    char code[16];
    (void)snprintf(code, sizeof(code), "%d", rc);
    bh_log(BH_LOG_DEBUG, "store.sqlite", "code", code, "message", message, NULL);
}

/* --- waiting for other writers --- */

static void nap(int attempt)
{
    struct timespec t = {.tv_nsec = attempt < 5 ? 100000L << attempt : 3000000L};
    (void)nanosleep(&t, NULL);
}

/* SQLite's own handler sleeps up to 100 ms at a time, and a commit takes a fraction of one. */
static int on_busy(void *arg, int attempt)
{
    struct bh_db *db = arg;
    int64_t now = bh_mono_now().ns;
    if (attempt == 0)
        db->wait_until.ns = now + db->wait_ns;
    if (now >= db->wait_until.ns)
        return 0;
    nap(attempt);
    return 1;
}

/* --- opening --- */

static int pragma(struct bh_db *db, const char *sql, struct bh_err **err)
{
    int rc = sqlite3_exec(db->conn, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail(db, rc, "open", err);
}

/* One row, one column. `ret_text` may be NULL. Returns SQLite's code. */
static int query_one(struct bh_db *db, const char *sql, int64_t *ret_int, char **ret_text)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db->conn, sql, -1, &stmt, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW) {
        *ret_int = sqlite3_column_int64(stmt, 0);
        if (ret_text)
            *ret_text = bh_strdup((const char *)sqlite3_column_text(stmt, 0));
    }
    int end = sqlite3_finalize(stmt);
    if (rc == SQLITE_ROW)
        return end;
    return rc == SQLITE_DONE ? SQLITE_NOTFOUND : rc;
}

static void add_uri_path(struct bh_buf *out, const char *path)
{
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        bool plain =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || strchr("/._-", *p);
        if (plain)
            bh_buf_addc(out, (char)*p);
        else
            bh_buf_addf(out, "%%%02X", *p);
    }
}

static int connect_to(struct bh_db *db, bool immutable)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI | SQLITE_OPEN_EXRESCODE;
    flags |= db->mode == BH_DB_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    BH_CLEANUP_BUF struct bh_buf uri = BH_BUF_INIT;
    bh_buf_adds(&uri, "file:");
    add_uri_path(&uri, db->path);
    bh_buf_adds(&uri, immutable ? "?immutable=1" : "");
    sqlite3_close_v2(BH_TAKE(db->conn));
    int rc = sqlite3_open_v2(uri.data, &db->conn, flags, NULL);
    if (rc == SQLITE_OK)
        sqlite3_busy_handler(db->conn, on_busy, db);
    return rc;
}

static bool has_wal(const struct bh_db *db)
{
    BH_CLEANUP_FREE char *wal = bh_asprintf("%s-wal", db->path);
    struct stat st;
    return stat(wal, &st) == 0 && st.st_size > 0;
}

/*
 * Where the folder cannot be written (a read-only file system, somebody else's home), a reader can neither make nor
 * map the wal-index. Without a WAL the database file is all there is and is read as it lies.
 */
static int connect_reader(struct bh_db *db, int64_t *ret_tables, struct bh_err **err)
{
    int rc = connect_to(db, false);
    if (rc == SQLITE_OK)
        rc = query_one(db, "SELECT count(*) FROM sqlite_schema", ret_tables, NULL);
    bool no_index = (rc & 0xff) == SQLITE_CANTOPEN || (rc & 0xff) == SQLITE_READONLY;
    if (no_index && !has_wal(db)) {
        rc = connect_to(db, true);
        if (rc == SQLITE_OK)
            rc = query_one(db, "SELECT count(*) FROM sqlite_schema", ret_tables, NULL);
    } else if (no_index) {
        int ret = bh_err_set(err, BH_E_PERMISSION, 0,
                             "cannot read the store '%s': its newest part lies in '%s-wal', and reading that needs "
                             "write permission in the folder",
                             db->path, db->path);
        bh_err_hint(err, "run as the owner of the state directory, or copy it and give the copy as --home");
        return ret;
    }
    return rc == SQLITE_OK ? 0 : fail(db, rc, "open", err);
}

static int connect_writer(struct bh_db *db, int64_t *ret_tables, struct bh_err **err)
{
    /* Made by us for the mode; the journal files inherit it. EEXIST opens nothing (see the head of this file). */
    int fd = open(db->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno != EEXIST)
        return bh_err_set(err, BH_E_IO, errno, "cannot make the store '%s'", db->path);
    bh_close(fd);
    int rc = connect_to(db, false);
    if (rc == SQLITE_OK)
        rc = query_one(db, "SELECT count(*) FROM sqlite_schema", ret_tables, NULL);
    return rc == SQLITE_OK ? 0 : fail(db, rc, "open", err);
}

/* The tables were counted before: another process that is just making them sets the id in the same transaction. */
static int check_identity(struct bh_db *db, int64_t tables, struct bh_err **err)
{
    int64_t id = 0;
    int rc = query_one(db, "PRAGMA application_id", &id, NULL);
    if (rc != SQLITE_OK)
        return fail(db, rc, "open", err);
    if (id == APPLICATION_ID || (id == 0 && tables == 0))
        return 0;
    return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "'%s' is a database, but no store of bulkhead", db->path);
}

/* Only the first of all writers changes the mode, for which it must be alone; that wait is not SQLite's to do. */
static int use_wal(struct bh_db *db, struct bh_err **err)
{
    int64_t ignored = 0;
    BH_CLEANUP_FREE char *mode = NULL;
    int64_t until = bh_mono_now().ns + db->wait_ns;
    int rc = query_one(db, "PRAGMA journal_mode=WAL", &ignored, &mode);
    for (int i = 0; (rc & 0xff) == SQLITE_BUSY && bh_mono_now().ns < until; i++) {
        nap(i);
        rc = query_one(db, "PRAGMA journal_mode=WAL", &ignored, &mode);
    }
    if (rc != SQLITE_OK)
        return fail(db, rc, "open", err);
    if (mode && strcmp(mode, "wal") == 0)
        return 0;
    int ret = bh_err_set(err, BH_E_HOST, 0, "the file system of '%s' cannot hold the store: no shared memory there",
                         db->path);
    bh_err_hint(err, "give a --home on a local file system");
    return ret;
}

static int set_up(struct bh_db *db, struct bh_err **err)
{
    int64_t tables = 0;
    int rc = db->mode == BH_DB_WRITE ? connect_writer(db, &tables, err) : connect_reader(db, &tables, err);
    if (rc == 0)
        rc = check_identity(db, tables, err);
    if (rc == 0)
        rc = pragma(db,
                    "PRAGMA cell_size_check=ON; PRAGMA trusted_schema=OFF; PRAGMA mmap_size=0; "
                    "PRAGMA temp_store=MEMORY",
                    err);
    if (rc)
        return rc;
    if (db->mode == BH_DB_READ)
        return pragma(db, "PRAGMA query_only=ON", err);
    if (sqlite3_db_readonly(db->conn, "main") == 1) /* what SQLite makes of READWRITE where it may only read */
        return fail(db, SQLITE_READONLY, "write", err);
    rc = use_wal(db, err);
    return rc ? rc : pragma(db, "PRAGMA synchronous=FULL; PRAGMA journal_size_limit=67108864", err);
}

int bh_db_open(const char *where, enum bh_db_mode mode, struct bh_db **ret, struct bh_err **err)
{
    (void)sqlite3_config(SQLITE_CONFIG_LOG, log_hook, NULL); /* refused after the first use, which has set it */
    struct stat st;
    if (mode == BH_DB_READ && stat(where, &st) < 0)
        return bh_err_set(err, errno == ENOENT ? BH_E_NOT_FOUND : BH_E_IO, errno, "cannot open the store '%s'", where);
    struct bh_db *db = bh_alloc(sizeof(*db));
    db->path = bh_strdup(where);
    db->mode = mode;
    db->wait_ns = BH_DB_WAIT_NS;
    int rc = set_up(db, err);
    if (rc) {
        bh_db_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

void bh_db_close(struct bh_db *db)
{
    if (!db)
        return;
    int saved = errno;
    for (size_t i = 0; i < db->n_stmts; i++) {
        (void)sqlite3_finalize(db->stmts[i]->stmt);
        bh_free(db->stmts[i]);
    }
    bh_free(db->stmts);
    sqlite3_close_v2(db->conn);
    bh_free(db->path);
    bh_free(db);
    errno = saved;
}

void bh_db_set_wait(struct bh_db *db, int64_t ns)
{
    db->wait_ns = ns;
}

int bh_db_version(struct bh_db *db, int64_t *ret, struct bh_err **err)
{
    int rc = query_one(db, "PRAGMA user_version", ret, NULL);
    return rc == SQLITE_OK ? 0 : fail(db, rc, "read", err);
}

int bh_db_set_version(struct bh_db *db, int64_t version, struct bh_err **err)
{
    BH_CLEANUP_FREE char *sql =
        bh_asprintf("PRAGMA application_id=%d; PRAGMA user_version=%lld", APPLICATION_ID, (long long)version);
    return bh_db_script(db, sql, err);
}

int bh_db_script(struct bh_db *db, const char *sql, struct bh_err **err)
{
    int rc = sqlite3_exec(db->conn, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail(db, rc, doing(db), err);
}

/* --- statements --- */

static void index_parameters(struct bh_db_stmt *stmt)
{
    int found = 0;
    for (int n = 1; n <= BH_DB_PARAMS; n++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "$%d", n);
        stmt->index[n] = sqlite3_bind_parameter_index(stmt->stmt, name);
        found += stmt->index[n] > 0;
    }
    BH_ASSERT(found == sqlite3_bind_parameter_count(stmt->stmt));
}

static struct bh_db_stmt *find_statement(struct bh_db *db, const char *sql)
{
    for (size_t i = 0; i < db->n_stmts; i++) {
        if (db->stmts[i]->sql == sql)
            return db->stmts[i];
    }
    return NULL;
}

int bh_db_prepare(struct bh_db *db, const char *sql, struct bh_db_stmt **ret, struct bh_err **err)
{
    struct bh_db_stmt *stmt = find_statement(db, sql);
    if (!stmt) {
        sqlite3_stmt *made = NULL;
        int rc = sqlite3_prepare_v3(db->conn, sql, -1, SQLITE_PREPARE_PERSISTENT, &made, NULL);
        if (rc != SQLITE_OK)
            return fail(db, rc, doing(db), err);
        stmt = bh_alloc(sizeof(*stmt));
        *stmt = (struct bh_db_stmt){.db = db, .stmt = made, .sql = sql};
        index_parameters(stmt);
        *BH_PUSH(db->stmts, db->n_stmts, db->cap_stmts) = stmt;
    }
    BH_ASSERT(!stmt->in_use);
    stmt->in_use = true;
    stmt->bind_rc = SQLITE_OK;
    *ret = stmt;
    return 0;
}

void bh_db_done(struct bh_db_stmt *stmt)
{
    if (!stmt)
        return;
    (void)sqlite3_reset(stmt->stmt); /* gives the error of the last step once more */
    (void)sqlite3_clear_bindings(stmt->stmt);
    stmt->in_use = false;
}

static int place(const struct bh_db_stmt *stmt, int n)
{
    BH_ASSERT(n >= 1 && n <= BH_DB_PARAMS && stmt->index[n] > 0);
    return stmt->index[n];
}

static void bound(struct bh_db_stmt *stmt, int rc)
{
    if (rc != SQLITE_OK && stmt->bind_rc == SQLITE_OK)
        stmt->bind_rc = rc;
}

void bh_db_bind_int(struct bh_db_stmt *stmt, int n, int64_t value)
{
    bound(stmt, sqlite3_bind_int64(stmt->stmt, place(stmt, n), value));
}

void bh_db_bind_text(struct bh_db_stmt *stmt, int n, const char *text)
{
    bound(stmt,
          sqlite3_bind_text64(stmt->stmt, place(stmt, n), text, text ? strlen(text) : 0, SQLITE_STATIC, SQLITE_UTF8));
}

void bh_db_bind_blob(struct bh_db_stmt *stmt, int n, const void *data, size_t len)
{
    bound(stmt, sqlite3_bind_blob64(stmt->stmt, place(stmt, n), len ? data : "", len, SQLITE_STATIC));
}

int bh_db_next(struct bh_db_stmt *stmt, bool *ret_row, struct bh_err **err)
{
    int rc = stmt->bind_rc == SQLITE_OK ? sqlite3_step(stmt->stmt) : stmt->bind_rc;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return fail(stmt->db, rc, doing(stmt->db), err);
    *ret_row = rc == SQLITE_ROW;
    return 0;
}

int bh_db_run(struct bh_db_stmt *stmt, struct bh_err **err)
{
    bool row = true;
    int rc = 0;
    while (rc == 0 && row)
        rc = bh_db_next(stmt, &row, err);
    return rc;
}

int64_t bh_db_int(struct bh_db_stmt *stmt, int column)
{
    return sqlite3_column_int64(stmt->stmt, column);
}

const char *bh_db_text(struct bh_db_stmt *stmt, int column)
{
    return (const char *)sqlite3_column_text(stmt->stmt, column);
}

const void *bh_db_blob(struct bh_db_stmt *stmt, int column, size_t *ret_len)
{
    const void *data = sqlite3_column_blob(stmt->stmt, column);
    *ret_len = (size_t)sqlite3_column_bytes(stmt->stmt, column);
    return data ? data : "";
}

/* --- transactions --- */

static int run_once(struct bh_db *db, const char *sql, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(db, sql, &stmt, err);
    return rc ? rc : bh_db_run(stmt, err);
}

int bh_db_begin(struct bh_db *db, struct bh_err **err)
{
    return run_once(db, "BEGIN IMMEDIATE", err);
}

int bh_db_commit(struct bh_db *db, struct bh_err **err)
{
    int rc = run_once(db, "COMMIT", err);
    if (rc)
        bh_db_rollback(db);
    return rc;
}

void bh_db_rollback(struct bh_db *db)
{
    if (!sqlite3_get_autocommit(db->conn))
        (void)sqlite3_exec(db->conn, "ROLLBACK", NULL, NULL, NULL);
}

int bh_db_begin_read(struct bh_db *db, struct bh_err **err)
{
    int rc = db->reading == 0 ? run_once(db, "BEGIN", err) : 0;
    if (rc == 0)
        db->reading++;
    return rc;
}

void bh_db_end_read(struct bh_db *db)
{
    BH_ASSERT(db->reading > 0);
    if (--db->reading == 0)
        bh_db_rollback(db); /* there is nothing to keep */
}
