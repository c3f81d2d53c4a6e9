/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: errors to the reader, documents from disk, runs by name, tables. Machine output goes to stdout,
 * everything else to stderr. */
#pragma once

#include "base/buf.h"
#include "base/home.h"
#include "base/val.h"
#include "cli/args.h"
#include "scheduler/store/store.h"
#include "topologies/plan.h"

/* Prints one error or a list (text on stderr, or {"errors":[…]} on stdout with -o json) and gives the exit status. They
 * take the errors. */
int bh_cli_fail(const struct bh_args *args, struct bh_err *err);
int bh_cli_fail_list(const struct bh_args *args, struct bh_errlist *errors);
/* The exit status that several errors give together: 3 before 6 before 5, else the first one's. */
int bh_cli_exit_of(const struct bh_errlist *errors);

/* "name=value" of -p, and of --params-file (JSON map of scalars) before them. The caller frees with bh_cli_params_free.
 */
struct bh_cli_params {
    struct bh_param_value *items;
    size_t len, cap;
};
int bh_cli_params_read(const struct bh_args *args, struct bh_cli_params *ret, struct bh_err **err) BH_MUST_CHECK;
void bh_cli_params_free(struct bh_cli_params *params);

/* A document in memory with its plan. */
struct bh_cli_document {
    const char *file;
    struct bh_buf text;
    struct bh_pipeline *pipeline;
    struct bh_plan *plan;
};
/* Reads "-" from stdin. Errors go to the list. On failure what was made stays in *doc: call fini either way. */
int bh_cli_document_read(const char *file, struct bh_cli_document *doc, struct bh_errlist *errors) BH_MUST_CHECK;
int bh_cli_document_plan(struct bh_cli_document *doc, const struct bh_plan_options *options,
                         struct bh_errlist *errors) BH_MUST_CHECK;
void bh_cli_document_fini(struct bh_cli_document *doc);

/* A store to read from, and the run that the person named. */
struct bh_cli_run {
    struct bh_home home;
    struct bh_store *store;
    char *id;
    struct bh_run_row row;
};
int bh_cli_store_open(const struct bh_args *args, struct bh_cli_run *ret, struct bh_err **err) BH_MUST_CHECK;
int bh_cli_run_open(const struct bh_args *args, const char *name, struct bh_cli_run *ret,
                    struct bh_err **err) BH_MUST_CHECK;
void bh_cli_run_close(struct bh_cli_run *run);

/* A table of text columns, as wide as their widest cell; cells are escaped for the terminal. */
struct bh_table;
struct bh_table *bh_table_new(const char *const *heads, size_t n);
void bh_table_row(struct bh_table *t, const char *const *cells); /* NULL cells print as "-" */
void bh_table_free(struct bh_table *t);
void bh_table_print(struct bh_table *t); /* and frees it */

void bh_cli_print_json(const struct bh_val *v); /* one line */
void bh_cli_print_escaped(const char *text);    /* to stdout, no newline */
/* RFC 3339, or null where the time is not set. */
void bh_cli_set_time(struct bh_val *map, const char *key, struct bh_wall t);
/* Whether somebody is there to be asked: stdin and stderr are terminals, and the output is not for programs. */
bool bh_cli_may_ask(const struct bh_args *args);
/* Asks on stderr, as it is, and blocks for a line of stdin. Whatever does not begin with y or Y is a no. */
bool bh_cli_says_yes(const char *question);
bool bh_cli_colour(int fd); /* a terminal that is not dumb, and no NO_COLOR */
