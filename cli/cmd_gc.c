/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead gc: what dead processes left behind goes. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "scheduler/gc.h"
#include "workers/box/subids.h"

struct report {
    const struct bh_args *args;
    bool dry_run, json;
    struct bh_val *removed, *failed; /* lists, of JSON */
    struct bh_errlist errors;
    size_t n;
    int64_t bytes;
};

/* "runs/RUN/…": RUN, to be freed; else NULL. */
static char *run_of(const char *path)
{
    if (!bh_starts_with(path, "runs/"))
        return NULL;
    path += strlen("runs/");
    return bh_strndup(path, strcspn(path, "/"));
}

static void add_json(const struct report *r, const struct bh_reclaimed *what)
{
    BH_CLEANUP_FREE char *run = run_of(what->path);
    struct bh_val *v = bh_val_add(what->error ? r->failed : r->removed, bh_val_map());
    bh_val_set_str(v, "kind", what->kind);
    bh_val_set_str(v, "run", run);
    bh_val_set_str(v, "path", what->path);
    bh_val_set_int(v, "bytes", what->bytes);
    if (what->error)
        bh_val_set_str(v, "error", strerror(what->error));
}

static void print_line(const struct report *r, const struct bh_reclaimed *what)
{
    char size[BH_UNIT_TEXT] = "";
    if (what->bytes > 0)
        bh_format_size(what->bytes, size);
    printf("%s  %-13s  %10s  ", r->dry_run ? "would remove" : "removed", what->kind, size);
    bh_cli_print_escaped(what->path);
    putchar('\n');
}

static void found(void *arg, const struct bh_reclaimed *what)
{
    struct report *r = arg;
    add_json(r, what);
    if (what->error) {
        struct bh_err *err = NULL;
        (void)bh_err_set(&err, BH_E_IO, what->error, "cannot remove '%s'", what->path);
        bh_errlist_add(&r->errors, err);
        return;
    }
    r->n++;
    r->bytes += what->bytes;
    if (!r->json && !bh_args_has(r->args, "quiet"))
        print_line(r, what);
}

static void print_json(struct report *r, struct bh_val *v, const struct bh_gc_result *result)
{
    bh_val_set_bool(v, "dry_run", r->dry_run);
    bh_val_set_int(v, "bytes", r->bytes);
    bh_val_set_int(v, "in_use", (int64_t)result->in_use);
    bh_val_set_int(v, "runs", (int64_t)result->runs);
    bh_val_set_int(v, "in_shells", (int64_t)result->in_shells);
    bh_val_set_bool(v, "shared_in_use", result->shared_in_use);
    struct bh_val *bases = bh_val_set(v, "bases", bh_val_map());
    bh_val_set_int(bases, "kept", (int64_t)result->bases);
    bh_val_set_int(bases, "bytes", result->base_bytes);
    struct bh_val *errors = bh_val_set(v, "errors", bh_val_list());
    for (size_t i = 0; i < r->errors.len; i++)
        bh_val_add(errors, bh_err_to_val(r->errors.items[i]));
    bh_cli_print_json(v);
}

static void print_text(const struct report *r, const struct bh_gc_result *result)
{
    char bytes[BH_UNIT_TEXT], bases[BH_UNIT_TEXT];
    const char *verb = r->dry_run ? "would be removed" : "removed";
    if (bh_args_has(r->args, "quiet"))
        return;
    if (r->n == 0)
        printf("nothing is left over\n");
    else
        printf("%zu %s %s, %s\n", r->n, r->n == 1 ? "thing" : "things", verb, bh_format_size(r->bytes, bytes));
    if (result->in_use > 0)
        fprintf(stderr, "%zu %s not touched: somebody owns %s\n", result->in_use, result->in_use == 1 ? "run" : "runs",
                result->in_use == 1 ? "it" : "them");
    if (result->in_shells > 0)
        fprintf(stderr, "%zu old %s not removed: somebody is in a box of %s\n", result->in_shells,
                result->in_shells == 1 ? "run" : "runs", result->in_shells == 1 ? "it" : "them");
    if (result->shared_in_use)
        fprintf(stderr, "snapshots, images and stored objects were not looked at: a run is alive\n");
    if (result->bases > 0)
        fprintf(stderr, "%zu %s kept, %s: made once, for all runs\n", result->bases,
                result->bases == 1 ? "base" : "bases", bh_format_size(result->base_bytes, bases));
}

/* --- retention --- */

static int read_keep(const struct bh_args *args, struct bh_gc_keep *ret, struct bh_err **err)
{
    const char *older = bh_args_get(args, "older-than"), *last = bh_args_get(args, "keep-last");
    *ret = (struct bh_gc_keep){.some = older || last, .older_than_ns = -1, .failed = bh_args_has(args, "keep-failed")};
    if (older && (bh_parse_duration(older, &ret->older_than_ns) != 0 || ret->older_than_ns < 0)) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "'--older-than %s' is no duration", older);
        bh_err_hint(err, "write 12h, or 30d for thirty days");
        return rc;
    }
    if (last && (bh_parse_int(last, &ret->last) != 0 || ret->last < 0))
        return bh_err_set(err, BH_E_USAGE, 0, "'--keep-last %s' is no number of runs", last);
    if (ret->failed && !ret->some) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "'--keep-failed' says which of the old runs stay, not which are old");
        bh_err_hint(err, "add --older-than 30d or --keep-last 10; without them no run goes");
        return rc;
    }
    return 0;
}

static int collect(struct report *r, const struct bh_home *home, const struct bh_gc_keep *keep, struct bh_val *v)
{
    struct bh_gc_result result;
    const struct bh_reclaim how = {.dry_run = r->dry_run, .found = found, .arg = r};
    bh_gc(home, &how, keep, &result, &r->errors);
    if (r->json)
        print_json(r, v, &result);
    else
        print_text(r, &result);
    if (r->errors.len == 0)
        return 0;
    if (!r->json)
        return bh_cli_fail_list(r->args, &r->errors);
    int status = bh_cli_exit_of(&r->errors);
    bh_errlist_fini(&r->errors);
    return status;
}

static int gc(const struct bh_args *args)
{
    struct bh_err *err = NULL;
    struct bh_home home = {.dirfd = -1};
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    struct report r = {.args = args, .dry_run = bh_args_has(args, "dry-run"), .json = bh_args_json(args)};
    struct bh_gc_keep keep;
    int rc = read_keep(args, &keep, &err);
    if (rc != 0)
        return bh_cli_fail(args, err);
    (void)bh_subids_enter(); /* what boxes left may be theirs */
    r.removed = bh_val_set(v, "removed", bh_val_list());
    r.failed = bh_val_set(v, "failed", bh_val_list());
    rc = bh_home_open(bh_args_get(args, "home"), false, &home, &err);
    if (rc == 0 && (rc = bh_home_check_own(&home, &err)) != 0)
        bh_home_close(&home);
    if (rc != 0 && (rc != -BH_E_NOT_FOUND || bh_args_get(args, "home"))) /* one that was named should be there */
        return bh_cli_fail(args, err);
    if (rc == -BH_E_NOT_FOUND) { /* no state, nothing left over in it */
        const struct bh_gc_result none = {0};
        bh_err_free(err);
        if (r.json)
            print_json(&r, v, &none);
        else
            print_text(&r, &none);
        return 0;
    }
    int status = collect(&r, &home, &keep, v);
    bh_home_close(&home);
    return status;
}

static const struct bh_opt opts[] = {
    {"dry-run", 'n', BH_OPT_FLAG, NULL, "say what would go, touch nothing"},
    {"older-than", 0, BH_OPT_VALUE, "DURATION", "remove runs that ended longer ago"},
    {"keep-last", 0, BH_OPT_VALUE, "N", "remove runs that have ended, but none of the N newest"},
    {"keep-failed", 0, BH_OPT_FLAG, NULL, "of those, leave what failed or was cancelled"},
};

const struct bh_cmd bh_cmd_gc = {
    .name = "gc",
    .operands = "",
    .summary = "remove what nobody needs any more",
    .example = "bulkhead gc --dry-run\nbulkhead gc --older-than 30d --keep-last 10 --keep-failed",
    .more =
        "What killed processes left: boxes, temporary files and half-made layers of runs that nobody owns, runs that\n"
        "never came into being, half-made bases and control groups. Then what no run names any more: snapshots,\n"
        "layers of images, stored objects. With --older-than or --keep-last also old runs, with all that is theirs;\n"
        "where both are given a run must be old by both. What a run that stays needs to be resumed or read stays,\n"
        "a run that was interrupted is never old, live runs are not touched: it may run at any moment.",
    .opts = opts,
    .n_opts = BH_ARRAY_LEN(opts),
    .run = gc,
};
