/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for a backend's answer: one small object per call, one per box. */
#include "workers/box_call.h"

#include <fcntl.h>

#include "base/fd.h"
#include "base/mem.h"

struct bh_box_call {
    struct bh_exec *exec; /* of an exec call */
    bh_exec_done_fn exec_fn;
    bh_box_done_fn done_fn;
    bh_box_opened_fn opened_fn; /* all three NULL: forgotten */
    void (*warm_fn)(void *arg);
    void *arg;
};

static const struct bh_box_ops *ops_of(struct bh_box *box)
{
    return ((struct bh_box_head *)(void *)box)->boxes->ops;
}

static struct bh_box_call end_call(void *arg)
{
    struct bh_box_call call = *(struct bh_box_call *)arg;
    bh_free(arg);
    return call;
}

static void on_exec(void *arg, const struct bh_exec_result *result)
{
    struct bh_box_call call = end_call(arg);
    if (call.exec_fn)
        call.exec_fn(call.arg, result);
}

static void on_warm(void *arg)
{
    const struct bh_box_call *call = arg;
    if (call->exec_fn)
        call->warm_fn(call->arg);
}

static void on_done(void *arg, int code, const struct bh_err *err)
{
    struct bh_box_call call = end_call(arg);
    if (call.done_fn)
        call.done_fn(call.arg, code, err);
}

static void on_opened(void *arg, int fd, int error)
{
    struct bh_box_call call = end_call(arg);
    if (call.opened_fn)
        call.opened_fn(call.arg, fd, error);
    else
        bh_close(fd);
}

struct bh_box_call *bh_box_call_exec(struct bh_box *box, const struct bh_exec_spec *spec, bh_exec_done_fn fn, void *arg)
{
    struct bh_box_call *call = bh_alloc(sizeof(*call));
    call->exec_fn = fn;
    call->arg = arg;
    call->warm_fn = spec->on_warm;
    struct bh_exec_spec told = *spec;
    told.on_warm = spec->on_warm ? on_warm : NULL;
    call->exec = ops_of(box)->exec(box, &told, on_exec, call);
    return call;
}

struct bh_box_call *bh_box_call_barrier(struct bh_box *box, bh_box_done_fn fn, void *arg)
{
    struct bh_box_call *call = bh_alloc(sizeof(*call));
    call->done_fn = fn;
    call->arg = arg;
    ops_of(box)->barrier(box, on_done, call);
    return call;
}

struct bh_box_call *bh_box_call_open(struct bh_box *box, const char *root, const char *path, bh_box_opened_fn fn,
                                     void *arg)
{
    struct bh_box_call *call = bh_alloc(sizeof(*call));
    call->opened_fn = fn;
    call->arg = arg;
    ops_of(box)->open_output(box, root, path, on_opened, call);
    return call;
}

struct bh_box_call *bh_box_call_listen(struct bh_box *box, int port, bh_box_opened_fn fn, void *arg)
{
    struct bh_box_call *call = bh_alloc(sizeof(*call));
    call->opened_fn = fn;
    call->arg = arg;
    ops_of(box)->listen(box, port, on_opened, call);
    return call;
}

struct bh_exec *bh_box_call_server(const struct bh_box_call *call)
{
    return call->exec;
}

void bh_box_call_kill(struct bh_box_call *call, int sig)
{
    BH_ASSERT(call->exec_fn);
    ((struct bh_box_head *)(void *)call->exec)->boxes->ops->kill(call->exec, sig);
}

void bh_box_call_forget(struct bh_box_call *call)
{
    if (!call)
        return;
    call->exec_fn = NULL;
    call->done_fn = NULL;
    call->opened_fn = NULL;
}

/* --- the box --- */

enum handle_state { CREATING, ALIVE, FAILED, ENDING };

struct bh_box_handle {
    enum handle_state state;
    struct bh_boxes *boxes;
    struct bh_box *box;
    struct bh_box_events events; /* of no use any more once the owner has let go */
    void *arg;
    bool owned, lost;
    bool keep; /* let go while it was being created */
    bh_box_done_fn gone;
    void *gone_arg;
};

static void on_gone(void *arg, int code, const struct bh_err *err)
{
    struct bh_box_handle *h = arg;
    bh_box_done_fn gone = h->gone;
    void *gone_arg = h->gone_arg;
    bh_free(h);
    if (gone)
        gone(gone_arg, code, err);
}

static void end_box(struct bh_box_handle *h)
{
    h->state = ENDING;
    h->boxes->ops->destroy(h->box, h->keep, on_gone, h);
}

static void on_created(void *arg, struct bh_box *box, int code, const struct bh_err *err)
{
    struct bh_box_handle *h = arg;
    h->box = box;
    h->state = code == 0 ? ALIVE : FAILED;
    if (h->owned)
        h->events.created(h->arg, code, err);
    else if (code == 0)
        end_box(h);
    else
        on_gone(h, 0, NULL);
}

static void on_lost(void *arg)
{
    struct bh_box_handle *h = arg;
    h->lost = true;
    if (h->owned && h->state == ALIVE)
        h->events.lost(h->arg);
}

struct bh_box_handle *bh_box_handle_new(struct bh_boxes *boxes, const struct bh_box_spec *spec,
                                        const struct bh_box_events *events, void *arg)
{
    struct bh_box_handle *h = bh_alloc(sizeof(*h));
    *h = (struct bh_box_handle){.state = CREATING, .boxes = boxes, .events = *events, .arg = arg, .owned = true};
    boxes->ops->create(boxes, spec, on_created, h, on_lost);
    return h;
}

struct bh_box *bh_box_handle_box(const struct bh_box_handle *h)
{
    return h->box;
}

bool bh_box_handle_lost(const struct bh_box_handle *h)
{
    return h->lost;
}

void bh_box_handle_give(struct bh_box_handle *h, const struct bh_box_events *events, void *arg)
{
    BH_ASSERT(h->owned);
    h->events = *events;
    h->arg = arg;
}

static void let_go(struct bh_box_handle *h, bh_box_done_fn gone, void *arg)
{
    BH_ASSERT(h->owned);
    h->owned = false;
    h->gone = gone;
    h->gone_arg = arg;
}

bool bh_box_handle_drop(struct bh_box_handle *h, bool keep, bh_box_done_fn gone, void *arg)
{
    let_go(h, gone, arg);
    h->keep = keep;
    if (h->state == FAILED) {
        bh_free(h);
        return false;
    }
    if (h->state == ALIVE)
        end_box(h);
    return true;
}

void bh_box_handle_freeze(struct bh_box_handle *h, const char *layer, bh_box_done_fn gone, void *arg)
{
    BH_ASSERT(h->state == ALIVE && !h->lost);
    let_go(h, gone, arg);
    h->state = ENDING;
    h->boxes->ops->freeze(h->box, layer, on_gone, h);
}

void bh_box_handle_forget(struct bh_box_handle *h)
{
    BH_ASSERT(!h->owned);
    h->gone = NULL;
}
