/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The egress broker: boxes' ways out, each a listening socket in a box's network namespace together with what may be
 * reached from it. Clients speak HTTP (CONNECT, or requests with absolute targets), SOCKS 4a or SOCKS 5 to it.
 */
#pragma once

/* Serves until the control socket ends; takes it. The exit status of the process. */
int bh_egress_main(int control_fd);
