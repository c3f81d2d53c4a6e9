/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several engines share a home: eight processes make the store at the same moment and write runs of their own, while
 * readers look at everything and are never kept waiting (their wait is set to nothing once they are in).
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "scheduler/store/store_priv.h"
#include "tests/kit/store_kit.h"
#include "tests/support/t.h"

#define WRITERS 8
#define READERS 3
#define COMMITS 60

struct pipes {
    int start[2]; /* its end tells everybody to begin */
    int over[2];  /* its end tells readers that the writers are done */
};

static void wait_for_end(int fd)
{
    char c;
    while (read(fd, &c, 1) > 0)
        continue;
}

static bool has_ended(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

static int complain(const char *who, struct bh_err *why)
{
    (void)dprintf(2, "%s: %s: %s\n", who, bh_code_info((int)bh_err_code(why))->text, bh_err_message(why));
    return 1;
}

static int write_runs(const struct kit_home *h, unsigned me)
{
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    int rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, &why);
    for (unsigned i = 0; rc == 0 && i < 2; i++) {
        struct bh_run_id run = kit_run_id(me * 2 + i);
        rc = kit_commit_run(s, run.s, "running", &why);
        for (int c = 0; rc == 0 && c < COMMITS; c++)
            rc = kit_commit_events(s, run.s, 1 + c * 2, 2, &why);
    }
    bh_store_close(s);
    return rc ? complain("writer", why) : 0;
}

static int look_around(struct bh_store *s, struct bh_err **err)
{
    struct bh_run_row *rows, row;
    char *latest = NULL;
    size_t n_rows;
    int64_t n;
    int rc = bh_store_list_runs(s, &rows, &n_rows, err);
    for (size_t i = 0; rc == 0 && i < n_rows; i++) {
        rc = bh_store_get_run(s, rows[i].run, &row, err);
        if (rc == 0)
            bh_run_row_fini(&row);
        if (rc == 0)
            rc = kit_replay(s, rows[i].run, &n, err);
    }
    if (rc)
        return rc;
    rc = n_rows ? bh_store_resolve(s, "@latest", &latest, err) : 0;
    bh_run_rows_free(rows, n_rows);
    bh_free(latest);
    return rc;
}

static int read_runs(const struct kit_home *h, int over)
{
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    int rc = -BH_E_NOT_FOUND;
    while (rc == -BH_E_NOT_FOUND) { /* until the first writer has made it */
        bh_err_free(why);
        why = NULL;
        rc = bh_store_open(&h->home, BH_STORE_READ, &s, &why);
    }
    if (rc == 0)
        bh_db_set_wait(s->db, 0);
    while (rc == 0 && !has_ended(over))
        rc = look_around(s, &why);
    bh_store_close(s);
    return rc ? complain("reader", why) : 0;
}

static pid_t start(const struct kit_home *h, struct pipes *p, bool writer, unsigned me)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    close(p->start[1]);
    close(p->over[1]);
    wait_for_end(p->start[0]);
    _exit(writer ? write_runs(h, me) : read_runs(h, p->over[0]));
}

static int collect(const pid_t *pids, size_t n)
{
    int bad = 0, status = 0;
    for (size_t i = 0; i < n; i++)
        bad += waitpid(pids[i], &status, 0) != pids[i] || status != 0;
    return bad;
}

static int only_open(const struct kit_home *h)
{
    struct bh_store *s = NULL;
    struct bh_err *why = NULL;
    int rc = bh_store_open(&h->home, BH_STORE_WRITE, &s, &why);
    bh_store_close(s);
    return rc ? complain("opener", why) : 0;
}

static void many_make_the_store_at_once(void **state)
{
    (void)state;
    for (int round = 0; round < 25; round++) {
        struct kit_home h;
        int go[2];
        pid_t pids[WRITERS];
        kit_home_make(&h);
        assert_int_equal(pipe2(go, O_CLOEXEC), 0);
        for (unsigned i = 0; i < WRITERS; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0) {
                close(go[1]);
                wait_for_end(go[0]);
                _exit(only_open(&h));
            }
        }
        close(go[1]);
        T_INT(collect(pids, WRITERS), 0);
        close(go[0]);
        kit_home_remove(&h);
    }
}

static void writers_share_and_readers_never_wait(void **state)
{
    (void)state;
    struct kit_home h;
    struct pipes p;
    pid_t writers[WRITERS], readers[READERS];
    kit_home_make(&h);
    assert_int_equal(pipe2(p.start, O_CLOEXEC) + pipe2(p.over, O_CLOEXEC), 0);
    for (unsigned i = 0; i < WRITERS; i++)
        writers[i] = start(&h, &p, true, i);
    for (unsigned i = 0; i < READERS; i++)
        readers[i] = start(&h, &p, false, i);
    close(p.start[1]);
    int bad_writers = collect(writers, WRITERS);
    close(p.over[1]);
    int bad_readers = collect(readers, READERS);
    T_INT(bad_writers, 0);
    T_INT(bad_readers, 0);
    struct bh_store *s = NULL;
    T_OK(bh_store_open(&h.home, BH_STORE_READ, &s, &err));
    for (unsigned i = 0; i < WRITERS * 2; i++) {
        int64_t n = 0;
        T_OK(kit_replay(s, kit_run_id(i).s, &n, &err));
        T_INT(n, COMMITS * 2);
    }
    bh_store_close(s);
    close(p.start[0]);
    close(p.over[0]);
    kit_home_remove(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_make_the_store_at_once),
        cmocka_unit_test(writers_share_and_readers_never_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
