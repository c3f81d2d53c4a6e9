/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding out what a skeleton would be made of (its name), and making it: in a temporary folder, renamed when it is
 * whole. Two processes may do so at once; the first rename wins and the other's work is thrown away.
 */
#include "workers/rootfs/skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "workers/rootfs/base_stage.h"
#include "workers/rootfs/skeleton_priv.h"

#define FORMAT 2 /* raised when what this file makes changes */

static const char *const from_etc[] = {
#define BH_X(name) name,
#include "workers/rootfs/skeleton_etc.def"
#undef BH_X
};

/*
 * Directories of the root, with the mode that they have on any Linux. The group of the agent may write in the agent's:
 * a setup, which is root without a single capability, is a member of it.
 */
static const struct dir {
    const char *name;
    mode_t mode;
    bool agent; /* owned by the agent and its group */
} dirs[] = {
    {"dev", 0755, false},         {"etc", 0755, false},          {"home", 0755, false},     {"home/agent", 0775, true},
    {"mnt", 0755, false},         {"proc", 0555, false},         {"root", 0700, false},     {"run", 0755, false},
    {"run/lock", 01777, false},   {"srv", 0755, false},          {"sys", 0555, false},      {"tmp", 01777, false},
    {"usr", 0755, false},         {"opt", 0755, false},          {"var", 0755, false},      {"var/cache", 0755, false},
    {"var/lib", 0755, false},     {"var/log", 0755, false},      {"var/tmp", 01777, false}, {"workspace", 0775, true},
    {"workspace/in", 0755, true}, {"workspace/out", 0775, true},
};

/* On most hosts links into /usr; where they are directories the launcher mounts them. */
static const char *const merged[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

static const struct text {
    const char *name, *content;
    mode_t mode;
} texts[] = {
    {"etc/passwd",
     "root:x:0:0:root:/root:/bin/sh\n"
     "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"
     "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
     0644},
    {"etc/group", "root:x:0:\ntty:x:5:\nusers:x:100:\nagent:x:1000:\nnogroup:x:65534:\n", 0644},
    {"etc/hosts", "127.0.0.1 localhost bulkhead\n::1 localhost ip6-localhost ip6-loopback\n", 0644},
    {"etc/hostname", "bulkhead\n", 0644},
    {"etc/nsswitch.conf",
     "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\nprotocols: files\n"
     "services: files\nethers: files\nrpc: files\n",
     0644},
    {"etc/resolv.conf", "# a box resolves no names\n", 0644},
    {"etc/environment", "", 0644},
};

static const struct link {
    const char *name, *target;
} links[] = {{"etc/mtab", "/proc/self/mounts"}, {"var/run", "/run"}, {"var/lock", "/run/lock"}};

/* --- the name --- */

static void add_own_parts(struct bh_fingerprint *f)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        bh_fingerprint_add(f, dirs[i].name, strlen(dirs[i].name) + 1);
        bh_fingerprint_add(f, &dirs[i].mode, sizeof(dirs[i].mode));
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++)
        bh_fingerprint_add(f, texts[i].content, strlen(texts[i].content) + 1);
    for (size_t i = 0; i < BH_ARRAY_LEN(links); i++)
        bh_fingerprint_add(f, links[i].target, strlen(links[i].target) + 1);
}

static char *name_of(int host, int etc, const struct bh_box_owner *owner)
{
    struct bh_fingerprint f = BH_FINGERPRINT_INIT;
    const uint32_t facts[] = {FORMAT, owner->mode, owner->first_id};
    bh_fingerprint_add(&f, facts, sizeof(facts));
    add_own_parts(&f);
    for (size_t i = 0; i < BH_ARRAY_LEN(merged); i++)
        bh_fingerprint_add_tree(&f, host, merged[i], false);
    for (size_t i = 0; i < BH_ARRAY_LEN(from_etc); i++)
        bh_fingerprint_add_tree(&f, etc, from_etc[i], true);
    return bh_asprintf("host-%s-%016llx", owner->mode == BH_IDS_RANGE ? "range" : "single", (unsigned long long)f.hash);
}

/* --- making it --- */

static int make_dirs(int to, const struct bh_copy_to *c)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(dirs); i++) {
        uid_t id = c->root + (dirs[i].agent ? c->agent_offset : 0);
        if (mkdirat(to, dirs[i].name, 0700) < 0)
            return -1;
        if (c->chown && fchownat(to, dirs[i].name, id, id, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
        if (fchmodat(to, dirs[i].name, dirs[i].mode, 0) < 0)
            return -1;
    }
    return 0;
}

static int make_text(int to, const struct text *t, const struct bh_copy_to *c)
{
    BH_CLEANUP_FD int fd = openat(to, t->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || bh_write_all(fd, t->content, strlen(t->content)) < 0 || fchmod(fd, t->mode) < 0)
        return -1;
    return c->chown ? fchown(fd, c->root, c->root) : 0;
}

static int make_links(int to, const struct bh_copy_to *c)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(links); i++) {
        if (symlinkat(links[i].target, to, links[i].name) < 0)
            return -1;
        if (c->chown && fchownat(to, links[i].name, c->root, c->root, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
    }
    return 0;
}

static int copy_merged(int host, int to, struct bh_copy_to *c)
{
    for (size_t i = 0; i < BH_ARRAY_LEN(merged); i++) {
        struct stat st;
        if (fstatat(host, merged[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        int rc = S_ISDIR(st.st_mode) ? mkdirat(to, merged[i], 0755) : bh_copy_tree(host, merged[i], to, merged[i], c);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static int copy_etc(int etc, int to, struct bh_copy_to *c)
{
    BH_CLEANUP_FD int to_etc = openat(to, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < BH_ARRAY_LEN(from_etc); i++) {
        const char *slash = strrchr(from_etc[i], '/');
        if (slash) {
            BH_CLEANUP_FREE char *parent = bh_strndup(from_etc[i], (size_t)(slash - from_etc[i]));
            struct stat st;
            if (fstatat(etc, from_etc[i], &st, AT_SYMLINK_NOFOLLOW) == 0 && bh_copy_parents(to_etc, parent, c) < 0)
                return -1;
        }
        if (bh_copy_tree(etc, from_etc[i], to_etc, from_etc[i], c) < 0)
            return -1;
    }
    return 0;
}

static int fill(int host, int etc, int to, const struct bh_box_owner *owner)
{
    struct bh_copy_to c = {.agent_offset = BH_AGENT_UID, .bytes_left = BH_COPY_BYTES_MAX};
    c.chown = owner->mode == BH_IDS_RANGE;
    c.root = c.chown ? owner->first_id : 0;
    if (make_dirs(to, &c) < 0 || copy_merged(host, to, &c) < 0 || make_links(to, &c) < 0)
        return -1;
    for (size_t i = 0; i < BH_ARRAY_LEN(texts); i++) {
        if (make_text(to, &texts[i], &c) < 0)
            return -1;
    }
    if (copy_etc(etc, to, &c) < 0 || fchmod(to, 0755) < 0)
        return -1;
    return c.chown ? fchown(to, c.root, c.root) : 0;
}

static int make(int bases, int host, int etc, const char *name, const struct bh_box_owner *owner, struct bh_err **err)
{
    BH_CLEANUP_FREE char *temporary = NULL;
    int rc = 0;
    BH_CLEANUP_FD int to = bh_base_stage(bases, name, &temporary);
    if (to < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot make a base");
    if (fill(host, etc, to, owner) < 0 || syncfs(to) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot make the base '%s'", name);
    else if (renameat2(bases, temporary, bases, name, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot put the base '%s' in place", name);
    (void)bh_rmtree_at(bases, temporary);
    return rc;
}

int bh_skeleton_ensure_from(const char *host_root, const char *home, const struct bh_box_owner *owner, char **ret_name,
                            struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_path_join(home, "bases");
    int rc = bh_mkdir_p(path, 0700, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FD int bases = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FD int host = open(host_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    BH_CLEANUP_FD int etc = host >= 0 ? openat(host, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (bases < 0 || etc < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open '%s'", bases < 0 ? path : "/etc");
    BH_CLEANUP_FREE char *name = name_of(host, etc, owner);
    struct stat st;
    if (fstatat(bases, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        rc = make(bases, host, etc, name, owner, err);
        if (rc != 0)
            return rc;
    }
    *ret_name = BH_TAKE(name);
    return 0;
}

int bh_skeleton_ensure(const char *home, const struct bh_box_owner *owner, char **ret_name, struct bh_err **err)
{
    return bh_skeleton_ensure_from("/", home, owner, ret_name, err);
}
