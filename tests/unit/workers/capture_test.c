/* SPDX-License-Identifier: Apache-2.0 */
/* Pipes into a log: nothing is lost, nothing is mixed, nobody is starved, and an agent's end of a pipe blocks. */
#include "workers/capture.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

struct fixture {
    char *dir;
    struct event_base *loop;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->loop = event_base_new();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    event_base_free(f->loop);
    t_tmpdir_free(f->dir);
    bh_free(f);
    return 0;
}

static struct bh_capture *open_limited(struct fixture *f, const char *name, int64_t limit)
{
    const struct bh_log_tags tags = {.run = "r", .stage = "", .agent = name, .instance = name, .box = "b"};
    BH_CLEANUP_FREE char *path = bh_path_join(f->dir, name);
    return bh_capture_new(path, &tags, limit);
}

static struct bh_capture *open_capture(struct fixture *f, const char *name)
{
    return open_limited(f, name, 1 << 30);
}

static struct bh_pipes *open_pipes(struct fixture *f, struct bh_capture *c)
{
    struct bh_pipes *p = NULL;
    T_OK(bh_pipes_new(f->loop, c, &p, &err));
    return p;
}

/* All of one stream of a log, lines put together as they were. */
static void read_stream(struct fixture *f, const char *name, enum bh_stream stream, struct bh_buf *out)
{
    BH_CLEANUP_FREE char *path = bh_path_join(f->dir, name);
    struct bh_log_reader *r = NULL;
    struct bh_log_line line;
    T_OK(bh_log_reader_open(path, &r, &err));
    while (bh_log_reader_next(r, &line, NULL) == 1) {
        if (line.stream != stream)
            continue;
        bh_buf_add(out, line.text, line.len);
        if (line.eol)
            bh_buf_addc(out, '\n');
    }
    bh_log_reader_close(r);
}

static bool is_nonblocking(int fd)
{
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

static void test_the_ends_given_away(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    struct bh_pipes *p = open_pipes(f, c);
    T_TRUE(!is_nonblocking(bh_pipes_stdout(p)) && !is_nonblocking(bh_pipes_stderr(p)));
    T_TRUE(fcntl(bh_pipes_stdout(p), F_GETFD) & FD_CLOEXEC);
    T_TRUE(fcntl(bh_pipes_stderr(p), F_GETFD) & FD_CLOEXEC);
    bh_pipes_free(p);
    bh_capture_unref(c);
}

/* What lies in the pipe at the end is kept, although the loop has never run. */
static void test_the_end_takes_what_is_there(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    struct bh_pipes *p = open_pipes(f, c);
    BH_CLEANUP_FD int held = dup(bh_pipes_stdout(p)); /* a grandchild that holds the pipe */
    T_INT(bh_write_all(held, "first\nlast", 10), 0);
    bh_pipes_end(p);
    bh_pipes_free(p);
    assert_null(bh_capture_problem(c));
    bh_capture_unref(c);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    read_stream(f, "a", BH_STREAM_STDOUT, &out);
    T_STR(out.data, "first\nlast");
}

/* A second command of the same execution begins a line of its own. */
static void test_commands_do_not_share_a_line(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    for (int i = 0; i < 2; i++) {
        struct bh_pipes *p = open_pipes(f, c);
        T_INT(bh_write_all(bh_pipes_stderr(p), i ? "two\n" : "one", i ? 4 : 3), 0);
        bh_pipes_end(p);
        bh_pipes_free(p);
    }
    bh_capture_unref(c);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    read_stream(f, "a", BH_STREAM_STDERR, &out);
    T_STR(out.data, "onetwo\n"); /* two pieces: the first has no end */
}

#define WRITERS 20
#define EACH (3 * 1024 * 1024 + 17)

struct writer {
    pthread_t thread;
    int fd;
    unsigned seed;
    struct fixture *f;
    int *running;
};

static void fill(unsigned char *data, size_t len, unsigned *seed)
{
    for (size_t i = 0; i < len; i++) {
        *seed = *seed * 1103515245u + 12345u;
        data[i] = (unsigned char)(*seed >> 16); /* NULs, line ends, bytes that are no UTF-8 */
    }
}

static void *write_all(void *arg)
{
    struct writer *w = arg;
    unsigned char block[10007];
    size_t left = EACH;
    while (left > 0) {
        size_t n = left < sizeof(block) ? left : sizeof(block);
        fill(block, n, &w->seed);
        if (bh_write_all(w->fd, block, n) != 0)
            return w;
        left -= n;
    }
    __atomic_sub_fetch(w->running, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void expect_stream(struct fixture *f, const char *name, enum bh_stream stream, unsigned seed)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    unsigned char *want = bh_alloc(EACH);
    read_stream(f, name, stream, &out);
    for (size_t at = 0; at < EACH; at += 10007)
        fill(want + at, EACH - at < 10007 ? EACH - at : 10007, &seed);
    T_INT(out.len, EACH);
    assert_memory_equal(out.data, want, EACH);
    bh_free(want);
}

/* Both streams of ten agents at once, binary, more than any pipe holds: every byte comes back, in its own log. */
static void test_many_writers_at_once(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *captures[WRITERS / 2];
    struct bh_pipes *pipes[WRITERS / 2];
    struct writer writers[WRITERS];
    int running = WRITERS;
    for (int i = 0; i < WRITERS / 2; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("agent%d", i);
        captures[i] = open_capture(f, name);
        pipes[i] = open_pipes(f, captures[i]);
    }
    for (int i = 0; i < WRITERS; i++) {
        int fd = i % 2 ? bh_pipes_stderr(pipes[i / 2]) : bh_pipes_stdout(pipes[i / 2]);
        writers[i] = (struct writer){.fd = fd, .seed = (unsigned)i + 1, .f = f, .running = &running};
        T_INT(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    const struct timeval soon = {.tv_usec = 5000}; /* a turn also when the last writer has just ended */
    while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) > 0) {
        event_base_loopexit(f->loop, &soon);
        event_base_loop(f->loop, EVLOOP_ONCE);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    for (int i = 0; i < WRITERS / 2; i++) {
        bh_pipes_end(pipes[i]);
        bh_pipes_free(pipes[i]);
        assert_null(bh_capture_problem(captures[i]));
        bh_capture_unref(captures[i]);
        BH_CLEANUP_FREE char *name = bh_asprintf("agent%d", i);
        expect_stream(f, name, BH_STREAM_STDOUT, (unsigned)(2 * i) + 1);
        expect_stream(f, name, BH_STREAM_STDERR, (unsigned)(2 * i) + 2);
    }
}

/* One turn of the loop takes a bounded amount of a full pipe, so that its neighbours come to be read. */
static void test_a_turn_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    struct bh_pipes *p = open_pipes(f, c);
    int fd = bh_pipes_stdout(p);
    T_TRUE(fcntl(fd, F_SETPIPE_SZ, 512 * 1024) >= 512 * 1024);
    T_INT(bh_fd_set_nonblock(fd, true), 0);
    char *block = bh_alloc(512 * 1024);
    T_INT(write(fd, block, 512 * 1024), 512 * 1024);
    bh_free(block);
    event_base_loop(f->loop, EVLOOP_ONCE);
    /* 64 KiB were taken: that much room there is again, and no more */
    size_t room = 0;
    char page[4096] = {0};
    while (write(fd, page, sizeof(page)) == (ssize_t)sizeof(page))
        room += sizeof(page);
    T_INT(errno, EAGAIN);
    T_INT(room, 64 * 1024);
    bh_pipes_free(p);
    bh_capture_unref(c);
}

/* The limit is one for both streams and all commands. */
static void test_the_limit_of_an_execution(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_limited(f, "a", 1000);
    char block[301];
    memset(block, 'x', sizeof(block));
    for (size_t i = 9; i < sizeof(block); i += 10)
        block[i] = '\n';
    uint64_t dropped[2] = {0};
    for (int i = 0; i < 2; i++) {
        struct bh_pipes *p = open_pipes(f, c);
        T_INT(bh_write_all(bh_pipes_stdout(p), block, 300), 0);
        T_INT(bh_write_all(bh_pipes_stderr(p), block, 301), 0);
        bh_pipes_end(p);
        bh_pipes_free(p);
        dropped[i] = bh_capture_dropped(c);
    }
    T_INT(dropped[0], 0);
    T_TRUE(dropped[1] >= 202 && dropped[1] < 402);
    assert_null(bh_capture_problem(c)); /* too much is no problem */
    bh_capture_unref(c);
    struct bh_capture *usual = open_limited(f, "b", 0);
    struct bh_pipes *p = open_pipes(f, usual);
    T_INT(bh_write_all(bh_pipes_stdout(p), block, 301), 0);
    bh_pipes_end(p);
    T_INT(bh_capture_dropped(usual), 0);
    bh_pipes_free(p);
    bh_capture_unref(usual);
}

static void *flood(void *arg)
{
    const int *fd = arg;
    char block[4096];
    memset(block, 'f', sizeof(block));
    while (write(*fd, block, sizeof(block)) > 0)
        ;
    return NULL;
}

/* Somebody has the pipe and goes on writing: what lay in it at the end is taken, and no more. */
static void test_a_flood_does_not_hold_the_end(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    struct bh_pipes *p = open_pipes(f, c);
    pthread_t thread;
    int held = dup(bh_pipes_stdout(p));
    (void)signal(SIGPIPE, SIG_IGN);
    T_INT(pthread_create(&thread, NULL, flood, &held), 0);
    for (int i = 0; i < 20; i++)
        event_base_loop(f->loop, EVLOOP_ONCE);
    bh_pipes_end(p);
    bh_pipes_free(p);
    pthread_join(thread, NULL); /* its pipe is broken */
    close(held);
    bh_capture_unref(c);
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    read_stream(f, "a", BH_STREAM_STDOUT, &out);
    T_TRUE(out.len >= 20 * 4096 && out.len <= 21 * 64 * 1024);
}

static void test_an_abandoned_command(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    struct bh_pipes *p = open_pipes(f, c);
    bh_pipes_abandon(p);
    bh_capture_unref(c); /* the log is closed: the pipes held nothing of it */
    T_TRUE(fcntl(bh_pipes_stdout(p), F_GETFD) >= 0);
    T_INT(event_base_get_num_events(f->loop, EVENT_BASE_COUNT_ADDED), 0);
    bh_pipes_free(p);
}

static void test_silence_leaves_no_file(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "a");
    struct bh_pipes *p = open_pipes(f, c);
    bh_pipes_end(p);
    bh_pipes_free(p);
    bh_capture_unref(c);
    BH_CLEANUP_FREE char *path = bh_path_join(f->dir, "a");
    T_TRUE(access(path, F_OK) < 0);
}

static void test_a_log_that_cannot_be_made(void **state)
{
    struct fixture *f = *state;
    struct bh_capture *c = open_capture(f, "no/such/folder");
    struct bh_pipes *p = open_pipes(f, c);
    assert_null(bh_capture_problem(c)); /* nothing was said, nothing is missing */
    T_INT(bh_write_all(bh_pipes_stdout(p), "x", 1), 0);
    bh_pipes_end(p);
    BH_CLEANUP_FREE char *problem = bh_capture_problem(c);
    T_TRUE(strstr(problem, "1 byte of its output could not be logged: cannot make the log '") == problem);
    T_TRUE(strstr(problem, "No such file or directory") != NULL);
    bh_pipes_free(p);
    bh_capture_unref(c);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_the_ends_given_away),
        TEST(test_the_end_takes_what_is_there),
        TEST(test_commands_do_not_share_a_line),
        TEST(test_many_writers_at_once),
        TEST(test_a_turn_is_bounded),
        TEST(test_the_limit_of_an_execution),
        TEST(test_a_flood_does_not_hold_the_end),
        TEST(test_an_abandoned_command),
        TEST(test_silence_leaves_no_file),
        TEST(test_a_log_that_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
