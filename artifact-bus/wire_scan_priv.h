/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk over the headers of one message before the library sees it, because the library allocates what a header
 * claims: five bytes can ask for 2.4 GB. Allocates nothing, reads each byte at most once.
 */
#pragma once

#include "base/compiler.h"

struct bh_wire_flaw {
    const char *what; /* static text: "ends in the middle of a value" */
    size_t at;        /* offset of the byte where the value begins */
};

/*
 * Whether `data` is exactly one value of the kinds we speak, within BH_WIRE_MAX_DEPTH and BH_WIRE_MAX_OBJECTS, with
 * text keys, and every claimed count and length within the bytes that are left. False fills *ret_flaw.
 */
bool bh_wire_scan(const void *data, size_t len, struct bh_wire_flaw *ret_flaw);
