/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What people type instead of a run id. It chooses from checked rows, and a run that the store has lost counts: the
 * wrong run must not be taken in silence.
 */
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "scheduler/store/store_priv.h"

#define LISTED 20

static const char latest_word[] = "@latest";

struct runs {
    struct bh_run_row *rows; /* newest first */
    size_t n;
};

static char *lower(const char *text)
{
    char *copy = bh_strdup(text);
    for (char *p = copy; *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
    }
    return copy;
}

static int no_latest(const char *name, struct bh_err **err)
{
    if (name)
        return bh_err_set(err, BH_E_NOT_FOUND, 0, "no run of a pipeline named '%s'", name);
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "no run '@latest': none was made yet");
    bh_err_hint(err, "'bulkhead run FILE' makes one");
    return rc;
}

static int choose_latest(struct bh_store *s, const struct runs *runs, const char *name, char **ret, struct bh_err **err)
{
    const char *run = NULL;
    for (size_t i = 0; !run && i < runs->n; i++) {
        if (!name || bh_streq(runs->rows[i].name, name))
            run = runs->rows[i].run;
    }
    int rc = bh_store_check_lost(s, "", run ? run : "", err); /* a lost one after it would have been the latest */
    if (rc)
        return rc;
    if (!run)
        return no_latest(name, err);
    *ret = bh_strdup(run);
    return 0;
}

static void list_candidates(const struct runs *runs, const char *prefix, size_t n, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf list = BH_BUF_INIT;
    size_t shown = 0;
    for (size_t i = 0; i < runs->n && shown < LISTED; i++) {
        const struct bh_run_row *r = &runs->rows[i];
        char created[BH_WALL_TEXT];
        if (bh_starts_with(r->run, prefix))
            bh_buf_addf(&list, "%s%s  %s  %s  %s", shown++ ? "\n" : "", r->run, bh_wall_format(r->created, created),
                        r->status ? r->status : "", r->name ? r->name : "");
    }
    if (n > shown)
        bh_buf_addf(&list, "\nand %zu older ones", n - shown);
    bh_err_detail(err, "%s", list.data);
}

static int choose_prefix(struct bh_store *s, const struct runs *runs, const char *text, const char *prefix, char **ret,
                         struct bh_err **err)
{
    const char *found = NULL;
    size_t n = 0;
    int rc = bh_store_check_lost(s, prefix, "", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < runs->n; i++) {
        if (bh_starts_with(runs->rows[i].run, prefix)) {
            found = runs->rows[i].run;
            n++;
        }
    }
    if (n == 0)
        return bh_store_no_run(text, err);
    if (n == 1 && *prefix) {
        *ret = bh_strdup(found);
        return 0;
    }
    rc = *text ? bh_err_set(err, BH_E_AMBIGUOUS, 0, "'%s' fits %zu runs", text, n)
               : bh_err_set(err, BH_E_AMBIGUOUS, 0, "an empty run id fits every run");
    list_candidates(runs, prefix, n, err);
    return rc;
}

/* A full id needs none of the other runs. */
static int choose_id(struct bh_store *s, const char *id, char **ret, struct bh_err **err)
{
    int rc = bh_store_check_head(s, id, err);
    if (rc == 0)
        *ret = bh_strdup(id);
    return rc;
}

int bh_store_resolve(struct bh_store *s, const char *text, char **ret_run, struct bh_err **err)
{
    bh_store_check(s);
    bool latest = bh_streq(text, latest_word), named = bh_starts_with(text, "@latest:");
    if (text[0] == '@' && !latest && !named) {
        int rc = bh_store_no_run(text, err);
        bh_err_hint(err, "'@latest' is the newest run, '@latest:NAME' the newest of the pipeline NAME");
        return rc;
    }
    BH_CLEANUP_FREE char *prefix = lower(text);
    if (bh_run_id_valid(prefix))
        return choose_id(s, prefix, ret_run, err);
    struct runs runs = {0};
    int rc = bh_store_read_runs(s, &runs.rows, &runs.n, err);
    if (rc)
        return rc;
    if (latest || named)
        rc = choose_latest(s, &runs, named ? text + sizeof(latest_word) : NULL, ret_run, err);
    else
        rc = choose_prefix(s, &runs, text, prefix, ret_run, err);
    bh_run_rows_free(runs.rows, runs.n);
    return rc;
}
