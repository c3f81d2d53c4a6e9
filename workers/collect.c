/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collecting, in four stretches:
 *
 *   expand:  what is wanted, in the order of the declaration. A glob: open_root --on_root--> walk --on_walked--> expand
 *   seal:    where others live in the box, all are looked at before the first is copied: seal_next --on_sealed-->
 * seal_next fetch:   fetch_next --on_file--> store (check, copy, hash; the last one also syncs) --on_stored-->
 * fetch_next conclude: finish, or where something was missing list_folder --on_list_opened--> walk --on_listed-->
 * finish
 *
 * Exactly one opening or one job is under way at any time; opening is the box's, jobs are the helper thread's. After
 * one output was found missing nothing more is stored: the rest is only looked for, so that all that are missing are
 * named at once.
 */
#include "workers/collect.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/mount_id.h"
#include "workers/mask.h"
#include "workers/output_glob.h"
#include "workers/output_job.h"

#define MAGIC 0x636f6c6cu

#define OUTPUT_ROOT "out"
#define ROOM (INT64_C(10) << 30) /* of a lease that has no limit of disk */

struct wanted {
    char *name, *path; /* path: relative to /workspace */
    const struct bh_lease_output *output;
    bool sealed; /* it was there when it was first looked at, and was so: */
    struct stat seal, now;
    uint64_t file; /* bh_file_key of `now` */
};

struct bh_collect {
    uint32_t magic;
    struct bh_collect_spec spec;
    bh_collected_fn fn;
    void *arg;
    void *opening;
    struct bh_job *job;

    size_t expanded;      /* outputs of the lease so far */
    struct bh_map *taken; /* names that are declared, or matched so far */
    struct wanted *wanted;
    size_t n_wanted, cap_wanted, sealed, fetched;

    struct bh_result_output *outputs;
    size_t n_outputs, cap_outputs;
    int64_t room;          /* bytes that outputs may have yet */
    struct bh_buf missing; /* "'a', 'b'" */
    size_t n_missing;
};

static struct bh_collect *check(void *arg)
{
    struct bh_collect *c = arg;
    BH_ASSERT(c->magic == MAGIC);
    return c;
}

static void expand(struct bh_collect *c);
static void fetch_next(struct bh_collect *c);

/* The collect may be gone afterwards. Frees what is left of the verdict. */
static void finish(struct bh_collect *c, struct bh_verdict *verdict)
{
    c->fn(c->arg, verdict);
    bh_verdict_fini(verdict);
}

static void add_missing(struct bh_collect *c, const struct wanted *w)
{
    const struct bh_lease_output *o = w->output;
    bh_buf_addf(&c->missing, "%s'%s'", c->n_missing++ > 0 ? ", " : "", o->glob ? o->glob : o->name);
    if (o->name && !(bh_starts_with(o->path, OUTPUT_ROOT "/") && bh_streq(o->path + sizeof(OUTPUT_ROOT), o->name)))
        bh_buf_addf(&c->missing, " (%s)", o->path);
}

static void add_wanted(struct bh_collect *c, const char *name, char *path, const struct bh_lease_output *output)
{
    *BH_PUSH(c->wanted, c->n_wanted, c->cap_wanted) =
        (struct wanted){.name = bh_strdup(name), .path = path, .output = output};
}

static struct bh_walk_job *walk_below(const struct bh_collect *c, int fd)
{
    struct bh_walk_job *job = bh_walk_job_new(fd);
    job->walk.withheld = c->spec.lease->tainted;
    return job;
}

static void open_path(struct bh_collect *c, const char *path, bh_box_opened_fn fn)
{
    c->opening = c->spec.source.open(c->spec.source.ctx, ".", path, fn, c);
}

/* --- conclude --- */

static void finish_missing(struct bh_collect *c, const char *what_is_there)
{
    struct bh_verdict verdict;
    bool one = c->n_missing == 1;
    bh_verdict_failed(&verdict, BH_REASON_OUTPUT_MISSING, "declared output%s %s %s missing; %s", one ? "" : "s",
                      c->missing.data, one ? "is" : "are", what_is_there);
    finish(c, &verdict);
}

static void on_listed(void *owner, void *data)
{
    struct bh_collect *c = check(owner);
    const struct bh_walk_job *job = data;
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    c->job = NULL;
    bh_output_describe("/workspace/" OUTPUT_ROOT, &job->walk, &text);
    finish_missing(c, text.data);
}

static void on_list_opened(void *arg, int fd, int error)
{
    static const struct bh_job_ops ops = {bh_walk_job_run, on_listed, bh_walk_job_free};
    struct bh_collect *c = check(arg);
    c->opening = NULL;
    if (fd >= 0)
        c->job = bh_helper_submit(c->spec.helper, &ops, c, walk_below(c, fd));
    else if (error == ENOENT)
        finish_missing(c, "/workspace/" OUTPUT_ROOT " does not exist");
    else
        finish_missing(c, "/workspace/" OUTPUT_ROOT " cannot be listed");
}

static void conclude(struct bh_collect *c)
{
    struct bh_verdict verdict;
    if (c->n_missing > 0) {
        open_path(c, OUTPUT_ROOT, on_list_opened);
        return;
    }
    bh_verdict_succeeded(&verdict);
    finish(c, &verdict);
}

/* --- fetch --- */

static bool is_ours(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO;
}

static const char *open_problem(int error)
{
    switch (error) {
    case ELOOP:
        return "is a symlink or lies behind one";
    case EXDEV:
        return "lies behind a link that leads out of /workspace";
    case ENXIO:
        return "is a socket, not a file";
    case EAGAIN:
        return "is locked by another process";
    default:
        return NULL;
    }
}

/* What an error of opening means: fills a verdict, or returns false where the output is simply not there. */
static bool open_failed(const struct bh_collect *c, const char *name, bool matched, int error, struct bh_verdict *ret)
{
    if ((error == ENOENT || error == ENOTDIR) && !matched)
        return false;
    if (error == ENOENT || error == ENOTDIR)
        bh_verdict_failed(ret, BH_REASON_COLLISION,
                          "output '%s' vanished while it was collected: another agent of box '%s' removed it", name,
                          c->spec.lease->box.id);
    else if (bh_errno_is_loss(error))
        bh_verdict_lost(ret, "collecting");
    else if (is_ours(error))
        bh_verdict_failed(ret, BH_REASON_HOST, "output '%s' could not be opened: %s", name, strerror(error));
    else if (open_problem(error))
        bh_verdict_failed(ret, BH_REASON_OUTPUT_INVALID, "output '%s' %s", name, open_problem(error));
    else
        bh_verdict_failed(ret, BH_REASON_OUTPUT_INVALID, "output '%s' cannot be opened: %s", name, strerror(error));
    return true;
}

/* --- judged --- */

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_as_sealed(const struct wanted *w, const struct stat *st)
{
    return w->sealed && w->seal.st_ino == st->st_ino && w->seal.st_dev == st->st_dev &&
           w->seal.st_size == st->st_size && same_time(w->seal.st_mtim, st->st_mtim) &&
           same_time(w->seal.st_ctim, st->st_ctim);
}

/* False: the collect is over, and may be gone. */
static bool judge(struct bh_collect *c, const struct bh_collect_item *item)
{
    struct bh_verdict verdict;
    if (!c->spec.judge || c->spec.judge(c->spec.judge_ctx, item, &verdict))
        return true;
    finish(c, &verdict);
    return false;
}

static bool judge_stored(struct bh_collect *c, const struct bh_store_job *job)
{
    bool good = job->verdict.outcome == BH_OUTCOME_SUCCEEDED;
    if (job->fd < 0 || !c->spec.judge || (!good && !job->changed))
        return true;
    const struct wanted *w = &c->wanted[c->fetched - 1];
    struct bh_collect_item item = {
        .name = w->name,
        .path = w->path,
        .device = w->now.st_dev,
        .inode = w->now.st_ino,
        .file = w->file,
        .changed = w->sealed ? w->seal.st_ctim : w->now.st_ctim,
        .since_seal = !is_as_sealed(w, &w->now),
        .while_copied = job->changed,
        .held = job->held,
        .digest = job->stored ? &job->object.digest : NULL,
        .later = job->has_later ? &job->later : NULL,
    };
    return judge(c, &item);
}

/* It was there when it was first looked at, and cannot be opened now: it is gone, or something else. */
static bool judge_vanished(struct bh_collect *c, const struct wanted *w, int error)
{
    struct bh_collect_item item = {.name = w->name, .path = w->path, .changed = w->seal.st_ctim, .vanished = true};
    return !w->sealed || is_ours(error) || bh_errno_is_loss(error) || judge(c, &item);
}

static void on_stored(void *owner, void *data)
{
    struct bh_collect *c = check(owner);
    struct bh_store_job *job = data;
    c->job = NULL;
    if (!judge_stored(c, job))
        return;
    if (job->verdict.outcome != BH_OUTCOME_SUCCEEDED) {
        finish(c, &job->verdict);
        return;
    }
    c->room -= job->size;
    if (job->fd >= 0)
        *BH_PUSH(c->outputs, c->n_outputs, c->cap_outputs) =
            (struct bh_result_output){.name = bh_strdup(job->name), .object = job->object};
    if (job->sync)
        conclude(c);
    else
        fetch_next(c);
}

static void submit_store(struct bh_collect *c, int fd, const struct wanted *w, bool sync)
{
    static const struct bh_job_ops ops = {bh_store_job_run, on_stored, bh_store_job_free};
    struct bh_store_job *job = bh_store_job_new(c->spec.run, fd, w ? w->name : "", w ? w->output->max_size : -1,
                                                c->spec.lease->box.shared, sync);
    job->room = c->room;
    job->mask = c->spec.mask ? bh_mask_ref(c->spec.mask) : NULL;
    c->job = bh_helper_submit(c->spec.helper, &ops, c, job);
}

static void on_file(void *arg, int fd, int error)
{
    struct bh_collect *c = check(arg);
    struct wanted *w = &c->wanted[c->fetched++];
    struct bh_verdict verdict;
    c->opening = NULL;
    if (fd < 0 && !judge_vanished(c, w, error))
        return;
    if (fd >= 0 && fstat(fd, &w->now) < 0)
        w->now = (struct stat){0}; /* the job will meet it, too */
    w->file = fd >= 0 ? bh_file_key_of(fd) : 0;
    if (fd < 0 && open_failed(c, w->name, w->output->glob != NULL, error, &verdict)) {
        finish(c, &verdict);
        return;
    }
    if (fd < 0 && !w->output->optional)
        add_missing(c, w);
    if (fd >= 0 && c->n_missing == 0) {
        submit_store(c, fd, w, c->fetched == c->n_wanted);
        return;
    }
    bh_close(fd);
    fetch_next(c);
}

static void fetch_next(struct bh_collect *c)
{
    if (c->fetched < c->n_wanted)
        open_path(c, c->wanted[c->fetched].path, on_file);
    else if (c->n_outputs > 0 && c->n_missing == 0)
        submit_store(c, -1, NULL, true); /* the last one was optional and absent */
    else
        conclude(c);
}

/* --- seal --- */

static void seal_next(struct bh_collect *c);

static void on_sealed(void *arg, int fd, int error)
{
    struct bh_collect *c = check(arg);
    struct wanted *w = &c->wanted[c->sealed++];
    (void)error;
    c->opening = NULL;
    w->sealed = fd >= 0 && fstat(fd, &w->seal) == 0;
    bh_close(fd);
    seal_next(c);
}

static void seal_next(struct bh_collect *c)
{
    if (c->spec.judge && c->sealed < c->n_wanted)
        open_path(c, c->wanted[c->sealed].path, on_sealed);
    else
        fetch_next(c);
}

/* --- expand --- */

static void take_match(void *arg, const char *name)
{
    struct bh_collect *c = check(arg);
    const struct bh_lease_output *o = &c->spec.lease->outputs[c->expanded];
    add_wanted(c, name, bh_asprintf("%s/%s", o->path, name), o);
}

static void no_match(struct bh_collect *c)
{
    const struct bh_lease_output *o = &c->spec.lease->outputs[c->expanded];
    if (!o->optional)
        add_missing(c, &(struct wanted){.output = o});
}

static void on_walked(void *owner, void *data)
{
    struct bh_collect *c = check(owner);
    const struct bh_walk_job *job = data;
    struct bh_verdict verdict;
    size_t n;
    c->job = NULL;
    if (!bh_output_glob(&c->spec.lease->outputs[c->expanded], &job->walk, c->taken, take_match, c, &n, &verdict)) {
        finish(c, &verdict);
        return;
    }
    if (n == 0)
        no_match(c);
    c->expanded++;
    expand(c);
}

static void on_root(void *arg, int fd, int error)
{
    static const struct bh_job_ops ops = {bh_walk_job_run, on_walked, bh_walk_job_free};
    struct bh_collect *c = check(arg);
    struct bh_verdict verdict;
    c->opening = NULL;
    if (fd >= 0) {
        c->job = bh_helper_submit(c->spec.helper, &ops, c, walk_below(c, fd));
        return;
    }
    if (open_failed(c, c->spec.lease->outputs[c->expanded].path, false, error, &verdict)) {
        finish(c, &verdict);
        return;
    }
    no_match(c);
    c->expanded++;
    expand(c);
}

static void expand(struct bh_collect *c)
{
    const struct bh_lease *lease = c->spec.lease;
    for (; c->expanded < lease->n_outputs; c->expanded++) {
        const struct bh_lease_output *o = &lease->outputs[c->expanded];
        if (o->glob) {
            open_path(c, o->path, on_root);
            return;
        }
        add_wanted(c, o->name, bh_strdup(o->path), o);
    }
    seal_next(c);
}

/*
 * The one helper reads for all executions, and a hole costs an agent nothing: what it may write to disk bounds what it
 * may have read, too.
 */
static int64_t room_of(const struct bh_lease *lease)
{
    int64_t limit = lease->box.limits.of[BH_LIMIT_DISK];
    return limit > 0 ? limit : ROOM;
}

struct bh_collect *bh_collect_start(const struct bh_collect_spec *spec, bh_collected_fn fn, void *arg)
{
    struct bh_collect *c = bh_alloc(sizeof(*c));
    c->magic = MAGIC;
    BH_ASSERT(spec->lease->n_outputs > 0);
    c->spec = *spec;
    c->fn = fn;
    c->arg = arg;
    c->room = room_of(spec->lease);
    c->taken = bh_map_new(NULL);
    bh_buf_init(&c->missing);
    for (size_t i = 0; i < spec->lease->n_outputs; i++) {
        if (spec->lease->outputs[i].name)
            bh_map_put(c->taken, spec->lease->outputs[i].name, c->taken);
    }
    expand(c);
    return c;
}

void bh_collect_take(struct bh_collect *c, struct bh_result_output **ret, size_t *ret_n)
{
    *ret = BH_TAKE(c->outputs);
    *ret_n = c->n_outputs;
    c->n_outputs = 0;
}

void bh_collect_free(struct bh_collect *c)
{
    if (!c)
        return;
    if (c->opening)
        c->spec.source.forget(c->opening);
    bh_job_forget(c->job);
    for (size_t i = 0; i < c->n_wanted; i++) {
        bh_free(c->wanted[i].name);
        bh_free(c->wanted[i].path);
    }
    bh_free(c->wanted);
    for (size_t i = 0; i < c->n_outputs; i++)
        bh_free(c->outputs[i].name);
    bh_free(c->outputs);
    bh_map_free(c->taken);
    bh_buf_fini(&c->missing);
    c->magic = 0;
    bh_free(c);
}
