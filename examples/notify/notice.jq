# Two lines out of what a hook reads: a title, and what it is about. Both are free of control characters, and short.
def line($most): tostring | gsub("[[:cntrl:]]+"; " ") | if length > $most then .[:$most] + "…" else . end;

.plan as $plan
| if .event == "question" then
    ("plan-agent asks: \($plan.name)" | line(120)),
    ("\(.question | if .task then "task \(.task) · \(.task_name): " else "" end)\(.question.reason)" | line(400))
  elif .event == "finish" then
    ("plan-agent: \($plan.name) is \($plan.status)" | line(120)),
    ("\($plan.completed) of \($plan.tasks) tasks completed, \($plan.failed // 0) failed, \($plan.skipped // 0) skipped" | line(400))
  else
    ("plan-agent: \($plan.name)" | line(120)),
    ("\($plan.completed) of \($plan.tasks) tasks completed" | line(400))
  end
