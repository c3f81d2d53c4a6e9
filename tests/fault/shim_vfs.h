/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A layer between SQLite and the disk that makes the n-th operation fail: reads, writes, syncs, truncations, opens,
 * deletions and the growth of the wal-index are counted. A failing write has written half of its bytes.
 */
#pragma once

#include <stdbool.h>

void shim_install(void); /* once per process, before the first database is opened */
/* The n-th operation from now (1 is the next) fails, once or from then on. 0: none. */
void shim_fail(int n, bool from_then_on);
/* Whether something was made to fail since shim_fail. */
bool shim_has_failed(void);

/* The same for the n-th allocation inside of SQLite. Installed before anything else of it is used. */
void shim_install_alloc(void);
void shim_fail_alloc(int n, bool from_then_on);
