/* SPDX-License-Identifier: Apache-2.0 */
/* What is put back before a check, and what is left alone; and copies that replace whatever stands in their way. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"
#include "workers/init/init.h"

struct rig {
    char *dir;
    int top, before;
    struct bh_place p;
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    r.top = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_TRUE(mkdirat(r.top, "now", 0755) == 0 && mkdirat(r.top, "before", 0755) == 0 &&
           mkdirat(r.top, "deliver", 0755) == 0);
    r.before = openat(r.top, "before", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r.p.workspace = openat(r.top, "now", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r.p.deliver = openat(r.top, "deliver", O_PATH | O_DIRECTORY | O_CLOEXEC);
    r.p.owner = (struct bh_owner){getuid(), getgid()};
    r.p.replace = true;
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_close(r->top);
    bh_close(r->before);
    bh_close(r->p.workspace);
    bh_close(r->p.deliver);
    t_tmpdir_free(r->dir);
    return 0;
}

static void put(const struct rig *r, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *parent = bh_path_dirname(name);
    T_INT(bh_mkdirat_p(r->top, parent, 0755), 0);
    BH_CLEANUP_FD int fd = openat(r->top, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void expect(const struct rig *r, const char *name, const char *text)
{
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    BH_CLEANUP_FREE char *path = bh_path_join(r->dir, name);
    T_OK(bh_read_file(path, 1000, &buf, &err));
    T_STR(buf.data, text);
}

static mode_t mode_of(const struct rig *r, const char *name)
{
    struct stat st;
    return fstatat(r->top, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_mode : 0;
}

static void restore(struct rig *r, const char *cwd, const char *first, const char *second)
{
    struct bh_fail fail = {0};
    struct bh_plan_copy copies[] = {{"x", first, false}, {"x", second, false}};
    const struct bh_exec_plan plan = {.cwd = cwd, .copies = copies, .n_copies = second ? 2 : first ? 1 : 0};
    T_INT(bh_shadows_restore(&r->p, r->before, &plan, &fail), 0);
}

static void what_is_new_goes_and_what_was_comes_back(void **state)
{
    struct rig *r = *state;
    put(r, "now/conftest.py", "new");
    put(r, "now/a/b/pytest.ini", "new");
    put(r, "before/a/.npmrc", "old");
    put(r, "now/a/.npmrc", "changed");
    put(r, "before/a/b/sitecustomize.py", "gone meanwhile");
    put(r, "now/a/b/work.py", "work");
    restore(r, "/", "a/b/test.py", NULL);
    T_INT(mode_of(r, "now/conftest.py"), 0);
    T_INT(mode_of(r, "now/a/b/pytest.ini"), 0);
    expect(r, "now/a/.npmrc", "old");
    T_INT(mode_of(r, "now/a/.npmrc") & 07777, 0640);
    expect(r, "now/a/b/sitecustomize.py", "gone meanwhile");
    expect(r, "now/a/b/work.py", "work");
}

/* Only on the way to the check's files, in its working directory and above. */
static void other_folders_are_left(void **state)
{
    struct rig *r = *state;
    put(r, "now/a/conftest.py", "one");
    put(r, "now/b/conftest.py", "two");
    put(r, "now/b/c/conftest.py", "three");
    put(r, "now/d/conftest.py", "four");
    put(r, "now/a/z/conftest.py", "five");
    restore(r, "/workspace/b/c", "a/t.py", "a/y/t.py");
    T_INT(mode_of(r, "now/a/conftest.py"), 0);
    T_INT(mode_of(r, "now/b/conftest.py"), 0);
    T_INT(mode_of(r, "now/b/c/conftest.py"), 0);
    expect(r, "now/d/conftest.py", "four");
    expect(r, "now/a/z/conftest.py", "five");
    restore(r, "/workspace/../d", "../d/x", NULL); /* nothing outside, and nothing by way of it */
    expect(r, "now/d/conftest.py", "four");
}

static void kinds_do_not_matter(void **state)
{
    struct rig *r = *state;
    put(r, "now/conftest.py/inside", "x");
    T_INT(symlinkat("/etc/passwd", r->top, "now/.npmrc"), 0);
    T_INT(symlinkat("old-target", r->top, "before/.npmrc"), 0);
    T_INT(mkfifoat(r->top, "now/pytest.ini", 0644), 0);
    put(r, "before/pytest.ini", "old");
    put(r, "before/sitecustomize.py/deep/er/f", "old");
    put(r, "now/sitecustomize.py", "new");
    restore(r, "/", NULL, NULL);
    T_INT(mode_of(r, "now/conftest.py"), 0);
    T_TRUE(S_ISLNK(mode_of(r, "now/.npmrc")));
    expect(r, "now/pytest.ini", "old");
    expect(r, "now/sitecustomize.py/deep/er/f", "old");
}

static void git_is_what_it_was(void **state)
{
    struct rig *r = *state;
    put(r, "before/.git/config", "old");
    put(r, "before/.git/hooks/pre-commit", "old");
    put(r, "now/.git/config", "evil");
    put(r, "now/.git/hooks/post-checkout", "evil");
    put(r, "now/.git/objects/ab", "work");
    put(r, "now/p/.git", "gitdir: /workspace/evil");
    T_INT(mkdirat(r->top, "now/q", 0755), 0);
    put(r, "before/q/.git/config", "old");
    T_INT(symlinkat("../p", r->top, "now/q/.git"), 0);
    restore(r, "/", "p/f", "q/f");
    expect(r, "now/.git/config", "old");
    expect(r, "now/.git/hooks/pre-commit", "old");
    T_INT(mode_of(r, "now/.git/hooks/post-checkout"), 0);
    expect(r, "now/.git/objects/ab", "work");
    T_INT(mode_of(r, "now/p/.git"), 0);
    expect(r, "now/q/.git/config", "old");
}

/* A folder on the way that is a link leads nowhere. */
static void links_are_not_followed(void **state)
{
    struct rig *r = *state;
    put(r, "outside/conftest.py", "outside");
    T_INT(symlinkat("../outside", r->top, "now/a"), 0);
    T_INT(symlinkat("../outside", r->top, "before/b"), 0);
    put(r, "now/b/conftest.py", "new");
    restore(r, "/workspace/a", "a/t", "b/t");
    expect(r, "outside/conftest.py", "outside");
    T_INT(mode_of(r, "now/b/conftest.py"), 0);
}

static void copies_replace_whatever_is_there(void **state)
{
    struct rig *r = *state;
    struct bh_fail fail = {0};
    put(r, "deliver/x", "delivered");
    put(r, "now/t", "a file where a folder has to be");
    T_INT(mkfifoat(r->top, "now/u", 0644), 0);
    put(r, "now/v/x/y/z", "a folder where a file has to be");
    put(r, "outside/w", "outside");
    T_INT(symlinkat("../outside", r->top, "now/w"), 0);
    static const char *const to[] = {"t/a/test", "u/test", "v/x", "w/w"};
    for (size_t i = 0; i < BH_ARRAY_LEN(to); i++) {
        BH_CLEANUP_FREE char *at = bh_asprintf("now/%s", to[i]);
        T_INT(bh_place_file(&r->p, "x", to[i], false, &fail), 0);
        expect(r, at, "delivered");
    }
    expect(r, "outside/w", "outside");
    r->p.replace = false;
    put(r, "now/flat", "x");
    T_INT(bh_place_file(&r->p, "x", "flat/test", false, &fail), -1);
    T_INT(fail.error, ENOTDIR);
}

static void what_is_loaded_in_place_of_a_file_goes(void **state)
{
    struct rig *r = *state;
    static const char *const rivals[] = {
        "t/__pycache__/helper.cpython-311.pyc",
        "t/helper/__init__.py",
        "t/helper/__init__.abi3.so",
        "t/helper.so",
        "t/helper.cpython-311-x86_64-linux-gnu.so",
        "t/__init__.py",
        "__init__.py",
    };
    static const char *const work[] = {"t/helper/more.py", "t/helpers.so", "t/helper.txt", "u/helper.so",
                                       "u/__init__.py"};
    for (size_t i = 0; i < BH_ARRAY_LEN(rivals) + BH_ARRAY_LEN(work); i++) {
        const char *name = i < BH_ARRAY_LEN(rivals) ? rivals[i] : work[i - BH_ARRAY_LEN(rivals)];
        BH_CLEANUP_FREE char *at = bh_asprintf("now/%s", name);
        put(r, at, "evil");
    }
    restore(r, "/workspace/u", "t/helper.py", NULL);
    for (size_t i = 0; i < BH_ARRAY_LEN(rivals); i++) {
        BH_CLEANUP_FREE char *at = bh_asprintf("now/%s", rivals[i]);
        T_INT(mode_of(r, at), 0);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(work); i++) {
        BH_CLEANUP_FREE char *at = bh_asprintf("now/%s", work[i]);
        expect(r, at, "evil");
    }
}

static void rivals_of_scripts_and_makefiles_go(void **state)
{
    struct rig *r = *state;
    put(r, "now/t/helper", "evil");
    put(r, "now/t/helper.mjs", "evil");
    put(r, "now/t/helper.ts", "work");
    put(r, "now/makefile", "evil");
    put(r, "now/t/M.pmc", "evil");
    put(r, "now/t/run", "work");
    put(r, "before/t/view.js", "old");
    put(r, "now/t/view.js", "evil");
    put(r, "now/t/view/index.js", "work");
    restore(r, "/", "t/helper.js", "Makefile");
    T_INT(mode_of(r, "now/t/helper"), 0);
    T_INT(mode_of(r, "now/t/helper.mjs"), 0);
    T_INT(mode_of(r, "now/makefile"), 0);
    expect(r, "now/t/helper.ts", "work");
    restore(r, "/", "t/M.pm", "t/view.tsx");
    T_INT(mode_of(r, "now/t/M.pmc"), 0);
    expect(r, "now/t/view.js", "old");
    expect(r, "now/t/view/index.js", "work");
    put(r, "now/makefile", "work");
    restore(r, "/", "t/run.sh", NULL);
    expect(r, "now/t/run", "work");
    expect(r, "now/makefile", "work");
}

static void a_package_that_was_is_again(void **state)
{
    struct rig *r = *state;
    put(r, "before/t/__init__.py", "old");
    put(r, "now/t/work", "work");
    put(r, "before/t/helper/__init__.py", "old");
    put(r, "now/t/helper/__init__.py", "evil");
    put(r, "outside/__init__.py", "outside");
    T_INT(symlinkat("../../outside", r->top, "now/t/other"), 0);
    restore(r, "/", "t/helper.py", "t/other.py");
    expect(r, "now/t/__init__.py", "old");
    expect(r, "now/t/helper/__init__.py", "old");
    T_INT(mode_of(r, "now/t/other"), 0);
    expect(r, "outside/__init__.py", "outside");
}

static void a_folder_is_no_repository_by_itself(void **state)
{
    struct rig *r = *state;
    put(r, "before/.git/config", "old");
    put(r, "before/.git/objects/ab", "old");
    put(r, "now/HEAD", "ref: refs/heads/main");
    put(r, "now/config", "evil");
    put(r, "now/objects/x", "evil");
    put(r, "now/refs/x", "evil");
    put(r, "now/p/HEAD", "x");
    put(r, "now/p/config", "evil");
    put(r, "now/p/commondir", "../evil");
    put(r, "now/q/HEAD", "work");
    put(r, "now/q/config", "work");
    restore(r, "/workspace/q", "p/test", NULL);
    expect(r, "now/.git/config", "old");
    expect(r, "now/.git/objects/ab", "old");
    T_INT(mode_of(r, "now/HEAD"), 0);
    T_INT(mode_of(r, "now/config"), 0);
    T_INT(mode_of(r, "now/p/HEAD"), 0);
    T_INT(mode_of(r, "now/p/commondir"), 0);
    expect(r, "now/q/HEAD", "work");
    expect(r, "now/q/config", "work");
}

static void the_working_directory_is_no_link(void **state)
{
    struct rig *r = *state;
    put(r, "outside/conftest.py", "outside");
    put(r, "before/a/b/conftest.py", "old");
    T_INT(symlinkat("../outside", r->top, "now/a"), 0);
    restore(r, "/workspace/a/b", NULL, NULL);
    T_TRUE(S_ISDIR(mode_of(r, "now/a")));
    T_TRUE(S_ISDIR(mode_of(r, "now/a/b")));
    expect(r, "now/a/b/conftest.py", "old");
    T_INT(mode_of(r, "outside/b"), 0);
    put(r, "now/c", "a file");
    restore(r, "/workspace/c", NULL, NULL);
    T_TRUE(S_ISDIR(mode_of(r, "now/c")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_new_goes_and_what_was_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_folders_are_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kinds_do_not_matter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(git_is_what_it_was, set_up, tear_down),
        cmocka_unit_test_setup_teardown(links_are_not_followed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_loaded_in_place_of_a_file_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rivals_of_scripts_and_makefiles_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_package_that_was_is_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_is_no_repository_by_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_working_directory_is_no_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_replace_whatever_is_there, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
