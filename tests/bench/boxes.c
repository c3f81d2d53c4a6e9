/* SPDX-License-Identifier: Apache-2.0 */
/*
 * boxes [-n N] [-p PROGRAM] [-w] NAME DIR: times create + exec PROGRAM + destroy against `bwrap --unshare-all
 * --ro-bind / / PROGRAM`, in turns of 20 in one process, and prints the ratio of the medians and where the time goes.
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/units.h"
#include "tests/integration/boxes/kit.h"

extern char **environ;

#define TURN 20

struct series {
    double *us;
    size_t n;
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(struct series *s, unsigned p)
{
    qsort(s->us, s->n, sizeof(double), by_value);
    return s->us[(s->n - 1) * p / 100];
}

static double now_us(void)
{
    return (double)bh_mono_now().ns / 1000.0;
}

static void print(const char *what, struct series *s)
{
    printf("%-28s n %4zu  min %6.0f  p50 %6.0f  p95 %6.0f  p99 %6.0f us\n", what, s->n, percentile(s, 0),
           percentile(s, 50), percentile(s, 95), percentile(s, 99));
}

static void add(struct series *s, double since)
{
    s->us[s->n++] = now_us() - since;
}

static void run_program(const char *const *argv)
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0) {
        fprintf(stderr, "cannot run %s\n", argv[0]);
        exit(1);
    }
}

struct measured {
    struct series all, create, exec, destroy, bwrap, plain;
};

static void on_exec(void *arg, const struct bh_exec_result *r)
{
    if (r->end != BH_EXEC_EXITED || r->status != 0) {
        fprintf(stderr, "exec failed: %d %d %s\n", (int)r->end, r->status, r->step ? r->step : "");
        exit(1);
    }
    *(bool *)arg = true;
}

static void one_box(struct kit *k, const struct kit_how *how, const char *program, int null, struct measured *m)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    const char *argv[] = {program, NULL};
    struct kit_box b;
    bool done = false;
    double start = now_us();
    if (kit_create(k, &b, how) != 0) {
        fprintf(stderr, "create: %s\n", b.message);
        exit(1);
    }
    add(&m->create, start);
    double then = now_us();
    struct bh_exec_spec spec = {
        .argv = argv, .env = env, .cwd = "/", .stdin_fd = null, .stdout_fd = null, .stderr_fd = null};
    k->boxes->ops->exec(b.box, &spec, on_exec, &done);
    kit_wait(k, &done);
    add(&m->exec, then);
    then = now_us();
    if (kit_destroy(&b, false) != 0)
        exit(1);
    add(&m->destroy, then);
    add(&m->all, start);
}

static void measure(struct kit *k, const struct kit_how *how, const char *program, size_t n, struct measured *m)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const char *bwrap[] = {"bwrap", "--unshare-all", "--ro-bind", "/", "/", program, NULL};
    const char *plain[] = {program, NULL};
    for (size_t i = 0; i < n; i += TURN) {
        for (size_t t = 0; t < TURN; t++)
            one_box(k, how, program, null, m);
        for (size_t t = 0; t < TURN; t++) {
            double then = now_us();
            run_program(bwrap);
            add(&m->bwrap, then);
        }
        for (size_t t = 0; t < TURN; t++) {
            double then = now_us();
            run_program(plain);
            add(&m->plain, then);
        }
    }
    close(null);
}

int main(int argc, char **argv)
{
    size_t n = 400;
    const char *program = "/bin/true";
    struct kit_how how = {0};
    int opt;
    while ((opt = getopt(argc, argv, "n:p:ws")) != -1) {
        int64_t value = 0;
        if (opt == 'n' && bh_parse_int(optarg, &value) == 0 && value > 0)
            n = (size_t)value;
        else if (opt == 'p')
            program = optarg;
        else if (opt == 'w')
            how.writable_usr = true;
        else if (opt == 's')
            how.shared = true;
    }
    if (argc - optind != 2) {
        fprintf(stderr, "usage: boxes [-n N] [-p PROGRAM] [-ws] NAME DIR\n");
        return 2;
    }
    struct kit k;
    struct bh_err *err = NULL;
    if (kit_open(&k, argv[optind + 1], &err) != 0) {
        fprintf(stderr, "%s\n", bh_err_message(err));
        return 1;
    }
    n = (n + TURN - 1) / TURN * TURN;
    struct measured m;
    for (size_t i = 0; i < sizeof(m) / sizeof(struct series); i++)
        ((struct series *)&m)[i] = (struct series){.us = bh_calloc(n, sizeof(double))};
    struct measured warm = m;
    one_box(&k, &how, program, 0, &warm);
    measure(&k, &how, program, n, &m);
    printf("box / bwrap ratio %.2f (p50, %s)\n", percentile(&m.all, 50) / percentile(&m.bwrap, 50), argv[optind]);
    print("box: create+exec+destroy", &m.all);
    print("  create", &m.create);
    print("  exec", &m.exec);
    print("  destroy", &m.destroy);
    print("bwrap", &m.bwrap);
    print("the program alone", &m.plain);
    for (size_t i = 0; i < sizeof(m) / sizeof(struct series); i++)
        bh_free(((struct series *)&m)[i].us);
    kit_fini(&k);
    return 0;
}
