/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared boxes of this worker.
 *
 *   (enter) --create_box--> CREATING --on_created--> SETTING_UP --on_setup_done--> READY
 *                              |                         |                           |
 *                              +--------- give_up -------+---------------------------+--> ENDING --on_gone--> removed,
 *                                                                                         or CREATING for who came
 * since
 *
 * In CREATING and SETTING_UP every use waits; in READY every use was told; in ENDING there are only those who came too
 * late for the old box and wait for a new one, and those who were told that it failed and have not left yet.
 * Uses are told from the loop, never from inside a call of theirs.
 */
#include "workers/shared_boxes.h"

#include <event2/event.h>

#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/val.h"
#include "workers/box_call.h"
#include "workers/deliver.h"
#include "workers/exec_env.h"
#include "workers/lease_limits.h"

#define MAGIC 0x73686278u

/* What it takes to make the box, copied from the lease of who came first. Lies in the arena. */
struct recipe {
    struct bh_arena *arena; /* NULL: there is none */
    struct bh_box_spec spec;
    struct bh_lease_box box;  /* id, key and files alone */
    const char *const *setup; /* NULL: nothing to do once the box is made */
    const char *const *env;
    int64_t setup_ns, grace_ns;
    struct bh_lease *reach; /* of who came first, without what is its own: whom the setup may reach; NULL: nobody */
};

struct shared_box {
    uint32_t magic;
    struct bh_shared_boxes *owner;
    char *name; /* "RUN/KEY" */
    enum { CREATING, SETTING_UP, READY, ENDING } state;
    struct bh_run_files *run;
    struct bh_box_handle *handle; /* in ENDING: waited for, NULL once it is gone */
    struct recipe recipe;
    struct bh_enforced held;    /* what holds its limits, once it is made */
    struct bh_capture *capture; /* while it is being made */
    struct bh_command *setup;
    struct bh_ways *ways;      /* of the setup */
    struct bh_verdict *set_up; /* how it ended, while its ways are being closed */
    char *cut;                 /* why it was told to end */
    struct bh_list uses;
    struct bh_ledger *ledger;
    struct bh_shared_use *turn_holder;
    struct bh_list turn_queue;
    bool release, release_keep;
    void (*released)(void *arg);
    void *released_arg;
    bh_box_done_fn frozen; /* while it is being frozen */
    void *frozen_arg;
    struct event *later;
};

static struct shared_box *check(void *arg)
{
    struct shared_box *b = arg;
    BH_ASSERT(b->magic == MAGIC);
    return b;
}

struct bh_shared_use {
    struct bh_list link, turn_link;
    struct shared_box *box;
    enum { WAITS, INSIDE, FAILED } state;
    struct bh_shared_events events;
    void *arg;
    void (*turn)(void *arg);
    struct bh_capture *capture; /* until it has been told */
    struct recipe recipe;       /* where there was no box when it came */
};

struct bh_shared_boxes {
    struct event_base *loop;
    struct bh_boxes *boxes;
    int null_fd;
    const struct bh_ways_host *ways;
    struct bh_map *by_name;
};

static void give_up(struct shared_box *b, bool keep);

/* --- recipes --- */

static void recipe_fini(struct recipe *r)
{
    if (r->reach)
        bh_lease_fini(r->reach);
    bh_free(r->reach);
    bh_arena_free(r->arena);
    *r = (struct recipe){0};
}

static void copy_files(struct recipe *r, const struct bh_lease_box *box)
{
    struct bh_lease_file *files = bh_arena_alloc(r->arena, box->n_files * sizeof(*files));
    for (size_t i = 0; i < box->n_files; i++) {
        files[i].path = bh_arena_strdup(r->arena, box->files[i].path);
        files[i].object = box->files[i].object;
    }
    r->box.files = files;
    r->box.n_files = box->n_files;
}

/* The lease is another's: what of it the setup needs is written down and read again. */
static struct bh_lease *copy_reach(const struct bh_lease *lease)
{
    if (!bh_ways_needed(lease, BH_WAYS(BH_NET_SETUP)))
        return NULL;
    struct bh_lease bare = *lease;
    bare.n_endpoints = bare.n_secrets = bare.n_gates = bare.n_inputs = bare.n_files = 0;
    BH_CLEANUP_VAL struct bh_val *v = bh_lease_to_val(&bare);
    struct bh_lease *copy = bh_alloc(sizeof(*copy));
    BH_ASSERT(bh_lease_from_val(v, copy, NULL) == 0); /* as all of it was, when it came */
    return copy;
}

/* A box made from layers has had its files and its setup. Files without a setup still need a command to come with. */
static void copy_setup(struct recipe *r, const struct bh_lease *lease)
{
    static char *const nothing[] = {(char *)(uintptr_t) "true"};
    const struct bh_lease_box *box = &lease->box;
    if (box->n_layers > 0 || (box->n_setup == 0 && box->n_files == 0))
        return;
    copy_files(r, box);
    r->setup = box->n_setup > 0 ? bh_exec_texts(r->arena, box->setup, box->n_setup)
                                : bh_exec_texts(r->arena, nothing, BH_ARRAY_LEN(nothing));
    r->env = bh_exec_env_of_box(r->arena, lease);
    r->setup_ns = lease->setup_ns;
    r->grace_ns = lease->grace_ns;
    r->reach = copy_reach(lease);
}

static void recipe_init(struct recipe *r, const struct bh_run_files *run, const struct bh_lease *lease)
{
    const struct bh_lease_box *box = &lease->box;
    *r = (struct recipe){.arena = bh_arena_new()};
    r->box.id = bh_arena_strdup(r->arena, box->id);
    r->box.key = bh_arena_strdup(r->arena, box->key);
    r->spec = (struct bh_box_spec){
        .run_dir = bh_arena_strdup(r->arena, run->dir),
        .key = r->box.key,
        .base_layers = bh_exec_texts(r->arena, box->base_layers, box->n_base_layers),
        .n_base_layers = box->n_base_layers,
        .agent_uid = (uint32_t)box->agent_uid,
        .agent_gid = (uint32_t)box->agent_gid,
        .limits = bh_box_limits(box),
        .best_effort = box->best_effort,
        .layers = bh_exec_texts(r->arena, box->layers, box->n_layers),
        .n_layers = box->n_layers,
        .writable_usr = box->writable_usr,
        .shared = true,
        .host_network = bh_ways_on_host(lease, BH_WAYS(BH_NET_SETUP) | BH_WAYS(BH_NET_RUN)),
    };
    copy_setup(r, lease);
}

/* --- telling --- */

static void told(struct bh_shared_use *use)
{
    bh_capture_unref(BH_TAKE(use->capture));
    recipe_fini(&use->recipe);
}

static void fail_waiting(struct shared_box *b, const struct bh_verdict *verdict)
{
    BH_LIST_FOREACH (it, tmp, &b->uses) {
        struct bh_shared_use *use = BH_CONTAINER(it, struct bh_shared_use, link);
        if (use->state != WAITS)
            continue;
        use->state = FAILED;
        told(use);
        use->events.ready(use->arg, NULL, verdict);
    }
}

static void tell_waiting(struct shared_box *b)
{
    BH_LIST_FOREACH (it, tmp, &b->uses) {
        struct bh_shared_use *use = BH_CONTAINER(it, struct bh_shared_use, link);
        if (use->state != WAITS)
            continue;
        use->state = INSIDE;
        told(use);
        use->events.ready(use->arg, bh_box_handle_box(b->handle), NULL);
    }
}

/* Could not be made or set up: everybody who waits for it is told so, and the box is ended. Takes the verdict. */
static void fail_making(struct shared_box *b, struct bh_verdict *verdict)
{
    fail_waiting(b, verdict);
    bh_verdict_fini(verdict);
    give_up(b, false);
}

static void become_ready(struct shared_box *b)
{
    b->state = READY;
    bh_capture_unref(BH_TAKE(b->capture));
    recipe_fini(&b->recipe);
    tell_waiting(b);
}

/* --- making --- */

static void end_setup(struct shared_box *b, struct bh_verdict *verdict)
{
    if (verdict->outcome == BH_OUTCOME_SUCCEEDED)
        become_ready(b);
    else
        fail_making(b, verdict);
}

static void drop_ways(struct shared_box *b)
{
    bh_ways_free(BH_TAKE(b->ways));
    if (b->set_up)
        bh_verdict_fini(b->set_up);
    bh_free(BH_TAKE(b->set_up));
    bh_free(BH_TAKE(b->cut));
}

static void on_ways_gone(void *arg)
{
    struct shared_box *b = check(arg);
    BH_CLEANUP_FREE struct bh_verdict *verdict = BH_TAKE(b->set_up);
    drop_ways(b);
    end_setup(b, verdict);
}

static void on_setup_done(void *arg, const struct bh_command_end *end)
{
    struct shared_box *b = check(arg);
    struct bh_verdict verdict;
    BH_CLEANUP_FREE char *what = bh_asprintf("setup of box '%s'", b->recipe.box.id);
    const struct bh_command_name name = {
        .what = what,
        .phase = BH_PHASE_SETUP,
        .argv0 = b->recipe.setup[0],
        .timeout_ns = b->recipe.setup_ns,
        .limits = &b->recipe.spec.limits,
        .held = b->held,
        .box = b->recipe.box.id,
    };
    (void)bh_verdict_of_command(&verdict, &name, end);
    if (b->cut && end->stopped) {
        bh_verdict_fini(&verdict);
        bh_verdict_failed(&verdict, BH_REASON_HOST, "%s", b->cut);
    }
    bh_command_free(BH_TAKE(b->setup));
    if (!b->ways) {
        end_setup(b, &verdict);
        return;
    }
    b->set_up = bh_memdup(&verdict, sizeof(verdict));
    bh_ways_close(b->ways, on_ways_gone, b);
}

static int start_setup(struct shared_box *b, struct bh_err **err)
{
    struct bh_delivery delivery = {0};
    int rc = bh_deliver_box(b->run, &b->recipe.box, b->recipe.arena, &delivery, err);
    if (rc != 0)
        return rc;
    const struct bh_command_spec spec = {
        .loop = b->owner->loop,
        .box = bh_box_handle_box(b->handle),
        .capture = b->capture,
        .exec =
            {
                .argv = b->recipe.setup,
                .env = b->ways ? bh_ways_env(b->ways, b->recipe.arena, b->recipe.env) : b->recipe.env,
                .cwd = "/workspace",
                .root = true,
                .host_network = b->recipe.reach && bh_ways_on_host(b->recipe.reach, BH_WAYS(BH_NET_SETUP)),
                .stdin_fd = b->owner->null_fd,
                .copies = delivery.copies,
                .n_copies = delivery.n_copies,
                .limits = {.of = {[BH_LIMIT_NOFILE] = b->recipe.spec.limits.of[BH_LIMIT_NOFILE]}},
                .give_to_agent = true,
            },
        .timeout_ns = b->recipe.setup_ns,
        .grace_ns = b->recipe.grace_ns,
    };
    return bh_command_start(&spec, on_setup_done, b, &b->setup, err);
}

static void fail_setup(struct shared_box *b, int code, const struct bh_err *err)
{
    struct bh_verdict verdict;
    bh_verdict_host(&verdict, "setting up the box", code, err);
    fail_making(b, &verdict);
}

static void begin_setup(void *arg, int code, const struct bh_err *why)
{
    struct shared_box *b = check(arg);
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (code != 0) {
        fail_setup(b, code, why);
        return;
    }
    int rc = start_setup(b, &err);
    if (rc != 0)
        fail_setup(b, rc, err);
}

static void on_ways_broken(void *arg, bool budget BH_UNUSED, const char *why)
{
    struct shared_box *b = check(arg);
    if (!b->setup)
        return;
    b->cut = bh_strdup(why);
    bh_command_stop(b->setup);
}

static void open_ways(struct shared_box *b)
{
    const struct bh_ways_spec spec = {
        .host = b->owner->ways,
        .lease = b->recipe.reach,
        .box = bh_box_handle_box(b->handle),
        .phases = BH_WAYS(BH_NET_SETUP),
        .broken = on_ways_broken,
        .arg = b,
    };
    b->ways = bh_ways_new(&spec);
    bh_ways_enter(b->ways, BH_NET_SETUP, begin_setup, b);
}

static void on_created(void *arg, int code, const struct bh_err *error)
{
    struct shared_box *b = check(arg);
    struct bh_verdict verdict;
    if (code != 0) {
        bh_verdict_host(&verdict, "making the box", code, error);
        fail_making(b, &verdict);
        return;
    }
    b->held = b->owner->boxes->ops->enforced(bh_box_handle_box(b->handle), NULL);
    if (!b->recipe.setup) {
        become_ready(b);
        return;
    }
    b->state = SETTING_UP;
    if (b->recipe.reach)
        open_ways(b);
    else
        begin_setup(b, 0, NULL);
}

static void on_lost(void *arg)
{
    struct shared_box *b = check(arg);
    struct bh_verdict verdict;
    bh_verdict_lost(&verdict, "the wait for it");
    fail_waiting(b, &verdict);
    bh_verdict_fini(&verdict);
    BH_LIST_FOREACH (it, tmp, &b->uses) {
        struct bh_shared_use *use = BH_CONTAINER(it, struct bh_shared_use, link);
        if (use->state != INSIDE)
            continue;
        use->state = FAILED;
        use->events.lost(use->arg);
    }
    give_up(b, false);
}

/* For the first who waits; its recipe and its log become the box's. */
static void create_box(struct shared_box *b, struct bh_shared_use *first)
{
    static const struct bh_box_events events = {on_created, on_lost};
    b->state = CREATING;
    b->release = false;
    b->recipe = first->recipe;
    first->recipe = (struct recipe){0};
    b->capture = bh_capture_ref(first->capture);
    b->handle = bh_box_handle_new(b->owner->boxes, &b->recipe.spec, &events, b);
}

/* --- ending --- */

static void remove_box(struct shared_box *b)
{
    BH_CLEANUP_FREE char *name = BH_TAKE(b->name);
    bh_map_del(b->owner->by_name, name);
    bh_command_free(b->setup);
    drop_ways(b);
    bh_capture_unref(b->capture);
    recipe_fini(&b->recipe);
    bh_ledger_free(b->ledger);
    bh_run_files_unref(b->run);
    event_free(b->later);
    b->magic = 0;
    bh_free(b);
}

static struct bh_shared_use *first_waiting(struct shared_box *b)
{
    BH_LIST_FOREACH (it, tmp, &b->uses) {
        struct bh_shared_use *use = BH_CONTAINER(it, struct bh_shared_use, link);
        if (use->state == WAITS)
            return use;
    }
    return NULL;
}

static void tell_released(struct shared_box *b)
{
    void (*released)(void *arg) = BH_TAKE(b->released);
    if (released)
        released(b->released_arg);
}

/* The old box is gone: a new one for who came since, or none. */
static void after_gone(struct shared_box *b)
{
    tell_released(b);
    struct bh_shared_use *first = first_waiting(b);
    if (first)
        create_box(b, first);
    else if (bh_list_empty(&b->uses))
        remove_box(b);
}

static void on_gone(void *arg, int code, const struct bh_err *err)
{
    struct shared_box *b = check(arg);
    (void)code;
    (void)err;
    b->handle = NULL;
    after_gone(b);
}

static void give_up(struct shared_box *b, bool keep)
{
    b->state = ENDING;
    bh_command_free(BH_TAKE(b->setup));
    drop_ways(b);
    bh_capture_unref(BH_TAKE(b->capture));
    recipe_fini(&b->recipe);
    if (!bh_box_handle_drop(b->handle, keep, on_gone, b)) {
        b->handle = NULL;
        event_active(b->later, EV_TIMEOUT, 0);
    }
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct shared_box *b = check(arg);
    (void)fd;
    (void)what;
    if (b->state == READY)
        tell_waiting(b);
    else if (b->state == ENDING && !b->handle)
        after_gone(b);
}

/* --- uses --- */

static struct shared_box *find_box(struct bh_shared_boxes *s, const char *run, const char *key)
{
    BH_CLEANUP_FREE char *name = bh_asprintf("%s/%s", run, key);
    return bh_map_get(s->by_name, name);
}

static struct shared_box *new_box(struct bh_shared_boxes *s, struct bh_run_files *run, const char *key)
{
    struct shared_box *b = bh_alloc(sizeof(*b));
    b->magic = MAGIC;
    b->owner = s;
    b->name = bh_asprintf("%s/%s", run->run, key);
    b->run = bh_run_files_ref(run);
    b->ledger = bh_ledger_new();
    bh_list_init(&b->uses);
    bh_list_init(&b->turn_queue);
    b->later = evtimer_new(s->loop, on_later, b);
    BH_ASSERT(b->later);
    bh_map_put(s->by_name, b->name, b);
    return b;
}

struct bh_shared_use *bh_shared_enter(struct bh_shared_boxes *s, struct bh_run_files *run, const struct bh_lease *lease,
                                      struct bh_capture *capture, const struct bh_shared_events *events, void *arg)
{
    struct shared_box *b = find_box(s, run->run, lease->box.key);
    struct bh_shared_use *use = bh_alloc(sizeof(*use));
    bool fresh = !b;
    if (fresh)
        b = new_box(s, run, lease->box.key);
    use->box = b;
    use->events = *events;
    use->arg = arg;
    use->capture = bh_capture_ref(capture);
    bh_list_init(&use->turn_link);
    bh_list_append(&b->uses, &use->link);
    if (fresh || b->state == ENDING)
        recipe_init(&use->recipe, run, lease);
    if (fresh)
        create_box(b, use);
    else if (b->state == READY || (b->state == ENDING && !b->handle))
        event_active(b->later, EV_TIMEOUT, 0);
    return use;
}

struct bh_ledger *bh_shared_ledger(const struct bh_shared_use *use)
{
    return use->box->ledger;
}

static void give_turn(struct shared_box *b)
{
    b->turn_holder = NULL;
    if (bh_list_empty(&b->turn_queue))
        return;
    struct bh_shared_use *next = BH_CONTAINER(b->turn_queue.next, struct bh_shared_use, turn_link);
    bh_list_remove(&next->turn_link);
    b->turn_holder = next;
    next->turn(next->arg);
}

void bh_shared_setup_begin(struct bh_shared_use *use, void (*turn)(void *arg))
{
    struct shared_box *b = use->box;
    BH_ASSERT(use->state == INSIDE);
    use->turn = turn;
    bh_list_append(&b->turn_queue, &use->turn_link);
    if (!b->turn_holder)
        give_turn(b);
}

void bh_shared_setup_end(struct bh_shared_use *use)
{
    if (use->box->turn_holder == use)
        give_turn(use->box);
}

void bh_shared_leave(struct bh_shared_use *use)
{
    struct shared_box *b = use->box;
    bh_list_remove(&use->link);
    bh_list_remove(&use->turn_link);
    bh_shared_setup_end(use);
    told(use);
    bh_free(use);
    if (!bh_list_empty(&b->uses))
        return;
    if (b->state == CREATING || b->state == SETTING_UP)
        give_up(b, false);
    else if (b->state == READY && b->release)
        give_up(b, b->release_keep);
    else if (b->state == ENDING && !b->handle)
        after_gone(b);
}

/* --- what the engine asks for --- */

static void on_frozen(void *arg, int code, const struct bh_err *err)
{
    struct shared_box *b = check(arg);
    bh_box_done_fn frozen = BH_TAKE(b->frozen);
    b->handle = NULL;
    frozen(b->frozen_arg, code, err);
    after_gone(b);
}

static const char *not_freezable(const struct shared_box *b)
{
    if (!b)
        return "does not live on this worker";
    if (b->state != READY)
        return b->state == ENDING ? "is being ended" : "is still being made";
    return bh_list_empty(&b->uses) ? NULL : "has an agent in it";
}

void bh_shared_freeze(struct bh_shared_boxes *s, const char *run, const char *key, const char *layer, bh_box_done_fn fn,
                      void *arg)
{
    struct shared_box *b = find_box(s, run, key);
    const char *problem = not_freezable(b);
    if (problem) {
        BH_CLEANUP_ERR struct bh_err *err = NULL;
        int rc = bh_err_set(&err, BH_E_BUSY, 0, "box '%s' %s", key, problem);
        fn(arg, rc, err);
        return;
    }
    b->state = ENDING;
    b->frozen = fn;
    b->frozen_arg = arg;
    bh_box_handle_freeze(b->handle, layer, on_frozen, b);
}

void bh_shared_release(struct bh_shared_boxes *s, const char *run, const char *key, bool keep, void (*fn)(void *arg),
                       void *arg)
{
    struct shared_box *b = find_box(s, run, key);
    if (!b) {
        fn(arg);
        return;
    }
    tell_released(b); /* whoever asked before is answered by whoever asks now */
    b->release = true;
    b->release_keep = keep;
    b->released = fn;
    b->released_arg = arg;
    if (b->state == READY && bh_list_empty(&b->uses))
        give_up(b, keep);
}

/* --- all of them --- */

struct bh_shared_boxes *bh_shared_boxes_new(struct event_base *loop, struct bh_boxes *boxes, int null_fd,
                                            const struct bh_ways_host *ways)
{
    struct bh_shared_boxes *s = bh_alloc(sizeof(*s));
    *s = (struct bh_shared_boxes){
        .loop = loop, .boxes = boxes, .null_fd = null_fd, .ways = ways, .by_name = bh_map_new(NULL)};
    return s;
}

static void end_at_once(struct shared_box *b)
{
    BH_ASSERT(bh_list_empty(&b->uses));
    if (b->frozen)
        BH_TAKE(b->frozen)(b->frozen_arg, -BH_E_INTERRUPTED, NULL);
    tell_released(b);
    bh_command_free(BH_TAKE(b->setup));
    drop_ways(b);
    if (b->state != ENDING)
        (void)bh_box_handle_drop(b->handle, false, NULL, NULL);
    else if (b->handle)
        bh_box_handle_forget(b->handle);
    remove_box(b);
}

void bh_shared_boxes_free(struct bh_shared_boxes *s)
{
    const char *name;
    void *box;
    if (!s)
        return;
    for (size_t it = 0; bh_map_next(s->by_name, &it, &name, &box); it = 0)
        end_at_once(box);
    bh_map_free(s->by_name);
    bh_free(s);
}
