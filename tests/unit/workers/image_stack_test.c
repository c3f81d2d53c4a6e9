/* SPDX-License-Identifier: Apache-2.0 */
/* Layers that are not mounted, looked into as an overlay would; and the directories of /usr. */
#include "workers/rootfs/image_stack.h"

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
#include "workers/rootfs/usr_dirs.h"

enum { LAYERS = 3 }; /* 0 is the newest */

struct rig {
    char *dir;
    int roots[LAYERS];
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    for (int i = 0; i < LAYERS; i++) {
        BH_CLEANUP_FREE char *path = bh_asprintf("%s/%d", r.dir, i);
        T_INT(mkdir(path, 0755), 0);
        r.roots[i] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    for (int i = 0; i < LAYERS; i++)
        bh_close(r->roots[i]);
    t_tmpdir_free(r->dir);
    return 0;
}

static void file(const struct rig *r, int layer, const char *path)
{
    const char *slash = strrchr(path, '/');
    BH_CLEANUP_FREE char *folder = slash ? bh_strndup(path, (size_t)(slash - path)) : NULL;
    if (folder)
        T_INT(bh_mkdirat_p(r->roots[layer], folder, 0755), 0);
    BH_CLEANUP_FD int fd = openat(r->roots[layer], path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_INT(bh_write_all(fd, "012" + layer, 1), 0);
}

/* The layer that the file is of, -1 where none is found. */
static int layer_of(const struct rig *r, const char *path)
{
    char c = 0;
    int fd = -1;
    if (bh_stack_find(r->roots, LAYERS, path, &fd) == BH_STACK_FILE)
        T_INT(read(fd, &c, 1), 1);
    bh_close(fd);
    return c ? c - '0' : -1;
}

static void test_newest(void **state)
{
    struct rig *r = *state;
    file(r, 2, "etc/passwd");
    T_INT(layer_of(r, "etc/passwd"), 2);
    file(r, 1, "etc/passwd");
    T_INT(layer_of(r, "etc/passwd"), 1);
    file(r, 0, "etc/group");
    T_INT(layer_of(r, "etc/passwd"), 1); /* through a directory that only merges */
    T_INT(bh_stack_find(r->roots, LAYERS, "etc", NULL), BH_STACK_DIR);
    T_INT(bh_stack_find(r->roots, LAYERS, "none/at/all", NULL), BH_STACK_NONE);
    T_INT(bh_stack_find(r->roots, LAYERS, "etc/passwd/x", NULL), BH_STACK_OTHER);
}

static void test_hidden(void **state)
{
    struct rig *r = *state;
    if (fsetxattr(r->roots[0], "user.x", "y", 1, 0) < 0)
        t_skip("xattr", "the file system has no user attributes");
    file(r, 2, "etc/passwd");
    file(r, 2, "etc/group");
    file(r, 2, "etc/shadow");
    T_INT(mkdirat(r->roots[1], "etc", 0755), 0);
    T_INT(mknodat(r->roots[1], "etc/passwd", S_IFCHR, makedev(0, 0)), 0);
    T_INT(layer_of(r, "etc/passwd"), -1);
    T_INT(layer_of(r, "etc/group"), 2);
    file(r, 0, "etc/passwd");
    T_INT(layer_of(r, "etc/passwd"), 0);
    BH_CLEANUP_FD int etc = openat(r->roots[0], "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_INT(fsetxattr(etc, "user.overlay.opaque", "y", 1, 0), 0);
    T_INT(layer_of(r, "etc/group"), -1);
    T_INT(layer_of(r, "etc/passwd"), 0);
    T_INT(mknodat(r->roots[0], "var", S_IFCHR, makedev(0, 0)), 0);
    file(r, 2, "var/x");
    T_INT(bh_stack_find(r->roots, LAYERS, "var/x", NULL), BH_STACK_NONE);
}

/* A link may lead anywhere, also out: it is not followed. */
static void test_links(void **state)
{
    struct rig *r = *state;
    T_INT(symlinkat("/etc", r->roots[1], "etc"), 0);
    file(r, 2, "etc/passwd");
    T_INT(bh_stack_find(r->roots, LAYERS, "etc/passwd", NULL), BH_STACK_OTHER);
    T_INT(bh_stack_find(r->roots, LAYERS, "etc", NULL), BH_STACK_OTHER);
    T_INT(symlinkat("../../../etc/passwd", r->roots[1], "passwd"), 0);
    T_INT(layer_of(r, "passwd"), -1);
    file(r, 0, "etc/group"); /* a directory above a link hides it */
    T_INT(layer_of(r, "etc/passwd"), -1);
    T_INT(layer_of(r, "etc/group"), 0);
}

/* What a closed directory holds is not known: neither that it holds nothing, nor that a lower layer shows through. */
static void test_closed(void **state)
{
    struct rig *r = *state;
    int fd = -1;
    file(r, 2, "etc/passwd");
    file(r, 1, "etc/passwd");
    file(r, 2, "srv/shut");
    T_INT(fchmodat(r->roots[1], "etc", 0, 0), 0);
    T_INT(fchmodat(r->roots[2], "srv/shut", 0, 0), 0);
    bool root = geteuid() == 0;
    if (root)
        T_INT(seteuid(65534), 0); /* and without the capabilities of root */
    enum bh_stack_found inside = bh_stack_find(r->roots, LAYERS, "etc/passwd", NULL),
                        folder = bh_stack_find(r->roots, LAYERS, "etc", NULL),
                        open = bh_stack_find(r->roots, LAYERS, "srv/shut", &fd),
                        other = bh_stack_find(r->roots, LAYERS, "var/x", NULL);
    if (root)
        T_INT(seteuid(0), 0);
    T_INT(fchmodat(r->roots[1], "etc", 0755, 0), 0);
    T_INT(inside, BH_STACK_CLOSED);
    T_INT(folder, BH_STACK_CLOSED);
    T_INT(open, BH_STACK_CLOSED);
    T_INT(fd, -1);
    T_INT(other, BH_STACK_NONE);
    T_INT(layer_of(r, "etc/passwd"), 1);
}

static void test_usr_dirs(void **state)
{
    struct rig *r = *state;
    BH_CLEANUP_FREE char *host = bh_asprintf("%s/0", r->dir), *home = bh_asprintf("%s/1", r->dir);
    const struct bh_box_owner owner = {.mode = BH_IDS_SINGLE};
    char *first = NULL, *again = NULL, *changed = NULL;
    T_INT(mkdirat(r->roots[1], "bases", 0700), 0);
    file(r, 0, "usr/lib/deep/file");
    T_INT(bh_mkdirat_p(r->roots[0], "usr/share/closed", 0755), 0);
    T_INT(symlinkat("lib", r->roots[0], "usr/lib64"), 0);
    T_OK(bh_usr_dirs_ensure_from(host, home, &owner, &first, &err));
    T_OK(bh_usr_dirs_ensure_from(host, home, &owner, &again, &err));
    T_STR(first, again);
    BH_CLEANUP_FREE char *deep = bh_asprintf("bases/%s/usr/lib/deep", first);
    BH_CLEANUP_FREE char *inside = bh_asprintf("%s/file", deep), *link = bh_asprintf("bases/%s/usr/lib64", first);
    BH_CLEANUP_FREE char *opt = bh_asprintf("bases/%s/opt", first);
    T_INT(faccessat(r->roots[1], deep, F_OK, 0), 0);
    T_INT(faccessat(r->roots[1], opt, F_OK, 0), 0); /* also where the host has none */
    T_INT(faccessat(r->roots[1], inside, F_OK, 0), -1);
    T_INT(faccessat(r->roots[1], link, F_OK, AT_SYMLINK_NOFOLLOW), -1);
    T_INT(bh_mkdirat_p(r->roots[0], "usr/local", 0755), 0);
    T_OK(bh_usr_dirs_ensure_from(host, home, &owner, &changed, &err));
    T_TRUE(strcmp(first, changed) != 0);
    bh_free(first);
    bh_free(again);
    bh_free(changed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
        TEST(test_newest), TEST(test_hidden), TEST(test_links), TEST(test_closed), TEST(test_usr_dirs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
