/* SPDX-License-Identifier: Apache-2.0 */
/* Removes by descriptor beneath the run's folder; never touches another run. */
#include "scheduler/sweep.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"

void bh_sweep_ended_run(const struct bh_home *home, const char *run, bool succeeded)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(home, run, NULL);
    BH_CLEANUP_FD int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return;
    (void)bh_rmtree_at(dir, "tmp");
    bool kept_boxes = unlinkat(dir, "boxes", AT_REMOVEDIR) != 0 && errno == ENOTEMPTY;
    if (succeeded && !kept_boxes)
        (void)bh_rmtree_at(dir, "layers");
    else
        (void)unlinkat(dir, "layers", AT_REMOVEDIR);
}

void bh_sweep_unrecorded_run(const struct bh_home *home, const char *run)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(home, run, NULL);
    (void)bh_rmtree_at(AT_FDCWD, path);
}
