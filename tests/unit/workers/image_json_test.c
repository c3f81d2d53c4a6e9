/* SPDX-License-Identifier: Apache-2.0 */
/* What the JSON of images says, and what is said of JSON that is none of an image. */
#include "workers/rootfs/image_json.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "tests/support/t.h"
#include "workers/rootfs/image.h"

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define MANIFEST "application/vnd.oci.image.manifest.v1+json"
#define INDEX "application/vnd.oci.image.index.v1+json"
#define CONFIG "{\"mediaType\":\"application/vnd.oci.image.config.v1+json\",\"digest\":\"" D1 "\",\"size\":2}"
#define LAYER(kind) "{\"mediaType\":\"application/vnd.oci.image.layer.v1." kind "\",\"digest\":\"" D2 "\",\"size\":3}"

static struct bh_val *json(const char *text)
{
    struct bh_val *v = NULL;
    T_OK(bh_json_parse(text, strlen(text), &v, &err));
    return v;
}

#define ENTRY(type, digest, more) "{\"mediaType\":\"" type "\",\"digest\":\"" digest "\",\"size\":1" more "}"
#define NAMED(name) ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"" name "\"}"
#define FOR(os, arch) ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"}"

static void test_pick(void **state)
{
    (void)state;
    static const struct {
        const char *json, *ref, *digest; /* digest NULL: refused */
        enum bh_code code;
        const char *part;
    } rows[] = {
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, "") "]}", NULL, D1, 0, NULL},
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, NAMED("a")) "," ENTRY(MANIFEST, D2, NAMED("b")) "]}", "b", D2, 0, NULL},
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, NAMED("a")) "," ENTRY(MANIFEST, D1, NAMED("b")) "]}", NULL, D1, 0,
         NULL}, /* two names of one */
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, FOR("linux", "s390x")) "," ENTRY(
             MANIFEST, D2, FOR("linux", "amd64")) ","
                                                  "{\"mediaType\":\"x/y\"}]}",
         NULL, D2, 0, NULL},
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, FOR("windows", "amd64")) "]}", NULL, NULL, BH_E_UNDEFINED,
         "no image for linux on amd64"},
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, NAMED("a")) "," ENTRY(MANIFEST, D2, NAMED("b")) "]}", NULL, NULL,
         BH_E_INVALID, "it holds 2 images"},
        {"{\"manifests\":[" ENTRY(MANIFEST, D1, NAMED("a")) "]}", "c", NULL, BH_E_UNDEFINED,
         "no image of the name 'c'"},
        {"{\"manifests\":[]}", NULL, NULL, BH_E_UNDEFINED, "no image for linux"},
        {"{\"manifests\":[7,null,\"x\"]}", NULL, NULL, BH_E_UNDEFINED, "no image for linux"},
        {"{}", NULL, NULL, BH_E_INVALID, "no index of images"},
        {"[]", NULL, NULL, BH_E_INVALID, "no index of images"},
        {"{\"manifests\":[" ENTRY(MANIFEST, "sha512:00", "") "]}", NULL, NULL, BH_E_INVALID, "which is no sha256"},
        {"{\"manifests\":[{\"digest\":\"" D1 "\",\"size\":-1}]}", NULL, NULL, BH_E_INVALID, "no good digest and size"},
        {"{\"manifests\":[{\"digest\":\"" D1 "\",\"size\":\"1\"}]}", NULL, NULL, BH_E_INVALID,
         "no good digest and size"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_VAL struct bh_val *v = json(rows[i].json);
        struct bh_image_choice choice = {0};
        char text[BH_DIGEST_TEXT];
        if (!rows[i].digest) {
            T_ERR(bh_image_pick(v, rows[i].ref, "amd64", &choice, &err), rows[i].code, rows[i].part);
            continue;
        }
        T_OK(bh_image_pick(v, rows[i].ref, "amd64", &choice, &err));
        T_STR(bh_digest_format(&choice.blob.digest, text), rows[i].digest);
        T_TRUE(!choice.is_index);
    }
    BH_CLEANUP_VAL struct bh_val *nested = json("{\"manifests\":[" ENTRY(INDEX, D1, "") "]}");
    struct bh_image_choice choice = {0};
    T_OK(bh_image_pick(nested, NULL, "amd64", &choice, &err));
    T_TRUE(choice.is_index);
}

static void test_manifest(void **state)
{
    (void)state;
    struct bh_image_manifest m;
    BH_CLEANUP_VAL struct bh_val *good =
        json("{\"config\":" CONFIG ",\"layers\":[" LAYER("tar") "," LAYER("tar+zstd") "]}");
    T_OK(bh_image_manifest_read(good, &m, &err));
    T_INT(m.n_layers, 2);
    T_INT(m.config.size, 2);
    T_INT(m.layers[1].size, 3);
    bh_image_manifest_fini(&m);
    static const char *const rows[][2] = {
        {"{}", "no manifest of an image"},
        {"[]", "no manifest of an image"},
        {"{\"config\":" CONFIG ",\"layers\":{}}", "no manifest of an image"},
        {"{\"mediaType\":\"x\",\"config\":" CONFIG ",\"layers\":[]}", "no manifest of an image"},
        {"{\"config\":{\"mediaType\":\"application/vnd.oci.empty.v1+json\"},\"layers\":[]}", "an image that can run"},
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER("tar+gzip+encrypted") "]}", "layer 1 is of the kind"},
        {"{\"config\":" CONFIG ",\"layers\":[" LAYER("tar") ",{}]}", "layer 2 has no good digest and size"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_VAL struct bh_val *v = json(rows[i][0]);
        T_ERR(bh_image_manifest_read(v, &m, &err), BH_E_INVALID, rows[i][1]);
    }
    struct bh_val *layers = bh_val_set(good, "layers", bh_val_list());
    for (int i = 0; i <= BH_IMAGE_LAYERS_MAX; i++)
        bh_val_add(layers, json(LAYER("tar")));
    T_ERR(bh_image_manifest_read(good, &m, &err), BH_E_TOO_LARGE, "it has 401 layers, and a box can stack 400");
}

static void test_config(void **state)
{
    (void)state;
    struct bh_image_config c;
    BH_CLEANUP_VAL struct bh_val *good =
        json("{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{\"diff_ids\":[\"" D1 "\",\"" D2 "\"]},"
             "\"config\":{\"Env\":[\"A=1\",\"none\",\"=x\",\"B=\"],\"WorkingDir\":\"/w\",\"User\":\"u:g\"}}");
    T_OK(bh_image_config_read(good, "amd64", &c, &err));
    T_INT(c.n_diff_ids, 2);
    T_INT(c.n_env, 2); /* what is no NAME=value is left out */
    T_STR(c.env[1], "B=");
    T_STR(c.workdir, "/w");
    T_STR(c.user, "u:g");
    bh_image_config_fini(&c);
    T_ERR(bh_image_config_read(good, "arm64", &c, &err), BH_E_INVALID, "it is for linux on amd64");
    BH_CLEANUP_VAL struct bh_val *bare =
        json("{\"rootfs\":{\"diff_ids\":[]},\"config\":{\"WorkingDir\":\"\",\"User\":\"\"}}");
    T_OK(bh_image_config_read(bare, "amd64", &c, &err));
    assert_null(c.workdir);
    assert_null(c.user);
    bh_image_config_fini(&c);
#define ROOT "\"rootfs\":{\"diff_ids\":[]}"
    static const char *const rows[][2] = {
        {"[]", "no config"},
        {"{}", "no list of layers"},
        {"{\"os\":\"windows\"," ROOT "}", "it is for windows on amd64"},
        {"{\"rootfs\":{\"diff_ids\":[\"x\"]}}", "the digest of layer 1"},
        {"{\"rootfs\":{\"diff_ids\":[7]}}", "the digest of layer 1"},
        {"{" ROOT ",\"config\":{\"WorkingDir\":\"relative\"}}", "the WorkingDir 'relative'"},
        {"{" ROOT ",\"config\":{\"WorkingDir\":7}}", "the WorkingDir in its config is no path"},
        {"{" ROOT ",\"config\":{\"WorkingDir\":\"/a\\u0000b\"}}", "the WorkingDir in its config is no path"},
        {"{" ROOT ",\"config\":{\"User\":[]}}", "the User in its config is no name"},
        {"{" ROOT ",\"config\":{\"Env\":[\"A=1\",7]}}", "variable 2"},
        {"{" ROOT ",\"config\":{\"Env\":[\"A=\\u0000\"]}}", "variable 1"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_VAL struct bh_val *v = json(rows[i][0]);
        T_ERR(bh_image_config_read(v, "amd64", &c, &err), BH_E_INVALID, rows[i][1]);
    }
}

static void test_docker(void **state)
{
    (void)state;
    struct bh_image_docker d;
    BH_CLEANUP_VAL struct bh_val *good = json("[{\"Config\":\"c.json\",\"Layers\":[\"a/layer.tar\",\"b/layer.tar\"]}]");
    T_OK(bh_image_docker_read(good, &d, &err));
    T_STR(d.config, "c.json");
    T_INT(d.n_layers, 2);
    T_STR(d.layers[1], "b/layer.tar");
    bh_image_docker_fini(&d);
    static const char *const rows[][2] = {
        {"{}", "none of 'docker save'"},
        {"[]", "none of 'docker save'"},
        {"[7]", "none of 'docker save'"},
        {"[{\"Config\":\"../c\",\"Layers\":[]}]", "none of 'docker save'"},
        {"[{\"Config\":\"/c\",\"Layers\":[]}]", "none of 'docker save'"},
        {"[{\"Config\":\"c\",\"Layers\":[\"a/../../b\"]}]", "none of 'docker save'"},
        {"[{\"Config\":\"c\",\"Layers\":[\"a\",7]}]", "none of 'docker save'"},
        {"[{\"Config\":\"c\",\"Layers\":[]},{\"Config\":\"d\",\"Layers\":[]}]", "it holds 2 images"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(rows); i++) {
        BH_CLEANUP_VAL struct bh_val *v = json(rows[i][0]);
        T_ERR(bh_image_docker_read(v, &d, &err), BH_E_INVALID, rows[i][1]);
    }
}

static void test_store(void **state)
{
    (void)state;
    BH_CLEANUP_VAL struct bh_val *v =
        json("{\"base\":\"oci:x\",\"digest\":\"" D1 "\",\"layers\":[\"b\",\"a\"],\"env\":[\"A=1\"],"
             "\"workdir\":null,\"uid\":5,\"gid\":6}");
    struct bh_image image;
    T_INT(bh_image_from_val(v, &image), 0);
    BH_CLEANUP_VAL struct bh_val *back = bh_image_to_val(&image);
    T_TRUE(bh_val_equal(v, back));
    bh_image_fini(&image);
    static const char *const bad[] = {"{}", "[]", "{\"base\":\"x\",\"digest\":\"y\",\"layers\":[],\"env\":[]}",
                                      "{\"base\":\"x\",\"digest\":\"y\",\"layers\":[7],\"env\":[]}",
                                      "{\"base\":\"x\",\"digest\":\"y\",\"layers\":[\"a\"]}"};
    for (size_t i = 0; i < BH_ARRAY_LEN(bad); i++) {
        BH_CLEANUP_VAL struct bh_val *spoilt = json(bad[i]);
        T_INT(bh_image_from_val(spoilt, &image), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pick),   cmocka_unit_test(test_manifest), cmocka_unit_test(test_config),
        cmocka_unit_test(test_docker), cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
