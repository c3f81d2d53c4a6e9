/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What forks of a prepared box cost, for tests/bench/forks, which reads the lines "KEY VALUE" that this prints.
 *
 *   disk [-n N] [-f FILES] [-k KIB] DIR
 *
 * a box forked from a workspace of so many files, in turns with one that is empty
 *
 *   many [-n N] [-r ROUNDS] DIR
 *
 * N forks at once, in turns with N plain boxes at once
 *
 *   warm [-n N] DIR
 *
 * a fork of a warm interpreter, in turns with a new one in a fork of the disk
 */
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/units.h"
#include "tests/bench/series.h"
#include "tests/integration/boxes/kit.h"
#include "workers/rootfs/layers.h"
#include "workers/warm/helper.h"

#define IMPORTS "import json, asyncio, sqlite3, email.message, xml.dom.minidom, http.client, urllib.request, unittest\n"

static int null_fd;
static const char *const env[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", NULL};

BH_NORETURN static void die(const char *what, const char *why)
{
    fprintf(stderr, "forks: %s: %s\n", what, why ? why : "failed");
    exit(1);
}

static void print(const char *what, const struct series *s)
{
    printf("%s_p50 %.0f\n%s_p95 %.0f\n%s_p99 %.0f\n", what, series_percentile(s, 50), what, series_percentile(s, 95),
           what, series_percentile(s, 99));
}

/* --- boxes --- */

struct ended {
    bool done;
    int status;
};

static void on_exec(void *arg, const struct bh_exec_result *r)
{
    struct ended *e = arg;
    if (r->end == BH_EXEC_NOT_STARTED)
        die("exec", r->step);
    e->status = r->end == BH_EXEC_EXITED ? r->status : -1;
    e->done = true;
}

static void exec_in(struct kit *k, struct kit_box *b, const char *const *argv)
{
    struct ended e = {0};
    const struct bh_exec_spec spec = {.argv = argv,
                                      .env = env,
                                      .cwd = "/workspace",
                                      .stdin_fd = null_fd,
                                      .stdout_fd = null_fd,
                                      .stderr_fd = STDERR_FILENO};
    k->boxes->ops->exec(b->box, &spec, on_exec, &e);
    kit_wait(k, &e.done);
    if (e.status != 0)
        die(argv[0], "did not exit with 0");
}

static void create(struct kit *k, struct kit_box *b, const struct kit_how *how)
{
    if (kit_create(k, b, how) != 0)
        die("create", b->message);
}

static void destroy(struct kit_box *b)
{
    if (kit_destroy(b, false) != 0)
        die("destroy", NULL);
}

/* A frozen workspace. */
static void prepare(struct kit *k, const char *layer, long files, long kib)
{
    static const char text[] = "import os, sys\n"
                               "files, kib = int(sys.argv[1]), int(sys.argv[2])\n"
                               "data = os.urandom(kib * 1024)\n"
                               "for i in range(files):\n"
                               "    if i % 200 == 0: d = '/workspace/d%d' % i; os.mkdir(d)\n"
                               "    with open('%s/f%d' % (d, i), 'wb') as f: f.write(data)\n";
    char n[24], size[24];
    struct kit_box b;
    (void)snprintf(n, sizeof(n), "%ld", files);
    (void)snprintf(size, sizeof(size), "%ld", kib);
    create(k, &b, NULL);
    exec_in(k, &b, (const char *const[]){"/usr/bin/python3", "-c", text, n, size, NULL});
    if (kit_freeze(&b, layer) != 0)
        die("freeze", layer);
}

/* From the wish for a fork to the end of the first program in it. */
static double fork_once(struct kit *k, const char *layer)
{
    struct kit_box b;
    double start = series_now_us();
    create(k, &b, &(struct kit_how){.layer = layer});
    exec_in(k, &b, (const char *const[]){"/bin/true", NULL});
    double took = series_now_us() - start;
    destroy(&b);
    return took;
}

static void bench_disk(struct kit *k, long n, long files, long kib)
{
    struct series full = {0}, empty = {0};
    double start = series_now_us();
    prepare(k, "full", files, kib);
    printf("freeze_full_ms %.0f\n", (series_now_us() - start) / 1000);
    prepare(k, "empty", 0, 0);
    for (long i = 0; i < n; i += SERIES_BLOCK) {
        for (long j = i; j < n && j < i + SERIES_BLOCK; j++)
            series_add(&full, fork_once(k, "full"));
        for (long j = i; j < n && j < i + SERIES_BLOCK; j++)
            series_add(&empty, fork_once(k, "empty"));
    }
    printf("ratio %.2f\n", series_ratio(&full, &empty, SERIES_BLOCK));
    print("full", &full);
    print("empty", &empty);
}

/* --- many at once --- */

struct one {
    struct kit *k;
    struct bh_box *box;
    const char *layer;
    char key[32];
    size_t *left;
};

static void on_gone(void *arg, int code, const struct bh_err *err)
{
    struct one *o = arg;
    if (code != 0)
        die("destroy", err ? bh_err_message(err) : NULL);
    --*o->left;
}

static void on_one_exec(void *arg, const struct bh_exec_result *r)
{
    struct one *o = arg;
    if (r->end != BH_EXEC_EXITED || r->status != 0)
        die("exec", r->step);
    o->k->boxes->ops->destroy(o->box, false, on_gone, o);
}

static void on_one_lost(void *arg)
{
    (void)arg;
    die("a box", "was lost");
}

static void on_one_created(void *arg, struct bh_box *box, int code, const struct bh_err *err)
{
    static const char *const argv[] = {"/bin/true", NULL};
    struct one *o = arg;
    if (code != 0)
        die("create", bh_err_message(err));
    o->box = box;
    const struct bh_exec_spec spec = {
        .argv = argv, .env = env, .cwd = "/", .stdin_fd = null_fd, .stdout_fd = null_fd, .stderr_fd = null_fd};
    o->k->boxes->ops->exec(box, &spec, on_one_exec, o);
}

static double at_once(struct kit *k, const char *layer, size_t n)
{
    static unsigned serial;
    BH_CLEANUP_FREE struct one *all = bh_calloc(n, sizeof(*all));
    size_t left = n;
    double start = series_now_us();
    for (size_t i = 0; i < n; i++) {
        all[i] = (struct one){.k = k, .layer = layer, .left = &left};
        (void)snprintf(all[i].key, sizeof(all[i].key), "m%u", ++serial);
        const struct bh_box_spec spec = {
            .run_dir = k->run_dir, .key = all[i].key, .layers = &all[i].layer, .n_layers = layer ? 1 : 0};
        k->boxes->ops->create(k->boxes, &spec, on_one_created, &all[i], on_one_lost);
    }
    while (left > 0)
        kit_turn(k);
    return series_now_us() - start;
}

static void bench_many(struct kit *k, size_t n, long rounds)
{
    struct series forks = {0}, plain = {0};
    prepare(k, "state", 1000, 4);
    (void)at_once(k, "state", n); /* folders are made once */
    for (long i = 0; i < rounds; i++) {
        series_add(&forks, at_once(k, "state", n));
        series_add(&plain, at_once(k, NULL, n));
    }
    printf("many_ratio %.2f\nmany %zu\n", series_ratio(&forks, &plain, 1), n);
    print("many_forks", &forks);
    print("many_plain", &plain);
}

/* --- warm --- */

static const char server[] =
    IMPORTS "import bulkhead, os\n"
            "attempt = bulkhead.warm()\n"
            "os.write(1, b'here\\n')\n"
            "sizes = [l.split() for l in open('/proc/self/smaps_rollup')]\n"
            "own = sum(int(s[1]) for s in sizes if s[0] in ('Private_Clean:', 'Private_Dirty:'))\n"
            "os.write(1, b'%d\\n' % own)\n"
            "os._exit(0)\n";

struct warm {
    struct kit_box box;
    struct kit_exec exec;
};

static bool ready;

static void on_warm(void *arg)
{
    (void)arg;
    ready = true;
}

static void start_server(struct kit *k, struct warm *w)
{
    static const char *const argv[] = {"/usr/bin/python3", "/workspace/server.py", NULL};
    static const char *const with[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "BULKHEAD_WARM_FD=3", "HOME=/tmp", NULL};
    static const struct bh_box_copy copies[] = {{"bulkhead.py", "bulkhead.py", 0644}, {"server.py", "server.py", 0644}};
    create(k, &w->box, &(struct kit_how){.warm = true});
    kit_deliver(&w->box, "bulkhead.py", bh_warm_helper);
    kit_deliver(&w->box, "server.py", server);
    w->exec =
        (struct kit_exec){.spec = {.argv = argv, .env = with, .copies = copies, .n_copies = 2, .on_warm = on_warm}};
    kit_start(&w->box, &w->exec);
    while (!ready && !w->exec.done)
        kit_turn(k);
    if (!ready)
        die("the fork server", w->exec.step);
}

/* As the worker does: its forks stand on what it stands on, and on what it has written. */
static void freeze_beneath(struct kit *k, const struct warm *w)
{
    BH_CLEANUP_FREE char *boxes = bh_asprintf("%s/boxes", k->run_dir), *layers = bh_asprintf("%s/layers", k->run_dir);
    BH_CLEANUP_FREE char *upper = bh_asprintf("%s/upper", w->box.key);
    if (bh_mkdir_p(layers, 0711, NULL) != 0)
        die("layers", NULL);
    BH_CLEANUP_FD int from = open(boxes, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FD int to = open(layers, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (bh_layer_freeze(from, upper, to, "warm", NULL, NULL) != 0)
        die("freeze", NULL);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

struct line {
    double wish, box; /* from the wish for an attempt, and from when its box was there */
    double kib;       /* what its second line says, where it says one */
};

static struct line first_line(struct kit *k, const struct kit_how *how, const struct bh_exec_spec *spec)
{
    struct kit_box b;
    struct kit_exec e = {.spec = *spec};
    bool said = false;
    double start = series_now_us();
    create(k, &b, how);
    double made = series_now_us();
    kit_start(&b, &e);
    struct event *event = event_new(k->loop, e.out_fd, EV_READ, on_readable, &said);
    event_add(event, NULL);
    kit_wait(k, &said);
    double now = series_now_us();
    event_free(event);
    kit_finish(&b, &e);
    if (e.result.end != BH_EXEC_EXITED || strncmp(e.out.data, "here\n", 5) != 0)
        die("an attempt", e.result.end == BH_EXEC_NOT_STARTED ? e.step : e.err.data);
    struct line line = {now - start, now - made, (double)strtol(e.out.data + 5, NULL, 10)};
    kit_exec_fini(&e);
    destroy(&b);
    return line;
}

static void bench_warm(struct kit *k, long n)
{
    static const char *const cold_argv[] = {"/usr/bin/python3", "-c", IMPORTS "import os\nos.write(1, b'here\\n')\n",
                                            NULL};
    static const char *const warm_argv[] = {"attempt", NULL};
    struct series warm = {0}, there = {0}, cold = {0}, kib = {0};
    struct warm w;
    start_server(k, &w);
    freeze_beneath(k, &w);
    const struct kit_how beneath = {.beneath = w.exec.exec, .layer = "warm"}, disk = {.layer = "warm"};
    const struct bh_exec_spec forked = {.argv = warm_argv, .env = env, .fork = true},
                              run = {.argv = cold_argv, .env = env};
    for (long i = 0; i < n; i += SERIES_BLOCK) {
        for (long j = i; j < n && j < i + SERIES_BLOCK; j++) {
            struct line line = first_line(k, &beneath, &forked);
            series_add(&warm, line.wish);
            series_add(&there, line.box);
            series_add(&kib, line.kib);
        }
        for (long j = i; j < n && j < i + SERIES_BLOCK; j++)
            series_add(&cold, first_line(k, &disk, &run).wish);
    }
    printf("warm_ratio %.3f\n", series_ratio(&warm, &cold, SERIES_BLOCK));
    print("warm", &warm);
    print("there", &there);
    print("cold", &cold);
    print("warm_kib", &kib);
    k->boxes->ops->kill(w.exec.exec, SIGKILL);
    kit_finish(&w.box, &w.exec);
    kit_exec_fini(&w.exec);
    destroy(&w.box);
}

static long number(const char *text)
{
    int64_t n;
    if (bh_parse_int(text, &n) != 0 || n < 0)
        die("not a number", text);
    return (long)n;
}

int main(int argc, char **argv)
{
    long n = 200, files = 100000, kib = 20, rounds = 5;
    struct kit k;
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    const char *what = argc > 1 ? argv[1] : "";
    for (int opt; (opt = getopt(argc - 1, argv + 1, "n:f:k:r:")) != -1;) {
        long *to = opt == 'n' ? &n : opt == 'f' ? &files : opt == 'k' ? &kib : opt == 'r' ? &rounds : NULL;
        if (!to)
            return 2;
        *to = number(optarg);
    }
    if (optind + 1 >= argc)
        die("usage", "forks disk|many|warm [OPTIONS] DIR");
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (kit_open(&k, argv[optind + 1], &err) != 0)
        die("cannot make boxes", bh_err_message(err));
    k.patience_s = 600; /* 2 GB are written and synced */
    if (strcmp(what, "disk") == 0)
        bench_disk(&k, n, files, kib);
    else if (strcmp(what, "many") == 0)
        bench_many(&k, (size_t)n, rounds);
    else if (strcmp(what, "warm") == 0)
        bench_warm(&k, n);
    kit_fini(&k);
    return 0;
}
