/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the trust check share. */
#pragma once

#include "policies/trust.h"
#include "topologies/plan.h"

struct bh_map;

struct bh_judgement {
    const struct bh_plan *plan;
    const struct bh_policy *policy; /* NULL: none */
    struct bh_errlist *errors;
    struct bh_map *said; /* "line:column:message": one for all cells of a matrix and all who share `defaults` */
    int rc;
};

/* Takes the error; drops what was said already. */
void bh_trust_report(struct bh_judgement *j, struct bh_err *err, struct bh_pos pos, const char *path);

/* trust_hosts.c */
void bh_trust_check_hosts(struct bh_judgement *j);
