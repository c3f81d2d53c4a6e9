/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a document takes from outside: secrets (references, never values), endpoints, sources.
 */
#include "base/mem.h"
#include "base/text.h"
#include "topologies/load_priv.h"
#include "topologies/names.h"
#include "topologies/placeholder.h"

/* How many of the map's keys are there. */
static size_t count_keys(const struct bh_node *map, const char *const *keys)
{
    size_t n = 0;
    for (; *keys; keys++)
        n += bh_node_get(map, *keys) ? 1 : 0;
    return n;
}

/* --- secrets --- */

static void read_secret_env(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char word[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    struct bh_secret_doc *secret = field;
    if (!bh_read_filled(r, n, "the name of a variable", BH_HOLDS_NONE, &secret->env))
        return;
    const char *s = secret->env.s;
    size_t len = strspn(s, word);
    if (s[len] == '\0' && !(*s >= '0' && *s <= '9'))
        return;
    bh_read_error(r, n, BH_E_BAD_NAME, "a secret is named here, its value is not written down",
                  "the text is no name of a variable: it %s",
                  strchr(s, '=')   ? "holds '='"
                  : s[len] == '\0' ? "begins with a digit"
                                   : "holds something else than letters, digits and '_'");
}

static void read_secret_file(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_secret_doc *secret = field;
    (void)bh_read_filled(r, n, "a text", BH_HOLDS_NONE, &secret->file);
}

static void read_secret_command(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_secret_doc *secret = field;
    if (bh_expect(r, n, BH_NODE_LIST, "a command as a list of strings"))
        (void)bh_read_command(r, n, BH_HOLDS_NONE, &secret->command);
}

static const struct bh_key secret_keys[] = {
    {"env", read_secret_env, 0, 0},
    {"file", read_secret_file, 0, 0},
    {"command", read_secret_command, 0, 0},
};
const struct bh_key_table bh_secret_table = {"secret", "a secret", secret_keys, BH_ARRAY_LEN(secret_keys), 0};

void bh_load_secrets(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const ways[] = {"env", "file", "command", NULL};
    (void)field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of name to secret"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        struct bh_secret_doc secret = {.name = {.s = bh_node_key(item), .pos = bh_node_key_pos(item)}};
        (void)bh_check_identifier_key(r, item, "a secret");
        bool map = bh_read_map(r, item, &bh_secret_table, &secret);
        if (map && count_keys(item, ways) != 1)
            bh_read_error(r, item, BH_E_INVALID, "like {env: NAME}",
                          "a secret has exactly one of env, file and command");
        *BH_ARENA_PUSH(r->arena, r->p->secrets, r->p->n_secrets, cap) = secret;
    }
}

/* --- endpoints --- */

/* NULL: it is good. `host`: what stands behind "://". */
static const char *upstream_hint(const char *url, const char *host)
{
    size_t len = strcspn(host, "/?#");
    if (memchr(host, '@', len))
        return "credentials belong in 'headers', like {authorization: \"Bearer {{secrets.NAME}}\"}, never in the URL";
    if (strpbrk(url, "?#"))
        return "an upstream has no query and no fragment: the box sends these itself, behind the path";
    return strpbrk(url, " \t\r\n@") ? "" : NULL;
}

static void read_upstream(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_endpoint *e = field;
    struct bh_str url;
    if (!bh_read_filled(r, n, "a URL", BH_HOLDS_NONE, &url))
        return;
    const char *host = bh_starts_with(url.s, "https://")  ? url.s + 8
                       : bh_starts_with(url.s, "http://") ? url.s + 7
                                                          : NULL;
    const char *hint = host ? upstream_hint(url.s, host) : NULL;
    if (!host || strchr("/:?#", *host) || hint)
        bh_read_bad(r, n, "a URL like https://api.example.org", hint && *hint ? hint : NULL);
    else
        e->upstream = url;
}

/* A header's text becomes a line of HTTP. */
static bool is_header_text(const char *s)
{
    for (; *s; s++) {
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    }
    return true;
}

static void push_pair(struct bh_reader *r, struct bh_pairs *to, const struct bh_node *item, struct bh_str value)
{
    const struct bh_str name = {.s = bh_node_key(item), .pos = bh_node_key_pos(item)};
    *BH_ARENA_PUSH(r->arena, to->items, to->len, to->cap) = (struct bh_pair){.name = name, .value = value};
}

static void read_headers(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char token[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";
    struct bh_endpoint *e = field;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of header to text"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const struct bh_node *item = bh_node_at(n, i);
        const char *name = bh_node_key(item);
        struct bh_str value;
        if (*name == '\0' || name[strspn(name, token)] != '\0')
            bh_read_key_error(r, item, BH_E_BAD_NAME, NULL, "'%s' is not a name of a header", name);
        if (!bh_read_text(r, item, "a header as a text", BH_HOLDS_SECRET, &value))
            continue;
        if (!is_header_text(value.s))
            bh_read_error(r, item, BH_E_BAD_VALUE, NULL, "a header is one line without control characters");
        push_pair(r, &e->headers, item, value);
        e->has_secret = e->has_secret || strstr(value.s, "{{");
    }
}

static const char *allow_problem(const char *s)
{
    size_t method = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ*");
    if (method == 0 || s[method] != ' ')
        return "starts with no method";
    const char *path = s + method + 1;
    if (*path != '/')
        return "has no path that starts with '/'";
    return strpbrk(path, " \t\r\n?#") ? "has a character in its path that no path has" : NULL;
}

static void read_allow(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_endpoint *e = field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of 'METHOD /path'"))
        return;
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "the list allows nothing");
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str entry;
        const struct bh_node *item = bh_node_at(n, i);
        if (!bh_read_filled(r, item, "'METHOD /path'", BH_HOLDS_NONE, &entry))
            continue;
        const char *problem = allow_problem(entry.s);
        if (problem)
            bh_read_error(r, item, BH_E_BAD_VALUE, "like \"POST /v1/messages\"", "'%s' %s", entry.s, problem);
        else
            *BH_ARENA_PUSH(r->arena, e->allow.items, e->allow.len, e->allow.cap) = entry;
    }
}

static void read_endpoint_env(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_endpoint *e = field;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of variable to text"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str value;
        const struct bh_node *item = bh_node_at(n, i);
        (void)bh_check_env_key(r, item);
        if (bh_read_text(r, item, "a text", BH_HOLDS_URL, &value))
            push_pair(r, &e->env, item, value);
    }
}

static void read_tainted(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_endpoint *e = field;
    (void)bh_read_bool(r, n, &e->tainted);
}

static void read_max_parallel(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_endpoint *e = field;
    (void)bh_read_int(r, n, 1, BH_COUNT_MAX, &e->max_parallel);
}

static const struct bh_key endpoint_keys[] = {
    {"upstream", read_upstream, 0, BH_KEY_REQUIRED},
    {"headers", read_headers, 0, 0},
    {"allow", read_allow, 0, BH_KEY_REQUIRED},
    {"env", read_endpoint_env, 0, 0},
    {"tainted", read_tainted, 0, 0},
    {"max_parallel", read_max_parallel, 0, 0},
};
const struct bh_key_table bh_endpoint_table = {"endpoint", "an endpoint", endpoint_keys, BH_ARRAY_LEN(endpoint_keys),
                                               0};

void bh_load_endpoints(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of name to endpoint"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        struct bh_endpoint e = {.name = {.s = bh_node_key(item), .pos = bh_node_key_pos(item)}};
        (void)bh_check_identifier_key(r, item, "an endpoint");
        (void)bh_read_map(r, item, &bh_endpoint_table, &e);
        *BH_ARENA_PUSH(r->arena, r->p->endpoints, r->p->n_endpoints, cap) = e;
    }
}

/* --- sources --- */

static void read_file(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_source *s = field;
    (void)bh_read_host_path(r, n, BH_HOLDS_NONE, &s->file);
}

static void read_dir(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_source *s = field;
    (void)bh_read_host_path(r, n, BH_HOLDS_NONE, &s->dir);
    bh_read_later(r, n, "sources.NAME.dir");
}

static void read_untrusted(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct bh_source *)field)->untrusted);
}

static void read_private(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_bool(r, n, &((struct bh_source *)field)->private_);
}

static void read_mount(struct bh_reader *r, struct bh_node *n, void *field)
{
    bool *mount = &((struct bh_source *)field)->mount;
    if (bh_read_bool(r, n, mount) && *mount)
        bh_read_later(r, n, "sources.NAME.mount");
}

static const struct bh_key source_keys[] = {
    {"file", read_file, 0, 0},         {"dir", read_dir, 0, 0},     {"untrusted", read_untrusted, 0, 0},
    {"private", read_private, 0, 0},   {"mount", read_mount, 0, 0}, {"git", NULL, 0, BH_KEY_RESERVED},
    {"run", NULL, 0, BH_KEY_RESERVED},
};
const struct bh_key_table bh_source_table = {"source", "a source", source_keys, BH_ARRAY_LEN(source_keys), 0};

/* `report:` with nothing behind it, or with what YAML calls nothing. */
static bool is_nothing(const struct bh_node *n)
{
    const char *text = bh_node_text(n);
    return bh_node_kind(n) == BH_NODE_EMPTY || (bh_node_is_plain(n) && (bh_streq(text, "null") || bh_streq(text, "~")));
}

void bh_load_sources(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of artifact name to source"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        struct bh_source s = {.name = {.s = bh_node_key(item), .pos = bh_node_key_pos(item)}, .pos = bh_node_pos(item)};
        const char *problem = bh_artifact_name_problem(s.name.s);
        if (problem)
            bh_read_key_error(r, item, BH_E_BAD_NAME, NULL, "'%s' is not a name of an artifact: it %s", s.name.s,
                              problem);
        if (is_nothing(item))
            bh_node_set_type(item, BH_NODE_AS_NULL);
        else
            (void)bh_read_map(r, item, &bh_source_table, &s);
        if (s.file.s && s.dir.s)
            bh_read_error(r, item, BH_E_INVALID, NULL, "a source is a file or a folder, not both");
        *BH_ARENA_PUSH(r->arena, r->p->sources, r->p->n_sources, cap) = s;
    }
}
