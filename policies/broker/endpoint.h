/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The endpoint broker: services that boxes call at a local URL, each a listening socket in a box's network namespace
 * together with a service and what of it may be called. Credentials are added here and are nowhere else; replies are
 * searched for them. What the control messages are: docs/protocol.md ("Brokers").
 */
#pragma once

/* Serves until the control socket ends; takes it. The exit status of the process. */
int bh_endpoints_main(int control_fd);
