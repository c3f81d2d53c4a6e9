/* SPDX-License-Identifier: Apache-2.0 */
/* Environments (exec_env.h). Nothing of the worker's own environment is ever read here. */
#include "workers/exec_env.h"

#include "base/text.h"

#define AGENT_HOME "/home/agent"
#define ROOT_HOME "/root"

void bh_env_add(struct bh_env_list *env, const char *name, const char *value)
{
    const char **slot = BH_ARENA_PUSH(env->arena, env->items, env->len, env->cap);
    *slot = bh_arena_printf(env->arena, "%s=%s", name, value);
}

const char *const *bh_env_end(struct bh_env_list *env)
{
    const char **slot = BH_ARENA_PUSH(env->arena, env->items, env->len, env->cap);
    *slot = NULL;
    return env->items;
}

bool bh_env_has(const struct bh_env_list *env, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < env->len; i++) {
        if (strncmp(env->items[i], name, n) == 0 && env->items[i][n] == '=')
            return true;
    }
    return false;
}

static const char *const *end_list(struct bh_env_list *env, bool root)
{
    const char *const defaults[][2] = {
        {"HOME", root ? ROOT_HOME : AGENT_HOME},
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"LANG", "C.UTF-8"},
        {"TMPDIR", "/tmp"},
    };
    for (size_t i = 0; i < BH_ARRAY_LEN(defaults); i++) {
        if (!bh_env_has(env, defaults[i][0]))
            bh_env_add(env, defaults[i][0], defaults[i][1]);
    }
    return bh_env_end(env);
}

static bool is_of_attempt(const char *name)
{
    return bh_streq(name, "PATH") || bh_streq(name, "BULKHEAD_PROMPT_FILE");
}

static const char *const *make_env(struct bh_arena *arena, const struct bh_lease *lease, bool root, bool checks)
{
    struct bh_env_list env = {.arena = arena};
    for (size_t i = 0; i < lease->n_env; i++) {
        const struct bh_lease_env *e = &lease->env[i];
        if (checks && is_of_attempt(e->name))
            continue;
        bool home = root && bh_streq(e->name, "HOME") && bh_streq(e->value, AGENT_HOME);
        bh_env_add(&env, e->name, home ? ROOT_HOME : e->value);
    }
    return end_list(&env, root);
}

const char *const *bh_exec_env(struct bh_arena *arena, const struct bh_lease *lease, bool root)
{
    return make_env(arena, lease, root, false);
}

const char *const *bh_exec_env_of_check(struct bh_arena *arena, const struct bh_lease *lease, bool root)
{
    return make_env(arena, lease, root, true);
}

const char *const *bh_exec_env_of_box(struct bh_arena *arena, const struct bh_lease *lease)
{
    struct bh_env_list env = {.arena = arena};
    for (size_t i = 0; i < lease->n_env; i++) {
        const struct bh_lease_env *e = &lease->env[i];
        if (bh_streq(e->name, "BULKHEAD_RUN") || bh_starts_with(e->name, "BULKHEAD_PARAM_"))
            bh_env_add(&env, e->name, e->value);
    }
    return end_list(&env, true);
}

const char *const *bh_exec_texts(struct bh_arena *arena, char *const *texts, size_t n)
{
    const char **list = bh_arena_alloc(arena, (n + 1) * sizeof(*list));
    for (size_t i = 0; i < n; i++)
        list[i] = bh_arena_strdup(arena, texts[i]);
    return list;
}
