/* SPDX-License-Identifier: Apache-2.0 */
/* Log files: what was written comes back byte by byte, whatever it was and however the writer ended. */
#include "workers/logs/log_file.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

#define OUT BH_STREAM_STDOUT
#define ERR BH_STREAM_STDERR

static const struct bh_log_tags tags = {.run = "r1",
                                        .stage = "",
                                        .agent = "writer",
                                        .instance = "r1-000001",
                                        .box = "crew",
                                        .attempt = 2,
                                        .try_ = 3,
                                        .tainted = true};

struct fixture {
    char *dir, *path;
    struct bh_log_writer *w;
    struct bh_log_reader *r;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->path = bh_path_join(f->dir, "x.log");
    *state = f;
    return bh_log_writer_open(f->path, &tags, 0, &f->w, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_log_writer_close(f->w);
    bh_log_reader_close(f->r);
    bh_free(f->path);
    t_tmpdir_free(f->dir);
    bh_free(f);
    return 0;
}

static void add(struct fixture *f, enum bh_stream stream, const char *text)
{
    T_OK(bh_log_writer_add(f->w, stream, text, strlen(text), &err));
}

static void open_reader(struct fixture *f)
{
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
}

static void expect(struct fixture *f, enum bh_stream stream, uint64_t seq, bool eol, const char *text, size_t len)
{
    struct bh_log_line line = {0};
    struct bh_err *err = NULL;
    T_INT(bh_log_reader_next(f->r, &line, &err), 1);
    T_INT(line.stream, stream);
    T_INT(line.seq, seq);
    T_INT(line.eol, eol);
    T_INT(line.len, len);
    assert_memory_equal(line.text, text, len);
    T_TRUE(line.time.us > 0);
}

static void expect_text(struct fixture *f, enum bh_stream stream, uint64_t seq, bool eol, const char *text)
{
    expect(f, stream, seq, eol, text, strlen(text));
}

static void expect_gap(struct fixture *f, uint64_t seq, uint64_t bytes, uint64_t lines)
{
    struct bh_log_line line = {0};
    T_INT(bh_log_reader_next(f->r, &line, NULL), 1);
    T_TRUE(line.gap);
    T_INT(line.seq, seq);
    T_INT(line.missing_bytes, bytes);
    T_INT(line.missing_lines, lines);
    T_INT(line.len, 0);
}

static void expect_end(struct fixture *f)
{
    struct bh_log_line line;
    struct bh_err *err = NULL;
    T_INT(bh_log_reader_next(f->r, &line, &err), 0);
    assert_null(err);
}

static void test_tags_come_back(void **state)
{
    struct fixture *f = *state;
    open_reader(f);
    const struct bh_log_tags *got = bh_log_reader_tags(f->r);
    T_STR(got->run, "r1");
    T_STR(got->stage, "");
    T_STR(got->agent, "writer");
    T_STR(got->instance, "r1-000001");
    T_STR(got->box, "crew");
    T_INT(got->attempt, 2);
    T_INT(got->try_, 3);
    T_TRUE(got->tainted);
    expect_end(f);
}

static void test_streams_do_not_mix(void **state)
{
    struct fixture *f = *state;
    add(f, OUT, "on");
    add(f, ERR, "tw");
    add(f, OUT, "e\nthr");
    add(f, ERR, "o\n");
    add(f, OUT, "ee\n\n");
    open_reader(f);
    expect_text(f, OUT, 1, true, "one");
    expect_text(f, ERR, 2, true, "two");
    expect_text(f, OUT, 3, true, "three");
    expect_text(f, OUT, 4, true, "");
    expect_end(f);
}

static void test_an_unended_line_is_kept(void **state)
{
    struct fixture *f = *state;
    add(f, OUT, "no end");
    add(f, ERR, "nor here");
    T_OK(bh_log_writer_eof(f->w, OUT, &err));
    T_OK(bh_log_writer_eof(f->w, OUT, &err)); /* nothing is left of it */
    bh_log_writer_close(BH_TAKE(f->w));       /* the other stream's comes with the close */
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
    expect_text(f, OUT, 1, false, "no end");
    expect_text(f, ERR, 2, false, "nor here");
    expect_end(f);
}

static void test_every_byte_is_text(void **state)
{
    struct fixture *f = *state;
    char bytes[256], line[255];
    size_t n = 0;
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
        if (i != '\n')
            line[n++] = (char)i;
    }
    /* "\x9e" opens a record of ours: as text it is text */
    T_OK(bh_log_writer_add(f->w, OUT, bytes, 10, &err));
    T_OK(bh_log_writer_add(f->w, OUT, bytes + 11, 245, &err));
    T_OK(bh_log_writer_add(f->w, OUT, "\n\0\n", 3, &err));
    open_reader(f);
    expect(f, OUT, 1, true, line, sizeof(line));
    expect(f, OUT, 2, true, "\0", 1);
    expect_end(f);
}

/* Ten MiB and a bit without a line end, in odd portions, and a short line behind it. */
static void test_a_long_line_comes_in_pieces(void **state)
{
    struct fixture *f = *state;
    size_t total = 10 * BH_LOG_MAX_LINE + 5, done = 0, portion = 65537;
    char *text = bh_alloc(total);
    for (size_t i = 0; i < total; i++)
        text[i] = (char)('a' + i % 23);
    while (done < total) {
        size_t n = total - done < portion ? total - done : portion;
        T_OK(bh_log_writer_add(f->w, OUT, text + done, n, &err));
        done += n;
    }
    add(f, OUT, "\nshort\n");
    open_reader(f);
    for (size_t i = 0; i < 10; i++)
        expect(f, OUT, i + 1, false, text + i * BH_LOG_MAX_LINE, BH_LOG_MAX_LINE);
    expect(f, OUT, 11, true, text + 10 * BH_LOG_MAX_LINE, 5);
    expect_text(f, OUT, 12, true, "short");
    bh_free(text);
}

static void test_the_longest_line_is_one_piece(void **state)
{
    struct fixture *f = *state;
    size_t longest = BH_LOG_MAX_LINE - 1;
    char *text = bh_alloc(BH_LOG_MAX_LINE);
    memset(text, 'x', longest);
    text[longest] = '\n';
    T_OK(bh_log_writer_add(f->w, OUT, text, longest + 1, &err)); /* at once */
    T_OK(bh_log_writer_add(f->w, OUT, text, longest, &err));     /* the end comes later */
    add(f, OUT, "\n");
    T_OK(bh_log_writer_add(f->w, OUT, text, longest, &err)); /* one more is too many */
    add(f, OUT, "y\n");
    open_reader(f);
    expect(f, OUT, 1, true, text, longest);
    expect(f, OUT, 2, true, text, longest);
    text[longest] = 'y';
    expect(f, OUT, 3, false, text, longest + 1);
    expect_text(f, OUT, 4, true, "");
    expect_end(f);
    bh_free(text);
}

static void test_crlf_is_kept(void **state)
{
    struct fixture *f = *state;
    add(f, OUT, "one\r\n\r\ntwo\r");
    T_OK(bh_log_writer_eof(f->w, OUT, &err));
    open_reader(f);
    expect_text(f, OUT, 1, true, "one\r");
    expect_text(f, OUT, 2, true, "\r");
    expect_text(f, OUT, 3, false, "two\r");
    expect_end(f);
}

static void test_a_reader_follows(void **state)
{
    struct fixture *f = *state;
    open_reader(f);
    for (uint64_t seq = 1; seq <= 6; seq += 2) {
        expect_end(f);
        add(f, OUT, "li");
        expect_end(f); /* it has no end yet */
        add(f, OUT, "ne\nmore\n");
        expect_text(f, OUT, seq, true, "line");
        bh_log_reader_park(f->r); /* in the middle of a block */
        expect_text(f, OUT, seq + 1, true, "more");
    }
    bh_log_reader_rewind(f->r);
    expect_text(f, OUT, 1, true, "line");
}

/* A reader that looks while a block is half written, at any byte, gets it when it is whole. */
static void test_a_file_grows_by_bytes(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *copy = bh_path_join(f->dir, "copy.log");
    BH_CLEANUP_BUF struct bh_buf data = BH_BUF_INIT;
    struct bh_log_line line = {0};
    struct stat st;
    uint64_t got = 0;
    T_INT(stat(f->path, &st), 0);
    add(f, OUT, "one\ntwo\n");
    add(f, ERR, "three\n");
    add(f, OUT, "four\n");
    T_OK(bh_read_file(f->path, 1 << 20, &data, &err));
    T_OK(bh_write_file_atomic(copy, data.data, (size_t)st.st_size, 0600, &err));
    T_OK(bh_log_reader_open(copy, &f->r, &err));
    BH_CLEANUP_FD int fd = open(copy, O_WRONLY | O_APPEND | O_CLOEXEC);
    for (size_t at = (size_t)st.st_size; at < data.len; at++) {
        while (bh_log_reader_next(f->r, &line, NULL) == 1)
            got++;
        T_INT(write(fd, data.data + at, 1), 1);
    }
    T_INT(got, 3);
    expect_text(f, OUT, 4, true, "four");
    expect_end(f);
}

/* Whatever the crash cut off, what was whole before is read and the rest is no error. */
static void test_a_torn_tail_is_no_line(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    add(f, OUT, "whole\n");
    T_INT(stat(f->path, &st), 0);
    off_t whole = st.st_size;
    add(f, ERR, "torn off\n");
    T_INT(stat(f->path, &st), 0);
    for (off_t size = st.st_size - 1; size >= whole; size--) {
        T_INT(truncate(f->path, size), 0);
        T_OK(bh_log_reader_open(f->path, &f->r, &err));
        expect_text(f, OUT, 1, true, "whole");
        expect_end(f);
        bh_log_reader_close(BH_TAKE(f->r));
    }
    T_INT(truncate(f->path, whole + 4096), 0); /* a crash of the host may leave zeros */
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
    expect_text(f, OUT, 1, true, "whole");
    expect_end(f);
}

static void test_a_head_that_is_not_whole(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    struct bh_log_reader *r = NULL;
    T_INT(stat(f->path, &st), 0);
    for (off_t size = 0; size < st.st_size; size++) {
        BH_CLEANUP_FREE char *copy = bh_path_join(f->dir, "part.log");
        BH_CLEANUP_BUF struct bh_buf data = BH_BUF_INIT;
        T_OK(bh_read_file(f->path, 1 << 20, &data, &err));
        T_OK(bh_write_file_atomic(copy, data.data, (size_t)size, 0600, &err));
        T_INT(bh_log_reader_open(copy, &r, NULL), -BH_E_AGAIN);
    }
}

static void overwrite(const char *path, off_t at, const void *data, size_t len)
{
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    T_INT(pwrite(fd, data, len, at), (ssize_t)len);
}

static void test_damage_is_named(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    struct bh_log_line line;
    T_INT(stat(f->path, &st), 0);
    off_t first = st.st_size;
    add(f, OUT, "abc\n");
    add(f, OUT, "abc\n");
    off_t second = first + 32 + 4;
    overwrite(f->path, second, "!", 1);
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
    expect_text(f, OUT, 1, true, "abc");
    BH_CLEANUP_FREE char *where = bh_asprintf("is damaged at byte %lld", (long long)second);
    T_ERR(bh_log_reader_next(f->r, &line, &err), BH_E_STORE_CORRUPT, where);
    overwrite(f->path, first + 4, "\xff\xff\xff\xff", 4); /* a length beyond every line */
    bh_log_reader_close(BH_TAKE(f->r));
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
    T_ERR(bh_log_reader_next(f->r, &line, &err), BH_E_STORE_CORRUPT, "is damaged at byte");
}

static void test_what_is_no_log(void **state)
{
    struct fixture *f = *state;
    struct bh_log_reader *r = NULL;
    BH_CLEANUP_FREE char *other = bh_path_join(f->dir, "other");
    T_ERR(bh_log_reader_open(other, &r, &err), BH_E_NOT_FOUND, "cannot open the log");
    T_OK(bh_write_file_atomic(other, "something else entirely", 23, 0600, &err));
    T_ERR(bh_log_reader_open(other, &r, &err), BH_E_STORE_CORRUPT, "is damaged at byte 0");
    overwrite(f->path, 8, "\xff\xff\xff\x7f", 4); /* tags of 2 GiB */
    T_ERR(bh_log_reader_open(f->path, &r, &err), BH_E_STORE_CORRUPT, "is damaged at byte 0");
    overwrite(f->path, 8, "\x08\0\0\0", 4); /* tags too short to be any */
    T_ERR(bh_log_reader_open(f->path, &r, &err), BH_E_STORE_CORRUPT, "is damaged at byte");
    assert_null(r);
}

static void test_a_log_is_never_written_twice(void **state)
{
    struct fixture *f = *state;
    struct bh_log_writer *w = NULL;
    T_ERR(bh_log_writer_open(f->path, &tags, 0, &w, &err), BH_E_EXISTS, "x.log");
    BH_CLEANUP_FREE char *nowhere = bh_path_join(f->dir, "no/x.log");
    T_ERR(bh_log_writer_open(nowhere, &tags, 0, &w, &err), BH_E_IO, "no/x.log");
    assert_null(w);
}

/* In a child, so that the limit and the ignored signal are its own. */
static void write_past_a_limit(struct fixture *f)
{
    struct stat st;
    (void)signal(SIGXFSZ, SIG_IGN);
    T_INT(stat(f->path, &st), 0);
    const struct rlimit limit = {.rlim_cur = (rlim_t)st.st_size + 32 + 6 + 10, .rlim_max = RLIM_INFINITY};
    T_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
    add(f, OUT, "whole\n");
    T_ERR(bh_log_writer_add(f->w, OUT, "cut off\nand more\n", 17, &err), BH_E_IO, "cannot write the log");
    T_INT(bh_log_writer_lost(f->w), 17);
    T_INT(bh_log_writer_dropped(f->w), 0);
    const struct rlimit none = {.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    T_INT(setrlimit(RLIMIT_FSIZE, &none), 0); /* there is room again */
    add(f, OUT, "after\n");
    bh_log_writer_close(BH_TAKE(f->w));
}

static void test_what_cannot_be_written_is_dropped_whole(void **state)
{
    struct fixture *f = *state;
    struct rlimit before;
    T_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    write_past_a_limit(f);
    T_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
    expect_text(f, OUT, 1, true, "whole");
    expect_gap(f, 2, 17, 2);
    expect_text(f, OUT, 4, true, "after");
    expect_end(f);
}

static bool write_text(const char *path, const char *text)
{
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

static bool enter_user_namespace(void)
{
    BH_CLEANUP_FREE char *uids = bh_asprintf("0 %u 1", (unsigned)getuid());
    BH_CLEANUP_FREE char *gids = bh_asprintf("0 %u 1", (unsigned)getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_text("/proc/self/setgroups", "deny") &&
           write_text("/proc/self/uid_map", uids) && write_text("/proc/self/gid_map", gids);
}

/* A real full disk: a small tmpfs in a user namespace of the child's own. Exit 77: the host has none. */
static int on_full_tmpfs(const char *dir)
{
    struct bh_log_writer *w = NULL;
    static char block[64 * 1024];
    int rc = 0;
    if (!enter_user_namespace() || mount("none", dir, "tmpfs", 0, "size=256k") < 0)
        return 77;
    BH_CLEANUP_FREE char *path = bh_path_join(dir, "full.log");
    memset(block, 'x', sizeof(block));
    block[sizeof(block) - 1] = '\n';
    if (bh_log_writer_open(path, &tags, 0, &w, NULL) != 0)
        return 1;
    for (int i = 0; i < 16 && rc == 0; i++)
        rc = bh_log_writer_add(w, OUT, block, sizeof(block), NULL);
    uint64_t lost = bh_log_writer_lost(w);
    bh_log_writer_close(w);
    return rc == -BH_E_DISK_FULL && lost == sizeof(block) ? 0 : 2;
}

static void test_a_full_disk(void **state)
{
    struct fixture *f = *state;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(on_full_tmpfs(f->dir));
    T_INT(waitpid(pid, &status, 0), pid);
    T_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        t_skip("userns", "no tmpfs in a user namespace");
    T_INT(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_tags_come_back),
        TEST(test_streams_do_not_mix),
        TEST(test_an_unended_line_is_kept),
        TEST(test_every_byte_is_text),
        TEST(test_a_long_line_comes_in_pieces),
        TEST(test_the_longest_line_is_one_piece),
        TEST(test_crlf_is_kept),
        TEST(test_a_reader_follows),
        TEST(test_a_file_grows_by_bytes),
        TEST(test_a_torn_tail_is_no_line),
        TEST(test_a_head_that_is_not_whole),
        TEST(test_damage_is_named),
        TEST(test_what_is_no_log),
        TEST(test_a_log_is_never_written_twice),
        TEST(test_what_cannot_be_written_is_dropped_whole),
        TEST(test_a_full_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
