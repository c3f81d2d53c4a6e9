/* SPDX-License-Identifier: Apache-2.0 */
/* What is laid out for a box, with which modes, without copying, and what happens where it cannot be. */
#include "workers/deliver.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/path.h"
#include "tests/support/t.h"

struct fixture {
    char *home;
    struct bh_run_files *run;
    struct bh_arena *arena;
    struct bh_lease lease;
    struct bh_delivery delivery;
    mode_t umask_before;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    struct bh_run_id run = bh_run_id_new();
    f->umask_before = umask(077); /* a careful user's: the box must see its files all the same */
    f->home = t_tmpdir();
    f->arena = bh_arena_new();
    f->lease.instance = bh_instance_id_make(run, 1);
    f->lease.box.key = bh_strdup("crew.1");
    f->lease.box.shared = true;
    f->lease.params_json = bh_strdup("{}");
    *state = f;
    return bh_run_files_open(f->home, run.s, &f->run, NULL);
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    umask(f->umask_before);
    bh_lease_fini(&f->lease);
    bh_arena_free(f->arena);
    bh_run_files_unref(f->run);
    t_tmpdir_free(f->home);
    bh_free(f);
    return 0;
}

static struct bh_object store(struct fixture *f, const char *text, bool executable)
{
    struct bh_object object;
    T_OK(bh_cas_put_bytes(f->run->links, text, strlen(text), &object, &err));
    T_OK(bh_cas_sync(f->run->links, &err));
    object.executable = executable;
    return object;
}

static void add_input(struct fixture *f, const char *path, struct bh_object object, const char *provenance)
{
    struct bh_lease *l = &f->lease;
    l->inputs = bh_realloc_array(l->inputs, l->n_inputs + 1, sizeof(*l->inputs));
    l->inputs[l->n_inputs++] = (struct bh_lease_file){
        .path = bh_strdup(path), .name = bh_strdup(path), .object = object, .provenance = bh_strdup(provenance)};
}

static void add_file(struct fixture *f, const char *path, struct bh_object object)
{
    struct bh_lease *l = &f->lease;
    l->files = bh_realloc_array(l->files, l->n_files + 1, sizeof(*l->files));
    l->files[l->n_files++] = (struct bh_lease_file){.path = bh_strdup(path), .object = object};
}

static char *place(const struct fixture *f, const char *name)
{
    return bh_asprintf("%s/boxes/crew.1/deliver/%s", f->run->dir, name);
}

static void expect_file(const struct fixture *f, const char *name, const char *text, mode_t mode, nlink_t links)
{
    BH_CLEANUP_FREE char *path = place(f, name);
    BH_CLEANUP_BUF struct bh_buf data = BH_BUF_INIT;
    struct stat st;
    T_OK(bh_read_file(path, 1 << 20, &data, &err));
    T_STR(data.data, text);
    T_INT(stat(path, &st), 0);
    T_INT(st.st_mode & 07777, mode);
    T_INT(st.st_nlink, links);
}

static void expect_folder(const struct fixture *f, const char *name)
{
    BH_CLEANUP_FREE char *path = place(f, name);
    struct stat st;
    T_INT(stat(path, &st), 0);
    T_INT(st.st_mode & 07777, 0755);
}

static void deliver(struct fixture *f)
{
    T_OK(bh_deliver_lease(f->run, &f->lease, f->arena, &f->delivery, &err));
}

static void expect_error(struct fixture *f, enum bh_code code, const char *part)
{
    struct bh_delivery untouched = {.prompt = "same"};
    T_ERR(bh_deliver_lease(f->run, &f->lease, f->arena, &untouched, &err), code, part);
    T_STR(untouched.prompt, "same");
}

static void test_everything_in_its_place(void **state)
{
    struct fixture *f = *state;
    const char *id = f->lease.instance.s;
    add_input(f, "a/b/data.csv", store(f, "1,2", false), "{\"agent\":\"x\"}");
    add_input(f, "tool", store(f, "#!", true), NULL);
    add_file(f, "x/one", store(f, "one", false));
    add_file(f, "x", store(f, "two", true)); /* in each other's way in the box, not here */
    f->lease.prompt = bh_strdup("ask");
    deliver(f);

    BH_CLEANUP_FREE char *in = bh_asprintf("%s/in", id);
    T_STR(f->delivery.inputs, in);
    BH_CLEANUP_FREE char *data = bh_asprintf("%s/in/a/b/data.csv", id), *tool = bh_asprintf("%s/in/tool", id);
    BH_CLEANUP_FREE char *record = bh_asprintf("%s/in/.provenance.json", id);
    BH_CLEANUP_FREE char *deep = bh_asprintf("%s/in/a/b", id);
    expect_file(f, data, "1,2", 0444, 2);
    expect_file(f, tool, "#!", 0555, 2);
    expect_file(f, record, "{\"a/b/data.csv\":{\"agent\":\"x\"},\"tool\":null}", 0444, 1);
    expect_folder(f, "");
    expect_folder(f, id);
    expect_folder(f, in);
    expect_folder(f, deep);

    T_INT(f->delivery.n_copies, 2);
    T_STR(f->delivery.copies[0].to, "x/one");
    T_INT(f->delivery.copies[0].mode, 0644);
    expect_file(f, f->delivery.copies[0].from, "one", 0444, 2);
    T_STR(f->delivery.copies[1].to, "x");
    T_INT(f->delivery.copies[1].mode, 0755);
    expect_file(f, f->delivery.copies[1].from, "two", 0555, 2);

    expect_file(f, f->delivery.prompt, "ask", 0444, 1);
    expect_file(f, f->delivery.params, "{}", 0444, 2);
    assert_null(f->delivery.needs);
}

static void test_without_inputs_there_is_still_a_record(void **state)
{
    struct fixture *f = *state;
    deliver(f);
    BH_CLEANUP_FREE char *record = bh_asprintf("%s/in/.provenance.json", f->lease.instance.s);
    expect_file(f, record, "{}", 0444, 2);
    T_INT(f->delivery.n_copies, 0);
    assert_null(f->delivery.prompt);
}

static void test_a_box_of_its_own_has_no_folder_between(void **state)
{
    struct fixture *f = *state;
    f->lease.box.shared = false;
    add_file(f, "x", store(f, "x", false));
    f->lease.needs_json = bh_strdup("[]");
    deliver(f);
    T_STR(f->delivery.inputs, "in");
    T_STR(f->delivery.params, "params.json");
    T_STR(f->delivery.needs, "needs.json");
    T_STR(f->delivery.copies[0].from, "files/0");
    expect_file(f, "needs.json", "[]", 0444, 1);
    expect_file(f, "files/0", "x", 0444, 2);
    expect_error(f, BH_E_IO, "File exists");
}

/* The same text is one file for all of a run; another text is another. */
static void test_what_many_are_given_is_written_once(void **state)
{
    struct fixture *f = *state;
    struct bh_lease second = {.instance = f->lease.instance, .box = f->lease.box, .params_json = f->lease.params_json};
    struct bh_lease third = second;
    second.instance.s[BH_INSTANCE_LEN - 1] = '2';
    third.instance.s[BH_INSTANCE_LEN - 1] = '3';
    third.params_json = (char *)(uintptr_t) "{\"a\":1}";
    deliver(f);
    BH_CLEANUP_FREE char *first = bh_strdup(f->delivery.params);
    expect_file(f, first, "{}", 0444, 2);
    T_OK(bh_deliver_lease(f->run, &second, f->arena, &f->delivery, &err));
    expect_file(f, first, "{}", 0444, 3);
    expect_file(f, f->delivery.params, "{}", 0444, 3);
    T_OK(bh_deliver_lease(f->run, &third, f->arena, &f->delivery, &err));
    expect_file(f, first, "{}", 0444, 2); /* no longer held */
    expect_file(f, f->delivery.params, "{\"a\":1}", 0444, 2);
    BH_CLEANUP_FREE char *tmp = bh_path_join(f->run->dir, "tmp");
    T_INT(bh_rmtree_at(AT_FDCWD, tmp), 0); /* somebody empties it: no harm */
    second.instance.s[BH_INSTANCE_LEN - 1] = '4';
    T_OK(bh_deliver_lease(f->run, &second, f->arena, &f->delivery, &err));
    expect_file(f, f->delivery.params, "{}", 0444, 1);
}

static void test_it_is_taken_away_again(void **state)
{
    struct fixture *f = *state;
    add_input(f, "x", store(f, "x", false), NULL);
    deliver(f);
    bh_deliver_remove(f->run, &f->lease);
    BH_CLEANUP_FREE char *path = place(f, f->lease.instance.s);
    T_TRUE(access(path, F_OK) < 0 && errno == ENOENT);
    T_TRUE(bh_cas_has(f->run->links, &f->lease.inputs[0].object.digest));
    bh_deliver_remove(f->run, &f->lease); /* nothing there is fine */
}

static void test_what_cannot_be_delivered(void **state)
{
    struct fixture *f = *state;
    struct bh_object absent = {.digest = bh_digest_of("absent", 6)};
    add_file(f, "x", absent);
    expect_error(f, BH_E_NOT_FOUND, "delivering file 'x': ");
    bh_deliver_remove(f->run, &f->lease);
    f->lease.n_files = 0;
    add_input(f, "x", store(f, "x", false), "{broken");
    expect_error(f, BH_E_SYNTAX, "delivering 'x': reading the provenance of 'x': ");
    bh_free(f->lease.files[0].path);
}

static void test_paths_stay_inside(void **state)
{
    struct fixture *f = *state;
    add_input(f, "../../escape", store(f, "x", false), NULL);
    expect_error(f, BH_E_PROTOCOL, "'../../escape' is not a clean relative one");
    bh_deliver_remove(f->run, &f->lease);
    bh_free(f->lease.inputs[0].path);
    f->lease.inputs[0].path = bh_strdup(".provenance.json"); /* ours */
    expect_error(f, BH_E_IO, "in/.provenance.json");
}

static void test_an_instance_is_delivered_once(void **state)
{
    struct fixture *f = *state;
    deliver(f);
    expect_error(f, BH_E_IO, "File exists");
}

static void test_files_of_a_shared_box(void **state)
{
    struct fixture *f = *state;
    struct bh_lease_file file = {.path = bh_strdup("tool"), .object = store(f, "T", true)};
    struct bh_lease_box box = {.key = f->lease.box.key, .files = &file, .n_files = 1};
    T_OK(bh_deliver_box(f->run, &box, f->arena, &f->delivery, &err));
    T_INT(f->delivery.n_copies, 1);
    T_STR(f->delivery.copies[0].from, "box/files/0");
    T_STR(f->delivery.copies[0].to, "tool");
    expect_file(f, "box/files/0", "T", 0555, 2);
    assert_null(f->delivery.inputs);
    bh_free(file.path);
}

/* Nobody, its owner included, can change what was asked or reach a file by it. */
static void test_the_prompt_is_sealed(void **state)
{
    (void)state;
    BH_CLEANUP_FD int fd = -1;
    BH_CLEANUP_BUF struct bh_buf data = BH_BUF_INIT;
    T_OK(bh_prompt_fd("ask me", &fd, &err));
    T_OK(bh_read_all(fd, 100, &data, &err));
    T_STR(data.data, "ask me");
    T_TRUE(pwrite(fd, "x", 1, 0) < 0 && errno == EPERM);
    T_TRUE(ftruncate(fd, 0) < 0 && errno == EPERM);
    BH_CLEANUP_FREE char *path = bh_asprintf("/proc/self/fd/%d", fd);
    BH_CLEANUP_FD int again = open(path, O_RDWR | O_CLOEXEC);
    T_TRUE(again < 0 || (pwrite(again, "x", 1, 0) < 0 && errno == EPERM));
}

static void test_a_run_needs_its_folder(void **state)
{
    struct fixture *f = *state;
    struct bh_run_files *run = NULL;
    BH_CLEANUP_FREE char *home = bh_path_join(f->home, "file");
    T_OK(bh_write_file_atomic(home, "", 0, 0600, &err));
    T_ERR(bh_run_files_open(home, "r", &run, &err), BH_E_IO, "opening the folder of run 'r': ");
    assert_null(run);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_everything_in_its_place),
        TEST(test_without_inputs_there_is_still_a_record),
        TEST(test_a_box_of_its_own_has_no_folder_between),
        TEST(test_what_many_are_given_is_written_once),
        TEST(test_it_is_taken_away_again),
        TEST(test_what_cannot_be_delivered),
        TEST(test_paths_stay_inside),
        TEST(test_an_instance_is_delivered_once),
        TEST(test_files_of_a_shared_box),
        TEST(test_the_prompt_is_sealed),
        TEST(test_a_run_needs_its_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
