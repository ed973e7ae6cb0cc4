//! The rules by which a plan is carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::*;
use crate::plan::DayBudget;

/// In which order tasks may be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOrder {
    /// Any pending task; users of the plan keep an order of their own (Plan Tool).
    Free,
    /// A task whose dependencies are all completed or skipped (PlanManager, the daemon).
    #[default]
    Dependencies,
    /// One after the other by position (PlanNotebook).
    Sequential,
}

/// How long an agent's session lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionScope {
    /// A fresh session for each task, kept for its retries.
    #[default]
    Task,
    /// One session for the whole plan.
    Plan,
}

/// When the verdict `abort` must be confirmed by a human.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmAbort {
    /// When the report says that the task succeeded, wholly or in part.
    Success,
    /// Always.
    #[default]
    Always,
    /// Never: the verdict is carried out.
    Never,
}

/// When a result is judged by the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JudgePolicy {
    /// Always.
    #[default]
    Always,
    /// Unless the report says SUCCESS, checks ran and all of them pass.
    OnDoubt,
}

/// The rules for tasks of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RoleRules {
    /// The most tasks of the role that are under way simultaneously (1 and more).
    pub concurrency: u32,
    /// The greatest age of a claimed attempt; `None` is the deadline for all tasks.
    pub task_deadline: Option<Duration>,
    /// Agents on other machines do its tasks.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub relayed: bool,
}

impl Default for RoleRules {
    fn default() -> Self {
        Self {
            concurrency: 1,
            task_deadline: None,
            relayed: false,
        }
    }
}

/// The rules for carrying a plan out. They are kept in the plan, so that its log explains itself; the daemon updates them from
/// the configuration when it starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlanPolicy {
    /// Failed attempts of a task in a row before a human is asked (1 and more).
    pub max_attempts: u32,
    /// Replans before a human is asked.
    pub max_replans: u32,
    /// The most tasks under way simultaneously (1 and more).
    pub max_parallel: u32,
    /// Additional rules for tasks that are assigned to one of these roles.
    pub roles: BTreeMap<String, RoleRules>,
    /// Whether tasks that are assigned to no role have no worker.
    pub roles_only: bool,
    /// Whether agents on other machines do the tasks of no role with rules of its own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub relayed: bool,
    /// The longest silence of a claimed attempt before it ends.
    pub task_timeout: Duration,
    /// The greatest age of a claimed attempt before it ends.
    pub task_deadline: Duration,
    /// When the verdict `abort` is confirmed by a human.
    pub confirm_abort: ConfirmAbort,
    /// How long an agent's session lasts.
    pub session: SessionScope,
    /// Whether a language model plans, judges and replans; rules decide without one.
    pub model: bool,
    /// When a result is judged by the model.
    pub judging: JudgePolicy,
    /// Whether the goal is audited by the model before the plan is completed.
    pub audit: bool,
    /// Names of the checks that every task must pass, in addition to its own.
    pub checks: Vec<String>,
    /// What may be used before a human is asked.
    pub budget: Budget,
    /// What all plans may use in a day.
    #[serde(default, skip_serializing_if = "DayBudget::is_none")]
    pub day: DayBudget,
}

impl Default for PlanPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            max_replans: 3,
            max_parallel: 1,
            roles: BTreeMap::new(),
            roles_only: false,
            relayed: false,
            task_timeout: Duration::from_secs(600),
            task_deadline: Duration::from_secs(7200),
            confirm_abort: ConfirmAbort::default(),
            session: SessionScope::default(),
            model: false,
            judging: JudgePolicy::default(),
            audit: true,
            checks: Vec::new(),
            budget: Budget::default(),
            day: DayBudget::default(),
        }
    }
}

/// Whether a person reviews the plan before it starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewPolicy {
    /// No review is required.
    #[default]
    NotWanted,
    /// A person must approve before anything starts.
    Wanted,
    /// Approved.
    Approved,
}
