/* SPDX-License-Identifier: Apache-2.0 */
/* What people type instead of a run id. A run that the store has lost counts: it must not be passed over in silence. */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "scheduler/store/store_priv.h"

#define LISTED 20

static const char latest_word[] = "@latest";

static char *lower(const char *text)
{
    char *copy = bh_strdup(text);
    for (char *p = copy; *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    }
    return copy;
}

/* --- @latest --- */

static int no_latest(const char *name, struct bh_err **err)
{
    if (name)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "no run of a pipeline named '%s'", name);
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "no run '@latest': none was made yet");
    bh_err_hint(err, "'bulkhead run FILE' makes one");
    return rc;
}

static int newest(struct bh_store *s, const char *name, char **ret, struct bh_err **err)
{
    static const char any[] = "SELECT run FROM runs ORDER BY created DESC, run DESC LIMIT 1";
    static const char named[] = "SELECT run FROM runs WHERE name = $1 ORDER BY created DESC, run DESC LIMIT 1";
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(s->db, name ? named : any, &stmt, err);
    if (rc)
        return rc;
    if (name)
        bh_db_bind_text(stmt, 1, name);
    bool row = false;
    rc = bh_db_next(stmt, &row, err);
    if (rc)
        return rc;
    *ret = row ? bh_strdup(bh_db_text(stmt, 0)) : NULL;
    return 0;
}

static int resolve_latest(struct bh_store *s, const char *name, char **ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *run = NULL;
    int rc = newest(s, name, &run, err);
    if (rc == 0)
        rc = bh_store_check_lost(s, "", run ? run : "", err); /* a lost one after it would have been the latest */
    if (rc)
        return rc;
    if (!run)
        return no_latest(name, err);
    *ret = BH_TAKE(run);
    return 0;
}

/* --- prefixes --- */

struct candidates {
    char *first;
    size_t n;
    struct bh_buf list;
};

static void add_candidate(struct candidates *c, struct bh_db_stmt *stmt)
{
    const char *run = bh_db_text(stmt, 0), *name = bh_db_text(stmt, 1), *status = bh_db_text(stmt, 2);
    if (c->n == 0)
        c->first = bh_strdup(run);
    if (c->n < LISTED) {
        char created[BH_WALL_TEXT];
        bh_buf_addf(&c->list, "%s%s  %s  %s  %s", c->n ? "\n" : "", run,
                    bh_wall_format((struct bh_wall){bh_db_int(stmt, 3)}, created), status ? status : "",
                    name ? name : "");
    }
    c->n++;
}

static int find_candidates(struct bh_store *s, const char *prefix, struct candidates *c, struct bh_err **err)
{
    BH_CLEANUP_STMT struct bh_db_stmt *stmt = NULL;
    int rc = bh_db_prepare(s->db,
                           "SELECT run, name, status, created FROM runs WHERE substr(run, 1, $2) = $1 "
                           "ORDER BY created DESC, run DESC",
                           &stmt, err);
    if (rc)
        return rc;
    bh_db_bind_text(stmt, 1, prefix);
    bh_db_bind_int(stmt, 2, (int64_t)strlen(prefix));
    bool row = false;
    rc = bh_db_next(stmt, &row, err);
    while (rc == 0 && row) {
        add_candidate(c, stmt);
        rc = bh_db_next(stmt, &row, err);
    }
    return rc;
}

static int ambiguous(const char *text, struct candidates *c, struct bh_err **err)
{
    int rc = *text ? bh_err_set(err, BH_E_AMBIGUOUS, 0, "'%s' fits %zu runs", text, c->n)
                   : bh_err_set(err, BH_E_AMBIGUOUS, 0, "an empty run id fits every run");
    if (c->n > LISTED)
        bh_buf_addf(&c->list, "\nand %zu older ones", c->n - LISTED);
    bh_err_detail(err, "%s", c->list.data);
    return rc;
}

static int choose(struct bh_store *s, const char *text, const char *prefix, struct candidates *c, char **ret,
                  struct bh_err **err)
{
    int rc = find_candidates(s, prefix, c, err);
    if (rc)
        return rc;
    bool exact = c->n == 1 && strlen(prefix) == BH_ID_LEN;
    if (!exact)
        rc = bh_store_check_lost(s, prefix, "", err);
    if (rc)
        return rc;
    if (c->n == 0)
        return bh_store_no_run(text, err);
    if (c->n > 1 || !*prefix)
        return ambiguous(text, c, err);
    *ret = BH_TAKE(c->first);
    return 0;
}

int bh_store_resolve(struct bh_store *s, const char *text, char **ret_run, struct bh_err **err)
{
    bh_store_check(s);
    if (bh_streq(text, latest_word))
        return resolve_latest(s, NULL, ret_run, err);
    if (bh_starts_with(text, "@latest:"))
        return resolve_latest(s, text + sizeof(latest_word), ret_run, err);
    if (text[0] == '@') {
        int rc = bh_store_no_run(text, err);
        bh_err_hint(err, "'@latest' is the newest run, '@latest:NAME' the newest of the pipeline NAME");
        return rc;
    }
    BH_CLEANUP_FREE char *prefix = lower(text);
    struct candidates c = {.list = BH_BUF_INIT};
    int rc = choose(s, text, prefix, &c, ret_run, err);
    bh_free(c.first);
    bh_buf_fini(&c.list);
    return rc;
}
