/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A broker for tests: the test program itself, started under the broker's name. What it does is the name of the agent
 * that a way is opened for:
 *   good                  says ready, and one denial before it says closed
 *   refuses dies nonsense silent   in place of ready
 *   dies-soon dies-later  after ready, at the next policy
 *   calls                 for an endpoint: two calls, one of which has leaked, and the end of the budget of tokens
 *   floods                SHAM_FLOOD denials of one name before closed
 *   opens                 one that is open; when it may be used the budget of tokens is at its end, else of requests
 *   hides                 SHAM_FLOOD denials of names of their own, then SHAM_FLOOD + 1 that are let through
 */
#pragma once

#define SHAM_FLOOD 1500

/* For main: the broker, or the tests. */
int sham_broker_main(char **argv, int (*tests)(void));
