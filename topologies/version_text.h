/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of packages as people pin them, and whether two of them can be one and the same. Pure. */
#pragma once

#include "base/compiler.h"

enum { BH_VERSION_PARTS = 8 };
struct bh_version {
    const char *text; /* as written, borrowed; NULL: none was pinned */
    bool exact;       /* else what begins with the parts */
    bool opaque;      /* compared as text only */
    int64_t parts[BH_VERSION_PARTS];
    size_t n;
    const char *rest; /* behind the parts: "-rc.1", "b2", "" */
};

/*
 * How each kind of installer writes what it pins. What is no pin (a tag, `>=`, several conditions) gives a version
 * whose text is NULL.
 */
struct bh_version bh_version_npm(const char *spec);                    /* 1.2.3  1.2  1.x  ^1.2.3  ~1.2.3 */
struct bh_version bh_version_pip(const char *op, const char *version); /* "==", "===", "~=" and what follows */
struct bh_version bh_version_exact(const char *text);                  /* 1.2.3 */
struct bh_version bh_version_opaque(const char *text);

/* Never true where one version could satisfy both. */
bool bh_versions_conflict(const struct bh_version *a, const struct bh_version *b);
