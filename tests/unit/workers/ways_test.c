/* SPDX-License-Identifier: Apache-2.0 */
/* Ways out of a box, against sham brokers. The box is a fake one, the sockets are real. */
#include "workers/ways.h"

#include <event2/event.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/support/fake_boxes.h"
#include "tests/support/t.h"
#include "tests/unit/workers/sham_broker.h"
#include "workers/helper.h"

#define RUN "01k8h3z5v7x9abcdefghjkmnpq"

/* --- the worker's side --- */

static struct rig {
    char *dir;
    struct event_base *loop;
    struct fake_boxes *boxes;
    struct bh_box *box;
    struct bh_ways_host host;
    struct bh_lease lease;
    struct bh_ways *ways;
    bool created, ready, gone, broken, budget;
    int code;
    char message[512], why[256];
} r;

static void turn_until(const bool *flag)
{
    const struct timeval patience = {.tv_sec = 30};
    (void)event_base_loopexit(r.loop, &patience);
    while (!*flag) {
        if (event_base_loop(r.loop, EVLOOP_ONCE) != 0 || event_base_got_exit(r.loop))
            fail_msg("nothing happened for 30 s");
    }
}

static void on_created(void *arg, struct bh_box *box, int code, const struct bh_err *err)
{
    (void)arg;
    (void)err;
    T_INT(code, 0);
    r.box = box;
    r.created = true;
}

static void on_lost(void *arg)
{
    (void)arg;
}

static void on_ready(void *arg, int code, const struct bh_err *err)
{
    (void)arg;
    r.ready = true;
    r.code = code;
    (void)snprintf(r.message, sizeof(r.message), "%s", err ? bh_err_message(err) : "");
}

static void on_gone(void *arg)
{
    (void)arg;
    r.gone = true;
}

static void on_broken(void *arg, bool budget, const char *why)
{
    (void)arg;
    assert_false(r.broken); /* once */
    r.broken = true;
    r.budget = budget;
    (void)snprintf(r.why, sizeof(r.why), "%s", why);
}

static int set_up(void **state)
{
    (void)state;
    r = (struct rig){.dir = t_tmpdir(), .loop = event_base_new()};
    struct bh_home home;
    T_OK(bh_home_open(r.dir, true, &home, &err));
    bh_home_close(&home);
    r.boxes = fake_boxes_new(r.loop);
    r.host = (struct bh_ways_host){.loop = r.loop, .brokers = bh_brokers_new(r.loop), .home = r.dir};
    T_OK(bh_helper_new(r.loop, &r.host.audit, &err));
    const struct bh_box_spec spec = {.run_dir = r.dir, .key = "b"};
    r.boxes->base.ops->create(&r.boxes->base, &spec, on_created, NULL, on_lost);
    turn_until(&r.created);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bh_ways_free(r.ways);
    bh_brokers_free(r.host.brokers);
    bh_helper_free(r.host.audit);
    r.boxes->base.ops->close(&r.boxes->base);
    event_base_free(r.loop);
    t_tmpdir_free(r.dir);
    return 0;
}

/* Of the document; what is static is not owned. */
static char *listed[] = {(char *)(uintptr_t) "good.example.org:443"};
static struct bh_lease_env variables[] = {
    {(char *)(uintptr_t) "BASE_URL", (char *)(uintptr_t) "{{url}}/v1"},
    {(char *)(uintptr_t) "TAKEN", (char *)(uintptr_t) "by the endpoint"},
};
static struct bh_lease_secret secrets[] = {{.name = (char *)(uintptr_t) "KEY", .env = (char *)(uintptr_t) "LLM_KEY"}};
static struct bh_lease_endpoint endpoints[] = {
    {.name = (char *)(uintptr_t) "llm",
     .upstream = (char *)(uintptr_t) "https://x.org",
     .secrets = secrets,
     .n_secrets = 1,
     .env = variables,
     .n_env = 2},
};

static void open_ways(const char *role, bool with_endpoint)
{
    struct bh_lease *l = &r.lease;
    *l = (struct bh_lease){.agent = (char *)(uintptr_t)role, .box.id = (char *)(uintptr_t) "b", .max_tokens = 50};
    memcpy(l->run.s, RUN, sizeof(RUN));
    memcpy(l->instance.s, RUN "-000001", sizeof(RUN "-000001"));
    l->network[BH_NET_RUN] = (struct bh_lease_network){.kind = BH_NET_ALLOW, .allow = listed, .n_allow = 1};
    if (with_endpoint) {
        l->endpoints = endpoints;
        l->n_endpoints = 1;
    }
    const struct bh_ways_spec spec = {.host = &r.host,
                                      .lease = l,
                                      .box = r.box,
                                      .phases = BH_WAYS(BH_NET_SETUP) | BH_WAYS(BH_NET_RUN),
                                      .broken = on_broken};
    r.ways = bh_ways_new(&spec);
}

static void enter(enum bh_net_phase phase)
{
    r.ready = false;
    bh_ways_enter(r.ways, phase, on_ready, NULL);
    assert_false(r.ready); /* never from inside */
    turn_until(&r.ready);
}

static void close_ways(void)
{
    bh_ways_close(r.ways, on_gone, NULL);
    assert_false(r.gone);
    turn_until(&r.gone);
}

static char *audit_log(void)
{
    struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = bh_path_join(r.dir, "audit/audit.jsonl");
    if (access(path, F_OK) == 0)
        T_OK(bh_read_file(path, 16 << 20, &text, &err));
    return bh_buf_take(&text);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

static const char *find(const char *const *env, const char *name)
{
    const char *found = NULL;
    for (size_t n = strlen(name); *env; env++) {
        if (strncmp(*env, name, n) != 0 || (*env)[n] != '=')
            continue;
        assert_null(found); /* once */
        found = *env + n + 1;
    }
    return found;
}

/* --- tests --- */

static void nothing_is_made_where_nothing_is_reached(void **state)
{
    (void)state;
    struct bh_lease l = {.n_endpoints = 0};
    assert_false(bh_ways_needed(&l, ~0u));
    l.network[BH_NET_SETUP].kind = BH_NET_PUBLIC;
    assert_true(bh_ways_needed(&l, BH_WAYS(BH_NET_SETUP) | BH_WAYS(BH_NET_RUN)));
    assert_false(bh_ways_needed(&l, BH_WAYS(BH_NET_RUN)));
    assert_false(bh_ways_on_host(&l, ~0u));
    l.network[BH_NET_RUN].kind = BH_NET_HOST; /* no proxy leads there, and it is written down */
    assert_true(bh_ways_needed(&l, BH_WAYS(BH_NET_RUN)));
    assert_true(bh_ways_on_host(&l, BH_WAYS(BH_NET_RUN)));
    assert_false(bh_ways_on_host(&l, BH_WAYS(BH_NET_SETUP)));
    l.network[BH_NET_RUN].kind = BH_NET_NONE;
    l.n_endpoints = 1;
    assert_true(bh_ways_needed(&l, BH_WAYS(BH_NET_RUN)));
    assert_false(bh_ways_needed(&l, BH_WAYS(BH_NET_CHECK))); /* it has no endpoints */
}

static void phases_and_variables(void **state)
{
    (void)state;
    static const char *const given[] = {"A=b", "http_proxy=mine", NULL};
    struct bh_arena *arena = bh_arena_new();
    open_ways("good", false);
    enter(BH_NET_SETUP);
    T_INT(r.code, 0);
    assert_null(find(bh_ways_env(r.ways, arena, given), "HTTP_PROXY")); /* this phase has no network */
    enter(BH_NET_RUN);
    T_INT(r.code, 0);
    const char *const *env = bh_ways_env(r.ways, arena, given);
    T_STR(find(env, "A"), "b");
    T_STR(find(env, "http_proxy"), "mine"); /* the document's own */
    assert_true(bh_starts_with(find(env, "HTTP_PROXY"), "http://127.0.0.1:"));
    T_STR(find(env, "ALL_PROXY"), find(env, "https_proxy"));
    T_STR(find(env, "NO_PROXY"), "localhost,127.0.0.1,::1");
    T_STR(find(env, "NODE_USE_ENV_PROXY"), "1");
    close_ways();
    assert_null(find(bh_ways_env(r.ways, arena, given), "HTTP_PROXY"));
    BH_CLEANUP_FREE char *log = audit_log(), *text = bh_ways_text(r.ways);
    T_INT(count(log, "\"kind\":\"egress\""), 1);
    assert_non_null(strstr(log, "\"agent\":\"good\""));
    assert_non_null(strstr(log, "\"host\":\"bad.example.org\""));
    T_STR(text, "1 connection or call was denied: bad.example.org:443 (not-listed)");
    bh_arena_free(arena);
}

static void calls_are_counted_and_bounded(void **state)
{
    (void)state;
    static const char *const given[] = {"TAKEN=by the agent", NULL};
    struct bh_arena *arena = bh_arena_new();
    open_ways("calls", true);
    enter(BH_NET_RUN);
    const char *const *env = bh_ways_env(r.ways, arena, given);
    assert_true(bh_starts_with(find(env, "BASE_URL"), "http://127.0.0.1:"));
    assert_non_null(strstr(find(env, "BASE_URL"), "/v1"));
    T_STR(find(env, "TAKEN"), "by the agent");
    turn_until(&r.broken);
    assert_true(r.budget);
    T_STR(r.why, "it has used up its 50 tokens (limits.tokens)");
    close_ways();
    struct bh_ways_usage usage = bh_ways_usage(r.ways);
    T_INT(usage.requests, 3);
    T_INT(usage.tokens_in, 40);
    T_INT(usage.tokens_out, 5);
    BH_CLEANUP_FREE char *log = audit_log();
    T_INT(count(log, "\"kind\":\"call\""), 2);
    T_INT(count(log, "\"leaked\":true"), 1);
    T_INT(count(log, "\"kind\":\"secret\""), 1);
    assert_non_null(strstr(log, "\"secret\":\"KEY\""));
    bh_arena_free(arena);
}

static void a_refusal_is_told(void **state)
{
    (void)state;
    open_ways("refuses", true);
    enter(BH_NET_RUN);
    T_INT(r.code, -BH_E_HOST);
    assert_non_null(strstr(r.message, "cannot be had: the secret 'KEY' is empty"));
    close_ways();
    assert_false(r.broken);
}

static void a_broker_that_dies_or_raves_is_told(void **state)
{
    (void)state;
    static const char *const roles[] = {"dies", "nonsense"};
    for (size_t i = 0; i < BH_ARRAY_LEN(roles); i++) {
        open_ways(roles[i], false);
        enter(BH_NET_RUN);
        T_INT(r.code, -BH_E_HOST);
        assert_non_null(strstr(r.message, "has ended"));
        r.gone = false;
        close_ways();
        bh_ways_free(r.ways);
    }
    open_ways("good", false); /* and the next one is another */
    enter(BH_NET_RUN);
    T_INT(r.code, 0);
}

static void a_broker_that_dies_later_breaks_them(void **state)
{
    (void)state;
    open_ways("dies-later", true);
    enter(BH_NET_RUN);
    T_INT(r.code, 0);
    enter(BH_NET_SETUP);
    T_INT(r.code, -BH_E_HOST);
    close_ways();
}

/* A box can have as many as it likes. */
static void a_flood_is_counted(void **state)
{
    (void)state;
    open_ways("floods", false);
    r.lease.tainted = true;
    enter(BH_NET_RUN);
    close_ways();
    BH_CLEANUP_FREE char *log = audit_log(), *text = bh_ways_text(r.ways);
    T_INT(count(log, "\"host\":\"bad.example.org\""), 1002); /* the first that is summed has its line too */
    T_INT(count(log, "\"more\":"), 1);
    assert_non_null(strstr(log, "\"reason\":\"not-listed\",\"more\":499,\"up\":4990"));
    T_STR(text, "1500 connections or calls were denied"); /* and no name, which it has chosen */
}

/* However many denials and connections came before it. */
static void where_something_went_is_always_named(void **state)
{
    (void)state;
    open_ways("hides", false);
    enter(BH_NET_RUN);
    close_ways();
    BH_CLEANUP_FREE char *log = audit_log();
    T_INT(count(log, "\"host\":\"hidden.example.org\""), 1);
    T_INT(count(log, "\"host\":\"good.example.org\""), 1002);
    assert_non_null(strstr(log, "\"reason\":\"listed\",\"more\":499,\"up\":4990"));
    T_INT(count(log, "\"verdict\":\"deny\""), 1064); /* and the others, of which the last is one more, in one line */
    assert_non_null(strstr(log, "\"more\":437,\"denied\":437"));
}

/* The sham says so when it has heard that it may go on. */
static void what_is_open_is_on_the_disk_before_it_is_used(void **state)
{
    (void)state;
    open_ways("opens", false);
    enter(BH_NET_RUN);
    turn_until(&r.broken);
    BH_CLEANUP_FREE char *log = audit_log();
    T_INT(count(log, "\"state\":\"open\""), 1);
    assert_non_null(strstr(log, "\"host\":\"good.example.org\""));
    assert_non_null(strstr(log, "\"connection\":1"));
    assert_true(r.budget);
    assert_non_null(strstr(r.why, "tokens"));
}

static void what_cannot_be_written_is_not_used(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *in_its_way = bh_path_join(r.dir, "audit");
    T_INT(symlink("nowhere", in_its_way), 0);
    open_ways("opens", false);
    enter(BH_NET_RUN);
    turn_until(&r.broken);
    assert_non_null(strstr(r.why, "requests"));
}

/* By the time the phase begins it is known who had it. */
static void the_network_of_the_host(void **state)
{
    (void)state;
    static const char *const given[] = {"A=b", NULL};
    struct bh_arena *arena = bh_arena_new();
    open_ways("good", false);
    r.lease.network[BH_NET_SETUP].kind = BH_NET_HOST;
    enter(BH_NET_SETUP);
    T_INT(r.code, 0);
    BH_CLEANUP_FREE char *log = audit_log();
    assert_non_null(strstr(log, "\"box\":\"b\",\"phase\":\"setup\",\"verdict\":\"allow\",\"reason\":\"host-network\""));
    assert_null(find(bh_ways_env(r.ways, arena, given), "HTTP_PROXY"));
    enter(BH_NET_RUN);
    assert_non_null(find(bh_ways_env(r.ways, arena, given), "HTTP_PROXY"));
    close_ways();
    BH_CLEANUP_FREE char *after = audit_log(), *text = bh_ways_text(r.ways);
    T_INT(count(after, "host-network"), 1);
    T_STR(text,
          "it had the host's network in setup; 1 connection or call was denied: bad.example.org:443 (not-listed)");
    bh_arena_free(arena);
}

/* On the host's loopback whoever listens at the endpoint's port is not ours. */
static void no_endpoint_on_the_network_of_the_host(void **state)
{
    (void)state;
    static const char *const given[] = {"A=b", NULL};
    struct bh_arena *arena = bh_arena_new();
    open_ways("calls", true);
    r.lease.network[BH_NET_SETUP].kind = BH_NET_HOST;
    enter(BH_NET_SETUP);
    T_INT(r.code, 0);
    assert_null(find(bh_ways_env(r.ways, arena, given), "BASE_URL"));
    enter(BH_NET_RUN);
    assert_non_null(find(bh_ways_env(r.ways, arena, given), "BASE_URL"));
    close_ways();
    bh_arena_free(arena);
}

static void what_cannot_be_written_has_no_network_of_the_host(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *in_its_way = bh_path_join(r.dir, "audit");
    T_INT(symlink("nowhere", in_its_way), 0);
    open_ways("good", false);
    r.lease.network[BH_NET_RUN].kind = BH_NET_HOST;
    enter(BH_NET_RUN);
    T_INT(r.code, -BH_E_HOST);
    assert_non_null(strstr(r.message, "the audit log cannot be written: "));
    close_ways();
}

static void no_program_no_way(void **state)
{
    (void)state;
    BH_CLEANUP_FREE char *before = bh_strdup(getenv("BULKHEAD_LIBEXEC"));
    T_INT(setenv("BULKHEAD_LIBEXEC", r.dir, 1), 0);
    open_ways("good", false);
    enter(BH_NET_RUN);
    T_INT(setenv("BULKHEAD_LIBEXEC", before, 1), 0);
    T_INT(r.code, -BH_E_HOST);
    assert_non_null(strstr(r.message, "cannot find 'bulkhead-broker'"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

static int all_tests(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_made_where_nothing_is_reached),
        TEST(phases_and_variables),
        TEST(calls_are_counted_and_bounded),
        TEST(a_refusal_is_told),
        TEST(a_broker_that_dies_or_raves_is_told),
        TEST(a_broker_that_dies_later_breaks_them),
        TEST(a_flood_is_counted),
        TEST(where_something_went_is_always_named),
        TEST(what_is_open_is_on_the_disk_before_it_is_used),
        TEST(what_cannot_be_written_is_not_used),
        TEST(the_network_of_the_host),
        TEST(no_endpoint_on_the_network_of_the_host),
        TEST(what_cannot_be_written_has_no_network_of_the_host),
        TEST(no_program_no_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
    (void)argc;
    return sham_broker_main(argv, all_tests);
}
