/* SPDX-License-Identifier: Apache-2.0 */
#include "topologies/base_ref.h"

#include <string.h>

#include "base/path.h"
#include "base/text.h"

static const struct kind {
    const char *prefix;
    enum bh_base_kind kind;
} kinds[] = {{"dir:", BH_BASE_DIR}, {"oci:", BH_BASE_OCI}, {"oci-archive:", BH_BASE_ARCHIVE}};

const char *bh_base_parse(const char *text, struct bh_base_ref *ret)
{
    *ret = (struct bh_base_ref){.kind = BH_BASE_HOST};
    if (bh_streq(text, "host"))
        return NULL;
    for (size_t i = 0; i < BH_ARRAY_LEN(kinds); i++) {
        if (!bh_starts_with(text, kinds[i].prefix))
            continue;
        ret->kind = kinds[i].kind;
        ret->path = text + strlen(kinds[i].prefix);
    }
    if (!ret->path)
        return "is none of host, dir:PATH, oci:PATH[:REF] and oci-archive:FILE";
    ret->path_len = strlen(ret->path);
    const char *colon = ret->kind == BH_BASE_OCI ? strchr(ret->path, ':') : NULL;
    if (colon) {
        ret->path_len = (size_t)(colon - ret->path);
        ret->ref = colon + 1;
    }
    if (ret->path_len == 0)
        return "has no path";
    if (ret->ref && !*ret->ref)
        return "has nothing behind its last ':'";
    ret->outside = *ret->path == '/' || bh_path_escapes(ret->path, ret->path_len);
    return NULL;
}
