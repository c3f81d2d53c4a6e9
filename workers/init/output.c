/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening outputs. Beneath `/` alone would not do: out/../../etc is beneath it. So the output root is opened first,
 * then the path beneath that. What is opened may be anything that an agent can make; it is judged outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/path.h"
#include "workers/init/init.h"

static int open_root(int box, const char *root)
{
    BH_CLEANUP_FD int workspace = bh_open_beneath(box, "workspace", O_PATH | O_DIRECTORY, 0);
    return workspace >= 0 ? bh_open_beneath(workspace, root, O_PATH | O_DIRECTORY, 0) : -1;
}

int bh_output_open(int box, const char *root, const char *path)
{
    struct stat st;
    BH_CLEANUP_FD int dir = open_root(box, root);
    if (dir < 0)
        return -1;
    BH_CLEANUP_FD int seen = bh_open_beneath(dir, path, O_PATH, 0);
    if (seen < 0 || fstat(seen, &st) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        return BH_TAKE_FD(seen);
    if (S_ISSOCK(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
        return BH_TAKE_FD(seen); /* cannot or must not be opened; fstat tells what it is */
    return bh_open_beneath(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}
