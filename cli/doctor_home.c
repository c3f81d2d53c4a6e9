/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state directory as `bulkhead doctor` looks at it. One that is not there yet is not made: what is tried is tried
 * in a folder of our own beside the place where it would come, which is removed afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/doctor.h"

/* The nearest folder above that is there. */
static char *above(const char *path)
{
    char *at = bh_strdup(path);
    struct stat st;
    while (lstat(at, &st) < 0 && errno == ENOENT && !bh_streq(at, "/")) {
        char *next = bh_path_dirname(at);
        bh_free(at);
        at = next;
    }
    return at;
}

/* As open with `create` would fail: what stands in the way is told of the folder that was named. */
static int make_trial(struct bh_doctor_home *h, struct bh_err **err)
{
    BH_CLEANUP_FREE char *parent = above(h->chosen);
    BH_CLEANUP_FREE char *trial = bh_path_join(parent, BH_TEMPORARY_PREFIX "doctor-XXXXXX");
    if (!mkdtemp(trial)) {
        int rc = bh_err_set(err, BH_E_IO, errno, "cannot make the state directory '%s'", h->chosen);
        bh_err_hint(err, "name another with --home DIR or $BULKHEAD_HOME");
        return rc;
    }
    h->trial = BH_TAKE(trial);
    return bh_home_open(h->trial, true, &h->home, err);
}

static int open_home(struct bh_doctor_home *h, const char *path, struct bh_err **err)
{
    struct stat st;
    int rc = bh_home_find(path, &h->chosen, err);
    if (rc != 0)
        return rc;
    if (stat(h->chosen, &st) < 0 && errno == ENOENT)
        return make_trial(h, err);
    return bh_home_open(h->chosen, true, &h->home, err);
}

void bh_doctor_home_open(struct bh_report *r, const char *path, struct bh_doctor_home *ret)
{
    struct bh_err *err = NULL;
    struct statvfs fs;
    char size[BH_UNIT_TEXT];
    struct bh_check check = {.name = "state directory"};
    BH_CLEANUP_FREE char *found = NULL;
    *ret = (struct bh_doctor_home){.home = {.dirfd = -1}};
    if (open_home(ret, path, &err) != 0) {
        bh_home_close(&ret->home);
        ret->home = (struct bh_home){.dirfd = -1};
        check.required = true;
        check.found = bh_err_message(err);
        check.effect = "no run can be recorded";
        check.remedy = bh_err_get_hint(err);
        bh_report_add(r, &check);
        bh_err_free(err);
        return;
    }
    bool known = statvfs(ret->home.path, &fs) == 0;
    int64_t left = known ? (int64_t)fs.f_bavail * (int64_t)fs.f_frsize : 0;
    found = bh_asprintf("%s, %s%s free", ret->chosen, ret->trial ? "not there yet, " : "", bh_format_size(left, size));
    check.ok = known && left > INT64_C(1) << 28;
    check.found = found;
    check.effect = "runs stop when the disk is full";
    check.remedy = "free space, or choose another folder with --home";
    bh_report_add(r, &check);
}

void bh_doctor_home_close(struct bh_doctor_home *h)
{
    bh_home_close(&h->home);
    if (h->trial)
        (void)bh_rmtree_at(AT_FDCWD, h->trial);
    bh_free(h->trial);
    bh_free(h->chosen);
}
