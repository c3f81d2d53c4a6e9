/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The score of an attempt: a file of a box that holds one finite decimal and nothing else but white space around it.
 * What an agent left there is judged as hostile text: it is opened beneath /workspace without following a symlink, and
 * at most a page of it is looked at.
 */
#pragma once

#include "workers/box/box.h"

struct bh_score {
    bool known;
    double value;
    char *problem; /* where it is not known: "score file 'x' is missing", for people */
};
void bh_score_fini(struct bh_score *s);

/* "1.5", "-3e-2": not "1e999", "nan", "inf", "0x10", "1 2", "". */
bool bh_score_parse(const char *text, size_t len, double *ret);

struct bh_score_read;
/* Of a box in which nothing writes any more. The read is gone when fn is entered, which is never from inside; the score
 * may be taken from. */
typedef void (*bh_score_fn)(void *arg, struct bh_score *score);
struct bh_score_read *bh_score_read(struct bh_box *box, const char *path, bh_score_fn fn, void *arg);
void bh_score_forget(struct bh_score_read *r); /* NULL is fine */
