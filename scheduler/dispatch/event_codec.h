/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine events as the store keeps them: a kind and a JSON payload. What the engine does not need but a reader or a
 * resume does (exit status, outputs with their provenance, who asked) lies in the same payload, so that one event is
 * the whole of one fact.
 */
#pragma once

#include "base/err.h"
#include "base/val.h"
#include "scheduler/core/engine.h"

/* The fields of the event as a map; the caller owns it and may add members. */
struct bh_val *bh_event_to_val(const struct bh_event *event);
/* Error: -BH_E_STORE_CORRUPT. Members that the engine does not know are ignored. */
int bh_event_from_val(const char *kind, const struct bh_val *payload, struct bh_event *ret,
                      struct bh_err **err) BH_MUST_CHECK;
