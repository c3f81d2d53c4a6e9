/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that are a `prepare` with `warm: true`: see docs/warm.md. Link with -lbulkhead-warm; needs nothing but
 * the C library.
 *
 *     load_everything();
 *     struct bh_warm_attempt attempt;
 *     if (bh_warm(&attempt) < 0)
 *         return perror("bh_warm"), 1;
 *     // Here once for each attempt, in a fork of its own, in a box of its own.
 *     execvp(attempt.argv[0], attempt.argv); // or whatever it is warm for
 */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

struct bh_warm_attempt {
    int number; /* BULKHEAD_ATTEMPT, 0: it is not a number */
    int argc;
    char **argv; /* of `run`, ends with NULL */
    char **envp; /* is `environ` already */
};

/*
 * Says that everything is prepared. Never returns in the process that calls it, which ends when no more attempts are to
 * come; returns 0 in each of its forks, with the attempt's arguments, environment, streams and working directory; no
 * other descriptor is open there, and the random numbers of the C library are seeded anew. -1 with errno where nobody
 * has started us for this (ENOTCONN), or where there is more than one thread (EBUSY). What `ret` points to is never
 * freed.
 */
int bh_warm(struct bh_warm_attempt *ret);

#ifdef __cplusplus
}
#endif
