/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/evidence.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "workers/evidence_priv.h"

/* --- parts --- */

void bh_evidence_set_time(struct bh_val *v, const char *key, struct bh_wall at)
{
    char text[BH_WALL_TEXT];
    bh_val_set_str(v, key, at.us > 0 ? bh_wall_format(at, text) : NULL);
}

static void set_digest(struct bh_val *v, const char *key, const struct bh_digest *digest)
{
    char text[BH_DIGEST_TEXT];
    bh_val_set_str(v, key, digest ? bh_digest_format(digest, text) : NULL);
}

struct bh_val *bh_evidence_stay(const struct bh_stay *s)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "agent", s->agent);
    bh_val_set_int(v, "attempt", s->attempt);
    bh_val_set_int(v, "try", s->try_);
    bh_val_set_str(v, "instance", s->instance);
    bh_evidence_set_time(v, "began", s->began);
    bh_evidence_set_time(v, "ended", s->ended);
    return v;
}

char *bh_evidence_json(const struct bh_val *v)
{
    struct bh_buf out = BH_BUF_INIT;
    bh_json_format(v, &out);
    return bh_buf_take(&out);
}

void bh_evidence_add_who(struct bh_buf *out, const struct bh_stay *s, size_t i, size_t n)
{
    bh_buf_adds(out, i == 0 ? "" : i + 1 == n ? " and " : ", ");
    bh_buf_addf(out, "agent '%s' (attempt %d", s->agent, s->attempt);
    if (s->try_ > 1)
        bh_buf_addf(out, ", try %d", s->try_);
    bh_buf_addc(out, ')');
}

/* --- collisions --- */

static const char *const hows[] = {
    [BH_COLLISION_NONE] = NULL,
    [BH_COLLISION_AFTER_END] = "changed-after-end",
    [BH_COLLISION_WHILE_COPIED] = "changed-while-collected",
    [BH_COLLISION_HELD] = "held-open",
    [BH_COLLISION_VANISHED] = "vanished",
    [BH_COLLISION_TWO_WRITERS] = "two-writers",
};

static void add_what(struct bh_buf *out, const struct bh_collision *c)
{
    const char *name = c->item->name, *owner = c->owner->agent;
    switch (c->how) {
    case BH_COLLISION_AFTER_END:
        bh_buf_addf(out, "output '%s' changed after its agent '%s' had ended and before it was collected", name, owner);
        break;
    case BH_COLLISION_WHILE_COPIED:
        bh_buf_addf(out, "output '%s' changed while it was collected", name);
        break;
    case BH_COLLISION_HELD:
        bh_buf_addf(out, "output '%s' is held open for writing although its agent '%s' has ended", name, owner);
        break;
    case BH_COLLISION_VANISHED:
        bh_buf_addf(out, "output '%s' vanished, or was replaced, while it was collected", name);
        break;
    case BH_COLLISION_TWO_WRITERS:
    case BH_COLLISION_NONE:
        bh_buf_addf(out, "output '%s' of agent '%s' was written by two agents", name, owner);
        break;
    }
}

char *bh_collision_text(const struct bh_collision *c)
{
    struct bh_buf out = BH_BUF_INIT;
    add_what(&out, c);
    if (c->n_writers > 0) {
        bh_buf_adds(&out, c->how == BH_COLLISION_TWO_WRITERS ? "; the other, as the kernel tells: "
                                                             : "; who writes to it, as the kernel tells: ");
        for (size_t i = 0; i < c->n_writers; i++)
            bh_evidence_add_who(&out, c->writers[i].who, i, c->n_writers);
    } else if (c->n_beside > 0) {
        bh_buf_addf(&out, "; who it was cannot be told here; in box '%s' there were meanwhile: ", c->box);
        for (size_t i = 0; i < c->n_beside; i++)
            bh_evidence_add_who(&out, c->beside[i], i, c->n_beside);
    } else {
        bh_buf_addf(&out, "; nobody else was seen in box '%s' meanwhile", c->box);
    }
    return bh_buf_take(&out);
}

char *bh_collision_json(const struct bh_collision *c)
{
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    BH_CLEANUP_FREE char *path = bh_asprintf("/workspace/%s", c->item->path);
    bh_val_set_str(v, "kind", "collision");
    bh_val_set_str(v, "how", hows[c->how]);
    bh_val_set_str(v, "box", c->box);
    bh_val_set_str(v, "artifact", c->item->name);
    bh_val_set_str(v, "path", path);
    set_digest(v, "digest", c->item->digest);
    set_digest(v, "digest_later", c->item->later);
    bh_evidence_set_time(
        v, "changed", (struct bh_wall){c->item->changed.tv_sec * INT64_C(1000000) + c->item->changed.tv_nsec / 1000});
    bh_evidence_set_time(v, "found", bh_wall_now());
    bh_val_set(v, "owner", bh_evidence_stay(c->owner));
    bh_val_set_bool(v, "attributed", c->n_writers > 0);
    struct bh_val *writers = bh_val_set(v, "writers", bh_val_list());
    for (size_t i = 0; i < c->n_writers; i++)
        bh_evidence_set_time(bh_val_add(writers, bh_evidence_stay(c->writers[i].who)), "wrote", c->writers[i].at);
    struct bh_val *alive = bh_val_set(v, "alive", bh_val_list());
    for (size_t i = 0; i < c->n_beside; i++)
        (void)bh_val_add(alive, bh_evidence_stay(c->beside[i]));
    return bh_evidence_json(v);
}
