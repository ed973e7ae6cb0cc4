#!/bin/sh
# Claude Code as the agent of a plan:
#
#   plan-agent run "…" --agent command -- examples/claude.sh {prompt_file} {session} {report}
#
# One conversation a task: a retry goes on in it, and so does a command that is seen again after a crash. The report lies
# outside the workspace, so its folder is opened too. Whoever signs in with a key adds ANTHROPIC_API_KEY to
# `[worker] env` in config.toml: agents get no other variables than those.
prompt=$1 session=$2 report=$3

run() {
  claude -p --permission-mode acceptEdits --add-dir "$(dirname "$report")" "$@" < "$prompt"
}

run --resume "$session" 2> /dev/null || run --session-id "$session"
