/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead ps: the runs. */
#include <stdio.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/gate_facts.h"

static bool over(const struct bh_run_row *row)
{
    return bh_streq(row->status, "succeeded") || bh_streq(row->status, "failed") || bh_streq(row->status, "cancelled");
}

/* A run that nobody owns and that has not ended was left behind by a process that died. */
static bool abandoned(const struct bh_cli_run *store, const struct bh_run_row *row)
{
    return !over(row) && !bh_home_run_is_owned(&store->home, row->run);
}

/* The gates at which the run waits for a person; one whose events cannot be read has none here, 'show' says why. */
static struct bh_val *asks_of(const struct bh_cli_run *store, const struct bh_run_row *row)
{
    struct bh_gate_facts gates = {0};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    const struct bh_cli_run run = {.home = store->home, .store = store->store, .id = row->run, .row = *row};
    struct bh_val *list = bh_val_list();
    if (over(row) || bh_gate_facts_read(&run, &gates, &err) != 0)
        return list;
    for (size_t i = 0; i < gates.len; i++) {
        if (bh_gate_is_waiting(&run, &gates.items[i]))
            bh_val_add(list, bh_val_str(gates.items[i].name));
    }
    bh_gate_facts_fini(&gates);
    return list;
}

static void print_json(const struct bh_cli_run *store, const struct bh_run_row *rows, size_t n, bool all)
{
    BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < n; i++) {
        if (!all && over(&rows[i]))
            continue;
        struct bh_val *v = bh_val_add(list, bh_val_map());
        bh_val_set_str(v, "run", rows[i].run);
        bh_val_set_str(v, "name", rows[i].name);
        bh_val_set_str(v, "status", rows[i].status);
        bh_val_set_bool(v, "abandoned", abandoned(store, &rows[i]));
        bh_val_set(v, "asks", asks_of(store, &rows[i]));
        bh_cli_set_time(v, "created", rows[i].created);
        bh_cli_set_time(v, "started", rows[i].started);
        bh_cli_set_time(v, "ended", rows[i].ended);
        bh_val_set_str(v, "file", rows[i].file);
    }
    bh_cli_print_json(list);
}

/* "running, asks: publisher, ship" */
static char *status_of(const char *status, const struct bh_val *asks)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_buf_adds(&text, status);
    for (size_t i = 0; i < bh_val_len(asks); i++)
        bh_buf_addf(&text, "%s%s", i == 0 ? ", asks: " : ", ", bh_val_get_str(bh_val_at(asks, i)));
    return bh_strdup(text.data);
}

/* How many gates of it wait. */
static size_t add_row(struct bh_table *table, const struct bh_cli_run *store, const struct bh_run_row *row)
{
    BH_CLEANUP_VAL struct bh_val *asks = asks_of(store, row);
    char created[BH_WALL_TEXT], took[BH_UNIT_TEXT] = "";
    struct bh_wall end = row->ended.us ? row->ended : bh_wall_now();
    bool stale = abandoned(store, row);
    if (row->started.us && !stale)
        bh_format_duration((end.us - row->started.us) * 1000, took);
    bh_wall_format(row->created, created);
    created[19] = '\0';
    BH_CLEANUP_FREE char *status = status_of(stale ? "abandoned" : row->status, asks);
    const char *cells[] = {row->run, row->name, status, created, took};
    bh_table_row(table, cells);
    return bh_val_len(asks);
}

static void print_text(const struct bh_cli_run *store, const struct bh_run_row *rows, size_t n, bool all)
{
    static const char *const heads[] = {"RUN", "NAME", "STATUS", "CREATED (UTC)", "TOOK"};
    struct bh_table *table = bh_table_new(heads, BH_ARRAY_LEN(heads));
    size_t shown = 0, stale = 0, asks = 0;
    for (size_t i = 0; i < n; i++) {
        if (!all && over(&rows[i]))
            continue;
        shown++;
        stale += abandoned(store, &rows[i]);
        asks += add_row(table, store, &rows[i]);
    }
    if (shown > 0) {
        bh_table_print(table);
    } else {
        bh_table_free(table);
        fprintf(stderr, all ? "no runs\n" : "no runs that have not ended\n");
    }
    if (stale > 0)
        fprintf(stderr, "abandoned: its process is gone; 'bulkhead run --resume RUN' goes on with it\n");
    if (asks > 0)
        fprintf(stderr, "asks: waits for a person; 'bulkhead approve RUN NAME' shows what would pass, and asks\n");
    if (shown < n)
        fprintf(stderr, "%zu ended run%s not shown: 'bulkhead ps --all'\n", n - shown, n - shown == 1 ? "" : "s");
}

static int ps(const struct bh_args *args)
{
    struct bh_cli_run store;
    struct bh_err *err = NULL;
    struct bh_run_row *rows = NULL;
    size_t n = 0;
    bool all = bh_args_has(args, "all");
    int rc = bh_cli_store_open(args, &store, &err);
    if (rc == -BH_E_NOT_FOUND) { /* no state yet: no runs */
        bh_err_free(BH_TAKE(err));
        rc = 0;
    } else if (rc == 0) {
        rc = bh_store_list_runs(store.store, &rows, &n, &err);
    }
    if (rc == 0 && bh_args_json(args))
        print_json(&store, rows, n, all);
    else if (rc == 0)
        print_text(&store, rows, n, all);
    bh_run_rows_free(rows, n);
    bh_cli_run_close(&store);
    return rc == 0 ? 0 : bh_cli_fail(args, err);
}

static const struct bh_opt opts[] = {
    {"all", 0, BH_OPT_FLAG, NULL, "ended runs too"},
};

const struct bh_cmd bh_cmd_ps = {
    .name = "ps",
    .operands = "",
    .summary = "list the runs",
    .example = "bulkhead ps --all",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .run = ps,
};
