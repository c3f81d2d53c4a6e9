/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process commits events, says after each commit how far it is, and is killed at a random point, a hundred times
 * over: every event it had been promised is there, in order, the chain is good, and the next process goes on.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define ROUNDS 100

static unsigned seed = 20261129;

static unsigned roll(unsigned below)
{
    return (unsigned)rand_r(&seed) % below;
}

/* The victim. Writes the last sequence after each commit; never comes back. */
static void commit_for_ever(const struct kit_home *h, const char *run, int64_t done, int out)
{
    struct bh_store *s = NULL;
    if (bh_store_open(&h->home, BH_STORE_WRITE, &s, NULL) != 0)
        _exit(3);
    for (;;) {
        size_t n = 1 + roll(4);
        if (kit_commit_events(s, run, done + 1, n, NULL) != 0)
            _exit(4);
        done += (int64_t)n;
        if (write(out, &done, sizeof(done)) != sizeof(done))
            _exit(5);
    }
}

static void spin(int64_t ns)
{
    int64_t until = bh_mono_now().ns + ns;
    while (bh_mono_now().ns < until)
        continue;
}

/* Returns the last sequence that was acknowledged. */
static int64_t run_and_kill(const struct kit_home *h, const char *run, int64_t done)
{
    int p[2], status = 0;
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        seed += (unsigned)done;
        commit_for_ever(h, run, done, p[1]);
    }
    close(p[1]);
    /* One round in ten is long enough for checkpoints to fall into it. */
    for (unsigned left = roll(10) == 0 ? 800 : roll(25); left > 0; left--)
        assert_int_equal(read(p[0], &done, sizeof(done)), sizeof(done));
    spin(roll(400000));
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(p[0], &done, sizeof(done)) == sizeof(done))
        continue;
    close(p[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return done;
}

static void nothing_acknowledged_is_lost(void **state)
{
    (void)state;
    struct kit_home h;
    struct bh_run_id run = kit_run_id(1);
    int64_t n = 0;
    unsigned behind = 0;
    kit_home_make(&h);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t acknowledged = run_and_kill(&h, run.s, n);
        struct bh_store *s = NULL;
        T_OK(bh_store_open(&h.home, BH_STORE_WRITE, &s, &err));
        struct bh_err *why = NULL;
        int rc = kit_replay(s, run.s, &n, &why);
        if (rc == -BH_E_NOT_FOUND && acknowledged == 0)
            bh_err_free(why);
        else
            t_check_ok(rc, why, "replay", __FILE__, __LINE__);
        T_TRUE(n >= acknowledged && n <= acknowledged + 4);
        behind += n > acknowledged;
        bh_store_close(s);
    }
    print_message("%lld events, %u kills between commit and acknowledgement\n", (long long)n, behind);
    kit_home_remove(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_acknowledged_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
