/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the site's policy: where they are, and who may have written them. */
#include "policies/site_priv.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "topologies/settings.h"

enum { SITE_MAX = 64 * 1024, OVERFLOW_ID = 65534 };

/* --- the file --- */

/*
 * In a user namespace root of the host has no number but the overflow id. Below /etc only root can have put it; a file
 * that the caller names himself may be anybody's.
 */
static bool is_trusted_owner(const char *file, uid_t owner)
{
    return owner == 0 || owner == geteuid() || (owner == OVERFLOW_ID && bh_streq(file, BH_SITE_FILE));
}

static int check_owner(const char *file, int fd, struct bh_err **err)
{
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) < 0)
        return bh_err_set(err, BH_E_POLICY, errno, "cannot read the site policy '%s'", file);
    if (!S_ISREG(st.st_mode))
        rc = bh_err_set(err, BH_E_POLICY, 0, "the site policy '%s' is no regular file", file);
    else if (!is_trusted_owner(file, st.st_uid))
        rc = bh_err_set(err, BH_E_POLICY, 0, "the site policy '%s' belongs to user %u", file, (unsigned)st.st_uid);
    else if (st.st_mode & (S_IWGRP | S_IWOTH))
        rc = bh_err_set(err, BH_E_POLICY, 0, "the site policy '%s' can be written by others", file);
    if (rc != 0)
        bh_err_hint(err, "it must be a file that root or you own, with mode 0644 or less");
    return rc;
}

static int read_all(const char *file, int fd, struct bh_buf *text, struct bh_err **err)
{
    int rc = bh_read_all(fd, SITE_MAX, text, NULL);
    if (rc == -BH_E_TOO_LARGE)
        return bh_err_set(err, BH_E_POLICY, 0, "the site policy '%s' is larger than 64 KiB", file);
    return rc == 0 ? 0 : bh_err_set(err, BH_E_POLICY, errno, "cannot read the site policy '%s'", file);
}

/* 0 with an empty *text where there is no file and none must be there. */
static int read_file(const char *file, bool must_exist, struct bh_buf *text, bool *there, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *there = fd >= 0;
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR) && !must_exist)
        return 0;
    if (fd < 0) {
        int rc = bh_err_set(err, BH_E_POLICY, errno, "cannot read the site policy '%s'", file);
        bh_err_hint(err, must_exist ? "BULKHEAD_SITE, or --policy of 'bulkhead lint', must name a file that can be read"
                                    : "it must be readable by whoever runs bulkhead");
        return rc;
    }
    int rc = check_owner(file, fd, err);
    return rc == 0 ? read_all(file, fd, text, err) : rc;
}

/* What is wrong with it is no fault of a pipeline: whatever the loader calls it, it is the policy that refuses. */
static void as_policy(const struct bh_err *found, struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    bh_err_set(&err, BH_E_POLICY, 0, "%s", bh_err_message(found));
    if (bh_err_get_detail(found))
        bh_err_detail(&err, "%s", bh_err_get_detail(found));
    if (bh_err_get_hint(found))
        bh_err_hint(&err, "%s", bh_err_get_hint(found));
    bh_err_at(&err, bh_err_file(found), bh_err_line(found), bh_err_column(found), bh_err_path(found));
    bh_errlist_add(errors, err);
}

int bh_site_read(const char *file, bool must_exist, struct bh_site *ret, struct bh_errlist *errors)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_err *err = NULL;
    struct bh_errlist found = {0};
    struct bh_site site = {0};
    bool there = false;
    int rc = read_file(file, must_exist, &text, &there, &err);
    if (rc != 0) {
        bh_errlist_add(errors, err);
        return rc;
    }
    if (there && bh_settings_load(file, text.data, text.len, &bh_site_table, &site, &found) != 0) {
        for (size_t i = 0; i < found.len; i++)
            as_policy(found.items[i], errors);
        rc = -BH_E_POLICY;
    }
    bh_errlist_fini(&found);
    if (rc != 0) {
        bh_site_fini(&site);
        return rc;
    }
    site.file = there ? bh_strdup(file) : NULL;
    *ret = site;
    return 0;
}

/* --- the files that count --- */

static int add(struct bh_policy *policy, const char *file, bool must_exist, struct bh_errlist *errors)
{
    int rc = bh_site_read(file, must_exist, &policy->sites[policy->n], errors);
    if (rc == 0 && policy->sites[policy->n].file)
        policy->n++;
    return rc;
}

static char *usual_own(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/')
        return bh_path_join(config, "bulkhead/site.yaml");
    return home && *home == '/' ? bh_path_join(home, ".config/bulkhead/site.yaml") : NULL;
}

/* Below a folder that is closed to the caller nothing is the caller's: HOME may be that of whoever started us. */
static bool is_out_of_reach(const char *file)
{
    return faccessat(AT_FDCWD, file, F_OK, AT_EACCESS) < 0 && errno == EACCES;
}

int bh_policy_load(const char *named, struct bh_policy *ret, struct bh_errlist *errors)
{
    struct bh_policy policy = {0};
    const char *variable = getenv("BULKHEAD_SITE");
    const char *given = named ? named : variable && *variable ? variable : NULL;
    BH_CLEANUP_FREE char *own = given ? bh_strdup(given) : usual_own();
    int rc = add(&policy, BH_SITE_FILE, false, errors);
    if (rc == 0 && own && !bh_streq(own, BH_SITE_FILE) && (given || !is_out_of_reach(own)))
        rc = add(&policy, own, given != NULL, errors);
    if (rc == 0)
        *ret = policy;
    else
        bh_policy_fini(&policy);
    return rc;
}

void bh_policy_fini(struct bh_policy *policy)
{
    for (size_t i = 0; i < policy->n; i++)
        bh_site_fini(&policy->sites[i]);
    *policy = (struct bh_policy){0};
}

/* --- the end --- */

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_free(texts[i]);
    bh_free(texts);
}

static void rules_fini(struct bh_site_rules *rules)
{
    for (size_t i = 0; i < BH_N_SITE_LISTS; i++)
        free_texts(rules->lists[i].items, rules->lists[i].n);
}

void bh_site_fini(struct bh_site *site)
{
    rules_fini(&site->rules);
    for (size_t i = 0; i < site->n_pipelines; i++) {
        struct bh_site_pipeline *p = &site->pipelines[i];
        bh_free(p->name);
        free_texts(p->labels, p->n_labels);
        free_texts(p->values, p->n_labels);
        rules_fini(&p->rules);
    }
    bh_free(site->pipelines);
    bh_free(site->file);
    *site = (struct bh_site){0};
}
