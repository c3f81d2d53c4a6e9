/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images as the base of boxes. An image becomes a list of folders below HOME/bases/images, each made once, never
 * changed and shared by all boxes and runs of this home: its layers, named by the digest of their bytes as we read
 * them, and on top one of ours with the places that a box mounts on, and accounts.
 *
 *   MODE-DIGEST/          a layer: root/, and diff-id, the digest of its content as it was verified
 *   MODE-tree-DIGEST/     a directory (image_tree.h): root/
 *   MODE-image-DIGEST/    what is ours of one image: root/
 *
 * MODE says how ids lie on disk. Whoever imports is the process that submits, before anything of the run has started:
 * all calls block on the disk.
 */
#pragma once

#include "base/err.h"
#include "workers/box/folder.h"

struct bh_val;

struct bh_image {
    char *base;    /* as the document has it */
    char *digest;  /* "sha256:…" of the manifest; of a directory its key; of an archive of docker its config's */
    char **layers; /* folders below BH_IMAGES_DIR, newest first */
    size_t n_layers;
    char **env; /* NAME=value */
    size_t n_env;
    char *workdir;    /* NULL: none said */
    int64_t uid, gid; /* of its user; 0, 0: none said, or root */
};
void bh_image_fini(struct bh_image *image);
/* For the store. */
struct bh_val *bh_image_to_val(const struct bh_image *image);
int bh_image_from_val(const struct bh_val *v, struct bh_image *ret) BH_MUST_CHECK; /* -1: malformed */

struct bh_image_host {
    const char *home;
    int launcher; /* socket to it, not yet on a loop */
    struct bh_box_owner owner;
    void (*progress)(void *arg, const char *base); /* called once where something has to be unpacked; may be NULL */
    void *arg;
};
/* Fills in the owner. */
int bh_image_host_ask(struct bh_image_host *host, struct bh_err **err) BH_MUST_CHECK;

/*
 * `folder` is that of the document: relative paths begin there, and such that do not leave it by their text do not
 * leave it by a symlink either. Errors: INVALID and its kin for a bad image (exit 3), UNDEFINED where there is none,
 * HOST, IO, DISK_FULL; nothing half-made stays under a name that counts.
 */
int bh_image_import(const struct bh_image_host *host, const char *base, const char *folder, struct bh_image *ret,
                    struct bh_err **err) BH_MUST_CHECK;
/* Whether all its folders are there. */
bool bh_image_present(const char *home, const struct bh_image *image);

/* Layers below what a box may stack: 500, less those of a run and our own. */
#define BH_IMAGE_LAYERS_MAX 400
