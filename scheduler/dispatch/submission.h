/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a run takes with it from the submitter's disk: the files, prompts and sources that its document names, hashed
 * into the content store, and the options it was started with. Once it is made, nothing of the pipeline's folder is
 * read again: resume works from the submission alone.
 */
#pragma once

#include "artifact-bus/cas.h"
#include "base/val.h"
#include "topologies/plan.h"

struct bh_run_source; /* scheduler/run_local.h */

/* The most files that one `files` entry may bring (a folder), and the largest prompt file. */
#define BH_SUBMISSION_MAX_FILES 10000
#define BH_SUBMISSION_MAX_PROMPT (4 * 1024 * 1024)

/*
 * Opens and checks everything that the plan names beneath the folder of `file`; all errors go to `errors`, with the
 * place in the document that named the path. With `cas` the bytes are stored (not yet synced) and *ret is the
 * submission; with NULL nothing is stored, and unless `ret` is NULL as well everything is hashed: that is what plan and
 * lint do. `sources` are those of the command line; a source that nobody gives is an error unless `cas` is NULL.
 */
int bh_submission_make(const struct bh_plan *plan, const char *file, const struct bh_run_source *sources,
                       size_t n_sources, bool complete, struct bh_cas *cas, struct bh_val **ret,
                       struct bh_errlist *errors) BH_MUST_CHECK;

/* Which agents the run is for: all, or those of --only and what they need. `wanted` has one zeroed entry per agent. */
void bh_submission_wanted(const struct bh_plan *plan, const struct bh_val *submission, bool *wanted);

/*
 * What lies on disk no longer as it was submitted: the names of `files`, prompts and sources of the document, sorted as
 * in the submission; what is gone counts as changed. A source that the command line gave is not looked at. Reads
 * everything once, stores nothing. Empty where the pipeline's folder is gone. The caller owns the list.
 */
struct bh_val *bh_submission_changed(const struct bh_plan *plan, const char *file, const struct bh_val *submission);

/*
 * {"files":{PATH:[{"path","digest","size","executable"}]},"prompts":{PATH:TEXT},"sources":{NAME:{"digest","size","executable","path"}}}:
 * `path` of a file is
 * "" for a file itself, else relative to the folder that was named. Borrowed; NULL where the plan does not name it.
 */
const struct bh_val *bh_submission_files(const struct bh_val *submission, const char *path);
const char *bh_submission_prompt(const struct bh_val *submission, const char *path);
const struct bh_val *bh_submission_source(const struct bh_val *submission, const char *name);
/* Reads {"digest","size","executable"}. False where it is malformed. */
bool bh_submission_object(const struct bh_val *entry, struct bh_object *ret);
