/* SPDX-License-Identifier: Apache-2.0 */
/* Chains of layers and how a new one comes to stand on them. */
#include "workers/rootfs/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"

#define CHAIN_MAX 64

void bh_layer_chain_fini(struct bh_layer_chain *chain)
{
    for (size_t i = 0; i < chain->n; i++)
        bh_free(chain->names[i]);
    bh_free(chain->names);
    *chain = (struct bh_layer_chain){0};
}

static bool name_valid(const char *name)
{
    return name[0] && name[0] != '.' && strlen(name) <= 100 && !strpbrk(name, "/:,\\");
}

/* *ret is NULL where the layer stands on the base. */
static int read_below(int layers, const char *name, char **ret, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    BH_CLEANUP_FD int dir = openat(layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return bh_err_set(err, errno == ENOENT ? BH_E_NOT_FOUND : BH_E_IO, errno, "cannot open layer '%s'", name);
    BH_CLEANUP_FD int fd = openat(dir, "below", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        *ret = NULL;
        return 0;
    }
    if (fd < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot open what layer '%s' stands on", name);
    int rc = bh_read_all(fd, 256, &text, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "reading what layer '%s' stands on", name);
    if (text.len > 0 && text.data[text.len - 1] == '\n')
        text.data[--text.len] = '\0';
    if (!name_valid(text.data))
        return bh_err_set(err, BH_E_STORE_CORRUPT, 0, "layer '%s' stands on something that is no layer", name);
    *ret = bh_buf_take(&text);
    return 0;
}

int bh_layer_chain_read(int layers, const char *newest, struct bh_layer_chain *ret, struct bh_err **err)
{
    struct bh_layer_chain chain = {0};
    size_t cap = 0;
    char *name = bh_strdup(newest);
    int rc = 0;
    while (name && rc == 0) {
        char *below = NULL;
        if (chain.n == CHAIN_MAX || !name_valid(name))
            rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "the layers below '%s' do not end", newest);
        else
            rc = read_below(layers, name, &below, err);
        *BH_PUSH(chain.names, chain.n, cap) = name;
        name = below;
    }
    if (rc == 0)
        *ret = chain;
    else
        bh_layer_chain_fini(&chain);
    return rc;
}

/* --- freezing --- */

static int write_below(int dir, const char *below)
{
    BH_CLEANUP_FREE char *text = bh_asprintf("%s\n", below);
    BH_CLEANUP_FD int fd = openat(dir, "below", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd >= 0 ? bh_write_all(fd, text, strlen(text)) : -1;
}

/* A tree that nobody wrote to is no part of the layer; boxes on it can then show the host's own. */
static void drop_empty(int dir)
{
    (void)unlinkat(dir, "usr", AT_REMOVEDIR);
    (void)unlinkat(dir, "opt", AT_REMOVEDIR);
}

static int put_in_place(int dirfd, const char *from, int layers, const char *name, struct bh_err **err)
{
    if (renameat2(dirfd, from, layers, name, RENAME_NOREPLACE) < 0)
        return bh_err_set(err, errno == EEXIST ? BH_E_EXISTS : BH_E_IO, errno, "cannot put layer '%s' in place", name);
    if (fsync(layers) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot sync the layers");
    return 0;
}

/* The new upper under a name of its own, on top of the chain, is what is squashed. */
static int freeze_and_squash(int dirfd, const char *upper, int layers, const char *name, struct bh_layer_chain *chain,
                             struct bh_err **err)
{
    BH_CLEANUP_FREE char *top = bh_asprintf(BH_LAYER_HALF "top-%s", name);
    if (renameat2(dirfd, upper, layers, top, RENAME_NOREPLACE) < 0)
        return bh_err_set(err, BH_E_IO, errno, "cannot move layer '%s'", name);
    size_t cap = chain->n;
    (void)BH_PUSH(chain->names, chain->n, cap);
    for (size_t i = chain->n - 1; i > 0; i--)
        chain->names[i] = chain->names[i - 1];
    chain->names[0] = bh_strdup(top);
    int rc = bh_layer_squash(layers, chain, name, err);
    (void)bh_rmtree_at(layers, top);
    return rc;
}

int bh_layer_freeze(int dirfd, const char *upper, int layers, const char *name, const char *below, struct bh_err **err)
{
    struct bh_layer_chain chain = {0};
    struct stat st;
    if (!name_valid(name))
        return bh_err_set(err, BH_E_BAD_NAME, 0, "a layer cannot be called '%s'", name);
    if (fstatat(layers, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return bh_err_set(err, BH_E_EXISTS, 0, "there is a layer '%s' already", name);
    if (below) {
        int rc = bh_layer_chain_read(layers, below, &chain, err);
        if (rc != 0)
            return rc;
    }
    BH_CLEANUP_FD int dir = openat(dirfd, upper, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int rc = 0;
    drop_empty(dir);
    if (dir < 0 || (below && write_below(dir, below) < 0) || syncfs(dir) < 0)
        rc = bh_err_set(err, BH_E_IO, errno, "cannot sync layer '%s'", name);
    else if (chain.n >= BH_LAYERS_MAX)
        rc = freeze_and_squash(dirfd, upper, layers, name, &chain, err);
    else
        rc = put_in_place(dirfd, upper, layers, name, err);
    bh_layer_chain_fini(&chain);
    return rc;
}
