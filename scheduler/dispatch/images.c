/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler/dispatch/images.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "scheduler/dispatch/submission.h"
#include "topologies/base_ref.h"

static bool is_image(const char *base)
{
    struct bh_base_ref ref;
    return bh_base_parse(base, &ref) != NULL || ref.kind != BH_BASE_HOST;
}

bool bh_images_any(const struct bh_plan *plan)
{
    for (size_t i = 0; i < plan->n_boxes; i++) {
        if (is_image(plan->boxes[i].base))
            return true;
    }
    return false;
}

const struct bh_val *bh_images_get(const struct bh_val *submission, const char *base)
{
    return bh_val_get(bh_val_get(submission, "images"), base);
}

/* The key that says it: of the box, of its first agent, else of the document. */
static void place(const struct bh_plan *plan, const struct bh_plan_box *box, struct bh_err **err)
{
    const struct bh_agent *agent = box->n_agents > 0 ? plan->agents[box->agents[0]].doc : NULL;
    const struct bh_str *at = &plan->pipeline->traits.base;
    BH_CLEANUP_FREE char *path = NULL;
    if (box->doc && box->doc->traits.base.s) {
        at = &box->doc->traits.base;
        path = bh_asprintf("boxes.%s.base", box->doc->name.s);
    } else if (!box->shared && agent && agent->traits.base.s) {
        at = &agent->traits.base;
        path = bh_asprintf("%s.base", agent->path);
    }
    bh_err_at(err, plan->pipeline->file, at->pos.line, at->pos.column, path ? path : "base");
}

static bool is_needed(const struct bh_plan_box *box, const bool *wanted)
{
    for (size_t i = 0; i < box->n_agents; i++) {
        if (wanted[box->agents[i]])
            return true;
    }
    return false;
}

int bh_images_import(const struct bh_plan *plan, const char *file, struct bh_image_host *host,
                     struct bh_val *submission, struct bh_errlist *errors)
{
    struct bh_val *images = bh_val_set(submission, "images", bh_val_map());
    BH_CLEANUP_FREE char *folder = bh_path_dirname(file);
    BH_CLEANUP_FREE bool *wanted = bh_calloc(plan->n_agents + 1, sizeof(*wanted));
    int first = 0;
    bh_submission_wanted(plan, submission, wanted);
    for (size_t i = 0; i < plan->n_boxes; i++) {
        const struct bh_plan_box *box = &plan->boxes[i];
        struct bh_image image = {0};
        struct bh_err *err = NULL;
        if (!is_image(box->base) || bh_val_get(images, box->base) || !is_needed(box, wanted))
            continue;
        int rc = bh_image_import(host, box->base, folder, &image, &err);
        bh_val_set(images, box->base, rc == 0 ? bh_image_to_val(&image) : bh_val_map()); /* one complaint of each */
        bh_image_fini(&image);
        if (rc == 0)
            continue;
        place(plan, box, &err);
        bh_errlist_add(errors, err);
        first = first ? first : rc;
    }
    return first;
}

static bool same_layers(const struct bh_image *a, const struct bh_image *b)
{
    bool same = bh_streq(a->digest, b->digest) && a->n_layers == b->n_layers;
    for (size_t i = 0; same && i < a->n_layers; i++)
        same = bh_streq(a->layers[i], b->layers[i]);
    return same;
}

static int restore(const char *folder, struct bh_image_host *host, const struct bh_image *was, struct bh_err **err)
{
    struct bh_image now = {0};
    int rc = bh_image_import(host, was->base, folder, &now, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "the base '%s' of this run is gone from the state directory", was->base);
    if (!same_layers(was, &now)) {
        rc = bh_err_set(err, BH_E_INVALID, 0,
                        "the base '%s' of this run is gone from the state directory, and where it came from there is "
                        "another one now",
                        was->base);
        bh_err_detail(err, "it was '%s' and is '%s'", was->digest, now.digest);
        bh_err_hint(err, "put the old image back, or start a new run");
    }
    bh_image_fini(&now);
    return rc;
}

int bh_images_restore(const char *file, struct bh_image_host *host, const struct bh_val *submission,
                      struct bh_err **err)
{
    const struct bh_val *images = bh_val_get(submission, "images");
    BH_CLEANUP_FREE char *folder = bh_path_dirname(file);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < bh_val_len(images); i++) {
        struct bh_image image;
        if (bh_image_from_val(bh_val_at(images, i), &image) != 0)
            return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the submission's entry of the base '%s' is unreadable",
                              bh_val_key_at(images, i));
        if (!bh_image_present(host->home, &image))
            rc = restore(folder, host, &image, err);
        bh_image_fini(&image);
    }
    return rc;
}
