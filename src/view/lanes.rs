//! The lanes of roles: how many of each have work, and which.

use serde::Serialize;

use super::first_numbers;
use crate::plan::{Lanes, Language, Plan, RoleLanes, TaskId};
use crate::wire::{joined, role};

/// The most roles that are named; roles at work come first.
const ROLES: usize = 8;
/// How much may be under way at once, and what is.
#[derive(Debug, Serialize)]
pub struct LanesView {
    most: usize,
    busy: usize,
    roles: Vec<RoleView>,
    /// Tasks under way of no such role.
    others: Vec<TaskId>,
}

#[derive(Debug, Serialize)]
struct RoleView {
    role: String,
    #[serde(flatten)]
    lanes: RoleLanes,
}

impl LanesView {
    /// Returns the lanes of a plan, if it has roles with some.
    pub fn of(plan: &Plan) -> Option<Self> {
        let lanes = Lanes::of(plan);
        let role_view = |(role, lanes)| RoleView { role, lanes };
        (!lanes.roles.is_empty()).then(|| Self {
            most: lanes.most,
            busy: lanes.busy(),
            roles: lanes.roles.into_iter().map(role_view).collect(),
            others: lanes.others,
        })
    }

    /// Says what is under way on the lanes of each role, those at work first.
    pub fn line(&self, language: Language) -> String {
        let mut roles: Vec<&RoleView> = self.roles.iter().collect();
        roles.sort_by_key(|role| (role.lanes.busy.is_empty(), role.lanes.asked.is_empty()));
        let hidden = roles.len().saturating_sub(ROLES);
        let known = roles.into_iter().take(ROLES);
        let known = known.map(|role| role.text(language));
        let others = (!self.others.is_empty()).then(|| {
            let others = language.pick("others", "其他");
            format!("{others}{}", on(&self.others, language))
        });
        let more = (hidden > 0).then(|| {
            let en = format!("and {hidden} more roles");
            language.pick(en, format!("另有 {hidden} 个角色"))
        });
        joined(known.chain(others).chain(more), " · ")
    }
}

impl RoleView {
    fn text(&self, language: Language) -> String {
        let RoleLanes { most, busy, asked } = &self.lanes;
        let busy = match busy.len() {
            0 if *most == 1 => None,
            count => {
                let on = on(busy, language);
                let en = format!("{count} of {most}{on}");
                Some(language.pick(en, format!("{count}/{most}{on}")))
            }
        };
        let asked = (!asked.is_empty()).then(|| {
            let help = language.pick("asked to help with ", "被请求协助");
            format!("{help}{}", tasks(asked, language))
        });
        let text = match joined(busy.into_iter().chain(asked), language.pick(", ", "，")) {
            none if none.is_empty() => language.pick("free", "空闲").to_owned(),
            text => text,
        };
        format!("{} {text}", role(&self.role))
    }
}

fn on(ids: &[TaskId], language: Language) -> String {
    match ids {
        [] => String::new(),
        ids => format!(" ({})", tasks(ids, language)),
    }
}

fn tasks(ids: &[TaskId], language: Language) -> String {
    let noun = if ids.len() == 1 { "task" } else { "tasks" };
    format!("{} {}", language.pick(noun, "任务"), first_numbers(ids))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{
        AttemptKind, CommandId, Draft, NewCommand, PlanHead, PlanId, PlanPolicy, RoleRequest,
        RoleRules, TaskSpec, Time,
    };

    fn plan(roles: &[(&str, u32)]) -> Plan {
        let mut plan = Plan::new(PlanHead::new(PlanId::new("p"), "goal", Time(0)));
        let mut draft = Draft::new(&mut plan, Time(0));
        let task = |(role, _): &(&str, u32)| TaskSpec {
            name: "Part".into(),
            assignee: Some((*role).to_owned()),
            ..TaskSpec::default()
        };
        let tasks: Vec<TaskSpec> = roles.iter().map(task).collect();
        let tasks = std::iter::repeat_n(tasks, 12).flatten();
        draft.make_tasks(tasks.collect()).unwrap();
        let rules = roles.iter().filter(|(_, most)| *most > 0);
        let rules = rules.map(|(role, most)| {
            let rules = RoleRules {
                concurrency: *most,
                ..RoleRules::default()
            };
            ((*role).to_owned(), rules)
        });
        let policy = PlanPolicy {
            max_parallel: 20,
            roles: rules.collect(),
            ..PlanPolicy::default()
        };
        draft.start(policy, "/w").unwrap();
        draft.finish();
        plan
    }

    fn issue(plan: &mut Plan, tasks: impl IntoIterator<Item = u32>) {
        let mut draft = Draft::new(plan, Time(1));
        for task in tasks {
            let issue = NewCommand {
                id: CommandId::new(format!("task-{task}")),
                kind: AttemptKind::New,
                session: None,
                text: String::new(),
            };
            draft.issue(TaskId(task), issue).unwrap();
        }
        draft.finish();
    }

    fn line(plan: &Plan) -> String {
        LanesView::of(plan).unwrap().line(Language::En)
    }

    #[test]
    fn lists_tasks_on_lanes_of_each_role() {
        let mut plan = plan(&[("architect", 1), ("coder", 2), ("x\u{1b}[2J", 0)]);
        insta::assert_snapshot!(line(&plan), @"architect free · coder 0 of 2");
        issue(&mut plan, [2, 3, 5]);
        insta::assert_snapshot!(line(&plan), @"coder 2 of 2 (tasks 2, 5) · architect free · others (task 3)");
    }

    #[test]
    fn role_with_open_request_is_not_free() {
        let mut plan = plan(&[("architect", 1), ("coder", 2), ("reviewer", 1)]);
        issue(&mut plan, [3, 6]);
        let mut asked = |task: u32, on: &str, number: u32| {
            let mut draft = Draft::new(&mut plan, Time(2));
            let wait = RoleRequest {
                role: "reviewer".to_owned(),
                on: on.to_owned(),
                request: CommandId::new(format!("asked-{number}")),
                what: String::new(),
                since: Time(2),
                limited_until: None,
            };
            let command = CommandId::new(format!("task-{task}"));
            draft.begin_wait(&command, wait).unwrap();
            draft.finish();
            line(&plan)
        };
        insta::assert_snapshot!(asked(6, "coder", 1), @"reviewer 2 of 1 (tasks 3, 6) · coder 0 of 2, asked to help with task 6 · architect free");
        insta::assert_snapshot!(asked(3, "architect", 2), @"reviewer 2 of 1 (tasks 3, 6) · architect asked to help with task 3 · coder 0 of 2, asked to help with task 6");
        // Once for each task, however many roles ask.
        insta::assert_snapshot!(asked(3, "coder", 3), @"reviewer 2 of 1 (tasks 3, 6) · architect asked to help with task 3 · coder 0 of 2, asked to help with tasks 3, 6");
        assert_eq!(asked(3, "coder", 4), asked(3, "coder", 3));
        issue(&mut plan, [2]);
        insta::assert_snapshot!(line(&plan), @"coder 1 of 2 (task 2), asked to help with tasks 3, 6 · reviewer 2 of 1 (tasks 3, 6) · architect asked to help with task 3");
    }

    #[test]
    fn shortens_many_roles_and_tasks() {
        let names: Vec<String> = (0..20).map(|n| format!("role-{n:02}")).collect();
        let roles: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 12)).collect();
        let mut plan = plan(&roles);
        issue(&mut plan, (0..10).map(|n| 20 * n + 20));
        insta::assert_snapshot!(line(&plan), @"role-19 10 of 12 (tasks 20, 40, 60, 80, 100, 120, 140, 160, …) · role-00 0 of 12 · role-01 0 of 12 · role-02 0 of 12 · role-03 0 of 12 · role-04 0 of 12 · role-05 0 of 12 · role-06 0 of 12 · and 12 more roles");
    }

    #[test]
    fn plan_without_roles_has_no_lane_line() {
        assert!(LanesView::of(&plan(&[("coder", 0)])).is_none());
    }
}
