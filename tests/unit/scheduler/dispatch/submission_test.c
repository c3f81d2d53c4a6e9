/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "scheduler/dispatch/submission.h"
#include "scheduler/run_local.h"

struct fixture {
    char *dir, *file;
    struct bh_cas *cas;
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
    struct bh_errlist errors;
};

static void put(const struct fixture *f, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = bh_path_join(f->dir, name);
    BH_CLEANUP_FREE char *parent = bh_path_dirname(path);
    T_OK(bh_mkdir_p(parent, 0755, &err));
    T_OK(bh_write_file_atomic(path, text, strlen(text), 0644, &err));
}

static void load(struct fixture *f, const char *body)
{
    BH_CLEANUP_FREE char *text = bh_asprintf("version: 1\nname: t\n%s", body);
    struct bh_plan_options options = {.lint = true};
    if (bh_pipeline_load(f->file, text, strlen(text), &f->pipeline, &f->errors) != 0 ||
        bh_plan_make(f->pipeline, &options, &f->plan, &f->errors) != 0)
        fail_msg("%s", bh_err_message(f->errors.items[0]));
}

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    f->file = bh_path_join(f->dir, "p.yaml");
    BH_CLEANUP_FREE char *cas = bh_path_join(f->dir, "cas");
    BH_CLEANUP_FREE char *tmp = bh_path_join(f->dir, "tmp");
    T_OK(bh_mkdir_p(tmp, 0700, &err));
    T_OK(bh_cas_open(cas, tmp, &f->cas, &err));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_errlist_fini(&f->errors);
    bh_plan_free(f->plan);
    bh_pipeline_free(f->pipeline);
    bh_cas_close(f->cas);
    t_tmpdir_free(f->dir);
    bh_free(f->file);
    bh_free(f);
    return 0;
}

static void takes_files_folders_prompts_and_sources(void **state)
{
    struct fixture *f = *state;
    put(f, "a.py", "print(1)");
    put(f, "tool/one", "1");
    put(f, "tool/sub/two", "22");
    put(f, "prompt.md", "say {{x}}");
    put(f, "data", "rows");
    BH_CLEANUP_FREE char *exec = bh_path_join(f->dir, "tool/one");
    assert_int_equal(chmod(exec, 0755), 0);
    load(f, "sources: {s: {file: ./data}}\nagents:\n  - {name: a, run: 'true', inputs: [s], prompt: {file: "
            "./prompt.md}, files: {x.py: ./a.py, t: ./tool}}\n");
    BH_CLEANUP_VAL struct bh_val *sub = NULL;
    T_INT(bh_submission_make(f->plan, f->file, NULL, 0, true, f->cas, &sub, &f->errors), 0);
    const struct bh_val *one = bh_submission_files(sub, "./a.py"), *tool = bh_submission_files(sub, "./tool");
    T_INT(bh_val_len(one), 1);
    T_STR(bh_val_str_of(bh_val_at(one, 0), "path"), "");
    T_INT(bh_val_len(tool), 2);
    T_STR(bh_val_str_of(bh_val_at(tool, 0), "path"), "one");
    T_TRUE(bh_val_bool_of(bh_val_at(tool, 0), "executable"));
    T_STR(bh_val_str_of(bh_val_at(tool, 1), "path"), "sub/two");
    T_STR(bh_submission_prompt(sub, "./prompt.md"), "say {{x}}");
    struct bh_object object;
    T_TRUE(bh_submission_object(bh_submission_source(sub, "s"), &object));
    T_INT(object.size, 4);
    T_TRUE(bh_cas_has(f->cas, &object.digest));
}

/* Every missing thing is said at once, each where the document names it. */
static void says_everything_that_is_missing(void **state)
{
    struct fixture *f = *state;
    load(f, "sources: {s: {file: ./data}}\nagents:\n  - name: a\n    run: 'true'\n    inputs: [s]\n    prompt: {file: "
            "./prompt.md}\n    files:\n      x: ./nothing\n");
    T_INT(bh_submission_make(f->plan, f->file, NULL, 0, true, NULL, NULL, &f->errors), -BH_E_UNDEFINED);
    T_INT(f->errors.len, 3);
    bh_errlist_sort(&f->errors);
    T_INT(bh_err_line(f->errors.items[0]), 3);
    T_INT(bh_err_line(f->errors.items[2]), 10);
    assert_non_null(strstr(bh_err_message(f->errors.items[2]), "'./nothing'"));
}

static void a_link_does_not_lead_out(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *link = bh_path_join(f->dir, "link");
    assert_int_equal(symlink("/etc/passwd", link), 0);
    load(f, "agents:\n  - {name: a, run: 'true', files: {x: ./link}}\n");
    T_INT(bh_submission_make(f->plan, f->file, NULL, 0, true, f->cas, NULL, &f->errors), -BH_E_UNDEFINED);
    assert_non_null(strstr(bh_err_get_hint(f->errors.items[0]), "link"));
}

static void a_fifo_is_no_file_and_does_not_block(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *fifo = bh_path_join(f->dir, "fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    load(f, "agents:\n  - {name: a, run: 'true', files: {x: ./fifo}}\n");
    T_INT(bh_submission_make(f->plan, f->file, NULL, 0, true, f->cas, NULL, &f->errors), -BH_E_UNDEFINED);
    assert_non_null(strstr(bh_err_message(f->errors.items[0]), "neither a file nor a folder"));
}

static void sources_of_the_command_line(void **state)
{
    struct fixture *f = *state;
    put(f, "data", "rows");
    BH_CLEANUP_FREE char *data = bh_path_join(f->dir, "data");
    load(f, "sources: {s: {}}\nagents:\n  - {name: a, run: 'true', inputs: [s]}\n");
    T_INT(bh_submission_make(f->plan, f->file, NULL, 0, false, NULL, NULL, &f->errors), 0);
    T_INT(bh_submission_make(f->plan, f->file, NULL, 0, true, NULL, NULL, &f->errors), -BH_E_USAGE);
    assert_non_null(strstr(bh_err_get_hint(f->errors.items[0]), "--source s=PATH"));
    struct bh_run_source wrong = {"z", data}, right = {"s", data}, absent = {"s", "/nonexistent/x"};
    bh_errlist_fini(&f->errors);
    T_INT(bh_submission_make(f->plan, f->file, &wrong, 1, false, NULL, NULL, &f->errors), -BH_E_USAGE);
    assert_non_null(strstr(bh_err_message(f->errors.items[0]), "no source 'z'"));
    bh_errlist_fini(&f->errors);
    T_INT(bh_submission_make(f->plan, f->file, &absent, 1, true, NULL, NULL, &f->errors), -BH_E_USAGE);
    bh_errlist_fini(&f->errors);
    BH_CLEANUP_VAL struct bh_val *sub = NULL;
    T_INT(bh_submission_make(f->plan, f->file, &right, 1, true, f->cas, &sub, &f->errors), 0);
    T_STR(bh_val_str_of(bh_submission_source(sub, "s"), "path"), data);
}

static void says_what_has_changed(void **state)
{
    struct fixture *f = *state;
    put(f, "a.py", "print(1)");
    put(f, "same.py", "print(0)");
    put(f, "tool/one", "1");
    put(f, "prompt.md", "say");
    put(f, "data", "rows");
    put(f, "given", "other rows");
    load(f,
         "sources: {s: {file: ./data}, g: {file: ./data}}\nagents:\n  - {name: a, run: 'true', inputs: [s, g], prompt: "
         "{file: ./prompt.md}, files: {x.py: ./a.py, y.py: ./same.py, t: ./tool}}\n");
    BH_CLEANUP_FREE char *given = bh_path_join(f->dir, "given");
    struct bh_run_source source = {.name = "g", .path = given};
    BH_CLEANUP_VAL struct bh_val *sub = NULL;
    T_INT(bh_submission_make(f->plan, f->file, &source, 1, true, f->cas, &sub, &f->errors), 0);
    BH_CLEANUP_VAL struct bh_val *none = bh_submission_changed(f->plan, f->file, sub);
    T_INT(bh_val_len(none), 0);

    put(f, "a.py", "print(2)"); /* of the same size */
    put(f, "tool/two", "2");
    put(f, "prompt.md", "shout");
    put(f, "data", "more rows");
    BH_CLEANUP_VAL struct bh_val *all = bh_submission_changed(f->plan, f->file, sub);
    T_INT(bh_val_len(all), 4);
    T_STR(bh_val_get_str(bh_val_at(all, 0)), "./a.py");
    T_STR(bh_val_get_str(bh_val_at(all, 1)), "./tool");
    T_STR(bh_val_get_str(bh_val_at(all, 2)), "./prompt.md");
    T_STR(bh_val_get_str(bh_val_at(all, 3)), "./data");

    BH_CLEANUP_FREE char *gone = bh_path_join(f->dir, "same.py");
    assert_int_equal(unlink(gone), 0);
    BH_CLEANUP_VAL struct bh_val *more = bh_submission_changed(f->plan, f->file, sub);
    T_INT(bh_val_len(more), 5);
    BH_CLEANUP_VAL struct bh_val *elsewhere = bh_submission_changed(f->plan, "/nonexistent/p.yaml", sub);
    T_INT(bh_val_len(elsewhere), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(says_what_has_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(takes_files_folders_prompts_and_sources, setup, teardown),
        cmocka_unit_test_setup_teardown(says_everything_that_is_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_link_does_not_lead_out, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fifo_is_no_file_and_does_not_block, setup, teardown),
        cmocka_unit_test_setup_teardown(sources_of_the_command_line, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
