/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/ns_rig.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tests/unit/workers/rig.h"
#include "workers/box/box.h"

static char why[256];

static struct bh_boxes *make_boxes(struct event_base *loop, const char *home)
{
    struct bh_boxes *boxes = NULL;
    struct bh_err *err = NULL;
    int sock;
    int64_t pid;
    int rc = bh_launcher_start(home, -1, &sock, &pid, &err);
    if (rc == 0)
        rc = bh_boxes_ns_new(loop, sock, home, &boxes, &err);
    if (rc != 0)
        (void)snprintf(why, sizeof(why), "%s", bh_err_message(err));
    bh_err_free(err);
    return boxes;
}

struct rig *ns_rig_new(void)
{
    const char *bin = getenv("BH_BIN");
    if (bin)
        setenv("BULKHEAD_LIBEXEC", bin, 1);
    return rig_new_with(make_boxes);
}

const char *ns_rig_why(void)
{
    return why;
}
