/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the text of a `base` to folders below HOME/bases/images. Bytes of layers go through us to bulkhead-unpack and
 * are hashed on the way, so what a folder is named by is what it was made of, whatever the archive did to that program.
 */
#include "workers/rootfs/image.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "base/val.h"
#include "topologies/base_ref.h"
#include "workers/rootfs/image_json.h"
#include "workers/rootfs/image_store.h"
#include "workers/rootfs/image_top.h"
#include "workers/rootfs/image_tree.h"

#define CHUNK (256 * 1024)
#define ARCHIVE_MANIFEST "manifest.json"

struct import {
    struct bh_bases bases;
    struct bh_base_ref ref;
    char *shown; /* the path, for messages */
    int at;      /* the directory or the file */
    int layout;  /* of the files of an image */
    bool docker; /* layout is what `docker save` made */
    struct bh_image image;
    char *user;
};

void bh_image_fini(struct bh_image *image)
{
    bh_free(image->base);
    bh_free(image->digest);
    for (size_t i = 0; i < image->n_layers; i++)
        bh_free(image->layers[i]);
    bh_free(image->layers);
    for (size_t i = 0; i < image->n_env; i++)
        bh_free(image->env[i]);
    bh_free(image->env);
    bh_free(image->workdir);
    *image = (struct bh_image){0};
}

/* --- files of an image --- */

/* Archives of docker link layers to each other; no link leads out. */
static int open_inside(int dirfd, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return (int)syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
}

static int open_file(const struct import *im, const char *path, struct stat *st, struct bh_err **err)
{
    BH_CLEANUP_FD int fd = open_inside(im->layout, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, st) < 0)
        return bh_err_set(err, errno == ENOENT ? BH_E_INVALID : BH_E_IO, errno, "cannot open '%s' of '%s'", path,
                          im->shown);
    if (!S_ISREG(st->st_mode))
        return bh_err_set(err, BH_E_INVALID, 0, "'%s' of '%s' is no regular file", path, im->shown);
    return BH_TAKE_FD(fd);
}

static char *blob_path(const struct bh_digest *digest)
{
    char text[BH_DIGEST_TEXT];
    bh_digest_format(digest, text);
    return bh_asprintf("blobs/sha256/%s", strchr(text, ':') + 1);
}

/* A JSON file; with `blob` its size and digest must be these. The digest of what was read goes to *ret_digest. */
static int read_json(const struct import *im, const char *path, const struct bh_blob *blob, struct bh_val **ret,
                     struct bh_digest *ret_digest, struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct stat st;
    BH_CLEANUP_FD int fd = open_file(im, path, &st, err);
    if (fd < 0)
        return fd;
    int rc = bh_read_all(fd, BH_IMAGE_JSON_MAX, &text, err);
    struct bh_digest digest = bh_digest_of(text.data, text.len);
    if (rc == 0 && blob && (int64_t)text.len != blob->size)
        rc = bh_err_set(err, BH_E_INVALID, 0, "it has %zu bytes and should have %lld", text.len, (long long)blob->size);
    if (rc == 0 && blob && !bh_digest_equal(&digest, &blob->digest)) {
        rc = bh_err_set(err, BH_E_INVALID, 0, "its digest is another one");
        bh_err_hint(err, "its bytes were changed after the image was made: fetch or build it again");
    }
    if (rc == 0)
        rc = bh_json_parse(text.data, text.len, ret, err);
    if (rc == 0 && ret_digest)
        *ret_digest = digest;
    return rc == 0 ? 0 : bh_err_wrap(err, rc, "'%s' of '%s'", path, im->shown);
}

/* --- layers --- */

struct feeding {
    int fd;
    const char *what;
    struct bh_hasher *hasher;
    int64_t size;
};

/* Where the program wants no more we still read on: a wrong digest says more than what it stumbled over. */
static int feed_file(void *arg, int sock, struct bh_err **err)
{
    struct feeding *f = arg;
    BH_CLEANUP_FREE char *chunk = bh_alloc(CHUNK);
    bool wanted = true;
    for (;;) {
        ssize_t n = read(f->fd, chunk, CHUNK);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return bh_err_set(err, BH_E_IO, errno, "cannot read %s", f->what);
        if (n == 0)
            return 0;
        f->size += n;
        bh_hasher_add(f->hasher, chunk, (size_t)n);
        wanted = wanted && bh_feed_bytes(sock, chunk, (size_t)n) == 0;
    }
}

static int check_fed(const struct import *im, const struct bh_digest *got, const struct bh_digest *want,
                     const char *what, struct bh_err **err)
{
    char text[BH_DIGEST_TEXT];
    if (!want || bh_digest_equal(got, want))
        return 0;
    int rc = bh_err_set(err, BH_E_INVALID, 0, "%s of '%s' has the digest '%s'", what, im->shown,
                        bh_digest_format(got, text));
    bh_err_hint(err, "its bytes were changed after the image was made: fetch or build it again");
    return rc;
}

/* Unpacks a file into a new part. `want` NULL: any digest. */
static int unpack_file(struct import *im, int fd, enum bh_unpack_kind kind, const struct bh_digest *want,
                       const char *what, int root, struct bh_msg_unpacked *said, struct bh_digest *ret_digest,
                       struct bh_err **err)
{
    struct feeding f = {.fd = fd, .what = what, .hasher = bh_hasher_new()};
    int rc = bh_bases_unpack(&im->bases, kind, root, feed_file, &f, what, said, err);
    *ret_digest = bh_hasher_end(f.hasher);
    bh_hasher_free(f.hasher);
    if (rc == 0)
        rc = check_fed(im, ret_digest, want, what, err);
    return rc == 0 ? bh_bases_judge(&im->bases, said, what, err) : rc;
}

static int check_diff_id(const struct import *im, const unsigned char *got, const struct bh_digest *want,
                         const char *what, struct bh_err **err)
{
    if (memcmp(got, want->b, sizeof(want->b)) == 0)
        return 0;
    return bh_err_set(err, BH_E_INVALID, 0, "the content of %s of '%s' is not what the config says (its diff_id)", what,
                      im->shown);
}

static int write_diff_id(int part, const struct bh_digest *diff_id, struct bh_err **err)
{
    char text[BH_DIGEST_TEXT];
    bh_digest_format(diff_id, text);
    BH_CLEANUP_FD int fd = openat(part, "diff-id", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return fd >= 0 && bh_write_all(fd, text, strlen(text)) == 0 ? 0 : bh_err_set(err, BH_E_IO, errno, "cannot write");
}

/* Of a layer that is there already: it was verified when it was made, for this image it must be the same. */
static int check_present(const struct import *im, const char *name, const struct bh_digest *diff_id, const char *what,
                         struct bh_err **err)
{
    BH_CLEANUP_FREE char *path = bh_asprintf("%s/diff-id", name);
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    struct bh_digest have;
    BH_CLEANUP_FD int fd = bh_open_beneath(im->bases.fd, path, O_RDONLY, 0);
    if (fd < 0) /* made by this very import: the same layer twice */
        return 0;
    int rc = bh_read_all(fd, BH_DIGEST_TEXT, &text, err);
    if (rc == 0 && bh_digest_parse(text.data, &have) != 0)
        rc = bh_err_set(err, BH_E_STORE_CORRUPT, 0, "'%s/%s' holds no digest", im->bases.path, path);
    return rc == 0 ? check_diff_id(im, have.b, diff_id, what, err) : rc;
}

/* Layers come lowest first and stand newest first. */
static void add_layer(struct bh_image *image, char *name)
{
    image->layers = bh_realloc_array(image->layers, image->n_layers + 1, sizeof(*image->layers));
    memmove(image->layers + 1, image->layers, image->n_layers * sizeof(*image->layers));
    image->layers[0] = name;
    image->n_layers++;
}

static int make_layer(struct import *im, int fd, const char *name, const struct bh_digest *digest,
                      const struct bh_digest *diff_id, const char *what, struct bh_err **err)
{
    struct bh_msg_unpacked said;
    struct bh_digest got;
    int part = -1, root = -1;
    int rc = bh_bases_new_part(&im->bases, NULL, &part, &root, err);
    if (rc == 0)
        rc = unpack_file(im, fd, BH_UNPACK_LAYER, digest, what, root, &said, &got, err);
    if (rc == 0)
        rc = check_diff_id(im, said.digest, diff_id, what, err);
    if (rc == 0)
        rc = write_diff_id(part, diff_id, err);
    if (rc == 0)
        bh_bases_name_part(&im->bases, name);
    bh_close(root);
    bh_close(part);
    return rc;
}

static int size_error(const struct import *im, const struct stat *st, int64_t size, const char *what,
                      struct bh_err **err)
{
    int rc =
        bh_err_set(err, BH_E_INVALID, 0, "%s of '%s' has %lld bytes and should have %lld: it is %s", what, im->shown,
                   (long long)st->st_size, (long long)size, st->st_size < size ? "truncated" : "too long");
    bh_err_hint(err, "fetch or build the image again");
    return rc;
}

/* `path` in the layout; the file's digest must be `digest`, it is what the layer is called by. */
static int take_layer(struct import *im, const char *path, const struct bh_digest *digest,
                      const struct bh_digest *diff_id, int64_t size, const char *what, struct bh_err **err)
{
    struct stat st;
    BH_CLEANUP_FREE char *name = bh_bases_name(&im->bases, "", digest);
    BH_CLEANUP_FD int fd = open_file(im, path, &st, err);
    if (fd < 0)
        return fd;
    int rc = size >= 0 && st.st_size != size ? size_error(im, &st, size, what, err) : 0;
    if (rc == 0 && bh_bases_has(&im->bases, name))
        rc = check_present(im, name, diff_id, what, err);
    else if (rc == 0)
        rc = make_layer(im, fd, name, digest, diff_id, what, err);
    if (rc == 0)
        add_layer(&im->image, BH_TAKE(name));
    return rc;
}

/* --- the config, alike in both kinds --- */

static void take_config(struct import *im, struct bh_image_config *c)
{
    im->image.env = BH_TAKE(c->env);
    im->image.n_env = c->n_env;
    c->n_env = 0;
    im->image.workdir = BH_TAKE(c->workdir);
    im->user = BH_TAKE(c->user);
}

static int count_error(const struct import *im, size_t layers, size_t diff_ids, struct bh_err **err)
{
    return bh_err_set(err, BH_E_INVALID, 0, "the manifest of '%s' has %zu layers and its config %zu", im->shown, layers,
                      diff_ids);
}

/* --- OCI layouts --- */

static int find_manifest(const struct import *im, struct bh_blob *ret, struct bh_val **ret_manifest,
                         struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *index = NULL;
    BH_CLEANUP_FREE char *ref = bh_strdup(im->ref.ref);
    struct bh_image_choice choice = {.is_index = true};
    int rc = read_json(im, "index.json", NULL, &index, NULL, err);
    for (int depth = 0; rc == 0 && choice.is_index; depth++) {
        if (depth == BH_IMAGE_INDEX_DEPTH)
            return bh_err_set(err, BH_E_INVALID, 0, "the indexes of '%s' lead to each other: none in %d is an image",
                              im->shown, depth);
        rc = bh_image_pick(index, depth == 0 ? ref : NULL, bh_image_arch(), &choice, err);
        if (rc != 0)
            return bh_err_wrap(err, rc, "'%s'", im->shown);
        BH_CLEANUP_FREE char *path = blob_path(&choice.blob.digest);
        bh_val_free(BH_TAKE(index));
        rc = read_json(im, path, &choice.blob, &index, NULL, err);
        /* An index need not say what it names. */
        choice.is_index = rc == 0 && (choice.is_index || bh_val_get(index, "manifests"));
    }
    if (rc == 0) {
        *ret = choice.blob;
        *ret_manifest = BH_TAKE(index);
    }
    return rc;
}

static int take_layout_layers(struct import *im, const struct bh_image_manifest *m, const struct bh_image_config *c,
                              struct bh_err **err)
{
    int rc = m->n_layers == c->n_diff_ids ? 0 : count_error(im, m->n_layers, c->n_diff_ids, err);
    for (size_t i = 0; rc == 0 && i < m->n_layers; i++) {
        char text[BH_DIGEST_TEXT], what[BH_DIGEST_TEXT + 32];
        BH_CLEANUP_FREE char *path = blob_path(&m->layers[i].digest);
        (void)snprintf(what, sizeof(what), "layer '%s'", bh_digest_format(&m->layers[i].digest, text));
        rc = take_layer(im, path, &m->layers[i].digest, &c->diff_ids[i], m->layers[i].size, what, err);
    }
    return rc;
}

static int import_layout(struct import *im, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *manifest = NULL;
    BH_CLEANUP_VAL struct bh_val *config = NULL;
    struct bh_image_manifest m = {0};
    struct bh_image_config c = {0};
    struct bh_blob blob;
    char text[BH_DIGEST_TEXT];
    int rc = find_manifest(im, &blob, &manifest, err);
    if (rc != 0)
        return rc;
    im->image.digest = bh_strdup(bh_digest_format(&blob.digest, text));
    rc = bh_image_manifest_read(manifest, &m, err);
    if (rc != 0)
        return bh_err_wrap(err, rc, "the image in '%s'", im->shown);
    BH_CLEANUP_FREE char *path = blob_path(&m.config.digest);
    rc = read_json(im, path, &m.config, &config, NULL, err);
    if (rc == 0 && (rc = bh_image_config_read(config, bh_image_arch(), &c, err)) != 0)
        rc = bh_err_wrap(err, rc, "the image in '%s'", im->shown);
    if (rc == 0)
        rc = take_layout_layers(im, &m, &c, err);
    if (rc == 0)
        take_config(im, &c);
    bh_image_config_fini(&c);
    bh_image_manifest_fini(&m);
    return rc;
}

/* --- docker save --- */

static int take_docker_layers(struct import *im, const struct bh_image_docker *d, const struct bh_image_config *c,
                              struct bh_err **err)
{
    int rc = d->n_layers == c->n_diff_ids ? 0 : count_error(im, d->n_layers, c->n_diff_ids, err);
    for (size_t i = 0; rc == 0 && i < d->n_layers; i++) {
        BH_CLEANUP_FREE char *what = bh_asprintf("layer '%s'", d->layers[i]);
        struct bh_digest digest;
        struct stat st;
        BH_CLEANUP_FD int fd = open_file(im, d->layers[i], &st, err);
        rc = fd < 0 ? fd : bh_digest_fd(fd, &digest, NULL, err);
        if (rc == 0)
            rc = take_layer(im, d->layers[i], &digest, &c->diff_ids[i], -1, what, err);
    }
    return rc;
}

static int import_docker(struct import *im, struct bh_err **err)
{
    BH_CLEANUP_VAL struct bh_val *manifest = NULL;
    BH_CLEANUP_VAL struct bh_val *config = NULL;
    struct bh_image_docker d = {0};
    struct bh_image_config c = {0};
    struct bh_digest digest;
    char text[BH_DIGEST_TEXT];
    int rc = read_json(im, ARCHIVE_MANIFEST, NULL, &manifest, NULL, err);
    if (rc == 0 && (rc = bh_image_docker_read(manifest, &d, err)) != 0)
        rc = bh_err_wrap(err, rc, "'%s'", im->shown);
    if (rc == 0)
        rc = read_json(im, d.config, NULL, &config, &digest, err);
    if (rc == 0 && (rc = bh_image_config_read(config, bh_image_arch(), &c, err)) != 0)
        rc = bh_err_wrap(err, rc, "the image in '%s'", im->shown);
    if (rc == 0)
        rc = take_docker_layers(im, &d, &c, err);
    if (rc == 0) {
        im->image.digest = bh_strdup(bh_digest_format(&digest, text));
        take_config(im, &c);
    }
    bh_image_config_fini(&c);
    bh_image_docker_fini(&d);
    return rc;
}

/* --- the three kinds --- */

static bool has_file(const struct import *im, const char *path)
{
    BH_CLEANUP_FD int fd = open_inside(im->layout, path, O_PATH);
    return fd >= 0;
}

static int import_files(struct import *im, struct bh_err **err)
{
    if (has_file(im, "index.json"))
        return import_layout(im, err);
    if (im->ref.kind == BH_BASE_ARCHIVE && has_file(im, ARCHIVE_MANIFEST))
        return import_docker(im, err);
    int rc = bh_err_set(err, BH_E_INVALID, 0, "'%s' is no OCI image: it has no index.json", im->shown);
    if (im->ref.kind == BH_BASE_OCI)
        bh_err_hint(err, "oci:PATH is a folder in the OCI image layout; a root file system is dir:PATH, an archive "
                         "oci-archive:FILE");
    return rc;
}

static int import_archive(struct import *im, struct bh_err **err)
{
    struct bh_msg_unpacked said;
    struct bh_digest digest;
    int part = -1;
    int rc = bh_bases_new_part(&im->bases, NULL, &part, &im->layout, err);
    if (rc == 0)
        rc = unpack_file(im, im->at, BH_UNPACK_FILES, NULL, "the archive", im->layout, &said, &digest, err);
    bh_close(part);
    return rc == 0 ? import_files(im, err) : rc;
}

struct tree_feed {
    struct import *im;
    int sock;
    struct bh_digest key;
};

static int send_tree(void *arg, const void *data, size_t len)
{
    const struct tree_feed *f = arg;
    return bh_feed_bytes(f->sock, data, len);
}

static int feed_tree(void *arg, int sock, struct bh_err **err)
{
    struct tree_feed *f = arg;
    f->sock = sock;
    return bh_tree_read(f->im->at, f->im->shown, send_tree, f, &f->key, err);
}

static int make_tree(struct import *im, struct bh_digest *key, struct bh_err **err)
{
    struct bh_msg_unpacked said;
    struct tree_feed feed = {.im = im};
    int part = -1, root = -1;
    int rc = bh_bases_new_part(&im->bases, NULL, &part, &root, err);
    if (rc == 0)
        rc = bh_bases_unpack(&im->bases, BH_UNPACK_TREE, root, feed_tree, &feed, "the directory", &said, err);
    if (rc == 0)
        rc = bh_bases_judge(&im->bases, &said, "the directory", err);
    bh_close(root);
    bh_close(part);
    *key = feed.key; /* of what was copied, should it have changed meanwhile */
    if (rc == 0) {
        BH_CLEANUP_FREE char *name = bh_bases_name(&im->bases, "tree", key);
        bh_bases_name_part(&im->bases, name);
    }
    return rc;
}

static int import_dir(struct import *im, struct bh_err **err)
{
    struct bh_digest key;
    char text[BH_DIGEST_TEXT];
    int rc = bh_tree_read(im->at, im->shown, NULL, NULL, &key, err);
    if (rc != 0)
        return rc;
    BH_CLEANUP_FREE char *name = bh_bases_name(&im->bases, "tree", &key);
    if (!bh_bases_has(&im->bases, name))
        rc = make_tree(im, &key, err);
    if (rc != 0)
        return rc;
    add_layer(&im->image, bh_bases_name(&im->bases, "tree", &key));
    im->image.digest = bh_strdup(bh_digest_format(&key, text));
    return 0;
}

static int place_error(const struct import *im, int why, const char *folder, struct bh_err **err)
{
    int rc;
    if (why == EXDEV) {
        rc = bh_err_set(err, BH_E_UNDEFINED, 0, "the base '%s' is reached by a link out of the folder of the pipeline",
                        im->bases.base);
        bh_err_hint(err, "a link leads out of the folder of the pipeline: name the place itself");
        return rc;
    }
    rc = bh_err_set(err, BH_E_UNDEFINED, why, "cannot open the base '%s'", im->bases.base);
    if (why == ENOTDIR && im->ref.kind == BH_BASE_OCI)
        bh_err_hint(err, "if this is a file, an image in a tar: 'oci-archive:%s'", im->shown);
    else if (why == ENOTDIR)
        bh_err_hint(err, "'dir:' names a folder; an image in a tar file is 'oci-archive:%s'", im->shown);
    else
        bh_err_hint(err, "relative paths begin in the folder of the pipeline, '%s'", folder);
    return rc;
}

/* A path that by its text stays in the folder of the document must not leave it by a symlink either. */
static int open_place(struct import *im, const char *folder, struct bh_err **err)
{
    uint64_t flags = im->ref.kind == BH_BASE_ARCHIVE ? O_RDONLY | O_NONBLOCK : O_RDONLY | O_DIRECTORY;
    struct stat st;
    BH_CLEANUP_FD int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    im->shown = bh_strndup(im->ref.path, im->ref.path_len);
    if (im->ref.outside)
        im->at = openat(dir, im->shown, (int)flags | O_CLOEXEC);
    else
        im->at = open_inside(dir, im->shown, flags);
    if (im->at < 0)
        return place_error(im, errno, folder, err);
    if (im->ref.kind == BH_BASE_ARCHIVE && (fstat(im->at, &st) < 0 || !S_ISREG(st.st_mode))) {
        int rc = bh_err_set(err, BH_E_INVALID, 0, "the base '%s' is no regular file", im->bases.base);
        bh_err_hint(err,
                    S_ISDIR(st.st_mode) ? "this is a folder: 'oci:%s' for an OCI layout, 'dir:%s' for a root"
                                        : "'oci-archive:%s' needs a tar file: '%s' is none",
                    im->shown, im->shown);
        return rc;
    }
    return 0;
}

static int import_place(struct import *im, struct bh_err **err)
{
    if (im->ref.kind == BH_BASE_DIR)
        return import_dir(im, err);
    if (im->ref.kind == BH_BASE_ARCHIVE)
        return import_archive(im, err);
    im->layout = fcntl(im->at, F_DUPFD_CLOEXEC, 3);
    return import_files(im, err);
}

/* The layers are in place before something is said of them. */
static int finish(struct import *im, struct bh_err **err)
{
    char *top = NULL;
    int rc = bh_bases_commit(&im->bases, err);
    if (rc == 0)
        rc = bh_top_user(&im->bases, &im->image, im->user, &im->image.uid, &im->image.gid, err);
    if (rc == 0)
        rc = bh_top_ensure(&im->bases, &im->image, &top, err);
    if (rc == 0)
        rc = bh_bases_commit(&im->bases, err);
    if (top)
        add_layer(&im->image, top);
    return rc;
}

int bh_image_import(const struct bh_image_host *host, const char *base, const char *folder, struct bh_image *ret,
                    struct bh_err **err)
{
    struct import im = {.at = -1, .layout = -1, .bases = {.parent = -1, .fd = -1, .program = -1, .stage_fd = -1}};
    const char *problem = bh_base_parse(base, &im.ref);
    if (problem || im.ref.kind == BH_BASE_HOST)
        return bh_err_set(err, BH_E_BAD_VALUE, 0, "the base '%s' %s", base, problem ? problem : "is no image");
    im.image.base = bh_strdup(base);
    int rc = bh_bases_open(host, base, &im.bases, err);
    if (rc == 0)
        rc = open_place(&im, folder, err);
    if (rc == 0)
        rc = import_place(&im, err);
    if (rc == 0)
        rc = finish(&im, err);
    bh_bases_close(&im.bases);
    bh_close(im.at);
    bh_close(im.layout);
    bh_free(im.shown);
    bh_free(im.user);
    if (rc != 0)
        bh_image_fini(&im.image);
    else
        *ret = im.image;
    return rc;
}

bool bh_image_present(const char *home, const struct bh_image *image)
{
    for (size_t i = 0; i < image->n_layers; i++) {
        BH_CLEANUP_FREE char *path = bh_asprintf("%s/" BH_IMAGES_DIR "/%s/root", home, image->layers[i]);
        if (access(path, F_OK) != 0)
            return false;
    }
    return true;
}

/* --- for the store --- */

static struct bh_val *texts_to_val(char *const *texts, size_t n)
{
    struct bh_val *list = bh_val_list();
    for (size_t i = 0; i < n; i++)
        bh_val_add(list, bh_val_str(texts[i]));
    return list;
}

struct bh_val *bh_image_to_val(const struct bh_image *image)
{
    struct bh_val *v = bh_val_map();
    bh_val_set_str(v, "base", image->base);
    bh_val_set_str(v, "digest", image->digest);
    bh_val_set(v, "layers", texts_to_val(image->layers, image->n_layers));
    bh_val_set(v, "env", texts_to_val(image->env, image->n_env));
    bh_val_set_str(v, "workdir", image->workdir);
    bh_val_set_int(v, "uid", image->uid);
    bh_val_set_int(v, "gid", image->gid);
    return v;
}

static bool texts_from_val(const struct bh_val *list, char ***ret, size_t *ret_n)
{
    bool good = bh_val_type(list) == BH_VAL_LIST;
    *ret = bh_calloc(bh_val_len(list) + 1, sizeof(**ret));
    for (size_t i = 0; good && i < bh_val_len(list); i++) {
        const char *text = bh_val_get_str(bh_val_at(list, i));
        good = text != NULL;
        (*ret)[(*ret_n)++] = bh_strdup(text);
    }
    return good;
}

int bh_image_from_val(const struct bh_val *v, struct bh_image *ret)
{
    struct bh_image image = {
        .base = bh_strdup(bh_val_str_of(v, "base")),
        .digest = bh_strdup(bh_val_str_of(v, "digest")),
        .workdir = bh_strdup(bh_val_str_of(v, "workdir")),
        .uid = bh_val_int_of(v, "uid"),
        .gid = bh_val_int_of(v, "gid"),
    };
    bool good = image.base && image.digest;
    good = texts_from_val(bh_val_get(v, "layers"), &image.layers, &image.n_layers) && good;
    good = texts_from_val(bh_val_get(v, "env"), &image.env, &image.n_env) && good;
    if (!good || image.n_layers == 0) {
        bh_image_fini(&image);
        return -1;
    }
    *ret = image;
    return 0;
}
