/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kit/store_kit.h"

#include <dirent.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tests/support/t.h"

static const struct store_kit_backend *backend;

static int set_up(void **state)
{
    struct kit_home *h = calloc(1, sizeof(*h));
    kit_home_make(h);
    *state = h;
    return 0;
}

static int tear_down(void **state)
{
    kit_home_remove(*state);
    free(*state);
    return 0;
}

static struct bh_store *open_store(void **state, enum bh_store_mode mode)
{
    struct kit_home *h = *state;
    struct bh_store *s = NULL;
    T_OK(backend->open(&h->home, mode, &s, &err));
    return s;
}

static char *T(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* --- opening --- */

static void reading_an_empty_home_finds_nothing(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = (struct bh_store *)state;
    T_ERR(backend->open(&h->home, BH_STORE_READ, &s, &err), BH_E_NOT_FOUND, "no run was made in");
    assert_ptr_equal(s, state); /* untouched */
    assert_int_equal(backend->open(&h->home, BH_STORE_READ, &s, NULL), -BH_E_NOT_FOUND);
}

static void opens_again_and_beside_a_writer(void **state)
{
    bh_store_close(open_store(state, BH_STORE_WRITE));
    struct bh_store *w = open_store(state, BH_STORE_WRITE), *w2 = open_store(state, BH_STORE_WRITE);
    struct bh_store *r = open_store(state, BH_STORE_READ);
    struct bh_run_row *rows = (struct bh_run_row *)state;
    size_t n = 7;
    T_OK(bh_store_list_runs(r, &rows, &n, &err));
    T_INT(n, 0);
    bh_run_rows_free(rows, n);
    bh_store_close(w);
    bh_store_close(w2);
    bh_store_close(r);
    bh_store_close(NULL);
}

/* --- events --- */

static void events_come_back_in_order(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id a = kit_run_id(1), b = kit_run_id(2);
    int64_t n = 0;
    T_OK(kit_commit_events(s, a.s, 1, 3, &err));
    T_OK(kit_commit_events(s, b.s, 1, 1, &err));
    T_OK(kit_commit_events(s, a.s, 4, 200, &err));
    T_OK(kit_replay(s, a.s, &n, &err));
    T_INT(n, 203);
    T_OK(kit_replay(s, b.s, &n, &err));
    T_INT(n, 1);
    bh_store_close(s);
    s = open_store(state, BH_STORE_WRITE);
    T_OK(kit_commit_events(s, a.s, 204, 2, &err)); /* a process that takes the run up goes on counting */
    bh_store_close(s);
    s = open_store(state, BH_STORE_READ);
    T_OK(kit_replay(s, a.s, &n, &err));
    T_INT(n, 205);
    bh_store_close(s);
}

struct texts {
    const char *kind, *payload;
    struct bh_wall at;
    int calls;
};

static int equals_texts(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload,
                        struct bh_err **err)
{
    struct texts *want = arg;
    (void)err;
    want->calls++;
    T_INT(seq, 1);
    T_INT(at.us, want->at.us);
    T_STR(kind, want->kind);
    T_STR(payload, want->payload);
    return 0;
}

static void payloads_are_kept_exactly(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    char *large = malloc(1 << 20);
    memset(large, 'x', 1 << 20);
    large[(1 << 20) - 1] = '\0';
    struct texts cases[] = {
        {"a", "", {0}, 0},
        {"", "{\"quote\":\"'; DROP TABLE events; --\",\"nl\":\"\\n\"}", {-1}, 0},
        {"k.\xc3\xa9", "\xf0\x9f\x8c\x8a $1 ? :x @y", {INT64_MAX}, 0},
        {"large", large, {INT64_MIN}, 0},
    };
    for (unsigned i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct bh_run_id run = kit_run_id(i);
        struct bh_store_event event = {cases[i].kind, cases[i].at, cases[i].payload};
        struct bh_store_batch batch = {.run = run.s, .events = &event, .n_events = 1};
        T_OK(bh_store_commit(s, &batch, &err));
        T_OK(bh_store_replay(s, run.s, equals_texts, &cases[i], &err));
        T_INT(cases[i].calls, 1);
    }
    free(large);
    bh_store_close(s);
}

static int stop_at_two(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload,
                       struct bh_err **err)
{
    (void)at, (void)kind, (void)payload;
    *(int64_t *)arg = seq;
    return seq < 2 ? 0 : bh_err_set(err, BH_E_PROTOCOL, 0, "that is enough");
}

static void replay_stops_where_the_reader_stops(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id run = kit_run_id(1);
    int64_t seq = 0;
    T_OK(kit_commit_events(s, run.s, 1, 5, &err));
    T_ERR(bh_store_replay(s, run.s, stop_at_two, &seq, &err), BH_E_PROTOCOL, "that is enough");
    T_INT(seq, 2);
    T_OK(kit_replay(s, run.s, &seq, &err)); /* and can be asked again */
    T_INT(seq, 5);
    bh_store_close(s);
}

static void a_run_without_events_replays_nothing(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id run = kit_run_id(1);
    int64_t n = 0;
    T_ERR(kit_replay(s, run.s, &n, &err), BH_E_NOT_FOUND, "no run '1000000001");
    T_OK(kit_commit_run(s, run.s, "queued", &err));
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, 0);
    T_ERR(kit_replay(s, "../../etc", &n, &err), BH_E_NOT_FOUND, "no run '../../etc'");
    bh_store_close(s);
}

/* Two processes that believe they own the run: the second is refused, whole batch, and may not go on. */
static void a_run_has_one_writer(void **state)
{
    struct bh_store *first = open_store(state, BH_STORE_WRITE), *second = open_store(state, BH_STORE_WRITE);
    struct bh_run_id run = kit_run_id(1);
    T_OK(kit_commit_events(second, run.s, 1, 1, &err));
    T_OK(kit_commit_events(first, run.s, 2, 1, &err));
    struct bh_agent_row agent = {.run = run.s, .name = T("a"), .status = T("done")};
    struct bh_store_event event = {"kit.2", {2000}, "{}"};
    struct bh_store_batch batch = {.run = run.s, .events = &event, .n_events = 1, .agents = &agent, .n_agents = 1};
    T_ERR(bh_store_commit(second, &batch, &err), BH_E_BUSY, "was written by another process after event 1");
    T_ERR(bh_store_commit(second, &batch, &err), BH_E_IO, "an earlier write of it failed");
    struct bh_agent_row *agents = NULL;
    size_t n_agents = 1;
    T_OK(bh_store_list_agents(first, run.s, &agents, &n_agents, &err));
    T_INT(n_agents, 0);
    bh_agent_rows_free(agents, n_agents);
    int64_t n = 0;
    T_OK(kit_commit_events(first, run.s, 3, 1, &err));
    T_OK(kit_replay(first, run.s, &n, &err));
    T_INT(n, 3);
    struct bh_run_id other = kit_run_id(2);
    T_OK(kit_commit_events(second, other.s, 1, 1, &err)); /* other runs of that process are not concerned */
    bh_store_close(first);
    bh_store_close(second);
}

/* --- rows --- */

static void same_text(const char *got, const char *want)
{
    if (want)
        assert_string_equal(got, want);
    else
        assert_null(got);
}

#define SAME_TEXT(field) same_text(got->field, want->field)
#define SAME_INT(field) assert_true(got->field == want->field)

static void same_run(const struct bh_run_row *got, const struct bh_run_row *want)
{
    SAME_TEXT(run);
    SAME_TEXT(name);
    SAME_TEXT(status);
    SAME_TEXT(file);
    SAME_TEXT(params);
    SAME_TEXT(failure);
    SAME_INT(created.us);
    SAME_INT(started.us);
    SAME_INT(ended.us);
}

static void same_agent(const struct bh_agent_row *got, const struct bh_agent_row *want)
{
    SAME_TEXT(run);
    SAME_TEXT(name);
    SAME_TEXT(stage);
    SAME_TEXT(topology);
    SAME_TEXT(box);
    SAME_TEXT(status);
    SAME_TEXT(label);
    SAME_TEXT(reason);
    SAME_INT(position);
}

static void same_attempt(const struct bh_attempt_row *got, const struct bh_attempt_row *want)
{
    SAME_TEXT(run);
    SAME_TEXT(agent);
    SAME_TEXT(instance);
    SAME_TEXT(status);
    SAME_TEXT(reason);
    SAME_TEXT(detail);
    SAME_TEXT(box);
    SAME_TEXT(usage);
    SAME_TEXT(kept_box);
    SAME_TEXT(limits);
    SAME_INT(output_dropped);
    SAME_TEXT(evidence);
    SAME_TEXT(kind);
    SAME_TEXT(snapshot);
    SAME_INT(snapshot_reused);
    SAME_TEXT(score);
    SAME_INT(attempt);
    SAME_INT(try_);
    SAME_INT(epoch);
    SAME_INT(exit_code);
    SAME_INT(signal);
    SAME_INT(created.us);
    SAME_INT(started.us);
    SAME_INT(ended.us);
    SAME_INT(selected);
}

static void same_artifact(const struct bh_artifact_row *got, const struct bh_artifact_row *want)
{
    SAME_TEXT(run);
    SAME_TEXT(name);
    SAME_TEXT(digest);
    SAME_TEXT(kind);
    SAME_TEXT(agent);
    SAME_TEXT(instance);
    SAME_TEXT(label);
    SAME_TEXT(provenance);
    SAME_INT(size);
    SAME_INT(attempt);
    SAME_INT(executable);
    SAME_INT(private_);
    SAME_INT(published.us);
}

/* What is read of one run. */
struct contents {
    struct bh_run_row run, *runs;
    struct bh_agent_row *agents;
    struct bh_attempt_row *attempts;
    struct bh_artifact_row *artifacts;
    size_t n_runs, n_agents, n_attempts, n_artifacts;
};

static struct contents read_contents(struct bh_store *s, const char *run)
{
    struct contents c;
    T_OK(bh_store_get_run(s, run, &c.run, &err));
    T_OK(bh_store_list_runs(s, &c.runs, &c.n_runs, &err));
    T_OK(bh_store_list_agents(s, run, &c.agents, &c.n_agents, &err));
    T_OK(bh_store_list_attempts(s, run, &c.attempts, &c.n_attempts, &err));
    T_OK(bh_store_list_artifacts(s, run, &c.artifacts, &c.n_artifacts, &err));
    return c;
}

static void free_contents(struct contents *c)
{
    bh_run_row_fini(&c->run);
    bh_run_row_fini(&c->run); /* harmless */
    bh_run_rows_free(c->runs, c->n_runs);
    bh_agent_rows_free(c->agents, c->n_agents);
    bh_attempt_rows_free(c->attempts, c->n_attempts);
    bh_artifact_rows_free(c->artifacts, c->n_artifacts);
}

/* The batch has one row of each kind. */
static void same_contents(const struct contents *c, const struct bh_store_batch *batch)
{
    T_TRUE(c->n_runs == 1 && c->n_agents == 1 && c->n_attempts == 1 && c->n_artifacts == 1);
    same_run(&c->run, batch->run_row);
    same_run(c->runs, batch->run_row);
    assert_null(c->runs->document); /* lists leave the long texts out */
    assert_null(c->runs->submission);
    same_agent(c->agents, batch->agents);
    same_attempt(c->attempts, batch->attempts);
    same_artifact(c->artifacts, batch->artifacts);
}

/* Each field has a value of its own, so that two columns cannot change places unseen. */
static void rows_keep_every_field(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id id = kit_run_id(1);
    struct bh_run_row run = {
        id.s,          T("r-name"),        T("r-status"), T("r-file \xff"),           {1},
        {-2},          {INT64_MAX},        T("{}"),       T("{\"reason\":\"exit\"}"), T("best-effort: memory"),
        T("doc: 1\n"), T("{\"files\":{}}")};
    struct bh_agent_row agent = {
        id.s, T("a-name"), T("a-stage"), T("a-topology"), T("a-box"), T("a-status"), T("a-label"), T("a-reason"), 7};
    struct bh_attempt_row attempt = {.run = id.s,
                                     .agent = T("a-name"),
                                     .instance = T("t-instance"),
                                     .status = T("t-status"),
                                     .reason = T("t-reason"),
                                     .detail = T("t-detail\n2"),
                                     .box = T("t-box"),
                                     .attempt = 11,
                                     .try_ = 12,
                                     .epoch = 13,
                                     .exit_code = -1,
                                     .signal = 9,
                                     .created = {21},
                                     .started = {22},
                                     .ended = {23},
                                     .selected = true,
                                     .usage = T("{\"cpu_ms\":1}"),
                                     .kept_box = T("t-kept"),
                                     .limits = T("memory=cgroup-v2"),
                                     .output_dropped = 24,
                                     .evidence = T("{\"kind\":\"collision\"}"),
                                     .kind = T("prepare"),
                                     .snapshot = T("sha256:11"),
                                     .snapshot_reused = true,
                                     .score = T("-2.5")};
    struct bh_artifact_row artifact = {
        id.s,         T("f-name"),       T("sha256:00"), T("f-kind"), T("f-agent"), T("f-instance"),
        T("f-label"), T("f-provenance"), INT64_MAX,      31,          true,         false,
        {33}};
    struct bh_store_batch batch = {id.s, NULL, 0, &run, &agent, 1, &attempt, 1, &artifact, 1};
    T_OK(bh_store_commit(s, &batch, &err));
    bh_store_close(s);
    s = open_store(state, BH_STORE_READ);
    struct contents c = read_contents(s, id.s);
    same_contents(&c, &batch);
    T_STR(c.run.document, run.document);
    T_STR(c.run.submission, run.submission);
    free_contents(&c);
    bh_store_close(s);
}

static void rows_replace_those_of_their_key(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id id = kit_run_id(1);
    struct bh_run_row run = kit_run_row(id.s, "queued");
    run.document = T("doc");
    run.submission = T("sub");
    struct bh_agent_row agent = {id.s, T("a"), T("s"), T("t"), T("b"), T("waiting"), T("l"), T("r"), 1};
    struct bh_attempt_row attempt = {.run = id.s,
                                     .agent = T("a"),
                                     .instance = T("i"),
                                     .status = T("queued"),
                                     .reason = T("exit"),
                                     .attempt = 1,
                                     .try_ = 1,
                                     .selected = true};
    struct bh_artifact_row artifact = {.run = id.s, .name = T("f"), .digest = T("d1"), .size = 1, .private_ = true};
    struct bh_store_batch batch = {id.s, NULL, 0, &run, &agent, 1, &attempt, 1, &artifact, 1};
    T_OK(bh_store_commit(s, &batch, &err));
    run = (struct bh_run_row){.run = id.s, .name = T("other"), .ended = {5}};
    agent = (struct bh_agent_row){.run = id.s, .name = T("a"), .position = -3};
    attempt = (struct bh_attempt_row){.run = id.s, .instance = T("i"), .exit_code = 3};
    artifact = (struct bh_artifact_row){.run = id.s, .name = T("f"), .executable = true};
    T_OK(bh_store_commit(s, &batch, &err));
    struct contents c = read_contents(s, id.s);
    same_contents(&c, &batch);
    T_STR(c.run.document, "doc"); /* NULL leaves them as they were */
    T_STR(c.run.submission, "sub");
    free_contents(&c);
    run.document = T("doc 2"); /* one of the two alone */
    T_OK(bh_store_commit(s, &batch, &err));
    c = read_contents(s, id.s);
    T_STR(c.run.document, "doc 2");
    T_STR(c.run.submission, "sub");
    free_contents(&c);
    bh_store_close(s);
}

static void lists_are_sorted_and_keep_runs_apart(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id ids[3] = {kit_run_id(1), kit_run_id(2), kit_run_id(3)};
    int64_t created[3] = {50, 70, 50};
    for (int i = 0; i < 3; i++) {
        struct bh_run_row run = kit_run_row(ids[i].s, "running");
        run.created.us = created[i];
        struct bh_agent_row agents[] = {{.run = ids[i].s, .name = T("late"), .position = 10},
                                        {.run = ids[i].s, .name = T("early"), .position = 2}};
        struct bh_attempt_row attempts[] = {
            {.run = ids[i].s, .agent = T("late"), .instance = T("i1"), .attempt = 1, .try_ = 1},
            {.run = ids[i].s, .agent = T("early"), .instance = T("i2"), .attempt = 2, .try_ = 1},
            {.run = ids[i].s, .agent = T("early"), .instance = T("i3"), .attempt = 1, .try_ = 2},
            {.run = ids[i].s, .agent = T("early"), .instance = T("i4"), .attempt = 1, .try_ = 1},
            {.run = ids[i].s, .agent = T("unknown"), .instance = T("i5"), .attempt = 1, .try_ = 1},
        };
        struct bh_artifact_row artifacts[] = {{.run = ids[i].s, .name = T("b"), .published = {9}},
                                              {.run = ids[i].s, .name = T("z"), .published = {8}},
                                              {.run = ids[i].s, .name = T("a"), .published = {9}}};
        struct bh_store_batch batch = {ids[i].s, NULL, 0, &run, agents, 2, attempts, 5, artifacts, 3};
        T_OK(bh_store_commit(s, &batch, &err));
    }
    struct bh_run_row *runs;
    struct bh_agent_row *agents;
    struct bh_attempt_row *attempts;
    struct bh_artifact_row *artifacts;
    size_t n;
    T_OK(bh_store_list_runs(s, &runs, &n, &err));
    T_INT(n, 3);
    T_STR(runs[0].run, ids[1].s); /* newest first; of one moment the higher id */
    T_STR(runs[1].run, ids[2].s);
    T_STR(runs[2].run, ids[0].s);
    bh_run_rows_free(runs, n);
    T_OK(bh_store_list_agents(s, ids[1].s, &agents, &n, &err));
    T_INT(n, 2);
    T_STR(agents[0].name, "early");
    T_STR(agents[1].run, ids[1].s);
    bh_agent_rows_free(agents, n);
    T_OK(bh_store_list_attempts(s, ids[1].s, &attempts, &n, &err));
    T_INT(n, 5);
    const char *want[] = {"i4", "i3", "i2", "i1", "i5"};
    for (int i = 0; i < 5; i++)
        T_STR(attempts[i].instance, want[i]);
    bh_attempt_rows_free(attempts, n);
    T_OK(bh_store_list_artifacts(s, ids[1].s, &artifacts, &n, &err));
    T_INT(n, 3);
    T_STR(artifacts[0].name, "z");
    T_STR(artifacts[1].name, "a");
    T_STR(artifacts[2].name, "b");
    bh_artifact_rows_free(artifacts, n);
    T_OK(bh_store_list_agents(s, kit_run_id(9).s, &agents, &n, &err));
    T_INT(n, 0);
    bh_agent_rows_free(agents, n);
    bh_store_close(s);
}

static void an_unknown_run_is_not_found(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_row row, before;
    memset(&row, 0x5a, sizeof(row));
    before = row;
    T_ERR(bh_store_get_run(s, kit_run_id(5).s, &row, &err), BH_E_NOT_FOUND, "no run '1000000005");
    T_ERR(bh_store_get_run(s, "", &row, &err), BH_E_NOT_FOUND, "no run ''");
    assert_memory_equal(&row, &before, sizeof(row));
    bh_store_close(s);
}

/* --- what people type --- */

static void expect_run(struct bh_store *s, const char *text, const char *want)
{
    char *got = NULL;
    T_OK(bh_store_resolve(s, text, &got, &err));
    T_STR(got, want);
    bh_free(got);
}

static void make_named(struct bh_store *s, const char *run, const char *name, int64_t created)
{
    struct bh_run_row row = kit_run_row(run, "succeeded");
    row.name = T(name);
    row.created.us = created;
    struct bh_store_batch batch = {.run = run, .run_row = &row};
    T_OK(bh_store_commit(s, &batch, &err));
}

static void resolves_ids_prefixes_and_latest(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    const char *a = "0abcdefgh00000000000000001", *b = "0abcdezzz00000000000000002", *c = "1xyz0000000000000000000003";
    make_named(s, a, "crawl", 10);
    make_named(s, b, "audit", 30);
    make_named(s, c, "crawl", 20);
    expect_run(s, a, a);
    expect_run(s, "1", c);
    expect_run(s, "0abcdef", a);
    expect_run(s, "0ABCDEZ", b);
    expect_run(s, "1XYZ0000000000000000000003", c);
    expect_run(s, "@latest", b);
    expect_run(s, "@latest:crawl", c);
    expect_run(s, "@latest:audit", b);
    bh_store_close(s);
}

static void refuses_what_fits_none_or_several(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    char *got = (char *)state;
    T_ERR(bh_store_resolve(s, "@latest", &got, &err), BH_E_NOT_FOUND, "no run '@latest'");
    T_ERR(bh_store_resolve(s, "", &got, &err), BH_E_NOT_FOUND, "no run ''");
    make_named(s, "0abcdefgh00000000000000001", "crawl", 10);
    T_ERR(bh_store_resolve(s, "", &got, &err), BH_E_AMBIGUOUS, "an empty run id fits every run"); /* even with one */
    make_named(s, "0abcdezzz00000000000000002", "audit", 20);
    static const char *const unknown[] = {"2",
                                          "0abx",
                                          "%",
                                          "_",
                                          "0abcdefgh00000000000000001x",
                                          "../x",
                                          " ",
                                          "@lates",
                                          "@latest:",
                                          "@latest:Crawl",
                                          "@",
                                          "@LATEST",
                                          "'",
                                          "0abcdefgh\xff"};
    for (size_t i = 0; i < BH_ARRAY_LEN(unknown); i++)
        T_ERR(bh_store_resolve(s, unknown[i], &got, &err), BH_E_NOT_FOUND, "no run ");
    struct bh_err *why = NULL;
    T_INT(bh_store_resolve(s, "0ABCDE", &got, &why), -BH_E_AMBIGUOUS);
    T_STR(bh_err_message(why), "'0ABCDE' fits 2 runs");
    const char *detail = bh_err_get_detail(why);
    const char *first = strstr(detail, "0abcdezzz00000000000000002"), *second = strstr(detail, "0abcdefgh0");
    T_TRUE(first && second && first < second && strstr(detail, "crawl")); /* newest first */
    T_STR(bh_err_get_hint(why), "give more characters of the id");
    bh_err_free(why);
    assert_ptr_equal(got, state);
    bh_store_close(s);
}

static void a_long_list_of_candidates_is_cut(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    for (unsigned i = 0; i < 25; i++)
        make_named(s, kit_run_id(i).s, "n", i);
    struct bh_err *why = NULL;
    char *got = NULL;
    T_INT(bh_store_resolve(s, "1", &got, &why), -BH_E_AMBIGUOUS);
    T_TRUE(strstr(bh_err_get_detail(why), "and 5 older ones") != NULL);
    T_TRUE(strstr(bh_err_get_detail(why), kit_run_id(24).s) != NULL);
    assert_null(strstr(bh_err_get_detail(why), kit_run_id(4).s));
    bh_err_free(why);
    bh_store_close(s);
}

/* --- the head mark --- */

static void the_mark_follows_each_commit(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id run = kit_run_id(1);
    T_OK(kit_commit_run(s, run.s, "queued", &err));
    char *zero = kit_mark_text(&h->home, run.s);
    T_OK(kit_commit_events(s, run.s, 1, 2, &err));
    char *two = kit_mark_text(&h->home, run.s);
    T_OK(kit_commit_events(s, run.s, 3, 1, &err));
    char *three = kit_mark_text(&h->home, run.s);
    T_INT(strlen(zero), 85);
    T_INT(strlen(three), 85);
    T_TRUE(strncmp(zero, "0000000000000000000 ", 20) == 0 && strspn(zero + 20, "0") < 64);
    T_TRUE(strncmp(two, "0000000000000000002 ", 20) == 0 && two[84] == '\n');
    T_TRUE(strncmp(three, "0000000000000000003 ", 20) == 0 && strcmp(two + 20, three + 20) != 0);
    bh_store_close(s);
    /* A process that was killed between its commit and its mark leaves the mark behind: no alarm, and it goes on. */
    kit_write_mark(&h->home, run.s, two);
    s = open_store(state, BH_STORE_WRITE);
    int64_t n = 0;
    T_OK(kit_replay(s, run.s, &n, &err));
    T_INT(n, 3);
    T_OK(kit_commit_events(s, run.s, 4, 1, &err));
    bh_store_close(s);
    char *four = kit_mark_text(&h->home, run.s);
    T_TRUE(strncmp(four, "0000000000000000004 ", 20) == 0);
    bh_free(zero);
    bh_free(two);
    bh_free(three);
    bh_free(four);
}

/* Every way to take the run up says the same. */
static void expect_corrupt(void **state, const char *run, const char *part)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_row row;
    int64_t n = 0;
    T_ERR(kit_replay(s, run, &n, &err), BH_E_STORE_CORRUPT, part);
    T_INT(n, 0); /* said before any event was handed out */
    T_ERR(bh_store_get_run(s, run, &row, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(kit_commit_events(s, run, 4, 1, &err), BH_E_STORE_CORRUPT, part);
    bh_store_close(s);
    s = open_store(state, BH_STORE_READ);
    T_ERR(kit_replay(s, run, &n, &err), BH_E_STORE_CORRUPT, part);
    bh_store_close(s);
}

static void a_mark_that_the_database_does_not_reach_is_named(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id run = kit_run_id(1), other = kit_run_id(2);
    T_OK(kit_commit_run(s, run.s, "running", &err));
    T_OK(kit_commit_events(s, run.s, 1, 3, &err));
    T_OK(kit_commit_run(s, other.s, "running", &err));
    T_OK(kit_commit_events(s, other.s, 1, 3, &err));
    char *good = kit_mark_text(&h->home, run.s), *foreign = kit_mark_text(&h->home, other.s);
    bh_store_close(s);
    char *mark = bh_strdup(good);
    mark[18] = '5';
    kit_write_mark(&h->home, run.s, mark);
    expect_corrupt(state, run.s, "it ends at event 3, the head mark names event 5");
    kit_write_mark(&h->home, run.s, foreign);
    expect_corrupt(state, run.s, "event 3 of run '10000000010000000000000000' is not the one that the head mark names");
    kit_write_mark(&h->home, run.s, "3 abc\n");
    expect_corrupt(state, run.s, "the head mark of run '10000000010000000000000000' is damaged");
    kit_write_mark(&h->home, run.s, "");
    expect_corrupt(state, run.s, "is missing: nothing says whether event 3 is the last");
    char *path = bh_home_run_path(&h->home, run.s, "head");
    assert_int_equal(unlink(path), 0);
    expect_corrupt(state, run.s, "is missing: nothing says whether event 3 is the last");
    bh_free(path);
    kit_write_mark(&h->home, run.s, good);
    s = open_store(state, BH_STORE_WRITE);
    T_OK(kit_commit_events(s, run.s, 4, 1, &err));
    bh_store_close(s);
    bh_free(mark);
    bh_free(good);
    bh_free(foreign);
}

/* A run of which nothing is left but its mark is not passed over, and is gone on without by moving its folder away. */
static void a_lost_run_is_named(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id old = kit_run_id(1), kept = kit_run_id(2), lost = kit_run_id(3), unborn = kit_run_id(4);
    T_OK(kit_commit_run(s, old.s, "succeeded", &err));
    T_OK(kit_commit_events(s, old.s, 1, 3, &err));
    T_OK(kit_commit_run(s, kept.s, "succeeded", &err));
    char *mark = kit_mark_text(&h->home, old.s), *got = NULL;
    struct bh_run_row row, *rows;
    size_t n;
    int64_t events;
    /* made, and killed before its first commit: nothing was recorded, nothing is lost */
    kit_write_mark(&h->home, unborn.s,
                   "0000000000000000000 0000000000000000000000000000000000000000000000000000000000000000\n");
    expect_run(s, "@latest", kept.s);
    T_ERR(bh_store_resolve(s, unborn.s, &got, &err), BH_E_NOT_FOUND, "no run");
    kit_write_mark(&h->home, lost.s, mark);
    const char *part = "the store has lost run '10000000030000000000000000': it was recorded up to event 3";
    T_ERR(bh_store_resolve(s, "@latest", &got, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_resolve(s, "@latest:other", &got, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_resolve(s, lost.s, &got, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_resolve(s, "1000", &got, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_list_runs(s, &rows, &n, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(bh_store_get_run(s, lost.s, &row, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(kit_replay(s, lost.s, &events, &err), BH_E_STORE_CORRUPT, part);
    T_ERR(kit_commit_events(s, lost.s, 1, 1, &err), BH_E_STORE_CORRUPT, part);
    expect_run(s, old.s, old.s); /* the others are there */
    struct bh_err *why = NULL;
    T_INT(bh_store_get_run(s, lost.s, &row, &why), -BH_E_STORE_CORRUPT);
    T_TRUE(strstr(bh_err_get_hint(why), "/runs/10000000030000000000000000' away") != NULL);
    bh_err_free(why);
    char *from = bh_home_run_path(&h->home, lost.s, NULL), *to = bh_asprintf("%s.lost", from);
    assert_int_equal(rename(from, to), 0);
    expect_run(s, "@latest", kept.s);
    T_OK(bh_store_list_runs(s, &rows, &n, &err));
    T_INT(n, 2);
    bh_run_rows_free(rows, n);
    bh_free(from);
    bh_free(to);
    bh_free(mark);
    bh_store_close(s);
}

/* An old run that is lost does not hide the newest one. */
static void latest_minds_only_newer_losses(void **state)
{
    struct kit_home *h = *state;
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    struct bh_run_id lost = kit_run_id(1), kept = kit_run_id(2);
    T_OK(kit_commit_run(s, kept.s, "succeeded", &err));
    char *mark = kit_mark_text(&h->home, kept.s), *got = NULL;
    kit_write_mark(&h->home, lost.s, mark);
    expect_run(s, "@latest", kept.s);
    expect_run(s, kept.s, kept.s);
    T_ERR(bh_store_resolve(s, "1", &got, &err), BH_E_STORE_CORRUPT, "has lost run");
    bh_free(mark);
    bh_store_close(s);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* A server goes on for weeks. */
static void ended_runs_hold_no_descriptor(void **state)
{
    struct bh_store *s = open_store(state, BH_STORE_WRITE);
    T_OK(kit_commit_run(s, kit_run_id(0).s, "running", &err));
    int before = open_descriptors();
    for (unsigned i = 1; i < 40; i++) {
        struct bh_run_id run = kit_run_id(i);
        struct bh_run_row row = kit_run_row(run.s, "succeeded");
        row.ended.us = 9;
        struct bh_store_batch batch = {.run = run.s, .run_row = &row};
        T_OK(kit_commit_events(s, run.s, 1, 2, &err));
        T_OK(bh_store_commit(s, &batch, &err));
        T_OK(kit_commit_events(s, run.s, 3, 1, &err)); /* a person takes it up again */
        T_OK(bh_store_commit(s, &batch, &err));
    }
    T_INT(open_descriptors(), before);
    bh_store_close(s);
}

int store_kit_run(const struct store_kit_backend *b)
{
    backend = b;
#define KIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        KIT(reading_an_empty_home_finds_nothing),
        KIT(opens_again_and_beside_a_writer),
        KIT(events_come_back_in_order),
        KIT(payloads_are_kept_exactly),
        KIT(replay_stops_where_the_reader_stops),
        KIT(a_run_without_events_replays_nothing),
        KIT(a_run_has_one_writer),
        KIT(rows_keep_every_field),
        KIT(rows_replace_those_of_their_key),
        KIT(lists_are_sorted_and_keep_runs_apart),
        KIT(an_unknown_run_is_not_found),
        KIT(resolves_ids_prefixes_and_latest),
        KIT(refuses_what_fits_none_or_several),
        KIT(a_long_list_of_candidates_is_cut),
        KIT(the_mark_follows_each_commit),
        KIT(a_mark_that_the_database_does_not_reach_is_named),
        KIT(a_lost_run_is_named),
        KIT(latest_minds_only_newer_losses),
        KIT(ended_runs_hold_no_descriptor),
    };
    return cmocka_run_group_tests_name(b->name, tests, NULL, NULL);
}
