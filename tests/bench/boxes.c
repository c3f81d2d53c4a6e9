/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What boxes cost, for tests/bench/boxes, which reads the lines "KEY VALUE" that this prints.
 *
 *   series [-n N] [-w] [-o] DIR [-- COMMAND…]  create, exec, destroy, one after the other, in turns with bwrap, the
 * bare program and COMMAND (-o: boxes alone; -w: with a writable /usr) parallel [-n N] DIR                        N
 * boxes by two launchers at once, in turns with `xargs -P2 bwrap` alive [-n N] DIR                           N boxes at
 * once: what one holds, and an exec in a live one
 *
 * A block is twenty of each kind, and a ratio is the median of the blocks' ratios: what disturbs the machine for a
 * moment disturbs both sides of it alike.
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
#include "tests/integration/boxes/kit.h"

extern char **environ;

#define BLOCK 20
#define PROGRAM "/bin/true"
#define ROUNDS 5
#define LAUNCHERS 2

static const char *const bwrap[] = {"bwrap", "--unshare-all", "--ro-bind", "/", "/", PROGRAM, NULL};
static const char *const plain[] = {PROGRAM, NULL};

BH_NORETURN static void die(const char *what, const char *why)
{
    fprintf(stderr, "boxes: %s: %s\n", what, why ? why : "failed");
    exit(1);
}

static double now_us(void)
{
    return (double)bh_mono_now().ns / 1000.0;
}

/* --- series of numbers --- */

struct series {
    double *of;
    size_t n, cap;
};

static void add(struct series *s, double value)
{
    *BH_PUSH(s->of, s->n, s->cap) = value;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile_of(const double *values, size_t n, unsigned p)
{
    BH_CLEANUP_FREE double *sorted = bh_memdup(values, n * sizeof(double));
    qsort(sorted, n, sizeof(double), by_value);
    return sorted[(n - 1) * p / 100];
}

static double percentile(const struct series *s, unsigned p)
{
    return s->n ? percentile_of(s->of, s->n, p) : 0;
}

/* Of each block the ratio of the medians, and of those the median. */
static double ratio(const struct series *a, const struct series *b)
{
    struct series ratios = {0};
    for (size_t i = 0; i < a->n && i < b->n; i += BLOCK) {
        size_t len = a->n - i < BLOCK ? a->n - i : BLOCK;
        add(&ratios, percentile_of(a->of + i, len, 50) / percentile_of(b->of + i, len, 50));
    }
    double middle = percentile(&ratios, 50);
    bh_free(ratios.of);
    return middle;
}

static void print(const char *what, const struct series *s)
{
    printf("%s_p10 %.0f\n%s_p50 %.0f\n%s_p99 %.0f\n", what, percentile(s, 10), what, percentile(s, 50), what,
           percentile(s, 99));
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
        .argv = plain, .env = env, .cwd = "/", .stdin_fd = null, .stdout_fd = null, .stderr_fd = null};
    k->boxes->ops->exec(b->box, &spec, on_exec, &done);
    kit_wait(k, &done);
}

struct measured {
    struct series all, create, exec, destroy, bwrap, plain, other;
};

static void one_box(struct kit *k, const struct kit_how *how, int null, struct measured *m)
{
    struct kit_box b;
    double start = now_us();
    if (kit_create(k, &b, how) != 0)
        die("create", b.message);
    double created = now_us();
    exec_in(k, &b, null);
    double ended = now_us();
    if (kit_destroy(&b, false) != 0)
        die("destroy", NULL);
    double gone = now_us();
    add(&m->create, created - start);
    add(&m->exec, ended - created);
    add(&m->destroy, gone - ended);
    add(&m->all, gone - start);
}

static void block_of(const char *const *argv, struct series *s)
{
    for (size_t i = 0; i < BLOCK; i++) {
        double start = now_us();
        run_program(argv);
        add(s, now_us() - start);
    }
}

static void measured_fini(struct measured *m)
{
    struct series *all[] = {&m->all, &m->create, &m->exec, &m->destroy, &m->bwrap, &m->plain, &m->other};
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++)
        bh_free(all[i]->of);
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
    printf("ratio %.2f\n", ratio(&m->all, &m->bwrap));
    if (!o->other)
        return;
    print("other", &m->other);
    printf("other_ratio %.2f\n", ratio(&m->all, &m->other));
}

static void series(const struct options *o)
{
    struct kit k;
    struct measured m = {0}, warm = {0};
    BH_CLEANUP_FD int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    open_kit(&k, o->dir);
    for (size_t i = 0; i < BLOCK; i++)
        one_box(&k, &o->how, null, &warm);
    for (size_t i = 0; i < o->n; i += BLOCK) {
        for (size_t turn = 0; turn < BLOCK; turn++)
            one_box(&k, &o->how, null, &m);
        if (o->only_boxes)
            continue;
        block_of(bwrap, &m.bwrap);
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
    for (size_t i = 0; i < BLOCK; i++)
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
    struct series ours = {0}, theirs = {0}, ratios = {0};
    BH_CLEANUP_FREE char *script =
        bh_asprintf("seq %zu | xargs -P%d -I{} bwrap --unshare-all --ro-bind / / " PROGRAM, o->n, LAUNCHERS);
    const char *shell[] = {"sh", "-c", script, NULL};
    for (unsigned i = 0; i < LAUNCHERS; i++)
        runners[i] = start_runner(o->dir, i, o->n / LAUNCHERS);
    hear_all(runners);
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_us();
        run_program(shell);
        double middle = now_us();
        tell_all(runners, GO);
        hear_all(runners);
        double end = now_us();
        add(&theirs, (middle - start) / (double)o->n);
        add(&ours, (end - middle) / (double)o->n);
        add(&ratios, (middle - start) / (end - middle));
    }
    tell_all(runners, STOP);
    for (size_t i = 0; i < LAUNCHERS; i++) {
        bh_close(runners[i].say);
        (void)waitpid(runners[i].pid, NULL, 0);
        bh_close(runners[i].hear);
    }
    print("parallel_box", &ours);
    print("parallel_bwrap", &theirs);
    printf("speedup %.2f\n", percentile(&ratios, 50));
    bh_free(ours.of);
    bh_free(theirs.of);
    bh_free(ratios.of);
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
        for (size_t i = 0; i < BLOCK; i++) {
            double start = now_us();
            exec_in(k, b, null);
            add(&m->exec, now_us() - start);
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
    double start = now_us();
    for (size_t i = 0; i < o->n; i++) {
        if (kit_create(&k, &boxes[i], &o->how) != 0)
            die("create", boxes[i].message);
    }
    double made = now_us();
    int64_t after = available();
    for (size_t i = 0; i < o->n; i++)
        pss += pss_of(&boxes[i]);
    execs_alive(&k, &boxes[o->n - 1], &m);
    double then = now_us();
    for (size_t i = 0; i < o->n; i++) {
        if (kit_destroy(&boxes[i], false) != 0)
            die("destroy", NULL);
    }
    printf("alive %zu\nalive_create_us %.0f\nalive_destroy_us %.0f\n", o->n, (made - start) / (double)o->n,
           (now_us() - then) / (double)o->n);
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
    fprintf(stderr, "usage: bench_boxes series|parallel|alive|first [-n N] [-w] [-o] [-b BASE]… DIR [-- COMMAND…]\n");
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
    while ((opt = getopt(argc, argv, "+n:wob:")) != -1) {
        if (opt == 'n' && bh_parse_int(optarg, &value) == 0 && value > 0)
            o.n = (size_t)value;
        else if (opt == 'w')
            o.how.writable_usr = true;
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
