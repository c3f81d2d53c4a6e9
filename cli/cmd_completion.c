/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead completion: a script for the shell, made from the tables of verbs and options. */
#include <stdio.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"

/* Options whose value is one of a few words say so in their tables: "text|json". */
static bool has_choices(const struct bh_opt *opt)
{
    return opt->value && strchr(opt->value, '|');
}

static void print_choices(const char *choices)
{
    for (const char *p = choices; *p; p++)
        putchar(*p == '|' ? ' ' : *p);
}

/* What stands where no option does: words, or NULL for files. */
static const char *operand_words(const struct bh_cmd *cmd)
{
    if (bh_starts_with(cmd->operands, "RUN"))
        return "@latest";
    if (bh_streq(cmd->operands, "SHELL"))
        return "bash zsh fish";
    if (bh_streq(cmd->operands, "[verify]"))
        return "verify";
    return *cmd->operands ? NULL : "";
}

static void print_options(const struct bh_opt *opts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf(" --%s", opts[i].name);
        if (opts[i].letter)
            printf(" -%c", opts[i].letter);
    }
}

static void print_choice_cases(const struct bh_opt *opts, size_t n, const char *verb)
{
    for (size_t i = 0; i < n; i++) {
        if (!has_choices(&opts[i]))
            continue;
        printf("    %s--%s", verb, opts[i].name);
        if (opts[i].letter)
            printf("|%s-%c", verb, opts[i].letter);
        printf(") choices=\"");
        print_choices(opts[i].value);
        printf("\" ;;\n");
    }
}

static void print_verbs(void)
{
    for (size_t i = 0; i < bh_n_commands; i++)
        printf(" %s", bh_commands[i]->name);
    printf(" help");
}

static void print_cases(void)
{
    for (size_t i = 0; i < bh_n_commands; i++) {
        const struct bh_cmd *cmd = bh_commands[i];
        const char *operands = operand_words(cmd);
        printf("    %s) options=\"", cmd->name);
        print_options(cmd->opts, cmd->n_opts);
        print_options(bh_global_opts, bh_n_global_opts);
        if (operands)
            printf("\" words=\"%s\" ;;\n", operands);
        else
            printf("\" files=1 ;;\n");
    }
    printf("    help) words=\"");
    print_verbs();
    printf("\" ;;\n");
}

static void print_bash(void)
{
    printf("_bulkhead() {\n"
           "  local cur=${COMP_WORDS[COMP_CWORD]} prev= verb=${COMP_WORDS[1]} options= words= files= choices=\n"
           "  COMPREPLY=()\n"
           "  if [ \"$COMP_CWORD\" -le 1 ]; then\n"
           "    words=\"");
    print_verbs();
    printf("\"\n"
           "  else\n"
           "    prev=${COMP_WORDS[COMP_CWORD-1]}\n"
           "    case $verb in\n");
    print_cases();
    printf("    esac\n"
           "    case $prev in\n");
    print_choice_cases(bh_global_opts, bh_n_global_opts, "");
    printf("    --resume) choices=\"@latest\" ;;\n"
           "    esac\n"
           "    case \"$verb $prev\" in\n");
    for (size_t i = 0; i < bh_n_commands; i++) {
        char verb[64];
        snprintf(verb, sizeof(verb), "\"%s \"", bh_commands[i]->name);
        print_choice_cases(bh_commands[i]->opts, bh_commands[i]->n_opts, verb);
    }
    printf("    esac\n"
           "  fi\n"
           "  if [ -n \"$choices\" ]; then words=$choices files=\n"
           "  else case $cur in -*) words=$options files= ;; esac\n"
           "  fi\n"
           "  if [ -n \"$files\" ]; then mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
           "  else mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "  fi\n"
           "}\n"
           "complete -o filenames -F _bulkhead bulkhead\n");
}

static void print_zsh(void)
{
    printf("#compdef bulkhead\nautoload -U +X bashcompinit && bashcompinit\n");
    print_bash();
}

static void print_fish_options(const char *condition, const struct bh_opt *opts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        printf("complete -c bulkhead -n '%s' -l %s", condition, opts[i].name);
        if (opts[i].letter)
            printf(" -s %c", opts[i].letter);
        if (has_choices(&opts[i])) {
            printf(" -x -a '");
            print_choices(opts[i].value);
            putchar('\'');
        } else if (opts[i].value) {
            printf(" -r");
        }
        putchar('\n');
    }
}

static void print_fish(void)
{
    for (size_t i = 0; i < bh_n_commands; i++) {
        const struct bh_cmd *cmd = bh_commands[i];
        const char *operands = operand_words(cmd);
        char condition[96];
        snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s", cmd->name);
        printf("complete -c bulkhead -n __fish_use_subcommand -f -a %s -d '%s'\n", cmd->name, cmd->summary);
        print_fish_options(condition, cmd->opts, cmd->n_opts);
        if (operands)
            printf("complete -c bulkhead -n '%s' -f -a '%s'\n", condition, operands);
    }
    printf("complete -c bulkhead -n __fish_use_subcommand -f -a help -d 'print the help of a verb'\n"
           "complete -c bulkhead -n '__fish_seen_subcommand_from help' -f -a '");
    print_verbs();
    printf("'\n");
    print_fish_options("not __fish_use_subcommand", bh_global_opts, bh_n_global_opts);
}

static int completion(const struct bh_args *args)
{
    const char *shell = args->operands[0];
    if (bh_streq(shell, "bash")) {
        print_bash();
    } else if (bh_streq(shell, "zsh")) {
        print_zsh();
    } else if (bh_streq(shell, "fish")) {
        print_fish();
    } else {
        struct bh_err *err = NULL;
        (void)bh_err_set(&err, BH_E_USAGE, 0, "no completion for the shell '%s'", shell);
        bh_err_hint(&err, "it is one of bash, zsh and fish");
        return bh_cli_fail(args, err);
    }
    return 0;
}

const struct bh_cmd bh_cmd_completion = {
    .name = "completion",
    .operands = "SHELL",
    .summary = "print a completion script for bash, zsh or fish",
    .example = "bulkhead completion bash > ~/.local/share/bash-completion/completions/bulkhead",
    .min_operands = 1,
    .max_operands = 1,
    .run = completion,
};
