/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The audit log of a state directory: HOME/audit/audit.jsonl, one JSON object a line, only ever added to, for every
 * grant, denial, gate, use of a secret (by its name), decision about a connection, call with a credential, override.
 *
 *   {"seq":7,"time":"…","kind":"egress",…fields…,"prev":"sha256:…","hash":"sha256:…"}
 *
 * `hash` is the digest of the line's bytes before `,"hash":`, `prev` the hash of the line before (of the first: all
 * zeros), so that a line that was changed, taken out or moved is found. Where the log ends stands in HOME/audit/head
 * too, so that lines that were cut off its end are found. Where that is gone, or broken, what is added next comes
 * behind an `override` that says so, and what verifies the log names it from then on. There is no key in it: who can
 * write both files can forge both.
 *
 * Never in it: contents, and values of secrets. Every function opens the files for itself and may be called from any
 * thread; all block on the disk and on whoever else is adding.
 */
#pragma once

#include "base/err.h"

struct bh_home;
struct bh_val;

enum bh_audit_kind {
    BH_AUDIT_GRANT,    /* what a document asks for was granted */
    BH_AUDIT_DENIAL,   /* … or refused; also what trust or the site's policy refused */
    BH_AUDIT_GATE,     /* a gate was opened or stayed shut */
    BH_AUDIT_SECRET,   /* a secret was resolved, by its name */
    BH_AUDIT_EGRESS,   /* a connection was let through or denied */
    BH_AUDIT_CALL,     /* a call to an endpoint */
    BH_AUDIT_OVERRIDE, /* somebody set a rule aside */
    BH_AUDIT_KINDS_
};
const char *bh_audit_kind_text(enum bh_audit_kind kind); /* "grant" */

struct bh_audit_entry {
    enum bh_audit_kind kind;
    struct bh_val *fields; /* a map, the entry's own; not seq, time, kind, prev, hash */
};
/* The array with the fields of all n; NULL is fine. */
void bh_audit_entries_free(struct bh_audit_entry *entries, size_t n);

/*
 * Adds lines; on the disk when it returns (one sync for all). Takes nothing: `fields` and entries stay the caller's. A
 * text of more than 1,024 bytes is cut and ends in "…". Without BULKHEAD_HOME/audit it is made. Errors: PERMISSION, IO,
 * DISK_FULL.
 */
int bh_audit_add(const struct bh_home *home, enum bh_audit_kind kind, const struct bh_val *fields,
                 struct bh_err **err) BH_MUST_CHECK;
int bh_audit_add_all(const struct bh_home *home, const struct bh_audit_entry *entries, size_t n,
                     struct bh_err **err) BH_MUST_CHECK;

/* --- reading (policies/audit_check.c) --- */

/* A line of the log, whatever is wrong with its place in it. `line` is borrowed; false ends the reading. */
typedef bool bh_audit_fn(void *arg, const struct bh_val *line);
/* Every line in its order; what is no line is left out. Without a log there is none, and no error. */
int bh_audit_read(const struct bh_home *home, bh_audit_fn *fn, void *arg, struct bh_err **err) BH_MUST_CHECK;

enum { BH_AUDIT_MAX_PROBLEMS = 100 };

struct bh_audit_problem {
    int64_t line; /* of the file, from 1; 0: the log as a whole */
    char *text;   /* "was changed" */
};
struct bh_audit_report {
    int64_t lines;
    struct bh_audit_problem *problems; /* in their order; at most BH_AUDIT_MAX_PROBLEMS are kept */
    size_t n_kept, cap;
    int64_t n_problems; /* all */
};
/* What is wrong with the log: lines that were changed, taken out, moved, put in. The error is for a log that cannot be
 * read; one with problems is 0. */
int bh_audit_verify(const struct bh_home *home, struct bh_audit_report *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_audit_report_fini(struct bh_audit_report *report);
