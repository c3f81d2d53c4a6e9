/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress broker: boxes' ways out, each a listening socket in a box's network namespace together with what may be
 * reached from it. Clients speak HTTP (CONNECT, or requests with absolute targets), SOCKS 4a or SOCKS 5 to it. Names
 * are resolved here, after the decision, and the address that was decided about is the one that is used.
 *
 * Every decision is told to the worker: a denial at once, what was let through at its end.
 */
#pragma once

#include "policies/broker/egress_lookup.h"

/* Serves until the control socket ends; takes it. The exit status of the process. */
int bh_egress_main(int control_fd);
/* The same with another resolver. */
int bh_egress_serve(int control_fd, bh_lookup_fn *look_up);
