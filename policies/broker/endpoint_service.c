/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns what a service is made of, secrets included. Assumes that the document was checked by its loader; what cannot be
 * used all the same is an error that says so. Must never put a value into a message.
 */
#include "policies/broker/endpoint_service.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/val.h"
#include "policies/address.h"
#include "policies/broker/http.h"
#include "policies/secret.h"

#define HEADER_MAX (64 * 1024)

char *bh_service_key(const struct bh_val *msg)
{
    BH_CLEANUP_BUF struct bh_buf key = BH_BUF_INIT;
    const char *run = bh_val_str_of(msg, "run");
    const struct bh_val *ranges = bh_val_get(msg, "ranges");
    bh_buf_addf(&key, "%s ", run ? run : "");
    if (bh_val_get(msg, "endpoint"))
        bh_json_format_canonical(bh_val_get(msg, "endpoint"), &key);
    if (ranges)
        bh_json_format_canonical(ranges, &key);
    return bh_buf_take(&key);
}

static char **read_texts(const struct bh_val *list, size_t *ret_n)
{
    size_t n = bh_val_type(list) == BH_VAL_LIST ? bh_val_len(list) : 0, len = 0;
    char **texts = bh_calloc(n + 1, sizeof(*texts));
    for (size_t i = 0; i < n; i++) {
        const char *s = bh_val_get_str(bh_val_at(list, i));
        if (s)
            texts[len++] = bh_strdup(s);
    }
    *ret_n = len;
    return texts;
}

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bh_free(texts[i]);
    bh_free(texts);
}

/* --- secrets --- */

bool bh_service_is_slow(const struct bh_val *msg)
{
    const struct bh_val *secrets = bh_val_get(bh_val_get(msg, "endpoint"), "secrets");
    for (size_t i = 0; i < bh_val_len(secrets); i++) {
        if (bh_val_get(bh_val_at(secrets, i), "command"))
            return true;
    }
    return false;
}

static int resolve(const struct bh_service *s, const struct bh_val *secrets, const char *name, size_t len,
                   struct bh_secret *ret, struct bh_err **err)
{
    BH_CLEANUP_FREE char *key = bh_strndup(name, len);
    const struct bh_val *v = bh_val_get(secrets, key);
    size_t n;
    if (bh_val_type(v) != BH_VAL_MAP)
        return bh_err_set(err, BH_E_INVALID, 0, "a header names the secret '%s', which is not there", key);
    char **argv = read_texts(bh_val_get(v, "command"), &n);
    const struct bh_secret_ref ref = {.name = key,
                                      .env = bh_val_str_of(v, "env"),
                                      .file = bh_val_str_of(v, "file"),
                                      .command = n > 0 ? (const char *const *)argv : NULL,
                                      .n_command = n,
                                      .give_up_fd = s->give_up_fd};
    int rc = bh_secret_resolve(&ref, ret, err);
    free_texts(argv, n);
    return rc;
}

/* A line of a header may not become two. */
static int check_line(const char *name, const char *value, size_t len, struct bh_err **err)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return bh_err_set(err, BH_E_HOST, 0, "the secret '%s' holds control characters, which no header may", name);
    }
    return 0;
}

struct line {
    char *text; /* HEADER_MAX bytes of wiped memory */
    size_t len;
};

static int append(struct line *line, const char *text, size_t len, struct bh_err **err)
{
    if (line->len + len + 1 > HEADER_MAX)
        return bh_err_set(err, BH_E_TOO_LARGE, 0, "a header of more than 64 KiB is more than services take");
    memcpy(line->text + line->len, text, len);
    line->len += len;
    return 0;
}

static int append_secret(struct bh_service *s, struct line *line, const struct bh_val *secrets, const char *name,
                         size_t len, struct bh_err **err)
{
    BH_CLEANUP_SECRET struct bh_secret secret = {0};
    BH_CLEANUP_FREE char *key = bh_strndup(name, len);
    int rc = resolve(s, secrets, name, len, &secret, err);
    if (rc == 0)
        rc = check_line(key, secret.value, secret.len, err);
    if (rc == 0)
        rc = append(line, secret.value, secret.len, err);
    if (rc == 0)
        (void)bh_needles_add(s->needles, key, secret.value, secret.len);
    return rc;
}

static int fill_line(struct bh_service *s, struct line *line, const struct bh_val *secrets, const char *value,
                     struct bh_err **err)
{
    int rc = 0;
    while (rc == 0 && *value) {
        const char *hold = strstr(value, "{{"), *end = hold ? strstr(hold, "}}") : NULL;
        size_t plain = end ? (size_t)(hold - value) : strlen(value);
        rc = append(line, value, plain, err);
        value += plain;
        if (rc < 0 || !end)
            continue;
        const char *name = hold + 2 + strspn(hold + 2, " ");
        size_t len = strcspn(name, " }");
        if (strncmp(name, "secrets.", 8) != 0)
            return bh_err_set(err, BH_E_INVALID, 0, "a header holds '{{' and names no secret");
        rc = append_secret(s, line, secrets, name + 8, len - 8, err);
        value = end + 2;
    }
    return rc;
}

static int add_header(struct bh_service *s, const struct bh_val *secrets, const char *name, const char *value,
                      struct bh_err **err)
{
    struct line line = {.text = bh_secret_alloc(HEADER_MAX)};
    if (!line.text)
        return bh_err_set(err, BH_E_NOMEM, 0, "there is no memory for a header");
    int rc = append(&line, name, strlen(name), err);
    if (rc == 0)
        rc = append(&line, *value ? ": " : ";", *value ? 2 : 1, err);
    if (rc == 0)
        rc = fill_line(s, &line, secrets, value, err);
    if (rc == 0) {
        char *kept = bh_secret_alloc(line.len + 1);
        rc = kept ? 0 : bh_err_set(err, BH_E_NOMEM, 0, "there is no memory for a header");
        if (kept)
            memcpy(kept, line.text, line.len);
        s->headers[s->n_headers] = kept;
        s->n_headers += kept != NULL;
    }
    bh_secret_free(line.text, HEADER_MAX);
    return rc;
}

static int add_headers(struct bh_service *s, const struct bh_val *endpoint, struct bh_err **err)
{
    const struct bh_val *headers = bh_val_get(endpoint, "headers");
    s->headers = bh_calloc(bh_val_len(headers) + 1, sizeof(*s->headers));
    for (size_t i = 0; i < bh_val_len(headers); i++) {
        const struct bh_val *item = bh_val_at(headers, i);
        const char *name = bh_val_str_of(item, "name"), *value = bh_val_str_of(item, "value");
        if (!name || !value || !bh_http_is_token(name, strlen(name)))
            return bh_err_set(err, BH_E_INVALID, 0, "a header of endpoint '%s' has no name or value", s->name);
        int rc = add_header(s, bh_val_get(endpoint, "secrets"), name, value, err);
        if (rc < 0)
            return bh_err_wrap(err, rc, "header '%s' of endpoint '%s'", name, s->name);
    }
    return 0;
}

/* --- the rest --- */

static int read_upstream(struct bh_service *s, const char *url, struct bh_err **err)
{
    const char *host = url ? strstr(url, "://") : NULL;
    if (!host || (!bh_starts_with(url, "https://") && !bh_starts_with(url, "http://")) || strpbrk(url, "?# \t\r\n@"))
        return bh_err_set(err, BH_E_INVALID, 0, "endpoint '%s' has no upstream like https://api.example.org", s->name);
    s->host = bh_strndup(host + 3, strcspn(host + 3, "/"));
    size_t len = strlen(url);
    while (len > 0 && url[len - 1] == '/')
        len--;
    s->base = bh_strndup(url, len);
    return 0;
}

int bh_service_new(const struct bh_val *msg, int give_up_fd, struct bh_service **ret, struct bh_err **err)
{
    const struct bh_val *endpoint = bh_val_get(msg, "endpoint");
    const char *name = bh_val_str_of(endpoint, "name");
    struct bh_service *s = bh_alloc(sizeof(*s));
    s->give_up_fd = give_up_fd;
    s->key = bh_service_key(msg);
    s->name = bh_strdup(name ? name : "");
    s->needles = bh_needles_new();
    s->allow = read_texts(bh_val_get(endpoint, "allow"), &s->n_allow);
    bh_gate_init(&s->gate, bh_val_int_of(endpoint, "max_parallel"));
    int rc = read_upstream(s, bh_val_str_of(endpoint, "upstream"), err);
    if (rc == 0)
        rc = bh_ranges_read(bh_val_get(msg, "ranges"), &s->ranges, &s->n_ranges, err);
    if (rc == 0)
        rc = add_headers(s, endpoint, err);
    if (rc < 0) {
        bh_service_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void bh_service_free(struct bh_service *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_headers; i++)
        bh_secret_free(s->headers[i], strlen(s->headers[i]) + 1);
    bh_free(s->headers);
    bh_needles_free(s->needles);
    free_texts(s->allow, s->n_allow);
    bh_free(s->ranges);
    bh_free(s->key);
    bh_free(s->name);
    bh_free(s->host);
    bh_free(s->base);
    bh_free(s);
}

bool bh_service_permits(const struct bh_service *s, const unsigned char address[static 16])
{
    return bh_address_kind(address) == BH_ADDRESS_PUBLIC || bh_address_is_permitted(address, s->ranges, s->n_ranges);
}

static char folded(char c)
{
    return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* `name` up to its end or, of a line, its colon. */
static bool same_header(const char *name, const char *line)
{
    while (*name && folded(*name) == folded(*line))
        name++, line++;
    return *name == '\0' && (*line == '\0' || *line == ':' || *line == ';');
}

bool bh_header_is(const char *name, const char *other)
{
    return same_header(name, other);
}

bool bh_header_begins(const char *name, const char *beginning)
{
    while (*beginning && folded(*name) == folded(*beginning))
        name++, beginning++;
    return *beginning == '\0';
}

bool bh_service_sets(const struct bh_service *s, const char *header)
{
    for (size_t i = 0; i < s->n_headers; i++) {
        if (same_header(header, s->headers[i]))
            return true;
    }
    return false;
}
