#!/bin/sh
# Shows a notice on the desktop.
set -eu
for tool in jq notify-send; do
    command -v "$tool" >/dev/null || { echo "desktop.sh needs $tool" >&2; exit 1; }
done
notice=$(jq -r -f "$(dirname "$0")/notice.jq")
title=$(printf '%s\n' "$notice" | sed -n 1p)
# A desktop reads the text as markup.
text=$(printf '%s\n' "$notice" | sed -n 2p | jq -Rr @html)
notify-send --app-name=plan-agent -- "$title" "$text"
