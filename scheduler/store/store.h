/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durable record: one event table and the projections that are rebuilt from it. Engine processes write, each only
 * its own runs; everyone else reads (WAL). An append is durable (synchronous=FULL) when it returns. Each event carries
 * a hash chain; the head mark of a run lives outside the database, in runs/RUN/head, and is compared when the run is
 * read for replay: a lost, cut or changed tail is -BH_E_STORE_CORRUPT and named.
 */
#pragma once

#include "base/clock.h"
#include "base/err.h"
#include "base/home.h"
#include "base/val.h"

struct bh_store;
enum bh_store_mode { BH_STORE_READ, BH_STORE_WRITE };

/*
 * Opens (WRITE: makes and migrates) home/store/bulkhead.db. READ of a home without a store gives -BH_E_NOT_FOUND. A
 * store of a newer version is -BH_E_STORE_VERSION. Blocks on the disk.
 */
int bh_store_open(const struct bh_home *home, enum bh_store_mode mode, struct bh_store **ret,
                  struct bh_err **err) BH_MUST_CHECK;
void bh_store_close(struct bh_store *s);

/* --- rows of the projections; texts are owned by the row, freed by bh_*_row_fini --- */
struct bh_run_row {
    char *run, *name, *status, *file;       /* file: the document's path when it was submitted */
    struct bh_wall created, started, ended; /* us 0: not yet */
    char *params;                           /* JSON map */
    char *failure;                          /* JSON object or NULL */
    char *document;                         /* only filled by bh_store_get_run */
    char *submission; /* JSON: options, sources, files with digests; only filled by bh_store_get_run */
};
struct bh_agent_row {
    char *run, *name, *stage, *topology, *box, *status, *label,
        *reason; /* reason: of a failed or skipped one, else NULL */
    int64_t position;
};
struct bh_attempt_row {
    char *run, *agent, *instance, *status, *reason, *detail, *box;
    int64_t attempt, try_, epoch, exit_code, signal; /* exit_code -1, signal 0: none */
    struct bh_wall created, started, ended;
    bool selected;
    char *usage;    /* JSON map or NULL */
    char *kept_box; /* or NULL */
};
struct bh_artifact_row {
    char *run, *name, *digest, *kind, *agent, *instance, *label, *provenance;
    int64_t size, attempt;
    bool executable, private_;
    struct bh_wall published;
};
void bh_run_row_fini(struct bh_run_row *r);
void bh_agent_row_fini(struct bh_agent_row *r);
void bh_attempt_row_fini(struct bh_attempt_row *r);
void bh_artifact_row_fini(struct bh_artifact_row *r);

/* --- writing --- */
struct bh_store_event {
    const char *kind; /* bh_event_kind_text */
    struct bh_wall at;
    const char *payload; /* JSON text */
};
/* What one transaction holds. Rows replace those with the same key: run; (run, agent name); instance; (run, artifact
 * name). All borrowed. */
struct bh_store_batch {
    const char *run;
    const struct bh_store_event *events;
    size_t n_events;
    const struct bh_run_row
        *run_row; /* NULL: unchanged. document and submission are written only when they are not NULL */
    const struct bh_agent_row *agents;
    size_t n_agents;
    const struct bh_attempt_row *attempts;
    size_t n_attempts;
    const struct bh_artifact_row *artifacts;
    size_t n_artifacts;
};
/* All of it or nothing; durable on return. Errors: DISK_FULL, IO, BUSY (after a wait), STORE_CORRUPT. After a failure
 * the run must not go on in this process. */
int bh_store_commit(struct bh_store *s, const struct bh_store_batch *batch, struct bh_err **err) BH_MUST_CHECK;

/* --- reading --- */
typedef int (*bh_store_event_fn)(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload,
                                 struct bh_err **err);
/* Every event of the run in order, the chain and the head mark checked. Stops at the first non-zero answer and returns
 * it. */
int bh_store_replay(struct bh_store *s, const char *run, bh_store_event_fn fn, void *arg,
                    struct bh_err **err) BH_MUST_CHECK;

/*
 * Turns what a person typed into a run id: a full id, a unique prefix, "@latest", "@latest:NAME". Errors: NOT_FOUND "no
 * run 'x'", AMBIGUOUS (lists the candidates in its detail), also for the empty text.
 */
int bh_store_resolve(struct bh_store *s, const char *text, char **ret_run, struct bh_err **err) BH_MUST_CHECK;
int bh_store_get_run(struct bh_store *s, const char *run, struct bh_run_row *ret, struct bh_err **err) BH_MUST_CHECK;

/* Lists: the caller frees each row and then the array. Newest run first; agents by position; attempts by agent
 * position, attempt, try; artifacts by time. */
int bh_store_list_runs(struct bh_store *s, struct bh_run_row **ret, size_t *ret_n, struct bh_err **err) BH_MUST_CHECK;
int bh_store_list_agents(struct bh_store *s, const char *run, struct bh_agent_row **ret, size_t *ret_n,
                         struct bh_err **err) BH_MUST_CHECK;
int bh_store_list_attempts(struct bh_store *s, const char *run, struct bh_attempt_row **ret, size_t *ret_n,
                           struct bh_err **err) BH_MUST_CHECK;
int bh_store_list_artifacts(struct bh_store *s, const char *run, struct bh_artifact_row **ret, size_t *ret_n,
                            struct bh_err **err) BH_MUST_CHECK;
void bh_run_rows_free(struct bh_run_row *rows, size_t n);
void bh_agent_rows_free(struct bh_agent_row *rows, size_t n);
void bh_attempt_rows_free(struct bh_attempt_row *rows, size_t n);
void bh_artifact_rows_free(struct bh_artifact_row *rows, size_t n);
