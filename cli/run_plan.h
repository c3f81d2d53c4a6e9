/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run that lies in the store, made again from its document: for what only the document knows. */
#pragma once

#include "cli/common.h"

/* Leaves doc->plan NULL where the document cannot be planned any more. Call bh_cli_document_fini either way. */
void bh_run_plan_again(const struct bh_cli_run *run, struct bh_cli_document *doc);
/* The run's parameters with the types of the document; as texts where plan is NULL. The caller owns the map. */
struct bh_val *bh_run_params(const struct bh_cli_run *run, const struct bh_plan *plan);
/* What the run was submitted with; the caller owns it. A null value where it is unreadable. */
struct bh_val *bh_run_submission(const struct bh_cli_run *run);
/* Prints a note on stderr for everything on disk that differs from what the run was submitted with, and so goes on
 * with. */
void bh_run_note_changes(const struct bh_cli_run *run);
/* The run's document as the person would name it from here; borrowed from the run. */
const char *bh_run_file_from_here(const struct bh_cli_run *run);
