/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the row structs of store.h lie in their tables: one list of columns per table, in the order of the SQL texts.
 * Each row ends in `sum`, the digest of its table's name and its fields, checked when it is read: SQLite's pages carry
 * no check of their own, and a flipped byte must not become a fact. The rows of a run are counted in row_counts, so
 * that one which an index does not find any more is missed.
 */
#pragma once

#include "scheduler/store/db.h"
#include "scheduler/store/store.h"

struct bh_buf;

enum bh_store_column_kind { BH_COLUMN_TEXT, BH_COLUMN_INT, BH_COLUMN_BOOL };
struct bh_store_column {
    enum bh_store_column_kind kind;
    size_t offset;
    bool added; /* by a later migration: a row that has nothing in it has the sum of a row without it */
};
struct bh_store_table {
    const char *name;
    size_t row_size;
    const struct bh_store_column *columns;
    size_t n_columns;
    const char *count; /* $1 run, $2 key: counts the row if it is a new one */
    const char *put;   /* replaces the row of the same key */
};

struct bh_text_row { /* table run_texts */
    char *run, *name, *content;
};

extern const struct bh_store_table bh_store_table_runs, bh_store_table_agents, bh_store_table_attempts,
    bh_store_table_artifacts, bh_store_table_texts;

/* Counts the row and puts it. `scratch` is the caller's. */
int bh_row_put(struct bh_db *db, const struct bh_store_table *table, const void *row, struct bh_buf *scratch,
               struct bh_err **err) BH_MUST_CHECK;
/* Reads the current row of `stmt`, whose columns are those of the table and its sum. */
int bh_row_read(struct bh_db_stmt *stmt, const struct bh_store_table *table, struct bh_buf *scratch, void *ret_row,
                struct bh_err **err) BH_MUST_CHECK;
/* All rows of a bound statement. */
int bh_rows_read(struct bh_db_stmt *stmt, const struct bh_store_table *table, void **ret_rows, size_t *ret_n,
                 struct bh_err **err) BH_MUST_CHECK;
/* STORE_CORRUPT where the run (NULL: the table of runs) has not `n` rows in the table; in the transaction of the read.
 */
int bh_rows_expect(struct bh_db *db, const struct bh_store_table *table, const char *run, size_t n,
                   struct bh_err **err) BH_MUST_CHECK;
/* Frees the texts and leaves NULLs. */
void bh_row_clear(const struct bh_store_table *table, void *row);
void bh_rows_clear(const struct bh_store_table *table, void *rows, size_t n); /* frees the array as well */
