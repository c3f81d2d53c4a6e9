/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of a log: head and tail are kept, what lay between is counted to the byte, and nothing is dropped before
 * the limit is reached; for readers that come later, that follow, and that lag behind.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/logs/log_file.h"

static const struct bh_log_tags tags = {.run = "r", .stage = "", .agent = "a", .instance = "i", .box = "b"};

struct fixture {
    char *dir, *path;
    struct bh_log_writer *w;
    struct bh_log_reader *r;
    unsigned seed;
    struct bh_buf said[2]; /* all that was written, per stream */
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->path = bh_path_join(f->dir, "x.log");
    bh_buf_init(&f->said[0]);
    bh_buf_init(&f->said[1]);
    f->seed = 1;
    *state = f;
    return 0;
}

static void end_log(struct fixture *f)
{
    bh_log_writer_close(BH_TAKE(f->w));
    bh_log_reader_close(BH_TAKE(f->r));
    bh_buf_clear(&f->said[0]);
    bh_buf_clear(&f->said[1]);
    DIR *dir = opendir(f->dir);
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        (void)unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    end_log(f);
    bh_buf_fini(&f->said[0]);
    bh_buf_fini(&f->said[1]);
    bh_free(f->path);
    t_tmpdir_free(f->dir);
    bh_free(f);
    return 0;
}

static unsigned draw(struct fixture *f, unsigned below)
{
    f->seed = f->seed * 1103515245u + 12345u;
    return (f->seed >> 8) % below;
}

static void say(struct fixture *f, enum bh_stream stream, const void *data, size_t len)
{
    bh_buf_add(&f->said[stream], data, len);
    T_OK(bh_log_writer_add(f->w, stream, data, len, &err));
}

/* Random bytes with a line's end about every `line` bytes. */
static void babble(struct fixture *f, enum bh_stream stream, size_t len, unsigned line)
{
    BH_CLEANUP_FREE char *data = bh_alloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = draw(f, line) == 0 ? '\n' : (char)draw(f, 256);
    say(f, stream, data, len);
}

static void begin(struct fixture *f, uint64_t limit)
{
    T_OK(bh_log_writer_open(f->path, &tags, limit, &f->w, &err));
}

/* What a reader has been given so far. */
struct seen {
    struct bh_buf text[2]; /* the last run of each stream without a gap before it */
    size_t front[2];       /* bytes of each stream before the last gap */
    uint64_t kept, missing, gaps, seq;
};

static void seen_init(struct seen *s)
{
    *s = (struct seen){.seq = 1};
    bh_buf_init(&s->text[0]);
    bh_buf_init(&s->text[1]);
}

static void seen_fini(struct seen *s)
{
    bh_buf_fini(&s->text[0]);
    bh_buf_fini(&s->text[1]);
}

static void take_gap(const struct fixture *f, struct seen *s, const struct bh_log_line *line)
{
    T_TRUE(line->missing_bytes > 0 && line->missing_lines > 0);
    s->missing += line->missing_bytes;
    s->seq += line->missing_lines;
    for (int i = 0; i < 2; i++) {
        if (s->gaps == 0)
            assert_memory_equal(s->text[i].data, f->said[i].data, s->text[i].len);
        s->front[i] += s->text[i].len;
        bh_buf_clear(&s->text[i]);
    }
    s->gaps++;
}

/* Reads to the present end. Returns how many lines there were. */
static unsigned read_on(const struct fixture *f, struct seen *s)
{
    struct bh_log_line line = {0};
    struct bh_err *err = NULL;
    unsigned n = 0;
    int rc;
    while ((rc = bh_log_reader_next(f->r, &line, &err)) == 1) {
        T_INT(line.seq, s->seq);
        if (line.gap) {
            take_gap(f, s, &line);
            continue;
        }
        n++;
        s->seq++;
        s->kept += line.len + line.eol;
        bh_buf_add(&s->text[line.stream], line.text, line.len);
        if (line.eol)
            bh_buf_addc(&s->text[line.stream], '\n');
    }
    t_check_ok(rc, err, "reading", __FILE__, __LINE__);
    return n;
}

/* The last run of each stream is the end of what was said. */
static void expect_ends(const struct fixture *f, const struct seen *s)
{
    for (int i = 0; i < 2; i++) {
        const struct bh_buf *said = &f->said[i];
        T_TRUE(s->text[i].len + s->front[i] <= said->len);
        assert_memory_equal(s->text[i].data, said->data + said->len - s->text[i].len, s->text[i].len);
    }
}

static void open_reader(struct fixture *f)
{
    T_OK(bh_log_reader_open(f->path, &f->r, &err));
}

static size_t count_files(const struct fixture *f)
{
    DIR *dir = opendir(f->dir);
    size_t n = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

/* --- arithmetic --- */

static void expect_shape(const struct fixture *f, const struct seen *s, uint64_t limit, uint64_t dropped)
{
    uint64_t total = f->said[0].len + f->said[1].len, head = s->front[0] + s->front[1], tail = s->kept - head;
    T_INT(s->kept + s->missing, total);
    T_INT(s->missing, dropped);
    T_TRUE(s->kept <= limit);
    T_TRUE(s->gaps <= 1);
    T_INT(s->gaps == 0, total <= limit);
    if (s->gaps == 0)
        return;
    T_TRUE(head <= limit / 2 && head >= limit / 2 - limit / 16);
    if (limit >= 64)
        T_TRUE(tail >= limit * 3 / 8 - 4 && tail >= limit / 4);
    else
        T_TRUE(tail >= 1);
}

static void one_log(struct fixture *f, uint64_t limit, uint64_t total, unsigned chunk, unsigned line)
{
    struct seen s;
    seen_init(&s);
    begin(f, limit);
    for (uint64_t done = 0; done < total;) {
        uint64_t n = 1 + draw(f, chunk);
        n = n < total - done ? n : total - done;
        babble(f, draw(f, 3) ? BH_STREAM_STDOUT : BH_STREAM_STDERR, n, line);
        done += n;
        if (draw(f, 8) == 0)
            T_TRUE(count_files(f) <= 20);
    }
    T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDERR, &err));
    T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDOUT, &err));
    T_INT(bh_log_writer_lost(f->w), 0);
    uint64_t dropped = bh_log_writer_dropped(f->w);
    open_reader(f);
    read_on(f, &s);
    expect_ends(f, &s);
    expect_shape(f, &s, limit, dropped);
    seen_fini(&s);
    end_log(f);
}

static void test_small_limits(void **state)
{
    struct fixture *f = *state;
    for (uint64_t limit = 1; limit <= 70; limit += 1 + (limit > 20)) {
        for (uint64_t total = limit - 1; total <= 5 * limit; total += 1 + limit / 2)
            one_log(f, limit, total, (unsigned)(1 + limit / 2), 1 + (unsigned)(limit % 7));
    }
}

static void test_random_limits(void **state)
{
    struct fixture *f = *state;
    static const unsigned lines[] = {1, 2, 17, 300, 5000, 1000000}, chunks[] = {1 + 7, 700, 65536, 300000};
    for (int i = 0; i < 60; i++) {
        uint64_t limit = 1 + draw(f, i % 3 ? 3000 : 200000), total = draw(f, (unsigned)(limit * 4));
        unsigned chunk = chunks[draw(f, 4)];
        if (total / chunk > 3000 || (limit > 3000 && chunk < 700)) /* blocks so short meet the other budget first */
            chunk = 700;
        one_log(f, limit, total, chunk, lines[draw(f, 6)]);
    }
}

/* Far more than the limit at once, behind a line that has begun: most of it is not even written. */
static void test_more_at_once_than_the_limit(void **state)
{
    struct fixture *f = *state;
    static const unsigned lines[] = {3, 40, 1u << 31};
    for (int i = 0; i < 30; i++) {
        struct seen s;
        uint64_t limit = 1 + draw(f, 500);
        seen_init(&s);
        begin(f, limit);
        babble(f, BH_STREAM_STDOUT, limit, 10);
        babble(f, BH_STREAM_STDERR, 1 + limit / 20, 100);
        say(f, BH_STREAM_STDOUT, "begun", 5);
        babble(f, BH_STREAM_STDOUT, 3 * limit + draw(f, 5000), lines[i % 3]);
        T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDERR, &err));
        T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDOUT, &err));
        open_reader(f);
        read_on(f, &s);
        expect_ends(f, &s);
        expect_shape(f, &s, limit, bh_log_writer_dropped(f->w));
        seen_fini(&s);
        end_log(f);
    }
}

/* Exactly the limit is within it; one byte more is not. */
static void test_the_edge(void **state)
{
    struct fixture *f = *state;
    static const uint64_t limits[] = {1, 2, 15, 16, 17, 1000, 65536, 65537, 1 << 20};
    for (size_t i = 0; i < BH_ARRAY_LEN(limits); i++) {
        for (int more = -1; more <= 1; more++)
            one_log(f, limits[i], limits[i] + (uint64_t)more, 4096, 50);
    }
}

/* 10 MiB without an end in a log of 4 MiB: pieces, and the bytes behind it whole. */
static void test_a_line_longer_than_the_limit(void **state)
{
    struct fixture *f = *state;
    struct seen s;
    seen_init(&s);
    begin(f, 4 << 20);
    for (int i = 0; i < 160; i++)
        babble(f, BH_STREAM_STDOUT, 65536, 1u << 31);
    say(f, BH_STREAM_STDERR, "the end\n", 8);
    T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDOUT, &err));
    uint64_t dropped = bh_log_writer_dropped(f->w);
    open_reader(f);
    read_on(f, &s);
    expect_ends(f, &s);
    expect_shape(f, &s, 4 << 20, dropped);
    T_STR(s.text[BH_STREAM_STDERR].data, "the end\n");
    seen_fini(&s);
}

static void test_lines_are_whole(void **state)
{
    struct fixture *f = *state;
    struct bh_log_line line = {0};
    unsigned gaps = 0;
    begin(f, 100000);
    for (unsigned i = 0; i < 40000; i++) {
        BH_CLEANUP_FREE char *text = bh_asprintf("line %u of %u\n", i, i);
        say(f, i % 2 ? BH_STREAM_STDERR : BH_STREAM_STDOUT, text, strlen(text));
    }
    open_reader(f);
    while (bh_log_reader_next(f->r, &line, NULL) == 1) {
        BH_CLEANUP_FREE char *text =
            bh_asprintf("line %llu of %llu", (unsigned long long)line.seq - 1, (unsigned long long)line.seq - 1);
        gaps += line.gap;
        if (line.gap)
            continue;
        T_TRUE(line.eol);
        T_INT(line.len, strlen(text));
        assert_memory_equal(line.text, text, line.len);
    }
    T_INT(line.seq, 40000);
    T_INT(gaps, 1);
}

static uint64_t bytes_on_disk(const struct fixture *f)
{
    DIR *dir = opendir(f->dir);
    struct stat st;
    uint64_t n = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (e->d_name[0] != '.' && fstatat(dirfd(dir), e->d_name, &st, 0) == 0)
            n += (uint64_t)st.st_size;
    }
    closedir(dir);
    return n;
}

/* Lines so short that what is written around each is many times as long. */
static void test_short_lines_take_twice_the_limit_at_most(void **state)
{
    struct fixture *f = *state;
    static const uint64_t limits[] = {1024, 32 * 1024, 128 * 1024};
    for (size_t i = 0; i < BH_ARRAY_LEN(limits); i++) {
        uint64_t limit = limits[i], disk = 2 * limit < 65536 ? 65536 : 2 * limit, most = 0;
        struct seen s;
        seen_init(&s);
        begin(f, limit);
        for (unsigned n = 0; n < 30000; n++) {
            say(f, n % 2 ? BH_STREAM_STDERR : BH_STREAM_STDOUT, "\n", 1);
            uint64_t now = n % 500 == 0 ? bytes_on_disk(f) : 0;
            most = now > most ? now : most;
        }
        T_TRUE(most <= disk && most >= disk / 2);
        T_TRUE(count_files(f) <= 20);
        uint64_t dropped = bh_log_writer_dropped(f->w);
        open_reader(f);
        read_on(f, &s);
        expect_ends(f, &s);
        T_INT(s.gaps, 1);
        T_INT(s.missing, dropped);
        T_INT(s.kept + s.missing, 30000);
        T_TRUE(s.kept <= limit && (s.kept * 4 >= limit * 3 || s.kept * 33 >= disk * 3 / 4));
        seen_fini(&s);
        end_log(f);
    }
}

/* Of 32 bytes and more all is kept up to the limit, each in a block of its own. */
static void test_lines_of_32_bytes_are_kept_to_the_limit(void **state)
{
    struct fixture *f = *state;
    const uint64_t limit = 128 * 1024;
    begin(f, limit);
    for (uint64_t n = 0; n < limit / 40; n++)
        say(f, n % 2 ? BH_STREAM_STDERR : BH_STREAM_STDOUT, "a line of forty bytes, its end included\n", 40);
    T_INT(bh_log_writer_dropped(f->w), 0);
    for (int n = 0; n < 10; n++)
        say(f, BH_STREAM_STDOUT, "a line of forty bytes, its end included\n", 40);
    T_TRUE(bh_log_writer_dropped(f->w) > 0);
}

/* --- while it grows --- */

/* Who keeps up gets every byte, also those that are gone by the end. */
static void test_a_follower_misses_nothing(void **state)
{
    struct fixture *f = *state;
    struct seen s;
    seen_init(&s);
    begin(f, 50000);
    open_reader(f);
    for (int i = 0; i < 400; i++) {
        babble(f, BH_STREAM_STDOUT, 1 + draw(f, 3000), 40);
        read_on(f, &s);
        if (i % 5 == 0)
            bh_log_reader_park(f->r);
    }
    T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDOUT, &err));
    read_on(f, &s);
    T_INT(s.gaps, 0);
    T_INT(s.kept, f->said[0].len);
    assert_memory_equal(s.text[0].data, f->said[0].data, f->said[0].len);
    T_TRUE(bh_log_writer_dropped(f->w) > 400000);
    seen_fini(&s);
}

/* Who does not is told how much is missing, each time. */
static void lag_behind(struct fixture *f, bool park, bool rewind)
{
    struct seen s;
    seen_init(&s);
    begin(f, 50000);
    open_reader(f);
    for (int i = 0; i < 900; i++) {
        babble(f, draw(f, 2) ? BH_STREAM_STDOUT : BH_STREAM_STDERR, 1 + draw(f, 3000), 40);
        if (i % 90 != 0)
            continue;
        read_on(f, &s);
        if (park)
            bh_log_reader_park(f->r);
    }
    T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDOUT, &err));
    T_OK(bh_log_writer_eof(f->w, BH_STREAM_STDERR, &err));
    if (rewind) {
        seen_fini(&s);
        seen_init(&s);
        bh_log_reader_rewind(f->r);
    }
    read_on(f, &s);
    expect_ends(f, &s);
    T_TRUE(rewind ? s.gaps == 1 : s.gaps > 5);
    T_INT(s.kept + s.missing, f->said[0].len + f->said[1].len);
    if (rewind)
        T_INT(s.missing, bh_log_writer_dropped(f->w));
    seen_fini(&s);
    end_log(f);
}

static void test_who_lags_is_told(void **state)
{
    struct fixture *f = *state;
    lag_behind(f, false, false);
    lag_behind(f, true, false);
    lag_behind(f, false, true);
}

/* A reader that stands in the middle of a block of a segment that goes away: the rest of the block is missing. */
static void test_parked_in_the_middle_of_a_block(void **state)
{
    struct fixture *f = *state;
    struct bh_log_line line = {0};
    uint64_t got = 0;
    begin(f, 1600);
    open_reader(f);
    for (int i = 0; i < 30; i++)
        say(f, BH_STREAM_STDOUT, "0123456789\n0123456789\n0123456789\n0123456789\n", 44);
    for (int i = 0; i < 4 * 20 + 2; i++) { /* two lines of a block of the tail */
        T_OK(bh_log_reader_next(f->r, &line, &err) == 1 ? 0 : -1);
        got += line.len + line.eol;
        T_TRUE(!line.gap);
    }
    bh_log_reader_park(f->r);
    for (int i = 0; i < 300; i++)
        say(f, BH_STREAM_STDOUT, "0123456789\n0123456789\n0123456789\n0123456789\n", 44);
    T_OK(bh_log_reader_next(f->r, &line, &err) == 1 ? 0 : -1);
    T_TRUE(line.gap);
    got += line.missing_bytes;
    T_INT(line.seq, 83);
    T_INT(line.missing_bytes, 11 * line.missing_lines);
    while (bh_log_reader_next(f->r, &line, NULL) == 1)
        got += line.len + line.eol;
    T_INT(got, 330 * 44);
}

/* --- what is not as it should be --- */

static char *segment(const struct fixture *f, unsigned n)
{
    return bh_asprintf("%s.%u", f->path, n);
}

static unsigned newest_segment(const struct fixture *f)
{
    for (unsigned n = 1000; n > 0; n--) {
        BH_CLEANUP_FREE char *path = segment(f, n);
        if (access(path, F_OK) == 0)
            return n;
    }
    return 0;
}

/* Whatever the crash cut off the newest segment: whole lines before it, and no error. */
static void test_a_torn_segment(void **state)
{
    struct fixture *f = *state;
    struct stat st;
    begin(f, 2000);
    for (int i = 0; i < 300; i++)
        babble(f, BH_STREAM_STDOUT, 37, 20);
    bh_log_writer_close(BH_TAKE(f->w));
    BH_CLEANUP_FREE char *newest = segment(f, newest_segment(f));
    T_INT(stat(newest, &st), 0);
    uint64_t before = UINT64_MAX;
    for (off_t size = st.st_size; size >= 0; size--) {
        struct seen s;
        seen_init(&s);
        T_INT(truncate(newest, size), 0);
        open_reader(f);
        read_on(f, &s);
        T_TRUE(s.kept <= before && s.kept > 1000 && s.gaps == 1);
        before = s.kept;
        seen_fini(&s);
        bh_log_reader_close(BH_TAKE(f->r));
    }
}

/* The writer died between the making of a segment and the end of the file before; and a segment is gone. */
static void test_segments_that_are_not_there(void **state)
{
    struct fixture *f = *state;
    struct seen s;
    static const char *const others[] = {"x.log.0", "x.log.099", "x.log.99x", "x.log99", "xx.log.99", "x.logx.99"};
    seen_init(&s);
    begin(f, 2000);
    for (int i = 0; i < 100; i++)
        babble(f, BH_STREAM_STDOUT, 37, 20);
    bh_log_writer_close(BH_TAKE(f->w));
    unsigned newest = newest_segment(f);
    BH_CLEANUP_FREE char *empty = segment(f, newest + 1), *last = segment(f, newest);
    T_OK(bh_write_file_atomic(empty, "", 0, 0600, &err));
    for (size_t i = 0; i < BH_ARRAY_LEN(others); i++) {
        BH_CLEANUP_FREE char *other = bh_path_join(f->dir, others[i]);
        T_OK(bh_write_file_atomic(other, "no segment", 10, 0600, &err));
    }
    open_reader(f);
    read_on(f, &s);
    expect_ends(f, &s);
    bh_log_reader_close(BH_TAKE(f->r));
    T_INT(unlink(empty), 0);
    T_INT(unlink(last), 0);
    seen_fini(&s);
    seen_init(&s);
    open_reader(f);
    T_TRUE(read_on(f, &s) > 0);
    T_INT(read_on(f, &s), 0);
    seen_fini(&s);
}

/* A segment that cannot be made: bytes are lost, counted, and the log goes on when it can. */
static void test_a_segment_that_cannot_be_made(void **state)
{
    struct fixture *f = *state;
    struct bh_log_line line = {0};
    BH_CLEANUP_FREE char *path = segment(f, 1);
    T_INT(mkdir(path, 0700), 0);
    begin(f, 1600);
    for (int i = 0; i < 80; i++)
        say(f, BH_STREAM_STDOUT, "012345678\n", 10);
    T_ERR(bh_log_writer_add(f->w, BH_STREAM_STDOUT, "lost\nlost too\n", 14, &err), BH_E_EXISTS, "x.log.1'");
    T_INT(bh_log_writer_lost(f->w), 14);
    T_INT(rmdir(path), 0);
    say(f, BH_STREAM_STDOUT, "after\n", 6);
    T_INT(bh_log_writer_lost(f->w), 14);
    T_INT(bh_log_writer_dropped(f->w), 0);
    open_reader(f);
    for (int i = 0; i < 80; i++)
        T_INT(bh_log_reader_next(f->r, &line, NULL), 1);
    T_INT(bh_log_reader_next(f->r, &line, NULL), 1);
    T_TRUE(line.gap && line.missing_bytes == 14 && line.missing_lines == 2 && line.seq == 81);
    T_INT(bh_log_reader_next(f->r, &line, NULL), 1);
    assert_memory_equal(line.text, "after", 5);
    T_INT(line.seq, 83);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_small_limits),
        TEST(test_random_limits),
        TEST(test_more_at_once_than_the_limit),
        TEST(test_the_edge),
        TEST(test_a_line_longer_than_the_limit),
        TEST(test_lines_are_whole),
        TEST(test_short_lines_take_twice_the_limit_at_most),
        TEST(test_lines_of_32_bytes_are_kept_to_the_limit),
        TEST(test_a_follower_misses_nothing),
        TEST(test_who_lags_is_told),
        TEST(test_parked_in_the_middle_of_a_block),
        TEST(test_a_torn_segment),
        TEST(test_segments_that_are_not_there),
        TEST(test_a_segment_that_cannot_be_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
