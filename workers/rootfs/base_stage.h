/* SPDX-License-Identifier: Apache-2.0 */
/* A folder in which something for HOME/bases is made before it is renamed into its place. */
#pragma once

/*
 * Made, and locked as long as the descriptor lives: one without a lock is a dead process's, and anybody may remove it
 * (scheduler/sweep.c). -1 with errno. The caller owns both.
 */
int bh_base_stage(int bases, const char *what, char **ret_name);
