/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must lie in a box before a command runs, laid out below boxes/KEY/deliver/ by links of stored objects (no bytes
 * are copied) and small files:
 *
 *   INSTANCE/in/NAME, INSTANCE/in/.provenance.json   inputs, shown read-only as /workspace/in
 *   INSTANCE/files/N                                 `files`, copied into /workspace by the box
 *   INSTANCE/{prompt.md,params.json,needs.json}      the agent's own
 *   box/files/N                                      `files` of a shared box
 *
 * In a box that is not shared there is one instance, and what is its own lies in deliver/ itself. What most agents of a
 * run are given alike (parameters, the record of no inputs) is one file with many names: nothing writes to it, since
 * boxes show or copy what lies here.
 *
 * Blocks for as long as a few links take. Never writes through a link: an object of the store is not to be changed.
 */
#pragma once

#include "artifact-bus/lease.h"
#include "base/mem.h"
#include "workers/box/box.h"
#include "workers/run_files.h"

struct bh_delivery { /* texts lie in the arena; names are relative to deliver/, as struct bh_exec_spec wants them */
    struct bh_box_copy *copies;
    size_t n_copies;
    const char *inputs, *prompt, *params, *needs; /* NULL where there is none */
};

int bh_deliver_lease(struct bh_run_files *run, const struct bh_lease *lease, struct bh_arena *arena,
                     struct bh_delivery *ret, struct bh_err **err) BH_MUST_CHECK;
/* The files of a shared box, before its setup. */
int bh_deliver_box(const struct bh_run_files *run, const struct bh_lease_box *box, struct bh_arena *arena,
                   struct bh_delivery *ret, struct bh_err **err) BH_MUST_CHECK;
/* Takes an instance's folder away again (in a shared box, which lives on). */
void bh_deliver_remove(const struct bh_run_files *run, const struct bh_lease *lease);

/*
 * The prompt as a standard input: memory that nobody can write any more, so that no file outside is within the agent's
 * reach. The caller owns the descriptor.
 */
int bh_prompt_fd(const char *prompt, int *ret_fd, struct bh_err **err) BH_MUST_CHECK;
