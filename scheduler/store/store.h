/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The durable record: one event table and the projections that follow from it. Engine processes write, each only its
 * own runs; everyone else reads (WAL: readers are never busy). An append is durable (synchronous=FULL) when it returns.
 *
 * Each event carries a hash chain; the head mark of a run lies outside the database, in runs/RUN/head, and is compared
 * whenever a run is read: a lost, cut or changed tail is -BH_E_STORE_CORRUPT and named with run and sequence. Rows
 * carry digests and are counted, so a changed or missing one is named as well. docs/adr/0001 says what is noticed and
 * what is not. One thread at a time; a store is never carried through a fork.
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
 * store of a newer version is -BH_E_STORE_VERSION; one that is no database, is damaged, or is gone although runs were
 * recorded in it is STORE_CORRUPT; PERMISSION, DISK_FULL, BUSY, IO. READ needs no write permission unless a live or
 * dead writer left its last part in files of its own. Copies `home`. Blocks on the disk.
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
    char *limits; /* "best-effort: memory cpus" where the site let it run with limits that are not enforced, or NULL */
    char *document;   /* only filled by bh_store_get_run */
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
    char *usage;            /* JSON map or NULL */
    char *kept_box;         /* or NULL */
    char *limits;           /* what held its limits: "memory=cgroup-v2 disk=watchdog", or NULL */
    int64_t output_dropped; /* bytes of stdout and stderr */
    char *kind;             /* "setup", "prepare": what attempts start from (attempt 0); NULL: the attempt itself */
    char *snapshot;         /* digest of what it started from or made, or NULL */
    bool snapshot_reused;   /* of a setup or preparation: it had been made before, nothing was run */
    char *score;            /* a decimal, or NULL */
    char *evidence;         /* JSON object: what is known of a collision or a wedge (docs/watch.md), or NULL */
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
/*
 * What one transaction holds. Rows replace those with the same key: run; (run, agent name); instance; (run, artifact
 * name). The first batch of a run holds its run_row. All borrowed.
 */
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
/*
 * All of it or nothing; durable on return. The run must be taken (bh_home_own_run): another writer of the same run is
 * BUSY. Errors: DISK_FULL, IO, PERMISSION, BUSY (after a wait), STORE_CORRUPT. After a failure nobody knows whether the
 * batch is there, so the run must not go on in this process (it is refused); the next process that replays it knows.
 * The one exception is BUSY from waiting for another writer: nothing was begun and the same batch may be given again.
 */
int bh_store_commit(struct bh_store *s, const struct bh_store_batch *batch, struct bh_err **err) BH_MUST_CHECK;

/*
 * Forgets a run: its events, rows and texts, in one transaction. Its head mark must be out of the way before (its
 * folder renamed), and it must be taken by the caller. A run that is not there is fine.
 */
int bh_store_forget(struct bh_store *s, const char *run, struct bh_err **err) BH_MUST_CHECK;

/* --- reading --- */
typedef int (*bh_store_event_fn)(void *arg, int64_t seq, struct bh_wall at, const char *kind, const char *payload,
                                 struct bh_err **err);
/*
 * Every event of the run in order, the chain and the head mark checked. Stops at the first non-zero answer and returns
 * it. `fn` must not call the store. What was handed out before an error came must be thrown away.
 */
int bh_store_replay(struct bh_store *s, const char *run, bh_store_event_fn fn, void *arg,
                    struct bh_err **err) BH_MUST_CHECK;

/*
 * Turns what a person typed into a run id: a full id, a unique prefix, "@latest", "@latest:NAME"; case does not count
 * in ids. Errors: NOT_FOUND "no run 'x'", AMBIGUOUS (lists the candidates in its detail, newest first, at most 20),
 * also for the empty text, STORE_CORRUPT where it would fit a run that the store has lost. The caller frees *ret_run.
 */
int bh_store_resolve(struct bh_store *s, const char *text, char **ret_run, struct bh_err **err) BH_MUST_CHECK;
int bh_store_get_run(struct bh_store *s, const char *run, struct bh_run_row *ret, struct bh_err **err) BH_MUST_CHECK;

/*
 * Lists: bh_*_rows_free frees the rows and the array; an unknown run has none. Newest run first; agents by position;
 * attempts by agent position, attempt, try; artifacts by time. The list of runs is STORE_CORRUPT where one was lost.
 */
int bh_store_list_runs(struct bh_store *s, struct bh_run_row **ret, size_t *ret_n, struct bh_err **err) BH_MUST_CHECK;
int bh_store_list_agents(struct bh_store *s, const char *run, struct bh_agent_row **ret, size_t *ret_n,
                         struct bh_err **err) BH_MUST_CHECK;
int bh_store_list_attempts(struct bh_store *s, const char *run, struct bh_attempt_row **ret, size_t *ret_n,
                           struct bh_err **err) BH_MUST_CHECK;
int bh_store_list_artifacts(struct bh_store *s, const char *run, struct bh_artifact_row **ret, size_t *ret_n,
                            struct bh_err **err) BH_MUST_CHECK;
/* Whether some run published content of this digest as tainted: "'pages.jsonl' of run 01…" (the caller's) and when the
 * first one did; else NULL. */
int bh_store_find_tainted(struct bh_store *s, const char *digest, char **ret, struct bh_wall *ret_published,
                          struct bh_err **err) BH_MUST_CHECK;
void bh_run_rows_free(struct bh_run_row *rows, size_t n);
void bh_agent_rows_free(struct bh_agent_row *rows, size_t n);
void bh_attempt_rows_free(struct bh_attempt_row *rows, size_t n);
void bh_artifact_rows_free(struct bh_artifact_row *rows, size_t n);
