/* SPDX-License-Identifier: Apache-2.0 */
#include "workers/rootfs/image_json.h"

#include <string.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "workers/rootfs/image.h"

#define REF_NAME "org.opencontainers.image.ref.name"
#define TEXT_MAX 4096
#define ENV_ITEMS_MAX 4096
#define ENV_ITEM_MAX 131072
#define NAMES_SHOWN 5

static const char *const index_types[] = {"application/vnd.oci.image.index.v1+json",
                                          "application/vnd.docker.distribution.manifest.list.v2+json"};
static const char *const manifest_types[] = {"application/vnd.oci.image.manifest.v1+json",
                                             "application/vnd.docker.distribution.manifest.v2+json"};
static const char *const config_types[] = {"application/vnd.oci.image.config.v1+json",
                                           "application/vnd.docker.container.image.v1+json"};
/* Which compression it is the bytes say. */
static const char *const layer_types[] = {
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip",
    "application/vnd.oci.image.layer.nondistributable.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
    "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
};

#define IS_AMONG(text, list) is_among(text, list, BH_ARRAY_LEN(list))
static bool is_among(const char *text, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bh_streq(text, list[i]))
            return true;
    }
    return false;
}

static bool is_map(const struct bh_val *v)
{
    return bh_val_type(v) == BH_VAL_MAP;
}

/* A text without NUL, at most `max` bytes; NULL where it is something else. */
static const char *plain_text(const struct bh_val *v, size_t max)
{
    const char *s = bh_val_get_str(v);
    return s && strlen(s) == bh_val_str_len(v) && strlen(s) <= max ? s : NULL;
}

static int read_blob(const struct bh_val *v, const char *what, struct bh_blob *ret, struct bh_err **err)
{
    const char *digest = plain_text(bh_val_get(v, "digest"), TEXT_MAX);
    const struct bh_val *size = bh_val_get(v, "size");
    if (!is_map(v) || !digest || bh_val_type(size) != BH_VAL_INT || bh_val_get_int(size) < 0)
        return bh_err_set(err, BH_E_INVALID, 0, "%s has no good digest and size", what);
    if (bh_digest_parse(digest, &ret->digest) != 0)
        return bh_err_set(err, BH_E_INVALID, 0, "%s has the digest '%s', which is no sha256", what, digest);
    ret->size = bh_val_get_int(size);
    return 0;
}

/* --- index --- */

static const char *ref_of(const struct bh_val *descriptor)
{
    return plain_text(bh_val_get(bh_val_get(descriptor, "annotations"), REF_NAME), TEXT_MAX);
}

/* An index holds other things too (attestations): what has a platform and another one than ours is not for us. */
static bool is_for(const struct bh_val *descriptor, const char *arch)
{
    const struct bh_val *platform = bh_val_get(descriptor, "platform");
    const char *type = bh_val_str_of(descriptor, "mediaType");
    if (type && !IS_AMONG(type, index_types) && !IS_AMONG(type, manifest_types))
        return false;
    return !platform || (bh_streq(bh_val_str_of(platform, "os"), "linux") &&
                         bh_streq(bh_val_str_of(platform, "architecture"), arch));
}

static void list_names(const struct bh_val *manifests, struct bh_buf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < bh_val_len(manifests); i++) {
        const char *ref = ref_of(bh_val_at(manifests, i));
        if (!ref || n > NAMES_SHOWN)
            continue;
        bh_buf_addf(out, "%s'%s'", n ? ", " : "", n == NAMES_SHOWN ? "…" : ref);
        n++;
    }
}

static int complain_pick(const struct bh_val *manifests, size_t found, bool named, const char *ref, const char *arch,
                         struct bh_err **err)
{
    BH_CLEANUP_BUF struct bh_buf names = BH_BUF_INIT;
    int rc;
    list_names(manifests, &names);
    if (found > 1)
        rc = bh_err_set(err, BH_E_INVALID, 0, "it holds %zu images%s%s%s", found, ref ? " of the name '" : "",
                        ref ? ref : "", ref ? "'" : "");
    else if (ref && !named)
        rc = bh_err_set(err, BH_E_UNDEFINED, 0, "it holds no image of the name '%s'", ref);
    else
        rc = bh_err_set(err, BH_E_UNDEFINED, 0, "it holds no image for linux on %s", arch);
    if (names.len > 0)
        bh_err_detail(err, "names in it: %s", names.data);
    if (found > 1 && !ref)
        bh_err_hint(err, "say which one: oci:PATH:NAME");
    return rc;
}

int bh_image_pick(const struct bh_val *index, const char *ref, const char *arch, struct bh_image_choice *ret,
                  struct bh_err **err)
{
    const struct bh_val *manifests = bh_val_get(index, "manifests"), *chosen = NULL;
    size_t found = 0;
    bool named = false;
    if (!is_map(index) || bh_val_type(manifests) != BH_VAL_LIST)
        return bh_err_set(err, BH_E_INVALID, 0, "it is no index of images");
    for (size_t i = 0; i < bh_val_len(manifests); i++) {
        const struct bh_val *d = bh_val_at(manifests, i);
        if (ref && !bh_streq(ref_of(d), ref))
            continue;
        named = true;
        if (!is_map(d) || !is_for(d, arch))
            continue;
        /* Two entries may name one and the same manifest. */
        if (!chosen || !bh_streq(bh_val_str_of(chosen, "digest"), bh_val_str_of(d, "digest")))
            found++;
        chosen = d;
    }
    if (found != 1)
        return complain_pick(manifests, found, named, ref, arch, err);
    const char *type = bh_val_str_of(chosen, "mediaType");
    ret->is_index = type && IS_AMONG(type, index_types);
    return read_blob(chosen, "the image in the index", &ret->blob, err);
}

/* --- manifest --- */

void bh_image_manifest_fini(struct bh_image_manifest *m)
{
    bh_free(m->layers);
    *m = (struct bh_image_manifest){0};
}

static int check_count(size_t n, struct bh_err **err)
{
    if (n <= BH_IMAGE_LAYERS_MAX)
        return 0;
    int rc = bh_err_set(err, BH_E_TOO_LARGE, 0, "it has %zu layers, and a box can stack %d", n, BH_IMAGE_LAYERS_MAX);
    bh_err_hint(err, "build the image with fewer layers, or squash it");
    return rc;
}

static int read_layer(const struct bh_val *v, size_t number, struct bh_blob *ret, struct bh_err **err)
{
    char what[48];
    const char *type = plain_text(bh_val_get(v, "mediaType"), TEXT_MAX);
    (void)snprintf(what, sizeof(what), "layer %zu", number);
    int rc = read_blob(v, what, ret, err);
    if (rc != 0 || (type && IS_AMONG(type, layer_types)))
        return rc;
    rc = bh_err_set(err, BH_E_INVALID, 0, "layer %zu is of the kind '%s', which is not known", number,
                    type ? type : "(none)");
    bh_err_hint(err, "layers are tar archives, plain or compressed by gzip or zstd");
    return rc;
}

int bh_image_manifest_read(const struct bh_val *v, struct bh_image_manifest *ret, struct bh_err **err)
{
    const struct bh_val *layers = bh_val_get(v, "layers"), *config = bh_val_get(v, "config");
    struct bh_image_manifest m = {.n_layers = bh_val_len(layers)};
    const char *type = bh_val_str_of(v, "mediaType"), *config_type = bh_val_str_of(config, "mediaType");
    if (!is_map(v) || bh_val_type(layers) != BH_VAL_LIST || (type && !IS_AMONG(type, manifest_types)))
        return bh_err_set(err, BH_E_INVALID, 0, "it is no manifest of an image");
    if (!config_type || !IS_AMONG(config_type, config_types))
        return bh_err_set(err, BH_E_INVALID, 0, "it is no manifest of an image that can run");
    int rc = check_count(m.n_layers, err);
    if (rc == 0)
        rc = read_blob(config, "the config", &m.config, err);
    if (rc != 0)
        return rc;
    m.layers = bh_calloc(m.n_layers + 1, sizeof(*m.layers));
    for (size_t i = 0; rc == 0 && i < m.n_layers; i++)
        rc = read_layer(bh_val_at(layers, i), i + 1, &m.layers[i], err);
    if (rc != 0)
        bh_image_manifest_fini(&m);
    else
        *ret = m;
    return rc;
}

/* --- config --- */

void bh_image_config_fini(struct bh_image_config *c)
{
    bh_free(c->diff_ids);
    for (size_t i = 0; i < c->n_env; i++)
        bh_free(c->env[i]);
    bh_free(c->env);
    bh_free(c->workdir);
    bh_free(c->user);
    *c = (struct bh_image_config){0};
}

static int read_diff_ids(const struct bh_val *v, struct bh_image_config *c, struct bh_err **err)
{
    const struct bh_val *rootfs = bh_val_get(v, "rootfs"), *list = bh_val_get(rootfs, "diff_ids");
    if (bh_val_type(list) != BH_VAL_LIST)
        return bh_err_set(err, BH_E_INVALID, 0, "its config has no list of layers");
    int rc = check_count(bh_val_len(list), err);
    if (rc != 0)
        return rc;
    c->n_diff_ids = bh_val_len(list);
    c->diff_ids = bh_calloc(c->n_diff_ids + 1, sizeof(*c->diff_ids));
    for (size_t i = 0; i < c->n_diff_ids; i++) {
        const char *text = plain_text(bh_val_at(list, i), TEXT_MAX);
        if (!text || bh_digest_parse(text, &c->diff_ids[i]) != 0)
            return bh_err_set(err, BH_E_INVALID, 0, "the digest of layer %zu in its config is no sha256", i + 1);
    }
    return 0;
}

static int read_env(const struct bh_val *list, struct bh_image_config *c, struct bh_err **err)
{
    size_t cap = 0;
    if (bh_val_len(list) > ENV_ITEMS_MAX)
        return bh_err_set(err, BH_E_TOO_LARGE, 0, "its config has more than %d variables", ENV_ITEMS_MAX);
    for (size_t i = 0; i < bh_val_len(list); i++) {
        const char *item = plain_text(bh_val_at(list, i), ENV_ITEM_MAX);
        if (!item)
            return bh_err_set(err, BH_E_INVALID, 0, "variable %zu in its config is no text of at most %d bytes", i + 1,
                              ENV_ITEM_MAX);
        if (*item != '=' && strchr(item, '='))
            *BH_PUSH(c->env, c->n_env, cap) = bh_strdup(item);
    }
    return 0;
}

static int read_settings(const struct bh_val *config, struct bh_image_config *c, struct bh_err **err)
{
    const struct bh_val *dir = bh_val_get(config, "WorkingDir"), *user = bh_val_get(config, "User");
    const char *workdir = plain_text(dir, TEXT_MAX), *name = plain_text(user, 256);
    if (bh_val_type(dir) != BH_VAL_NULL && !workdir)
        return bh_err_set(err, BH_E_INVALID, 0, "the WorkingDir in its config is no path");
    if (workdir && *workdir && *workdir != '/')
        return bh_err_set(err, BH_E_INVALID, 0, "the WorkingDir '%s' in its config is not absolute", workdir);
    if (bh_val_type(user) != BH_VAL_NULL && !name)
        return bh_err_set(err, BH_E_INVALID, 0, "the User in its config is no name");
    c->workdir = workdir && *workdir ? bh_strdup(workdir) : NULL;
    c->user = name && *name ? bh_strdup(name) : NULL;
    return read_env(bh_val_get(config, "Env"), c, err);
}

int bh_image_config_read(const struct bh_val *v, const char *arch, struct bh_image_config *ret, struct bh_err **err)
{
    struct bh_image_config c = {0};
    const char *for_arch = plain_text(bh_val_get(v, "architecture"), 64), *for_os = plain_text(bh_val_get(v, "os"), 64);
    if (!is_map(v))
        return bh_err_set(err, BH_E_INVALID, 0, "it has no config");
    if ((for_arch && *for_arch && !bh_streq(for_arch, arch)) || (for_os && *for_os && !bh_streq(for_os, "linux"))) {
        int rc = bh_err_set(err, BH_E_INVALID, 0, "it is for %s on %s, and this machine is linux on %s",
                            for_os ? for_os : "linux", for_arch ? for_arch : arch, arch);
        bh_err_hint(err, "take the image for this machine");
        return rc;
    }
    int rc = read_diff_ids(v, &c, err);
    if (rc == 0)
        rc = read_settings(bh_val_get(v, "config"), &c, err);
    if (rc != 0)
        bh_image_config_fini(&c);
    else
        *ret = c;
    return rc;
}

/* --- docker save --- */

void bh_image_docker_fini(struct bh_image_docker *d)
{
    bh_free(d->config);
    for (size_t i = 0; i < d->n_layers; i++)
        bh_free(d->layers[i]);
    bh_free(d->layers);
    *d = (struct bh_image_docker){0};
}

static int bad_docker(struct bh_err **err)
{
    return bh_err_set(err, BH_E_INVALID, 0, "its manifest.json is none of 'docker save'");
}

int bh_image_docker_read(const struct bh_val *v, struct bh_image_docker *ret, struct bh_err **err)
{
    struct bh_image_docker d = {0};
    size_t cap = 0;
    const struct bh_val *image = bh_val_at(v, 0), *layers = bh_val_get(image, "Layers");
    const char *config = plain_text(bh_val_get(image, "Config"), TEXT_MAX);
    if (bh_val_type(v) != BH_VAL_LIST || bh_val_len(v) == 0 || !config || !bh_path_is_clean(config) ||
        bh_val_type(layers) != BH_VAL_LIST)
        return bad_docker(err);
    if (bh_val_len(v) > 1) {
        int rc = bh_err_set(err, BH_E_INVALID, 0, "it holds %zu images", bh_val_len(v));
        bh_err_hint(err, "save one image into an archive of its own");
        return rc;
    }
    int rc = check_count(bh_val_len(layers), err);
    if (rc != 0)
        return rc;
    d.config = bh_strdup(config);
    for (size_t i = 0; i < bh_val_len(layers); i++) {
        const char *path = plain_text(bh_val_at(layers, i), TEXT_MAX);
        if (!path || !bh_path_is_clean(path)) {
            bh_image_docker_fini(&d);
            return bad_docker(err);
        }
        *BH_PUSH(d.layers, d.n_layers, cap) = bh_strdup(path);
    }
    *ret = d;
    return 0;
}

const char *bh_image_arch(void)
{
    static const char *const names[][2] = {{"x86_64", "amd64"},    {"aarch64", "arm64"}, {"riscv64", "riscv64"},
                                           {"ppc64le", "ppc64le"}, {"s390x", "s390x"},   {"i686", "386"}};
    static struct utsname machine;
    if (uname(&machine) != 0)
        return "amd64";
    for (size_t i = 0; i < BH_ARRAY_LEN(names); i++) {
        if (bh_streq(machine.machine, names[i][0]))
            return names[i][1];
    }
    return machine.machine;
}
