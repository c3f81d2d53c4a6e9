/* SPDX-License-Identifier: Apache-2.0 */
/* A table of documents and what trust says of each: the labels where it is accepted, the refusals word for word. */
#pragma once

#include "policies/site.h"
#include "tests/support/t.h"

struct trust_row {
    const char *what;
    const char *yaml; /* behind "version: 1\nname: t\n" */
    /*
     * Accepted: for each agent with a label "NAME=WHY;" (tainted) and "NAME~WHY;" (private), in order; "" where there
     * is none. Refused: "CODE: MESSAGE | DETAIL\n" for each error, the detail only where there is one.
     */
    const char *want;
};
void trust_rows_check(const struct trust_row *rows, size_t n, const struct bh_policy *policy);
