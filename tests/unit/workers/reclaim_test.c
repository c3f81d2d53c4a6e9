/* SPDX-License-Identifier: Apache-2.0 */
/* Clearing up after a dead owner: what is ours goes, what is kept stays, and a number that is somebody else's now
 * lives. */
#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/process.h"
#include "tests/support/t.h"
#include "workers/box/box.h"
#include "workers/box/folder.h"
#include "workers/box/reclaim.h"

static const struct bh_box_owner single = {.mode = BH_IDS_SINGLE};

static int set_up(void **state)
{
    *state = t_tmpdir();
    return 0;
}

static int tear_down(void **state)
{
    t_tmpdir_free(*state);
    return 0;
}

static bool there(const char *run, const char *name)
{
    BH_CLEANUP_FREE char *path = bh_path_join(run, name);
    return access(path, F_OK) == 0;
}

static void put(const char *run, const char *name, const char *text)
{
    BH_CLEANUP_FREE char *path = bh_path_join(run, name);
    BH_CLEANUP_FREE char *dir = bh_path_dirname(path);
    T_OK(bh_mkdir_p(dir, 0755, &err));
    BH_CLEANUP_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    T_TRUE(fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0);
}

/* A child that waits for ever. */
static pid_t sleeper(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        for (;;)
            (void)pause();
    }
    return pid;
}

static void note(const char *run, const char *key, pid_t pid, const char *start, const char *boot)
{
    BH_CLEANUP_FREE char *name = bh_asprintf("boxes/%s/pid", key);
    BH_CLEANUP_FREE char *text = bh_asprintf("%d %s %s\n", (int)pid, start, boot);
    put(run, name, text);
}

static void makes_and_removes_folders(void **state)
{
    const char *run = *state;
    T_OK(bh_box_folder_make(run, "k1", &single, false, &err));
    T_TRUE(there(run, "boxes/k1/upper/root") && there(run, "boxes/k1/work/root") && there(run, "boxes/k1/deliver"));
    T_TRUE(!there(run, "boxes/k1/upper/usr"));
    T_ERR(bh_box_folder_make(run, "k1", &single, false, &err), BH_E_EXISTS, "'k1'");
    T_OK(bh_box_folder_make(run, "k2", &single, true, &err));
    T_TRUE(there(run, "boxes/k2/upper/usr") && there(run, "boxes/k2/work/opt"));
    put(run, "boxes/k2/upper/root/f", "kept");
    T_OK(bh_box_folder_remove(run, "k1", false, &err));
    T_OK(bh_box_folder_remove(run, "k2", true, &err));
    T_OK(bh_box_folder_remove(run, "none", false, &err));
    T_OK(bh_box_folder_remove(run, "none", true, &err));
    T_TRUE(!there(run, "boxes/k1"));
    T_TRUE(there(run, "boxes/k2/upper/root/f") && !there(run, "boxes/k2/work") && !there(run, "boxes/k2/deliver"));
    T_ERR(bh_box_folder_make("/nonexistent/run", "k", &single, false, &err), BH_E_IO, "/nonexistent/run");
}

static void open_and(const char *run, const char *name, int (*fn)(int fd))
{
    BH_CLEANUP_FREE char *path = bh_path_join(run, name);
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_TRUE(fd >= 0);
    T_INT(fn(fd), 0);
}

static int spoil(int fd)
{
    return fchmod(fd, 0777) < 0 || fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0 ? -1 : 0;
}

static int check_good(int fd)
{
    char names[256];
    struct stat st;
    return fstat(fd, &st) == 0 && (st.st_mode & 07777) == 0755 && flistxattr(fd, names, sizeof(names)) == 0 ? 0 : -1;
}

static bool flagged; /* not every file system has flags */

static int flag(int fd)
{
    int flags;
    if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0) {
        flags |= FS_NODUMP_FL;
        flagged = ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
    }
    return 0;
}

#define LONG_AGO 1234567890

static int set_times(int fd)
{
    return futimens(fd, (struct timespec[]){{.tv_sec = LONG_AGO}, {.tv_sec = LONG_AGO}});
}

static int check_times(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_mtime != LONG_AGO && st.st_atime != LONG_AGO ? 0 : -1;
}

static void empties_a_folder_or_says_that_it_cannot(void **state)
{
    const char *run = *state;
    T_OK(bh_box_folder_make(run, "k", &single, true, &err));
    put(run, "boxes/k/upper/root/etc/f", "x");
    put(run, "boxes/k/upper/usr/f", "x");
    put(run, "boxes/k/work/root/work/incompat/volatile", "x");
    put(run, "boxes/k/deliver/in/f", "x");
    put(run, "boxes/k/pid", "1 2\n");
    open_and(run, "boxes/k/upper/root", spoil);
    open_and(run, "boxes/k/upper/root", set_times);
    open_and(run, "boxes/k/upper/usr", set_times);
    T_INT(bh_box_folder_empty(run, "k", &single), 0);
    open_and(run, "boxes/k/upper/root", check_good);
    open_and(run, "boxes/k/upper/root", check_times);
    open_and(run, "boxes/k/upper/usr", check_times);
    T_TRUE(!there(run, "boxes/k/upper/root/etc") && !there(run, "boxes/k/upper/usr/f"));
    T_TRUE(!there(run, "boxes/k/work/root/work") && !there(run, "boxes/k/deliver/in"));
    T_TRUE(there(run, "boxes/k/upper/opt") && there(run, "boxes/k/deliver"));
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err)); /* the emptied pid file means nobody */
    T_TRUE(!there(run, "boxes/k"));
    T_OK(bh_box_folder_make(run, "k", &single, false, &err));
    open_and(run, "boxes/k/upper/root", flag); /* what an agent set on the root of its box */
    T_INT(bh_box_folder_empty(run, "k", &single), flagged ? -1 : 0);
    T_INT(bh_box_folder_empty(run, "none", &single), -1);
    T_OK(bh_box_folder_make(run, "big", &single, false, &err));
    for (int i = 0; i < 3000; i++) {
        BH_CLEANUP_FREE char *name = bh_asprintf("%s/boxes/big/upper/root/%0200d", run, i);
        T_INT(mknod(name, S_IFREG, 0), 0);
    }
    struct stat st;
    BH_CLEANUP_FREE char *root = bh_path_join(run, "boxes/big/upper/root");
    T_INT(stat(root, &st), 0);
    T_INT(bh_box_folder_empty(run, "big", &single), st.st_size > st.st_blksize ? -1 : 0); /* it would stay that large */
}

/* What an overlay leaves, and the mark of a file that was there for a moment. */
static void tells_a_root_that_nobody_has_written_to(void **state)
{
    const char *run = *state;
    static const char *const written[] = {"boxes/k/upper/root/etc/f", "boxes/k/upper/root/f",
                                          "boxes/k/work/root/work/#1"};
    struct bh_box_stamp stamp;
    for (size_t i = 0; i <= BH_ARRAY_LEN(written); i++) {
        T_OK(bh_box_folder_make(run, "k", &single, false, &err));
        bh_box_folder_stamp(run, "k", &stamp);
        T_TRUE(!bh_box_folder_unused(run, "k", &single, &stamp)); /* no overlay was ever there */
        put(run, "boxes/k/work/root/work/incompat/volatile/dirty", "");
        put(run, "boxes/k/deliver/in/f", "x");
        put(run, "boxes/k/pid", "1 2\n");
        if (i < BH_ARRAY_LEN(written))
            put(run, written[i], "x");
        T_INT(bh_box_folder_unused(run, "k", &single, &stamp), i == BH_ARRAY_LEN(written));
        if (i < BH_ARRAY_LEN(written))
            T_OK(bh_box_folder_remove(run, "k", false, &err));
    }
    T_TRUE(there(run, "boxes/k/work/root/work/incompat/volatile/dirty") && !there(run, "boxes/k/deliver/in"));
    T_TRUE(bh_box_folder_unused(run, "k", &single, &stamp)); /* looking changed nothing */
    T_TRUE(!bh_box_folder_unused(run, "k", &single, &(struct bh_box_stamp){.taken = false}));
    bh_box_folder_stamp(run, "none", &stamp);
    T_TRUE(!stamp.taken);
    T_TRUE(!bh_box_folder_unused(run, "none", &single, &stamp));
    T_INT(bh_box_folder_empty(run, "k", &single), 0);
    T_TRUE(!there(run, "boxes/k/work/root/work"));
}

/* What kernels count the time of changes in. */
static void await_tick(void)
{
    struct timespec then, now;
    T_INT(clock_gettime(CLOCK_REALTIME_COARSE, &then), 0);
    do
        T_INT(clock_gettime(CLOCK_REALTIME_COARSE, &now), 0);
    while (now.tv_nsec == then.tv_nsec);
}

static int restore(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && fchmod(fd, 0700) == 0 ? fchmod(fd, 0755) : -1;
}

/* A name that was there for a moment, and the times as they were. */
static int pass_by(int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || mkdirat(fd, "d", 0700) < 0 || unlinkat(fd, "d", AT_REMOVEDIR) < 0)
        return -1;
    return futimens(fd, (struct timespec[]){st.st_atim, st.st_mtim});
}

static int set_atime(int fd)
{
    return futimens(fd, (struct timespec[]){{.tv_sec = LONG_AGO}, {.tv_nsec = UTIME_OMIT}});
}

/* Each of them would be a word of one box to the next. */
static void tells_what_was_done_to_the_root_itself(void **state)
{
    const char *run = *state;
    static int (*const deeds[])(int fd) = {set_times, set_atime, restore, pass_by, flag};
    struct bh_box_stamp stamp;
    T_OK(bh_box_folder_make(run, "k", &single, false, &err));
    put(run, "boxes/k/work/root/work/incompat/volatile/dirty", "");
    for (size_t i = 0; i < BH_ARRAY_LEN(deeds); i++) {
        bh_box_folder_stamp(run, "k", &stamp);
        T_TRUE(stamp.taken && bh_box_folder_unused(run, "k", &single, &stamp));
        await_tick();
        flagged = deeds[i] != flag;
        open_and(run, "boxes/k/upper/root", deeds[i]);
        T_INT(bh_box_folder_unused(run, "k", &single, &stamp), !flagged);
    }
    open_and(run, "boxes/k/upper/root", spoil);
    open_and(run, "boxes/k/upper/root", restore);
    bh_box_folder_stamp(run, "k", &stamp);
    T_TRUE(!bh_box_folder_unused(run, "k", &single, &stamp)); /* its attributes */
}

static void removes_boxes_but_the_kept(void **state)
{
    const char *run = *state;
    T_OK(bh_box_folder_make(run, "dead", &single, false, &err));
    T_OK(bh_box_folder_make(run, "kept", &single, false, &err));
    T_OK(bh_box_folder_remove(run, "kept", true, &err));
    T_OK(bh_box_folder_make(run, "judged", &single, false, &err));
    T_INT(bh_box_folder_undecided(run, "judged", true), 0); /* killed while its attempt was judged */
    T_OK(bh_box_folder_remove(run, "judged", true, &err));
    T_OK(bh_box_folder_make(run, "decided", &single, false, &err));
    T_INT(bh_box_folder_undecided(run, "decided", true), 0);
    T_OK(bh_box_folder_remove(run, "decided", true, &err));
    T_INT(bh_box_folder_undecided(run, "decided", false), 0);
    T_INT(bh_box_folder_undecided(run, "decided", false), 0); /* as it is already */
    put(run, "boxes/.gone-x-1/work/f", "");
    put(run, "boxes/torn/pid", "12");
    /* Killed while it removed a box: what is left of it looks like one that was kept. */
    put(run, "boxes/" BH_TEMPORARY_PREFIX "box/upper/root/f", "");
    put(run, "boxes/.gone-p1/upper/root/f", "");
    put(run, BH_TEMPORARY_PREFIX "layers/crew-2/below", "crew-1\n"); /* or the layers of a run that was done */
    put(run, "tmp/cas-upload", "half");
    put(run, "tmp/dir/f", "half");
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err));
    T_TRUE(!there(run, "boxes/dead") && !there(run, "boxes/.gone-x-1") && !there(run, "boxes/torn"));
    T_TRUE(!there(run, "boxes/" BH_TEMPORARY_PREFIX "box") && !there(run, "boxes/.gone-p1"));
    T_TRUE(!there(run, BH_TEMPORARY_PREFIX "layers"));
    T_TRUE(there(run, "boxes/kept/upper/root") && there(run, "boxes/decided/upper/root") &&
           !there(run, "boxes/judged"));
    T_TRUE(there(run, "tmp") && !there(run, "tmp/cas-upload") && !there(run, "tmp/dir"));
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err)); /* a second time finds nothing */
}

static void ends_a_box_that_lives(void **state)
{
    const char *run = *state;
    char start[BH_PROCESS_START], boot[BH_PROCESS_BOOT];
    int status;
    pid_t pid = sleeper();
    bh_process_boot(boot);
    T_INT(bh_process_start(pid, start), 0);
    T_OK(bh_box_folder_make(run, "k", &single, false, &err));
    note(run, "k", pid, start, boot);
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err));
    T_INT(waitpid(pid, &status, WNOHANG), pid); /* it was dead when reclaim returned */
    T_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    T_TRUE(!there(run, "boxes/k"));
}

static void never_touches_a_reused_number(void **state)
{
    const char *run = *state;
    char start[BH_PROCESS_START], boot[BH_PROCESS_BOOT], longer[40];
    pid_t pid = sleeper();
    bh_process_boot(boot);
    T_INT(bh_process_start(pid, start), 0);
    (void)snprintf(longer, sizeof(longer), "%s0", start); /* the true one is its prefix */
    const struct {
        const char *start, *boot;
    } notes[] = {
        {"1", boot},    {"x", boot},
        {"", boot},     {"99999999999999999999", boot},
        {longer, boot}, {start, "11111111-2222-3333-4444-555555555555"},
        {start, "-"},   {start, ""}, /* as older ones wrote it */
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(notes); i++) {
        T_OK(bh_box_folder_make(run, "k", &single, false, &err));
        note(run, "k", pid, notes[i].start, notes[i].boot);
        T_OK(bh_boxes_reclaim(run, NULL, 0, &err));
        T_TRUE(!there(run, "boxes/k"));
    }
    BH_CLEANUP_FREE char *torn = bh_asprintf("%d %s %s", (int)pid, start, boot);
    put(run, "boxes/torn/pid", torn);
    put(run, "boxes/zero/pid", "0 1\n");
    put(run, "boxes/one/pid", "1 1\n");
    put(run, "boxes/minus/pid", "-1 1\n");
    T_OK(bh_boxes_reclaim(run, NULL, 0, &err));
    T_INT(waitpid(pid, NULL, WNOHANG), 0); /* lives */
    T_INT(kill(pid, SIGKILL), 0);
    T_INT(waitpid(pid, NULL, 0), pid);
}

static void keeps_layers_in_use(void **state)
{
    const char *run = *state;
    const char *const keep[] = {"top"};
    put(run, "layers/bottom/root/f", "x");
    put(run, "layers/top/below", "bottom\n");
    put(run, "layers/unused/root/f", "x");
    put(run, "layers/.half-new/root/f", "x");
    T_OK(bh_boxes_reclaim(run, keep, 1, &err));
    T_TRUE(there(run, "layers/top") && there(run, "layers/bottom/root/f"));
    T_TRUE(!there(run, "layers/unused") && !there(run, "layers/.half-new"));
    const char *const missing[] = {"nothing"};
    T_ERR(bh_boxes_reclaim(run, missing, 1, &err), BH_E_NOT_FOUND, "'nothing'");
    T_TRUE(there(run, "layers/top")); /* and nothing was removed then */
}

struct found {
    unsigned n, failed;
    int64_t bytes;
    char paths[512];
};

static void note_found(void *arg, const struct bh_reclaimed *what)
{
    struct found *f = arg;
    f->n++;
    f->failed += what->error != 0;
    f->bytes += what->bytes;
    (void)snprintf(f->paths + strlen(f->paths), sizeof(f->paths) - strlen(f->paths), "%s %s\n", what->kind, what->path);
}

static void says_what_it_finds_before_it_goes(void **state)
{
    const char *run = *state;
    struct found looked = {0}, removed = {0}, again = {0};
    struct bh_reclaim how = {.dry_run = true, .found = note_found, .arg = &looked};
    char much[20000] = "";
    memset(much, 'x', sizeof(much) - 1);
    T_OK(bh_box_folder_make(run, "dead", &single, false, &err));
    T_OK(bh_box_folder_make(run, "kept", &single, false, &err));
    T_OK(bh_box_folder_remove(run, "kept", true, &err));
    put(run, "boxes/dead/upper/root/f", much);
    put(run, "tmp/half", "x");
    put(run, ".bh-tmp-x", "x");
    put(run, "layers/unused/root/f", "x");
    const char *const none[] = {NULL};
    T_OK(bh_boxes_reclaim_how(run, none, 0, &how, &err));
    T_STR(looked.paths, "box boxes/dead\ntemporary tmp/half\ntemporary .bh-tmp-x\nlayer layers/unused\n");
    T_TRUE(looked.bytes >= 20000 && there(run, "boxes/dead/work") && there(run, "tmp/half"));
    how = (struct bh_reclaim){.found = note_found, .arg = &removed};
    T_OK(bh_boxes_reclaim_how(run, none, 0, &how, &err));
    T_STR(removed.paths, looked.paths);
    T_INT(removed.bytes, looked.bytes);
    T_TRUE(!there(run, "boxes/dead") && !there(run, "tmp/half") && !there(run, ".bh-tmp-x"));
    T_TRUE(there(run, "boxes/kept/upper") && bh_boxes_some_kept(run));
    how.arg = &again;
    T_OK(bh_boxes_reclaim_how(run, none, 0, &how, &err));
    T_INT(again.n, 0);
}

static void leaves_layers_that_nobody_knows(void **state)
{
    const char *run = *state;
    const struct bh_reclaim how = {0};
    put(run, "layers/some/root/f", "x");
    T_OK(bh_boxes_reclaim_how(run, NULL, 0, &how, &err));
    T_TRUE(there(run, "layers/some/root/f") && !bh_boxes_some_kept(run));
}

static void needs_a_run(void **state)
{
    (void)state;
    T_ERR(bh_boxes_reclaim("/nonexistent/run", NULL, 0, &err), BH_E_IO, "/nonexistent/run");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(makes_and_removes_folders),
        TEST(empties_a_folder_or_says_that_it_cannot),
        TEST(tells_a_root_that_nobody_has_written_to),
        TEST(tells_what_was_done_to_the_root_itself),
        TEST(removes_boxes_but_the_kept),
        TEST(ends_a_box_that_lives),
        TEST(never_touches_a_reused_number),
        TEST(keeps_layers_in_use),
        TEST(says_what_it_finds_before_it_goes),
        TEST(leaves_layers_that_nobody_knows),
        TEST(needs_a_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
