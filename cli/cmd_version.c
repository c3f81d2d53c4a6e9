/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead version */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/common.h"

static int version(const struct bh_args *args)
{
    if (bh_args_json(args)) {
        BH_CLEANUP_VAL struct bh_val *v = bh_val_map();
        bh_val_set_str(v, "version", BH_VERSION);
        bh_val_set_int(v, "pipeline_version", 1);
        bh_cli_print_json(v);
    } else {
        printf("bulkhead %s\n", BH_VERSION);
    }
    return 0;
}

const struct bh_cmd bh_cmd_version = {
    .name = "version",
    .operands = "",
    .summary = "print the version",
    .example = "bulkhead version -o json",
    .run = version,
};
