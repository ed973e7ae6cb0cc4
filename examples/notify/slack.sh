#!/bin/sh
# Posts a notice to an incoming webhook of Slack, SLACK_WEBHOOK_URL.
set -eu
for tool in jq curl; do
    command -v "$tool" >/dev/null || { echo "slack.sh needs $tool" >&2; exit 1; }
done
: "${SLACK_WEBHOOK_URL:?slack.sh needs SLACK_WEBHOOK_URL, named in [hooks] env}"
# Slack reads `<` as the beginning of a link or of a call to everybody. The address is a secret,
# which arguments are not.
jq -r -f "$(dirname "$0")/notice.jq" |
    jq -cRs '{text: (gsub("&"; "&amp;") | gsub("<"; "&lt;") | gsub(">"; "&gt;"))}' |
    curl -fsS -m 20 -H 'Content-Type: application/json' --data-binary @- -K /dev/fd/3 3<<END >/dev/null
url = "$SLACK_WEBHOOK_URL"
END
