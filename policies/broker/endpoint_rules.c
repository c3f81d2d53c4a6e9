/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns normalising and comparing. Assumes a target without spaces and control characters (http.h). Must never let
 * through what could be read in two ways.
 */
#include "policies/broker/endpoint_rules.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

#define ESCAPED_SLASH "%2F"

static bool needs_no_escape(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-._~", c));
}

/* Each escape decoded or in capitals. */
static int write_canonical(const char *path, size_t len, struct bh_buf *out, const char **why)
{
    for (size_t i = 0; i < len; i++) {
        *why = "the path holds a character that no path has";
        if (path[i] == '\\' || path[i] == '#')
            return -1;
        if (path[i] != '%') {
            bh_buf_addc(out, path[i]);
            continue;
        }
        *why = "the path holds a '%' that escapes nothing";
        if (len - i < 3 || bh_hex_digit(path[i + 1]) < 0 || bh_hex_digit(path[i + 2]) < 0)
            return -1;
        unsigned char c = (unsigned char)(bh_hex_digit(path[i + 1]) << 4 | bh_hex_digit(path[i + 2]));
        *why = "the path hides a control character or a backslash";
        if (c < 0x20 || c == 0x7f || c == '\\')
            return -1;
        if (needs_no_escape((char)c))
            bh_buf_addc(out, (char)c);
        else
            bh_buf_addf(out, "%%%02X", c);
        i += 2;
    }
    return 0;
}

/* As RFC 3986, 5.2.4 has it, in place; -1 where it leads above the root. */
static int resolve_dots(struct bh_buf *path)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (const char *p = path->data; *p;) {
        size_t n = strcspn(p + 1, "/");
        bool last = p[1 + n] == '\0', up = n == 2 && p[1] == '.' && p[2] == '.', here = n == 1 && p[1] == '.';
        if (up) {
            if (out.len == 0)
                return -1;
            out.len = (size_t)((char *)memrchr(out.data, '/', out.len) - out.data);
            out.data[out.len] = '\0';
        }
        if (!up && !here)
            bh_buf_add(&out, p, n + 1);
        else if (last)
            bh_buf_addc(&out, '/');
        p += n + 1;
    }
    bh_buf_clear(path);
    bh_buf_add(path, out.data, out.len);
    return 0;
}

/* `but`: the one character that stays escaped; 0: none. */
static char *decode(const char *path, char but)
{
    BH_CLEANUP_BUF struct bh_buf out = BH_BUF_INIT;
    for (; *path; path++) {
        if (*path == '%' && bh_hex_digit(path[1]) >= 0 && bh_hex_digit(path[2]) >= 0) {
            char c = (char)(bh_hex_digit(path[1]) << 4 | bh_hex_digit(path[2]));
            if (but && c == but)
                bh_buf_addf(&out, "%%%02X", (unsigned char)c);
            else
                bh_buf_addc(&out, c);
            path += 2;
        } else {
            bh_buf_addc(&out, *path);
        }
    }
    return bh_buf_take(&out);
}

/* What is still a way up, or an escape, once everything is decoded: some service reads it so. */
static const char *ambiguity(const char *decoded)
{
    for (const char *p = decoded; *p; p++) {
        if (*p == '%' && bh_hex_digit(p[1]) >= 0 && bh_hex_digit(p[2]) >= 0)
            return "the path is escaped twice";
        if (*p != '/' || p[1] != '.')
            continue;
        size_t dots = strspn(p + 1, ".");
        if (dots <= 2 && (p[1 + dots] == '\0' || strchr("/;?#", p[1 + dots])))
            return "the path hides '..' or '.'";
    }
    return NULL;
}

int bh_endpoint_normalise(const char *target, struct bh_endpoint_target *ret, const char **ret_why)
{
    BH_CLEANUP_BUF struct bh_buf path = BH_BUF_INIT;
    size_t len = strcspn(target, "?");
    *ret_why = "the target is no path that starts with '/'";
    if (*target != '/' || strchr(target, '#'))
        return -1;
    if (write_canonical(target, len, &path, ret_why) < 0)
        return -1;
    *ret_why = "the path leads above '/'";
    if (resolve_dots(&path) < 0)
        return -1;
    BH_CLEANUP_FREE char *decoded = decode(path.data, 0);
    *ret_why = ambiguity(decoded);
    if (*ret_why)
        return -1;
    char *compared = decode(path.data, '/');
    bh_buf_adds(&path, target + len);
    *ret = (struct bh_endpoint_target){.compared = compared, .sent = bh_buf_take(&path)};
    return 0;
}

void bh_endpoint_target_fini(struct bh_endpoint_target *t)
{
    bh_free(t->compared);
    bh_free(t->sent);
    *t = (struct bh_endpoint_target){0};
}

/* No wildcard takes an escaped slash, which one service reads as a slash and another as a letter: the rule has to have
 * it. */
static bool path_fits(const char *pattern, const char *path)
{
    for (;;) {
        const char *pattern_end = strstr(pattern, ESCAPED_SLASH), *end = strstr(path, ESCAPED_SLASH);
        if (!pattern_end != !end)
            return false;
        if (!end)
            return bh_glob_match(pattern, path);
        BH_CLEANUP_FREE char *pattern_part = bh_strndup(pattern, (size_t)(pattern_end - pattern));
        BH_CLEANUP_FREE char *part = bh_strndup(path, (size_t)(end - path));
        if (!bh_glob_match(pattern_part, part))
            return false;
        pattern = pattern_end + strlen(ESCAPED_SLASH);
        path = end + strlen(ESCAPED_SLASH);
    }
}

static bool rule_fits(const char *rule, const char *method, const char *path)
{
    size_t n = strcspn(rule, " ");
    if (rule[n] == '\0')
        return false;
    BH_CLEANUP_FREE char *methods = bh_strndup(rule, n);
    if (!bh_glob_match(methods, method))
        return false;
    BH_CLEANUP_FREE char *pattern = decode(rule + n + 1, '/');
    return path_fits(pattern, path);
}

bool bh_endpoint_allows(char *const *rules, size_t n, const char *method, const char *path)
{
    for (size_t i = 0; i < n; i++) {
        if (rule_fits(rules[i], method, path))
            return true;
    }
    return false;
}
