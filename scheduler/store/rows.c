/* SPDX-License-Identifier: Apache-2.0 */
/* Moves rows between structs and tables. The lists below, the SQL texts and the migrations are held together by the
 * tests of the store kit, which write and read every field. */
#include "scheduler/store/rows.h"

#include <string.h>

#include "artifact-bus/digest.h"
#include "base/buf.h"
#include "base/mem.h"
#include "scheduler/store/chain.h"

/* ADDED_: by a later migration. */
#define ADDED_TEXT(type, field)                                                       \
    {                                                                                 \
        .kind = BH_COLUMN_TEXT, .offset = offsetof(struct type, field), .added = true \
    }
#define ADDED_INT(type, field)                                                       \
    {                                                                                \
        .kind = BH_COLUMN_INT, .offset = offsetof(struct type, field), .added = true \
    }
#define ADDED_BOOL(type, field)                                                       \
    {                                                                                 \
        .kind = BH_COLUMN_BOOL, .offset = offsetof(struct type, field), .added = true \
    }
#define TEXT(type, field)                                              \
    {                                                                  \
        .kind = BH_COLUMN_TEXT, .offset = offsetof(struct type, field) \
    }
#define INT(type, field)                                              \
    {                                                                 \
        .kind = BH_COLUMN_INT, .offset = offsetof(struct type, field) \
    }
#define BOOL(type, field)                                              \
    {                                                                  \
        .kind = BH_COLUMN_BOOL, .offset = offsetof(struct type, field) \
    }
/* `owner` and `key` are SQL: whose rows are counted, and the column beside the run that makes the key. */
#define TABLE(table, type, list, owner, key, sql)                                                           \
    {                                                                                                       \
        .name = table, .row_size = sizeof(struct type), .columns = list, .n_columns = BH_ARRAY_LEN(list),   \
        .count = "INSERT INTO row_counts (run, name, n) SELECT " owner ", '" table "', 1 WHERE NOT EXISTS " \
                 "(SELECT 1 FROM " table " WHERE run = $1 AND " key " = $2) "                               \
                 "ON CONFLICT (run, name) DO UPDATE SET n = row_counts.n + 1",                              \
        .put = sql                                                                                          \
    }

static const struct bh_store_column run_columns[] = {
    TEXT(bh_run_row, run),       TEXT(bh_run_row, name),         TEXT(bh_run_row, status),  TEXT(bh_run_row, file),
    INT(bh_run_row, created.us), INT(bh_run_row, started.us),    INT(bh_run_row, ended.us), TEXT(bh_run_row, params),
    TEXT(bh_run_row, failure),   ADDED_TEXT(bh_run_row, limits),
};
const struct bh_store_table bh_store_table_runs =
    TABLE("runs", bh_run_row, run_columns, "''", "run",
          "INSERT INTO runs (run, name, status, file, created, started, ended, params, failure, limits, sum) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) ON CONFLICT (run) DO UPDATE SET "
          "name = excluded.name, status = excluded.status, file = excluded.file, created = excluded.created, "
          "started = excluded.started, ended = excluded.ended, params = excluded.params, "
          "failure = excluded.failure, limits = excluded.limits, sum = excluded.sum");

static const struct bh_store_column agent_columns[] = {
    TEXT(bh_agent_row, run),      TEXT(bh_agent_row, name),   TEXT(bh_agent_row, stage),
    TEXT(bh_agent_row, topology), TEXT(bh_agent_row, box),    TEXT(bh_agent_row, status),
    TEXT(bh_agent_row, label),    TEXT(bh_agent_row, reason), INT(bh_agent_row, position),
};
const struct bh_store_table bh_store_table_agents =
    TABLE("agents", bh_agent_row, agent_columns, "$1", "name",
          "INSERT INTO agents (run, name, stage, topology, box, status, label, reason, position, sum) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (run, name) DO UPDATE SET "
          "stage = excluded.stage, topology = excluded.topology, box = excluded.box, status = excluded.status, "
          "label = excluded.label, reason = excluded.reason, position = excluded.position, sum = excluded.sum");

static const struct bh_store_column attempt_columns[] = {
    TEXT(bh_attempt_row, run),
    TEXT(bh_attempt_row, instance),
    TEXT(bh_attempt_row, agent),
    TEXT(bh_attempt_row, status),
    TEXT(bh_attempt_row, reason),
    TEXT(bh_attempt_row, detail),
    TEXT(bh_attempt_row, box),
    INT(bh_attempt_row, attempt),
    INT(bh_attempt_row, try_),
    INT(bh_attempt_row, epoch),
    INT(bh_attempt_row, exit_code),
    INT(bh_attempt_row, signal),
    INT(bh_attempt_row, created.us),
    INT(bh_attempt_row, started.us),
    INT(bh_attempt_row, ended.us),
    BOOL(bh_attempt_row, selected),
    TEXT(bh_attempt_row, usage),
    TEXT(bh_attempt_row, kept_box),
    ADDED_TEXT(bh_attempt_row, limits),
    ADDED_INT(bh_attempt_row, output_dropped),
    ADDED_TEXT(bh_attempt_row, evidence),
    ADDED_TEXT(bh_attempt_row, kind),
    ADDED_TEXT(bh_attempt_row, snapshot),
    ADDED_BOOL(bh_attempt_row, snapshot_reused),
    ADDED_TEXT(bh_attempt_row, score),
};
const struct bh_store_table bh_store_table_attempts =
    TABLE("attempts", bh_attempt_row, attempt_columns, "$1", "instance",
          "INSERT INTO attempts (run, instance, agent, status, reason, detail, box, attempt, try, epoch, exit_code, "
          "signal, created, started, ended, selected, usage, kept_box, limits, output_dropped, evidence, "
          "kind, snapshot, snapshot_reused, score, sum) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, "
          "$22, $23, $24, "
          "$25, $26) "
          "ON CONFLICT (run, instance) DO UPDATE SET agent = excluded.agent, status = excluded.status, "
          "reason = excluded.reason, detail = excluded.detail, box = excluded.box, attempt = excluded.attempt, "
          "try = excluded.try, epoch = excluded.epoch, exit_code = excluded.exit_code, signal = excluded.signal, "
          "created = excluded.created, started = excluded.started, ended = excluded.ended, "
          "selected = excluded.selected, usage = excluded.usage, kept_box = excluded.kept_box, "
          "limits = excluded.limits, output_dropped = excluded.output_dropped, evidence = excluded.evidence, "
          "kind = excluded.kind, snapshot = excluded.snapshot, snapshot_reused = excluded.snapshot_reused, "
          "score = excluded.score, sum = excluded.sum");

static const struct bh_store_column artifact_columns[] = {
    TEXT(bh_artifact_row, run),         TEXT(bh_artifact_row, name),       TEXT(bh_artifact_row, digest),
    TEXT(bh_artifact_row, kind),        TEXT(bh_artifact_row, agent),      TEXT(bh_artifact_row, instance),
    TEXT(bh_artifact_row, label),       TEXT(bh_artifact_row, provenance), INT(bh_artifact_row, size),
    INT(bh_artifact_row, attempt),      BOOL(bh_artifact_row, executable), BOOL(bh_artifact_row, private_),
    INT(bh_artifact_row, published.us),
};
const struct bh_store_table bh_store_table_artifacts =
    TABLE("artifacts", bh_artifact_row, artifact_columns, "$1", "name",
          "INSERT INTO artifacts (run, name, digest, kind, agent, instance, label, provenance, size, attempt, "
          "executable, private, published, sum) "
          "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) "
          "ON CONFLICT (run, name) DO UPDATE SET digest = excluded.digest, kind = excluded.kind, "
          "agent = excluded.agent, instance = excluded.instance, label = excluded.label, "
          "provenance = excluded.provenance, size = excluded.size, attempt = excluded.attempt, "
          "executable = excluded.executable, private = excluded.private, published = excluded.published, "
          "sum = excluded.sum");

static const struct bh_store_column text_columns[] = {
    TEXT(bh_text_row, run),
    TEXT(bh_text_row, name),
    TEXT(bh_text_row, content),
};
const struct bh_store_table bh_store_table_texts =
    TABLE("run_texts", bh_text_row, text_columns, "$1", "name",
          "INSERT INTO run_texts (run, name, content, sum) VALUES ($1, $2, $3, $4) "
          "ON CONFLICT (run, name) DO UPDATE SET content = excluded.content, sum = excluded.sum");

/* --- fields --- */

static const void *field(const void *row, const struct bh_store_column *column)
{
    return (const char *)row + column->offset;
}

static const char *get_text(const void *row, const struct bh_store_column *column)
{
    return *(char *const *)field(row, column);
}

static int64_t get_int(const void *row, const struct bh_store_column *column)
{
    return column->kind == BH_COLUMN_BOOL ? *(const bool *)field(row, column) : *(const int64_t *)field(row, column);
}

static bool is_empty(const void *row, const struct bh_store_column *column)
{
    return column->kind == BH_COLUMN_TEXT ? !get_text(row, column) : get_int(row, column) == 0;
}

static struct bh_digest sum_of(const struct bh_store_table *table, const void *row, struct bh_buf *scratch)
{
    bh_buf_clear(scratch);
    bh_chain_add_text(scratch, table->name);
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct bh_store_column *column = &table->columns[i];
        if (column->added && is_empty(row, column))
            continue;
        if (column->added) /* which of the added ones it is */
            bh_chain_add_int(scratch, (int64_t)i);
        if (column->kind == BH_COLUMN_TEXT)
            bh_chain_add_text(scratch, get_text(row, column));
        else
            bh_chain_add_int(scratch, get_int(row, column));
    }
    return bh_digest_of(scratch->data, scratch->len);
}

/* Every table begins with the run and the rest of its key; that of runs has the run alone, which stands for both. */
static const char *key_of(const struct bh_store_table *table, const void *row)
{
    return get_text(row, &table->columns[table == &bh_store_table_runs ? 0 : 1]);
}

static int count_row(struct bh_db *db, const struct bh_store_table *table, const void *row, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(db, table->count, &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, get_text(row, &table->columns[0]));
    bh_db_bind_text(stmt, 2, key_of(table, row));
    return bh_db_run(stmt, err);
}

int bh_row_put(struct bh_db *db, const struct bh_store_table *table, const void *row, struct bh_buf *scratch,
               struct bh_err **err)
{
    struct bh_digest sum = sum_of(table, row, scratch);
    int rc = count_row(db, table, row, err);
    if (rc)
        return rc;
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    rc = bh_db_prepare(db, table->put, &stmt, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < table->n_columns; i++) {
        const struct bh_store_column *column = &table->columns[i];
        if (column->kind == BH_COLUMN_TEXT)
            bh_db_bind_text(stmt, (int)i + 1, get_text(row, column));
        else
            bh_db_bind_int(stmt, (int)i + 1, get_int(row, column));
    }
    bh_db_bind_blob(stmt, (int)table->n_columns + 1, sum.b, sizeof(sum.b));
    return bh_db_run(stmt, err);
}

static void read_field(struct bh_db_stmt *stmt, int i, const struct bh_store_column *column, void *row)
{
    void *to = (char *)row + column->offset;
    if (column->kind == BH_COLUMN_TEXT)
        *(char **)to = bh_strdup(bh_db_text(stmt, i));
    else if (column->kind == BH_COLUMN_INT)
        *(int64_t *)to = bh_db_int(stmt, i);
    else
        *(bool *)to = bh_db_int(stmt, i) != 0;
}

int bh_row_read(struct bh_db_stmt *stmt, const struct bh_store_table *table, struct bh_buf *scratch, void *ret_row,
                struct bh_err **err)
{
    memset(ret_row, 0, table->row_size);
    for (size_t i = 0; i < table->n_columns; i++)
        read_field(stmt, (int)i, &table->columns[i], ret_row);
    struct bh_digest sum = sum_of(table, ret_row, scratch);
    size_t len = 0;
    const void *stored = bh_db_blob(stmt, (int)table->n_columns, &len);
    if (len == sizeof(sum.b) && memcmp(stored, sum.b, len) == 0)
        return 0;
    const char *run = get_text(ret_row, &table->columns[0]), *key = key_of(table, ret_row);
    int rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "a row of '%s' does not have the digest it was written with",
                        table->name);
    bh_err_detail(err, "run '%s', '%s'", run ? run : "", key ? key : "");
    bh_row_clear(table, ret_row);
    return rc;
}

int bh_rows_read(struct bh_db_stmt *stmt, const struct bh_store_table *table, void **ret_rows, size_t *ret_n,
                 struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf scratch = BH_BUF_INIT;
    char *rows = NULL;
    size_t n = 0, cap = 0;
    bool row = false;
    int rc = bh_db_next(stmt, &row, err);
    while (rc == 0 && row) {
        rows = bh_grow(rows, n + 1, &cap, table->row_size);
        rc = bh_row_read(stmt, table, &scratch, rows + n * table->row_size, err);
        if (rc == 0) {
            n++;
            rc = bh_db_next(stmt, &row, err);
        }
    }
    if (rc) {
        bh_rows_clear(table, rows, n);
        return rc;
    }
    *ret_rows = rows;
    *ret_n = n;
    return 0;
}

int bh_rows_expect(struct bh_db *db, const struct bh_store_table *table, const char *run, size_t n, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(db, "SELECT n FROM row_counts WHERE run = $1 AND name = $2", &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, run ? run : "");
    bh_db_bind_text(stmt, 2, table->name);
    bool row = false;
    rc = bh_db_next(stmt, &row, err);
    int64_t want = rc == 0 && row ? bh_db_int(stmt, 0) : 0;
    if (rc || want == (int64_t)n)
        return rc;
    rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the table '%s' has %zu rows where %lld were written", table->name, n,
                    (long long)want);
    if (run)
        bh_err_detail(err, "run '%s'", run);
    return rc;
}

void bh_row_clear(const struct bh_store_table *table, void *row)
{
    for (size_t i = 0; i < table->n_columns; i++) {
        if (table->columns[i].kind != BH_COLUMN_TEXT)
            continue;
        char **text = (char **)(void *)((char *)row + table->columns[i].offset);
        bh_free(*text);
        *text = NULL;
    }
}

void bh_rows_clear(const struct bh_store_table *table, void *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_row_clear(table, (char *)rows + i * table->row_size);
    bh_free(rows);
}

/* --- the public ends --- */

void bh_run_row_fini(struct bh_run_row *r)
{
    bh_row_clear(&bh_store_table_runs, r);
    bh_free(BH_TAKE(r->document));
    bh_free(BH_TAKE(r->submission));
}

void bh_agent_row_fini(struct bh_agent_row *r)
{
    bh_row_clear(&bh_store_table_agents, r);
}

void bh_attempt_row_fini(struct bh_attempt_row *r)
{
    bh_row_clear(&bh_store_table_attempts, r);
}

void bh_artifact_row_fini(struct bh_artifact_row *r)
{
    bh_row_clear(&bh_store_table_artifacts, r);
}

void bh_run_rows_free(struct bh_run_row *rows, size_t n)
{
    bh_rows_clear(&bh_store_table_runs, rows, n);
}

void bh_agent_rows_free(struct bh_agent_row *rows, size_t n)
{
    bh_rows_clear(&bh_store_table_agents, rows, n);
}

void bh_attempt_rows_free(struct bh_attempt_row *rows, size_t n)
{
    bh_rows_clear(&bh_store_table_attempts, rows, n);
}

void bh_artifact_rows_free(struct bh_artifact_row *rows, size_t n)
{
    bh_rows_clear(&bh_store_table_artifacts, rows, n);
}
