/* SPDX-License-Identifier: Apache-2.0 */
/* What a `base` names: host, dir:PATH, oci:PATH[:REF] or oci-archive:FILE. Looks at the text alone. */
#pragma once

#include "base/compiler.h"

enum bh_base_kind { BH_BASE_HOST, BH_BASE_DIR, BH_BASE_OCI, BH_BASE_ARCHIVE };
struct bh_base_ref {
    enum bh_base_kind kind;
    const char *path; /* path_len bytes of the text; a REF follows */
    size_t path_len;
    const char *ref; /* NULL: none */
    bool outside;    /* the path leads out of the folder of the document */
};

/* NULL where the text is good, else what is wrong with it ("has no path"). */
const char *bh_base_parse(const char *text, struct bh_base_ref *ret);
