/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What boxes cost, for tests/bench/boxes, which reads the lines "KEY VALUE" that this prints.
 *
 *   series [-n N] [-w] [-t] [-o] DIR [-- COMMAND…]
 *
 * create, exec, destroy, one after the other, in turns with bwrap, the bare program and COMMAND (-o: boxes alone; -w:
 * with a writable /usr; -t: a file is written in them, and in those of bwrap, which get a tmpfs for it)
 *
 *   parallel [-n N] DIR
 *
 * N boxes by two launchers at once, in turns with `xargs -P2 bwrap`
 *
 *   alive [-n N] DIR
 *
 * N boxes at once: what one holds, and an exec in a live one
 *
 *   first [-n N] [-b BASE]… DIR
 *
 * the first box of N launchers
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/bench/series.h"
#include "tests/integration/boxes/kit.h"

extern char **environ;

#define PROGRAM "/bin/true"
#define ROUNDS 5
#define LAUNCHERS 2

static const char *const bwrap[] = {"bwrap", "--unshare-all", "--ro-bind", "/", "/", PROGRAM, NULL};
static const char *const plain[] = {PROGRAM, NULL};
static const char *const bwrap_touch[] = {"bwrap",   "--unshare-all", "--ro-bind",  "/",      "/",
                                          "--tmpfs", "/tmp",          "/bin/touch", "/tmp/x", NULL};
static const char *const touch[] = {"/bin/touch", "/tmp/x", NULL};
static const char *const *ours = plain, *const *theirs = bwrap; /* what is run */

BH_NORETURN static void die(const char *what, const char *why)
{
    fprintf(stderr, "boxes: %s: %s\n", what, why ? why : "failed");
    exit(1);
}

static void print(const char *what, const struct series *s)
{
    printf("%s_p10 %.0f\n%s_p50 %.0f\n%s_p99 %.0f\n", what, series_percentile(s, 10), what, series_percentile(s, 50),
           what, series_percentile(s, 99));
}

/* --- one of each --- */

static void run_program(const char *const *argv)
{
    pid_t pid;
    int status;
    if (posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ) != 0 ||
        waitpid(pid, &status, 0) != pid || status != 0)
        die("cannot run", argv[0]);
}

static void on_exec(void *arg, const struct bh_exec_result *r)
{
    if (r->end != BH_EXEC_EXITED || r->status != 0)
        die("exec", r->step);
    *(bool *)arg = true;
}

static void exec_in(struct kit *k, struct kit_box *b, int null)
{
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    bool done = false;
    struct bh_exec_spec spec = {
        .argv = ours, .env = env, .cwd = "/", .stdin_fd = null, .stdout_fd = null, .stderr_fd = null};
    k->boxes->ops->exec(b->box, &spec, on_exec, &done);
    kit_wait(k, &done);
}

struct measured {
    struct series all, create, exec, destroy, bwrap, plain, other;
};

static void one_box(struct kit *k, const struct kit_how *how, int null, struct measured *m)
{
    struct kit_box b;
    double start = series_now_us();
    if (kit_create(k, &b, how) != 0)
        die("create", b.message);
    double created = series_now_us();
    exec_in(k, &b, null);
    double ended = series_now_us();
    if (kit_destroy(&b, false) != 0)
        die("destroy", NULL);
    double gone = series_now_us();
    series_add(&m->create, created - start);
    series_add(&m->exec, ended - created);
    series_add(&m->destroy, gone - ended);
    series_add(&m->all, gone - start);
}

static void block_of(const char *const *argv, struct series *s)
{
    for (size_t i = 0; i < SERIES_BLOCK; i++) {
        double start = series_now_us();
        run_program(argv);
        series_add(s, series_now_us() - start);
    }
}

static void measured_fini(struct measured *m)
{
    struct series *all[] = {&m->all, &m->create, &m->exec, &m->destroy, &m->bwrap, &m->plain, &m->other};
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++)
        series_fini(all[i]);
}

static void open_kit(struct kit *k, const char *dir)
{
    struct bh_err *err = NULL;
    if (kit_open(k, dir, &err) != 0)
        die("no boxes here", bh_err_message(err));
}

struct options {
    size_t n;
    struct kit_how how;
    bool only_boxes;
    const char *dir;
    const char *const *other; /* NULL: none */
};

/* --- series --- */

static void print_series(const struct options *o, const struct measured *m)
{
    print("box", &m->all);
    print("create", &m->create);
    print("exec", &m->exec);
    print("destroy", &m->destroy);
    if (o->only_boxes)
        return;
    print("bwrap", &m->bwrap);
    print("plain", &m->plain);
    printf("ratio %.2f\n", series_ratio(&m->all, &m->bwrap, SERIES_BLOCK));
    if (!o->other)
        return;
    print("other", &m->other);
    printf("other_ratio %.2f\n", series_ratio(&m->all, &m->other, SERIES_BLOCK));
}

static void series(const struct options *o)
{
    struct kit k;
    struct measured m = {0}, warm = {0};
    BH_CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    open_kit(&k, o->dir);
    for (size_t i = 0; i < SERIES_BLOCK; i++)
        one_box(&k, &o->how, null, &warm);
    for (size_t i = 0; i < o->n; i += SERIES_BLOCK) {
        for (size_t turn = 0; turn < SERIES_BLOCK; turn++)
            one_box(&k, &o->how, null, &m);
        if (o->only_boxes)
            continue;
        block_of(theirs, &m.bwrap);
        block_of(plain, &m.plain);
        if (o->other)
            block_of(o->other, &m.other);
    }
    print_series(o, &m);
    measured_fini(&m);
    measured_fini(&warm);
    kit_fini(&k);
}

/* --- parallel --- */

enum { GO = 'g', STOP = 's' };

struct runner {
    pid_t pid;
    int say, hear; /* one byte each round: go, and done */
};

BH_NORETURN static void run_rounds(const char *dir, size_t n, int hear, int say)
{
    struct kit k;
    struct measured m = {0};
    const struct kit_how how = {0};
    char c;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    open_kit(&k, dir);
    for (size_t i = 0; i < SERIES_BLOCK; i++)
        one_box(&k, &how, null, &m);
    while (write(say, "", 1) == 1 && read(hear, &c, 1) == 1 && c == GO) {
        for (size_t i = 0; i < n; i++)
            one_box(&k, &how, null, &m);
    }
    measured_fini(&m);
    kit_fini(&k);
    exit(0);
}

static struct runner start_runner(const char *dir, unsigned i, size_t n)
{
    int go[2], done[2];
    BH_CLEANUP_FREE char *own = bh_asprintf("%s/%u", dir, i);
    if (pipe2(go, O_CLOEXEC) < 0 || pipe2(done, O_CLOEXEC) < 0)
        die("pipe", NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork", NULL);
    if (pid == 0) {
        bh_close(go[1]);
        bh_close(done[0]);
        run_rounds(own, n, go[0], done[1]);
    }
    bh_close(go[0]);
    bh_close(done[1]);
    return (struct runner){.pid = pid, .say = go[1], .hear = done[0]};
}

static void tell_all(const struct runner *runners, char what)
{
    for (size_t i = 0; i < LAUNCHERS; i++) {
        if (write(runners[i].say, &what, 1) != 1)
            die("a runner has ended", NULL);
    }
}

static void hear_all(const struct runner *runners)
{
    char c;
    for (size_t i = 0; i < LAUNCHERS; i++) {
        if (read(runners[i].hear, &c, 1) != 1)
            die("a runner has ended", NULL);
    }
}

static void parallel(const struct options *o)
{
    struct runner runners[LAUNCHERS];
    struct series box = {0}, other = {0}, ratios = {0};
    BH_CLEANUP_FREE char *script =
        bh_asprintf("seq %zu | xargs -P%d -I{} bwrap --unshare-all --ro-bind / / " PROGRAM, o->n, LAUNCHERS);
    const char *shell[] = {"sh", "-c", script, NULL};
    for (unsigned i = 0; i < LAUNCHERS; i++)
        runners[i] = start_runner(o->dir, i, o->n / LAUNCHERS);
    hear_all(runners);
    for (int round = 0; round < ROUNDS; round++) {
        double start = series_now_us();
        run_program(shell);
        double middle = series_now_us();
        tell_all(runners, GO);
        hear_all(runners);
        double end = series_now_us();
        series_add(&other, (middle - start) / (double)o->n);
        series_add(&box, (end - middle) / (double)o->n);
        series_add(&ratios, (middle - start) / (end - middle));
    }
    tell_all(runners, STOP);
    for (size_t i = 0; i < LAUNCHERS; i++) {
        bh_close(runners[i].say);
        (void)waitpid(runners[i].pid, NULL, 0);
        bh_close(runners[i].hear);
    }
    print("parallel_box", &box);
    print("parallel_bwrap", &other);
    printf("speedup %.2f\n", series_percentile(&ratios, 50));
    series_fini(&box);
    series_fini(&other);
    series_fini(&ratios);
}

/* --- alive --- */

/* In KiB: the number behind `key` in a file of "Key:  number kB" lines. */
static int64_t number_in(const char *path, const char *key)
{
    char line[256];
    int64_t sum = 0;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        if (bh_starts_with(line, key))
            sum += strtoll(line + strlen(key), NULL, 10);
    }
    if (f)
        fclose(f);
    return sum;
}

static int64_t pss_of(struct kit_box *b)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/%lld/smaps_rollup", (long long)kit_init_pid(b));
    return number_in(path, "Pss:");
}

static int64_t available(void)
{
    sync(); /* dirty pages and dead namespaces of what was before are not what we measure */
    return number_in("/proc/meminfo", "MemAvailable:");
}

static void execs_alive(struct kit *k, struct kit_box *b, struct measured *m)
{
    BH_CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t block = 0; block < 10; block++) {
        for (size_t i = 0; i < SERIES_BLOCK; i++) {
            double start = series_now_us();
            exec_in(k, b, null);
            series_add(&m->exec, series_now_us() - start);
        }
        block_of(plain, &m->plain);
    }
}

static void alive(const struct options *o)
{
    struct kit k;
    struct measured m = {0};
    BH_CLEANUP_FREE struct kit_box *boxes = bh_calloc(o->n, sizeof(*boxes));
    int64_t pss = 0;
    open_kit(&k, o->dir);
    int64_t before = available();
    double start = series_now_us();
    for (size_t i = 0; i < o->n; i++) {
        if (kit_create(&k, &boxes[i], &o->how) != 0)
            die("create", boxes[i].message);
    }
    double made = series_now_us();
    int64_t after = available();
    for (size_t i = 0; i < o->n; i++)
        pss += pss_of(&boxes[i]);
    execs_alive(&k, &boxes[o->n - 1], &m);
    double then = series_now_us();
    for (size_t i = 0; i < o->n; i++) {
        if (kit_destroy(&boxes[i], false) != 0)
            die("destroy", NULL);
    }
    printf("alive %zu\nalive_create_us %.0f\nalive_destroy_us %.0f\n", o->n, (made - start) / (double)o->n,
           (series_now_us() - then) / (double)o->n);
    printf("alive_pss_kib %.0f\nalive_all_kib %.0f\n", (double)pss / (double)o->n,
           (double)(before - after) / (double)o->n);
    print("alive_exec", &m.exec);
    print("alive_plain", &m.plain);
    measured_fini(&m);
    kit_fini(&k);
}

/* --- the first box of a launcher --- */

static void first(const struct options *o)
{
    struct measured m = {0};
    BH_CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < o->n; i++) {
        struct kit k;
        open_kit(&k, o->dir);
        one_box(&k, &o->how, null, &m);
        kit_fini(&k);
    }
    print("first", &m.all);
    printf("first_first %.0f\n", m.all.of[0]);
    measured_fini(&m);
}

/* --- the command line --- */

static int usage(void)
{
    fprintf(stderr,
            "usage: bench_boxes series|parallel|alive|first [-n N] [-w] [-t] [-o] [-b BASE]… DIR [-- COMMAND…]\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *base[16];
    struct options o = {.n = 400, .how.base = base};
    int opt;
    int64_t value;
    if (argc < 3)
        return usage();
    const char *what = argv[1];
    optind = 2;
    while ((opt = getopt(argc, argv, "+n:wtob:")) != -1) {
        if (opt == 'n' && bh_parse_int(optarg, &value) == 0 && value > 0)
            o.n = (size_t)value;
        else if (opt == 'w')
            o.how.writable_usr = true;
        else if (opt == 't')
            ours = touch, theirs = bwrap_touch;
        else if (opt == 'o')
            o.only_boxes = true;
        else if (opt == 'b' && o.how.n_base < BH_ARRAY_LEN(base))
            base[o.how.n_base++] = optarg;
        else
            return usage();
    }
    if (optind == argc)
        return usage();
    o.dir = argv[optind++];
    if (optind < argc)
        o.other = (const char *const *)(uintptr_t)(argv + optind + bh_streq(argv[optind], "--"));
    if (bh_streq(what, "series"))
        series(&o);
    else if (bh_streq(what, "parallel"))
        parallel(&o);
    else if (bh_streq(what, "alive"))
        alive(&o);
    else if (bh_streq(what, "first"))
        first(&o);
    else
        return usage();
    return 0;
}
