/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of text_rules_priv.h. They guard against a peer that lies (a path that climbs out, a folder name with a
 * slash), not against a user's slip: topologies/ has told the user long before, with positions. Hence the rules here
 * may be wider than those of the grammar, never narrower.
 */
#include "artifact-bus/text_rules_priv.h"

#include <string.h>

#include "artifact-bus/digest.h"
#include "base/id.h"
#include "base/path.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

enum { SNAPSHOT_KEY_LEN = 64 };

static bool only(const char *text, const char *set)
{
    return text[strspn(text, set)] == '\0';
}

const char *bh_rule_run_id(const char *text)
{
    return bh_run_id_valid(text) ? NULL : "is no run id";
}

const char *bh_rule_instance_id(const char *text)
{
    return bh_instance_id_valid(text) ? NULL : "is no instance id";
}

const char *bh_rule_agent(const char *text)
{
    bool good = *text && *text != '_' && *text != '-' && only(text, LOWER DIGITS "_-");
    return good ? NULL : "is no name of an agent or stage";
}

const char *bh_rule_agent_or_empty(const char *text)
{
    return *text ? bh_rule_agent(text) : NULL;
}

const char *bh_rule_segment(const char *text)
{
    bool good = *text && *text != '.' && only(text, LOWER UPPER DIGITS "._+=@-");
    return good ? NULL : "is no folder name";
}

const char *bh_rule_path(const char *text)
{
    return bh_path_is_clean(text) ? NULL : "is no path that stays below its folder";
}

const char *bh_rule_env_name(const char *text)
{
    return strchr(text, '=') ? "has a '=' in it" : NULL;
}

const char *bh_rule_snapshot_key(const char *text)
{
    bool good = strlen(text) == SNAPSHOT_KEY_LEN && only(text, DIGITS "abcdef");
    return good ? NULL : "is no key of a snapshot";
}

const char *bh_rule_digest(const char *text)
{
    struct bh_digest d;
    return bh_digest_parse(text, &d) == 0 ? NULL : "is no sha256 digest";
}

const char *bh_rule_reason(const char *text)
{
    size_t word = strspn(text, LOWER "-");
    const char *rest = text + word;
    bool good = word > 0 && *rest == '\0';
    if (word > 0 && *rest == '(') {
        size_t phase = strspn(rest + 1, LOWER "-");
        good = phase > 0 && strcmp(rest + 1 + phase, ")") == 0;
    }
    return good ? NULL : "is no reason";
}
