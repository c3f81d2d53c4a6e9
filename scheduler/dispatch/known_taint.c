/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of a submission against the artifacts of all runs. */
#include "scheduler/dispatch/known_taint.h"

#include <string.h>

#include "artifact-bus/cas.h"
#include "base/mem.h"
#include "base/text.h"
#include "scheduler/dispatch/submission.h"

/* Less than that is everybody's: "{}", "true", a number. */
enum { LEAST_BYTES = 16 };

struct finder {
    struct bh_store *store;
    const struct bh_val *since;
    struct bh_val *files, *sources, *why;
};

/*
 * 1 where the content is known, with the words noted under `name`. What lay here before any tainted agent made such
 * content is not what that one made, but the other way round; else one could lock its readers out of their own files.
 */
static int find(struct finder *f, const char *digest, int64_t size, const char *name, struct bh_err **err)
{
    BH_CLEANUP_FREE char *who = NULL;
    struct bh_wall published = {0};
    if (!digest || size < LEAST_BYTES)
        return 0;
    int rc = bh_store_find_tainted(f->store, digest, &who, &published, err);
    if (rc != 0 || !who)
        return rc;
    if (bh_val_get(f->since, name) && bh_val_int_of(f->since, name) < published.us)
        return 0;
    bh_val_set_str(f->why, name, who);
    return 1;
}

static int find_file(struct finder *f, const char *path, const struct bh_val *entries, struct bh_err **err)
{
    int rc = 0;
    for (size_t i = 0; i < bh_val_len(entries) && rc == 0; i++) {
        const struct bh_val *entry = bh_val_at(entries, i);
        rc = find(f, bh_val_str_of(entry, "digest"), bh_val_int_of(entry, "size"), path, err);
    }
    if (rc == 1)
        bh_val_add(f->files, bh_val_str(path));
    return rc < 0 ? rc : 0;
}

static int find_prompt(struct finder *f, const char *path, const char *text, struct bh_err **err)
{
    char hex[BH_DIGEST_TEXT];
    size_t len = text ? strlen(text) : 0;
    struct bh_digest digest = bh_digest_of(text ? text : "", len);
    int rc = find(f, bh_digest_format(&digest, hex), (int64_t)len, path, err);
    if (rc == 1)
        bh_val_add(f->files, bh_val_str(path));
    return rc < 0 ? rc : 0;
}

static int find_source(struct finder *f, const char *name, const struct bh_val *entry, struct bh_err **err)
{
    int rc = find(f, bh_val_str_of(entry, "digest"), bh_val_int_of(entry, "size"), name, err);
    if (rc == 1)
        bh_val_add(f->sources, bh_val_str(name));
    return rc < 0 ? rc : 0;
}

int bh_known_taint_find(struct bh_store *store, struct bh_val *submission, bool *ret_any, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *found = bh_val_map();
    struct finder f = {store, bh_val_get(submission, "since"), bh_val_set(found, "files", bh_val_list()),
                       bh_val_set(found, "sources", bh_val_list()), bh_val_set(found, "why", bh_val_map())};
    const struct bh_val *files = bh_val_get(submission, "files"), *prompts = bh_val_get(submission, "prompts"),
                        *sources = bh_val_get(submission, "sources");
    int rc = 0;
    for (size_t i = 0; i < bh_val_len(files) && rc == 0; i++)
        rc = find_file(&f, bh_val_key_at(files, i), bh_val_at(files, i), err);
    for (size_t i = 0; i < bh_val_len(prompts) && rc == 0; i++)
        rc = find_prompt(&f, bh_val_key_at(prompts, i), bh_val_get_str(bh_val_at(prompts, i)), err);
    for (size_t i = 0; i < bh_val_len(sources) && rc == 0; i++)
        rc = find_source(&f, bh_val_key_at(sources, i), bh_val_at(sources, i), err);
    *ret_any = bh_val_len(f.why) > 0;
    if (rc == 0 && *ret_any)
        bh_val_set(submission, "tainted", BH_TAKE(found));
    return rc;
}

bool bh_known_taint_source(const struct bh_val *submission, const char *name)
{
    const struct bh_val *sources = bh_val_get(bh_val_get(submission, "tainted"), "sources");
    for (size_t i = 0; i < bh_val_len(sources); i++) {
        if (bh_streq(bh_val_get_str(bh_val_at(sources, i)), name))
            return true;
    }
    return false;
}

void bh_known_taint_tell(const struct bh_val *submission, struct bh_errlist *errors)
{
    const struct bh_val *why = bh_val_get(bh_val_get(submission, "tainted"), "why");
    for (size_t i = 0; i < errors->len; i++) {
        const char *detail = bh_err_get_detail(errors->items[i]);
        for (size_t k = 0; k < bh_val_len(why); k++) {
            const char *name = bh_val_key_at(why, k);
            if (bh_err_code(errors->items[i]) != BH_E_TRUST || !detail || !strstr(detail, name))
                continue;
            BH_CLEANUP_FREE char *more =
                bh_asprintf("%s; '%s' has the content of %s", detail, name, bh_val_get_str(bh_val_at(why, k)));
            bh_err_detail(&errors->items[i], "%s", more);
            bh_err_hint(
                &errors->items[i],
                "an agent that read others' text made this content: write a file of your own, or hand it in as a "
                "source and let it in by 'accept'");
            break;
        }
    }
}

static const char **texts_of(const struct bh_val *list, size_t *ret_n)
{
    const char **texts = bh_calloc(bh_val_len(list) + 1, sizeof(*texts));
    *ret_n = 0;
    for (size_t i = 0; i < bh_val_len(list); i++) {
        const char *text = bh_val_get_str(bh_val_at(list, i));
        if (text)
            texts[(*ret_n)++] = text;
    }
    return texts;
}

void bh_known_taint_options(const struct bh_val *submission, struct bh_plan_options *options)
{
    const struct bh_val *tainted = bh_val_get(submission, "tainted");
    options->tainted_files = texts_of(bh_val_get(tainted, "files"), &options->n_tainted_files);
    options->tainted_sources = texts_of(bh_val_get(tainted, "sources"), &options->n_tainted_sources);
}

void bh_known_taint_options_fini(struct bh_plan_options *options)
{
    bh_free((void *)(uintptr_t)options->tainted_files);
    bh_free((void *)(uintptr_t)options->tainted_sources);
    options->tainted_files = options->tainted_sources = NULL;
    options->n_tainted_files = options->n_tainted_sources = 0;
}
