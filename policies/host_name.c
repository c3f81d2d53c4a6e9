/* SPDX-License-Identifier: Apache-2.0 */
/* The only user of the IDN library. */
#include "policies/host_name.h"

#include <idn2.h>
#include <string.h>

#include "base/text.h"

enum { LABEL_MAX = 63, NAME_MAX_ = 253 };

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* '_' is in no name of a host, but in names that resolve. */
static bool is_label(const char *s, size_t len)
{
    if (len == 0 || len > LABEL_MAX || s[0] == '-' || s[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!is_alnum(s[i]) && s[i] != '-' && s[i] != '_')
            return false;
    }
    return true;
}

/* "0x7f", "0177", "2130706433": as the last label it makes the whole a number to some. */
static bool is_number(const char *s)
{
    bool hex = s[0] == '0' && s[1] == 'x';
    s += hex ? 2 : 0;
    return s[strspn(s, hex ? "0123456789abcdef" : "0123456789")] == '\0';
}

static bool is_name(const char *name)
{
    const char *last = name;
    for (const char *s = name;; s++) {
        size_t len = strcspn(s, ".");
        if (!is_label(s, len))
            return false;
        last = s;
        s += len;
        if (*s == '\0')
            return !is_number(last);
    }
}

static void lower(char *s)
{
    for (; *s; s++)
        *s = *s >= 'A' && *s <= 'Z' ? (char)(*s | 0x20) : *s;
}

static bool is_ascii(const char *s)
{
    for (; *s; s++) {
        if (*s & 0x80)
            return false;
    }
    return true;
}

/* To its ASCII form, in place. */
static bool fold_international(char name[static BH_HOST_TEXT])
{
    char *ascii = NULL;
    bool ok =
        bh_utf8_check(name, strlen(name)) == strlen(name) &&
        idn2_lookup_u8((const uint8_t *)name, (uint8_t **)&ascii, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) == IDN2_OK;
    size_t len = ok ? strlen(ascii) : 0;
    ok = ok && len < BH_HOST_TEXT;
    if (ok)
        memcpy(name, ascii, len + 1);
    idn2_free(ascii);
    return ok;
}

static bool read_address(const char *text, struct bh_host *ret)
{
    if (!bh_address_parse(text, ret->address))
        return false;
    ret->is_address = true;
    (void)bh_address_format(ret->address, ret->name);
    return true;
}

static bool read_name(struct bh_host *ret)
{
    if (!is_ascii(ret->name) && !fold_international(ret->name))
        return false;
    size_t len = strlen(ret->name);
    if (len > 0 && ret->name[len - 1] == '.')
        ret->name[--len] = '\0';
    lower(ret->name);
    return len <= NAME_MAX_ && is_name(ret->name);
}

bool bh_host_read(const char *text, size_t len, struct bh_host *ret)
{
    bool bracketed = len >= 2 && text[0] == '[' && text[len - 1] == ']';
    memset(ret, 0, sizeof(*ret));
    text += bracketed ? 1 : 0;
    len -= bracketed ? 2 : 0;
    if (len == 0 || len >= BH_HOST_TEXT || memchr(text, '\0', len))
        return false;
    memcpy(ret->name, text, len);
    if (bracketed && !memchr(text, ':', len))
        return false;
    return read_address(ret->name, ret) || (!bracketed && read_name(ret));
}

static bool read_port(const char *s, size_t len, uint16_t *ret)
{
    unsigned port = 0;
    if (len == 0 || len > 5)
        return false;
    for (size_t i = 0; i < len; i++) {
        if (s[i] < '0' || s[i] > '9')
            return false;
        port = port * 10 + (unsigned)(s[i] - '0');
    }
    *ret = (uint16_t)port;
    return port >= 1 && port <= 65535;
}

bool bh_destination_read(const char *text, size_t len, bool patterns, struct bh_destination *ret)
{
    const char *colon = memrchr(text, ':', len);
    if (!colon || !read_port(colon + 1, len - (size_t)(colon + 1 - text), &ret->port))
        return false;
    len = (size_t)(colon - text);
    ret->below = patterns && len > 2 && text[0] == '*' && text[1] == '.';
    text += ret->below ? 2 : 0;
    len -= ret->below ? 2 : 0;
    if (memchr(text, ':', len) && text[0] != '[')
        return false; /* whose last colon is it? */
    return bh_host_read(text, len, &ret->host) && !(ret->below && ret->host.is_address);
}

bool bh_destination_matches(const struct bh_destination *allowed, const struct bh_host *host, uint16_t port)
{
    if (allowed->port != port || allowed->host.is_address != host->is_address)
        return false;
    if (host->is_address)
        return memcmp(allowed->host.address, host->address, BH_ADDRESS_LEN) == 0;
    if (!allowed->below)
        return strcmp(allowed->host.name, host->name) == 0;
    size_t suffix = strlen(allowed->host.name), len = strlen(host->name);
    return len > suffix + 1 && host->name[len - suffix - 1] == '.' &&
           strcmp(host->name + len - suffix, allowed->host.name) == 0;
}
