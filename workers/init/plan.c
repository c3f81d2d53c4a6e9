/* SPDX-License-Identifier: Apache-2.0 */
/* Reading an exec request. Everything it points to lies in the message or in `text`. */
#include <errno.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "workers/init/init.h"

#define STRINGS_MAX (1u << 20)

static int read_memfd(int fd, uint32_t len, char **ret)
{
    char *text = len <= BH_PROTO_EXEC_MAX ? bh_try_alloc(len) : NULL;
    if (!text) {
        errno = ENOMEM;
        return -1;
    }
    for (size_t have = 0; have < len;) {
        ssize_t n = pread(fd, text + have, len - have, (off_t)have);
        if (n <= 0) {
            bh_free(text);
            errno = n < 0 ? errno : EPROTO;
            return -1;
        }
        have += (size_t)n;
    }
    *ret = text;
    return 0;
}

static const char *optional(struct bh_unpack *u, uint32_t flags, uint32_t flag)
{
    return flags & flag ? bh_unpack_str(u) : NULL;
}

static void read_strings(char **array, uint32_t n, struct bh_unpack *u)
{
    /* The strings are our own copy of them; execve wants them writable by type. */
    for (uint32_t i = 0; i < n; i++)
        array[i] = (char *)(uintptr_t)bh_unpack_str(u);
    array[n] = NULL;
}

static int read_fields(struct bh_exec_plan *plan, const struct bh_msg_exec *msg, struct bh_unpack *u)
{
    size_t pointers = (size_t)msg->argc + msg->envc + 2 + msg->n_empty;
    size_t size = pointers * sizeof(char *) + msg->n_copies * sizeof(*plan->copies);
    plan->memory = bh_try_alloc(size);
    if (!plan->memory) {
        errno = ENOMEM;
        return -1;
    }
    plan->argv = plan->memory;
    plan->envp = plan->argv + msg->argc + 1;
    plan->empty = (const char **)(void *)(plan->envp + msg->envc + 1);
    plan->copies = (void *)(plan->empty + msg->n_empty);
    read_strings(plan->argv, msg->argc, u);
    read_strings(plan->envp, msg->envc, u);
    plan->cwd = bh_unpack_str(u);
    plan->inputs = optional(u, msg->flags, BH_EXEC_HAS_INPUTS);
    plan->prompt = optional(u, msg->flags, BH_EXEC_HAS_PROMPT);
    plan->params = optional(u, msg->flags, BH_EXEC_HAS_PARAMS);
    plan->needs = optional(u, msg->flags, BH_EXEC_HAS_NEEDS);
    plan->resolver = optional(u, msg->flags, BH_EXEC_HAS_RESOLVER);
    for (uint32_t i = 0; i < msg->n_empty; i++)
        plan->empty[i] = bh_unpack_str(u);
    for (uint32_t i = 0; i < msg->n_copies; i++) {
        plan->copies[i].from = bh_unpack_str(u);
        plan->copies[i].to = bh_unpack_str(u);
        const char *exec = bh_unpack_str(u);
        plan->copies[i].exec = exec && exec[0] == 'x';
    }
    if (bh_unpack_done(u))
        return 0;
    errno = EPROTO;
    return -1;
}

static int parse(struct bh_exec_plan *plan, const struct bh_msg_exec *msg, size_t len, const int *fds, size_t nfds)
{
    uint64_t strings = (uint64_t)msg->argc + msg->envc + msg->n_empty + 3 * (uint64_t)msg->n_copies;
    const bool warm = msg->flags & BH_EXEC_WARM;
    if (nfds != 3 + (msg->in_memfd != 0) + warm + (uint64_t)msg->n_join || msg->n_join > BH_ARRAY_LEN(plan->join.fds) ||
        msg->argc == 0 || strings > STRINGS_MAX) {
        errno = EPROTO;
        return -1;
    }
    plan->id = msg->id;
    plan->flags = msg->flags;
    plan->limits = msg->limits;
    plan->n_empty = msg->n_empty;
    plan->n_copies = msg->n_copies;
    const char *behind = (const char *)(msg + 1);
    struct bh_unpack u = {behind, (const char *)msg + len};
    if (msg->in_memfd) {
        if (read_memfd(fds[3], msg->in_memfd, &plan->text) < 0)
            return -1;
        plan->text_len = msg->in_memfd;
        u = (struct bh_unpack){plan->text, plan->text + msg->in_memfd};
    }
    return read_fields(plan, msg, &u);
}

int bh_exec_plan_parse(struct bh_exec_plan *plan, const void *data, size_t len, const int *fds, size_t nfds)
{
    const struct bh_msg_exec *msg = data;
    *plan = (struct bh_exec_plan){.stdio = {-1, -1, -1}, .server = -1};
    for (size_t i = 0; i < nfds && i < 3; i++)
        plan->stdio[i] = fds[i];
    int rc = len >= sizeof(*msg) ? parse(plan, msg, len, fds, nfds) : -1;
    size_t kept = rc == 0 ? nfds - msg->n_join : nfds, memfd = 3 + (rc == 0 && msg->in_memfd);
    if (rc == 0 && msg->flags & BH_EXEC_WARM)
        plan->server = fds[memfd];
    for (size_t i = 3; i < kept; i++) {
        if (fds[i] != plan->server)
            bh_close(fds[i]);
    }
    for (size_t i = kept; i < nfds; i++)
        plan->join.fds[plan->join.n++] = fds[i];
    if (rc < 0)
        bh_exec_plan_fini(plan);
    return rc;
}

void bh_join_close(struct bh_join *join)
{
    for (size_t i = 0; i < join->n; i++)
        bh_close(join->fds[i]);
    join->n = 0;
}

void bh_exec_plan_fini(struct bh_exec_plan *plan)
{
    for (size_t i = 0; i < 3; i++)
        bh_close(plan->stdio[i]);
    bh_close(plan->server);
    bh_join_close(&plan->join);
    bh_free(plan->memory);
    if (plan->text)
        explicit_bzero(plan->text, plan->text_len);
    bh_free(plan->text);
    *plan = (struct bh_exec_plan){.stdio = {-1, -1, -1}, .server = -1};
}
