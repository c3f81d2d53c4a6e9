/* SPDX-License-Identifier: Apache-2.0 */
/* What the tables of lease.c and result.c share. */
#pragma once

#include "artifact-bus/shape_priv.h"

extern const struct bh_shape bh_object_shape;

enum {
    BH_NAME_MAX = 255, /* bytes: agents, boxes, keys, users, reasons */
    BH_PATH_TEXT_MAX = 4095,
    BH_ARTIFACT_MAX = 4095, /* the grammar limits segments, the host the whole */
    BH_OUTPUTS_MAX = 100000,
};

/* One line of a table: FIELD(struct tag, member, the rest of struct bh_field). LIST also names the member that counts.
 */
#define FIELD(type, member, ...)                                         \
    {                                                                    \
        .key = #member, .at = offsetof(struct type, member), __VA_ARGS__ \
    }
#define LIST(type, member, count, ...) FIELD(type, member, .count_at = offsetof(struct type, count), __VA_ARGS__)
#define SHAPE(shape_name, type, table, ...)                                                                            \
    {                                                                                                                  \
        .name = shape_name, .size = sizeof(struct type), .fields = table, .n_fields = BH_ARRAY_LEN(table), __VA_ARGS__ \
    }
