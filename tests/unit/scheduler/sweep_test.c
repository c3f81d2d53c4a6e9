/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "scheduler/gc.h"
#include "scheduler/sweep.h"

struct fixture {
    char *dir;
    struct bh_home home;
};

static int setup(void **state)
{
    struct fixture *f = bh_alloc(sizeof(*f));
    f->dir = t_tmpdir();
    T_OK(bh_home_open(f->dir, true, &f->home, &err));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    bh_home_close(&f->home);
    t_tmpdir_free(f->dir);
    bh_free(f);
    return 0;
}

/* runs/RUN with a temporary file in it, as old as given. */
static struct bh_run_id make_run(const struct fixture *f, bool head, time_t age)
{
    struct bh_run_id id = bh_run_id_new();
    BH_CLEANUP_FREE char *tmp = bh_home_run_path(&f->home, id.s, "tmp");
    BH_CLEANUP_FREE char *mark = bh_home_run_path(&f->home, id.s, "head");
    BH_CLEANUP_FREE char *dir = bh_home_run_path(&f->home, id.s, NULL);
    struct timespec old[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};
    T_OK(bh_mkdir_p(tmp, 0700, &err));
    if (head)
        T_OK(bh_write_file_atomic(mark, "1 x\n", 4, 0600, &err));
    T_INT(utimensat(AT_FDCWD, dir, old, 0), 0);
    return id;
}

static bool is_there(const struct fixture *f, struct bh_run_id id, const char *rel)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(&f->home, id.s, rel);
    return access(path, F_OK) == 0;
}

static void count(void *arg, const struct bh_reclaimed *what)
{
    (void)what;
    ++*(unsigned *)arg;
}

static void orphans_go_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct bh_run_id orphan = make_run(f, false, 3600), young = make_run(f, false, 5),
                     recorded = make_run(f, true, 3600), owned = make_run(f, false, 3600), dead = make_run(f, false, 5);
    BH_CLEANUP_FD int lock = -1;
    BH_CLEANUP_FREE char *stranger = bh_home_path(&f->home, "runs/not-a-run");
    T_OK(bh_mkdir_p(stranger, 0700, &err));
    T_OK(bh_home_own_run(&f->home, owned.s, 0, &lock, &err));
    BH_CLEANUP_FREE char *owned_dir = bh_home_run_path(&f->home, owned.s, NULL);
    struct timespec old[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    T_INT(utimensat(AT_FDCWD, owned_dir, old, 0), 0);
    int gone = -1;
    T_OK(bh_home_own_run(&f->home, dead.s, 0, &gone, &err));
    close(gone); /* its process died young */
    unsigned n = 0;
    const struct bh_reclaim look = {.dry_run = true, .found = count, .arg = &n}, sweep = {0};
    bh_sweep_orphans(&f->home, &look);
    T_INT(n, 2);
    T_TRUE(is_there(f, dead, "tmp") && is_there(f, orphan, "tmp"));
    bh_sweep_orphans(&f->home, &sweep);
    T_TRUE(!is_there(f, dead, NULL));
    T_TRUE(!is_there(f, orphan, NULL));
    T_TRUE(is_there(f, young, "tmp"));
    T_TRUE(is_there(f, recorded, "tmp"));
    T_TRUE(is_there(f, owned, "tmp"));
    T_INT(access(stranger, F_OK), 0);
}

static void an_ended_run_keeps_what_is_asked_for(void **state)
{
    struct fixture *f = *state;
    struct bh_run_id good = make_run(f, true, 0), kept = make_run(f, true, 0), failed = make_run(f, true, 0);
    struct bh_run_id *all[] = {&good, &kept, &failed};
    for (size_t i = 0; i < BH_ARRAY_LEN(all); i++) {
        BH_CLEANUP_FREE char *layer = bh_home_run_path(&f->home, all[i]->s, "layers/crew-1/root");
        BH_CLEANUP_FREE char *boxes = bh_home_run_path(&f->home, all[i]->s, i == 1 ? "boxes/crew.1.1/upper" : "boxes");
        T_OK(bh_mkdir_p(layer, 0700, &err));
        T_OK(bh_mkdir_p(boxes, 0700, &err));
    }
    bh_sweep_ended_run(&f->home, good.s, true);
    bh_sweep_ended_run(&f->home, kept.s, true);
    bh_sweep_ended_run(&f->home, failed.s, false);
    T_TRUE(!is_there(f, good, "tmp") && !is_there(f, good, "layers") && !is_there(f, good, "boxes"));
    T_TRUE(is_there(f, kept, "layers/crew-1/root") && is_there(f, kept, "boxes/crew.1.1/upper"));
    T_TRUE(is_there(f, failed, "layers/crew-1/root") && !is_there(f, failed, "boxes"));
}

static void half_bases_go_unless_somebody_makes_them(void **state)
{
    struct fixture *f = *state;
    BH_CLEANUP_FREE char *dead = bh_home_path(&f->home, "bases/" BH_TEMPORARY_PREFIX "dead/etc");
    BH_CLEANUP_FREE char *made = bh_home_path(&f->home, "bases/" BH_TEMPORARY_PREFIX "made");
    BH_CLEANUP_FREE char *whole = bh_home_path(&f->home, "bases/host-1/etc");
    BH_CLEANUP_FREE char *dead_top = bh_path_dirname(dead);
    unsigned n = 0;
    const struct bh_reclaim how = {.found = count, .arg = &n};
    T_OK(bh_mkdir_p(dead, 0700, &err));
    T_OK(bh_mkdir_p(made, 0700, &err));
    T_OK(bh_mkdir_p(whole, 0700, &err));
    BH_CLEANUP_FD int lock = open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    T_INT(flock(lock, LOCK_EX | LOCK_NB), 0);
    bh_sweep_half_bases(&f->home, &how);
    T_INT(n, 1);
    T_TRUE(access(dead_top, F_OK) < 0 && access(made, F_OK) == 0 && access(whole, F_OK) == 0);
    bh_close(BH_TAKE_FD(lock));
    bh_sweep_at_start(&f->home);
    T_TRUE(access(made, F_OK) < 0 && access(whole, F_OK) == 0);
}

/* A state directory that no store was ever made in. */
static void collects_without_a_store(void **state)
{
    struct fixture *f = *state;
    struct bh_run_id orphan = make_run(f, false, 3600), recorded = make_run(f, true, 3600);
    BH_CLEANUP_FREE char *old = bh_home_path(&f->home, BH_TEMPORARY_PREFIX "old");
    BH_CLEANUP_FREE char *young = bh_home_path(&f->home, BH_TEMPORARY_PREFIX "young");
    const struct timespec hour[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    struct bh_errlist errors = {0};
    struct bh_gc_result result;
    unsigned n = 0;
    const struct bh_reclaim how = {.found = count, .arg = &n};
    T_OK(bh_write_file_atomic(old, "x", 1, 0600, &err));
    T_OK(bh_write_file_atomic(young, "x", 1, 0600, &err));
    T_INT(utimensat(AT_FDCWD, old, hour, 0), 0);
    bh_gc(&f->home, &how, NULL, &result, &errors);
    T_TRUE(!is_there(f, orphan, NULL) && is_there(f, recorded, "tmp"));
    T_TRUE(access(old, F_OK) < 0 && access(young, F_OK) == 0);
    T_TRUE(n >= 2);
    bh_errlist_fini(&errors);
}

/* Who points a folder of the home elsewhere has nothing removed there. */
static void links_are_not_followed(void **state)
{
    struct fixture *f = *state;
    char *elsewhere = t_tmpdir();
    struct bh_run_id orphan = make_run(f, false, 3600);
    struct bh_errlist errors = {0};
    struct bh_gc_result result;
    unsigned n = 0;
    const struct bh_reclaim how = {.found = count, .arg = &n};
    BH_CLEANUP_FREE char *half = bh_asprintf("%s/" BH_TEMPORARY_PREFIX "1", elsewhere);
    BH_CLEANUP_FREE char *run = bh_asprintf("%s/%s", elsewhere, orphan.s);
    BH_CLEANUP_FREE char *bases = bh_home_path(&f->home, "bases"), *runs = bh_home_path(&f->home, "runs");
    T_OK(bh_mkdir_p(half, 0700, &err));
    T_INT(rename(runs, run), 0); /* an orphan and all, one further down */
    BH_CLEANUP_FREE char *deep = bh_asprintf("%s/%s", run, orphan.s);
    T_INT(rmdir(bases), 0);
    T_INT(symlink(elsewhere, bases), 0);
    T_INT(symlink(run, runs), 0);
    bh_gc(&f->home, &how, NULL, &result, &errors);
    bh_sweep_at_start(&f->home);
    bh_sweep_unrecorded_run(&f->home, orphan.s);
    bh_sweep_ended_run(&f->home, orphan.s, true);
    T_TRUE(access(half, F_OK) == 0);
    BH_CLEANUP_FREE char *tmp = bh_path_join(deep, "tmp");
    T_TRUE(access(tmp, F_OK) == 0);
    T_INT(result.bases, 0);
    T_ERR(bh_home_check_own(&f->home, &err), BH_E_PERMISSION, "bases' is no folder but a link or a file");
    bh_errlist_fini(&errors);
    t_tmpdir_free(elsewhere);
}

static void a_folder_of_another_user_is_refused(void **state)
{
    struct fixture *f = *state;
    T_OK(bh_home_check_own(&f->home, &err));
    if (fchownat(f->home.dirfd, "runs", 12345, 12345, 0) != 0)
        skip(); /* only root can give a folder away */
    T_ERR(bh_home_check_own(&f->home, &err), BH_E_PERMISSION, "runs' belongs to user 12345, not to you");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(orphans_go_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(half_bases_go_unless_somebody_makes_them, setup, teardown),
        cmocka_unit_test_setup_teardown(collects_without_a_store, setup, teardown),
        cmocka_unit_test_setup_teardown(links_are_not_followed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_of_another_user_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_ended_run_keeps_what_is_asked_for, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
