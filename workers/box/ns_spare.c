/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box that nobody has asked for yet. Who makes one box after the other, all alike, will make another: from the second
 * on, one more is made while the one before runs, and the next is given it by a rename of its folder. It is made by the
 * very same steps as any other, has run nothing, and holds nothing but what such a box begins with.
 *
 * There is one at most. It goes when boxes of another kind are asked for, when none was asked for or has ended for two
 * seconds, when it dies, and with its backend.
 */
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/text.h"
#include "workers/box/ns_priv.h"

#define ALIKE_BEFORE 2
#define IDLE_S 2

static void add_list(struct bh_buf *out, const char *const *list, size_t n)
{
    bh_buf_addf(out, "%zu", n);
    for (size_t i = 0; i < n; i++)
        bh_buf_addf(out, "/%s", list[i]);
    bh_buf_addc(out, '\n');
}

/* NULL: of its kind there is seldom a second one. */
static char *kind_of(const struct bh_box_spec *spec)
{
    struct bh_buf out = BH_BUF_INIT;
    if (spec->shared || spec->host_network || spec->workspace_of || spec->fork_of || spec->kept || spec->warm ||
        spec->beneath)
        return NULL;
    bh_buf_addf(&out, "%s\n%d %d %d %u %u %u", spec->run_dir, spec->writable_usr, spec->best_effort, spec->disposable,
                spec->agent_uid, spec->agent_gid, (unsigned)spec->limits.asked);
    for (size_t i = 0; i < BH_N_LIMITS; i++)
        bh_buf_addf(&out, " %lld", (long long)spec->limits.of[i]);
    bh_buf_addc(&out, '\n');
    add_list(&out, spec->base_layers, spec->n_base_layers);
    add_list(&out, spec->layers, spec->n_layers);
    add_list(&out, spec->snapshots, spec->n_snapshots);
    return bh_buf_take(&out);
}

/* --- its end --- */

/* What its callbacks are given; freed by the one that is the last, or by who takes it. */
struct bh_ns_spare {
    struct ns *ns;
    struct bh_box *box;
};

static void let_go(struct ns *ns)
{
    struct bh_ns_spare *s = BH_TAKE(ns->spare);
    if (!s || s->box->state == BOX_MAKING)
        return; /* as soon as it is made, by on_created */
    bh_ns_box_end(s->box, END_REMOVE, NULL, NULL);
    bh_free(s);
}

void bh_ns_spare_none(struct ns *ns)
{
    ns->alike = 0;
}

static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    struct ns *ns = arg;
    (void)fd;
    (void)what;
    bh_ns_spare_none(ns);
    let_go(ns);
}

static void end(struct bh_ns_spare *s)
{
    if (s->ns->spare == s)
        s->ns->spare = NULL;
    bh_free(s);
}

static void on_lost(void *arg)
{
    struct bh_ns_spare *s = arg;
    bh_ns_box_end(s->box, END_REMOVE, NULL, NULL);
    end(s);
}

/* Where it could not be made whoever asks for one meets the reason. */
static void on_created(void *arg, struct bh_box *box, int code, const struct bh_err *err)
{
    struct bh_ns_spare *s = arg;
    (void)err;
    if (code == 0 && s->ns->spare == s)
        return;
    if (code == 0)
        bh_ns_box_end(box, END_REMOVE, NULL, NULL);
    end(s);
}

/* --- one more, and who gets it --- */

void bh_ns_spare_wake(struct ns *ns)
{
    const struct timeval idle = {.tv_sec = IDLE_S};
    if (ns->spare)
        (void)event_add(ns->spare_idle, &idle);
}

static void make(struct ns *ns, const struct bh_box_spec *spec)
{
    BH_CLEANUP_FREE char *key = bh_asprintf(BH_BOX_GONE "s%llu", (unsigned long long)++ns->n_spares);
    struct bh_box_spec another = *spec;
    struct bh_ns_spare *s = bh_alloc(sizeof(*s));
    another.key = key;
    if (!ns->spare_idle)
        ns->spare_idle = event_new(ns->loop, -1, 0, on_idle, ns);
    BH_ASSERT(ns->spare_idle);
    *s = (struct bh_ns_spare){.ns = ns};
    s->box = bh_ns_box_make(ns, &another, on_created, s, on_lost);
    s->box->spare = true;
    ns->spare = s;
}

/* A box is asked for: one more of a kind, or the first of another. */
static void count_kind(struct ns *ns, const struct bh_box_spec *spec)
{
    char *kind = kind_of(spec);
    if (kind && bh_streq(kind, ns->kind)) {
        bh_free(kind);
    } else {
        let_go(ns);
        bh_free(ns->kind);
        ns->kind = kind;
        ns->alike = 0;
    }
    ns->alike += ns->kind != NULL;
}

static bool has_died(const struct bh_box *box)
{
    struct pollfd polled = {.fd = box->pidfd, .events = POLLIN};
    return box->dead || poll(&polled, 1, 0) != 0;
}

/* Its folder is found by its name until the launcher has opened it. */
struct bh_box *bh_ns_spare_take(struct ns *ns, const struct bh_box_spec *spec)
{
    count_kind(ns, spec);
    struct bh_box *box = ns->spare ? ns->spare->box : NULL;
    if (!box || box->pidfd < 0 || box->state == BOX_ENDING || has_died(box) || bh_ns_disk_room(ns, NULL) != 0)
        return NULL;
    if (bh_box_folder_rename(spec->run_dir, box->key, spec->key) < 0)
        return NULL; /* somebody has the name: the usual way says so */
    bh_free(BH_TAKE(ns->spare));
    bh_free(box->key);
    box->key = bh_strdup(spec->key);
    box->spare = false;
    return box;
}

void bh_ns_spare_order(struct ns *ns, const struct bh_box_spec *spec)
{
    if (ns->alike >= ALIKE_BEFORE && !ns->spare && !ns->broken)
        make(ns, spec);
    bh_ns_spare_wake(ns);
}

void bh_ns_spare_fini(struct ns *ns)
{
    if (ns->spare_idle)
        event_free(BH_TAKE(ns->spare_idle));
    bh_free(BH_TAKE(ns->kind));
    bh_free(BH_TAKE(ns->spare)); /* its box has gone with all others and told nobody */
}
