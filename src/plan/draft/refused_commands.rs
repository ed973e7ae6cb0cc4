//! Commands that were refused to an agent: a person allows them, word for word, or does not.

use super::*;

/// The most commands that one question offers.
const MOST: usize = 5;

/// The longest command that is offered, in bytes: a person has to read it.
const LONGEST: usize = 1000;

/// The most commands that a plan keeps.
const MOST_KEPT: usize = 100;

/// Characters with which a shell makes several commands, files, or changing words of a line.
const COMPOUND: [char; 11] = [';', '&', '|', '<', '>', '$', '`', '(', '{', '\n', '\r'];

impl Draft<'_> {
    /// Asks a human what an agent asks, and which of the commands that were refused to it are to be allowed.
    pub(super) fn ask_for_agent(&mut self, task: TaskId, report: &Report, asks: &str) -> Result {
        let mut refused: Vec<String> = Vec::new();
        for command in report.refused.iter().filter(|command| is_readable(command)) {
            if refused.len() < MOST && !refused.contains(command) {
                refused.push(command.clone());
            }
        }
        let mut question = self.question(HumanQuestionKind::Agent, Some(task), asks);
        if refused.is_empty() {
            return self.insert_question(question);
        }
        let once = refused.iter().any(|command| command.contains(COMPOUND));
        let always = (!once).then_some(AnswerChoice::AllowAlways);
        let offered = [
            Some(AnswerChoice::AllowOnce),
            always,
            Some(AnswerChoice::Deny),
        ];
        (question.choices).splice(0..0, offered.into_iter().flatten());
        let listed = refused.iter().map(|one| {
            let lines = one.replace('\n', "\n      ");
            format!("\n    $ {lines}")
        });
        let listed: String = listed.collect();
        let only = match once {
            true => "\n\nA line that is more than one plain command can only be allowed once.",
            false => "",
        };
        question.reason = format!("{asks}\n\nRefused, word for word:\n{listed}{only}");
        question.refused = refused;
        self.insert_question(question)
    }

    /// Allows the commands of a question, or lets the agent know that they stay refused.
    pub(super) fn decide_refused(
        &mut self,
        question: &HumanQuestion,
        id: TaskId,
        choice: AnswerChoice,
        note: &str,
    ) -> Result {
        let mut task = self.task(id)?;
        let commands = question.refused.clone();
        let quoted: Vec<String> = commands.iter().map(|one| format!("    {one}")).collect();
        let quoted = quoted.join("\n");
        let said = match choice {
            AnswerChoice::Deny => format!(
                "A person does not allow this:\n\n{quoted}\n\nDo the task without it, or report what cannot be done."
            ),
            _ => format!("A person allows this now, exactly as it stands here:\n\n{quoted}"),
        };
        match choice {
            AnswerChoice::AllowOnce => task.allowed_next = commands,
            AnswerChoice::AllowAlways => self.change_head(|head| {
                let known = std::mem::take(&mut head.allowed);
                let new = commands.into_iter().filter(|one| !known.contains(one));
                let all: Vec<String> = known.iter().cloned().chain(new).collect();
                head.allowed = all[all.len().saturating_sub(MOST_KEPT)..].to_vec();
            }),
            _ => {}
        }
        if question.request.is_none() {
            task.note = Some(said);
            if !note.is_empty() {
                // Every later command has what a person said, the note only the next one.
                task.tell(note);
            }
            self.insert(task);
        }
        match choice {
            AnswerChoice::AllowAlways => self.answer_the_same(question),
            _ => Ok(()),
        }
    }

    /// Answers the other questions that are only about commands which every agent may run now.
    fn answer_the_same(&mut self, question: &HumanQuestion) -> Result {
        let allowed = &self.plan.head().allowed;
        let same = self.plan.open_questions().filter(|other| {
            let offered = other.choices.contains(&AnswerChoice::AllowAlways);
            offered && other.refused.iter().all(|one| allowed.contains(one))
        });
        let same: Vec<QuestionId> = same.map(|other| other.id.clone()).collect();
        let by = question.answer.as_ref().map(|answer| answer.by.clone());
        for id in same {
            if self.plan.question(&id).is_some_and(HumanQuestion::open) {
                let by = by.as_deref().unwrap_or_default();
                self.answer(&id, AnswerChoice::AllowAlways, "", by)?;
            }
        }
        Ok(())
    }
}

/// Returns whether a person can read a command as it is, and allow it.
fn is_readable(command: &str) -> bool {
    let odd = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    let lines = command.trim() == command && !command.is_empty();
    lines && command.len() <= LONGEST && !command.replace('\n', " ").contains(odd)
}
