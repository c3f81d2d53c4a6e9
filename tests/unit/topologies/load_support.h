/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the loader share: loading a text that must be good, and tables of texts that must not. */
#pragma once

#include "tests/support/t.h"
#include "topologies/pipeline.h"

/* The text must load; the caller frees the pipeline. */
struct bh_pipeline *t_load(const char *text);

struct t_bad {
    const char *text;
    int line, column;
    const char *path; /* NULL: none */
    enum bh_code code;
    const char *part; /* of the message or the hint */
    size_t others;    /* how many other errors the text has */
};

/* Every text must give exactly this error (and as many others as it says), and load to nothing. */
void t_check_bad(const struct t_bad *rows, size_t n);
#define T_BAD(rows) t_check_bad(rows, BH_ARRAY_LEN(rows))

#define HEAD "version: 1\nname: x\n"
/* One agent, whose further keys stand at column 3 from line 6 on. */
#define AGENT HEAD "agents:\n- name: a\n  run: b\n"
