/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, queues and semaphores of the host. */
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#include "tests/escape/escape.h"

static bool shared_memory(void)
{
    return TRIED(shmat((int)target_number("shm"), NULL, SHM_RDONLY) == (void *)-1 ? -1 : 0);
}

static bool lists_shared_memory(void)
{
    char text[65536], line[32];
    int fd = open("/proc/sysvipc/shm", O_RDONLY | O_CLOEXEC);
    if (!tried(fd, "/proc/sysvipc/shm"))
        return false;
    (void)slurp(fd, text, sizeof(text));
    (void)snprintf(line, sizeof(line), " %ld ", target_number("shm"));
    note("looked for%sin /proc/sysvipc/shm", line);
    return strstr(text, line) != NULL;
}

static bool message_queue(void)
{
    struct {
        long type;
        char text[8];
    } message = {1, "escaped"};
    return TRIED(msgsnd((int)target_number("msg"), &message, sizeof(message.text), IPC_NOWAIT));
}

static bool semaphore(void)
{
    struct sembuf up = {0, 1, IPC_NOWAIT};
    return TRIED(semop((int)target_number("sem"), &up, 1));
}

static bool posix_queue(void)
{
    mqd_t mq = mq_open(target("mq"), O_RDWR | O_CLOEXEC);
    return TRIED(mq);
}

static bool shared_file(void)
{
    return opens(target("devshm"), O_RDWR);
}

const struct attempt attempts_ipc[] = {
    {"sysv-memory", "attach shared memory of the host", shared_memory},
    {"sysv-list", "list shared memory of the host", lists_shared_memory},
    {"sysv-queue", "write to a message queue of the host", message_queue},
    {"sysv-semaphore", "raise a semaphore of the host", semaphore},
    {"posix-queue", "open a POSIX message queue of the host", posix_queue, .may_lack = "CONFIG_POSIX_MQUEUE"},
    {"posix-memory", "open POSIX shared memory of the host", shared_file},
    {NULL},
};
