/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one process holds for its run. The launcher is started first, before any thread exists (nng starts some), then
 * the store is opened, then the boxes; run_drive.c does the rest. Teardown goes the other way; on every path the boxes
 * are gone before it returns.
 */
#include "scheduler/run_priv.h"

#include <event2/event.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/units.h"
#include "scheduler/run_limits.h"
#include "scheduler/sweep.h"

/* How long a run's dying owner is waited for: its launcher holds the lock until every box is gone. */
#define OWNER_WAIT_NS (10 * BH_NS_PER_S)

void bh_session_init(struct bh_session *s, const struct bh_run_options *options, struct bh_run_id id)
{
    *s = (struct bh_session){.options = options, .id = id, .lock = -1, .launcher = -1, .images = {.launcher = -1}};
}

int bh_session_make_folders(const struct bh_session *s, struct bh_err **err)
{
    static const char *const names[] = {"logs", "boxes", "layers", "tmp"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        BH_CLEANUP_FREE char *path = bh_home_run_path(s->options->home, s->id.s, names[i]);
        int rc = bh_mkdir_p(path, 0700, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

/* Takes the run, starts the launcher, opens the store: in this order, see above. */
int bh_session_take(struct bh_session *s, struct bh_err **err)
{
    const struct bh_home *home = s->options->home;
    int64_t pid;
    int rc = bh_home_own_run(home, s->id.s, OWNER_WAIT_NS, &s->lock, err);
    if (rc == 0)
        rc = bh_launcher_start(home->path, s->lock, &s->launcher, &pid, err);
    if (rc == 0)
        rc = bh_store_open(home, BH_STORE_WRITE, &s->store, err);
    if (rc == 0)
        rc = bh_session_make_folders(s, err);
    if (rc == 0)
        bh_sweep_at_start(home);
    return rc;
}

/* The launcher's socket goes to the boxes, and images are asked of it beside them: it answers those on sockets of their
 * own. */
int bh_session_prepare_images(struct bh_session *s, const struct bh_plan *plan, struct bh_err **err)
{
    s->images = (struct bh_image_host){.home = s->options->home->path,
                                       .launcher = -1,
                                       .progress = s->options->watch.importing,
                                       .arg = s->options->watch.arg};
    if (!bh_images_any(plan))
        return 0;
    s->images.launcher = fcntl(s->launcher, F_DUPFD_CLOEXEC, 3);
    if (s->images.launcher < 0)
        return bh_err_set(err, BH_E_HOST, errno, "cannot copy a descriptor");
    return bh_image_host_ask(&s->images, err);
}

/* The launcher ends when its socket does, so ours must not outlive its use. */
void bh_session_forget_images(struct bh_session *s)
{
    bh_close(BH_TAKE_FD(s->images.launcher));
}

int bh_session_open_boxes(struct bh_session *s, struct bh_err **err)
{
    s->loop = event_base_new();
    if (!s->loop)
        return bh_err_set(err, BH_E_INTERNAL, 0, "cannot make an event loop");
    return bh_boxes_ns_new(s->loop, BH_TAKE_FD(s->launcher), s->options->home->path, &s->boxes, err);
}

/* The smaller one of what the site and the caller say: nothing new is begun in a state directory that holds more. */
static int set_budget(const struct bh_session *s, struct bh_err **err)
{
    const char *own = getenv("BULKHEAD_DISK_BUDGET"), *who = "BULKHEAD_DISK_BUDGET";
    int64_t bytes = 0;
    if (own && *own && (bh_parse_size(own, &bytes) != 0 || bytes <= 0)) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "'BULKHEAD_DISK_BUDGET=%s' is no size", own);
        bh_err_hint(err, "write for example 50GiB, or unset it");
        return rc;
    }
    const char *file = NULL;
    int64_t of_site = bh_policy_disk_budget(&s->policy, &file);
    if (of_site > 0 && (bytes == 0 || of_site < bytes)) {
        bytes = of_site;
        who = file;
    }
    return bytes > 0 ? bh_boxes_ns_budget(s->boxes, bytes, who, err) : 0;
}

/* What was asked for and cannot be had is refused before the first byte runs. */
int bh_session_check_limits(struct bh_session *s, const struct bh_plan *plan, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    int rc = bh_run_limits_check(plan, s->boxes, &s->policy, &s->watched, errors);
    if (rc == 0)
        rc = set_budget(s, &err);
    return bh_run_add_error(errors, rc, err);
}

/* --- tearing down --- */

static void stop_work(struct bh_session *s)
{
    bh_shell_server_free(BH_TAKE(s->shells));
    bh_worker_free(s->worker);
    s->worker = NULL;
    if (s->boxes)
        s->boxes->ops->close(s->boxes);
    s->boxes = NULL;
}

void bh_session_fini(struct bh_session *s)
{
    stop_work(s);
    bh_dispatcher_free(s->dispatcher);
    for (size_t i = 0; i < BH_SESSION_SIGNALS; i++) {
        if (s->signals[i])
            event_free(s->signals[i]);
    }
    if (s->tick)
        event_free(s->tick);
    if (s->loop)
        event_base_free(s->loop);
    bh_live_run_free(s->run);
    bh_store_close(s->store);
    bh_close(s->launcher);
    bh_close(s->images.launcher);
    bh_close(s->lock);
    bh_free(s->watched);
    bh_policy_fini(&s->policy);
    bh_err_free(s->failed);
}

int bh_session_finish(struct bh_session *s, struct bh_run_outcome *ret, struct bh_err **err)
{
    stop_work(s);
    if (s->failed) {
        *err = BH_TAKE(s->failed);
        return bh_err_wrap(err, -BH_E_IO, "run '%s' cannot go on", s->id.s);
    }
    int rc = s->hard ? bh_dispatcher_abandon(s->dispatcher, err) : 0;
    if (rc != 0)
        return rc;
    const struct bh_engine *engine = bh_live_run_engine(s->run);
    *ret = (struct bh_run_outcome){.run = s->id,
                                   .status = bh_engine_status(engine),
                                   .reason = bh_engine_failure(engine, NULL),
                                   .signal = s->signal};
    bh_sweep_ended_run(s->options->home, s->id.s, ret->status == BH_RUN_SUCCEEDED);
    if (s->options->watch.ended)
        s->options->watch.ended(s->options->watch.arg, ret->status);
    return 0;
}
