//! A plan in full, for a person who is to approve it.

use super::{Paint, Style, name, numbers};
use crate::plan::{Plan, Task, TaskState};
use crate::wire::{criterion_text, one_line, printable, role};

/// Tasks that are shown; an editor shows all.
const SHOWN: usize = 50;

/// Characters of a task's description that are shown.
const LONGEST: usize = 2000;

/// Returns every task that is not left out with its description, who does it, what it waits for, what it makes and what is checked.
pub fn review(plan: &Plan, paint: Paint) -> String {
    let kept = || (plan.tasks()).filter(|task| task.status != TaskState::Skipped);
    let shown = kept().take(SHOWN).flat_map(|one| task(one, paint));
    let mut lines: Vec<String> = shown.collect();
    let more = kept().count().saturating_sub(SHOWN);
    lines.extend((more > 0).then(|| format!("  … {more} more: `edit` shows all")));
    let doubt = |text: &String| format!("  doubtful: {}", one_line(text, LONGEST));
    lines.extend(plan.head().problems.iter().map(doubt));
    let checks = &plan.head().policy.checks;
    if !checks.is_empty() {
        let checks = one_line(&checks.join(", "), LONGEST);
        lines.push(format!("  checked after every task: {checks}"));
    }
    lines.join("\n") + "\n"
}

fn task(task: &Task, paint: Paint) -> Vec<String> {
    let (number, title) = (task.number, name(&task.name));
    let title = paint.text(Style::Bold, &format!("  {number} · {title}"));
    let said = printable(task.instructions());
    let said: String = match said.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{} …", &said[..end]),
        None => said,
    };
    let said = said.lines().filter(|line| !line.trim().is_empty());
    let said = said.map(|line| format!("      {}", line.trim_end()));
    let list = |words: &[String]| words.join(", ");
    let after = match task.dependencies.as_slice() {
        [] => String::new(),
        some => numbers(some),
    };
    let facts = [
        ("by", task.assignee.as_deref().map(role).unwrap_or_default()),
        ("after", after),
        ("makes", list(&task.produces)),
        ("checks", list(&task.checks)),
        ("may change", list(&task.may_change)),
        ("locks", list(&task.locks)),
        ("must keep to", task.constraints.clone()),
        ("done when", criterion_text::write(&task.criteria)),
    ];
    let facts = facts.map(|(what, value)| (what, one_line(&value, LONGEST)));
    let facts = facts.iter().filter(|(_, value)| !value.is_empty());
    let facts = facts.map(|(what, value)| format!("      {what}: {value}"));
    std::iter::once(title).chain(said).chain(facts).collect()
}
