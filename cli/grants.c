/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns HOME/grants/DIGEST, a small JSON file for each list that was granted to a document. A file there is believed
 * because the folder is the caller's alone; what it holds is for people. Never holds a value, only what was asked for.
 */
#include "cli/grants.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifact-bus/digest.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"
#include "cli/common.h"
#include "policies/audit.h"

#define FOLDER "grants"

static void set_file(struct bh_val *v, const char *file)
{
    char *path = file ? realpath(file, NULL) : NULL;
    bh_val_set_str(v, "file", path ? path : file);
    bh_free(path);
}

/* The document's path and what it asks for: what is granted. */
static struct bh_val *subject_of(const struct bh_plan *plan)
{
    struct bh_val *v = bh_val_map();
    set_file(v, plan->pipeline->file);
    struct bh_val *asks = bh_val_set(v, "asks", bh_val_list());
    for (size_t i = 0; i < plan->n_asks; i++)
        bh_val_add(asks, bh_val_str(plan->asks[i].s));
    return v;
}

/* "grants/64 hex digits" */
static char *name_of(const struct bh_val *subject)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char digest[BH_DIGEST_TEXT];
    bh_json_format_canonical(subject, &text);
    struct bh_digest d = bh_digest_of(text.data, text.len);
    return bh_asprintf(FOLDER "/%s", strchr(bh_digest_format(&d, digest), ':') + 1);
}

static bool is_remembered(const struct bh_home *home, const char *name)
{
    struct stat st;
    return fstatat(home->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

static int remember(const struct bh_home *home, const char *name, const struct bh_val *subject, const char *how,
                    struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = bh_home_path(home, FOLDER), *path = bh_home_path(home, name);
    BH_CLEANUP_VAL struct bh_val *v = bh_val_copy(subject);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    char now[BH_WALL_TEXT];
    bh_val_set_str(v, "how", how);
    bh_val_set_str(v, "time", bh_wall_format(bh_wall_now(), now));
    bh_json_format(v, &text);
    bh_buf_addc(&text, '\n');
    int rc = bh_mkdir_p(folder, 0700, err);
    return rc == 0 ? bh_write_file_atomic(path, text.data, text.len, 0600, err) : rc;
}

static int note_grant(const struct bh_home *home, const struct bh_val *subject, const char *how, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *fields = bh_val_copy(subject);
    bh_val_set_str(fields, "how", how);
    bh_val_set_int(fields, "uid", (int64_t)getuid());
    return bh_audit_add(home, BH_AUDIT_GRANT, fields, err);
}

static bool answers_yes(const struct bh_plan *plan)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_escape_terminal(&text, plan->pipeline->file, strlen(plan->pipeline->file));
    bh_buf_adds(&text, " asks for what lies beyond its folder:\n");
    for (size_t i = 0; i < plan->n_asks; i++) {
        bh_buf_adds(&text, "  ");
        bh_escape_terminal(&text, plan->asks[i].s, strlen(plan->asks[i].s));
        bh_buf_addc(&text, '\n');
    }
    bh_buf_adds(&text, "grant this, now and whenever it asks for the same?");
    return bh_cli_says_yes(text.data);
}

static int refuse(const struct bh_plan *plan, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf list = BH_BUF_INIT;
    for (size_t i = 0; i < plan->n_asks; i++)
        bh_buf_addf(&list, "%s%s", i ? ", " : "", plan->asks[i].s);
    int rc =
        bh_err_set(err, BH_E_POLICY, 0, "what the pipeline asks for beyond its folder was not granted: %s", list.data);
    bh_err_hint(err, "look at 'bulkhead plan', then run it with --grant");
    return rc;
}

int bh_grant_check(const struct bh_grant_ask *ask, const struct bh_plan *plan, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *subject = subject_of(plan);
    BH_CLEANUP_FREE char *name = name_of(subject);
    const char *how = ask->given ? "--grant" : "remembered";
    bool known = is_remembered(ask->home, name);
    if (!ask->given && !known) {
        how = "terminal";
        if (!ask->may_ask || !answers_yes(plan))
            return refuse(plan, err);
    }
    int rc = note_grant(ask->home, subject, how, err);
    return rc == 0 && !known ? remember(ask->home, name, subject, how, err) : rc;
}

void bh_grant_note_refusals(const struct bh_home *home, const char *file, const struct bh_errlist *errors)
{
    for (size_t i = 0; i < errors->len; i++) {
        const struct bh_err *e = errors->items[i];
        enum bh_code code = bh_err_code(e);
        if (code != BH_E_TRUST && code != BH_E_POLICY)
            continue;
        BH_CLEANUP_VAL struct bh_val *fields = bh_val_map();
        set_file(fields, file);
        bh_val_set_str(fields, "code", bh_code_info((int)code)->text);
        bh_val_set_str(fields, "message", bh_err_message(e));
        bh_val_set_str(fields, "path", bh_err_path(e));
        if (bh_err_line(e) > 0)
            bh_val_set_int(fields, "line", bh_err_line(e));
        (void)!bh_audit_add(home, BH_AUDIT_DENIAL, fields, NULL); /* nothing ran; the caller hears of it anyway */
    }
}
