/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a killed process are cut, zeroed, flipped and deleted, one way at a time: a reader then finds either all
 * that was recorded or an error that names the loss. Never a crash, never something else without a word.
 *
 * The store holds two runs: the first lies in the database and goes on in the WAL, the second is in the WAL alone.
 */
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define AGENTS 6

enum verdict { INTACT, NAMED, SILENT }; /* exit statuses of the looking process */
#define EITHER SILENT

struct fixture {
    struct kit_home h;
    char *db_path, *wal_path, *shm_path;
    struct bh_buf db, wal, shm; /* as they were left */
    int seen[2];                /* by verdict */
};

/* --- what is recorded --- */

static char *T(const char *text)
{
    return (char *)(uintptr_t)text;
}

static struct bh_agent_row agent_row(const char *run, unsigned i)
{
    static const char *const names[AGENTS] = {"retrieval", "schema", "modeling", "report", "audit", "judge"};
    return (struct bh_agent_row){.run = T(run),
                                 .name = T(names[i]),
                                 .stage = T("s"),
                                 .topology = T("per-agent"),
                                 .box = T("b"),
                                 .status = T("done"),
                                 .label = T("trusted"),
                                 .position = i};
}

static struct bh_attempt_row attempt_row(const char *run, unsigned i)
{
    static const char *const ids[AGENTS] = {"-000001", "-000002", "-000003", "-000004", "-000005", "-000006"};
    struct bh_agent_row a = agent_row(run, i);
    return (struct bh_attempt_row){.run = T(run),
                                   .agent = a.name,
                                   .instance = T(ids[i]),
                                   .status = T("succeeded"),
                                   .attempt = 1,
                                   .try_ = 1,
                                   .exit_code = 0,
                                   .selected = true,
                                   .usage = T("{\"cpu_ms\":5}")};
}

static struct bh_artifact_row artifact_row(const char *run, unsigned i)
{
    struct bh_agent_row a = agent_row(run, i);
    return (struct bh_artifact_row){.run = T(run),
                                    .name = a.name,
                                    .digest = T("sha256:aa"),
                                    .kind = T("file"),
                                    .agent = a.name,
                                    .size = 1000 + i,
                                    .published = {i}};
}

static int record(struct bh_store *s, const char *run, int64_t first, size_t events)
{
    struct bh_run_row row = kit_run_row(run, "running");
    row.document = T("version: 1\nagents: {}\n");
    struct bh_agent_row agents[AGENTS];
    struct bh_attempt_row attempts[AGENTS];
    struct bh_artifact_row artifacts[AGENTS];
    for (unsigned i = 0; i < AGENTS; i++) {
        agents[i] = agent_row(run, i);
        attempts[i] = attempt_row(run, i);
        artifacts[i] = artifact_row(run, i);
    }
    struct bh_store_batch batch = {run, NULL, 0, &row, agents, AGENTS, attempts, AGENTS, artifacts, AGENTS};
    int rc = bh_store_commit(s, &batch, NULL);
    for (size_t done = 0; rc == 0 && done < events; done += 5)
        rc = kit_commit_events(s, run, first + (int64_t)done, 5, NULL);
    return rc;
}

static const struct {
    unsigned id;
    int64_t events;
} recorded[] = {{1, 60}, {2, 20}};

static void leave_files_behind(const struct kit_home *h)
{
    struct bh_run_id first = kit_run_id(recorded[0].id), second = kit_run_id(recorded[1].id);
    struct bh_store *s = NULL;
    int rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, NULL);
    if (rc == 0)
        rc = record(s, first.s, 1, 40);
    bh_store_close(s); /* into the database */
    if (rc == 0)
        rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, NULL);
    if (rc == 0)
        rc = record(s, first.s, 41, 20);
    if (rc == 0)
        rc = record(s, second.s, 1, 20);
    _exit(rc ? 1 : 0); /* as if killed */
}

/* --- looking --- */

static enum verdict worse(enum verdict a, enum verdict b)
{
    return a > b ? a : b;
}

static enum verdict silent(const char *what)
{
    (void)dprintf(2, "silent: %s\n", what);
    return SILENT;
}

/* An error has to be one that tells of the damage. */
static enum verdict judge(int rc, struct bh_err *why)
{
    enum verdict v = rc == 0 ? INTACT : NAMED;
    if (rc != 0 && rc != -BH_E_STORE_CORRUPT && rc != -BH_E_STORE_VERSION && rc != -BH_E_PERMISSION)
        v = silent(why ? bh_err_message(why) : "an error without a word");
    bh_err_free(why);
    return v;
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Their order hangs on the agents, whose own list tells of damage there. */
static bool has_attempt(const struct bh_attempt_row *rows, size_t n, const char *instance)
{
    for (size_t i = 0; i < n; i++) {
        if (same(rows[i].instance, instance))
            return rows[i].selected;
    }
    return false;
}

static enum verdict look_at_rows(struct bh_store *s, const char *run)
{
    struct bh_agent_row *agents = NULL;
    struct bh_attempt_row *attempts = NULL;
    struct bh_artifact_row *artifacts = NULL;
    struct bh_err *why = NULL;
    size_t n = 0;
    enum verdict v = judge(bh_store_list_agents(s, run, &agents, &n, &why), why);
    bool good = n == AGENTS;
    for (unsigned i = 0; v == INTACT && good && i < n; i++)
        good = same(agents[i].name, agent_row(run, i).name) && agents[i].position == i;
    if (v == INTACT && !good)
        v = silent("agents");
    bh_agent_rows_free(agents, agents ? n : 0);
    why = NULL, n = 0;
    enum verdict w = judge(bh_store_list_attempts(s, run, &attempts, &n, &why), why);
    good = n == AGENTS;
    for (unsigned i = 0; w == INTACT && good && i < n; i++)
        good = has_attempt(attempts, n, attempt_row(run, i).instance);
    if (w == INTACT && !good)
        w = silent("attempts");
    bh_attempt_rows_free(attempts, attempts ? n : 0);
    why = NULL, n = 0;
    enum verdict x = judge(bh_store_list_artifacts(s, run, &artifacts, &n, &why), why);
    good = n == AGENTS;
    for (unsigned i = 0; x == INTACT && good && i < n; i++)
        good = same(artifacts[i].name, artifact_row(run, i).name) && artifacts[i].size == 1000 + i;
    if (x == INTACT && !good)
        x = silent("artifacts");
    bh_artifact_rows_free(artifacts, artifacts ? n : 0);
    return worse(v, worse(w, x));
}

static enum verdict look_at_run(struct bh_store *s, unsigned id, int64_t events)
{
    struct bh_run_id run = kit_run_id(id);
    struct bh_run_row row = {0};
    struct bh_err *why = NULL;
    int64_t n = 0;
    enum verdict v = judge(bh_store_get_run(s, run.s, &row, &why), why);
    if (v == INTACT && (!same(row.document, "version: 1\nagents: {}\n") || !same(row.status, "running")))
        v = silent("the run");
    bh_run_row_fini(&row);
    why = NULL;
    enum verdict w = judge(kit_replay(s, run.s, &n, &why), why);
    if (w == INTACT && n != events)
        w = silent("events");
    return worse(worse(v, w), look_at_rows(s, run.s));
}

static enum verdict look(const struct kit_home *h, enum bh_store_mode mode)
{
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    struct bh_run_row *rows = NULL;
    size_t n = 0;
    char *latest = NULL;
    enum verdict v = judge(bh_store_open(&h->home, mode, &s, &why), why);
    if (v != INTACT)
        return v;
    why = NULL;
    v = judge(bh_store_list_runs(s, &rows, &n, &why), why);
    if (v == INTACT && n != BH_ARRAY_LEN(recorded))
        v = silent("the list of runs");
    bh_run_rows_free(rows, rows ? n : 0);
    why = NULL;
    enum verdict w = judge(bh_store_resolve(s, "@latest", &latest, &why), why);
    if (w == INTACT && !same(latest, kit_run_id(recorded[1].id).s))
        w = silent("the latest run");
    bh_free(latest);
    v = worse(v, w);
    for (size_t i = 0; i < BH_ARRAY_LEN(recorded); i++)
        v = worse(v, look_at_run(s, recorded[i].id, recorded[i].events));
    bh_store_close(s);
    return v;
}

/* --- damage --- */

static void put_file(const char *path, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, data, len) == (ssize_t)len);
    close(fd);
}

static void restore(struct fixture *f)
{
    put_file(f->db_path, f->db.data, f->db.len);
    put_file(f->wal_path, f->wal.data, f->wal.len);
    (void)unlink(f->shm_path);
}

/* Looks from a process of its own and counts; `want` is INTACT or NAMED, or EITHER of the two. */
static void expect(struct fixture *f, enum verdict want, const char *what, long where)
{
    static unsigned turn;
    enum bh_store_mode mode = turn++ % 3 == 0 ? BH_STORE_WRITE : BH_STORE_READ;
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(look(&f->h, mode));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bool good =
        WIFEXITED(status) && WEXITSTATUS(status) <= NAMED && (want == EITHER || WEXITSTATUS(status) == (int)want);
    if (!good)
        fail_msg("%s at %ld (%s): status %#x", what, where, mode == BH_STORE_WRITE ? "writer" : "reader", status);
    f->seen[WEXITSTATUS(status)]++;
}

static void report(struct fixture *f)
{
    print_message("%d intact, %d named\n", f->seen[INTACT], f->seen[NAMED]);
}

static void overwrite(const char *path, size_t at, const void *data, size_t len)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0 && pwrite(fd, data, len, (off_t)at) == (ssize_t)len);
    close(fd);
}

static void flip(const char *path, const struct bh_buf *image, size_t at, unsigned bit)
{
    char c = (char)(image->data[at] ^ (1 << bit));
    overwrite(path, at, &c, 1);
}

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int status = 0;
    kit_home_make(&f->h);
    f->db_path = bh_home_path(&f->h.home, "store/bulkhead.db");
    f->wal_path = bh_asprintf("%s-wal", f->db_path);
    f->shm_path = bh_asprintf("%s-shm", f->db_path);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        leave_files_behind(&f->h);
    assert_true(waitpid(pid, &status, 0) == pid && status == 0);
    bh_buf_init(&f->db);
    bh_buf_init(&f->wal);
    bh_buf_init(&f->shm);
    T_OK(bh_read_file(f->db_path, 1 << 26, &f->db, &err));
    T_OK(bh_read_file(f->wal_path, 1 << 26, &f->wal, &err));
    T_OK(bh_read_file(f->shm_path, 1 << 26, &f->shm, &err));
    assert_true(f->db.len > 8 * 4096 && f->wal.len > 16 * 4096);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bh_buf_fini(&f->db);
    bh_buf_fini(&f->wal);
    bh_buf_fini(&f->shm);
    bh_free(f->db_path);
    bh_free(f->wal_path);
    bh_free(f->shm_path);
    kit_home_remove(&f->h);
    free(f);
    return 0;
}

/* --- the WAL: 32 bytes, then frames of 24 + 4096 --- */

#define WAL_HEADER 32u
#define FRAME (24u + 4096u)

static void the_files_of_a_killed_process_are_whole(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 3; i++) { /* a reader and a writer */
        restore(f);
        expect(f, INTACT, "untouched", i);
    }
    for (int i = 0; i < 3; i++) {
        restore(f);
        put_file(f->shm_path, f->shm.data, f->shm.len);
        expect(f, INTACT, "with its index", i);
    }
}

static void a_wal_that_was_cut_is_named(void **state)
{
    struct fixture *f = *state;
    size_t step = FRAME;
    for (size_t len = 0; len < f->wal.len; len += step) {
        restore(f);
        assert_int_equal(truncate(f->wal_path, (off_t)len), 0);
        expect(f, NAMED, "cut", (long)len);
        step = len == 0 ? WAL_HEADER : FRAME;
    }
    for (size_t cut = 1; cut < 6000; cut += 997) {
        restore(f);
        assert_int_equal(truncate(f->wal_path, (off_t)(f->wal.len - cut)), 0);
        expect(f, NAMED, "tail cut", (long)cut);
    }
    restore(f);
    assert_int_equal(unlink(f->wal_path), 0);
    expect(f, NAMED, "deleted", 0);
    report(f);
}

static void a_wal_with_zeros_or_flips_is_named(void **state)
{
    struct fixture *f = *state;
    static const char zeros[4096];
    for (size_t at = 0; at + sizeof(zeros) <= f->wal.len; at += sizeof(zeros)) {
        restore(f);
        overwrite(f->wal_path, at, zeros, sizeof(zeros));
        expect(f, NAMED, "zeroed", (long)at);
    }
    unsigned seed = 7;
    for (int i = 0; i < 120; i++) {
        size_t at = (size_t)rand_r(&seed) % f->wal.len;
        restore(f);
        flip(f->wal_path, &f->wal, at, (unsigned)i % 8);
        expect(f, NAMED, "flipped", (long)at);
    }
    report(f);
}

static void a_spoilt_index_does_no_harm(void **state)
{
    struct fixture *f = *state;
    unsigned seed = 11;
    BH_CLEANUP_BUF struct bh_buf noise = BH_BUF_INIT;
    for (size_t i = 0; i < f->shm.len; i++)
        bh_buf_addc(&noise, (char)rand_r(&seed));
    size_t lengths[] = {0, 1, 100, 4096, f->shm.len};
    for (size_t i = 0; i < BH_ARRAY_LEN(lengths); i++) {
        restore(f);
        put_file(f->shm_path, noise.data, lengths[i]);
        expect(f, INTACT, "noise of length", (long)lengths[i]);
        restore(f);
        put_file(f->shm_path, f->shm.data, lengths[i]);
        expect(f, INTACT, "an index cut to", (long)lengths[i]);
    }
}

/* --- the database --- */

/* Puts the WAL into the database and makes that the image to start from. */
static void check_point(struct fixture *f)
{
    int status = 0;
    restore(f);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(look(&f->h, BH_STORE_WRITE));
    assert_true(waitpid(pid, &status, 0) == pid && status == INTACT);
    bh_buf_clear(&f->db);
    bh_buf_clear(&f->wal);
    T_OK(bh_read_file(f->db_path, 1 << 26, &f->db, &err));
}

static void damage_pages(struct fixture *f, unsigned flips)
{
    static const char zeros[4096];
    for (size_t at = 0; at < f->db.len; at += 1024) {
        restore(f);
        overwrite(f->db_path, at, zeros, at % 4096 ? 1024 : 4096);
        expect(f, EITHER, "zeroed", (long)at);
    }
    for (size_t len = 0; len < f->db.len; len += 2048) {
        restore(f);
        assert_int_equal(truncate(f->db_path, (off_t)len), 0);
        expect(f, EITHER, "cut", (long)len);
    }
    unsigned seed = 13;
    for (unsigned i = 0; i < flips; i++) {
        size_t at = i < 100 ? i : (size_t)rand_r(&seed) % f->db.len; /* every byte of the file's header */
        restore(f);
        flip(f->db_path, &f->db, at, i % 8);
        expect(f, EITHER, "flipped", (long)at);
    }
    report(f);
}

static void a_damaged_database_is_named(void **state)
{
    struct fixture *f = *state;
    check_point(f);
    damage_pages(f, 900);
    T_TRUE(f->seen[NAMED] > 200); /* most of its bytes mean something */
}

/* Pages that the WAL holds as well are no loss. */
static void a_damaged_database_under_its_wal_is_whole_or_named(void **state)
{
    struct fixture *f = *state;
    damage_pages(f, 200);
}

/* An older database beside newer marks: a backup, or a WAL that somebody moved away. */
static void an_older_database_is_named(void **state)
{
    struct fixture *f = *state;
    for (size_t len = 0; len < f->db.len; len += 8192) {
        restore(f);
        assert_int_equal(truncate(f->db_path, (off_t)(f->db.len - len)) + unlink(f->wal_path), 0);
        expect(f, NAMED, "older, cut by", (long)len);
    }
    report(f);
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_files_of_a_killed_process_are_whole),
        TEST(a_wal_that_was_cut_is_named),
        TEST(a_wal_with_zeros_or_flips_is_named),
        TEST(a_spoilt_index_does_no_harm),
        TEST(a_damaged_database_is_named),
        TEST(a_damaged_database_under_its_wal_is_whole_or_named),
        TEST(an_older_database_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
