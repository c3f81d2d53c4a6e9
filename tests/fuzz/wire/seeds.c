/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the corpus of the wire target: messages as the encoder makes them, and the shapes that a decoder must survive.
 * Usage: fuzz_wire_seeds FOLDER. The same every time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "artifact-bus/wire.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/val.h"

#define RUN "01k8h3z5v7x9abcdefghjkmnpq"
#define OBJECT                                                                                            \
    "{\"digest\":\"sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\",\"size\":3," \
    "\"executable\":false}"

static const struct {
    const char *name, *json;
} bodies[] = {
    {"null", "null"},
    {"numbers", "[0,127,128,255,256,65535,65536,4294967295,4294967296,9223372036854775807,-1,-32,-33,-128,-129,-32769,"
                "-2147483649,-9223372036854775808,1.5,-0.0,1e300]"},
    {"texts", "[\"\",\"a\",\"0123456789012345678901234567890\",\"01234567890123456789012345678901\","
              "\"\\u0000\\u00e9\\ud83d\\ude00\"]"},
    {"nested", "{\"a\":{\"b\":{\"c\":[[[{\"d\":null}]]]}},\"e\":[true,false]}"},
    {"lease",
     "{\"run\":\"" RUN "\",\"instance\":\"" RUN "-000007\",\"epoch\":3,\"agent\":\"modeling\",\"stage\":\"model\","
     "\"attempt\":1,\"try_\":2,\"box\":{\"id\":\"crew\",\"key\":\"crew-1\",\"shared\":true,\"writable_usr\":true,"
     "\"base\":\"host\",\"layers\":[\"layer-2\"],\"setup\":[\"/bin/true\"],"
     "\"files\":[{\"path\":\"tools/x.py\",\"object\":" OBJECT "}]},\"setup\":[\"pip\",\"\"],\"run_argv\":[\"x\"],"
     "\"env\":[{\"name\":\"A\",\"value\":\"\"}],\"user\":\"agent\",\"workdir\":\"/workspace\",\"prompt\":\"Do it.\","
     "\"params_json\":\"{}\",\"needs_json\":null,\"files\":[{\"path\":\"a/b\",\"object\":" OBJECT "}],"
     "\"inputs\":[{\"path\":\"p\",\"object\":" OBJECT ",\"name\":\"pages.jsonl\",\"provenance\":\"{}\"}],"
     "\"outputs\":[{\"name\":\"scores.csv\",\"glob\":null,\"path\":\"out/scores.csv\",\"optional\":false,"
     "\"max_size\":-1,\"max_files\":1000},{\"name\":null,\"glob\":\"parts/**\",\"path\":\"out\",\"optional\":true,"
     "\"max_size\":5,\"max_files\":7}],\"setup_ns\":3600000000000,\"run_ns\":1,\"grace_ns\":0,\"keep\":\"always\"}"},
    {"result-good",
     "{\"instance\":\"" RUN "-000007\",\"epoch\":3,\"outcome\":\"succeeded\",\"reason\":null,\"detail\":null,"
     "\"exit_code\":0,\"signal\":0,\"started\":1764423223000123,\"ended\":1764423224000000,"
     "\"outputs\":[{\"name\":\"scores.csv\",\"object\":" OBJECT "}],\"kept_box\":null,"
     "\"cpu_ms\":10,\"max_rss_bytes\":4096,\"disk_bytes\":0,\"box_ms\":12}"},
    {"result-bad", "{\"instance\":\"" RUN "-000008\",\"epoch\":4,\"outcome\":\"failed\",\"reason\":\"timeout(run)\","
                   "\"detail\":\"x\",\"exit_code\":-1,\"signal\":9,\"started\":1,\"ended\":2,\"outputs\":[],"
                   "\"kept_box\":\"runs/x\",\"cpu_ms\":0,\"max_rss_bytes\":0,\"disk_bytes\":0,\"box_ms\":0}"},
};

#define BODY            \
    "\x82\xa1v\x01\xa4" \
    "body"
#define RAW(name, bytes)               \
    {                                  \
        name, bytes, sizeof(bytes) - 1 \
    }
static const struct {
    const char *name, *bytes;
    size_t len;
} raws[] = {
    RAW("raw-empty", ""),
    RAW("raw-version", "\x82\xa1v\x02\xa4"
                       "body\xc0"),
    RAW("raw-error", "\x82\xa1v\x01\xa5"
                     "error\xa2hi"),
    RAW("raw-unknown-field", "\x83\xa1v\x01\xa1x\x92\x01\x02\xa4"
                             "body\x2a"),
    RAW("raw-list-bomb", BODY "\xdd\xff\xff\xff\xff"),
    RAW("raw-map-bomb", BODY "\xdf\x05\xf5\xe1\x00\xa1"
                             "a\xc0"),
    RAW("raw-text-bomb", BODY "\xdb\xff\xff\xff\xff"
                              "a"),
    RAW("raw-bin", BODY "\xc4\x01x"),
    RAW("raw-ext", BODY "\xc7\x01\x05x"),
    RAW("raw-never-used", BODY "\xc1"),
    RAW("raw-key", BODY "\x81\x01\xc0"),
    RAW("raw-twice", BODY "\x82\xa1"
                          "a\xc0\xa1"
                          "a\xc0"),
    RAW("raw-nul-key", BODY "\x81\xa2"
                            "a\0\xc0"),
    RAW("raw-surrogate", BODY "\xa3\xed\xa0\x80"),
    RAW("raw-nan", BODY "\xcb\x7f\xf8\0\0\0\0\0\0"),
    RAW("raw-float32", BODY "\xca\x3f\x80\0\0"),
    RAW("raw-uint64", BODY "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"),
    RAW("raw-deep", BODY "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0"),
    RAW("raw-trailing", BODY "\xc0\xc0"),
};

static void write_seed(const char *folder, const char *name, const void *data, size_t len)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, len, f) != len || fclose(f) != 0) {
        fprintf(stderr, "cannot write %s\n", path);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    for (size_t i = 0; i < BH_ARRAY_LEN(bodies); i++) {
        BH_CLEANUP_VAL struct bh_val *v = NULL;
        BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
        if (bh_json_parse(bodies[i].json, strlen(bodies[i].json), &v, NULL) != 0 || bh_wire_encode(v, &text, NULL) != 0)
            return 1;
        write_seed(argv[1], bodies[i].name, text.data, text.len);
    }
    for (size_t i = 0; i < BH_ARRAY_LEN(raws); i++)
        write_seed(argv[1], raws[i].name, raws[i].bytes, raws[i].len);
    return 0;
}
