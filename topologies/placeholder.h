/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `{{ }}` in a text of the pipeline document: finding them, and which names exist. Pure. What they stand for is put in
 * by the plan.
 */
#pragma once

#include "base/compiler.h"

struct bh_buf;

enum bh_placeholder_kind {
    BH_HOLD_PARAM,      /* params.NAME */
    BH_HOLD_MATRIX,     /* matrix.NAME */
    BH_HOLD_ITEM,       /* item */
    BH_HOLD_ROUND,      /* round */
    BH_HOLD_ATTEMPT,    /* attempt */
    BH_HOLD_SECRET,     /* secrets.NAME: in the headers of an endpoint only */
    BH_HOLD_URL,        /* url: in the env of an endpoint only */
    BH_HOLD_MCP_CONFIG, /* mcp_config: in a brain's list only */
    BH_HOLD_UNKNOWN,    /* anything else between {{ and }} */
    BH_HOLD_OPEN,       /* {{ that is never closed: reaches to the end of the text */
};

struct bh_placeholder {
    enum bh_placeholder_kind kind;
    size_t start, end; /* offsets of the first '{' and behind the last '}' */
    const char *name;  /* what stands behind the dot, or all that stands between the braces: borrowed, not terminated */
    size_t name_len;
};

/* Finds the next one at or after *offset and sets *offset behind it. White space inside the braces does not count. */
bool bh_placeholder_next(const char *text, size_t *offset, struct bh_placeholder *ret);
/* Appends `text` with each placeholder replaced by the letter 'x': what a check of names and paths looks at. */
void bh_placeholder_blank(const char *text, struct bh_buf *out);
