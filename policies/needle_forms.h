/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a secret may be spelled by a program that means no harm: as it is, in base64 (three alignments, two alphabets),
 * in a text of JSON, behind percent signs in a URL or a form. Pure. Never a part of a value: only all of it is a form.
 */
#pragma once

#include "base/compiler.h"

typedef void bh_needle_form(void *arg, const void *bytes, size_t len);

/* Calls `add` for each; the same one may come more than once. The bytes are wiped after the call. */
void bh_needle_forms(const void *value, size_t len, bh_needle_form *add, void *arg);
