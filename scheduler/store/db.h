/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A SQL database as the store needs it, whichever engine is behind it. One driver is linked: db_sqlite.c.
 *
 * One SQL text serves every driver: types BIGINT, TEXT, BYTEA; parameters $1, $2, ..; INSERT .. ON CONFLICT; RETURNING.
 * Booleans are BIGINT 0 and 1, there are no literals of blobs, and order never depends on a collation of text that is
 * not lower-case ASCII. SQL text is a string literal: statements are prepared once and found again by its address.
 *
 * A driver may hold statements back until the transaction commits (a pipeline): an error of bh_db_run may come out of
 * bh_db_commit instead. One thread at a time; never carried through a fork. Everything here may block on the disk.
 */
#pragma once

#include "base/err.h"

struct bh_db;
struct bh_db_stmt;
enum bh_db_mode { BH_DB_READ, BH_DB_WRITE };

/*
 * Opens the database `where` (a path, for SQLite). WRITE makes an empty one where there is none. Errors: NOT_FOUND
 * (READ of nothing), STORE_CORRUPT (no database, a damaged one, or somebody else's), PERMISSION, DISK_FULL, BUSY, IO,
 * HOST (a file system that cannot hold it).
 */
int bh_db_open(const char *where, enum bh_db_mode mode, struct bh_db **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_db_close(struct bh_db *db); /* NULL is fine; what was not committed is rolled back */

/* How long a transaction waits for other writers before -BH_E_BUSY. */
#define BH_DB_WAIT_NS INT64_C(10000000000)
void bh_db_set_wait(struct bh_db *db, int64_t ns);

/* The number of the newest migration in it; 0 for an empty database. Set it inside of a transaction. */
int bh_db_version(struct bh_db *db, int64_t *ret, struct bh_err **err) BH_MUST_CHECK;
int bh_db_set_version(struct bh_db *db, int64_t version, struct bh_err **err) BH_MUST_CHECK;
/* Several statements without parameters and rows, for migrations. */
int bh_db_script(struct bh_db *db, const char *sql, struct bh_err **err) BH_MUST_CHECK;

/*
 * A transaction that writes. BUSY comes out of begin alone. An error of commit leaves it unknown whether the
 * transaction will be found by the next process that opens the database; in this one it is rolled back.
 */
int bh_db_begin(struct bh_db *db, struct bh_err **err) BH_MUST_CHECK;
int bh_db_commit(struct bh_db *db, struct bh_err **err) BH_MUST_CHECK; /* durable on return */
void bh_db_rollback(struct bh_db *db);                                 /* harmless where none is open */
/* Between the two every read sees the database as it was at the first one. They nest. */
int bh_db_begin_read(struct bh_db *db, struct bh_err **err) BH_MUST_CHECK;
void bh_db_end_read(struct bh_db *db);

/*
 * Gives a statement to bind and run; it belongs to the caller until bh_db_done and to one user at a time (asserted).
 * Bound texts and blobs are borrowed until then.
 */
#define BH_DB_PARAMS 32
int bh_db_prepare(struct bh_db *db, const char *sql, struct bh_db_stmt **ret, struct bh_err **err) BH_MUST_CHECK;
void bh_db_done(struct bh_db_stmt *stmt); /* NULL is fine */
static inline void bh_db_donep(struct bh_db_stmt **stmt)
{
    bh_db_done(*stmt);
}
#define BH_CLEANUP_STMT BH_CLEANUP(bh_db_donep)

/* `n` is the number behind the $. A failure shows in the run. */
void bh_db_bind_int(struct bh_db_stmt *stmt, int n, int64_t value);
void bh_db_bind_text(struct bh_db_stmt *stmt, int n, const char *text); /* NULL binds NULL */
void bh_db_bind_blob(struct bh_db_stmt *stmt, int n, const void *data, size_t len);

int bh_db_run(struct bh_db_stmt *stmt, struct bh_err **err) BH_MUST_CHECK; /* EXISTS: a key is taken */
int bh_db_next(struct bh_db_stmt *stmt, bool *ret_row, struct bh_err **err) BH_MUST_CHECK;

/* Columns of the current row, from 0; texts and blobs are borrowed until the next bh_db_next or bh_db_done. */
int64_t bh_db_int(struct bh_db_stmt *stmt, int column);
const char *bh_db_text(struct bh_db_stmt *stmt, int column); /* NULL for NULL */
const void *bh_db_blob(struct bh_db_stmt *stmt, int column, size_t *ret_len);
