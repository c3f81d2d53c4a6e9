/* SPDX-License-Identifier: Apache-2.0 */
/* JSON text to and from values. The only user of the JSON library; not linked into launcher and init. */
#pragma once

#include "base/err.h"

struct bh_buf;
struct bh_val;

/* One value and nothing behind it; duplicate keys refused; depth and integers checked. Error: -BH_E_SYNTAX with line
 * and column. */
int bh_json_parse(const char *text, size_t len, struct bh_val **ret, struct bh_err **err) BH_MUST_CHECK;
/* Compact, keys in order of insertion, UTF-8 kept, control characters escaped. */
void bh_json_format(const struct bh_val *v, struct bh_buf *out);
/* Compact with sorted keys: the form that is hashed. */
void bh_json_format_canonical(const struct bh_val *v, struct bh_buf *out);
