/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collecting from hostile trees. Each test builds what an agent may have left behind, in the workspace of a fake box
 * after its command has ended, and looks at what the worker makes of it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "tests/unit/workers/rig.h"

struct scene {
    struct rig *r;
    char *workspace;
    int dirfd; /* of the workspace */
    void (*build)(struct scene *s);
    bool built;
};

static void on_open(void *arg, const char *path)
{
    struct scene *s = arg;
    (void)path;
    if (s->built)
        return;
    s->built = true;
    s->workspace = bh_asprintf("%s/runs/%s/boxes/own%u/workspace", s->r->home, s->r->run.s, s->r->instances);
    s->dirfd = open(s->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->build)
        s->build(s);
}

static const struct bh_result *collect(struct rig *r, struct bh_lease *lease, void (*build)(struct scene *s))
{
    struct scene s = {.r = r, .dirfd = -1, .build = build};
    r->boxes->on_open = on_open;
    r->boxes->on_open_arg = &s;
    const struct bh_result *result = rig_run(r, lease);
    r->boxes->on_open = NULL;
    bh_close(s.dirfd);
    bh_free(s.workspace);
    return result;
}

static void expect(const struct bh_result *result, const char *reason, const char *detail)
{
    if (!bh_streq(result->reason, reason) || (detail && !bh_streq(result->detail, detail)))
        fail_msg("reason %s, detail: %s\nwanted %s: %s", result->reason ? result->reason : "none",
                 result->detail ? result->detail : "none", reason ? reason : "none", detail ? detail : "");
    T_INT(result->outcome, reason ? BH_OUTCOME_FAILED : BH_OUTCOME_SUCCEEDED);
    T_INT(result->exit_code, 0);
    if (reason)
        T_INT(result->n_outputs, 0);
}

static struct bh_lease declares(struct rig *r, const char *const *names)
{
    struct bh_lease lease = RIG_LEASE(r, "exit:0");
    for (size_t i = 0; names[i]; i++) {
        if (bh_glob_is(names[i]))
            rig_add_glob(&lease, names[i]);
        else
            rig_add_output(&lease, names[i]);
    }
    return lease;
}
#define DECLARES(r, ...) declares((r), (const char *const[]){__VA_ARGS__, NULL})

static void put(struct scene *s, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = bh_path_join(s->workspace, name);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(path);
    T_OK(bh_mkdir_p(dir, 0755, &err));
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    T_INT(bh_write_all(fd, text, strlen(text)), 0);
}

static void a_link(struct scene *s, const char *name, const char *to)
{
    T_INT(symlinkat(to, s->dirfd, name), 0);
}

/* --- one thing that is no file --- */

static void build_links(struct scene *s)
{
    put(s, "inside", "secret");
    a_link(s, "out/absolute", "/etc/passwd");
    a_link(s, "out/up", "../inside");
    a_link(s, "out/dangling", "nowhere");
    a_link(s, "out/dir", "..");
    a_link(s, "elsewhere", "/etc");
}

static void test_links_never_leave(void **state)
{
    struct rig *r = *state;
    static const char *const names[] = {"absolute", "up", "dangling", "dir/inside"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        struct bh_lease lease = DECLARES(r, names[i]);
        BH_CLEANUP_FREE char *want = bh_asprintf("output '%s' is a symlink or lies behind one", names[i]);
        expect(collect(r, &lease, build_links), "output-invalid", want);
    }
    struct bh_lease lease = DECLARES(r, "passwd");
    rig_set_text(&lease.outputs[0].path, "elsewhere/passwd");
    expect(collect(r, &lease, build_links), "output-invalid", "output 'passwd' is a symlink or lies behind one");
}

static void build_others(struct scene *s)
{
    T_INT(mkfifoat(s->dirfd, "out/fifo", 0644), 0);
    T_INT(mkdirat(s->dirfd, "out/folder", 0755), 0);
    BH_CLEANUP_FD int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/out/socket", s->dirfd);
    T_INT(bind(sock, (struct sockaddr *)&address, sizeof(address)), 0);
}

static void test_what_is_no_file(void **state)
{
    struct rig *r = *state;
    static const char *const cases[][2] = {
        {"fifo", "output 'fifo' is a FIFO, not a file"}, /* and nobody waits for its writer */
        {"folder", "output 'folder' is a directory, not a file"},
        {"socket", "output 'socket' is a socket, not a file"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct bh_lease lease = DECLARES(r, cases[i][0]);
        expect(collect(r, &lease, build_others), "output-invalid", cases[i][1]);
    }
}

static void build_device(struct scene *s)
{
    if (mknodat(s->dirfd, "out/device", S_IFCHR | 0666, 0x103) < 0) /* /dev/null */
        t_skip("mknod", "not allowed to make a device");
}

static void test_a_device(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "device");
    if (geteuid() != 0)
        skip();
    expect(collect(r, &lease, build_device), "output-invalid", "output 'device' is a device, not a file");
}

static void build_setuid(struct scene *s)
{
    put(s, "out/tool", "#!/bin/sh\n");
    T_INT(fchmodat(s->dirfd, "out/tool", 06711, 0), 0);
}

static void test_of_all_modes_only_the_exec_bit_leaves(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "tool");
    struct stat st;
    const struct bh_result *result = collect(r, &lease, build_setuid);
    expect(result, NULL, NULL);
    T_TRUE(result->outputs[0].object.executable);
    BH_CLEANUP_FD int dirfd = open(r->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_OK(bh_cas_link(r->cas, &result->outputs[0].object.digest, true, dirfd, "tool", &err));
    T_INT(fstatat(dirfd, "tool", &st, 0), 0);
    T_INT(st.st_mode & 07777, 0555);
}

/* --- sizes --- */

static void build_sizes(struct scene *s)
{
    put(s, "out/ten", "0123456789");
    put(s, "out/empty", "");
    put(s, "out/huge", "");
    BH_CLEANUP_FD int fd = openat(s->dirfd, "out/huge", O_WRONLY | O_CLOEXEC);
    T_INT(ftruncate(fd, INT64_C(4) << 30), 0);
}

static void test_sizes(void **state)
{
    struct rig *r = *state;
    struct bh_lease fits = DECLARES(r, "ten", "empty");
    fits.outputs[0].max_size = 10;
    fits.outputs[1].max_size = 0;
    const struct bh_result *result = collect(r, &fits, build_sizes);
    expect(result, NULL, NULL);
    rig_expect_object(r, &result->outputs[0], "ten", "0123456789");
    rig_expect_object(r, &result->outputs[1], "empty", "");
    struct bh_lease over = DECLARES(r, "ten", "empty");
    over.outputs[0].max_size = 9;
    expect(collect(r, &over, build_sizes), "output-invalid", "output 'ten' has 10 bytes, more than its max_size of 9");
    struct bh_lease huge = DECLARES(r, "empty", "huge");
    huge.outputs[1].max_size = 1 << 20;
    expect(collect(r, &huge, build_sizes), "output-invalid",
           "output 'huge' has 4294967296 bytes, more than its max_size of 1048576");
}

static void build_holes(struct scene *s)
{
    static const char *const names[] = {"out/a", "out/b", "out/c"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        put(s, names[i], "");
        BH_CLEANUP_FD int fd = openat(s->dirfd, names[i], O_WRONLY | O_CLOEXEC);
        T_INT(ftruncate(fd, 40000), 0);
    }
}

/* Holes take no disk but time of the thread that reads for all. */
static void test_all_outputs_have_the_limit_of_disk(void **state)
{
    struct rig *r = *state;
    struct bh_lease fits = DECLARES(r, "a", "b", "c");
    fits.box.limits.of[BH_LIMIT_DISK] = 120000;
    expect(collect(r, &fits, build_holes), NULL, NULL);
    struct bh_lease over = DECLARES(r, "a", "b", "c");
    over.box.limits.of[BH_LIMIT_DISK] = 119999;
    expect(
        collect(r, &over, build_holes), "output-invalid",
        "output 'c' has 40000 bytes, holes included: with it all outputs have more than the limit of disk allows, of "
        "which 39999 are left");
    struct bh_lease own = DECLARES(r, "a", "b");
    own.box.limits.of[BH_LIMIT_DISK] = 65536;
    own.outputs[1].max_size = 30000;
    expect(collect(r, &own, build_holes), "output-invalid",
           "output 'b' has 40000 bytes, more than its max_size of 30000");
}

static void build_ten_gigabytes(struct scene *s)
{
    put(s, "out/huge", "");
    BH_CLEANUP_FD int fd = openat(s->dirfd, "out/huge", O_WRONLY | O_CLOEXEC);
    T_INT(ftruncate(fd, (INT64_C(10) << 30) + 1), 0);
}

static void test_outputs_are_bounded_without_a_limit(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "huge");
    expect(collect(r, &lease, build_ten_gigabytes), "output-invalid",
           "output 'huge' has 10737418241 bytes, holes included: with it all outputs have more than the limit of disk "
           "allows, of which 10737418240 are left");
}

/* --- a store that takes no more --- */

static void build_beyond_the_store(struct scene *s)
{
    put(s, "out/small", "fits");
    put(s, "out/large", "");
    BH_CLEANUP_FD int fd = openat(s->dirfd, "out/large", O_WRONLY | O_CLOEXEC);
    T_INT(ftruncate(fd, 1 << 20), 0);
    struct rlimit limit;
    T_INT(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 64 * 1024;
    T_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_a_store_that_takes_no_more_is_the_hosts_fault(void **state)
{
    struct rig *r = *state;
    struct rlimit before;
    T_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    struct bh_lease lease = DECLARES(r, "small", "large");
    const struct bh_result *result = collect(r, &lease, build_beyond_the_store);
    T_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
    expect(result, "host", NULL);
    T_TRUE(bh_starts_with(result->detail, "storing outputs: "));
    T_TRUE(bh_ends_with(result->detail, "File too large"));
    struct bh_lease again = DECLARES(r, "ten");
    expect(collect(r, &again, build_sizes), NULL, NULL); /* and the next one finds nothing in its way */
}

/* --- missing --- */

static void build_nothing(struct scene *s)
{
    (void)s;
}

static void build_no_out(struct scene *s)
{
    T_INT(unlinkat(s->dirfd, "out", AT_REMOVEDIR), 0);
}

static void build_some(struct scene *s)
{
    put(s, "out/b/c.csv", "");
    put(s, "out/b/a.csv", "");
    put(s, "out/a b\n\x1b[31m", "");
    put(s, "out2/x", "");
    T_INT(mkdirat(s->dirfd, "out/void", 0755), 0);
    a_link(s, "out/l", "/");
}

static void test_missing_says_what_is_there(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "x");
    expect(collect(r, &lease, build_nothing), "output-missing",
           "declared output 'x' is missing; /workspace/out is empty");
    lease = DECLARES(r, "x", "b/a.csv", "b/c.csv/y", "*.txt");
    rig_set_text(&lease.outputs[2].path, "report/y");
    expect(collect(r, &lease, build_some), "output-missing",
           "declared outputs '*.txt', 'x', 'b/c.csv/y' (report/y) are missing; /workspace/out holds: "
           "a b\\x0A\\x1B[31m, b/a.csv, b/c.csv, l, void/");
    lease = DECLARES(r, "x");
    expect(collect(r, &lease, build_no_out), "output-missing",
           "declared output 'x' is missing; /workspace/out does not exist");
}

/* What a tainted agent called its files is in no message. */
static void test_tainted_names_are_withheld(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "x");
    lease.tainted = true;
    expect(collect(r, &lease, build_some), "output-missing",
           "declared output 'x' is missing; /workspace/out holds 6 entries, whose names are withheld (the agent is "
           "tainted)");
    lease = DECLARES(r, "l*");
    lease.tainted = true;
    expect(collect(r, &lease, build_some), "output-invalid",
           "glob output 'l*' matches a name that is withheld (the agent is tainted), which is a symlink");
}

static void build_many(struct scene *s)
{
    for (int i = 0; i < 25; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("out/f%02d", i);
        put(s, name, "");
    }
    char longest[256];
    memset(longest, 'z', 255);
    longest[255] = '\0';
    BH_CLEANUP_FREE char *name = bh_asprintf("out/%s", longest);
    put(s, name, "");
}

static void test_a_long_list_is_cut(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "x");
    const struct bh_result *result = collect(r, &lease, build_many);
    expect(result, "output-missing", NULL);
    T_TRUE(bh_ends_with(result->detail, "f17, f18, f19 and 6 more"));
}

static void test_optional_outputs_may_be_absent(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "ten", "gone", "*.none");
    lease.outputs[1].optional = true;
    lease.outputs[2].optional = true;
    const struct bh_result *result = collect(r, &lease, build_sizes);
    expect(result, NULL, NULL);
    T_INT(result->n_outputs, 1);
    rig_expect_object(r, &result->outputs[0], "ten", "0123456789");
    struct bh_lease none = DECLARES(r, "gone", "*.none");
    none.outputs[0].optional = true;
    none.outputs[1].optional = true;
    expect(collect(r, &none, build_no_out), NULL, NULL);
}

/* --- globs --- */

static void build_family(struct scene *s)
{
    put(s, "out/a.json", "A");
    put(s, "out/b.json", "B");
    put(s, "out/sub/c.json", "C");
    put(s, "out/sub/d.txt", "D");
    put(s, "out/.hidden/-rf", "");
    put(s, "out2/e.json", "E");
}

static void expect_names(const struct bh_result *result, const char *want)
{
    BH_CLEANUP_BUF struct bh_buf got = BH_BUF_INIT;
    for (size_t i = 0; i < result->n_outputs; i++)
        bh_buf_addf(&got, "%s ", result->outputs[i].name);
    T_STR(got.data, want);
}

static void test_globs_take_what_they_match(void **state)
{
    struct rig *r = *state;
    static const char *const cases[][2] = {
        {"*.json", "a.json b.json "},        {"**/*.json", "sub/c.json "}, {"sub/*", "sub/c.json sub/d.txt "},
        {"sub/**", "sub/c.json sub/d.txt "}, {"?.json", "a.json b.json "},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        if (bh_streq(cases[i][0], "**/*.json") && bh_glob_match("**/*.json", "a.json"))
            continue; /* whether '**' crosses nothing is the glob's own test */
        struct bh_lease lease = DECLARES(r, cases[i][0]);
        const struct bh_result *result = collect(r, &lease, build_family);
        expect(result, NULL, NULL);
        expect_names(result, cases[i][1]);
    }
}

static void test_a_name_is_taken_once(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "*.json", "a*", "a.json");
    const struct bh_result *result = collect(r, &lease, build_family);
    expect(result, NULL, NULL);
    expect_names(result, "b.json a.json ");
    rig_expect_object(r, &result->outputs[1], "a.json", "A");
}

static void build_bad_names(struct scene *s)
{
    char name[300];
    put(s, "out/a b", "");
    put(s, "out/new\nline", "");
    put(s, "out/\xff\xfe", "");
    put(s, "out/-rf", "");
    put(s, "out/x@2", "");
    put(s, "out/fine", "");
    memset(name, 'n', sizeof(name));
    memcpy(name, "out/", 4);
    name[4 + 255] = '\0';
    put(s, name, "");
    T_INT(mkdirat(s->dirfd, "out/folder", 0755), 0);
    a_link(s, "out/link", "fine");
    T_INT(mkfifoat(s->dirfd, "out/fifo", 0644), 0);
}

static void test_globs_refuse_what_cannot_be_published(void **state)
{
    struct rig *r = *state;
    static const char *const cases[][2] = {
        {"a*", "glob output 'a*' matches 'a b', which "},
        {"new*", "glob output 'new*' matches 'new\\x0Aline', which "},
        {"?rf", "glob output '?rf' matches '-rf', which "},
        {"x*", "glob output 'x*' matches 'x@2', which "},
        {"nnn*", "glob output 'nnn*' matches 'nnn"},
        {"fold*", "glob output 'fold*' matches 'folder', which is a directory"},
        {"li*", "glob output 'li*' matches 'link', which is a symlink"},
        {"fi?o", "glob output 'fi?o' matches 'fifo', which is not a file"},
        {"*", "glob output '*' matches "},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(cases); i++) {
        struct bh_lease lease = DECLARES(r, "fine", cases[i][0]);
        const struct bh_result *result = collect(r, &lease, build_bad_names);
        expect(result, "output-invalid", NULL);
        if (!bh_starts_with(result->detail, cases[i][1]))
            fail_msg("'%s' is not '%s…'", result->detail, cases[i][1]);
    }
    struct bh_lease lease = DECLARES(r, "fin*");
    expect(collect(r, &lease, build_bad_names), NULL, NULL); /* what is not matched does not matter */
}

static void test_a_glob_without_a_match(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "*.csv");
    expect(collect(r, &lease, build_nothing), "output-missing",
           "declared output '*.csv' is missing; /workspace/out is empty");
    lease = DECLARES(r, "*.csv");
    expect(collect(r, &lease, build_no_out), "output-missing",
           "declared output '*.csv' is missing; /workspace/out does not exist");
}

static void test_more_matches_than_allowed(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "f*");
    lease.outputs[0].max_files = 24;
    expect(collect(r, &lease, build_many), "output-invalid", "glob output 'f*' matches more than 24 files");
    lease = DECLARES(r, "f*");
    lease.outputs[0].max_files = 25;
    const struct bh_result *result = collect(r, &lease, build_many);
    expect(result, NULL, NULL);
    T_INT(result->n_outputs, 25);
}

static void build_crowd(struct scene *s)
{
    for (int i = 0; i <= 10000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "out/%d", i);
        T_INT(mknodat(s->dirfd, name, S_IFREG | 0644, 0), 0);
    }
}

static void build_deep(struct scene *s)
{
    BH_CLEANUP_FD int at = openat(s->dirfd, "out", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 70; i++) {
        T_INT(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        bh_close(at);
        at = next;
    }
}

static void test_folders_without_measure(void **state)
{
    struct rig *r = *state;
    static const char *const want =
        "glob output 'z*': the output folder holds more than 10000 entries, or is deeper than 64";
    struct bh_lease lease = DECLARES(r, "z*");
    expect(collect(r, &lease, build_deep), "output-invalid", want);
    lease = DECLARES(r, "zzz");
    const struct bh_result *result = collect(r, &lease, build_crowd);
    expect(result, "output-missing", NULL);
    T_TRUE(bh_ends_with(result->detail, " and at least 9980 more"));
}

/* --- a neighbour that writes --- */

struct writer {
    pthread_t thread;
    int dirfd;
    atomic_bool stop;
    void (*once)(struct writer *w);
};

static void *write_on(void *arg)
{
    struct writer *w = arg;
    while (!atomic_load(&w->stop))
        w->once(w);
    return NULL;
}

static struct writer neighbour;

static void append(struct writer *w)
{
    BH_CLEANUP_FD int fd = openat(w->dirfd, "out/log", O_WRONLY | O_APPEND | O_CLOEXEC);
    (void)!write(fd, "x", 1);
}

static void build_growing(struct scene *s)
{
    put(s, "out/log", "");
    BH_CLEANUP_FD int fd = openat(s->dirfd, "out/log", O_WRONLY | O_CLOEXEC);
    T_INT(ftruncate(fd, 32 << 20), 0);
    neighbour = (struct writer){.dirfd = s->dirfd, .once = append};
    T_INT(pthread_create(&neighbour.thread, NULL, write_on, &neighbour), 0);
}

static void stop_neighbour(void)
{
    atomic_store(&neighbour.stop, true);
    T_INT(pthread_join(neighbour.thread, NULL), 0);
}

static void test_a_file_that_grows_is_a_collision(void **state)
{
    struct rig *r = *state;
    struct bh_lease lease = DECLARES(r, "log");
    lease.box.shared = true;
    struct scene s = {.r = r, .dirfd = -1, .build = build_growing};
    r->boxes->on_open = on_open;
    r->boxes->on_open_arg = &s;
    const struct bh_result *result = rig_run(r, &lease);
    stop_neighbour();
    bh_close(s.dirfd);
    bh_free(s.workspace);
    expect(result, "collision",
           "output 'log' changed while it was collected; nobody else was seen in box 'writer' meanwhile");
}

/* Swaps the output with a link to a secret, as fast as it can. */
static void swap(struct writer *w)
{
    (void)renameat2(w->dirfd, "out/x", w->dirfd, "trap", RENAME_EXCHANGE);
}

static void build_swapping(struct scene *s)
{
    put(s, "out/x", "mine");
    BH_CLEANUP_FREE char *secret = bh_path_join(s->r->home, "secret");
    T_OK(bh_write_file_atomic(secret, "secret", 6, 0600, &err));
    a_link(s, "trap", secret);
    neighbour = (struct writer){.dirfd = s->dirfd, .once = swap};
    T_INT(pthread_create(&neighbour.thread, NULL, write_on, &neighbour), 0);
}

static void test_a_swapped_link_never_wins(void **state)
{
    struct rig *r = *state;
    int good = 0, refused = 0;
    for (int i = 0; i < 60; i++) {
        struct bh_lease lease = DECLARES(r, "x");
        lease.box.shared = true;
        struct scene s = {.r = r, .dirfd = -1, .build = build_swapping};
        r->boxes->on_open = on_open;
        r->boxes->on_open_arg = &s;
        const struct bh_result *result = rig_run(r, &lease);
        stop_neighbour();
        bh_close(s.dirfd);
        bh_free(s.workspace);
        if (result->outcome == BH_OUTCOME_SUCCEEDED) {
            good++;
            rig_expect_object(r, &result->outputs[0], "x", "mine");
        } else {
            refused++;
            T_TRUE(bh_streq(result->reason, "output-invalid") || bh_streq(result->reason, "collision"));
        }
    }
    T_INT(good + refused, 60);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, rig_setup, rig_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_links_never_leave),
        TEST(test_what_is_no_file),
        TEST(test_a_device),
        TEST(test_of_all_modes_only_the_exec_bit_leaves),
        TEST(test_sizes),
        TEST(test_all_outputs_have_the_limit_of_disk),
        TEST(test_outputs_are_bounded_without_a_limit),
        TEST(test_a_store_that_takes_no_more_is_the_hosts_fault),
        TEST(test_missing_says_what_is_there),
        TEST(test_tainted_names_are_withheld),
        TEST(test_a_long_list_is_cut),
        TEST(test_optional_outputs_may_be_absent),
        TEST(test_globs_take_what_they_match),
        TEST(test_a_name_is_taken_once),
        TEST(test_globs_refuse_what_cannot_be_published),
        TEST(test_a_glob_without_a_match),
        TEST(test_more_matches_than_allowed),
        TEST(test_folders_without_measure),
        TEST(test_a_file_that_grows_is_a_collision),
        TEST(test_a_swapped_link_never_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
