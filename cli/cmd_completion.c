/* SPDX-License-Identifier: Apache-2.0 */
/* bulkhead completion: a script for the shell, made from the tables of verbs and options. */
#include <stdio.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/common.h"

static void print_words(const struct bh_cmd *cmd)
{
    for (size_t i = 0; i < cmd->n_opts; i++)
        printf(" --%s", cmd->opts[i].name);
    for (size_t i = 0; i < bh_n_global_opts; i++)
        printf(" --%s", bh_global_opts[i].name);
}

static void print_cases(void)
{
    for (size_t i = 0; i < bh_n_commands; i++) {
        printf("    %s) words=\"", bh_commands[i]->name);
        print_words(bh_commands[i]);
        printf("\" ;;\n");
    }
}

static void print_verbs(void)
{
    for (size_t i = 0; i < bh_n_commands; i++)
        printf(" %s", bh_commands[i]->name);
}

static void print_bash(void)
{
    printf("_bulkhead() {\n"
           "  local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
           "  if [ \"$COMP_CWORD\" -eq 1 ]; then words=\"");
    print_verbs();
    printf("\"; else\n    case ${COMP_WORDS[1]} in\n");
    print_cases();
    printf("    esac\n"
           "    case $cur in -*) ;; *) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); return ;; esac\n"
           "  fi\n"
           "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
           "}\n"
           "complete -o filenames -F _bulkhead bulkhead\n");
}

static void print_zsh(void)
{
    printf("#compdef bulkhead\nautoload -U +X bashcompinit && bashcompinit\n");
    print_bash();
}

static void print_fish(void)
{
    for (size_t i = 0; i < bh_n_commands; i++) {
        const struct bh_cmd *cmd = bh_commands[i];
        printf("complete -c bulkhead -n __fish_use_subcommand -a %s -d '%s'\n", cmd->name, cmd->summary);
        for (size_t k = 0; k < cmd->n_opts; k++)
            printf("complete -c bulkhead -n '__fish_seen_subcommand_from %s' -l %s\n", cmd->name, cmd->opts[k].name);
    }
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
