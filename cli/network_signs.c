/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the words by which programs say that they found no network. They are compared as they are written, as whole
 * words: 'ENOTFOUND' is no part of 'FileNotFoundError'. Says rather nothing than something wrong.
 */
#include "cli/network_signs.h"

#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const char *const signs[] = {"name resolution",
                                    "resolve host",
                                    "resolve hostname",
                                    "Name or service not known",
                                    "Network is unreachable",
                                    "network is unreachable",
                                    "ENETUNREACH",
                                    "EAI_AGAIN",
                                    "ENOTFOUND"};
static const char *const refusals[] = {"Connection refused", "connection refused", "ECONNREFUSED"};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *line, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = line; (at = strstr(at, word)); at++) {
        if ((at == line || !is_word(at[-1])) && !is_word(at[len]))
            return true;
    }
    return false;
}

static bool has_one(const char *line, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (has_word(line, words[i]))
            return true;
    }
    return false;
}

/* Without a network the only host to refuse anything is the box itself: a server of its own that is not up. Where it
 * was asked for a name, at the port of name servers, a network was wanted. */
static bool line_wants(const char *line)
{
    return has_one(line, signs, BH_ARRAY_LEN(signs)) ||
           (has_one(line, refusals, BH_ARRAY_LEN(refusals)) && has_word(line, "lookup") && has_word(line, "53"));
}

bool bh_lines_want_network(const char *lines)
{
    for (const char *p = lines; *p;) {
        size_t len = strcspn(p, "\n");
        BH_CLEANUP_FREE char *line = bh_strndup(p, len);
        if (line_wants(line))
            return true;
        p += len + (p[len] == '\n');
    }
    return false;
}
