/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the folder of a run and two handles of the content store: a handle is not shared between threads, and copying
 * happens on the helper thread while links are made on the loop's.
 */
#include "workers/run_files.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

static int make_folders(const char *dir, struct bh_err **err)
{
    static const char *const names[] = {"logs", "tmp", "boxes", "layers"};
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        BH_CLEANUP_FREE char *path = bh_path_join(dir, names[i]);
        int rc = bh_mkdir_p(path, 0700, err);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int open_parts(struct bh_run_files *f, const char *home, struct bh_err **err)
{
    int rc = make_folders(f->dir, err);
    if (rc != 0)
        return rc;
    f->dirfd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dirfd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", f->dir);
    BH_CLEANUP_FREE char *cas = bh_path_join(home, "cas");
    BH_CLEANUP_FREE char *tmp = bh_path_join(f->dir, "tmp");
    rc = bh_cas_open(cas, tmp, &f->links, err);
    return rc == 0 ? bh_cas_open(cas, tmp, &f->puts, err) : rc;
}

int bh_run_files_open(const char *home, const char *run, struct bh_run_files **ret, struct bh_err **err)
{
    struct bh_run_files *f = bh_alloc(sizeof(*f));
    f->refs = 1;
    f->run = bh_strdup(run);
    f->dir = bh_asprintf("%s/runs/%s", home, run);
    f->dirfd = -1;
    int rc = open_parts(f, home, err);
    if (rc != 0) {
        bh_run_files_unref(f);
        return bh_err_wrap(err, rc, "opening the folder of run '%s'", run);
    }
    *ret = f;
    return 0;
}

struct bh_run_files *bh_run_files_ref(struct bh_run_files *f)
{
    f->refs++;
    return f;
}

void bh_run_files_unref(struct bh_run_files *f)
{
    if (!f || --f->refs > 0)
        return;
    if (f->links)
        bh_cas_close(f->links);
    if (f->puts)
        bh_cas_close(f->puts);
    bh_close(f->dirfd);
    bh_free(f->run);
    bh_free(f->dir);
    bh_free(f);
}
