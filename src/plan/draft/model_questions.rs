//! Operations on questions to the language model: counting, answering, failing.

use std::time::Duration;

use super::budget::money;
use super::*;

/// The longest wait that a model may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl Draft<'_> {
    /// Counts a call of the model before it is made, and returns the id of the question.
    ///
    /// # Errors
    /// The plan has ended, or its budget allows no call.
    pub fn begin_ask(&mut self, subject: &ModelQuestionKind) -> Result<AskId> {
        self.not_settled()?;
        self.begin_call_of_role()?;
        let asks_again = |ask: &ModelQuestion| ask.error.is_none() || ask.away.is_some();
        let same = |ask: &&ModelQuestion| ask.subject == *subject && asks_again(ask);
        let open = self.plan.open_asks().find(same);
        let mut ask = open.cloned().unwrap_or_else(|| ModelQuestion {
            id: AskId::new(format!("{}-{}", word(subject), self.plan.ask_count() + 1)),
            subject: subject.clone(),
            asked: self.now,
            ..ModelQuestion::default()
        });
        ask.calls += 1;
        let id = ask.id.clone();
        // That a model which is away is asked again every few minutes is no news.
        if ask.away.is_none() {
            let (subject, calls) = (subject.clone(), ask.calls);
            self.log(Event::Asking { subject, calls });
        }
        self.insert(ask);
        Ok(id)
    }

    /// Records what a question to the model used, beyond the call already counted. One that was settled meanwhile has used it, too.
    ///
    /// # Errors
    /// Nothing was asked under that id.
    pub fn count_ask(&mut self, id: &AskId, spent: ModelCost) -> Result {
        let mut ask = self.plan.ask(id).cloned().ok_or(Refusal::UnknownAsk)?;
        ask.calls += spent.calls.saturating_sub(1);
        ask.input_tokens = ask.input_tokens.saturating_add(spent.input_tokens);
        ask.output_tokens = ask.output_tokens.saturating_add(spent.output_tokens);
        ask.cost_usd = money(ask.cost_usd, spent.cost_usd);
        self.insert(ask);
        self.count_call_of_role(spent);
        Ok(())
    }

    /// Closes a question to the model with its answer, and the question to a human about a model that was away. The effect of
    /// the answer must be made in the same change.
    ///
    /// # Errors
    /// Nothing was asked under that id, or it has its answer.
    pub fn answered_ask(&mut self, id: &AskId, raw: &str) -> Result {
        let mut ask = self.open_ask(id)?;
        self.close_question_about(id, "the model answers again");
        ask.answer = Some(raw.to_owned());
        ask.answered = Some(self.now);
        self.insert(ask);
        Ok(())
    }

    /// Records that the model gave no usable answer. Asks a human where the plan cannot go on without one. A model that is away
    /// and asks to wait so long is asked again by itself beside that.
    ///
    /// # Errors
    /// Nothing was asked under that id, or it has its answer.
    pub fn failed_ask(&mut self, id: &AskId, error: &str, away: Option<Duration>) -> Result {
        let mut ask = self.open_ask(id)?;
        let before = ask.away;
        ask.away = away.map(|wait| self.away_again(&ask, wait));
        if before.is_some() && away.is_none() {
            self.close_question_about(id, "the model fails in another way now");
        }
        let ask = self.note_failure(ask, error);
        match &ask.subject {
            ModelQuestionKind::Summary => self.answered_ask(id, ""),
            // At a queued plan no person waits who would see it end.
            ModelQuestionKind::Plan
                if away.is_none()
                    && self.plan.counts().total() == 0
                    && self.plan.head().queue.is_none() =>
            {
                self.answered_ask(id, "")?;
                self.not_settled()?;
                // It has only its goal: no process carries it out.
                self.change_head(|head| head.status = PlanState::Idle);
                Ok(())
            }
            _ if self.plan.needs_person(&ask) => self.ask_about_model(id),
            _ => Ok(()),
        }
    }

    /// Asks a human about a question to the model that got no usable answer.
    ///
    /// # Errors
    /// Nothing was asked under that id, it has its answer, or it has not failed; the plan has ended.
    pub fn ask_about_model(&mut self, id: &AskId) -> Result {
        let ask = self.open_ask(id)?;
        let error = ask.error.as_deref().ok_or(Refusal::UnknownAsk)?;
        let task = self.plan.judged(&ask).map(|attempt| attempt.task);
        let what = word(&ask.subject);
        let reason = match ask.away {
            Some(_) => {
                format!("the model is away ({what}) and is asked again until it answers: {error}")
            }
            // The error says it, with the name of the model.
            None if error.contains("gave no usable answer") => format!("the {error}"),
            None => format!("the model gave no usable answer ({what}): {error}"),
        };
        let about = HumanQuestionKind::Model;
        let mut question = self.question(about, task, &reason);
        question.choices = self.choices(about, task, Some(id));
        question.ask = Some(id.clone());
        self.insert_question(question)
    }

    /// Has the model asked again what it failed at, and everything at which it failed in the same way. A note to a change of the plan
    /// goes along.
    pub(super) fn ask_again(&mut self, question: &HumanQuestion, note: &str) {
        let ask = question.ask.as_ref().and_then(|id| self.plan.ask(id));
        let error = ask.and_then(|ask| ask.error.clone());
        if ask.is_some_and(|ask| ask.subject == ModelQuestionKind::Replan) && !note.is_empty() {
            let why = format!("The person says: {note}");
            self.open_replan(ReplanRequest { task: None, why });
        }
        let same = self.plan.open_asks().filter(|ask| ask.error == error);
        for ask in same.cloned().collect::<Vec<_>>() {
            let (error, away) = (None, None);
            self.insert(ModelQuestion { error, away, ..ask });
        }
    }

    /// Records that the model of a role is away, which asks it again by itself.
    ///
    /// # Errors
    /// Nothing was asked under that id, or it has its answer.
    pub fn away_ask(&mut self, id: &AskId, error: &str, wait: Duration) -> Result {
        let mut ask = self.open_ask(id)?;
        ask.away = Some(self.away_again(&ask, wait));
        self.note_failure(ask, error);
        Ok(())
    }

    fn away_again(&self, ask: &ModelQuestion, wait: Duration) -> ModelAway {
        let times = ask.away.map_or(0, |before| before.times).saturating_add(1);
        let (at, wait) = (self.now, wait.min(LONGEST_WAIT));
        ModelAway { times, at, wait }
    }

    fn note_failure(&mut self, mut ask: ModelQuestion, error: &str) -> ModelQuestion {
        if ask.error.as_deref() != Some(error) {
            self.log_model_failure(ask.subject.clone(), error);
        }
        ask.error = Some(error.to_owned());
        self.insert(ask.clone());
        ask
    }

    /// Closes a question to the model that got no usable answer and about which no human is asked: whatever waited for the
    /// answer fails.
    ///
    /// # Errors
    /// Nothing was asked under that id, or it has its answer.
    pub fn lost_ask(&mut self, id: &AskId, error: &str) -> Result {
        let mut ask = self.note_failure(self.open_ask(id)?, error);
        ask.answered = Some(self.now);
        self.insert(ask);
        Ok(())
    }

    /// Marks a question whose answer the plan refused as failed.
    ///
    /// # Errors
    /// Nothing was asked under that id.
    pub fn refused_ask(&mut self, id: &AskId, reason: &str) -> Result {
        let mut ask = self.plan.ask(id).cloned().ok_or(Refusal::UnknownAsk)?;
        ask.answered = None;
        self.insert(ask);
        self.failed_ask(id, reason, None)
    }

    /// Counts a call of the model before it is made. A role in the process makes the call to work on a task.
    ///
    /// # Errors
    /// The budget allows no call.
    pub fn begin_call_of_role(&mut self) -> Result {
        self.within_budget(self.plan.no_call(self.plan.head().usage.lived))?;
        self.change_head(|head| head.usage.llm_calls += 1);
        Ok(())
    }

    /// Records what a question of a role to the model used, beyond the call already counted.
    pub fn count_call_of_role(&mut self, spent: ModelCost) {
        self.change_head(|head| {
            let usage = &mut head.usage;
            usage.llm_calls += u64::from(spent.calls.saturating_sub(1));
            usage.llm_input_tokens = usage.llm_input_tokens.saturating_add(spent.input_tokens);
            usage.llm_output_tokens = usage.llm_output_tokens.saturating_add(spent.output_tokens);
            usage.llm_cost_usd = money(usage.llm_cost_usd, spent.cost_usd);
        });
    }

    /// Logs why the model gave no answer.
    pub fn log_model_failure(&mut self, subject: ModelQuestionKind, error: &str) {
        let error = error.to_owned();
        self.log(Event::ModelFailed { subject, error });
    }

    /// Records what agents used: as their reports say, or for a role's request that no longer has a waiting role, so that no
    /// report contains that usage.
    pub fn count_agents(&mut self, spent: ModelCost) {
        self.change_head(|head| {
            let usage = &mut head.usage;
            usage.agent_input_tokens = usage.agent_input_tokens.saturating_add(spent.input_tokens);
            usage.agent_output_tokens =
                (usage.agent_output_tokens).saturating_add(spent.output_tokens);
            usage.agent_cost_usd = money(usage.agent_cost_usd, spent.cost_usd);
        });
    }

    fn open_ask(&self, id: &AskId) -> Result<ModelQuestion> {
        let ask = self.plan.ask(id).filter(|ask| ask.answered.is_none());
        ask.cloned().ok_or(Refusal::UnknownAsk)
    }

    /// Closes the question to the model that a human has settled in another way.
    pub(super) fn close_ask(&mut self, question: &HumanQuestion) {
        let now = self.now;
        self.change_ask(question, |ask| ask.answered = Some(now));
    }

    /// Closes the question to the model how an attempt is judged, and the question to a human about its failure.
    pub(super) fn drop_judge_ask(&mut self, attempt: &Attempt) {
        let subject = ModelQuestionKind::Judge(attempt.id.clone());
        self.drop_ask(&subject, "the result was judged in another way");
    }

    /// Closes a question to the model, and the question to a human about its failure.
    pub(super) fn drop_ask(&mut self, subject: &ModelQuestionKind, reason: &str) {
        let open = self.plan.open_asks().filter(|ask| ask.subject == *subject);
        for mut ask in open.cloned().collect::<Vec<_>>() {
            self.close_question_about(&ask.id, reason);
            ask.answered = Some(self.now);
            self.insert(ask);
        }
    }

    /// Closes the question to a human about a question to the model.
    fn close_question_about(&mut self, id: &AskId, reason: &str) {
        self.close_questions(reason, |question| question.ask.as_ref() == Some(id));
    }

    /// Changes the question to the model that a human was asked about.
    pub(super) fn change_ask(
        &mut self,
        question: &HumanQuestion,
        change: impl FnOnce(&mut ModelQuestion),
    ) {
        let ask = question.ask.as_ref().and_then(|id| self.plan.ask(id));
        if let Some(mut ask) = ask.cloned() {
            change(&mut ask);
            self.insert(ask);
        }
    }
}
