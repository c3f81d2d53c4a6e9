/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many tokens a reply says that it took, read while it streams past: JSON, lines of JSON, or server-sent events
 * that carry JSON. Only where services put it counts, and not what a model wrote elsewhere in its answer:
 *
 *   usage.*, message.usage.*, response.usage.*   input_tokens, output_tokens, prompt_tokens, completion_tokens, and
 *                                                cache_creation_input_tokens, cache_read_input_tokens beside the first
 *   usageMetadata.*                              promptTokenCount, candidatesTokenCount
 *   prompt_eval_count, eval_count                at the top
 *
 * Numbers within one reply are totals so far, so the largest of each counts. It takes no memory but this struct: a
 * reply is never kept, which is why the project's JSON library, which wants a whole text, is not used.
 */
#pragma once

#include "base/compiler.h"

enum { BH_USAGE_DEPTH = 3, BH_USAGE_KEY = 32, BH_USAGE_COUNTERS = 10 };

/* Zero-initialise, then bh_usage_begin. */
struct bh_usage {
    enum bh_usage_form { BH_USAGE_NONE, BH_USAGE_JSON, BH_USAGE_EVENTS } form;
    enum bh_usage_line { BH_LINE_START, BH_LINE_DATA, BH_LINE_OTHER } line; /* of server-sent events */
    unsigned n_field;                                                       /* of "data:", how much has come */
    /* JSON */
    unsigned depth;
    bool in_text, escaped, in_number;
    char text[BH_USAGE_KEY];                     /* the string that was read last, cut */
    unsigned n_text;                             /* BH_USAGE_KEY: longer than any key that counts */
    char keys[BH_USAGE_DEPTH + 1][BH_USAGE_KEY]; /* by depth; "" where no key stands before the value */
    int64_t number;
    int64_t counters[BH_USAGE_COUNTERS];
};

void bh_usage_begin(struct bh_usage *u, const char *content_type); /* NULL: nothing is counted */
void bh_usage_feed(struct bh_usage *u, const char *data, size_t len);
int64_t bh_usage_in(const struct bh_usage *u);
int64_t bh_usage_out(const struct bh_usage *u);
