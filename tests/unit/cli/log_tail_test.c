/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include "base/mem.h"
#include "base/path.h"
#include "cli/log_tail.h"
#include "workers/logs/log_file.h"

struct fixture {
    char *dir;
    struct bh_cli_run run;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->run = (struct bh_cli_run){.home = {.path = f->dir, .dirfd = -1}, .id = bh_strdup("r")};
    BH_CLEANUP_FREE char *logs = bh_path_join(f->dir, "runs/r/logs");
    T_OK(bh_mkdir_p(logs, 0700, &err));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    t_tmpdir_free(f->dir);
    bh_free(f->run.id);
    bh_free(f);
    return 0;
}

static void write_log(const struct fixture *f, const char *out, const char *err_out)
{
    struct bh_log_tags tags = {
        .run = "r", .stage = "", .agent = "a", .instance = "i", .box = "b", .attempt = 1, .try_ = 1};
    BH_CLEANUP_FREE char *path = bh_path_join(f->dir, "runs/r/logs/i.log");
    struct bh_log_writer *w = NULL;
    T_OK(bh_log_writer_open(path, &tags, 0, &w, &err));
    T_OK(bh_log_writer_add(w, BH_STREAM_STDOUT, out, strlen(out), &err));
    T_OK(bh_log_writer_add(w, BH_STREAM_STDERR, err_out, strlen(err_out), &err));
    bh_log_writer_close(w);
}

static void gives_the_last_lines_of_both_streams(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    write_log(f, "1\n2\n3\n", "\x1b[31mred\nend\n");
    T_INT(bh_log_tail(&f->run, "i", 3, "| ", &out), 3);
    T_STR(out.data, "| 3\n| \\x1B[31mred\n| end\n");
    bh_buf_clear(&out);
    T_INT(bh_log_tail(&f->run, "i", 9, "", &out), 5);
    T_STR(out.data, "1\n2\n3\n\\x1B[31mred\nend\n");
}

static void cuts_a_long_line(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    BH_CLEANUP_FREE char *line = bh_asprintf("%0500d\n", 7);
    write_log(f, line, "");
    T_INT(bh_log_tail(&f->run, "i", 1, "", &out), 1);
    T_INT(out.len, 400 + strlen(" \u2026\n"));
}

static void a_missing_log_has_no_lines(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    T_INT(bh_log_tail(&f->run, "nobody", 3, "", &out), 0);
    T_STR(out.data, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gives_the_last_lines_of_both_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(cuts_a_long_line, setup, teardown),
        cmocka_unit_test_setup_teardown(a_missing_log_has_no_lines, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
