/* SPDX-License-Identifier: Apache-2.0 */
#include "artifact-bus/transport_priv.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 160

static void *wait_for_gate(void *gate)
{
    (void)pthread_mutex_lock(gate);
    (void)pthread_mutex_unlock(gate);
    return NULL;
}

/* About what the library starts: 14 on two processors, 90 on 64. Some are left for the rest of us. */
static size_t threads_needed(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = 16 + 2 * (size_t)(cpus > 0 ? cpus : 1);
    return n < THREADS_MAX ? n : THREADS_MAX;
}

int bh_bus_threads_check(struct bh_err **err)
{
    static bool enough;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS_MAX];
    size_t wanted = threads_needed(), n = 0;
    int why = 0;
    if (enough)
        return 0;
    (void)pthread_mutex_lock(&gate);
    while (n < wanted && why == 0) {
        why = pthread_create(&threads[n], NULL, wait_for_gate, &gate);
        n += why == 0;
    }
    (void)pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < n; i++)
        (void)pthread_join(threads[i], NULL);
    enough = why == 0;
    if (enough)
        return 0;
    int rc = bh_err_set(err, BH_E_HOST, why, "cannot start the %zu threads that the bus needs, only %zu", wanted, n);
    bh_err_hint(err, "raise the limits of processes and memory: ulimit -u, ulimit -v, pids.max of the control group");
    return rc;
}
