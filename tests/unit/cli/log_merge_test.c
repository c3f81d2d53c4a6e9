/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of many instances become one in order of time, also while they grow; what is not wanted stays closed. */
#include "cli/log_merge.h"

#include <dirent.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/support/t.h"

struct fixture {
    char *dir;
    struct bh_log_merge *m;
};

static bool wanted(void *arg, const struct bh_log_tags *tags)
{
    (void)arg;
    return !bh_streq(tags->agent, "hidden");
}

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->m = bh_log_merge_new(f->dir, wanted, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_log_merge_free(f->m);
    t_tmpdir_free(f->dir);
    bh_free(f);
    return 0;
}

static struct bh_log_writer *begin(struct fixture *f, const char *agent, const char *instance, uint64_t limit)
{
    const struct bh_log_tags tags = {.run = "r", .stage = "", .agent = agent, .instance = instance, .box = "b"};
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/%s.log", f->dir, instance);
    struct bh_log_writer *w = NULL;
    T_OK(bh_log_writer_open(path, &tags, limit, &w, &err));
    return w;
}

static void say(struct bh_log_writer *w, const char *text)
{
    struct bh_wall now = bh_wall_now();
    while (bh_wall_now().us == now.us) /* so that the order in time is strict */
        ;
    T_OK(bh_log_writer_add(w, BH_STREAM_STDOUT, text, strlen(text), &err));
}

/* All that there is now, "agent:line" each. */
static void expect(struct fixture *f, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf got = BH_BUF_INIT;
    struct bh_log_line line = {0};
    const struct bh_log_tags *tags = NULL;
    struct bh_err *err = NULL;
    int rc;
    while ((rc = bh_log_merge_next(f->m, &line, &tags, &err)) == 1)
        bh_buf_addf(&got, "%s:%.*s ", tags->agent, (int)line.len, line.text);
    t_check_ok(rc, err, "merging", __FILE__, __LINE__);
    T_STR(got.data, want);
}

static void a_missing_folder_has_no_lines(void **state)
{
    struct fixture *f = *state;
    struct bh_log_merge *m = bh_log_merge_new("/no/such/folder", wanted, NULL);
    T_OK(bh_log_merge_look(m, &err));
    bh_log_merge_free(m);
    T_OK(bh_log_merge_look(f->m, &err));
    expect(f, "");
}

static void lines_come_in_order_of_time(void **state)
{
    struct fixture *f = *state;
    struct bh_log_writer *a = begin(f, "a", "i3", 0), *b = begin(f, "b", "i2", 0), *c = begin(f, "c", "i1", 0),
                         *hidden = begin(f, "hidden", "i0", 0);
    say(b, "1\n");
    say(a, "2\n3\n");
    say(hidden, "x\n");
    say(b, "4\n");
    say(c, "5\n");
    say(a, "6\n");
    T_OK(bh_log_merge_look(f->m, &err));
    expect(f, "b:1 a:2 a:3 b:4 c:5 a:6 ");
    expect(f, "");
    say(c, "7\n");
    say(a, "8\n");
    say(hidden, "x\n");
    expect(f, ""); /* nobody has looked */
    T_OK(bh_log_merge_touch(f->m, "i1.log", &err));
    T_OK(bh_log_merge_touch(f->m, "i1.log", &err));
    expect(f, "c:7 ");
    T_OK(bh_log_merge_look(f->m, &err));
    expect(f, "a:8 ");
    bh_log_writer_close(a);
    bh_log_writer_close(b);
    bh_log_writer_close(c);
    bh_log_writer_close(hidden);
}

static void a_segment_belongs_to_its_log(void **state)
{
    struct fixture *f = *state;
    struct bh_log_writer *w = begin(f, "a", "i", 16);
    T_OK(bh_log_merge_touch(f->m, "i.log", &err));
    T_OK(bh_log_merge_touch(f->m, "i.log.1", &err));
    T_OK(bh_log_merge_touch(f->m, "other.log.1", &err));
    T_OK(bh_log_merge_touch(f->m, "something", &err));
    expect(f, "");
    say(w, "\n\n\n\n\n\n\n\n\n");
    T_OK(bh_log_merge_touch(f->m, "i.log.1", &err));
    expect(f, "a: a: a: a: a: a: a: a: a: ");
    bh_log_writer_close(w);
}

static size_t open_files(void)
{
    size_t n = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

/* Of many logs only those that are being read are open. */
static void what_is_not_read_is_closed(void **state)
{
    struct fixture *f = *state;
    size_t before = open_files();
    for (int i = 0; i < 300; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("i%03d", i);
        struct bh_log_writer *w = begin(f, "a", name, 0);
        say(w, "1\n");
        say(w, "2\n");
        bh_log_writer_close(w);
    }
    T_OK(bh_log_merge_look(f->m, &err));
    T_INT(open_files(), before);
    struct bh_log_line line = {0};
    const struct bh_log_tags *tags = NULL;
    for (int i = 0; i < 600; i++) {
        T_INT(bh_log_merge_next(f->m, &line, &tags, NULL), 1);
        T_INT(line.seq, i % 2 + 1);
        T_TRUE(open_files() <= before + 2);
    }
    T_INT(bh_log_merge_next(f->m, &line, &tags, NULL), 0);
    T_INT(open_files(), before);
}

static void damage_is_named(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *path = bh_path_join(f->dir, "bad.log");
    T_OK(bh_write_file_atomic(path, "this is no log at all", 21, 0600, &err));
    T_ERR(bh_log_merge_look(f->m, &err), BH_E_STORE_CORRUPT, "bad.log' is damaged at byte 0");
    T_OK(bh_write_file_atomic(path, "bhlog", 5, 0600, &err));
    T_OK(bh_log_merge_look(f->m, &err)); /* its head is not written yet */
    expect(f, "");
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_missing_folder_has_no_lines),
        TEST(lines_come_in_order_of_time),
        TEST(a_segment_belongs_to_its_log),
        TEST(what_is_not_read_is_closed),
        TEST(damage_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
