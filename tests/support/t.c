/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/t.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/path.h"

void t_check_ok(int rc, struct bh_err *err, const char *call, const char *file, int line)
{
    if (rc == 0 && !err)
        return;
    struct bh_buf text = BH_BUF_INIT;
    if (err)
        bh_err_format(err, &text);
    print_error("%s gave %d (%s)\n%s", call, rc, bh_code_info(rc)->text, text.data);
    bh_buf_fini(&text);
    bh_err_free(err);
    _fail(file, line);
}

void t_check_err(int rc, struct bh_err *err, enum bh_code want, const char *part, const char *call, const char *file,
                 int line)
{
    const char *message = err ? bh_err_message(err) : NULL;
    if (rc == -(int)want && (!part || (message && strstr(message, part)))) {
        bh_err_free(err);
        return;
    }
    print_error("%s gave %d (%s), message '%s'; wanted %s with '%s'\n", call, rc, rc ? bh_code_info(rc)->text : "ok",
                message ? message : "", bh_code_info((int)want)->text, part ? part : "");
    bh_err_free(err);
    _fail(file, line);
}

char *t_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = NULL;
    if (asprintf(&dir, "%s/bh-test-XXXXXX", base && *base ? base : "/tmp") < 0 || !mkdtemp(dir))
        fail_msg("cannot make a temporary folder");
    return dir;
}

void t_tmpdir_free(char *dir)
{
    if (dir)
        (void)bh_rmtree_at(AT_FDCWD, dir);
    free(dir);
}

static int listed(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return 1;
    }
    return 0;
}

void t_skip(const char *capability, const char *reason)
{
    const char *must = getenv("BH_MUST_RUN");
    if (must && (listed(must, capability) || listed(must, "all")))
        fail_msg("must run here, but '%s' is missing: %s", capability, reason);
    print_message("SKIP %s: %s\n", capability, reason);
    skip();
}
