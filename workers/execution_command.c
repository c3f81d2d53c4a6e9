/* SPDX-License-Identifier: Apache-2.0 */
/* A command of an execution, in its box: with what limits it is started, what it took, and what its end means. */
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "workers/command.h"
#include "workers/execution_priv.h"
#include "workers/lease_limits.h"
#include "workers/witness.h"

char *bh_x_log_path(const struct bh_execution *e)
{
    return bh_asprintf("%s/logs/%s.log", e->run->dir, e->lease.instance.s);
}

static void account(struct bh_execution *e, const struct bh_exec_result *result)
{
    e->result.cpu_ms += result->cpu_ms;
    if (result->max_rss_bytes > e->result.max_rss_bytes)
        e->result.max_rss_bytes = result->max_rss_bytes;
    if (e->own && result->end != BH_EXEC_BOX_LOST) { /* what lies in a shared box is nobody's alone */
        int64_t bytes = e->host->boxes->ops->disk_bytes(e->box);
        if (bytes > e->result.disk_bytes)
            e->result.disk_bytes = bytes;
    }
}

/* What the verdict on a command has to know of it. */
static struct bh_command_name name_of(const struct bh_execution *e, enum bh_phase phase, char *const *argv,
                                      int64_t timeout_ns)
{
    return (struct bh_command_name){
        .what = bh_phase_text(phase),
        .phase = phase,
        .argv0 = argv[0],
        .timeout_ns = timeout_ns,
        .limits = &e->limits,
        .held = e->held,
        .args_bytes = e->args_bytes,
        .box = e->use ? e->lease.box.id : NULL,
        .own = &e->lease.limits,
        .boxs = &e->of_box,
    };
}

/* As the kernel counts them: with their ends and the pointers to them. */
static size_t bytes_of(const char *const *texts)
{
    size_t bytes = 0;
    for (; *texts; texts++)
        bytes += strlen(*texts) + 1 + sizeof(*texts);
    return bytes;
}

int bh_x_command(struct bh_execution *e, const struct bh_exec_spec *exec, int64_t timeout_ns, bh_command_done_fn fn,
                 struct bh_err **err)
{
    struct bh_command_spec spec = {
        .loop = e->host->loop,
        .box = e->box,
        .capture = e->capture,
        .exec = *exec,
        .timeout_ns = timeout_ns,
        .grace_ns = e->lease.grace_ns,
        .late = e->witness ? bh_witness_late : NULL,
        .late_arg = e->witness,
    };
    spec.exec.limits = bh_exec_limits(&e->lease);
    spec.exec.tag = e->witness ? bh_witness_begin(e->witness) : 0;
    e->args_bytes = bytes_of(exec->argv) + bytes_of(exec->env);
    if (e->result.started.us == 0)
        e->result.started = bh_wall_now();
    return bh_command_start(&spec, fn, e, &e->command, err);
}

static void blame(struct bh_execution *e, const struct bh_command_end *end, struct bh_verdict *verdict)
{
    BH_CLEANUP_FREE char *log = bh_x_log_path(e);
    const struct bh_witness_end how = {.end = end, .own = &e->lease.limits, .of_box = &e->of_box, .log = log};
    bh_witness_blame(e->witness, &how, verdict);
}

bool bh_x_command_verdict(struct bh_execution *e, enum bh_phase phase, char *const *argv, int64_t timeout_ns,
                          const struct bh_command_end *end, struct bh_verdict *ret)
{
    const struct bh_command_name name = name_of(e, phase, argv, timeout_ns);
    account(e, &end->result);
    if (e->witness && phase == BH_PHASE_RUN)
        bh_witness_end(e->witness, &end->result);
    bool good = bh_verdict_of_command(ret, &name, end);
    if (e->witness && phase == BH_PHASE_RUN && !good)
        blame(e, end, ret);
    bh_command_free(BH_TAKE(e->command));
    return !bh_x_was_cut(e, end, ret) && good;
}
