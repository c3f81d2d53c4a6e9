/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between stacks of layers: added, changed, removed, and what is nobody's change. */
#include "workers/rootfs/changes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "tests/support/t.h"

struct rig {
    char *dir;
    int top;
    struct bh_view *before, *after;
    struct bh_buf told;
    int stop_at; /* the n-th change ends the walk */
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir(), .told = BH_BUF_INIT, .before = bh_view_new(), .after = bh_view_new()};
    r.top = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_view_free(r->before);
    bh_view_free(r->after);
    bh_buf_fini(&r->told);
    bh_close(r->top);
    t_tmpdir_free(r->dir);
    return 0;
}

static void put_dir(const struct rig *r, const char *name)
{
    T_INT(bh_mkdirat_p(r->top, name, 0755), 0);
}

static void parents(const struct rig *r, const char *name)
{
    BH_CLEANUP_FREE char *parent = bh_path_dirname(name);
    put_dir(r, parent);
}

static void put(const struct rig *r, const char *name, const char *text)
{
    parents(r, name);
    BH_CLEANUP_FD int fd = openat(r->top, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void put_whiteout(const struct rig *r, const char *name)
{
    parents(r, name);
    if (mknodat(r->top, name, S_IFCHR, makedev(0, 0)) < 0)
        t_skip("whiteout", "no whiteout can be made here");
}

static void put_opaque(const struct rig *r, const char *name)
{
    put_dir(r, name);
    BH_CLEANUP_FD int fd = openat(r->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0)
        t_skip("xattr", "no user attributes here");
}

static int on_change(void *arg, const struct bh_change *c)
{
    struct rig *r = arg;
    bh_buf_addf(&r->told, "%s%c %s%s", r->told.len ? "\n" : "", "AMD"[c->kind], c -> path,
                c -> unread ? " unread" : "");
    return r->stop_at > 0 && --r->stop_at == 0 ? 7 : 0;
}

/* base, then "up": before is the base alone. */
static void box_on_base(struct rig *r)
{
    put_dir(r, "up/root");
    put_dir(r, "base/root");
    T_INT(bh_view_add(r->before, r->top, "base", false), 0);
    T_INT(bh_view_add(r->after, r->top, "up", true), 0);
    T_INT(bh_view_add(r->after, r->top, "base", false), 0);
}

static const char *walked(struct rig *r)
{
    bh_buf_clear(&r->told);
    T_OK(bh_changes_walk(r->before, r->after, on_change, r, &err));
    return r->told.data;
}

static void files_are_added_changed_and_removed(void **state)
{
    struct rig *r = *state;
    put(r, "base/root/workspace/kept", "same");
    put(r, "base/root/workspace/changed", "old");
    put(r, "base/root/workspace/gone", "x");
    put(r, "up/root/workspace/changed", "new");
    put(r, "up/root/workspace/new", "n");
    put(r, "up/root/workspace/d/e/f", "deep");
    put_dir(r, "up/root/workspace/empty");
    put_whiteout(r, "up/root/workspace/gone");
    box_on_base(r);
    T_STR(walked(r), "M /workspace/changed\nA /workspace/d/e/f\nA /workspace/empty/\nD /workspace/gone\nA "
                     "/workspace/new");
}

static void what_was_only_copied_up_is_no_change(void **state)
{
    struct rig *r = *state;
    put(r, "base/root/etc/conf", "same bytes");
    put(r, "up/root/etc/conf", "same bytes");
    put(r, "base/root/etc/mode", "m");
    put(r, "up/root/etc/mode", "m");
    T_INT(fchmodat(r->top, "up/root/etc/mode", 0755, 0), 0);
    parents(r, "up/root/etc/l");
    T_INT(symlinkat("a", r->top, "base/root/etc/l"), 0);
    T_INT(symlinkat("a", r->top, "up/root/etc/l"), 0);
    T_INT(symlinkat("a", r->top, "base/root/etc/m"), 0);
    T_INT(symlinkat("b", r->top, "up/root/etc/m"), 0);
    box_on_base(r);
    T_STR(walked(r), "M /etc/m\nM /etc/mode");
}

static void directories_that_go_or_come_as_a_whole(void **state)
{
    struct rig *r = *state;
    put(r, "base/root/lib/a", "1");
    put(r, "base/root/lib/b", "2");
    put(r, "base/root/share/x", "3");
    put(r, "base/root/share/y", "4");
    put(r, "base/root/file", "5");
    put_whiteout(r, "up/root/lib");
    put_opaque(r, "up/root/share");
    put(r, "up/root/share/y", "other");
    put(r, "up/root/file/now/a/dir", "6");
    box_on_base(r);
    T_STR(walked(r), "M /file/\nA /file/now/a/dir\nD /lib/\nD /share/x\nM /share/y");
}

static void a_directory_that_became_a_file(void **state)
{
    struct rig *r = *state;
    put(r, "base/root/d/inside", "1");
    put(r, "up/root/d", "file");
    box_on_base(r);
    T_STR(walked(r), "M /d");
}

static void what_bulkhead_mounts_on_is_left_out(void **state)
{
    struct rig *r = *state;
    put_dir(r, "up/root/workspace/in");
    put(r, "up/root/workspace/prompt.md", "");
    put(r, "up/root/workspace/params.json", "");
    put(r, "up/root/workspace/needs.json", "");
    put_dir(r, "up/root/sys");
    put(r, "up/root/workspace/out/result", "r");
    box_on_base(r);
    T_STR(walked(r), "A /workspace/out/result");
}

static void usr_is_a_tree_of_its_own(void **state)
{
    struct rig *r = *state;
    put(r, "host/share/doc/one", "1");
    put(r, "up/usr/share/doc/one", "2");
    put_whiteout(r, "up/usr/share/gone");
    put(r, "up/usr/local/new", "3");
    box_on_base(r);
    T_INT(bh_view_add_tree(r->before, "usr", r->top, "host"), 0);
    T_INT(bh_view_add_tree(r->after, "usr", r->top, "host"), 0);
    T_STR(walked(r), "A /usr/local/new\nM /usr/share/doc/one");
}

static void two_boxes_on_one_snapshot(void **state)
{
    struct rig *r = *state;
    put(r, "snap/root/w/a", "0");
    put(r, "snap/root/w/lib/x", "0");
    put(r, "one/root/w/a", "1");
    put(r, "one/root/w/only-one", "1");
    put(r, "one/root/w/dir/deep", "1");
    put_whiteout(r, "two/root/w/lib");
    put(r, "two/root/w/only-two", "2");
    put(r, "two/root/w/same", "s");
    put(r, "one/root/w/same", "s");
    T_INT(bh_view_add(r->before, r->top, "one", true), 0);
    T_INT(bh_view_add(r->before, r->top, "snap", false), 0);
    T_INT(bh_view_add(r->after, r->top, "two", true), 0);
    T_INT(bh_view_add(r->after, r->top, "snap", false), 0);
    T_STR(walked(r), "M /w/a\nD /w/dir/deep\nD /w/lib/\nD /w/only-one\nA /w/only-two");
}

static int open_sides(void *arg, const struct bh_change *c)
{
    int *n = arg;
    BH_CLEANUP_FD int fd = bh_change_open(&c->after);
    T_INT(fd, -1);
    (*n)++;
    return 0;
}

static void nothing_but_regular_files_is_opened(void **state)
{
    struct rig *r = *state;
    int n = 0;
    put_dir(r, "up/root");
    T_INT(mkfifoat(r->top, "up/root/fifo", 0644), 0);
    T_INT(symlinkat("/etc/passwd", r->top, "up/root/link"), 0);
    box_on_base(r);
    T_OK(bh_changes_walk(r->before, r->after, open_sides, &n, &err));
    T_INT(n, 2);
}

static void links_are_not_followed_by_the_walk(void **state)
{
    struct rig *r = *state;
    put(r, "elsewhere/secret", "s");
    put_dir(r, "up/root");
    BH_CLEANUP_FREE char *target = bh_asprintf("%s/elsewhere", r->dir);
    T_INT(symlinkat(target, r->top, "up/root/way"), 0);
    box_on_base(r);
    T_STR(walked(r), "A /way");
    T_INT(symlinkat(target, r->top, "layer"), 0);
    T_INT(bh_view_add(r->after, r->top, "layer", true), -1);
    T_INT(bh_view_add(r->after, r->top, "absent", true), -1);
    T_INT(errno, ENOENT);
}

static void whoever_listens_may_stop(void **state)
{
    struct rig *r = *state;
    put(r, "up/root/a", "1");
    put(r, "up/root/b", "1");
    put(r, "up/root/c", "1");
    box_on_base(r);
    r->stop_at = 2;
    T_INT(bh_changes_walk(r->before, r->after, on_change, r, NULL), 7);
    T_STR(r->told.data, "A /a\nA /b");
}

static void what_is_too_deep_is_not_looked_into(void **state)
{
    struct rig *r = *state;
    box_on_base(r);
    int at = openat(r->top, "up/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 600; i++) {
        T_INT(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bh_close(at);
        at = next;
    }
    bh_close(at);
    put(r, "up/root/e", "seen all the same");
    size_t len = strlen(walked(r)), n = 0;
    T_STR(r->told.data + len - 13, "/ unread\nA /e");
    for (const char *p = r->told.data; strncmp(p, "/d", 2) == 0 || *p == 'A' || *p == ' ';)
        n += *p == '/', p += *p == '/' ? 2 : 1;
    T_INT(n, 128);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(files_are_added_changed_and_removed),
        TEST(what_was_only_copied_up_is_no_change),
        TEST(directories_that_go_or_come_as_a_whole),
        TEST(a_directory_that_became_a_file),
        TEST(what_bulkhead_mounts_on_is_left_out),
        TEST(usr_is_a_tree_of_its_own),
        TEST(two_boxes_on_one_snapshot),
        TEST(nothing_but_regular_files_is_opened),
        TEST(links_are_not_followed_by_the_walk),
        TEST(whoever_listens_may_stop),
        TEST(what_is_too_deep_is_not_looked_into),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
