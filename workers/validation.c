/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Validating (validation.h):
 *
 *   LOOKING --on_looked--> [MAKING --on_created--> RUNNING --on_ran--> LEAVING --go_on--> MAKING …] ENDED --go_on--> fn
 *
 * From every state there is end_with() to ENDED. What a command prints goes to the log that it is given.
 */
#include "workers/validation.h"

#include <event2/event.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "policies/validate.h"
#include "workers/command.h"
#include "workers/deliver.h"
#include "workers/exec_env.h"
#include "workers/lease_limits.h"

#define MAGIC 0x76616c69u

enum state { LOOKING, MAKING, RUNNING, LEAVING, ENDED };

struct bh_validation {
    unsigned magic;
    enum state state;
    struct bh_validation_spec spec;
    bh_validation_fn fn;
    void *arg;
    struct bh_arena *arena;
    struct bh_job *job;
    size_t next; /* item whose command runs or comes next */
    char *key;
    struct bh_box_handle *box;
    struct bh_command *command;
    struct bh_limits limits;
    struct bh_enforced held;
    struct bh_verdict verdict;
    struct event *later;
};

static struct bh_validation *check(void *arg)
{
    struct bh_validation *v = arg;
    BH_ASSERT(v->magic == MAGIC);
    return v;
}

bool bh_validate_asks(const struct bh_lease_validate *v)
{
    return v->kind != BH_VALIDATE_ANY || v->max_size >= 0 || v->max_lines >= 0 || v->max_files >= 0 || v->n_paths > 0 ||
           v->n_command > 0;
}

/* --- the end --- */

/* Takes the verdict. */
static void end_with(struct bh_validation *v, struct bh_verdict *verdict)
{
    v->verdict = *verdict;
    *verdict = (struct bh_verdict){0};
    v->state = ENDED;
    bh_job_forget(BH_TAKE(v->job));
    bh_command_free(BH_TAKE(v->command));
    event_active(v->later, EV_TIMEOUT, 0);
}

static void end_for_host(struct bh_validation *v, const char *while_what, int code, const struct bh_err *err)
{
    struct bh_verdict verdict;
    bh_verdict_host(&verdict, while_what, code, err);
    end_with(v, &verdict);
}

static void make_next(struct bh_validation *v);

/* From the loop, for a box is not to be let go of inside of what it calls. */
static void go_on(evutil_socket_t fd BH_UNUSED, short what BH_UNUSED, void *arg)
{
    struct bh_validation *v = check(arg);
    if (v->box)
        (void)bh_box_handle_drop(BH_TAKE(v->box), false, NULL, NULL);
    if (v->state == LEAVING) {
        v->next++;
        make_next(v);
        return;
    }
    struct bh_verdict verdict = v->verdict;
    v->verdict = (struct bh_verdict){0};
    v->fn(v->arg, &verdict);
}

static void refuse(struct bh_validation *v, size_t item, const char *why)
{
    struct bh_verdict verdict;
    const char *name = v->spec.items[item].name;
    if (v->spec.is_gate)
        bh_verdict_failed(&verdict, BH_REASON_POLICY, "the gate for input '%s' is shut: %s", name, why);
    else
        bh_verdict_failed(&verdict, BH_REASON_OUTPUT_INVALID, "output '%s' is not valid: %s", name, why);
    end_with(v, &verdict);
}

/* --- content --- */

struct looking { /* on the helper thread */
    struct bh_run_files *run;
    struct look {
        struct bh_object object;
        struct bh_lease_validate validate; /* its own copy, but for the command */
    } * looks;
    size_t n, bad; /* bad: the first that is wrong; n: none */
    char *problem;
    int code;
    struct bh_err *err;
};

/* The store's objects do not change. */
static char *look_at(struct looking *l, const struct look *look)
{
    BH_CLEANUP_FD int fd = -1;
    struct stat st;
    l->code = bh_cas_open_object(l->run->puts, &look->object.digest, &fd, &l->err);
    if (l->code != 0)
        return NULL;
    if (fstat(fd, &st) < 0) {
        l->code = bh_err_set(&l->err, BH_E_IO, errno, "cannot look at a stored object");
        return NULL;
    }
    if (st.st_size == 0)
        return bh_validate_bytes(&look->validate, NULL, 0);
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        l->code = bh_err_set(&l->err, BH_E_IO, errno, "cannot map a stored object");
        return NULL;
    }
    char *problem = bh_validate_bytes(&look->validate, data, (size_t)st.st_size);
    (void)munmap(data, (size_t)st.st_size);
    return problem;
}

static void look_at_all(void *data)
{
    struct looking *l = data;
    for (l->bad = 0; l->bad < l->n; l->bad++) {
        l->problem = look_at(l, &l->looks[l->bad]);
        if (l->problem || l->code != 0)
            return;
    }
}

static void dispose_looking(void *data)
{
    struct looking *l = data;
    bh_run_files_unref(l->run);
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < l->looks[i].validate.n_paths; k++)
            bh_free(l->looks[i].validate.paths[k]);
        bh_free(l->looks[i].validate.paths);
    }
    bh_free(l->looks);
    bh_free(l->problem);
    bh_err_free(l->err);
    bh_free(l);
}

static void on_looked(void *owner, void *data)
{
    struct bh_validation *v = check(owner);
    const struct looking *l = data;
    v->job = NULL;
    if (l->code != 0)
        end_for_host(v, "validating", l->code, l->err);
    else if (l->problem)
        refuse(v, l->bad, l->problem);
    else
        make_next(v);
}

/* --- commands --- */

static const struct bh_validation_item *item_of(const struct bh_validation *v)
{
    return &v->spec.items[v->next];
}

static struct bh_command_name name_of(const struct bh_validation *v)
{
    return (struct bh_command_name){
        .what = "its validation",
        .phase = BH_PHASE_CHECK,
        .argv0 = item_of(v)->validate->command[0],
        .timeout_ns = v->spec.lease->check_ns,
        .limits = &v->limits,
        .held = v->held,
        .own = &v->limits,
        .boxs = &v->limits,
    };
}

/* What hostile content makes of the command is the content's fault, whatever it is; what the host does is not. */
static void on_ran(void *arg, const struct bh_command_end *end)
{
    struct bh_validation *v = check(arg);
    struct bh_verdict verdict;
    const struct bh_command_name name = name_of(v);
    bool good = bh_verdict_of_command(&verdict, &name, end);
    bh_command_free(BH_TAKE(v->command));
    if (good) {
        bh_verdict_fini(&verdict);
        v->state = LEAVING;
        event_active(v->later, EV_TIMEOUT, 0);
    } else if (verdict.outcome != BH_OUTCOME_FAILED || verdict.reason == BH_REASON_HOST) {
        end_with(v, &verdict);
    } else {
        refuse(v, v->next, verdict.detail);
        bh_verdict_fini(&verdict);
    }
}

/* What the command finds: the agent's files, the parameters, and as the only input the artifact. */
static int deliver(struct bh_validation *v, struct bh_delivery *ret, struct bh_err **err)
{
    const struct bh_validation_item *item = item_of(v);
    struct bh_lease view = *v->spec.lease;
    struct bh_lease_file input = {.path = (char *)(uintptr_t)item->name,
                                  .name = (char *)(uintptr_t)item->name,
                                  .object = *item->object,
                                  .provenance = (char *)(uintptr_t)item->provenance};
    view.box.key = v->key;
    view.box.shared = false;
    view.prompt = NULL;
    view.inputs = &input;
    view.n_inputs = 1;
    return bh_deliver_lease(v->spec.run, &view, v->arena, ret, err);
}

static const char *const *env_of(struct bh_validation *v)
{
    const char *fixed[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8",
                           "TMPDIR=/tmp", "HOME=/home/agent"};
    const char **env = bh_arena_alloc(v->arena, (BH_ARRAY_LEN(fixed) + 2) * sizeof(*env));
    for (size_t i = 0; i < BH_ARRAY_LEN(fixed); i++)
        env[i] = fixed[i];
    env[BH_ARRAY_LEN(fixed)] = bh_arena_printf(v->arena, "BULKHEAD_ARTIFACT=/workspace/in/%s", item_of(v)->name);
    return env;
}

static int start_command(struct bh_validation *v, struct bh_err **err)
{
    const struct bh_lease_validate *validate = item_of(v)->validate;
    struct bh_delivery delivery = {0};
    int rc = deliver(v, &delivery, err);
    if (rc != 0)
        return rc;
    const struct bh_command_spec spec = {
        .loop = v->spec.host->loop,
        .box = bh_box_handle_box(v->box),
        .capture = v->spec.capture,
        .exec =
            {
                .argv = bh_exec_texts(v->arena, validate->command, validate->n_command),
                .env = env_of(v),
                .cwd = "/workspace",
                .stdin_fd = v->spec.host->null_fd,
                .copies = delivery.copies,
                .n_copies = delivery.n_copies,
                .inputs = delivery.inputs,
                .params = delivery.params,
                .needs = delivery.needs,
                .limits = v->limits,
            },
        .timeout_ns = v->spec.lease->check_ns,
        .grace_ns = v->spec.lease->grace_ns,
    };
    return bh_command_start(&spec, on_ran, v, &v->command, err);
}

static void on_created(void *arg, int code, const struct bh_err *error)
{
    struct bh_validation *v = check(arg);
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (v->state == ENDED)
        return;
    if (code != 0) {
        end_for_host(v, "making the box of a validation", code, error);
        return;
    }
    v->held = v->spec.host->boxes->ops->enforced(bh_box_handle_box(v->box), &v->limits);
    v->state = RUNNING;
    int rc = start_command(v, &err);
    if (rc != 0)
        end_for_host(v, "starting a validation", rc, err);
}

static void on_lost(void *arg)
{
    struct bh_validation *v = check(arg);
    struct bh_verdict verdict;
    if (v->state == ENDED)
        return;
    bh_verdict_lost(&verdict, "a validation");
    end_with(v, &verdict);
}

/* What a preparation made has seen the inputs: a judge does not stand on it. */
static size_t n_snapshots(const struct bh_lease *lease)
{
    return lease->n_prepare > 0 && lease->kind == BH_LEASE_RUN ? 0 : lease->box.n_snapshots;
}

static void make_box(struct bh_validation *v)
{
    static const struct bh_box_events events = {on_created, on_lost};
    const struct bh_lease_box *box = &v->spec.lease->box;
    size_t n = n_snapshots(v->spec.lease);
    bh_free(v->key);
    v->key = bh_asprintf("%s.%s%zu", v->spec.lease->instance.s, v->spec.is_gate ? "gate" : "validate", v->next + 1);
    const struct bh_box_spec spec = {
        .run_dir = v->spec.run->dir,
        .key = v->key,
        .base_layers = bh_exec_texts(v->arena, box->base_layers, box->n_base_layers),
        .n_base_layers = box->n_base_layers,
        .agent_uid = (uint32_t)box->agent_uid,
        .agent_gid = (uint32_t)box->agent_gid,
        .limits = v->limits,
        .best_effort = box->best_effort,
        .disposable = true,
        .snapshots = bh_exec_texts(v->arena, box->snapshots, n),
        .n_snapshots = n,
    };
    v->state = MAKING;
    v->box = bh_box_handle_new(v->spec.host->boxes, &spec, &events, v);
}

static void make_next(struct bh_validation *v)
{
    struct bh_verdict verdict;
    while (v->next < v->spec.n_items && item_of(v)->validate->n_command == 0)
        v->next++;
    if (v->next < v->spec.n_items) {
        make_box(v);
        return;
    }
    bh_verdict_succeeded(&verdict);
    end_with(v, &verdict);
}

/* --- life --- */

/* The job may outlive the lease. */
static struct look look_of(const struct bh_validation_item *item)
{
    struct look look = {.object = *item->object, .validate = *item->validate};
    look.validate.n_command = 0;
    look.validate.command = NULL;
    look.validate.paths = bh_calloc(look.validate.n_paths + 1, sizeof(char *));
    for (size_t i = 0; i < look.validate.n_paths; i++)
        look.validate.paths[i] = bh_strdup(item->validate->paths[i]);
    return look;
}

struct bh_validation *bh_validation_start(const struct bh_validation_spec *spec, bh_validation_fn fn, void *arg)
{
    static const struct bh_job_ops ops = {look_at_all, on_looked, dispose_looking};
    struct bh_validation *v = bh_alloc(sizeof(*v));
    *v = (struct bh_validation){.magic = MAGIC, .spec = *spec, .fn = fn, .arg = arg};
    v->arena = bh_arena_new();
    v->limits = bh_box_limits(&spec->lease->box);
    v->later = evtimer_new(spec->host->loop, go_on, v);
    BH_ASSERT(v->later);
    struct looking *l = bh_alloc(sizeof(*l));
    *l = (struct looking){.run = bh_run_files_ref(spec->run), .n = spec->n_items};
    l->looks = bh_calloc(l->n, sizeof(*l->looks));
    for (size_t i = 0; i < l->n; i++)
        l->looks[i] = look_of(&spec->items[i]);
    v->job = bh_helper_submit(spec->host->helper, &ops, v, l);
    return v;
}

void bh_validation_stop(struct bh_validation *v)
{
    struct bh_verdict verdict;
    if (v->state == ENDED)
        return;
    if (v->command) { /* its end comes as always */
        bh_command_stop(v->command);
        return;
    }
    bh_verdict_cancelled(&verdict);
    end_with(v, &verdict);
}

void bh_validation_free(struct bh_validation *v)
{
    if (!v)
        return;
    BH_ASSERT(v->magic == MAGIC);
    bh_job_forget(v->job);
    bh_command_free(v->command);
    if (v->box)
        (void)bh_box_handle_drop(v->box, false, NULL, NULL);
    event_free(v->later);
    bh_verdict_fini(&v->verdict);
    bh_arena_free(v->arena);
    bh_free(v->key);
    v->magic = 0;
    bh_free(v);
}
