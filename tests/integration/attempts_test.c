/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots, attempts and checks with real boxes: what is made once and started from often, what is found again, what
 * is never used because it was touched, and what a check sees of the attempt that it judges.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/integration/ns_rig.h"
#include "tests/unit/workers/rig.h"

#define SUCCEEDED BH_OUTCOME_SUCCEEDED
#define FAILED BH_OUTCOME_FAILED

static struct rig *r;

static int group_setup(void **state)
{
    (void)state;
    r = ns_rig_new();
    return 0;
}

static int group_teardown(void **state)
{
    (void)state;
    if (r)
        rig_free(r);
    return 0;
}

static int needs_boxes(void **state)
{
    (void)state;
    if (!r)
        t_skip("boxes", ns_rig_why());
    return 0;
}

/* --- leases --- */

#define SHELL(...)                           \
    (const char *const[])                    \
    {                                        \
        "/bin/sh", "-ceu", __VA_ARGS__, NULL \
    }

static const char *key(char c)
{
    static char keys[26][65];
    memset(keys[c - 'a'], c <= 'f' ? c : '0' + c - 'g', 64);
    return keys[c - 'a'];
}

static struct bh_lease shell(const char *script)
{
    struct bh_lease lease = RIG_LEASE(r, "");
    RIG_RUN(&lease, "/bin/sh", "-ceu", script);
    lease.grace_ns = 5 * BH_NS_PER_S;
    lease.prepare_ns = lease.check_ns = 60 * BH_NS_PER_S;
    lease.box.writable_usr = true;
    return lease;
}

static void set_stack(struct bh_lease *lease, const struct bh_result *from)
{
    if (!from)
        return;
    lease->box.n_snapshots = from->n_snapshots;
    lease->box.snapshots = bh_calloc(from->n_snapshots, sizeof(char *));
    for (size_t i = 0; i < from->n_snapshots; i++)
        lease->box.snapshots[i] = bh_strdup(from->snapshots[i]);
}

static struct bh_lease making(enum bh_lease_kind kind, char k, const char *script, const struct bh_result *from)
{
    struct bh_lease lease = shell("");
    lease.kind = kind;
    lease.attempt = 0;
    lease.snapshot_key = bh_strdup(key(k));
    if (kind == BH_LEASE_SETUP)
        rig_set_argv(&lease.setup, &lease.n_setup, SHELL(script));
    else
        rig_set_argv(&lease.prepare, &lease.n_prepare, SHELL(script));
    rig_set_argv(&lease.run_argv, &lease.n_run, (const char *const[]){NULL});
    set_stack(&lease, from);
    return lease;
}

static struct bh_lease attempt(int number, const char *script, const struct bh_result *from)
{
    struct bh_lease lease = shell(script);
    lease.attempt = number;
    set_stack(&lease, from);
    return lease;
}

static void set_check(struct bh_lease *lease, bool fresh, const char *script)
{
    rig_set_argv(&lease->check.argv, &lease->check.n_argv, SHELL(script));
    lease->check.fresh = fresh;
}

static void add_check_file(struct bh_lease *lease, const char *path, const char *text)
{
    struct bh_lease_check *c = &lease->check;
    c->files = bh_realloc_array(c->files, c->n_files + 1, sizeof(*c->files));
    c->files[c->n_files++] = (struct bh_lease_file){.path = bh_strdup(path), .object = rig_store(r, text)};
}

static char *log_of(const struct bh_result *result)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/runs/%s/logs/%s.log", r->home, r->run.s, result->instance.s);
    return access(path, F_OK) == 0 ? rig_log(r, result->instance) : bh_strdup("|"); /* nothing was ever said */
}

static const struct bh_result *expect(const struct bh_result *result, enum bh_outcome outcome, const char *reason,
                                      const char *detail)
{
    if (result->outcome != outcome || !bh_streq(result->reason, reason) ||
        (detail && (!result->detail || !strstr(result->detail, detail)))) {
        BH_CLEANUP_FREE char *log = log_of(result);
        fail_msg("outcome %d, reason %s, detail: %s\nwanted %d, %s, '%s'\nlog: %s", (int)result->outcome,
                 result->reason ? result->reason : "none", result->detail ? result->detail : "none", (int)outcome,
                 reason ? reason : "none", detail ? detail : "", log);
    }
    return result;
}

static const struct bh_result *run(struct bh_lease lease, enum bh_outcome outcome, const char *reason,
                                   const char *detail)
{
    return expect(rig_run(r, &lease), outcome, reason, detail);
}

static void expect_log(const struct bh_result *result, const char *want)
{
    BH_CLEANUP_FREE char *log = log_of(result);
    T_STR(log, want);
}

static char *in_store(char k, const char *rest)
{
    return bh_asprintf("%s/snapshots/%s/%s", r->home, key(k), rest);
}

static void drop_all(void)
{
    BH_CLEANUP_FREE char *store = bh_asprintf("%s/snapshots", r->home);
    T_INT(bh_rmtree_at(AT_FDCWD, store), 0);
    rig_worker_stop(r); /* whatever it remembers */
    rig_worker_again(r);
}

/* --- snapshots --- */

static void test_setup_prepare_attempts(void **state)
{
    (void)state;
    struct bh_lease lease = making(BH_LEASE_SETUP, 'a',
                                   "id -u; echo tool > /usr/local/bin/tool; chmod +x /usr/local/bin/tool; "
                                   "ls in | wc -l; echo s > made; sleep 1000 &",
                                   NULL);
    const struct bh_result *setup = run(lease, SUCCEEDED, NULL, NULL);
    expect_log(setup, "0\n0\n|");
    T_TRUE(!setup->snapshot_reused && !setup->passed);
    T_INT(setup->n_snapshots, 1);
    lease =
        making(BH_LEASE_PREPARE, 'b', "id -u; cat /usr/local/bin/tool; cat in/data; echo p >> made; rm -f gone", setup);
    lease.inputs = bh_calloc(1, sizeof(*lease.inputs));
    lease.n_inputs = 1;
    lease.inputs[0] = (struct bh_lease_file){.path = bh_strdup("data"),
                                             .name = bh_strdup("data"),
                                             .object = rig_store(r, "input\n"),
                                             .provenance = bh_strdup("{}")};
    const struct bh_result *prepare = run(lease, SUCCEEDED, NULL, NULL);
    expect_log(prepare, "1000\ntool\ninput\n|");
    T_INT(prepare->n_snapshots, 2);
    T_STR(prepare->snapshots[0], key('b'));
    struct bh_instance_id ids[4];
    for (int i = 0; i < 4; i++) {
        lease =
            attempt(i + 1, i == 2 ? "kill -9 $$" : "echo r >> made; cat made > out/x; ls in; tool || true", prepare);
        rig_add_output(&lease, "x");
        ids[i] = rig_send(r, &lease);
    }
    const char *digest = NULL;
    for (int i = 0; i < 4; i++) {
        const struct bh_result *result = rig_result(r, ids[i]);
        expect(result, i == 2 ? FAILED : SUCCEEDED, i == 2 ? "signal" : NULL, NULL);
        T_INT(result->passed, i != 2);
        assert_non_null(result->snapshot);
        T_STR(result->snapshot, digest ? digest : result->snapshot);
        digest = result->snapshot;
        if (i != 2)
            rig_expect_object(r, &result->outputs[0], "x", "s\np\nr\n");
    }
}

static void test_files_come_once(void **state)
{
    (void)state;
    struct bh_lease lease = making(BH_LEASE_PREPARE, 'c', "cat f; echo changed > f", NULL);
    lease.files = bh_calloc(1, sizeof(*lease.files));
    lease.n_files = 1;
    lease.files[0] = (struct bh_lease_file){.path = bh_strdup("f"), .object = rig_store(r, "as it came\n")};
    const struct bh_result *prepare = run(lease, SUCCEEDED, NULL, NULL);
    expect_log(prepare, "as it came\n|");
    lease = attempt(1, "cat f", prepare);
    lease.files = bh_calloc(1, sizeof(*lease.files));
    lease.n_files = 1;
    lease.files[0] = (struct bh_lease_file){.path = bh_strdup("f"), .object = rig_store(r, "as it came\n")};
    expect_log(run(lease, SUCCEEDED, NULL, NULL), "changed\n|");
}

static void test_what_was_made_is_found(void **state)
{
    (void)state;
    drop_all();
    const char *script = "echo made; date +%N > when";
    const struct bh_result *first = run(making(BH_LEASE_PREPARE, 'd', script, NULL), SUCCEEDED, NULL, NULL);
    const struct bh_result *a = run(attempt(1, "true", first), SUCCEEDED, NULL, NULL);
    const struct bh_result *again = run(making(BH_LEASE_PREPARE, 'd', script, NULL), SUCCEEDED, NULL, NULL);
    T_TRUE(again->snapshot_reused && !first->snapshot_reused);
    expect_log(again, "|");
    T_STR(again->snapshot, a->snapshot);
    rig_worker_stop(r);
    rig_worker_again(r);
    const struct bh_result *later = run(making(BH_LEASE_PREPARE, 'd', script, NULL), SUCCEEDED, NULL, NULL);
    T_TRUE(later->snapshot_reused);
    T_STR(later->snapshot, a->snapshot); /* noted in the store */
}

static void spoil(char k)
{
    BH_CLEANUP_FREE char *path = in_store(k, "root/workspace/made");
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    T_TRUE(fd >= 0 && bh_write_all(fd, "by hand\n", 8) == 0);
}

/* Named, made again, and never used silently: also not by an attempt whose preparation was long ago. */
static void test_a_changed_one_is_not_used(void **state)
{
    (void)state;
    drop_all();
    const struct bh_result *first = run(making(BH_LEASE_PREPARE, 'e', "echo p > made", NULL), SUCCEEDED, NULL, NULL);
    expect_log(run(attempt(1, "cat made", first), SUCCEEDED, NULL, NULL), "p\n|");
    spoil('e');
    rig_worker_stop(r);
    rig_worker_again(r);
    run(attempt(2, "cat made", first), FAILED, "host", "snapshot 'eeeeeeeeeeee' was changed on disk");
    const struct bh_result *again = run(making(BH_LEASE_PREPARE, 'e', "echo p > made", NULL), SUCCEEDED, NULL,
                                        "snapshot 'eeeeeeeeeeee' was changed on disk: it was not used");
    T_TRUE(!again->snapshot_reused);
    expect_log(run(attempt(3, "cat made", again), SUCCEEDED, NULL, NULL), "p\n|");
}

static void test_a_deleted_one_is_made_again(void **state)
{
    (void)state;
    drop_all();
    const struct bh_result *setup = run(making(BH_LEASE_SETUP, 'f', "echo s > made", NULL), SUCCEEDED, NULL, NULL);
    const struct bh_result *first = run(making(BH_LEASE_PREPARE, 'g', "echo p >> made", setup), SUCCEEDED, NULL, NULL);
    BH_CLEANUP_FREE char *below = in_store('f', "");
    T_INT(bh_rmtree_at(AT_FDCWD, below), 0);
    rig_worker_stop(r);
    rig_worker_again(r);
    run(attempt(1, "true", first), FAILED, "host", "snapshot 'ffffffffffff' is gone");
    setup = run(making(BH_LEASE_SETUP, 'f', "echo s > made", NULL), SUCCEEDED, NULL, NULL);
    T_TRUE(!setup->snapshot_reused);
    const struct bh_result *again =
        run(making(BH_LEASE_PREPARE, 'g', "echo p >> made", setup), SUCCEEDED, NULL, "was made anew since");
    expect_log(run(attempt(2, "cat made", again), SUCCEEDED, NULL, NULL), "s\np\n|");
}

static void test_bad_preparations(void **state)
{
    (void)state;
    struct stat st;
    drop_all();
    run(making(BH_LEASE_SETUP, 'h', "exit 3", NULL), FAILED, "exit", "setup exited with code 3");
    const struct bh_result *bad =
        run(making(BH_LEASE_PREPARE, 'h', "exit 1", NULL), FAILED, "exit", "prepare exited with code 1");
    T_INT(bad->n_snapshots, 0);
    T_TRUE(bad->kept_box != NULL); /* to be looked into */
    struct bh_lease hangs = making(BH_LEASE_PREPARE, 'h', "sleep 1000", NULL);
    hangs.prepare_ns = 200 * BH_NS_PER_MS;
    run(hangs, FAILED, "timeout(prepare)", "prepare took longer than");
    struct bh_lease full = making(BH_LEASE_PREPARE, 'h', "head -c 100M /dev/zero > big", NULL);
    full.box.limits.of[BH_LIMIT_DISK] = 8 << 20;
    run(full, FAILED, "disk-full", NULL);
    BH_CLEANUP_FREE char *path = in_store('h', "");
    T_TRUE(stat(path, &st) < 0 && errno == ENOENT);
    struct bh_lease daemon =
        making(BH_LEASE_PREPARE, 'h', "setsid sh -c 'while :; do echo x >> noise; done' & sleep 0.1", NULL);
    const struct bh_result *made = run(daemon, SUCCEEDED, NULL, NULL);
    run(attempt(1, "a=$(wc -c < noise); sleep 0.05; test $a = $(wc -c < noise)", made), SUCCEEDED, NULL, NULL);
}

static void test_cancel_while_it_is_made(void **state)
{
    (void)state;
    drop_all();
    struct bh_lease lease = making(BH_LEASE_PREPARE, 'i', "echo on; sleep 1000", NULL);
    const int64_t epoch = lease.epoch;
    unsigned n = r->instances;
    struct bh_instance_id id = rig_send(r, &lease);
    BH_CLEANUP_FREE char *line = bh_asprintf("state %u setup", n);
    rig_until_said(r, line);
    rig_send_kill(r, id, epoch);
    expect(rig_result(r, id), BH_OUTCOME_CANCELLED, NULL, NULL);
}

/* --- checks --- */

static void test_verdicts(void **state)
{
    (void)state;
    struct bh_lease lease = attempt(1, "echo a > out/x", NULL);
    rig_add_output(&lease, "x");
    set_check(&lease, false, "test \"$(cat out/x)\" = b");
    const struct bh_result *bad = run(lease, FAILED, "check", "check exited with code 1");
    T_INT(bad->n_outputs, 1); /* what was collected before */
    T_INT(bad->exit_code, 1);
    T_TRUE(!bad->passed && bad->kept_box);
    lease = attempt(2, "echo b > out/x", NULL);
    rig_add_output(&lease, "x");
    set_check(&lease, false, "test \"$(cat out/x)\" = b; echo mine > out/x");
    const struct bh_result *good = run(lease, SUCCEEDED, NULL, NULL);
    T_TRUE(good->passed && !good->kept_box);
    rig_expect_object(r, &good->outputs[0], "x", "b\n"); /* the check does not change it */
    lease = attempt(3, "exit 4", NULL);
    set_check(&lease, false, "echo not reached");
    expect_log(run(lease, FAILED, "exit", "run exited with code 4"), "|");
    lease = attempt(4, "true", NULL);
    set_check(&lease, true, "kill -9 $$");
    run(lease, FAILED, "check", "check was ended by signal 9");
    lease = attempt(5, "true", NULL);
    set_check(&lease, true, "trap '' TERM; while :; do :; done");
    lease.check_ns = lease.grace_ns = 100 * BH_NS_PER_MS;
    run(lease, FAILED, "timeout(check)", "check took longer than");
    lease = attempt(6, "true", NULL);
    rig_set_argv(&lease.check.argv, &lease.check.n_argv, (const char *const[]){"no-such-judge", NULL});
    run(lease, FAILED, "check", "'no-such-judge' was not found");
}

static void test_fresh_shows_nothing_but_outputs(void **state)
{
    (void)state;
    drop_all();
    const struct bh_result *made =
        run(making(BH_LEASE_PREPARE, 'j', "echo p > made; echo h > $HOME/h", NULL), SUCCEEDED, NULL, NULL);
    struct bh_lease lease =
        attempt(1,
                "echo r > made; echo r > left; echo r > out/left; echo r > /tmp/left; echo h > $HOME/left; "
                "mkdir out/d; echo y > out/d/y; printf '#!/bin/sh\\necho ran\\n' > out/x; chmod +x out/x",
                made);
    rig_add_output(&lease, "x");
    rig_add_output(&lease, "d/y");
    set_check(&lease, true,
              "cat made $HOME/h in/d/y; in/x; ls in; ls /tmp out $HOME; ls; cat given; "
              "(echo no > in/z) 2>/dev/null || echo read-only");
    add_check_file(&lease, "given", "given\n");
    expect_log(
        run(lease, SUCCEEDED, NULL, NULL),
        "p\nh\ny\nran\nd\nx\n/home/agent:\nh\n\n/tmp:\n\nout:\ngiven\nin\nmade\nout\nparams.json\ngiven\nread-only\n|");
}

static void test_same_shows_the_workspace_alone(void **state)
{
    (void)state;
    drop_all();
    const struct bh_result *made = run(
        making(BH_LEASE_PREPARE, 'k', "echo p > made; echo p > gone; mkdir d; echo p > d/p; echo h > $HOME/h", NULL),
        SUCCEEDED, NULL, NULL);
    struct bh_lease lease =
        attempt(1,
                "echo r >> made; rm gone; rm -r d; mkdir d; echo r > d/r; echo t > /tmp/left; echo h > $HOME/left; "
                "rm $HOME/h; echo q > /dev/shm/left",
                made);
    lease.inputs = bh_calloc(1, sizeof(*lease.inputs));
    lease.n_inputs = 1;
    lease.inputs[0] = (struct bh_lease_file){.path = bh_strdup("data"),
                                             .name = bh_strdup("data"),
                                             .object = rig_store(r, "input\n"),
                                             .provenance = bh_strdup("{}")};
    set_check(&lease, false,
              "cat made; ls; ls d; ls /tmp $HOME /dev/shm; cat in/data; echo c > new; rm made; cat d/r > d/c");
    const struct bh_result *result = run(lease, SUCCEEDED, NULL, NULL);
    expect_log(result, "p\nr\nd\nin\nmade\nout\nparams.json\nr\n/dev/shm:\n\n/home/agent:\nh\n\n/tmp:\ninput\n|");
}

/* What an attempt that must not pass tries; `check` is what judges it, with a file that arrives then. */
static void test_what_does_not_pass(void **state)
{
    (void)state;
    drop_all();
    const struct bh_result *made = run(
        making(BH_LEASE_PREPARE, 'l', "mkdir -p t/deep; echo 'exit 1' > t/deep/test.sh", NULL), SUCCEEDED, NULL, NULL);
    static const char *const tries[] = {
        "echo 'exit 0' > t/deep/test.sh",
        "rm t/deep/test.sh; ln -s /bin/true t/deep/test.sh",
        "rm -r t; mkdir -p /workspace/mine/deep; echo exit 0 > mine/deep/test.sh; ln -s mine t",
        "rm -r t; echo x > t",
        "rm t/deep/test.sh; mkdir -p t/deep/test.sh/x",
        "rm -r t/deep; mkfifo t/deep",
        "chmod 0 t/deep/test.sh t/deep t",
        "mkdir -p $HOME/bin .local/bin; for d in $HOME/bin .local/bin . t t/deep; do "
        "printf '#!/bin/sh\\nexit 0\\n' > $d/npm; chmod +x $d/npm; cp $d/npm $d/judge; done; "
        "for f in .profile .bashrc .shrc; do echo 'exit 0' > $HOME/$f; done",
        "(sleep 0.2; while :; do echo 'exit 0' > t/deep/test.sh; done) & echo",
        "setsid sh -c 'while :; do echo exit 0 > t/deep/test.sh; done' >/dev/null 2>&1 &",
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(tries); i++) {
        for (int fresh = 0; fresh < 2; fresh++) {
            struct bh_lease lease = attempt((int)i + 1, tries[i], made);
            set_check(&lease, fresh, "sh ./t/deep/test.sh");
            add_check_file(
                &lease, "t/deep/test.sh",
                "case $(command -v npm; command -v judge) in */workspace/* | */home/*) exit 0 ;; esac; exit 7\n");
            const struct bh_result *result = run(lease, FAILED, "check", NULL);
            if (i != 6 || fresh) /* a closed folder keeps its own user out, and does not help */
                T_STR(result->detail, "check exited with code 7");
        }
    }
}

/* As root of its box it may change every program there is; none of them is what its check runs. */
static void test_root_does_not_pass(void **state)
{
    (void)state;
    static const char *const script = "for p in sh true test npm judge; do printf '#!/bin/dash\\nexit 0\\n' > "
                                      "/usr/local/bin/$p; chmod +x /usr/local/bin/$p; done; "
                                      "echo /workspace/evil.so > /etc/ld.so.preload; echo 'exit 0' >> /etc/profile; "
                                      "printf '[user]\\n' > /etc/gitconfig; echo x > /tmp/x; rm -rf /home/agent";
    for (int fresh = 0; fresh < 2; fresh++) {
        struct bh_lease lease = attempt(1, script, NULL);
        rig_set_text(&lease.user, "root");
        set_check(
            &lease, fresh,
            "id -u; echo $PATH; ls /usr/local/bin | grep -x npm; ls /etc/ld.so.preload /etc/gitconfig 2>/dev/null; "
            "ls -d /home/agent; ls /tmp; exit 7");
        rig_set_text(&lease.env[0].name, "PATH");
        rig_set_text(&lease.env[0].value, "/workspace/bin:/usr/bin:/bin");
        (void)run(lease, FAILED, "check", "check exited with code");
    }
}

static void test_taken_workspace(void **state)
{
    (void)state;
    struct bh_lease lease =
        attempt(1, "cd /; mv workspace elsewhere 2>/dev/null && ln -s tmp workspace || echo cannot", NULL);
    rig_set_text(&lease.user, "root");
    set_check(&lease, false, "exit 0");
    const struct bh_result *result = rig_run(r, &lease);
    if (result->outcome == FAILED)
        expect(result, FAILED, "check", "the attempt left no /workspace");
    else
        expect_log(result, "cannot\n|"); /* it is a place that something is mounted in */
}

/* What tools find by themselves is again what it was. */
static void test_shadows_are_put_back(void **state)
{
    (void)state;
    drop_all();
    const struct bh_result *made =
        run(making(BH_LEASE_PREPARE, 'm',
                   "mkdir -p p/t .git/hooks; echo old > p/conftest.py; echo old > .git/config; "
                   "echo old > .git/hooks/sample",
                   NULL),
            SUCCEEDED, NULL, NULL);
    struct bh_lease lease =
        attempt(1,
                "for d in . p p/t; do for f in conftest.py pytest.ini .npmrc sitecustomize.py; do "
                "echo evil > $d/$f; done; done; echo evil > .git/config; rm -r .git/hooks; "
                "mkdir .git/hooks; echo evil > .git/hooks/post-checkout; echo work > p/t/work; "
                "mkdir -p p/q; echo kept > p/q/conftest.py; rm p/t/pytest.ini; mkdir p/t/pytest.ini; "
                "rm p/t/.npmrc; ln -s /etc/passwd p/t/.npmrc; echo 'gitdir: /workspace/x' > p/.git",
                made);
    set_check(&lease, false,
              "grep -rl evil . || true; cat p/conftest.py .git/config .git/hooks/*; ls -A p p/t; cat p/t/work "
              "p/q/conftest.py");
    add_check_file(&lease, "p/t/test.py", "x\n");
    expect_log(run(lease, SUCCEEDED, NULL, NULL),
               "old\nold\nold\np:\nconftest.py\nq\nt\n\np/t:\ntest.py\nwork\nwork\nkept\n|");
}

/* --- scores --- */

static const struct bh_result *score(const char *in_run, const char *in_check, bool fresh)
{
    struct bh_lease lease = attempt(1, in_run, NULL);
    if (in_check)
        set_check(&lease, fresh, in_check);
    lease.check.score = bh_strdup("s/score");
    return run(lease, SUCCEEDED, NULL, NULL);
}

static void expect_no_score(const struct bh_result *result, const char *why)
{
    T_TRUE(result->passed && !result->has_score);
    assert_non_null(result->detail);
    assert_non_null(strstr(result->detail, why));
}

static void test_scores(void **state)
{
    (void)state;
    for (int fresh = 0; fresh < 2; fresh++) {
        const struct bh_result *good =
            score("mkdir s; echo 99 > s/score", "mkdir -p s; test ! -e s/score; echo ' -1.5e1 ' > s/score", fresh);
        T_TRUE(good->has_score && good->score == -15.0);
        expect_no_score(score("mkdir s; echo 99 > s/score", "true", fresh), "score file 's/score' is missing");
        expect_no_score(score("true", "mkdir -p s; echo nan > s/score", fresh),
                        "does not hold one finite decimal number");
        expect_no_score(score("true", "mkdir -p s; echo 1e999 > s/score", fresh),
                        "does not hold one finite decimal number");
        expect_no_score(score("true", "mkdir -p s; head -c 5M /dev/zero > s/score", fresh), "is larger than 4 KiB");
        expect_no_score(score("true", "mkdir -p s/score", fresh), "is no regular file");
        expect_no_score(score("true", "mkdir -p s; mkfifo s/score", fresh), "is no regular file");
        expect_no_score(score("true", "mkdir -p s; echo 7 > n; ln -s ../n s/score", fresh), "symlink");
    }
    expect_no_score(score("mkdir d; echo 99 > d/score; ln -s d s", "echo 98 > d/score", false), "symlink");
    const struct bh_result *own = score("mkdir s; echo 42 > s/score", NULL, false);
    T_TRUE(own->passed && own->has_score && own->score == 42.0);
}

static void test_cancel_of_a_check(void **state)
{
    (void)state;
    struct bh_lease lease = attempt(1, "true", NULL);
    const int64_t epoch = lease.epoch;
    unsigned n = r->instances;
    set_check(&lease, false, "echo on; sleep 1000");
    struct bh_instance_id id = rig_send(r, &lease);
    BH_CLEANUP_FREE char *line = bh_asprintf("state %u checking", n);
    rig_until_said(r, line);
    rig_send_kill(r, id, epoch);
    expect(rig_result(r, id), BH_OUTCOME_CANCELLED, NULL, NULL);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup(fn, needs_boxes)
    const struct CMUnitTest tests[] = {
        TEST(test_setup_prepare_attempts),
        TEST(test_files_come_once),
        TEST(test_what_was_made_is_found),
        TEST(test_a_changed_one_is_not_used),
        TEST(test_a_deleted_one_is_made_again),
        TEST(test_bad_preparations),
        TEST(test_cancel_while_it_is_made),
        TEST(test_verdicts),
        TEST(test_fresh_shows_nothing_but_outputs),
        TEST(test_same_shows_the_workspace_alone),
        TEST(test_what_does_not_pass),
        TEST(test_root_does_not_pass),
        TEST(test_taken_workspace),
        TEST(test_shadows_are_put_back),
        TEST(test_scores),
        TEST(test_cancel_of_a_check),
    };
    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
