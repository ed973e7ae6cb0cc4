//! The functions that only read: tasks, the progress of the plan, the plan as a whole.

use super::*;

impl PlanManager {
    /// Returns the plan with a page of its tasks.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_plan(&self, page: Page) -> Result<PlanDocument> {
        let plan_id = self.toolbox.current(Dialect::PlanManager).await?;
        let store = self.toolbox.store();
        let read = move |plan: &Plan, seq| (document(plan, page), seq);
        let (mut document, seq) = store.read(&plan_id, read).await?;
        if let Some(at) = store.changed_at(&plan_id, seq).await? {
            document.meta.updated_at = time_text(at);
        }
        Ok(document)
    }

    /// Returns the task that is in progress; `None` if there is none.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_current_task(&self) -> Result<Option<ManagerTask>> {
        self.read_plan(|plan| {
            let task = plan.in_progress().next();
            task.map(|task| ManagerTask::of(plan, task, ONE, Page::default()))
        })
        .await
    }

    /// Returns a page of the tasks, or of those in one state. `pending` leaves out those that are `blocked`.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_task_list(&self, given: GetTaskList) -> Result<TaskList> {
        self.read_plan(move |plan| {
            let tasks = given.status_filter;
            let tasks = tasks.map_or(plan.tasks(), |status| status.tasks(plan));
            let filtered = tasks.len();
            let part = listed(plan, given.page, 0, tasks);
            TaskList {
                tasks: part.items,
                total: plan.counts().total(),
                filtered,
                left: part.left,
            }
        })
        .await
    }

    /// Returns the progress of the plan.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_plan_status(&self) -> Result<PlanProgress> {
        self.read_plan(|plan| {
            let (counts, state) = (plan.counts(), ManagerPlanState::of(plan));
            let total = counts.total();
            PlanProgress {
                status: state.status,
                progress: share(counts.completed + counts.skipped, total),
                current_task_id: state.current_task_id,
                total_tasks: total,
                completed_tasks: counts.completed,
                failed_tasks: counts.failed,
                pending_tasks: total - counts.settled(),
                in_progress_tasks: counts.in_progress,
                skipped_tasks: counts.skipped,
            }
        })
        .await
    }

    /// Returns a task with all of its data, and a page of its dependencies: the first 400 if the caller names no page.
    ///
    /// # Errors
    /// `TASK_NOT_FOUND`, `PLAN_NOT_ACTIVE` (there is no plan).
    pub async fn get_task_by_id(&self, given: GetTaskById) -> Result<TaskFound> {
        let find = move |plan: &Plan| {
            let task = task(plan, given.task_id)?;
            Ok(TaskFound {
                task: ManagerTask::of(plan, task, WHOLE, given.page),
                retry_count: Some(task.failures).filter(|failures| *failures > 0),
                last_error: task.result.clone().filter(|_| !task.status.settled()),
            })
        };
        self.read_plan(find).await?
    }

    /// Returns a page of the tasks that may start now.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_executable_task_list(&self, page: Page) -> Result<ExecutableTasks> {
        self.read_plan(move |plan| {
            let part = listed(plan, page, 0, plan.ready());
            ExecutableTasks {
                executable_tasks: part.items,
                count: plan.ready().len(),
                left: part.left,
            }
        })
        .await
    }

    /// Draws a page of the plan as a graph, or the tasks around the work when no page is named.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_dependency_graph(&self, given: GetDependencyGraph) -> Result<DependencyGraph> {
        let draw = move |plan: &Plan| whole_plan_views::dependency_graph(plan, &given);
        self.read_plan(draw).await
    }

    /// Returns the plan as a text for a model, of at most 4 kB.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_plan_prompt(&self) -> Result<PlanPrompt> {
        let prompt = self.read_plan(whole_plan_views::prompt).await?;
        Ok(PlanPrompt { prompt })
    }

    /// Returns which tasks may be done side by side.
    ///
    /// # Errors
    /// `PLAN_NOT_ACTIVE`: there is no plan.
    pub async fn get_parallel_tasks(&self) -> Result<ParallelTasks> {
        self.read_plan(whole_plan_views::parallel_tasks).await
    }

    async fn read_plan<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Plan) -> T + Send + 'static,
    ) -> Result<T> {
        let plan = self.toolbox.current(Dialect::PlanManager).await?;
        Ok(self.toolbox.read(&plan, read).await?)
    }
}

fn document(plan: &Plan, page: Page) -> PlanDocument {
    let created_at = time_text(plan.head().created_at);
    let meta = Meta {
        goal: clip(&plan.head().goal, GOAL),
        updated_at: created_at.clone(),
        created_at,
    };
    let part = listed(plan, page, weight(&meta), plan.tasks());
    PlanDocument {
        meta,
        state: ManagerPlanState::of(plan),
        tasks: part.items,
        left: part.left,
    }
}

/// Returns a page of tasks for an answer that also has other data of this weight.
fn listed<'a>(
    plan: &Plan,
    page: Page,
    other: usize,
    tasks: impl ExactSizeIterator<Item = &'a plan::Task>,
) -> PagePart<ManagerTask> {
    let show = |task: &plan::Task| ManagerTask::of(plan, task, LIST, Page::default());
    page.shown_alongside(other, tasks.len(), tasks, show)
}

fn share(part: usize, of: usize) -> f64 {
    part as f64 / of.max(1) as f64
}
