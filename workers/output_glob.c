/* SPDX-License-Identifier: Apache-2.0 */
/* Globs over what an agent left behind (output_glob.h). The names are hostile: shown escaped and cut. */
#include "workers/output_glob.h"

#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "topologies/names.h"

#define SHOWN_NAMES 20
#define SHOWN_BYTES 200
#define MAX_FILES_DEFAULT 1000

void bh_output_escape(struct bh_buf *out, const char *name)
{
    size_t len = strlen(name);
    bh_escape_terminal(out, name, len < SHOWN_BYTES ? len : SHOWN_BYTES);
    if (len > SHOWN_BYTES)
        bh_buf_adds(out, "…");
}

/* Whether a name below the folder could match too: no text in a glob is a control byte, so only a star can match it. */
static bool reaches_below(const char *glob, const char *folder)
{
    BH_CLEANUP_FREE char *below = bh_asprintf("%s/\x01", folder);
    return bh_glob_match(glob, below);
}

/* "'a b'", or what stands for it in a message that everybody reads. */
static void quote(const struct bh_walk *walk, const char *name, struct bh_buf *out)
{
    if (walk->withheld) {
        bh_buf_adds(out, "a name that is withheld (the agent is tainted)");
        return;
    }
    bh_buf_addc(out, '\'');
    bh_output_escape(out, name);
    bh_buf_addc(out, '\'');
}

static const char *match_problem(const struct bh_walk_entry *entry)
{
    if (S_ISDIR(entry->type))
        return "is a directory";
    if (S_ISLNK(entry->type))
        return "is a symlink";
    return S_ISREG(entry->type) ? bh_artifact_name_problem(entry->name) : "is not a file";
}

static bool check_match(const char *glob, const struct bh_walk *walk, const struct bh_walk_entry *entry,
                        struct bh_verdict *ret)
{
    BH_CLEANUP_BUF struct bh_buf shown = BH_BUF_INIT;
    const char *problem = match_problem(entry);
    if (!problem)
        return true;
    quote(walk, entry->name, &shown);
    bh_verdict_failed(ret, BH_REASON_OUTPUT_INVALID, "glob output '%s' matches %s, which %s", glob, shown.data,
                      problem);
    return false;
}

static bool check_walk(const struct bh_lease_output *output, const struct bh_walk *walk, struct bh_verdict *ret)
{
    if (walk->error != 0) {
        BH_CLEANUP_BUF struct bh_buf shown = BH_BUF_INIT;
        quote(walk, walk->error_at, &shown);
        bh_verdict_failed(ret, BH_REASON_OUTPUT_INVALID,
                          "glob output '%s': folder %s of the output folder cannot be read: %s", output->glob,
                          shown.data, strerror(walk->error));
        return false;
    }
    if (walk->overflow)
        bh_verdict_failed(ret, BH_REASON_OUTPUT_INVALID,
                          "glob output '%s': the output folder holds more than %d entries, or is deeper than %d",
                          output->glob, BH_WALK_MAX_ENTRIES, BH_WALK_MAX_DEPTH);
    return !walk->overflow;
}

bool bh_output_glob(const struct bh_lease_output *output, const struct bh_walk *walk, struct bh_map *taken,
                    void (*take)(void *arg, const char *name), void *arg, size_t *ret_n, struct bh_verdict *ret)
{
    int64_t max = output->max_files > 0 ? output->max_files : MAX_FILES_DEFAULT;
    *ret_n = 0;
    if (!check_walk(output, walk, ret))
        return false;
    for (size_t i = 0; i < walk->len; i++) {
        const struct bh_walk_entry *entry = &walk->entries[i];
        if (!bh_glob_match(output->glob, entry->name))
            continue;
        if (S_ISDIR(entry->type) && reaches_below(output->glob, entry->name))
            continue;
        if (!check_match(output->glob, walk, entry, ret))
            return false;
        if ((int64_t)++ * ret_n > max) {
            bh_verdict_failed(ret, BH_REASON_OUTPUT_INVALID, "glob output '%s' matches more than %lld files",
                              output->glob, (long long)max);
            return false;
        }
        if (bh_map_has(taken, entry->name))
            continue;
        bh_map_put(taken, entry->name, taken);
        take(arg, entry->name);
    }
    return true;
}

/* A folder that holds something is told by what it holds. */
static bool is_shown(const struct bh_walk *walk, size_t i)
{
    const char *name = walk->entries[i].name;
    size_t len = strlen(name);
    if (!S_ISDIR(walk->entries[i].type))
        return true;
    for (size_t k = i + 1; k < walk->len && strncmp(walk->entries[k].name, name, len) == 0; k++) {
        if (walk->entries[k].name[len] == '/')
            return false;
    }
    return true;
}

void bh_output_describe(const char *folder, const struct bh_walk *walk, struct bh_buf *out)
{
    size_t shown = 0, rest = 0;
    if (walk->error != 0 && walk->len == 0) {
        bh_buf_addf(out, "%s cannot be read: %s", folder, strerror(walk->error));
        return;
    }
    if (walk->len == 0) {
        bh_buf_addf(out, "%s is empty", folder);
        return;
    }
    if (walk->withheld) {
        bh_buf_addf(out, "%s holds %s%zu entr%s, whose name%s withheld (the agent is tainted)", folder,
                    walk->overflow ? "at least " : "", walk->len, walk->len == 1 ? "y" : "ies",
                    walk->len == 1 ? " is" : "s are");
        return;
    }
    bh_buf_addf(out, "%s holds: ", folder);
    for (size_t i = 0; i < walk->len; i++) {
        if (!is_shown(walk, i))
            continue;
        if (shown >= SHOWN_NAMES) {
            rest++;
            continue;
        }
        bh_buf_adds(out, shown++ > 0 ? ", " : "");
        bh_output_escape(out, walk->entries[i].name);
        if (S_ISDIR(walk->entries[i].type))
            bh_buf_addc(out, '/');
    }
    if (rest > 0)
        bh_buf_addf(out, " and %s%zu more", walk->overflow ? "at least " : "", rest);
}
