/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line: every verb declares its options in a table, one reader reads them, `--help` and completion are made
 * from the same tables.
 */
#pragma once

#include "base/err.h"

enum bh_opt_kind { BH_OPT_FLAG, BH_OPT_VALUE, BH_OPT_REPEATED };

struct bh_opt {
    const char *name; /* "param": --param */
    char letter;      /* 'p' or 0 */
    enum bh_opt_kind kind;
    const char *value; /* "NAME=VALUE" in the help; NULL for a flag */
    const char *help;
};

struct bh_args;
struct bh_cmd {
    const char *name, *operands, *summary;
    const char *example; /* whole command lines, one each line */
    const char *more;    /* a paragraph, or NULL */
    const struct bh_opt *opts;
    size_t n_opts;
    size_t min_operands, max_operands;      /* SIZE_MAX: any number */
    bool raw_operands;                      /* operands may begin with '-' */
    int (*run)(const struct bh_args *args); /* gives the exit status */
};

/* Options of every verb: --home, --server, -o, -q, -v, --help. */
extern const struct bh_opt bh_global_opts[];
extern const size_t bh_n_global_opts;

struct bh_args {
    const struct bh_cmd *cmd;
    const char **operands;
    size_t n_operands;
    struct bh_given {
        const char *name, *value;
    } * given;
    size_t n_given, cap_given;
    bool help;
};

/* Reads argv[first..]. Texts are borrowed from argv. Errors: -BH_E_USAGE with the nearest option as hint. */
int bh_args_parse(const struct bh_cmd *cmd, int argc, char **argv, struct bh_args *ret,
                  struct bh_err **err) BH_MUST_CHECK;
void bh_args_fini(struct bh_args *args);

bool bh_args_has(const struct bh_args *args, const char *name);
const char *bh_args_get(const struct bh_args *args, const char *name); /* the last one given, or NULL */
/* The values of a repeated option, NULL-terminated; the caller frees the array with bh_free. */
const char **bh_args_all(const struct bh_args *args, const char *name, size_t *ret_n);
bool bh_args_json(const struct bh_args *args); /* -o json */

void bh_args_print_help(const struct bh_cmd *cmd);
