/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a database to the newest schema, or says that it cannot be read by this version. */
#pragma once

#include "scheduler/store/db.h"

struct bh_migration {
    int64_t number; /* from 1, without gaps */
    const char *sql;
};
/* The numbered files of scheduler/store/migrations. */
extern const struct bh_migration bh_store_migrations[];
extern const size_t bh_store_n_migrations;

/*
 * WRITE applies what is missing, all of it in one transaction; several processes may do it at once. READ only checks:
 * NOT_FOUND for an empty database. STORE_VERSION where the database is newer than the list, or older in READ.
 */
int bh_migrate(struct bh_db *db, enum bh_db_mode mode, const struct bh_migration *list, size_t n,
               struct bh_err **err) BH_MUST_CHECK;
