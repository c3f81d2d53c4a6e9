/* SPDX-License-Identifier: Apache-2.0 */
/* Chains, freezing, and the merge of many layers into one, compared with what overlayfs would show of them. */
#include "workers/rootfs/layers.h"

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
    int top, layers;
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.dir = t_tmpdir()};
    r.top = open(r.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_INT(mkdirat(r.top, "layers", 0700), 0);
    r.layers = openat(r.top, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_close(r->top);
    bh_close(r->layers);
    t_tmpdir_free(r->dir);
    return 0;
}

static void put(const struct rig *r, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *parent = bh_path_dirname(name);
    T_INT(bh_mkdirat_p(r->layers, parent, 0755), 0);
    BH_CLEANUP_FD int fd = openat(r->layers, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void put_dir(const struct rig *r, const char *name)
{
    T_INT(bh_mkdirat_p(r->layers, name, 0755), 0);
}

static void put_whiteout(const struct rig *r, const char *name)
{
    BH_CLEANUP_FREE char *parent = bh_path_dirname(name);
    T_INT(bh_mkdirat_p(r->layers, parent, 0755), 0);
    if (mknodat(r->layers, name, S_IFCHR, makedev(0, 0)) < 0)
        t_skip("whiteout", "this kernel does not let us make whiteouts");
}

static void put_opaque(const struct rig *r, const char *name)
{
    put_dir(r, name);
    BH_CLEANUP_FD int fd = openat(r->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0)
        t_skip("xattr", "no user xattrs on the temporary folder");
}

static bool is_opaque(const struct rig *r, const char *name)
{
    char value = 0;
    BH_CLEANUP_FD int fd = openat(r->layers, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fgetxattr(fd, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

/* 'f' file, 'd' directory, 'w' whiteout, 'l' symlink, '-' nothing */
static char kind(const struct rig *r, const char *name)
{
    struct stat st;
    if (fstatat(r->layers, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return '-';
    if (S_ISCHR(st.st_mode))
        return 'w';
    if (S_ISLNK(st.st_mode))
        return 'l';
    return S_ISDIR(st.st_mode) ? 'd' : 'f';
}

static void check_text(const struct rig *r, const char *name, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf buf = BH_BUF_INIT;
    BH_CLEANUP_FD int fd = openat(r->layers, name, O_RDONLY | O_CLOEXEC);
    T_OK(bh_read_all(fd, 1000, &buf, &err));
    T_STR(buf.data, want);
}

static void reads_a_chain(void **state)
{
    struct rig *r = *state;
    struct bh_layer_chain chain = {0};
    put_dir(r, "a/root");
    put(r, "b/below", "a\n");
    put(r, "c/below", "b"); /* without an end of line */
    T_OK(bh_layer_chain_read(r->layers, "c", &chain, &err));
    T_INT(chain.n, 3);
    T_STR(chain.names[0], "c");
    T_STR(chain.names[2], "a");
    bh_layer_chain_fini(&chain);
}

static void refuses_broken_chains(void **state)
{
    struct rig *r = *state;
    struct bh_layer_chain chain = {0};
    put(r, "x/below", "y\n");
    put(r, "y/below", "x\n");
    put(r, "gap/below", "missing\n");
    put(r, "evil/below", "../../etc\n");
    put(r, "empty/below", "\n");
    T_ERR(bh_layer_chain_read(r->layers, "x", &chain, &err), BH_E_STORE_CORRUPT, "do not end");
    T_ERR(bh_layer_chain_read(r->layers, "gap", &chain, &err), BH_E_NOT_FOUND, "'missing'");
    T_ERR(bh_layer_chain_read(r->layers, "evil", &chain, &err), BH_E_STORE_CORRUPT, "'evil'");
    T_ERR(bh_layer_chain_read(r->layers, "empty", &chain, &err), BH_E_STORE_CORRUPT, "'empty'");
    T_ERR(bh_layer_chain_read(r->layers, "../layers", &chain, &err), BH_E_STORE_CORRUPT, NULL);
    T_INT(chain.n, 0);
}

static void make_upper(struct rig *r, const char *text)
{
    T_INT(bh_mkdirat_p(r->top, "upper/root", 0755), 0);
    T_INT(bh_mkdirat_p(r->top, "upper/usr", 0755), 0);
    BH_CLEANUP_FD int fd = openat(r->top, "upper/root/f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
}

static void freezes(void **state)
{
    struct rig *r = *state;
    struct bh_layer_chain chain = {0};
    make_upper(r, "one");
    T_OK(bh_layer_freeze(r->top, "upper", r->layers, "l1", NULL, &err));
    check_text(r, "l1/root/f", "one");
    T_INT(kind(r, "l1/usr"), '-'); /* nobody wrote to it */
    T_INT(kind(r, "l1/below"), '-');
    make_upper(r, "two");
    T_ERR(bh_layer_freeze(r->top, "upper", r->layers, "l1", NULL, &err), BH_E_EXISTS, "'l1'");
    T_ERR(bh_layer_freeze(r->top, "upper", r->layers, "bad/name", NULL, &err), BH_E_BAD_NAME, "bad/name");
    T_ERR(bh_layer_freeze(r->top, "upper", r->layers, "l2", "nothing", &err), BH_E_NOT_FOUND, "'nothing'");
    T_OK(bh_layer_freeze(r->top, "upper", r->layers, "l2", "l1", &err));
    T_OK(bh_layer_chain_read(r->layers, "l2", &chain, &err));
    T_INT(chain.n, 2);
    bh_layer_chain_fini(&chain);
    T_ERR(bh_layer_freeze(r->top, "upper", r->layers, "l3", "l2", &err), BH_E_IO, "'l3'"); /* there is no upper */
}

static struct bh_layer_chain chain_of(const char *const *names, size_t n)
{
    struct bh_layer_chain chain = {.names = bh_calloc(n, sizeof(char *)), .n = n};
    for (size_t i = 0; i < n; i++)
        chain.names[i] = bh_strdup(names[i]);
    return chain;
}

static void squash(struct rig *r, const char *const *names, size_t n)
{
    struct bh_layer_chain chain = chain_of(names, n);
    T_OK(bh_layer_squash(r->layers, &chain, "all", &err));
    bh_layer_chain_fini(&chain);
}

static void newest_wins(void **state)
{
    struct rig *r = *state;
    put(r, "old/root/etc/a", "old a");
    put(r, "old/root/etc/b", "old b");
    put(r, "new/root/etc/a", "new a");
    put(r, "new/root/only", "x");
    put(r, "new/usr/local/bin/tool", "t");
    T_INT(symlinkat("/etc/shadow", r->layers, "new/root/link"), 0);
    T_INT(fchmodat(r->layers, "new/root/etc", 0750, 0), 0);
    squash(r, (const char *const[]){"new", "old"}, 2);
    check_text(r, "all/root/etc/a", "new a");
    check_text(r, "all/root/etc/b", "old b");
    check_text(r, "all/usr/local/bin/tool", "t");
    T_INT(kind(r, "all/root/link"), 'l');
    T_INT(kind(r, "all/opt"), '-');
    struct stat a, b;
    T_TRUE(fstatat(r->layers, "all/root/etc", &a, 0) == 0 && (a.st_mode & 07777) == 0750);
    T_TRUE(fstatat(r->layers, "all/root/only", &a, 0) == 0 && fstatat(r->layers, "new/root/only", &b, 0) == 0);
    T_INT(a.st_ino, b.st_ino); /* a link, no copy */
    T_TRUE(!is_opaque(r, "all/root/etc"));
}

static void whiteouts_hide(void **state)
{
    struct rig *r = *state;
    put(r, "old/root/gone", "x");
    put(r, "old/root/dir/f", "x");
    put_whiteout(r, "new/root/gone");
    put_whiteout(r, "new/root/dir");
    put_whiteout(r, "new/root/of-the-base");
    squash(r, (const char *const[]){"new", "old"}, 2);
    T_INT(kind(r, "all/root/gone"), 'w'); /* the base may have one of that name */
    T_INT(kind(r, "all/root/dir"), 'w');
    T_INT(kind(r, "all/root/of-the-base"), 'w');
}

static void opaque_directories_cut(void **state)
{
    struct rig *r = *state;
    put(r, "old/root/d/old", "x");
    put_opaque(r, "mid/root/d");
    put(r, "mid/root/d/mid", "x");
    put(r, "new/root/d/new", "x");
    squash(r, (const char *const[]){"new", "mid", "old"}, 3);
    T_INT(kind(r, "all/root/d/new"), 'f');
    T_INT(kind(r, "all/root/d/mid"), 'f');
    T_INT(kind(r, "all/root/d/old"), '-');
    T_TRUE(is_opaque(r, "all/root/d")); /* what the base has there is hidden as well */
}

static void a_file_between_directories_cuts(void **state)
{
    struct rig *r = *state;
    put(r, "old/root/x/deep", "x");
    put_whiteout(r, "mid/root/x");
    put(r, "new/root/x/fresh", "x");
    put(r, "old/root/y/deep", "x");
    put(r, "mid/root/y", "a file");
    put_dir(r, "new/root/y");
    squash(r, (const char *const[]){"new", "mid", "old"}, 3);
    T_INT(kind(r, "all/root/x/fresh"), 'f');
    T_INT(kind(r, "all/root/x/deep"), '-');
    T_TRUE(is_opaque(r, "all/root/x"));
    T_INT(kind(r, "all/root/y/deep"), '-');
    T_TRUE(is_opaque(r, "all/root/y"));
}

/* An agent may close a directory to himself; whoever squashes as an ordinary user is that same user. */
static void closed_directories_are_carried_over(void **state)
{
    struct rig *r = *state;
    struct stat st;
    put(r, "old/root/closed/inside/f", "x");
    put(r, "new/root/closed/g", "x");
    T_INT(fchmodat(r->layers, "old/root/closed/inside", 0, 0), 0);
    T_INT(fchmodat(r->layers, "old/root/closed", 0300, 0), 0);
    T_INT(fchmodat(r->layers, "new/root/closed", 0, 0), 0);
    squash(r, (const char *const[]){"new", "old"}, 2);
    static const char *const layers[] = {"all", "new"};
    for (size_t i = 0; i < BH_ARRAY_LEN(layers); i++) { /* the source is as it was */
        char path[64];
        snprintf(path, sizeof(path), "%s/root/closed", layers[i]);
        T_INT(fstatat(r->layers, path, &st, 0), 0);
        T_INT(st.st_mode & 07777, 0);
        T_INT(fchmodat(r->layers, path, 0700, 0), 0);
    }
    T_INT(kind(r, "all/root/closed/g"), 'f');
    T_INT(fstatat(r->layers, "all/root/closed/inside", &st, 0), 0);
    T_INT(st.st_mode & 07777, 0);
    T_INT(fchmodat(r->layers, "all/root/closed/inside", 0700, 0), 0);
    T_INT(kind(r, "all/root/closed/inside/f"), 'f');
}

static void too_deep_a_tree_is_an_error(void **state)
{
    struct rig *r = *state;
    put(r, "new/root/f", "x");
    put_dir(r, "old/root");
    int dir = openat(r->layers, "old/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 500; i++) {
        T_INT(mkdirat(dir, "d", 0700), 0);
        int next = openat(dir, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(dir);
        dir = next;
    }
    close(dir);
    struct bh_layer_chain chain = chain_of((const char *const[]){"new", "old"}, 2);
    T_ERR(bh_layer_squash(r->layers, &chain, "all", &err), BH_E_IO, "cannot squash 2 layers");
    T_INT(kind(r, "all"), '-');
    bh_layer_chain_fini(&chain);
}

static void a_long_chain_is_squashed(void **state)
{
    struct rig *r = *state;
    struct bh_layer_chain chain = {0};
    char below[16] = "";
    for (int i = 0; i < 40; i++) {
        char name[16], text[16];
        (void)snprintf(name, sizeof(name), "l%d", i);
        (void)snprintf(text, sizeof(text), "%d", i);
        make_upper(r, text);
        BH_CLEANUP_FREE char *own = bh_asprintf("upper/root/f%d", i);
        T_INT(mknodat(r->top, own, S_IFREG | 0644, 0), 0);
        T_OK(bh_layer_freeze(r->top, "upper", r->layers, name, below[0] ? below : NULL, &err));
        (void)snprintf(below, sizeof(below), "%s", name);
    }
    T_OK(bh_layer_chain_read(r->layers, "l39", &chain, &err));
    T_TRUE(chain.n < BH_LAYERS_MAX);
    T_INT(chain.n, 10); /* l30 stands on nothing */
    bh_layer_chain_fini(&chain);
    check_text(r, "l30/root/f", "30");
    T_INT(kind(r, "l30/root/f0"), 'f');
    T_INT(kind(r, "l30/root/f30"), 'f');
    T_INT(kind(r, "l29/root/f0"), '-'); /* the layers that it was made of are as they were */
    T_INT(kind(r, BH_LAYER_HALF "top-l30"), '-');
    T_INT(kind(r, BH_LAYER_HALF "l30"), '-');
}

static void says_when_it_cannot(void **state)
{
    struct rig *r = *state;
    put(r, "one/root/f", "x");
    put(r, "all/root/f", "x");
    struct bh_layer_chain chain = chain_of((const char *const[]){"one", "nothing"}, 2);
    T_ERR(bh_layer_squash(r->layers, &chain, "new", &err), BH_E_IO, "2 layers into 'new'");
    T_INT(kind(r, "new"), '-');
    T_INT(kind(r, BH_LAYER_HALF "new"), '-');
    bh_layer_chain_fini(&chain);
    chain = chain_of((const char *const[]){"one"}, 1);
    T_ERR(bh_layer_squash(r->layers, &chain, "all", &err), BH_E_EXISTS, "'all'");
    T_INT(kind(r, BH_LAYER_HALF "all"), '-');
    bh_layer_chain_fini(&chain);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(reads_a_chain),
        TEST(refuses_broken_chains),
        TEST(freezes),
        TEST(newest_wins),
        TEST(whiteouts_hide),
        TEST(opaque_directories_cut),
        TEST(a_file_between_directories_cuts),
        TEST(closed_directories_are_carried_over),
        TEST(too_deep_a_tree_is_an_error),
        TEST(a_long_chain_is_squashed),
        TEST(says_when_it_cannot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
