/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot store: what is put is found, and what was touched since is named and never used. */
#include "workers/rootfs/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/support/t.h"

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

struct rig {
    char *home;
    int top, store;
};

static int set_up(void **state)
{
    static struct rig r;
    r = (struct rig){.home = t_tmpdir()};
    r.top = open(r.home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_OK((r.store = bh_snapshots_open(r.home, &err)) < 0 ? r.store : 0);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    bh_close(r->top);
    bh_close(r->store);
    t_tmpdir_free(r->home);
    return 0;
}

static void put_file(int dirfd, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *parent = bh_path_dirname(name);
    T_INT(bh_mkdirat_p(dirfd, parent, 0755), 0);
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

static void make_upper(struct rig *r, const char *text)
{
    put_file(r->top, "upper/root/workspace/data", text);
    put_file(r->top, "upper/root/workspace/deep/er/file", "x");
    T_INT(bh_mkdirat_p(r->top, "upper/usr", 0755), 0);
    T_INT(symlinkat("data", r->top, "upper/root/workspace/link"), 0);
}

static struct bh_snapshot_spec spec_of(const char *key, const char *const *below, size_t n)
{
    return (struct bh_snapshot_spec){
        .key = key, .kind = "prepare", .run = "r1", .agent = "fixer", .base = "host", .below = below, .n_below = n};
}

static void put(struct rig *r, const char *key, const char *const *below, size_t n, const char *text)
{
    struct bh_snapshot s = {0};
    const struct bh_snapshot_spec spec = spec_of(key, below, n);
    make_upper(r, text);
    T_OK(bh_snapshot_put(r->top, "upper", r->store, &spec, &s, &err));
    T_STR(s.key, key);
    T_STR(s.stack[0], key);
    T_TRUE(s.digest == NULL);
    bh_snapshot_fini(&s);
}

static void expect_found(struct rig *r, const char *key, const char *const *below, size_t n)
{
    struct bh_snapshot s = {0};
    const struct bh_snapshot_spec spec = spec_of(key, below, n);
    T_OK(bh_snapshot_find(r->store, &spec, &s, &err));
    T_STR(s.agent, "fixer");
    T_INT(s.n_stack, n + 1);
    bh_snapshot_fini(&s);
}

static void expect_bad(struct rig *r, const char *key, const char *const *below, size_t n, int code, const char *why)
{
    struct bh_snapshot s = {0};
    const struct bh_snapshot_spec spec = spec_of(key, below, n);
    T_ERR(bh_snapshot_find(r->store, &spec, &s, &err), code, why);
    T_TRUE(s.key == NULL);
}

static void finds_what_was_put(void **state)
{
    struct rig *r = *state;
    struct stat st;
    expect_bad(r, A, NULL, 0, BH_E_NOT_FOUND, "snapshot 'aaaaaaaaaaaa' is gone");
    put(r, A, NULL, 0, "one");
    expect_found(r, A, NULL, 0);
    T_TRUE(fstatat(r->store, A "/usr", &st, 0) < 0 && errno == ENOENT); /* nobody wrote to it */
    T_TRUE(fstatat(r->top, "upper", &st, 0) < 0);
}

static void change_bytes(struct rig *r)
{
    struct stat st;
    T_INT(fstatat(r->store, A "/root/workspace/data", &st, 0), 0);
    put_file(r->store, A "/root/workspace/data", "two");
    const struct timespec times[2] = {st.st_atim, st.st_mtim}; /* as if nothing had been */
    struct stat now = st;
    while (now.st_ctim.tv_sec == st.st_ctim.tv_sec && now.st_ctim.tv_nsec == st.st_ctim.tv_nsec) { /* a coarse clock */
        T_INT(utimensat(r->store, A "/root/workspace/data", times, 0), 0);
        T_INT(fstatat(r->store, A "/root/workspace/data", &now, 0), 0);
    }
}

static void add_file(struct rig *r)
{
    put_file(r->store, A "/root/workspace/more", "x");
}

static void drop_file(struct rig *r)
{
    T_INT(unlinkat(r->store, A "/root/workspace/deep/er/file", 0), 0);
}

static void change_mode(struct rig *r)
{
    T_INT(fchmodat(r->store, A "/root/workspace/deep", 0700, 0), 0);
}

static void change_link(struct rig *r)
{
    T_INT(unlinkat(r->store, A "/root/workspace/link", 0), 0);
    T_INT(symlinkat("/etc", r->store, A "/root/workspace/link"), 0);
}

static void drop_tree(struct rig *r)
{
    T_INT(bh_rmtree_at(r->store, A "/root"), 0);
}

static void drop_manifest(struct rig *r)
{
    T_INT(unlinkat(r->store, A "/manifest", 0), 0);
}

static void spoil_manifest(struct rig *r)
{
    put_file(r->store, A "/manifest", "{\"version\":1,\"key\":\"" A "\",\"below\":[{}]}");
}

static void take_other_manifest(struct rig *r)
{
    put(r, B, NULL, 0, "other");
    T_INT(renameat(r->store, B "/manifest", r->store, A "/manifest"), 0);
}

static void drop_all(struct rig *r)
{
    T_INT(bh_rmtree_at(r->store, A), 0);
}

static void names_what_was_touched(void **state)
{
    struct rig *r = *state;
    static const struct {
        void (*touch)(struct rig *r);
        int code;
        const char *why;
    } cases[] = {
        {change_bytes, BH_E_STORE_CORRUPT, "snapshot 'aaaaaaaaaaaa' was changed on disk"},
        {add_file, BH_E_STORE_CORRUPT, "it has 8 entries and had 7"},
        {drop_file, BH_E_STORE_CORRUPT, "it has 6 entries and had 7"},
        {change_mode, BH_E_STORE_CORRUPT, "was changed on disk"},
        {change_link, BH_E_STORE_CORRUPT, "was changed on disk"},
        {drop_tree, BH_E_STORE_CORRUPT, "it has 0 entries and had 7"},
        {drop_manifest, BH_E_STORE_CORRUPT, "has no manifest that can be read"},
        {spoil_manifest, BH_E_STORE_CORRUPT, "has no manifest that can be read"},
        {take_other_manifest, BH_E_STORE_CORRUPT, "has the manifest of another"},
        {drop_all, BH_E_NOT_FOUND, "is gone"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        put(r, A, NULL, 0, "one");
        expect_found(r, A, NULL, 0);
        cases[i].touch(r);
        expect_bad(r, A, NULL, 0, cases[i].code, cases[i].why);
        T_OK(bh_snapshot_retire(r->store, A, &err));
    }
}

static void change_manifest(struct rig *r, const char *from, const char *to)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/snapshots/" A "/manifest", r->home);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT, changed = BH_BUF_INIT;
    T_OK(bh_read_file(path, 10000, &text, &err));
    const char *at = strstr(text.data, from);
    T_TRUE(at != NULL);
    bh_buf_add(&changed, text.data, (size_t)(at - text.data));
    bh_buf_adds(&changed, to);
    bh_buf_adds(&changed, at + strlen(from));
    put_file(r->store, A "/manifest", changed.data);
}

/* Other ids, another user, another boot: not for us. */
static void is_not_shared(void **state)
{
    struct rig *r = *state;
    struct bh_snapshot s = {0};
    BH_CLEANUP_FREE char *digest = NULL;
    BH_CLEANUP_FREE char *uid = bh_asprintf("\"uid\":%u", geteuid());
    put(r, A, NULL, 0, "one");
    struct bh_snapshot_spec spec = spec_of(A, NULL, 0);
    spec.owner = 200000;
    T_ERR(bh_snapshot_find(r->store, &spec, &s, &err), BH_E_STORE_CORRUPT, "by another user, or with other ids");
    change_manifest(r, uid, "\"uid\":4711");
    expect_bad(r, A, NULL, 0, BH_E_STORE_CORRUPT, "by another user, or with other ids");
    change_manifest(r, "\"uid\":4711", uid);
    change_manifest(r, "\"boot\":\"", "\"boot\":\"x");
    expect_bad(r, A, NULL, 0, BH_E_STORE_CORRUPT, "was not finished when the host stopped");
    T_OK(bh_snapshot_read(r->store, A, NULL, &digest, &err)); /* what was read to its end can be compared */
    expect_found(r, A, NULL, 0);
    change_manifest(r, "\"boot\":\"", "\"boot\":\"x");
    expect_found(r, A, NULL, 0); /* and is noted to be of this boot now */
    change_manifest(r, "\"boot\":\"", "\"boot\":\"x");
    change_manifest(r, "\"digest\":\"sha256:", "\"digest\":\"sha256:" B "\",\"x\":\"");
    expect_bad(r, A, NULL, 0, BH_E_STORE_CORRUPT, "holds something else since the host stopped");
}

static void stands_on_others(void **state)
{
    struct rig *r = *state;
    static const char *const below[] = {A}, *const stack[] = {B, A};
    BH_CLEANUP_FREE char *digest = NULL;
    put(r, A, NULL, 0, "one");
    put(r, B, below, 1, "two");
    expect_found(r, B, below, 1);
    T_OK(bh_snapshots_verify(r->store, stack, 2, &digest, &err));
    T_TRUE(digest == NULL);
    expect_bad(r, B, NULL, 0, BH_E_STORE_CORRUPT, "'bbbbbbbbbbbb' stands on something else");
    T_ERR(bh_snapshots_verify(r->store, stack, 1, &digest, &err), BH_E_STORE_CORRUPT, "stands on something else");
    change_bytes(r);
    expect_bad(r, B, below, 1, BH_E_STORE_CORRUPT, "snapshot 'aaaaaaaaaaaa' was changed on disk");
    T_ERR(bh_snapshots_verify(r->store, stack, 2, &digest, &err), BH_E_STORE_CORRUPT, "'aaaaaaaaaaaa' was changed");
    T_OK(bh_snapshot_retire(r->store, A, &err));
    expect_bad(r, B, below, 1, BH_E_STORE_CORRUPT, "'aaaaaaaaaaaa' is gone");
    put(r, A, NULL, 0, "one"); /* the same again is not the same */
    expect_bad(r, B, below, 1, BH_E_STORE_CORRUPT, "stands on one that was made anew since");
    T_ERR(bh_snapshots_verify(r->store, (const char *const[]){"../x"}, 1, &digest, &err), BH_E_IO, "'../x'");
}

/* Whoever is second takes the first's; one that is bad gives way. */
static void two_make_the_same(void **state)
{
    struct rig *r = *state;
    struct bh_snapshot s = {0};
    struct stat st;
    const struct bh_snapshot_spec spec = spec_of(A, NULL, 0);
    put(r, A, NULL, 0, "first");
    make_upper(r, "second");
    T_OK(bh_snapshot_put(r->top, "upper", r->store, &spec, &s, &err));
    T_INT(s.seal.bytes, 6); /* "first" and "x" */
    T_INT(fstatat(r->top, "upper", &st, 0), 0);
    bh_snapshot_fini(&s);
    change_mode(r);
    T_OK(bh_snapshot_put(r->top, "upper", r->store, &spec, &s, &err));
    T_INT(s.seal.bytes, 7);
    bh_snapshot_fini(&s);
    expect_found(r, A, NULL, 0);
}

/* The digest is of what is in it, whenever and wherever it was made, and of all that it stands on. */
static void digests_are_of_content(void **state)
{
    struct rig *r = *state;
    static const char *const below[] = {A};
    BH_CLEANUP_FREE char *one = NULL, *again = NULL, *other = NULL, *on_one = NULL, *noted = NULL;
    put(r, A, NULL, 0, "one");
    T_OK(bh_snapshot_read(r->store, A, NULL, &one, &err));
    T_TRUE(bh_starts_with(one, "sha256:"));
    expect_found(r, A, NULL, 0); /* reading it changes nothing */
    put(r, B, below, 1, "one");
    T_OK(bh_snapshot_read(r->store, B, NULL, &on_one, &err));
    T_TRUE(!bh_streq(one, on_one));
    T_OK(bh_snapshots_verify(r->store, (const char *const[]){B, A}, 2, &noted, &err));
    T_STR(noted, on_one);
    T_OK(bh_snapshot_retire(r->store, A, &err));
    put(r, A, NULL, 0, "one");
    T_OK(bh_snapshot_read(r->store, A, NULL, &again, &err));
    T_STR(again, one);
    T_OK(bh_snapshot_retire(r->store, A, &err));
    put(r, A, NULL, 0, "two");
    T_OK(bh_snapshot_read(r->store, A, NULL, &other, &err));
    T_TRUE(!bh_streq(other, one));
    T_ERR(bh_snapshot_read(r->store, "nothing", NULL, &other, &err), BH_E_NOT_FOUND, "'nothing' is gone");
}

static void reading_can_be_stopped(void **state)
{
    struct rig *r = *state;
    const bool stop = true;
    char *digest = NULL;
    put(r, A, NULL, 0, "one");
    T_ERR(bh_snapshot_read(r->store, A, &stop, &digest, &err), BH_E_INTERRUPTED, "root");
    T_TRUE(digest == NULL);
}

static void what_is_used_stays(void **state)
{
    struct rig *r = *state;
    struct bh_snapshot_item *items;
    size_t n;
    put(r, A, NULL, 0, "one");
    int use = bh_snapshot_use(r->store, A);
    T_TRUE(use >= 0);
    T_OK(bh_snapshots_list(r->home, &items, &n, &err));
    T_INT(n, 1);
    T_TRUE(items[0].good && items[0].in_use && items[0].used.us > 0 && items[0].bytes == 4);
    T_STR(items[0].kind, "prepare");
    bh_snapshot_items_free(items, n);
    T_ERR(bh_snapshot_remove(r->home, A, &err), BH_E_BUSY, "is in use");
    T_OK(bh_snapshot_retire(r->store, A, &err)); /* out of sight, but still there */
    T_OK(bh_snapshots_list(r->home, &items, &n, &err));
    T_INT(n, 1);
    T_TRUE(!items[0].good && bh_starts_with(items[0].key, BH_SNAPSHOT_OLD));
    T_ERR(bh_snapshot_remove(r->home, items[0].key, &err), BH_E_BUSY, "is in use");
    bh_close(use);
    T_OK(bh_snapshot_remove(r->home, items[0].key, &err));
    bh_snapshot_items_free(items, n);
    T_INT(bh_snapshot_use(r->store, A), -1);
    put(r, A, NULL, 0, "one");
    T_OK(bh_snapshot_remove(r->home, A, &err));
    T_OK(bh_snapshots_list(r->home, &items, &n, &err));
    T_INT(n, 0);
    bh_snapshot_items_free(items, n);
    T_ERR(bh_snapshot_remove(r->home, "../cas", &err), BH_E_NOT_FOUND, NULL);
}

static void no_store_is_an_empty_one(void **state)
{
    struct rig *r = *state;
    struct bh_snapshot_item *items;
    size_t n;
    T_INT(unlinkat(r->top, BH_SNAPSHOTS, AT_REMOVEDIR), 0);
    T_OK(bh_snapshots_list(r->home, &items, &n, &err));
    T_INT(n, 0);
}

/* What is deeper than we go is refused, and says where. */
static void depth_is_bounded(void **state)
{
    struct rig *r = *state;
    struct bh_snapshot s = {0};
    const struct bh_snapshot_spec spec = spec_of(A, NULL, 0);
    BH_CLEANUP_FD int dir = openat(r->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_INT(bh_mkdirat_p(r->top, "upper/root", 0755), 0);
    int at = openat(r->top, "upper/root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 500; i++) {
        T_INT(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bh_close(at);
        at = next;
    }
    bh_close(at);
    T_ERR(bh_snapshot_put(r->top, "upper", r->store, &spec, &s, &err), BH_E_IO, "/root/d/d");
}

static void long_stacks_are_squashed(void **state)
{
    struct rig *r = *state;
    char keys[BH_SNAPSHOTS_MAX + 1][8], name[64];
    const char *below[BH_SNAPSHOTS_MAX + 1];
    struct bh_snapshot s = {0};
    struct stat st;
    for (size_t i = 0; i <= BH_SNAPSHOTS_MAX; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "k%zu", i);
        for (size_t j = 0; j < i; j++)
            below[j] = keys[i - 1 - j];
        (void)snprintf(name, sizeof(name), "upper/root/f%zu", i);
        put_file(r->top, name, keys[i]);
        put_file(r->top, "upper/root/same", keys[i]);
        const struct bh_snapshot_spec spec = spec_of(keys[i], below, i);
        bh_snapshot_fini(&s);
        T_OK(bh_snapshot_put(r->top, "upper", r->store, &spec, &s, &err));
    }
    T_INT(s.n_stack, 1);
    (void)snprintf(name, sizeof(name), "%s/root/f0", s.key);
    T_INT(fstatat(r->store, name, &st, 0), 0);
    bh_snapshot_fini(&s);
    const struct bh_snapshot_spec last = spec_of(keys[BH_SNAPSHOTS_MAX], below, BH_SNAPSHOTS_MAX);
    T_OK(bh_snapshot_find(r->store, &last, &s, &err));
    bh_snapshot_fini(&s);
    expect_found(r, keys[1], below + BH_SNAPSHOTS_MAX - 1, 1); /* those below were not touched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(finds_what_was_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_what_was_touched, set_up, tear_down),
        cmocka_unit_test_setup_teardown(is_not_shared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(stands_on_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_make_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(digests_are_of_content, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reading_can_be_stopped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_used_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_store_is_an_empty_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(depth_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_stacks_are_squashed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
