/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a box is: base, network, user, limits, files, and the named boxes. Structured values are kept as canonical
 * JSON, since placement only asks whether two are the same.
 */
#include "base/buf.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/units.h"
#include "base/val.h"
#include "topologies/base_ref.h"
#include "topologies/load_priv.h"

static const char *canonical(struct bh_reader *r, const struct bh_val *v)
{
    BH_CLEANUP_BUF struct bh_buf text = BH_BUF_INIT;
    bh_json_format_canonical(v, &text);
    return bh_arena_strndup(r->arena, text.data, text.len);
}

/* --- base --- */

/* Whoever writes the name of an image means what other programs fetch. */
static const char *hint_of_base(const char *text)
{
    if (bh_starts_with(text, "{{"))
        return "say the kind in the document: only what follows 'oci:', 'oci-archive:' or 'dir:' may come from a "
               "parameter";
    if (bh_starts_with(text, "oci:") || bh_starts_with(text, "oci-archive:") || bh_starts_with(text, "dir:") || !*text)
        return NULL;
    return "bulkhead fetches no images: 'skopeo copy docker://NAME oci-archive:image.tar' or 'docker save NAME -o "
           "image.tar', then oci-archive:image.tar";
}

static void read_base(struct bh_reader *r, struct bh_node *n, enum bh_holds holds, struct bh_traits *traits)
{
    static const char what[] = "host, dir:PATH, oci:PATH or oci-archive:FILE";
    struct bh_base_ref ref;
    struct bh_str base;
    if (!bh_read_filled(r, n, what, holds, &base))
        return;
    if (bh_base_parse(base.s, &ref))
        bh_read_bad(r, n, what, hint_of_base(base.s));
    else
        traits->base = base;
}

void bh_read_base_top(struct bh_reader *r, struct bh_node *n, void *field)
{
    read_base(r, n, BH_HOLDS_PARAMS, field);
}

void bh_read_base_agent(struct bh_reader *r, struct bh_node *n, void *field)
{
    read_base(r, n, BH_HOLDS_AGENT, field);
}

/* --- user --- */

void bh_read_user(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const words[] = {"agent", "root"};
    struct bh_traits *traits = field;
    size_t i;
    if (bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i))
        traits->user = (struct bh_str){.s = words[i], .pos = bh_node_pos(n)};
}

/* --- network --- */

/* Of an international name it is only said here that it may be one: what it becomes is judged with the plan. */
static bool is_label(const char *s, size_t len)
{
    static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    bool ascii = true;
    for (size_t i = 0; i < len; i++) {
        ascii = ascii && !(s[i] & 0x80);
        if (!(s[i] & 0x80) && !strchr(chars, s[i]))
            return false;
    }
    return len >= 1 && (!ascii || len <= 63) && s[0] != '-' && s[len - 1] != '-';
}

/* Four decimal numbers without leading zeros. */
static bool is_ipv4(const char *s, size_t len)
{
    int parts = 0;
    if (len == 0 || s[len - 1] == '.')
        return false;
    for (const char *end = s + len; s < end; s++) {
        int value = 0;
        const char *start = s;
        for (; s < end && *s >= '0' && *s <= '9' && s - start < 3; s++)
            value = value * 10 + (*s - '0');
        if (s == start || value > 255 || (*start == '0' && s - start > 1) || (s < end && *s != '.'))
            return false;
        parts++;
    }
    return parts == 4;
}

/* What a resolver may take for a number: 127.1, 0x7f.1, 2130706433. */
static bool is_numeric(const char *last, size_t len)
{
    bool hex = len > 2 && last[0] == '0' && (last[1] == 'x' || last[1] == 'X');
    return strspn(last, hex ? "0123456789abcdefABCDEFxX" : "0123456789") >= len;
}

static bool is_host_name(const char *host, size_t len)
{
    const char *end = host + len, *last = host;
    for (const char *s = host; s < end;) {
        size_t n = strcspn(s, ".:");
        n = n < (size_t)(end - s) ? n : (size_t)(end - s);
        if (!is_label(s, n))
            return false;
        last = s;
        s += n;
        if (s < end && ++s == end)
            return false; /* a dot at the end */
    }
    return len > 0 && !is_numeric(last, (size_t)(end - last));
}

static bool is_ipv6(const char *s, size_t len)
{
    return len >= 2 && strspn(s, "0123456789abcdefABCDEF:.") >= len && memchr(s, ':', len);
}

static bool is_port(const char *s)
{
    int64_t port;
    return bh_parse_int(s, &port) == 0 && port >= 1 && port <= 65535;
}

/* NULL where "host:port" is good. */
static const char *allow_problem(const char *s)
{
    if (strstr(s, "://"))
        return "is a URL: write host:port";
    const char *colon = strrchr(s, ':');
    if (!colon || (*s == '[' && colon[-1] != ']'))
        return "has no port: write host:port";
    if (!is_port(colon + 1))
        return "has no port between 1 and 65535";
    size_t len = (size_t)(colon - s);
    if (*s == '[')
        return len > 2 && is_ipv6(s + 1, len - 2) ? NULL : "has no good IPv6 address in its brackets";
    if (is_ipv4(s, len))
        return NULL;
    bool below = len >= 2 && bh_starts_with(s, "*.");
    s += below ? 2 : 0;
    len -= below ? 2 : 0;
    len -= len > 1 && s[len - 1] == '.' ? 1 : 0; /* the root's */
    if (below) {
        if (!memchr(s, '.', len))
            return "allows a whole top-level domain";
    }
    return is_host_name(s, len) ? NULL : "has no host name that can be allowed";
}

/* A broker is told all of it in one message. */
enum { ALLOW_MAX_BYTES = 48 * 1024 };

static void check_allow_size(struct bh_reader *r, const struct bh_node *n)
{
    size_t bytes = 0;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        const char *text = bh_node_text(bh_node_at(n, i));
        bytes += text ? strlen(text) + 3 : 0;
    }
    if (bytes > ALLOW_MAX_BYTES)
        bh_read_error(r, n, BH_E_TOO_LARGE, "'*.example.org:443' stands for all hosts below example.org",
                      "the list has %zu entries of more than 48 KiB together", bh_node_len(n));
}

static void read_allow(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_val *list = field;
    if (!bh_expect(r, n, BH_NODE_LIST, "a list of host:port"))
        return;
    check_allow_size(r, n);
    if (bh_node_len(n) == 0)
        bh_read_error(r, n, BH_E_BAD_VALUE, "no network is written 'network: none'", "the list allows nothing");
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_str entry;
        const struct bh_node *item = bh_node_at(n, i);
        if (!bh_read_filled(r, item, "host:port", BH_HOLDS_NONE, &entry))
            continue;
        const char *problem = allow_problem(entry.s);
        if (problem)
            bh_read_error(r, item, BH_E_BAD_VALUE, "like pypi.org:443 or *.example.org:443", "'%s' %s", entry.s,
                          problem);
        else
            bh_val_add(list, bh_val_str(entry.s));
    }
}

static const struct bh_key allow_keys[] = {{"allow", read_allow, 0, BH_KEY_REQUIRED}};
const struct bh_key_table bh_network_allow_table = {"network_allow", "a network", allow_keys, BH_ARRAY_LEN(allow_keys),
                                                    0};

struct bh_val *bh_read_network_value(struct bh_reader *r, struct bh_node *n)
{
    static const char *const words[] = {"none", "public", "host"};
    if (bh_node_kind(n) == BH_NODE_MAP) {
        BH_CLEANUP_VAL struct bh_val *list = bh_val_list();
        if (!bh_read_map(r, n, &bh_network_allow_table, list))
            return NULL;
        struct bh_val *map = bh_val_map();
        bh_val_set(map, "allow", BH_TAKE(list));
        return map;
    }
    size_t i;
    if (!bh_node_text(n)) {
        bh_read_wrong(r, n, "none, public, host or {allow: [\"host:port\"]}", NULL);
        return NULL;
    }
    return bh_read_word(r, n, words, BH_ARRAY_LEN(words), &i) ? bh_val_str(words[i]) : NULL;
}

static void read_phase(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_val *v = bh_read_network_value(r, n);
    if (!v || bh_streq(bh_val_get_str(v), "none"))
        bh_val_free(v); /* as if it were not there */
    else
        bh_val_set(field, bh_node_key(n), v);
}

static const struct bh_key phase_keys[] = {
    {"setup", read_phase, 0, 0}, {"prepare", read_phase, 0, 0}, {"run", read_phase, 0, 0}, {"check", read_phase, 0, 0}};
const struct bh_key_table bh_network_phases_table = {"network_phases", "a network by phase", phase_keys,
                                                     BH_ARRAY_LEN(phase_keys), 0};

struct bh_str bh_read_network_text(struct bh_reader *r, const struct bh_node *n, const struct bh_val *v)
{
    bool none = bh_streq(bh_val_get_str(v), "none") || (bh_val_type(v) == BH_VAL_MAP && bh_val_len(v) == 0);
    const char *text = none ? "none" : bh_val_get_str(v);
    return (struct bh_str){.s = text ? bh_arena_strdup(r->arena, text) : canonical(r, v), .pos = bh_node_pos(n)};
}

/* A slip in 'allow' is told of by what reads a list, not by what reads phases. */
static bool is_by_phase(struct bh_reader *r, const struct bh_node *n)
{
    static const char *const allow[] = {"allow"};
    const char *only = bh_node_len(n) == 1 ? bh_node_key_at(n, 0) : NULL;
    return !bh_node_get(n, allow[0]) && !(only && bh_read_nearest(r, only, allow, 1));
}

/* The key of a phase beside 'allow'; NULL: there is none. */
static const struct bh_node *phase_beside_allow(const struct bh_node *n)
{
    for (size_t i = 0; bh_node_get(n, "allow") && i < BH_ARRAY_LEN(phase_keys); i++) {
        if (bh_node_get(n, phase_keys[i].name))
            return bh_node_get(n, phase_keys[i].name);
    }
    return NULL;
}

void bh_read_network(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct bh_traits *traits = field;
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    bool is_map = bh_node_kind(n) == BH_NODE_MAP;
    const struct bh_node *phase = is_map ? phase_beside_allow(n) : NULL;
    if (phase) {
        bh_read_key_error(r, phase, BH_E_UNKNOWN_KEY,
                          "say it for each phase, like {setup: host, run: {allow: [\"host:port\"]}}",
                          "'%s' does not go beside 'allow'", bh_node_key(phase));
    } else if (is_map && is_by_phase(r, n)) {
        v = bh_val_map();
        (void)bh_read_map(r, n, &bh_network_phases_table, v);
    } else {
        v = bh_read_network_value(r, n);
    }
    if (v)
        traits->network = bh_read_network_text(r, n, v);
}

/* --- limits: the field of each is what was read --- */

struct limits {
    struct bh_val *all; /* key → number */
    struct bh_limits said;
    int64_t requests, tokens;
};

static enum bh_limit limit_of(const struct bh_node *n)
{
    int limit = 0;
    while (limit < BH_N_LIMITS && !bh_streq(bh_limit_name((enum bh_limit)limit), bh_node_key(n)))
        limit++;
    return (enum bh_limit)limit;
}

static void take_limit(struct limits *into, enum bh_limit limit, int64_t value)
{
    into->said.of[limit] = value;
    into->said.asked |= 1u << limit;
}

/* A box that cannot live is no box with a limit: what is less than the least is a mistake. */
static bool is_livable(struct bh_reader *r, const struct bh_node *n, enum bh_limit limit, int64_t value)
{
    char least[BH_LIMIT_TEXT];
    if (value >= bh_limit_least(limit))
        return true;
    bh_read_error(r, n, BH_E_BAD_VALUE, "a box cannot live with less; leave the key away for the default",
                  "%s %s is too small: the least is %s", bh_limit_name(limit), bh_node_text(n),
                  bh_limit_format(limit, bh_limit_least(limit), least));
    return false;
}

/* With or without a unit: who wrote 1 is told the least at once, not first that there are units. */
static bool is_small_number(const char *text, enum bh_limit limit)
{
    int64_t n;
    return text && (bh_parse_size(text, &n) == 0 || bh_parse_int(text, &n) == 0) && n < bh_limit_least(limit);
}

static void read_size_limit(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct limits *into = field;
    enum bh_limit limit = limit_of(n);
    int64_t bytes = 0;
    if (is_small_number(bh_node_text(n), limit))
        (void)is_livable(r, n, limit, bytes);
    else if (bh_read_size(r, n, &bytes)) {
        bh_val_set_int(into->all, bh_node_key(n), bytes);
        take_limit(into, limit, bytes);
    }
}

static void read_count_limit(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct limits *into = field;
    enum bh_limit limit = limit_of(n);
    int64_t count;
    if (!bh_read_int(r, n, INT64_MIN, INT64_MAX, &count) || !is_livable(r, n, limit, count))
        return;
    bh_val_set_int(into->all, bh_node_key(n), count);
    take_limit(into, limit, count);
}

static void read_cpus(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct limits *into = field;
    double cpus = 0;
    const char *text = bh_node_text(n);
    if (!bh_node_is_plain(n) || bh_parse_number(text, &cpus) < 0) {
        bh_read_wrong(r, n, "a number of cpus like 2 or 0.5", NULL);
        return;
    }
    bh_node_set_type(n, BH_NODE_AS_NUMBER);
    if (cpus <= 0 || cpus > 65536)
        bh_read_error(r, n, BH_E_BAD_VALUE, NULL, "%s cpus are out of range: at least 0.01, at most 65536", text);
    else if (is_livable(r, n, BH_LIMIT_CPUS, (int64_t)(cpus * 1000 + 0.5))) {
        bh_val_set(into->all, "cpus", bh_val_num(cpus));
        take_limit(into, BH_LIMIT_CPUS, (int64_t)(cpus * 1000 + 0.5));
    }
}

/* What the broker of endpoints counts. */
static void read_broker_limit(struct bh_reader *r, struct bh_node *n, void *field)
{
    struct limits *into = field;
    int64_t count;
    if (!bh_read_int(r, n, 1, INT64_MAX, &count))
        return;
    bh_val_set_int(into->all, bh_node_key(n), count);
    *(bh_streq(bh_node_key(n), "tokens") ? &into->tokens : &into->requests) = count;
}

static const struct bh_key limits_keys[] = {
    {"memory", read_size_limit, 0, 0},   {"cpus", read_cpus, 0, 0},
    {"pids", read_count_limit, 0, 0},    {"disk", read_size_limit, 0, 0},
    {"inodes", read_count_limit, 0, 0},  {"nofile", read_count_limit, 0, 0},
    {"output", read_size_limit, 0, 0},   {"requests", read_broker_limit, 0, 0},
    {"tokens", read_broker_limit, 0, 0}, {"gpus", NULL, 0, BH_KEY_RESERVED},
};
const struct bh_key_table bh_limits_table = {"limits", "limits", limits_keys, BH_ARRAY_LEN(limits_keys), 0};

static bool is_among(const char *word, const char *const *words)
{
    for (; *words; words++) {
        if (bh_streq(word, *words))
            return true;
    }
    return false;
}

/* The canonical JSON of those entries that are (or are not) among `words`; no text where there is none. */
static struct bh_str pick(struct bh_reader *r, const struct bh_val *all, const char *const *words, bool among,
                          struct bh_pos pos)
{
    BH_CLEANUP_VAL struct bh_val *some = bh_val_map();
    for (size_t i = 0; i < bh_val_len(all); i++) {
        if (is_among(bh_val_key_at(all, i), words) == among)
            bh_val_set(some, bh_val_key_at(all, i), bh_val_copy(bh_val_at(all, i)));
    }
    return bh_val_len(some) > 0 ? (struct bh_str){.s = canonical(r, some), .pos = pos} : (struct bh_str){0};
}

void bh_read_limits(struct bh_reader *r, struct bh_node *n, void *field)
{
    static const char *const crew[] = {"memory", "cpus", "pids", NULL};
    static const char *const box[] = {"disk", "inodes", "nofile", NULL};
    struct bh_traits *traits = field;
    struct bh_pos pos = bh_node_pos(n);
    BH_CLEANUP_VAL struct bh_val *all = bh_val_map();
    struct limits read = {.all = all};
    if (!bh_read_map(r, n, &bh_limits_table, &read))
        return;
    traits->limits = pick(r, all, crew, false, pos);
    traits->box_limits = pick(r, all, box, true, pos);
    traits->crew_limits = pick(r, all, crew, true, pos);
    traits->said = read.said;
    traits->max_requests = read.requests;
    traits->max_tokens = read.tokens;
}

/* --- files --- */

static void read_file_entry(struct bh_reader *r, struct bh_node *n, enum bh_holds holds, struct bh_map *seen,
                            struct bh_pairs *files)
{
    struct bh_pair pair = {0};
    bool good = bh_check_holds(r, n, bh_node_key(n), holds, true) &&
                bh_clean_path(r, n, bh_node_key(n), "/workspace", true, &pair.name);
    if (!bh_read_host_path(r, n, holds, &pair.value) || !good)
        return;
    if (!bh_map_put(seen, pair.name.s, r)) {
        bh_read_key_error(r, n, BH_E_BAD_VALUE, NULL, "the path '%s' is here already", pair.name.s);
        return;
    }
    *BH_ARENA_PUSH(r->arena, files->items, files->len, files->cap) = pair;
}

static void read_files(struct bh_reader *r, struct bh_node *n, enum bh_holds holds, struct bh_pairs *files)
{
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of path in /workspace to file"))
        return;
    BH_CLEANUP_MAP struct bh_map *seen = bh_map_new(NULL);
    for (size_t i = 0; i < bh_node_len(n); i++)
        read_file_entry(r, bh_node_at(n, i), holds, seen, files);
}

void bh_read_files(struct bh_reader *r, struct bh_node *n, void *field)
{
    read_files(r, n, BH_HOLDS_AGENT, field);
}

void bh_read_files_top(struct bh_reader *r, struct bh_node *n, void *field)
{
    read_files(r, n, BH_HOLDS_PARAMS, field);
}

/* --- boxes --- */

static void read_setup(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)bh_read_command(r, n, BH_HOLDS_PARAMS, field);
}

#define TRAITS offsetof(struct bh_box_doc, traits)
static const struct bh_key box_keys[] = {
    {"base", bh_read_base_top, TRAITS, 0},
    {"network", bh_read_network, TRAITS, 0},
    {"user", bh_read_user, TRAITS, 0},
    {"limits", bh_read_limits, TRAITS, 0},
    {"setup", read_setup, offsetof(struct bh_box_doc, setup), 0},
    {"files", bh_read_files_top, offsetof(struct bh_box_doc, files), 0},
    {"services", NULL, 0, BH_KEY_RESERVED},
};
const struct bh_key_table bh_box_table = {"box", "a box", box_keys, BH_ARRAY_LEN(box_keys), 0};

void bh_load_boxes(struct bh_reader *r, struct bh_node *n, void *field)
{
    (void)field;
    size_t cap = 0;
    if (!bh_expect(r, n, BH_NODE_MAP, "a map of name to box"))
        return;
    for (size_t i = 0; i < bh_node_len(n); i++) {
        struct bh_node *item = bh_node_at(n, i);
        const char *name = bh_node_key(item);
        struct bh_box_doc box = {.name = {.s = name, .pos = bh_node_key_pos(item)}};
        if (!bh_is_name(name))
            bh_report_name(r, item, name, true);
        if (bh_read_map(r, item, &bh_box_table, &box))
            *BH_ARENA_PUSH(r->arena, r->p->boxes, r->p->n_boxes, cap) = box;
    }
}
