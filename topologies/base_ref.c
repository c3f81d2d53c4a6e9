/* SPDX-License-Identifier: Apache-2.0 */
#include "topologies/base_ref.h"

#include <string.h>

#include "base/text.h"

static const struct kind {
    const char *prefix;
    enum bh_base_kind kind;
} kinds[] = {{"dir:", BH_BASE_DIR}, {"oci:", BH_BASE_OCI}, {"oci-archive:", BH_BASE_ARCHIVE}};

/* Whether a path is absolute or leaves its folder on the way, going by its text. */
static bool leads_out(const char *path, size_t len)
{
    const char *end = path + len;
    int depth = 0;
    if (len > 0 && *path == '/')
        return true;
    for (const char *s = path; s < end;) {
        const char *slash = memchr(s, '/', (size_t)(end - s));
        size_t n = slash ? (size_t)(slash - s) : (size_t)(end - s);
        if (n == 2 && memcmp(s, "..", 2) == 0)
            depth--;
        else if (n > 0 && !(n == 1 && *s == '.'))
            depth++;
        if (depth < 0)
            return true;
        s += n + 1;
    }
    return false;
}

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
    ret->outside = leads_out(ret->path, ret->path_len);
    return NULL;
}
