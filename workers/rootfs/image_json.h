/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the JSON of an image says: index, manifest, config, and the manifest.json of `docker save`. Pure: from values to
 * structs. All of it was written by others, and every text and number is checked before it is believed.
 */
#pragma once

#include "artifact-bus/digest.h"
#include "base/val.h"

#define BH_IMAGE_JSON_MAX (32 << 20)
#define BH_IMAGE_INDEX_DEPTH 4

struct bh_blob {
    struct bh_digest digest;
    int64_t size;
};

struct bh_image_choice {
    struct bh_blob blob;
    bool is_index; /* of an index again */
};
/*
 * The one manifest of an index that is for `arch` ("amd64") and, where `ref` is not NULL, has that name. UNDEFINED
 * where there is none, AMBIGUOUS' kin INVALID where there are several; the message lists the names.
 */
int bh_image_pick(const struct bh_val *index, const char *ref, const char *arch, struct bh_image_choice *ret,
                  struct bh_err **err) BH_MUST_CHECK;

struct bh_image_manifest {
    struct bh_blob config;
    struct bh_blob *layers; /* lowest first */
    size_t n_layers;
};
int bh_image_manifest_read(const struct bh_val *v, struct bh_image_manifest *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_image_manifest_fini(struct bh_image_manifest *m);

struct bh_image_config {
    struct bh_digest *diff_ids; /* lowest first */
    size_t n_diff_ids;
    char **env;
    size_t n_env;
    char *workdir, *user; /* NULL: none said */
};
int bh_image_config_read(const struct bh_val *v, const char *arch, struct bh_image_config *ret,
                         struct bh_err **err) BH_MUST_CHECK;
void bh_image_config_fini(struct bh_image_config *c);

/* Paths in the archive. */
struct bh_image_docker {
    char *config;
    char **layers; /* lowest first */
    size_t n_layers;
};
int bh_image_docker_read(const struct bh_val *v, struct bh_image_docker *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_image_docker_fini(struct bh_image_docker *d);

/* "amd64", "arm64", … of this machine. */
const char *bh_image_arch(void);
