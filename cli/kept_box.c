/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kept_box.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"

void bh_kept_fini(struct bh_kept *kept)
{
    bh_free(kept->path);
    bh_free(kept->upper);
    bh_box_stand_fini(&kept->stand);
    *kept = (struct bh_kept){0};
}

int bh_kept_agent(const struct bh_cli_run *run, const struct bh_run_facts *facts, const char *name,
                  const struct bh_agent_row **ret, struct bh_err **err)
{
    BH_CLEANUP_FREE const char **names = bh_calloc(facts->n_agents + 1, sizeof(*names));
    for (size_t i = 0; i < facts->n_agents; i++) {
        names[i] = facts->agents[i].name;
        if (bh_streq(names[i], name)) {
            *ret = &facts->agents[i];
            return 0;
        }
    }
    const char *near = bh_nearest(name, names, facts->n_agents);
    int rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "run '%s' has no agent '%s'", run->id, name);
    bh_err_hint(err, near ? "did you mean '%s'?" : "'bulkhead show %s' lists the agents", near ? near : run->id);
    return rc;
}

bool bh_kept_is_live(const char *status)
{
    static const char *const live[] = {"queued", "leased", "booting", "setup", "running", "checking", "collecting"};
    for (size_t i = 0; i < BH_ARRAY_LEN(live); i++) {
        if (bh_streq(status, live[i]))
            return true;
    }
    return false;
}

static bool is_there(const struct bh_cli_run *run, const char *path)
{
    BH_CLEANUP_FD int fd = bh_home_open_folder(&run->home, path);
    return fd >= 0;
}

/* --- a frozen layer --- */

/* "ID-NUMBER" of this box: its number, else -1. */
static int64_t layer_number(const char *name, const char *box)
{
    size_t len = strlen(box);
    int64_t n = 0;
    if (!bh_starts_with(name, box) || name[len] != '-' || !name[len + 1])
        return -1;
    for (const char *p = name + len + 1; *p; p++) {
        if (*p < '0' || *p > '9' || n > INT32_MAX)
            return -1;
        n = n * 10 + (*p - '0');
    }
    return n;
}

/* What the shared box was frozen into last, "runs/RUN/layers/NAME"; NULL where there is none. */
static char *newest_layer(const struct bh_cli_run *run, const char *box)
{
    BH_CLEANUP_FREE char *rel = bh_asprintf("runs/%s/layers", run->id);
    DIR *dir = box ? bh_home_list(&run->home, rel) : NULL;
    char *newest = NULL;
    int64_t best = -1;
    if (!dir)
        return NULL;
    for (const struct dirent *e; (e = readdir(dir));) {
        int64_t n = layer_number(e->d_name, box);
        if (n <= best)
            continue;
        best = n;
        bh_free(newest);
        newest = bh_path_join(rel, e->d_name);
    }
    (void)closedir(dir);
    return newest;
}

/* --- which attempt --- */

int bh_kept_attempt(const char *text, int64_t *ret, struct bh_err **err)
{
    if (bh_parse_int(text, ret) == 0 && *ret >= 0)
        return 0;
    return bh_err_set(err, BH_E_USAGE, 0, "'%s' is no number of an attempt", text);
}

/* Better ones come first: asked for, selected, later. */
static const struct bh_attempt_row *choose(const struct bh_cli_run *run, const struct bh_attempt_row *rows, size_t n,
                                           int64_t attempt)
{
    const struct bh_attempt_row *best = NULL;
    for (size_t i = 0; i < n; i++) {
        const struct bh_attempt_row *row = &rows[i];
        if ((attempt >= 0 && row->attempt != attempt) || !row->kept_box || !is_there(run, row->kept_box))
            continue;
        bool better = !best || row->selected || (!best->selected && (best->kind || !row->kind));
        if (better) /* what attempts start from is looked at where there is nothing else */
            best = row;
    }
    return best;
}

static const struct bh_attempt_row *last_of(const struct bh_attempt_row *rows, size_t n, int64_t attempt)
{
    const struct bh_attempt_row *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if ((attempt < 0 || rows[i].attempt == attempt) && (!last || last->kind || !rows[i].kind))
            last = &rows[i];
    }
    return last;
}

static int no_attempt(const struct bh_cli_run *run, const char *agent, int64_t attempt, struct bh_err **err)
{
    int rc;
    if (attempt == 0)
        rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "'%s' has no setup or preparation of its own", agent);
    else if (attempt > 0)
        rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "'%s' has no attempt %lld", agent, (long long)attempt);
    else
        rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "'%s' has not run: it has no box", agent);
    bh_err_hint(err, attempt >= 0 ? "'bulkhead show %s' lists the attempts" : "'bulkhead explain %s' says why",
                run->id);
    return rc;
}

const char *bh_kept_kind(const struct bh_attempt_row *row)
{
    return bh_streq(row->kind, "prepare") ? "preparation" : row->kind;
}

static const char *why_no_box(const struct bh_attempt_row *row)
{
    if (row->kept_box)
        return "it was removed, perhaps by 'bulkhead gc'; run the agent again";
    if (row->kind)
        return "boxes of setups and preparations are kept where these fail, unless the agent says 'keep: never'";
    return "boxes of failed agents are kept unless the agent says 'keep: never', others where it says 'keep: always'";
}

static int no_box(const struct bh_cli_run *run, const struct bh_attempt_row *row, struct bh_err **err)
{
    int rc;
    BH_CLEANUP_FREE char *what =
        row->kind ? bh_asprintf("the %s", bh_kept_kind(row)) : bh_asprintf("attempt %lld", (long long)row->attempt);
    if (bh_kept_is_live(row->status) && bh_home_run_is_owned(&run->home, run->id)) {
        rc = bh_err_set(err, BH_E_BUSY, 0, "%s of '%s' is still at work in its box", what, row->agent);
        if (row->kind)
            bh_err_hint(err, "wait for its end; 'bulkhead logs %s -f' follows it", run->id);
        else
            bh_err_hint(err, "wait for its end, or look into it with 'bulkhead shell %s %s'", run->id, row->agent);
        return rc;
    }
    rc = bh_err_set(err, BH_E_NOT_FOUND, 0, "the box of %s of '%s' %s", what, row->agent,
                    row->kept_box ? "was kept and is gone since" : "was not kept");
    bh_err_hint(err, "%s", why_no_box(row));
    return rc;
}

static size_t count_sharing(const struct bh_run_facts *facts, const struct bh_attempt_row *row)
{
    BH_CLEANUP_MAP struct bh_map *agents = bh_map_new(NULL);
    for (size_t i = 0; i < facts->n_attempts; i++) {
        const struct bh_attempt_row *other = &facts->attempts[i];
        if (bh_streq(other->box, row->box) && (bh_streq(other->agent, row->agent) || !row->kept_box ||
                                               !other->kept_box || bh_streq(other->kept_box, row->kept_box)))
            (void)bh_map_put(agents, other->agent, NULL);
    }
    return bh_map_len(agents);
}

static int read_stand(const struct bh_cli_run *run, struct bh_kept *kept, struct bh_err **err)
{
    struct bh_err *why = NULL;
    BH_CLEANUP_FD int dir = bh_home_open_folder(&run->home, kept->path);
    if (dir < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s/%s'", run->home.path, kept->path);
    int rc = bh_box_stand_read(dir, &kept->stand, &why);
    kept->known = rc == 0;
    if (rc == 0 || rc == -BH_E_NOT_FOUND) {
        bh_err_free(why);
        return 0;
    }
    if (err)
        *err = why;
    else
        bh_err_free(why);
    return bh_err_wrap(err, rc, "'%s/%s'", run->home.path, kept->path);
}

int bh_kept_find(const struct bh_cli_run *run, const struct bh_run_facts *facts, const char *agent, int64_t attempt,
                 struct bh_kept *ret, struct bh_err **err)
{
    size_t n = 0;
    struct bh_kept kept = {0};
    int rc = bh_kept_agent(run, facts, agent, &kept.agent, err);
    if (rc != 0)
        return rc;
    const struct bh_attempt_row *rows = bh_run_facts_attempts(facts, agent, &n);
    kept.attempt = choose(run, rows, n, attempt);
    if (kept.attempt) {
        kept.path = bh_strdup(kept.attempt->kept_box);
        kept.upper = bh_path_join(kept.path, "upper");
    } else {
        kept.attempt = last_of(rows, n, attempt);
        if (!kept.attempt)
            return no_attempt(run, agent, attempt, err);
        kept.path = newest_layer(run, kept.attempt->box);
        if (!kept.path)
            return no_box(run, kept.attempt, err);
        kept.upper = bh_strdup(kept.path);
        kept.frozen = true;
    }
    kept.n_sharing = count_sharing(facts, kept.attempt);
    rc = read_stand(run, &kept, err);
    if (rc == 0)
        *ret = kept;
    else
        bh_kept_fini(&kept);
    return rc;
}
