/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The language of scenario files, one statement a line; tests/scenarios/README.md describes it. What the files of the
 * runner share.
 */
#pragma once

#include "tests/scenarios/replay.h"

#define SCN_MAX_WORDS 32

struct scn {
    const char *file;
    int line;
    char *words[SCN_MAX_WORDS + 1]; /* of this line; NULL behind the last */
    size_t n_words;
    char *error; /* what the first statement that failed has to say; NULL: all is well so far */

    struct bh_spec *spec;
    struct {
        char **items;
        size_t len, cap;
    } group_names;
    size_t cap_nodes, cap_boxes, cap_groups, cap_gates;

    struct bh_run_id run;
    struct bh_engine *engine; /* made by the first event: then the spec is closed */
    struct bh_wall now;
    struct sc_log log;
    struct bh_effects fx;
    size_t fx_seen; /* effects of the last event that a '<' has named */
    int event_line; /* where that event stands */
};

/* Sets the error of this line and gives false. */
bool scn_fail(struct scn *s, const char *fmt, ...) BH_PRINTF(2, 3);
/* Gives SIZE_MAX, with an error, where there is none of that name. */
size_t scn_node(struct scn *s, const char *name);
size_t scn_box(struct scn *s, const char *name);
size_t scn_gate(struct scn *s, const char *name);
/* The value behind "key=" in the words from `from` on, or NULL. */
const char *scn_option(const struct scn *s, size_t from, const char *key);
bool scn_int(struct scn *s, const char *text, int64_t *ret);
/* The last execution of "name", or execution N of "name#N" (from 1); NULL with an error. */
const struct bh_attempt *scn_attempt(struct scn *s, const char *word);
const char *scn_unit(enum bh_execution kind, int attempt, char text[static 32]); /* "setup", "prepare", "2" */

/* Each carries one kind of line out; false with an error. */
bool scn_setup(struct scn *s);             /* node, dep, box, … */
bool scn_event(struct scn *s, bool meant); /* > and !> */
bool scn_effect(struct scn *s);            /* < */
bool scn_expect(struct scn *s);            /* expect */
/* All effects of the last event must have been named. */
bool scn_effects_done(struct scn *s);
/* Drops the engine and makes it again from the log. */
bool scn_crash(struct scn *s);
