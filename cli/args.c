/* SPDX-License-Identifier: Apache-2.0 */
/* One loop over argv; everything a verb knows is in its table. */
#include "cli/args.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

const struct bh_opt bh_global_opts[] = {
    {"home", 0, BH_OPT_VALUE, "DIR", "the state directory (default $BULKHEAD_HOME, else $XDG_STATE_HOME/bulkhead)"},
    {"server", 0, BH_OPT_VALUE, "URL", "speak to a server (default $BULKHEAD_SERVER, else this machine)"},
    {"output", 'o', BH_OPT_VALUE, "text|json", "how to print the answer"},
    {"quiet", 'q', BH_OPT_FLAG, NULL, "print no progress"},
    {"verbose", 'v', BH_OPT_FLAG, NULL, "print what bulkhead itself does"},
    {"help", 'h', BH_OPT_FLAG, NULL, "print this help"},
};
const size_t bh_n_global_opts = BH_ARRAY_LEN(bh_global_opts);

static const struct bh_opt *opt_at(const struct bh_cmd *cmd, size_t i)
{
    return i < cmd->n_opts ? &cmd->opts[i] : &bh_global_opts[i - cmd->n_opts];
}

static size_t n_all_opts(const struct bh_cmd *cmd)
{
    return cmd->n_opts + bh_n_global_opts;
}

static const struct bh_opt *find_long(const struct bh_cmd *cmd, const char *name, size_t len)
{
    for (size_t i = 0; i < n_all_opts(cmd); i++) {
        const struct bh_opt *opt = opt_at(cmd, i);
        if (strlen(opt->name) == len && strncmp(opt->name, name, len) == 0)
            return opt;
    }
    return NULL;
}

static const struct bh_opt *find_short(const struct bh_cmd *cmd, char letter)
{
    for (size_t i = 0; i < n_all_opts(cmd); i++) {
        if (opt_at(cmd, i)->letter == letter)
            return opt_at(cmd, i);
    }
    return NULL;
}

static int unknown(const struct bh_cmd *cmd, const char *arg, struct bh_err **err)
{
    size_t n = n_all_opts(cmd);
    BH_CLEANUP_FREE const char **names = bh_calloc(n, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = opt_at(cmd, i)->name;
    BH_CLEANUP_FREE char *word =
        bh_strndup(arg + (arg[1] == '-' ? 2 : 1), strcspn(arg + 2, "=") + (arg[1] == '-' ? 0 : 1));
    const char *near = bh_nearest(word, names, n);
    int rc = bh_err_set(err, BH_E_USAGE, 0, "unknown option '%s' of 'bulkhead %s'", arg, cmd->name);
    if (near)
        bh_err_hint(err, "did you mean '--%s'?", near);
    else
        bh_err_hint(err, "see 'bulkhead %s --help'", cmd->name);
    return rc;
}

static void give(struct bh_args *args, const struct bh_opt *opt, const char *value)
{
    *BH_PUSH(args->given, args->n_given, args->cap_given) = (struct bh_given){opt->name, value};
    if (bh_streq(opt->name, "help"))
        args->help = true;
}

/* `inline_value`: behind '=' or behind the letter; NULL where there is none. Returns how many further words were used,
 * or negative. */
static int take_option(struct bh_args *args, const struct bh_opt *opt, const char *shown, const char *inline_value,
                       const char *next, struct bh_err **err)
{
    if (opt->kind == BH_OPT_FLAG) {
        if (inline_value)
            return bh_err_set(err, BH_E_USAGE, 0, "the option '%s' takes no value", shown);
        give(args, opt, "");
        return 0;
    }
    if (!inline_value && !next) {
        int rc = bh_err_set(err, BH_E_USAGE, 0, "the option '%s' needs a value", shown);
        bh_err_hint(err, "write --%s %s", opt->name, opt->value);
        return rc;
    }
    give(args, opt, inline_value ? inline_value : next);
    return inline_value ? 0 : 1;
}

static int take_long(struct bh_args *args, const char *arg, const char *next, struct bh_err **err)
{
    const char *name = arg + 2;
    size_t len = strcspn(name, "=");
    const struct bh_opt *opt = find_long(args->cmd, name, len);
    if (!opt)
        return unknown(args->cmd, arg, err);
    BH_CLEANUP_FREE char *shown = bh_asprintf("--%s", opt->name);
    return take_option(args, opt, shown, name[len] == '=' ? name + len + 1 : NULL, next, err);
}

static int take_short(struct bh_args *args, const char *arg, const char *next, struct bh_err **err)
{
    const struct bh_opt *opt = find_short(args->cmd, arg[1]);
    if (!opt || (opt->kind == BH_OPT_FLAG && arg[2] != '\0'))
        return unknown(args->cmd, arg, err);
    char shown[] = {'-', arg[1], '\0'};
    return take_option(args, opt, shown, arg[2] ? arg + 2 : NULL, next, err);
}

static int check_operands(const struct bh_args *args, struct bh_err **err)
{
    const struct bh_cmd *cmd = args->cmd;
    int rc = 0;
    if (args->n_operands < cmd->min_operands)
        rc = bh_err_set(err, BH_E_USAGE, 0, "'bulkhead %s' needs %s", cmd->name, cmd->operands);
    else if (args->n_operands > cmd->max_operands)
        rc = bh_err_set(err, BH_E_USAGE, 0, "'bulkhead %s' does not take '%s'", cmd->name,
                        args->operands[cmd->max_operands]);
    if (rc != 0)
        bh_err_hint(err, "usage: bulkhead %s%s%s", cmd->name, *cmd->operands ? " " : "", cmd->operands);
    return rc;
}

static int check_output(const struct bh_args *args, struct bh_err **err)
{
    const char *output = bh_args_get(args, "output");
    if (!output || bh_streq(output, "json") || bh_streq(output, "text"))
        return 0;
    return bh_err_set(err, BH_E_USAGE, 0, "unknown output form '%s', it is one of text and json", output);
}

static int read_words(struct bh_args *args, int argc, char **argv, struct bh_err **err)
{
    bool options_over = false;
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        int used;
        if (options_over || arg[0] != '-' || arg[1] == '\0') {
            args->operands[args->n_operands++] = arg;
            continue;
        }
        if (bh_streq(arg, "--")) {
            options_over = true;
            continue;
        }
        used = arg[1] == '-' ? take_long(args, arg, next, err) : take_short(args, arg, next, err);
        if (used < 0)
            return used;
        i += used;
    }
    return 0;
}

int bh_args_parse(const struct bh_cmd *cmd, int argc, char **argv, struct bh_args *ret, struct bh_err **err)
{
    *ret = (struct bh_args){.cmd = cmd, .operands = bh_calloc((size_t)argc + 1, sizeof(*ret->operands))};
    int rc = read_words(ret, argc, argv, err);
    if (rc == 0 && !ret->help)
        rc = check_operands(ret, err);
    if (rc == 0)
        rc = check_output(ret, err);
    return rc;
}

void bh_args_fini(struct bh_args *args)
{
    bh_free(args->operands);
    bh_free(args->given);
    *args = (struct bh_args){0};
}

const char *bh_args_get(const struct bh_args *args, const char *name)
{
    for (size_t i = args->n_given; i > 0; i--) {
        if (bh_streq(args->given[i - 1].name, name))
            return args->given[i - 1].value;
    }
    return NULL;
}

bool bh_args_has(const struct bh_args *args, const char *name)
{
    return bh_args_get(args, name) != NULL;
}

const char **bh_args_all(const struct bh_args *args, const char *name, size_t *ret_n)
{
    const char **values = bh_calloc(args->n_given + 1, sizeof(*values));
    size_t n = 0;
    for (size_t i = 0; i < args->n_given; i++) {
        if (bh_streq(args->given[i].name, name))
            values[n++] = args->given[i].value;
    }
    *ret_n = n;
    return values;
}

bool bh_args_json(const struct bh_args *args)
{
    return bh_streq(bh_args_get(args, "output"), "json");
}

static void print_option(const struct bh_opt *opt)
{
    BH_CLEANUP_BUF struct bh_buf left = BH_BUF_INIT;
    if (opt->letter)
        bh_buf_addf(&left, "-%c, ", opt->letter);
    else
        bh_buf_adds(&left, "    ");
    bh_buf_addf(&left, "--%s", opt->name);
    if (opt->value)
        bh_buf_addf(&left, " %s", opt->value);
    printf("  %-30s %s%s\n", left.data, opt->help, opt->kind == BH_OPT_REPEATED ? " (may be repeated)" : "");
}

void bh_args_print_help(const struct bh_cmd *cmd)
{
    printf("usage: bulkhead %s%s%s\n\n%s\n\n", cmd->name, *cmd->operands ? " " : "", cmd->operands, cmd->summary);
    if (cmd->more)
        printf("%s\n\n", cmd->more);
    if (cmd->n_opts > 0)
        printf("options:\n");
    for (size_t i = 0; i < cmd->n_opts; i++)
        print_option(&cmd->opts[i]);
    printf("%soptions of every verb:\n", cmd->n_opts > 0 ? "\n" : "");
    for (size_t i = 0; i < bh_n_global_opts; i++)
        print_option(&bh_global_opts[i]);
    printf("\nexample:\n");
    for (const char *p = cmd->example; *p;) {
        size_t len = strcspn(p, "\n");
        printf("  %.*s\n", (int)len, p);
        p += len + (p[len] == '\n');
    }
}
