/* SPDX-License-Identifier: Apache-2.0 */
/* Applies migrations. The texts are built in from scheduler/store/migrations by embed.cmake. */
#include "scheduler/store/migrate.h"

const struct bh_migration bh_store_migrations[] = {
#include "store_migrations.inc"
};
const size_t bh_store_n_migrations = BH_ARRAY_LEN(bh_store_migrations);

static int check(int64_t version, enum bh_db_mode mode, int64_t newest, struct bh_err **err)
{
    if (version < 0 || version > newest)
        return bh_err_set(err, BH_E_STORE_VERSION, 0, "the store has version %lld, this bulkhead knows up to %lld",
                          (long long)version, (long long)newest);
    if (mode == BH_DB_WRITE || version == newest)
        return 0;
    if (version == 0)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "the store is empty");
    int rc = bh_err_set(err, BH_E_STORE_VERSION, 0, "the store has version %lld, this bulkhead reads %lld",
                        (long long)version, (long long)newest);
    bh_err_hint(err, "the next 'bulkhead run' in this state directory brings it up to date");
    return rc;
}

static int apply(struct bh_db *db, int64_t version, const struct bh_migration *list, size_t n, struct bh_err **err)
{
    for (size_t i = 0; i < n; i++) {
        BH_ASSERT(list[i].number == (int64_t)i + 1);
        if (list[i].number <= version)
            continue;
        int rc = bh_db_script(db, list[i].sql, err);
        if (rc)
            return bh_err_wrap(err, rc, "migration %lld", (long long)list[i].number);
    }
    return bh_db_set_version(db, (int64_t)n, err);
}

int bh_migrate(struct bh_db *db, enum bh_db_mode mode, const struct bh_migration *list, size_t n, struct bh_err **err)
{
    int64_t version = 0;
    int rc = bh_db_version(db, &version, err);
    if (rc == 0)
        rc = check(version, mode, (int64_t)n, err);
    if (rc || version == (int64_t)n)
        return rc;
    rc = bh_db_begin(db, err);
    if (rc)
        return rc;
    rc = bh_db_version(db, &version, err); /* somebody else may have been first */
    if (rc == 0)
        rc = check(version, mode, (int64_t)n, err);
    if (rc == 0 && version < (int64_t)n)
        rc = apply(db, version, list, n, err);
    if (rc == 0)
        return bh_db_commit(db, err);
    bh_db_rollback(db);
    return rc;
}
