/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a process is: its number alone is given to another one some day, so it is noted with its start (clock ticks since
 * boot) and with the boot in which that was counted.
 */
#pragma once

#include <sys/types.h>

#include "base/compiler.h"

#define BH_PROCESS_START 24
#define BH_PROCESS_BOOT 40

/* The 22nd field of /proc/PID/stat as text. 0, or -1 with errno. */
int bh_process_start(pid_t pid, char start[static BH_PROCESS_START]);
/*
 * From here on the caller, a new child of `parent` in its pid namespace, does not outlive it. It ends at once where the
 * parent was dead before the kernel was told: nobody would send the signal any more. A later change of uid or gid
 * undoes it.
 */
void bh_process_die_with(pid_t parent);
/* Of this boot; "-" where the kernel does not say. */
void bh_process_boot(char boot[static BH_PROCESS_BOOT]);
/*
 * A pidfd of the process that was noted, so that whatever is done to it is done to no other. -1 with errno: ESRCH where
 * it is gone, where another one has its number, or where nobody can tell (an unknown boot).
 */
int bh_process_open(int64_t pid, const char *start, const char *boot);
