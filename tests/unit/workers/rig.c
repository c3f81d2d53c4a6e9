/* SPDX-License-Identifier: Apache-2.0 */
/* The rig of the worker's tests (rig.h). */
#include "tests/unit/workers/rig.h"

#include <event2/event.h>
#include <unistd.h>

#include "artifact-bus/transport.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/logs/log_file.h"

#define TOKEN "secret"

/* --- the engine --- */

static void drop_parked(struct rig_lane *lane)
{
    if (lane->parked)
        bh_bus_request_drop(BH_TAKE(lane->parked));
}

static void answer(struct rig_lane *lane)
{
    if (!lane->parked || lane->n == 0)
        return;
    bh_bus_reply(BH_TAKE(lane->parked), lane->queue[0]);
    memmove(lane->queue, lane->queue + 1, --lane->n * sizeof(lane->queue[0]));
}

static void post(struct rig_lane *lane, struct bh_val *body)
{
    assert_true(lane->n < BH_ARRAY_LEN(lane->queue));
    lane->queue[lane->n++] = body;
    answer(lane);
}

static void park(struct rig_lane *lane, struct bh_bus_request *request)
{
    drop_parked(lane);
    lane->parked = request;
    answer(lane);
}

static struct bh_val *map_of(const char *key, bool value)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_bool(v, key, value);
    return v;
}

/* "2" of "…-000002". */
static long number_of(const char *instance)
{
    return strtol(instance + BH_ID_LEN + 1, NULL, 10);
}

/* Of a worker before this one. */
static void drop_stale(struct rig_lane *lane, const struct bh_bus_request *hello)
{
    if (lane->parked && bh_bus_request_peer(lane->parked) != bh_bus_request_peer(hello))
        drop_parked(lane);
}

static void on_hello(struct rig *r, struct bh_bus_request *request, const struct bh_val *body)
{
    struct bh_val *v = bh_val_map();
    r->hellos++;
    drop_stale(&r->work, request);
    drop_stale(&r->control, request);
    assert_string_equal(bh_val_str_of(body, "token"), TOKEN);
    assert_int_equal(bh_val_int_of(body, "slots"), 4);
    if (r->refuse_hello)
        bh_val_set_str(v, "error", "not today");
    else
        bh_val_set_bool(v, "ok", true);
    bh_val_set_int(v, "worker", 0);
    bh_bus_reply(request, v);
}

static void free_result(void *p)
{
    bh_result_fini(p);
    bh_free(p);
}

static void on_done(struct rig *r, struct bh_bus_request *request, const struct bh_val *body)
{
    struct bh_result *result = bh_alloc(sizeof(*result));
    T_OK(bh_result_from_val(bh_val_get(body, "result"), result, &err));
    bh_buf_addf(&r->said, "done %ld\n", number_of(result->instance.s));
    bh_map_put(r->results, result->instance.s, result);
    if (r->drop_done) {
        bh_bus_request_drop(request);
        return;
    }
    struct bh_val *v = map_of("ok", !r->stale);
    if (r->stale)
        bh_val_set_bool(v, "stale", true);
    bh_bus_reply(request, v);
}

static void on_message(struct rig *r, struct bh_bus_request *request, const char *kind, const struct bh_val *body)
{
    if (bh_streq(kind, "state"))
        bh_buf_addf(&r->said, "state %ld %s\n", number_of(bh_val_str_of(body, "instance")),
                    bh_val_str_of(body, "state"));
    else if (bh_streq(kind, "frozen"))
        bh_buf_addf(&r->said, "frozen %s %s %s\n", bh_val_str_of(body, "key"), bh_val_str_of(body, "layer"),
                    bh_val_bool_of(body, "ok") ? "ok" : bh_val_str_of(body, "detail"));
    else if (bh_streq(kind, "released"))
        bh_buf_addf(&r->said, "released %s\n", bh_val_str_of(body, "key"));
    else
        fail_msg("the worker said '%s'", kind);
    bh_bus_reply(request, map_of("ok", true));
}

static void on_request(struct rig *r, struct bh_bus_request *request)
{
    const struct bh_val *body = bh_bus_request_body(request);
    const char *kind = bh_val_str_of(body, "kind");
    if (bh_streq(kind, "hello"))
        on_hello(r, request, body);
    else if (bh_streq(kind, "work"))
        park(&r->work, request);
    else if (bh_streq(kind, "control"))
        park(&r->control, request);
    else if (bh_streq(kind, "done"))
        on_done(r, request, body);
    else
        on_message(r, request, kind, body);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct rig *r = arg;
    struct bh_bus_request *request;
    (void)fd;
    (void)what;
    while ((request = bh_bus_server_next(r->server)) != NULL)
        on_request(r, request);
}

void rig_engine_start(struct rig *r)
{
    T_OK(bh_bus_server_new(r->url, &r->server, &err));
    r->readable = event_new(r->loop, bh_bus_server_fd(r->server), EV_READ | EV_PERSIST, on_readable, r);
    assert_int_equal(event_add(r->readable, NULL), 0);
}

static void empty(struct rig_lane *lane)
{
    drop_parked(lane);
    while (lane->n > 0)
        bh_val_free(lane->queue[--lane->n]);
}

void rig_engine_stop(struct rig *r)
{
    if (!r->server)
        return;
    empty(&r->work);
    empty(&r->control);
    event_free(BH_TAKE(r->readable));
    bh_bus_server_free(BH_TAKE(r->server));
}

/* --- the loop --- */

struct wait {
    bool over;
};

static void on_over(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    ((struct wait *)arg)->over = true;
}

void rig_until(struct rig *r, bool (*holds)(struct rig *r, const void *arg), const void *arg)
{
    struct wait wait = {false};
    const struct timeval tv = {.tv_sec = 10};
    struct event *timer = evtimer_new(r->loop, on_over, &wait);
    event_add(timer, &tv);
    while (!holds(r, arg) && !wait.over)
        event_base_loop(r->loop, EVLOOP_ONCE);
    event_free(timer);
    if (wait.over)
        fail_msg("it never came\nsaid:\n%s\nboxes:\n%s", r->said.data, r->boxes ? r->boxes->journal.data : "real ones");
}

bool rig_said(const struct rig *r, const char *line)
{
    size_t n = strlen(line);
    for (const char *at = r->said.data; (at = strstr(at, line)) != NULL; at++) {
        if ((at == r->said.data || at[-1] == '\n') && at[n] == '\n')
            return true;
    }
    return false;
}

static bool said(struct rig *r, const void *line)
{
    return rig_said(r, line);
}

void rig_until_said(struct rig *r, const char *line)
{
    rig_until(r, said, line);
}

/* --- life --- */

void rig_worker_start(struct rig *r)
{
    const struct bh_worker_options options = {.home = r->home, .url = r->url, .token = TOKEN, .slots = 4};
    T_OK(bh_worker_new(r->loop, r->backend, &options, &r->worker, &err));
}

void rig_worker_stop(struct rig *r)
{
    bh_worker_free(BH_TAKE(r->worker));
}

static bool greeted(struct rig *r, const void *arg)
{
    return r->hellos > *(const int *)arg;
}

void rig_worker_again(struct rig *r)
{
    int before = r->hellos;
    rig_worker_start(r);
    rig_until(r, greeted, &before);
}

static struct rig *new_rig(void)
{
    struct rig *r = bh_alloc(sizeof(*r));
    r->run = bh_run_id_new();
    r->home = t_tmpdir();
    r->url = bh_asprintf("inproc://rig-%s", r->run.s);
    r->loop = event_base_new();
    r->results = bh_map_new(free_result);
    bh_buf_init(&r->said);
    return r;
}

static void start(struct rig *r)
{
    BH_CLEANUP_FREE char *cas = bh_path_join(r->home, "cas");
    BH_CLEANUP_FREE char *tmp = bh_path_join(r->home, "tmp");
    T_OK(bh_mkdir_p(tmp, 0700, &err));
    T_OK(bh_cas_open(cas, tmp, &r->cas, &err));
    rig_engine_start(r);
    rig_worker_start(r);
}

struct rig *rig_new(void)
{
    struct rig *r = new_rig();
    r->boxes = fake_boxes_new(r->loop);
    r->backend = &r->boxes->base;
    start(r);
    return r;
}

struct rig *rig_new_with(struct bh_boxes *(*make)(struct event_base *loop, const char *home))
{
    struct rig *r = new_rig();
    r->backend = make(r->loop, r->home);
    if (!r->backend) {
        rig_free(r);
        return NULL;
    }
    start(r);
    return r;
}

void rig_free(struct rig *r)
{
    bh_worker_free(r->worker);
    if (r->backend)
        r->backend->ops->close(r->backend);
    rig_engine_stop(r);
    event_base_free(r->loop);
    bh_cas_close(r->cas);
    bh_map_free(r->results);
    bh_buf_fini(&r->said);
    bh_free(r->url);
    t_tmpdir_free(r->home);
    bh_free(r);
}

int rig_setup(void **state)
{
    *state = rig_new();
    return 0;
}

int rig_teardown(void **state)
{
    rig_free(*state);
    return 0;
}

/* --- leases --- */

static char **argv_of(const char *const *steps, size_t *ret_n)
{
    size_t n = 0;
    while (steps[n])
        n++;
    char **argv = bh_calloc(n + 2, sizeof(*argv));
    argv[0] = bh_strdup("fake");
    for (size_t i = 0; i < n; i++)
        argv[i + 1] = bh_strdup(steps[i]);
    *ret_n = n + 1;
    return argv;
}

static void add_env(struct bh_lease *lease, const char *name, const char *value)
{
    lease->env = bh_realloc_array(lease->env, lease->n_env + 1, sizeof(*lease->env));
    lease->env[lease->n_env++] = (struct bh_lease_env){.name = bh_strdup(name), .value = bh_strdup(value)};
}

struct bh_lease rig_lease(struct rig *r, const char *const *steps)
{
    struct bh_lease lease = {
        .run = r->run,
        .instance = bh_instance_id_make(r->run, ++r->instances),
        .epoch = 7,
        .agent = bh_strdup("writer"),
        .stage = bh_strdup(""),
        .attempt = 1,
        .try_ = 1,
        .box =
            {
                .id = bh_strdup("writer"),
                .base = bh_strdup("host"),
            },
        .user = bh_strdup("agent"),
        .workdir = bh_strdup("/workspace"),
        .params_json = bh_strdup("{}"),
        .setup_ns = 60 * BH_NS_PER_S,
        .run_ns = 60 * BH_NS_PER_S,
        .grace_ns = 60 * BH_NS_PER_S,
        .keep = BH_LEASE_KEEP_ON_FAILURE,
    };
    lease.box.key = bh_asprintf("own%u", r->instances);
    lease.run_argv = argv_of(steps, &lease.n_run);
    add_env(&lease, "BULKHEAD_RUN", r->run.s);
    add_env(&lease, "BULKHEAD_AGENT", "writer");
    add_env(&lease, "BULKHEAD_PARAM_TOPIC", "boxes");
    add_env(&lease, "HOME", "/home/agent");
    add_env(&lease, "COLOUR", "blue");
    return lease;
}

void rig_set_argv(char ***argv, size_t *n, const char *const *words)
{
    for (size_t i = 0; i < *n; i++)
        bh_free((*argv)[i]);
    bh_free(*argv);
    for (*n = 0; words[*n];)
        ++*n;
    *argv = bh_calloc(*n + 1, sizeof(**argv));
    for (size_t i = 0; i < *n; i++)
        (*argv)[i] = bh_strdup(words[i]);
}

void rig_set_text(char **field, const char *text)
{
    bh_free(*field);
    *field = bh_strdup(text);
}

void rig_set_setup(struct bh_lease *lease, const char *const *steps)
{
    lease->setup = argv_of(steps, &lease->n_setup);
}

void rig_set_shared(struct bh_lease *lease, const char *key)
{
    rig_set_text(&lease->box.id, "crew");
    rig_set_text(&lease->box.key, key);
    lease->box.shared = true;
}

void rig_set_box_setup(struct bh_lease *lease, const char *const *steps)
{
    lease->box.setup = argv_of(steps, &lease->box.n_setup);
}

static struct bh_lease_output *push_output(struct bh_lease *lease)
{
    lease->outputs = bh_realloc_array(lease->outputs, lease->n_outputs + 1, sizeof(*lease->outputs));
    struct bh_lease_output *o = &lease->outputs[lease->n_outputs++];
    *o = (struct bh_lease_output){.max_size = -1, .max_files = 1000, .validate = BH_LEASE_VALIDATE_NOTHING};
    return o;
}

struct bh_lease_output *rig_add_output(struct bh_lease *lease, const char *name)
{
    struct bh_lease_output *o = push_output(lease);
    o->name = bh_strdup(name);
    o->path = bh_asprintf("out/%s", name);
    return o;
}

struct bh_lease_output *rig_add_glob(struct bh_lease *lease, const char *glob)
{
    struct bh_lease_output *o = push_output(lease);
    o->glob = bh_strdup(glob);
    o->path = bh_strdup("out");
    return o;
}

struct bh_object rig_store(struct rig *r, const char *text)
{
    struct bh_object object;
    T_OK(bh_cas_put_bytes(r->cas, text, strlen(text), &object, &err));
    T_OK(bh_cas_sync(r->cas, &err));
    return object;
}

/* --- talking --- */

struct bh_instance_id rig_send(struct rig *r, struct bh_lease *lease)
{
    struct bh_instance_id instance = lease->instance;
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "kind", "lease");
    bh_val_set(v, "lease", bh_lease_to_val(lease));
    bh_lease_fini(lease);
    post(&r->work, v);
    return instance;
}

void rig_send_kill(struct rig *r, struct bh_instance_id instance, int64_t epoch)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "kind", "kill");
    bh_val_set_str(v, "instance", instance.s);
    bh_val_set_int(v, "epoch", epoch);
    post(&r->control, v);
}

void rig_send_box(struct rig *r, const char *kind, const char *key, const char *layer)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "kind", kind);
    bh_val_set_str(v, "run", r->run.s);
    bh_val_set_str(v, "box", "crew");
    bh_val_set_str(v, "key", key);
    if (layer)
        bh_val_set_str(v, "layer", layer);
    post(&r->work, v);
}

static bool has_result(struct rig *r, const void *instance)
{
    return bh_map_has(r->results, instance);
}

const struct bh_result *rig_result(struct rig *r, struct bh_instance_id instance)
{
    rig_until(r, has_result, instance.s);
    return bh_map_get(r->results, instance.s);
}

const struct bh_result *rig_run(struct rig *r, struct bh_lease *lease)
{
    return rig_result(r, rig_send(r, lease));
}

static char *read_log(struct rig *r, struct bh_instance_id instance, const char *of)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/logs/%s%s.log", r->home, r->run.s, instance.s, of);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT, errors = BH_BUF_INIT;
    struct bh_log_reader *reader = NULL;
    struct bh_log_line line;
    T_OK(bh_log_reader_open(path, &reader, &err));
    while (bh_log_reader_next(reader, &line, NULL) == 1) {
        struct bh_buf *to = line.stream == BH_STREAM_STDOUT ? &out : &errors;
        bh_buf_add(to, line.text, line.len);
        bh_buf_adds(to, line.eol ? "\n" : "\\");
    }
    bh_log_reader_close(reader);
    bh_buf_addc(&out, '|');
    bh_buf_add(&out, errors.data, errors.len);
    return bh_buf_take(&out);
}

char *rig_log(struct rig *r, struct bh_instance_id instance)
{
    return read_log(r, instance, "");
}

char *rig_gate_log(struct rig *r, struct bh_instance_id instance)
{
    return read_log(r, instance, ".gate");
}

void rig_expect_object(struct rig *r, const struct bh_result_output *output, const char *name, const char *text)
{
    BH_CLEANUP_BUF struct bh_buf data = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = -1;
    T_STR(output->name, name);
    T_OK(bh_cas_open_object(r->cas, &output->object.digest, &fd, &err));
    T_OK(bh_read_all(fd, 1 << 20, &data, &err));
    T_STR(data.data, text);
}
