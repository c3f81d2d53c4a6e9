/* SPDX-License-Identifier: Apache-2.0 */
/* Any JSON at all as index, manifest, config and manifest.json of an image: a struct that can be used, or an error. */
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "workers/rootfs/image.h"
#include "workers/rootfs/image_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(int rc, struct bh_err *err)
{
    BH_ASSERT((rc == 0) == (err == NULL));
    if (err)
        BH_ASSERT(bh_code_info(rc)->exit_status == 3 && *bh_err_message(err));
    bh_err_free(err);
}

static void try_index(const struct bh_val *v, const char *ref)
{
    struct bh_image_choice choice;
    struct bh_err *err = NULL;
    int rc = bh_image_pick(v, ref, "amd64", &choice, &err);
    if (rc == 0)
        BH_ASSERT(choice.blob.size >= 0);
    check_error(rc, err);
}

static void try_manifest(const struct bh_val *v)
{
    struct bh_image_manifest m;
    struct bh_err *err = NULL;
    int rc = bh_image_manifest_read(v, &m, &err);
    if (rc == 0) {
        BH_ASSERT(m.n_layers <= BH_IMAGE_LAYERS_MAX);
        for (size_t i = 0; i < m.n_layers; i++)
            BH_ASSERT(m.layers[i].size >= 0);
        bh_image_manifest_fini(&m);
    }
    check_error(rc, err);
}

static void try_config(const struct bh_val *v)
{
    struct bh_image_config c;
    struct bh_err *err = NULL;
    int rc = bh_image_config_read(v, "amd64", &c, &err);
    if (rc == 0) {
        BH_ASSERT(!c.workdir || *c.workdir == '/');
        for (size_t i = 0; i < c.n_env; i++)
            BH_ASSERT(strchr(c.env[i], '=') > c.env[i]);
        bh_image_config_fini(&c);
    }
    check_error(rc, err);
}

static void try_docker(const struct bh_val *v)
{
    struct bh_image_docker d;
    struct bh_err *err = NULL;
    int rc = bh_image_docker_read(v, &d, &err);
    if (rc == 0) {
        BH_ASSERT(bh_path_is_clean(d.config));
        for (size_t i = 0; i < d.n_layers; i++)
            BH_ASSERT(bh_path_is_clean(d.layers[i]));
        bh_image_docker_fini(&d);
    }
    check_error(rc, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    struct bh_image image;
    if (bh_json_parse(size ? (const char *)data : "", size, &v, NULL) != 0)
        return 0;
    try_index(v, NULL);
    try_index(v, "latest");
    try_manifest(v);
    try_config(v);
    try_docker(v);
    if (bh_image_from_val(v, &image) == 0)
        bh_image_fini(&image);
    return 0;
}
