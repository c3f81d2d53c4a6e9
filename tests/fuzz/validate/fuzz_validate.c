/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes at all as content that is validated; the first byte chooses the kind. What comes out is one line without
 * anything of the content, and what is called JSON the JSON library takes, too (it also refuses what its limits do).
 */
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/val.h"
#include "policies/validate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problem(const char *problem)
{
    BH_ASSERT(strlen(problem) > 0 && strlen(problem) < 200);
    for (const char *p = problem; *p; p++)
        BH_ASSERT(*p >= ' ' && *p < 0x7f);
}

/* Whatever the library takes is JSON here, unless it is deeper than we go. */
static void compare(const char *text, size_t len, bool good)
{
    BH_CLEANUP_VAL struct bh_val *v = NULL;
    size_t depth = 0;
    for (size_t i = 0; i < len; i++)
        depth += text[i] == '[' || text[i] == '{';
    if (bh_json_parse(text, len, &v, NULL) == 0)
        BH_ASSERT(good || depth > BH_VALIDATE_DEPTH);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bh_lease_validate v = BH_LEASE_VALIDATE_NOTHING;
    char *paths[] = {(char[]){"src/**"}, (char[]){"*.md"}};
    if (size == 0)
        return 0;
    v.kind = (enum bh_validate_kind)(data[0] % (BH_VALIDATE_PATCH + 1));
    if (data[0] & 0x40) {
        v.max_lines = 3;
        v.max_files = 2;
        v.max_size = 300;
    }
    if (data[0] & 0x20) {
        v.paths = paths;
        v.n_paths = 2;
    }
    const char *text = (const char *)data + 1;
    BH_CLEANUP_FREE char *problem = bh_validate_bytes(&v, text, size - 1);
    if (problem)
        check_problem(problem);
    if (v.kind == BH_VALIDATE_JSON && v.max_size < 0)
        compare(text, size - 1, problem == NULL);
    return 0;
}
