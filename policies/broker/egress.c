/* SPDX-License-Identifier: Apache-2.0 */
/* The egress broker's loop, and what the worker asks of it. */
#include "policies/broker/egress.h"

#include <event2/event.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/val.h"
#include "policies/broker/control.h"

struct broker {
    struct event_base *loop;
    struct bh_control *control;
    int status;
};

static void on_message(void *arg, const char *op, const struct bh_val *msg, int *fd)
{
    struct broker *b = arg;
    (void)msg;
    (void)fd;
    bh_log(BH_LOG_ERROR, "egress.message", "unknown", op, NULL);
    b->status = 1;
    (void)event_base_loopbreak(b->loop);
}

static const struct bh_control_ops control_ops = {.on_message = on_message};

int bh_egress_main(int control_fd)
{
    struct broker b = {.loop = event_base_new()};
    BH_CLEANUP_ERR struct bh_err *err = NULL;
    if (!b.loop || bh_control_new(b.loop, control_fd, &control_ops, &b, &b.control, &err) < 0)
        return 1;
    (void)event_base_dispatch(b.loop);
    bh_control_free(b.control);
    event_base_free(b.loop);
    return b.status;
}
