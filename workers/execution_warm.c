/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warm attempts (docs/warm.md). A preparation that may be warm is never taken from an earlier run, because what lies on
 * the disk holds no process; when its command is ready its box, which is sealed then, is frozen as it stands, and both
 * go to the fork servers. One whose command ends is a preparation like any other. An attempt that finds a fork server
 * gets a box beneath that one's and is a fork of it; else it starts from the disk.
 */
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/folder.h"
#include "workers/execution_priv.h"
#include "workers/warm/helper.h"

#define DELIVERED ".warm.py" /* beside what the document has, whose names begin with no dot there */

/* Who is in the host's network is nobody's fork, and nobody is a fork of it: the plan has said so. */
bool bh_x_may_be_warm(const struct bh_execution *e)
{
    return e->lease.kind == BH_LEASE_PREPARE && e->lease.warm && !bh_ways_on_host(&e->lease, bh_x_phases(&e->lease));
}

static void on_warm(void *arg)
{
    struct bh_execution *e = bh_x_check(arg);
    e->is_warm = true;
    bh_x_freeze(e);
}

static const char *const *add_env(struct bh_execution *e, const char *const *env)
{
    size_t n = 0;
    const char *path = BH_WARM_HELPER_DIR;
    while (env[n])
        n++;
    const char **more = bh_arena_alloc(e->arena, (n + 3) * sizeof(*more));
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        if (bh_starts_with(env[i], "PYTHONPATH="))
            path = bh_arena_printf(e->arena, "%s:" BH_WARM_HELPER_DIR, env[i] + strlen("PYTHONPATH="));
        else
            more[len++] = env[i];
    }
    more[len++] = bh_arena_printf(e->arena, "PYTHONPATH=%s", path);
    more[len++] = "BULKHEAD_WARM_FD=3";
    more[len] = NULL;
    return more;
}

int bh_x_warm_command(struct bh_execution *e, struct bh_exec_spec *exec, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("boxes/%s/deliver/" DELIVERED, e->lease.box.key);
    struct bh_box_copy *copies = bh_arena_alloc(e->arena, (exec->n_copies + 1) * sizeof(*copies));
    int rc = bh_run_files_write(bh_warm_helper, e->run->dirfd, path, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < exec->n_copies; i++)
        copies[i] = exec->copies[i];
    copies[exec->n_copies++] = (struct bh_box_copy){DELIVERED, BH_WARM_HELPER_FILE, 0644};
    exec->copies = copies;
    exec->env = add_env(e, exec->env);
    exec->on_warm = on_warm;
    return 0;
}

void bh_x_keep_server(struct bh_execution *e)
{
    if (e->server_ended || !e->command || bh_box_handle_lost(e->own))
        return;
    e->box = NULL;
    bh_warm_servers_add(e->host->warm, e->lease.run.s, e->lease.snapshot_key, bh_x_is_root(e), BH_TAKE(e->own),
                        BH_TAKE(e->command));
}

void bh_x_find_server(struct bh_execution *e)
{
    const struct bh_lease *l = &e->lease;
    if (l->kind != BH_LEASE_RUN || !l->warm || l->box.n_snapshots == 0 || e->server || e->cold ||
        bh_ways_on_host(l, bh_x_phases(l)))
        return;
    e->server = bh_warm_servers_hold(e->host->warm, l->run.s, l->box.snapshots[0], bh_x_is_root(e));
    if (!e->server && !e->note)
        e->note = bh_strdup("it started from the disk: there is no warm process");
}

static void give_server_up(struct bh_execution *e, const char *why)
{
    bh_warm_server_leave(BH_TAKE(e->server), true);
    e->cold = true;
    bh_free(e->note);
    e->note = bh_asprintf("it started from the disk: %s", why);
}

bool bh_x_lost_server(struct bh_execution *e, int code)
{
    if (!e->server)
        return false;
    (void)bh_box_handle_drop(BH_TAKE(e->own), false, NULL, NULL);
    give_server_up(e, code == -BH_E_NOT_FOUND ? "the warm process has ended" : "no box could be made beneath it");
    bh_x_enter_own_box(e);
    return true;
}

static void on_warm_box_gone(void *arg, int code, const struct bh_err *err)
{
    struct bh_execution *e = bh_x_check(arg);
    BH_CLEANUP_ERR struct bh_err *why = NULL;
    if (code == 0)
        code = bh_box_folder_remove(e->run->dir, e->lease.box.key, false, &why);
    e->left = false;
    if (code != 0)
        bh_x_end_for_host(e, "ending a box beneath a warm process", code, err ? err : why);
    else
        bh_x_enter_own_box(e);
}

bool bh_x_start_cold(struct bh_execution *e, const struct bh_command_end *end)
{
    const struct bh_exec_result *r = &end->result;
    if (!e->server || r->end != BH_EXEC_NOT_STARTED || end->stopped || end->timed_out)
        return false;
    BH_CLEANUP_FREE char *why = bh_asprintf("cannot %s: %s", r->step ? r->step : "fork", strerror(r->status));
    give_server_up(e, why);
    bh_command_free(BH_TAKE(e->command));
    bh_close(BH_TAKE_FD(e->stdin_fd));
    bh_x_drop_ways(e);
    e->state = BH_X_BOOTING;
    bh_x_leave_own(e, on_warm_box_gone);
    return true;
}

void bh_x_leave_server(struct bh_execution *e)
{
    if (e->server)
        bh_warm_server_leave(BH_TAKE(e->server), false);
}
