/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the folder of a run and two handles of the content store: a handle is not shared between threads, and copying
 * happens on the helper thread while links are made on the loop's.
 */
#include "workers/run_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

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

/* `run` names it: the last part of the folder. */
static int open_folder(const char *home, const char *folder, const char *run, struct bh_run_files **ret,
                       struct bh_err **err)
{
    struct bh_run_files *f = bh_alloc(sizeof(*f));
    f->refs = 1;
    f->run = bh_strdup(run);
    f->dir = bh_path_join(home, folder);
    f->dirfd = -1;
    int rc = open_parts(f, home, err);
    if (rc != 0) {
        bh_run_files_unref(f);
        return bh_err_wrap(err, rc, "opening the folder of run '%s'", run);
    }
    *ret = f;
    return 0;
}

int bh_run_files_open(const char *home, const char *run, struct bh_run_files **ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = bh_path_join("runs", run);
    return open_folder(home, folder, run, ret, err);
}

int bh_run_files_open_at(const char *home, const char *folder, struct bh_run_files **ret, struct bh_err **err)
{
    const char *last = strrchr(folder, '/');
    return open_folder(home, folder, last ? last + 1 : folder, ret, err);
}

struct bh_run_files *bh_run_files_ref(struct bh_run_files *f)
{
    f->refs++;
    return f;
}

static void drop_common(struct bh_run_files *f, struct bh_common_file *common)
{
    if (common->name)
        (void)unlinkat(f->dirfd, common->name, 0);
    bh_free(BH_TAKE(common->name));
    bh_free(BH_TAKE(common->text));
}

void bh_run_files_unref(struct bh_run_files *f)
{
    if (!f || --f->refs > 0)
        return;
    if (f->links)
        bh_cas_close(f->links);
    if (f->puts)
        bh_cas_close(f->puts);
    drop_common(f, &f->params);
    drop_common(f, &f->no_inputs);
    bh_close(f->dirfd);
    bh_free(f->run);
    bh_free(f->dir);
    bh_free(f);
}

int bh_run_files_write(const char *text, int dirfd, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || bh_write_all(fd, text, strlen(text)) < 0 || fchmod(fd, 0444) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot write '%s'", name);
    return 0;
}

/* What cannot be held, as on a file system that has no more links to give, is only not shared. */
static void hold(struct bh_run_files *f, struct bh_common_file *common, const char *text, int dirfd, const char *name)
{
    static unsigned counter;
    drop_common(f, common);
    BH_CLEANUP_FREE char *held = bh_asprintf("tmp/common-%d-%u", (int)getpid(), ++counter);
    if (linkat(dirfd, name, f->dirfd, held, 0) < 0)
        return;
    common->name = BH_TAKE(held);
    common->text = bh_strdup(text);
}

int bh_run_files_common(struct bh_run_files *f, struct bh_common_file *common, const char *text, int dirfd,
                        const char *name, struct bh_err **err)
{
    if (bh_streq(common->text, text) && linkat(f->dirfd, common->name, dirfd, name, 0) == 0)
        return 0;
    int rc = bh_run_files_write(text, dirfd, name, err);
    if (rc == 0)
        hold(f, common, text, dirfd, name);
    return rc;
}
