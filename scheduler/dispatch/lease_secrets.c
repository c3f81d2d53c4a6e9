/* SPDX-License-Identifier: Apache-2.0 */
/* Copies references to secrets from the document into leases (lease_secrets.h). Reads no variable, file or command. */
#include "scheduler/dispatch/lease_secrets.h"

#include "base/mem.h"
#include "base/path.h"
#include "base/text.h"
#include "policies/secret.h"
#include "scheduler/dispatch/submission.h"
#include "topologies/placeholder.h"
#include "topologies/plan.h"
#include "topologies/yaml_tree.h"

static const struct bh_secret_doc *find(const struct bh_pipeline *p, const char *name)
{
    for (size_t i = 0; i < p->n_secrets; i++) {
        if (bh_streq(p->secrets[i].name.s, name))
            return &p->secrets[i];
    }
    return NULL;
}

/* Whoever goes on with the run later may stand in another folder. */
static char *from_folder(const char *file, const char *path)
{
    BH_CLEANUP_FREE char *folder = bh_path_dirname(file);
    return bh_path_join(folder, path);
}

void bh_lease_secret_of(const struct bh_pipeline *p, const char *file, const char *name, const char *variable,
                        struct bh_lease_secret *ret)
{
    const struct bh_secret_doc *doc = find(p, name);
    BH_ASSERT(doc); /* the loader has checked it */
    const struct bh_strs *words = &doc->command.args;
    *ret = (struct bh_lease_secret){
        .variable = bh_strdup(variable),
        .name = bh_strdup(name),
        .env = bh_strdup(doc->env.s),
        .file = doc->file.s ? from_folder(file, doc->file.s) : NULL,
        .command = bh_calloc(words->len + 1, sizeof(char *)),
        .n_command = words->len,
    };
    for (size_t i = 0; i < words->len; i++) {
        bool path = i == 0 && strchr(words->items[i].s, '/');
        ret->command[i] = path ? from_folder(file, words->items[i].s) : bh_strdup(words->items[i].s);
    }
}

void bh_lease_fill_secrets(const struct bh_pipeline *p, const char *file, const struct bh_agent *agent,
                           struct bh_lease *lease)
{
    lease->n_secrets = agent->secrets.len;
    lease->secrets = bh_calloc(lease->n_secrets + 1, sizeof(*lease->secrets));
    for (size_t i = 0; i < lease->n_secrets; i++)
        bh_lease_secret_of(p, file, agent->secrets.items[i].s, agent->secret_variables[i], &lease->secrets[i]);
}

/* --- before anything runs --- */

static size_t index_of(const struct bh_pipeline *p, const char *name, size_t len)
{
    for (size_t i = 0; i < p->n_secrets; i++) {
        if (strlen(p->secrets[i].name.s) == len && memcmp(p->secrets[i].name.s, name, len) == 0)
            return i;
    }
    return p->n_secrets;
}

/* Those that the headers of an endpoint hold. `needed` has one place more than there are secrets. */
static void mark_headers(const struct bh_pipeline *p, const char *endpoint, bool *needed)
{
    const struct bh_node *headers = bh_node_get(bh_node_get(bh_node_get(p->root, "endpoints"), endpoint), "headers");
    for (size_t i = 0; i < bh_node_len(headers); i++) {
        const char *text = bh_node_text(bh_node_at(headers, i));
        size_t offset = 0;
        struct bh_placeholder hold;
        while (text && bh_placeholder_next(text, &offset, &hold)) {
            if (hold.kind == BH_HOLD_SECRET)
                needed[index_of(p, hold.name, hold.name_len)] = true;
        }
    }
}

static void mark_agent(const struct bh_pipeline *p, const struct bh_agent *agent, bool *needed)
{
    for (size_t i = 0; i < agent->secrets.len; i++)
        needed[index_of(p, agent->secrets.items[i].s, strlen(agent->secrets.items[i].s))] = true;
    for (size_t i = 0; i < agent->endpoints.len; i++)
        mark_headers(p, agent->endpoints.items[i].s, needed);
}

static int check_one(const struct bh_pipeline *p, const char *file, const struct bh_secret_doc *doc,
                     struct bh_errlist *errors)
{
    struct bh_err *err = NULL;
    struct bh_lease_secret secret;
    bh_lease_secret_of(p, file, doc->name.s, NULL, &secret);
    const struct bh_secret_ref ref = {.name = secret.name,
                                      .env = secret.env,
                                      .file = secret.file,
                                      .command = (const char *const *)secret.command,
                                      .n_command = secret.n_command};
    int rc = bh_secret_check(&ref, &err);
    if (rc != 0) {
        bh_err_at(&err, p->file, doc->name.pos.line, doc->name.pos.column, NULL);
        bh_errlist_add(errors, err);
    }
    struct bh_lease owner = {.secrets = bh_memdup(&secret, sizeof(secret)), .n_secrets = 1};
    bh_lease_fini(&owner);
    return rc;
}

int bh_lease_secrets_check(const struct bh_plan *plan, const char *file, const struct bh_val *submission,
                           struct bh_errlist *errors)
{
    const struct bh_pipeline *p = plan->pipeline;
    BH_CLEANUP_FREE bool *wanted = bh_calloc(plan->n_agents + 1, sizeof(bool));
    BH_CLEANUP_FREE bool *needed = bh_calloc(p->n_secrets + 1, sizeof(bool));
    int rc = 0;
    bh_submission_wanted(plan, submission, wanted);
    for (size_t i = 0; i < plan->n_agents; i++) {
        if (wanted[i])
            mark_agent(p, plan->agents[i].doc, needed);
    }
    for (size_t i = 0; i < p->n_secrets; i++) {
        int bad = needed[i] ? check_one(p, file, &p->secrets[i], errors) : 0;
        rc = rc != 0 ? rc : bad;
    }
    return rc;
}
