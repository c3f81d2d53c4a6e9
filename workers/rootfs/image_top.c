/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/image_top.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"
#include "workers/rootfs/image_stack.h"

#define FORMAT 2 /* raised when what this file makes changes */
#define ACCOUNTS_MAX (1 << 20)
#define ID_LAST 65534 /* the highest that a box knows by that number in every mode */

/* As those of base host (skeleton.c), and only what a box needs: all else is the image's. */
static const struct dir {
    const char *name;
    mode_t mode;
    bool agent; /* owned by the agent and its group */
} dirs[] = {
    {"dev", 0755, false},      {"etc", 0755, false},         {"home", 0755, false},         {"home/agent", 0775, true},
    {"proc", 0555, false},     {"root", 0700, false},        {"sys", 0555, false},          {"tmp", 01777, false},
    {"workspace", 0775, true}, {"workspace/in", 0755, true}, {"workspace/out", 0775, true},
};

static const struct text {
    const char *name, *content;
} texts[] = {
    {"etc/hosts", "127.0.0.1 localhost bulkhead\n::1 localhost ip6-localhost ip6-loopback\n"},
    {"etc/hostname", "bulkhead\n"},
    {"etc/resolv.conf", "# a box resolves no names\n"},
};

/* --- the image's own files --- */

struct stack {
    int *roots;
    size_t n;
};

static void close_stack(struct stack *s)
{
    for (size_t i = 0; i < s->n; i++)
        bh_close(s->roots[i]);
    bh_free(s->roots);
}

static int open_stack(const struct bh_bases *b, const struct bh_image *image, struct stack *ret, struct bh_err **err)
{
    struct stack s = {.roots = bh_calloc(image->n_layers + 1, sizeof(int))};
    for (; s.n < image->n_layers; s.n++) {
        s.roots[s.n] = bh_bases_open_root(b, image->layers[s.n]);
        if (s.roots[s.n] < 0) {
            int rc = bh_err_set(err, BH_E_IO, errno, "cannot open '%s/%s'", b->path, image->layers[s.n]);
            close_stack(&s);
            return rc;
        }
    }
    *ret = s;
    return 0;
}

/* What a lower layer says must not win because the upper one is closed to who has no privileges. */
static int closed(const char *what, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_INVALID, EACCES, "the modes in the image keep its own user from '/%s'", what);
    bh_err_hint(err, "build the image with folders and files there that their owner may read");
    return rc;
}

/* "" where the image has none, or no text. Ends with a newline else. */
static int read_accounts(const struct stack *s, const char *path, struct bh_buf *out, struct bh_err **err)
{
    int fd = -1;
    enum bh_stack_found found = bh_stack_find(s->roots, s->n, path, &fd);
    if (found == BH_STACK_CLOSED)
        return closed(path, err);
    if (found == BH_STACK_FILE && bh_read_all(fd, ACCOUNTS_MAX, out, NULL) != 0)
        bh_buf_clear(out);
    bh_close(fd);
    if (strlen(out->data) != out->len)
        bh_buf_clear(out);
    if (out->len > 0 && out->data[out->len - 1] != '\n')
        bh_buf_addc(out, '\n');
    return 0;
}

static int read_both(const struct stack *s, struct bh_buf *passwd, struct bh_buf *group, struct bh_err **err)
{
    int rc = read_accounts(s, "etc/passwd", passwd, err);
    return rc == 0 ? read_accounts(s, "etc/group", group, err) : rc;
}

/* A line of passwd or group: name, and the numbers behind the second and third colon. */
struct account {
    const char *name;
    size_t name_len;
    int64_t id, group; /* -1: none */
};

static int64_t field(const char *line, const char *end, int number)
{
    int64_t value;
    for (; number > 0 && line; number--) {
        line = memchr(line, ':', (size_t)(end - line));
        line = line ? line + 1 : NULL;
    }
    if (!line)
        return -1;
    const char *stop = memchr(line, ':', (size_t)(end - line));
    BH_CLEANUP_FREE char *text = bh_strndup(line, (size_t)((stop ? stop : end) - line));
    return bh_parse_int(text, &value) == 0 && value >= 0 ? value : -1;
}

static bool next_account(const char **at, struct account *ret)
{
    if (!**at)
        return false;
    const char *line = *at, *end = strchr(line, '\n');
    *at = end + 1;
    const char *colon = memchr(line, ':', (size_t)(end - line));
    *ret = (struct account){.name = line, .name_len = (size_t)((colon ? colon : end) - line), .id = -1, .group = -1};
    if (colon) {
        ret->id = field(line, end, 2);
        ret->group = field(line, end, 3);
    }
    return true;
}

/* By name, or (NULL) by number. */
static bool find_account(const char *text, const char *name, int64_t id, struct account *ret)
{
    while (next_account(&text, ret)) {
        bool same = name ? strlen(name) == ret->name_len && memcmp(name, ret->name, ret->name_len) == 0 : ret->id == id;
        if (same && ret->id >= 0)
            return true;
    }
    return false;
}

/* --- the user --- */

static int check_id(int64_t id, const char *user, struct bh_err **err)
{
    if (id >= 0 && id <= ID_LAST)
        return 0;
    return bh_err_set(err, BH_E_INVALID, 0, "the user '%s' of the image has an id above %d", user, ID_LAST);
}

static int no_account(const char *what, const char *name, const char *file, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_INVALID, 0, "the %s '%s' of the image is not in its %s", what, name, file);
    bh_err_hint(err, "set a User by number when the image is built, or add it to %s", file);
    return rc;
}

static int resolve(const char *passwd, const char *group, const char *user, int64_t *uid, int64_t *gid,
                   struct bh_err **err)
{
    struct account a;
    const char *colon = strchr(user, ':');
    BH_CLEANUP_FREE char *name = bh_strndup(user, colon ? (size_t)(colon - user) : strlen(user));
    *gid = 0;
    if (bh_parse_int(name, uid) == 0) {
        if (find_account(passwd, NULL, *uid, &a) && a.group >= 0)
            *gid = a.group;
    } else if (find_account(passwd, name, 0, &a)) {
        *uid = a.id;
        *gid = a.group >= 0 ? a.group : 0;
    } else {
        return no_account("user", name, "/etc/passwd", err);
    }
    if (!colon || !colon[1] || bh_parse_int(colon + 1, gid) == 0)
        return 0;
    if (!find_account(group, colon + 1, 0, &a))
        return no_account("group", colon + 1, "/etc/group", err);
    *gid = a.id;
    return 0;
}

int bh_top_user(const struct bh_bases *b, const struct bh_image *image, const char *user, int64_t *ret_uid,
                int64_t *ret_gid, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf passwd = BH_BUF_INIT, group = BH_BUF_INIT;
    struct stack s;
    int64_t uid = 0, gid = 0;
    *ret_uid = *ret_gid = 0;
    if (!user)
        return 0;
    int rc = open_stack(b, image, &s, err);
    if (rc != 0)
        return rc;
    rc = read_both(&s, &passwd, &group, err);
    close_stack(&s);
    if (rc == 0)
        rc = resolve(passwd.data, group.data, user, &uid, &gid, err);
    if (rc == 0)
        rc = check_id(uid, user, err);
    if (rc == 0)
        rc = check_id(gid, user, err);
    if (rc != 0 || uid == 0) /* an image that says nothing means root; agents are not */
        return rc;
    *ret_uid = uid;
    *ret_gid = gid;
    return 0;
}

/* --- accounts beside those of the image --- */

static const char *free_name(const char *text)
{
    struct account a;
    return find_account(text, "agent", 0, &a) ? "bulkhead" : "agent";
}

static void add_accounts(const struct bh_image *image, struct bh_buf *passwd, struct bh_buf *group)
{
    struct account a;
    int64_t uid = image->uid ? image->uid : BH_AGENT_UID, gid = image->uid ? image->gid : BH_AGENT_UID;
    const char *user = free_name(passwd->data), *own_group = free_name(group->data);
    if (!find_account(passwd->data, NULL, 0, &a))
        bh_buf_adds(passwd, "root:x:0:0:root:/root:/bin/sh\n");
    if (!find_account(passwd->data, NULL, uid, &a))
        bh_buf_addf(passwd, "%s:x:%lld:%lld:agent:/home/agent:/bin/sh\n", user, (long long)uid, (long long)gid);
    if (!find_account(group->data, NULL, 0, &a))
        bh_buf_adds(group, "root:x:0:\n");
    if (!find_account(group->data, NULL, gid, &a))
        bh_buf_addf(group, "%s:x:%lld:\n", own_group, (long long)gid);
}

/* --- the layer --- */

struct top {
    const struct bh_box_owner *owner;
    uid_t agent;
    gid_t agent_group;
    int root;
    struct bh_buf passwd, group;
    const char *workdir; /* clean, NULL: it need not be made */
    const struct stack *below;
};

static int own(const struct top *t, const char *name, bool agent)
{
    uid_t uid = t->owner->first_id + (agent ? t->agent : 0);
    gid_t gid = t->owner->first_id + (agent ? t->agent_group : 0);
    return t->owner->mode != BH_IDS_RANGE ? 0 : fchownat(t->root, name, uid, gid, AT_SYMLINK_NOFOLLOW);
}

static int make_dir(const struct top *t, const char *name, mode_t mode, bool agent)
{
    if (mkdirat(t->root, name, 0700) < 0)
        return errno == EEXIST ? 0 : -1;
    return own(t, name, agent) < 0 ? -1 : fchmodat(t->root, name, mode, 0);
}

static int make_text(const struct top *t, const char *name, const char *content)
{
    BH_CLEANUP_FD int fd = openat(t->root, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || bh_write_all(fd, content, strlen(content)) < 0 || fchmod(fd, 0644) < 0)
        return -1;
    return own(t, name, false);
}

/* A directory that the image has keeps its owner and mode under ours. */
static int make_as_below(const struct top *t, const char *name)
{
    struct stat st;
    BH_CLEANUP_FD int below = -1;
    enum bh_stack_found found = bh_stack_find(t->below->roots, t->below->n, name, &below);
    if (found == BH_STACK_CLOSED) {
        errno = EACCES;
        return -1;
    }
    if (found != BH_STACK_DIR || fstat(below, &st) < 0)
        return make_dir(t, name, 0755, true);
    if (mkdirat(t->root, name, 0700) < 0)
        return errno == EEXIST ? 0 : -1;
    if (t->owner->mode == BH_IDS_RANGE && fchownat(t->root, name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    return fchmodat(t->root, name, st.st_mode & 07777, 0);
}

static int make_workdir(const struct top *t)
{
    for (const char *end = t->workdir; end && *end;) {
        end += *end == '/';
        end += strcspn(end, "/");
        BH_CLEANUP_FREE char *prefix = bh_strndup(t->workdir, (size_t)(end - t->workdir));
        if (make_as_below(t, prefix) < 0)
            return -1;
    }
    return 0;
}

static int fill(const struct top *t)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        if (make_dir(t, dirs[i].name, dirs[i].mode, dirs[i].agent) < 0)
            return -1;
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        if (make_text(t, texts[i].name, texts[i].content) < 0)
            return -1;
    }
    return make_text(t, "etc/passwd", t->passwd.data) < 0 ? -1 : make_text(t, "etc/group", t->group.data);
}

static struct bh_digest key_of(const struct bh_image *image, const struct top *t)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
    struct bh_val *layers = bh_val_set(v, "layers", bh_val_list());
    bh_val_set_int(v, "format", FORMAT);
    bh_val_set_int(v, "agent", t->agent);
    bh_val_set_int(v, "agent_group", t->agent_group);
    for (size_t i = 0; i < image->n_layers; i++)
        bh_val_add(layers, bh_val_str(image->layers[i]));
    bh_val_set_str(v, "workdir", t->workdir);
    bh_json_format_canonical(v, &text);
    /* Raw: an account file need not be text that JSON could carry. */
    bh_buf_add(&text, t->passwd.data, t->passwd.len + 1);
    bh_buf_add(&text, t->group.data, t->group.len + 1);
    return bh_digest_of(text.data, text.len);
}

static bool is_below(const char *path, const char *name, bool itself)
{
    return bh_starts_with(path, name) && (path[strlen(name)] == '/' || (itself && !path[strlen(name)]));
}

/* NULL: it can be made. The same for everybody, whom the kernel would let or not. */
static const char *workdir_problem(const char *path)
{
    if (is_below(path, "proc", false) || is_below(path, "sys", false))
        return "the kernel says what is there, nothing can be made";
    bool file = is_below(path, "etc/passwd", true) || is_below(path, "etc/group", true);
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++)
        file = file || is_below(path, texts[i].name, true);
    return file ? "it leads through a file" : NULL;
}

static int workdir_error(const char *path, int why, const char *problem, struct bh_err **err)
{
    int rc = bh_err_set(err, BH_E_INVALID, why, "the WorkingDir '/%s' of the image cannot be made%s%s", path,
                        problem ? ": " : "", problem ? problem : "");
    bh_err_hint(err, "build the image with a WorkingDir that is in it, or give the agents one with 'workdir'");
    return rc;
}

/* What of an image's path the kernel refuses is the image's; all else is the host's. */
static bool is_of_path(int why)
{
    return why == ENOTDIR || why == EACCES || why == ELOOP || why == ENAMETOOLONG;
}

/*
 * Relative and clean, where the image has no such directory; NULL else: one reached through a link of the image is its
 * own.
 */
static int find_workdir(const struct stack *s, const char *workdir, char **ret, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf path = BH_BUF_INIT;
    for (const char *at = workdir ? workdir : ""; *at;) {
        size_t n = strcspn(at, "/");
        if (n == 2 && memcmp(at, "..", 2) == 0)
            return 0;
        if (n > 0 && !(n == 1 && *at == '.'))
            bh_buf_addf(&path, "%s%.*s", path.len ? "/" : "", (int)n, at);
        at += n;
        at += *at == '/';
    }
    if (path.len == 0 || path.len > 3000)
        return 0;
    const char *problem = workdir_problem(path.data);
    if (problem)
        return workdir_error(path.data, 0, problem, err);
    enum bh_stack_found found = bh_stack_find(s->roots, s->n, path.data, NULL);
    if (found == BH_STACK_CLOSED)
        return closed(path.data, err);
    *ret = found == BH_STACK_NONE ? bh_buf_take(&path) : NULL;
    return 0;
}

static int make(struct bh_bases *b, struct top *t, const char *name, struct bh_err **err)
{
    int part = -1;
    int rc = bh_bases_new_part(b, name, &part, &t->root, err);
    if (rc == 0 && fill(t) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot make '%s/%s'", b->path, name);
    else if (rc == 0 && make_workdir(t) < 0)
        rc = is_of_path(errno) ? workdir_error(t->workdir, errno, NULL, err)
                               : bh_err_set(err, BH_E_IO, errno, "cannot make '%s/%s'", b->path, name);
    bh_close(part);
    bh_close(t->root);
    return rc;
}

int bh_top_ensure(struct bh_bases *b, const struct bh_image *image, char **ret_name, struct bh_err **err)
{
    struct stack s;
    struct top t = {.owner = &b->host->owner, .root = -1, .passwd = BH_BUF_INIT, .group = BH_BUF_INIT};
    t.agent = image->uid ? (uid_t)image->uid : BH_AGENT_UID;
    t.agent_group = image->uid ? (gid_t)image->gid : BH_AGENT_UID;
    int rc = open_stack(b, image, &s, err);
    if (rc != 0)
        return rc;
    rc = read_both(&s, &t.passwd, &t.group, err);
    BH_CLEANUP_FREE char *workdir = NULL;
    if (rc == 0)
        rc = find_workdir(&s, image->workdir, &workdir, err);
    t.workdir = workdir;
    t.below = &s;
    add_accounts(image, &t.passwd, &t.group);
    struct bh_digest key = key_of(image, &t);
    BH_CLEANUP_FREE char *name = bh_bases_name(b, "image", &key);
    if (rc == 0 && !bh_bases_has(b, name))
        rc = make(b, &t, name, err);
    close_stack(&s);
    bh_buf_fini(&t.passwd);
    bh_buf_fini(&t.group);
    if (rc == 0)
        *ret_name = BH_TAKE(name);
    return rc;
}
