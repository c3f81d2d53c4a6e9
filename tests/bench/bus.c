/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bus FILE DIR: publishes FILE into a content store below DIR, durably, several times in turns with `openssl dgst
 * -sha256 FILE`, and prints the ratio; then many small objects, deliveries, and round trips of a request.
 */
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "artifact-bus/cas.h"
#include "artifact-bus/transport.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/val.h"

extern char **environ;

enum { TURNS = 5, SMALL_OBJECTS = 10000, BATCH = 100, LINKS = 2000, TRIPS = 20000 };

static void must(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "bus: %s failed\n", what);
    exit(1);
}

static double now(void)
{
    return (double)bh_mono_now().ns / 1e9;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double openssl(const char *file)
{
    char *argv[] = {(char *)"openssl", (char *)"dgst", (char *)"-sha256", (char *)file, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    must(posix_spawn_file_actions_init(&actions) == 0, "spawn");
    must(posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0) == 0, "spawn");
    double start = now();
    must(posix_spawnp(&pid, "openssl", &actions, NULL, argv, environ) == 0, "openssl");
    must(waitpid(pid, &status, 0) == pid && status == 0, "openssl dgst");
    double seconds = now() - start;
    posix_spawn_file_actions_destroy(&actions);
    return seconds;
}

static struct bh_cas *open_store(const char *dir)
{
    BH_CLEANUP_FREE char *store = bh_path_join(dir, "cas");
    BH_CLEANUP_FREE char *tmp = bh_path_join(dir, "tmp");
    struct bh_cas *cas;
    must(bh_cas_open(store, tmp, &cas, NULL) == 0, "opening the store");
    return cas;
}

static double publish(const char *file, const char *dir)
{
    must(bh_rmtree_at(AT_FDCWD, dir) == 0, "emptying the folder");
    must(mkdir(dir, 0700) == 0, "making the folder");
    struct bh_cas *cas = open_store(dir);
    struct bh_object o;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    must(fd >= 0, "opening the file");
    double start = now();
    must(bh_cas_put_fd(cas, fd, false, -1, &o, NULL) == 0, "publishing");
    must(bh_cas_sync(cas, NULL) == 0, "syncing");
    double seconds = now() - start;
    close(fd);
    bh_cas_close(cas);
    return seconds;
}

static void large(const char *file, const char *dir)
{
    double ours[TURNS], theirs[TURNS], ratios[TURNS];
    (void)openssl(file); /* the file is in memory now */
    for (int i = 0; i < TURNS; i++) {
        theirs[i] = openssl(file);
        ours[i] = publish(file, dir);
        ratios[i] = ours[i] / theirs[i];
    }
    qsort(ours, TURNS, sizeof(double), by_value);
    qsort(theirs, TURNS, sizeof(double), by_value);
    qsort(ratios, TURNS, sizeof(double), by_value);
    printf("publish, durable      %7.2f s (best %.2f)\n", ours[TURNS / 2], ours[0]);
    printf("openssl dgst -sha256  %7.2f s (best %.2f)\n", theirs[TURNS / 2], theirs[0]);
    printf("ratio of pairs        %7.2f   (best %.2f, worst %.2f)\n", ratios[TURNS / 2], ratios[0], ratios[TURNS - 1]);
}

static void small(const char *dir)
{
    struct bh_cas *cas = open_store(dir);
    char data[4096] = {0};
    struct bh_object o = {0};
    double start = now();
    for (int i = 0; i < SMALL_OBJECTS; i++) {
        memcpy(data, &i, sizeof(i));
        must(bh_cas_put_bytes(cas, data, sizeof(data), &o, NULL) == 0, "publishing");
        if (i % BATCH == BATCH - 1)
            must(bh_cas_sync(cas, NULL) == 0, "syncing");
    }
    printf("objects of 4 KiB      %7.0f /s, durable by %d\n", SMALL_OBJECTS / (now() - start), BATCH);
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    start = now();
    for (int i = 0; i < LINKS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "in/%d", i);
        must(bh_cas_link(cas, &o.digest, false, dirfd, name, NULL) == 0, "delivering");
    }
    printf("delivery              %7.1f us\n", (now() - start) * 1e6 / LINKS);
    close(dirfd);
    bh_cas_close(cas);
}

/* `depth` requests under way at any time, both ends on this thread. */
static void trips(const char *url, const char *name, int depth)
{
    struct bh_bus_server *s;
    struct bh_bus_client *c;
    int sent = 0, got = 0;
    must(bh_bus_server_new(url, &s, NULL) == 0 && bh_bus_client_new(url, &c, NULL) == 0, "the bus");
    struct pollfd pfds[2] = {{.fd = bh_bus_server_fd(s), .events = POLLIN},
                             {.fd = bh_bus_client_fd(c), .events = POLLIN}};
    double start = now();
    while (got < TRIPS) {
        for (; sent < TRIPS && sent - got < depth; sent++) {
            struct bh_val *body = bh_val_map();
            bh_val_set_int(body, "n", sent);
            must(bh_bus_call(c, (uint64_t)sent, body, 60 * BH_NS_PER_S, NULL) == 0, "a call");
        }
        must(poll(pfds, 2, 10000) > 0, "waiting");
        for (struct bh_bus_request *r; (r = bh_bus_server_next(s)) != NULL;)
            bh_bus_reply(r, bh_val_copy(bh_bus_request_body(r)));
        for (struct bh_bus_answer a; bh_bus_client_next(c, &a); got++) {
            must(a.code == 0, "an answer");
            bh_val_free(a.body);
        }
    }
    double seconds = now() - start;
    printf("%s, %2d under way  %7.0f requests/s, %.0f us each\n", name, depth, TRIPS / seconds, seconds * 1e6 / TRIPS);
    bh_bus_client_free(c);
    bh_bus_server_free(s);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    BH_CLEANUP_FREE char *ipc = bh_asprintf("ipc://%s/bus", argv[2]);
    large(argv[1], argv[2]);
    small(argv[2]);
    trips("inproc://bench", "inproc", 1);
    trips("inproc://bench", "inproc", 32);
    trips(ipc, "ipc   ", 1);
    trips(ipc, "ipc   ", 32);
    return 0;
}
