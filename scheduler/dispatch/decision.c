/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions as files. Believes a file no further than its owner, its shape and the question that it names. */
#include "scheduler/dispatch/decision.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "artifact-bus/digest.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"

enum { FILE_MAX = 16 * 1024 };

void bh_decision_fini(struct bh_decision *d)
{
    bh_free(d->gate);
    bh_free(d->digest);
    bh_free(d->by);
    bh_free(d->reason);
    *d = (struct bh_decision){0};
}

int bh_decision_folder(const struct bh_home *home, const char *run, char **ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_home_run_path(home, run, "decisions");
    int rc = bh_mkdir_p(path, 0700, err);
    if (rc == 0)
        *ret = BH_TAKE(path);
    return rc;
}

int bh_decision_lock(const struct bh_home *home, const char *run, int *ret_fd, struct bh_err **err)
{
    BH_CLEANUP_FREE char *folder = NULL;
    int rc = bh_decision_folder(home, run, &folder, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FD int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || bh_flock(fd, LOCK_EX) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot lock '%s'", folder);
    *ret_fd = BH_TAKE_FD(fd);
    return 0;
}

/* NULL where the text is no digest: it becomes the name of a file. */
static char *path_of(const struct bh_home *home, const char *run, const char *digest)
{
    struct bh_digest parsed;
    if (bh_digest_parse(digest, &parsed) != 0)
        return NULL;
    BH_CLEANUP_FREE char *rel = bh_asprintf("decisions/%s.json", digest + strlen("sha256:"));
    return bh_home_run_path(home, run, rel);
}

int bh_decision_write(const struct bh_home *home, const char *run, const struct bh_decision *d, struct bh_err **err)
{
    char at[BH_WALL_TEXT];
    BH_CLEANUP_FREE char *folder = NULL, *path = path_of(home, run, d->digest);
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    if (!path)
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "'%s' is no digest", d->digest);
    bh_val_set_str(v, "gate", d->gate);
    bh_val_set_str(v, "digest", d->digest);
    bh_val_set_str(v, "verdict", d->approved ? "approve" : "reject");
    bh_val_set_str(v, "by", d->by);
    bh_val_set_str(v, "reason", d->reason);
    bh_val_set_str(v, "at", bh_wall_format(d->at, at));
    bh_val_set_bool(v, "audited", d->audited);
    bh_json_format(v, &text);
    int rc = bh_decision_folder(home, run, &folder, err);
    return rc == 0 ? bh_write_file_atomic(path, text.data, text.len, 0600, err) : rc;
}

static int bad(const char *path, const char *why, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_POLICY, 0, "the decision '%s' is not taken: %s", path, why);
    bh_err_hint(err, "remove it, and decide with 'bulkhead approve' or 'bulkhead reject'");
    return rc;
}

/* Only a file of one's own, or of root, is somebody's word. */
static int read_text(const char *path, struct bh_buf *text, struct bh_err **err)
{
    struct stat st;
    BH_CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return -BH_E_NOT_FOUND;
    if (fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return bad(path, "it is no file", err);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return bad(path, "it belongs to another user", err);
    return bh_read_all(fd, FILE_MAX, text, err);
}

static int fill(const char *path, const char *digest, const struct bh_val *v, struct bh_decision *ret,
                struct bh_err **err)
{
    const char *verdict = bh_val_str_of(v, "verdict"), *gate = bh_val_str_of(v, "gate"), *by = bh_val_str_of(v, "by"),
               *at = bh_val_str_of(v, "at");
    struct bh_wall when;
    if (!bh_streq(bh_val_str_of(v, "digest"), digest))
        return bad(path, "it is about another question", err);
    if (!gate || !by || !at || bh_wall_parse(at, bh_wall_now(), &when) != 0 ||
        !(bh_streq(verdict, "approve") || bh_streq(verdict, "reject")))
        return bad(path, "it is not what 'bulkhead approve' writes", err);
    *ret = (struct bh_decision){.gate = bh_strdup(gate),
                                .digest = bh_strdup(digest),
                                .approved = bh_streq(verdict, "approve"),
                                .audited = bh_val_bool_of(v, "audited"),
                                .by = bh_strdup(by),
                                .reason = bh_strdup(bh_val_str_of(v, "reason")),
                                .at = when};
    return 0;
}

int bh_decision_read(const struct bh_home *home, const char *run, const char *digest, struct bh_decision *ret,
                     struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = path_of(home, run, digest);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    if (!path)
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "'%s' is no digest", digest);
    int rc = read_text(path, &text, err);
    if (rc != 0)
        return rc;
    if (bh_json_parse(text.data, text.len, &v, NULL) != 0)
        return bad(path, "it is no JSON", err);
    return fill(path, digest, v, ret, err);
}
