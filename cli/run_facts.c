/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rows, makes the `show` object of the contract: every field present, null where it has no value. */
#include "cli/run_facts.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/run_plan.h"
#include "policies/reasons.h"
#include "scheduler/run_limits.h"

static bool is_over(const struct bh_cli_run *run)
{
    const char *s = run->row.status;
    return bh_streq(s, "succeeded") || bh_streq(s, "failed") || bh_streq(s, "cancelled");
}

static void index_attempts(struct bh_run_facts *facts)
{
    facts->first = bh_map_new(NULL);
    for (size_t i = 0; i < facts->n_attempts; i++) {
        if (!bh_map_has(facts->first, facts->attempts[i].agent))
            bh_map_put(facts->first, facts->attempts[i].agent, (void *)(uintptr_t)(i + 1));
    }
}

/* --- kept shared boxes --- */

/* "ID.EPOCH.NUMBER": the length of ID, 0 where it is no shared box's folder. */
static size_t shared_id_len(const char *name)
{
    size_t len = strlen(name);
    for (int part = 0; part < 2; part++) {
        size_t digits = 0;
        for (; len > 0 && name[len - 1] >= '0' && name[len - 1] <= '9'; len--)
            digits++;
        if (digits == 0 || len < 2 || name[len - 1] != '.')
            return 0;
        len--;
    }
    return len;
}

/* Ids of boxes → the youngest folder of each: of shared boxes one is there only where it was kept. */
static struct bh_map *kept_folders(const struct bh_cli_run *run)
{
    struct bh_map *kept = bh_map_new(bh_free);
    BH_CLEANUP_FREE char *path = bh_home_run_path(&run->home, run->id, "boxes");
    DIR *dir = bh_dir_stream(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir)
        return kept;
    for (const struct dirent *e; (e = readdir(dir));) {
        size_t len = shared_id_len(e->d_name);
        BH_CLEANUP_FREE char *id = bh_strndup(e->d_name, len);
        const char *other = len > 0 ? bh_map_get(kept, id) : NULL;
        if (len == 0 || (other && strverscmp(other, e->d_name) > 0))
            continue;
        bh_map_del(kept, id);
        bh_map_put(kept, id, bh_strdup(e->d_name));
    }
    (void)closedir(dir);
    return kept;
}

/*
 * A shared box is let go of at the end of its run, when all of its agents have been recorded: that it stayed is seen by
 * its folder, and said of the last attempt of each of its agents.
 */
static void find_kept(const struct bh_cli_run *run, struct bh_run_facts *facts)
{
    if (!is_over(run) || bh_home_run_is_owned(&run->home, run->id))
        return;
    struct bh_map *kept = kept_folders(run);
    for (size_t i = 0; i < facts->n_attempts; i++) {
        struct bh_attempt_row *row = &facts->attempts[i];
        bool last = i + 1 == facts->n_attempts || !bh_streq(row->agent, facts->attempts[i + 1].agent);
        const char *folder = last && !row->kept_box ? bh_map_get(kept, row->box) : NULL;
        if (folder)
            row->kept_box = bh_asprintf("runs/%s/boxes/%s", run->id, folder);
    }
    bh_map_free(kept);
}

int bh_run_facts_read(const struct bh_cli_run *run, struct bh_run_facts *ret, struct bh_err **err)
{
    int rc = bh_store_list_agents(run->store, run->id, &ret->agents, &ret->n_agents, err);
    if (rc == 0)
        rc = bh_store_list_attempts(run->store, run->id, &ret->attempts, &ret->n_attempts, err);
    index_attempts(ret);
    if (rc == 0)
        find_kept(run, ret);
    return rc;
}

void bh_run_facts_fini(struct bh_run_facts *facts)
{
    bh_agent_rows_free(facts->agents, facts->n_agents);
    bh_attempt_rows_free(facts->attempts, facts->n_attempts);
    bh_map_free(facts->first);
    *facts = (struct bh_run_facts){0};
}

const struct bh_attempt_row *bh_run_facts_attempts(const struct bh_run_facts *facts, const char *agent, size_t *ret_n)
{
    size_t at = (uintptr_t)bh_map_get(facts->first, agent), n = 0;
    *ret_n = 0;
    if (at == 0)
        return NULL;
    while (at - 1 + n < facts->n_attempts && bh_streq(facts->attempts[at - 1 + n].agent, agent))
        n++;
    *ret_n = n;
    return &facts->attempts[at - 1];
}

/* Rows stand in order of attempt, then try; a setup and a preparation are both attempt 0. */
bool bh_run_facts_is_newest(const struct bh_run_facts *facts, const struct bh_attempt_row *row)
{
    for (const struct bh_attempt_row *r = row + 1; r < facts->attempts + facts->n_attempts; r++) {
        if (!bh_streq(r->agent, row->agent) || r->attempt != row->attempt)
            return true;
        if (bh_streq(r->kind, row->kind))
            return false;
    }
    return true;
}

bool bh_run_facts_has_attempts(const struct bh_agent_row *row)
{
    return bh_streq(row->topology, "per-attempt");
}

/* What the worker writes down of an attempt that was not forked (workers/execution_warm.c). */
static const char started_cold[] = "it started from the disk: ";

char *bh_run_facts_cold(const struct bh_attempt_sum *sum)
{
    return sum->cold == 0 ? NULL
                          : bh_asprintf("%zu of %zu attempt%s started from the disk, not from the warm process: %s",
                                        sum->cold, sum->n, sum->n == 1 ? "" : "s", sum->why_cold);
}

struct bh_attempt_sum bh_run_facts_sum(const struct bh_run_facts *facts, const char *agent)
{
    size_t n = 0;
    struct bh_attempt_sum sum = {0};
    const struct bh_attempt_row *rows = bh_run_facts_attempts(facts, agent, &n);
    for (size_t i = 0; i < n; i++) {
        const struct bh_attempt_row *r = &rows[i];
        bool failed = bh_streq(r->status, "failed") || bh_streq(r->status, "lost");
        if (!bh_run_facts_is_newest(facts, r))
            continue;
        if (r->kind) {
            sum.once = failed ? r : sum.once;
            continue;
        }
        if (sum.n > 0 && !bh_streq(sum.snapshot, r->snapshot) && r->snapshot)
            sum.differ = sum.snapshot != NULL;
        sum.snapshot = r->snapshot ? r->snapshot : sum.snapshot;
        sum.n++;
        const char *cold = r->detail ? strstr(r->detail, started_cold) : NULL;
        sum.why_cold = cold && !sum.why_cold ? cold + strlen(started_cold) : sum.why_cold;
        sum.cold += cold != NULL;
        sum.forked += !cold && r->exit_code >= 0;
        sum.passed += bh_streq(r->status, "succeeded");
        sum.selected = r->selected && !sum.selected ? r : sum.selected;
        sum.failed = failed && !sum.failed ? r : sum.failed;
    }
    sum.snapshot = sum.differ ? NULL : sum.snapshot;
    return sum;
}

char *bh_run_facts_selected(const struct bh_run_facts *facts, const char *agent)
{
    size_t n = 0, chosen = 0;
    struct bh_buf out = BH_BUF_INIT;
    const struct bh_attempt_row *rows = bh_run_facts_attempts(facts, agent, &n);
    for (size_t i = 0; i < n; i++) {
        if (!rows[i].kind && rows[i].selected)
            bh_buf_addf(&out, "%s%lld", chosen++ == 0 ? "" : ", ", (long long)rows[i].attempt);
    }
    BH_CLEANUP_FREE char *numbers = bh_buf_take(&out);
    return chosen == 0 ? NULL : bh_asprintf("attempt%s %s", chosen == 1 ? "" : "s", numbers);
}

bool bh_run_facts_abandoned(const struct bh_cli_run *run)
{
    return !is_over(run) && !bh_home_run_is_owned(&run->home, run->id);
}

static const char *const usage_keys[] = {"cpu_ms",   "max_rss_bytes", "disk_bytes", "box_ms",
                                         "requests", "tokens_in",     "tokens_out"};

static struct bh_val *usage_to_val(const char *json)
{
    BH_CLEANUP_VAL struct bh_val *have = NULL;
    struct bh_val *v = bh_val_map();
    if (json)
        (void)!bh_json_parse(json, strlen(json), &have, NULL);
    for (size_t i = 0; i < BH_ARRAY_LEN(usage_keys); i++) {
        const struct bh_val *one = bh_val_get(have, usage_keys[i]);
        bh_val_set(v, usage_keys[i], one ? bh_val_copy(one) : bh_val_null());
    }
    return v;
}

/* Totals count every execution, also those that failed. */
static void add_usage(struct bh_val *total, const struct bh_val *usage)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(usage_keys); i++) {
        const struct bh_val *one = bh_val_get(usage, usage_keys[i]), *sum = bh_val_get(total, usage_keys[i]);
        if (bh_val_type(one) != BH_VAL_INT)
            continue;
        bool rss = bh_streq(usage_keys[i], "max_rss_bytes");
        int64_t a = bh_val_get_int(sum), b = bh_val_get_int(one);
        bh_val_set_int(total, usage_keys[i], rss ? (a > b ? a : b) : a + b);
    }
}

static struct bh_val *parsed(const char *json)
{
    struct bh_val *v = NULL;
    if (!json || bh_json_parse(json, strlen(json), &v, NULL) != 0)
        return bh_val_null();
    return v;
}

static struct bh_val *attempt_to_val(const struct bh_cli_run *run, const struct bh_attempt_row *row)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_int(v, "attempt", row->attempt);
    bh_val_set_int(v, "try", row->try_);
    bh_val_set_str(v, "instance", row->instance);
    bh_val_set_str(v, "status", row->status);
    bh_val_set_str(v, "reason", row->reason);
    bh_val_set_str(v, "detail", row->detail);
    bh_val_set(v, "exit_code", row->exit_code >= 0 ? bh_val_int(row->exit_code) : bh_val_null());
    bh_val_set(v, "signal", row->signal > 0 ? bh_val_int(row->signal) : bh_val_null());
    bh_cli_set_time(v, "started", row->started);
    bh_cli_set_time(v, "ended", row->ended);
    bool timed = row->started.us && row->ended.us;
    bh_val_set(v, "duration_ms", timed ? bh_val_int((row->ended.us - row->started.us) / 1000) : bh_val_null());
    bh_val_set_str(v, "box", row->box);
    bh_val_set_bool(v, "selected", row->selected);
    BH_CLEANUP_FREE char *kept = row->kept_box ? bh_home_path(&run->home, row->kept_box) : NULL;
    bh_val_set_str(v, "kept_box", kept);
    bh_val_set_str(v, "limits", row->limits);
    bh_val_set_int(v, "output_dropped", row->output_dropped);
    bh_val_set_str(v, "snapshot", row->snapshot);
    bh_val_set(v, "score", parsed(row->score));
    bh_val_set(v, "evidence", parsed(row->evidence));
    bh_val_set(v, "usage", usage_to_val(row->usage));
    return v;
}

/* What its attempts started from; null where there is no such thing. */
static struct bh_val *snapshot_to_val(const struct bh_run_facts *facts, const struct bh_agent_row *row)
{
    struct bh_attempt_sum sum = bh_run_facts_sum(facts, row->name);
    if (!bh_run_facts_has_attempts(row) || (!sum.snapshot && !sum.differ))
        return bh_val_null();
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "digest", sum.snapshot);
    bh_val_set_bool(v, "equal", !sum.differ);
    return v;
}

static struct bh_val *agent_to_val(const struct bh_cli_run *run, const struct bh_run_facts *facts,
                                   const struct bh_agent_row *row, struct bh_val *total)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "name", row->name);
    bh_val_set_str(v, "stage", *row->stage ? row->stage : NULL);
    bh_val_set_str(v, "topology", row->topology);
    bh_val_set_str(v, "box", row->box);
    bh_val_set_str(v, "status", row->status);
    bh_val_set_str(v, "reason", row->reason);
    bh_val_set_str(v, "label", row->label);
    bh_val_set(v, "item", bh_val_null());
    bh_val_set(v, "round", bh_val_null());
    bh_val_set(v, "snapshot", snapshot_to_val(facts, row));
    struct bh_val *once = bh_val_set(v, "preparations", bh_val_list());
    struct bh_val *list = bh_val_set(v, "attempts", bh_val_list());
    size_t n = 0;
    const struct bh_attempt_row *attempts = bh_run_facts_attempts(facts, row->name, &n);
    for (size_t i = 0; i < n; i++) {
        struct bh_val *added = bh_val_add(attempts[i].kind ? once : list, attempt_to_val(run, &attempts[i]));
        if (attempts[i].kind) {
            bh_val_set_str(added, "kind", attempts[i].kind);
            bh_val_set_bool(added, "reused", attempts[i].snapshot_reused);
        }
        add_usage(total, bh_val_get(added, "usage"));
    }
    return v;
}

void bh_run_facts_add_remedy(struct bh_buf *out, const char *run, const char *agent, const char *remedy)
{
    for (const char *p = remedy; *p;) {
        if (strncmp(p, "RUN", 3) == 0) {
            bh_buf_adds(out, run);
            p += 3;
        } else if (strncmp(p, "AGENT", 5) == 0) {
            bh_buf_adds(out, agent);
            p += 5;
        } else {
            bh_buf_addc(out, *p++);
        }
    }
}

static bool is_tainted(const struct bh_cli_run *run, const char *agent)
{
    struct bh_agent_row *rows = NULL;
    size_t n = 0;
    bool tainted = bh_store_list_agents(run->store, run->id, &rows, &n, NULL) != 0;
    for (size_t i = 0; i < n; i++)
        tainted = tainted || (bh_streq(rows[i].name, agent) && !bh_streq(rows[i].label, "trusted"));
    bh_agent_rows_free(rows, n);
    return tainted;
}

struct bh_val *bh_run_facts_failure(const struct bh_cli_run *run)
{
    struct bh_val *v = parsed(run->row.failure);
    const char *remedy = bh_val_str_of(v, "remedy"), *agent = bh_val_str_of(v, "agent");
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (remedy && agent) {
        BH_CLEANUP_FREE char *shown = is_tainted(run, agent) ? bh_remedy_of_tainted(remedy) : bh_strdup(remedy);
        bh_run_facts_add_remedy(&text, run->id, agent, shown);
        bh_val_set_str(v, "remedy", text.data);
    }
    return v;
}

struct bh_val *bh_run_facts_to_val(const struct bh_cli_run *run, const struct bh_run_facts *facts,
                                   const struct bh_plan *plan)
{
    struct bh_val *v = bh_val_map();
    struct bh_val *total = usage_to_val(NULL);
    struct bh_val *agents = bh_val_list();
    for (size_t i = 0; i < facts->n_agents; i++)
        bh_val_add(agents, agent_to_val(run, facts, &facts->agents[i], total));
    bh_val_set_str(v, "run", run->id);
    bh_val_set_str(v, "name", run->row.name);
    bh_val_set_str(v, "status", run->row.status);
    bh_val_set_bool(v, "abandoned", bh_run_facts_abandoned(run));
    bh_val_set_str(v, "file", run->row.file);
    bh_cli_set_time(v, "created", run->row.created);
    bh_cli_set_time(v, "started", run->row.started);
    bh_cli_set_time(v, "ended", run->row.ended);
    bh_val_set(v, "params", bh_run_params(run, plan));
    BH_CLEANUP_FREE char *watched = bh_run_limits_list(run->row.limits);
    bh_val_set_str(v, "limits", watched ? "best-effort" : "enforced");
    bh_val_set_str(v, "not_enforced", watched);
    bh_val_set(v, "usage", total);
    bh_val_set(v, "agents", agents);
    bh_val_set(v, "failure", bh_run_facts_failure(run));
    return v;
}
