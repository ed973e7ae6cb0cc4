//! Notifications: one more sink for what the hooks report. What is due is derived from the plan, so the plan is the
//! queue. One try is an effect; a failed one is tried again, ever later, until it is given up. Only the process
//! knows what was sent: after a kill, an open question and the end of a plan are sent again.

use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

use super::{DaemonSettings, EffectKey, EffectResult, HookNews, HookState, PlanRun, hooks};
use crate::config::{NotifyConfig, NotifyFormat, NotifyUrl};
use crate::llm;
use crate::plan::{QuestionId, Time};
use crate::view::hook_input::HookCall;

/// How long one notification is tried.
const TRIED_FOR: Duration = Duration::from_secs(120);

/// How long one try may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The wait after the first failed try; each further one is as long as it is tried already.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// How long a daemon that would end otherwise tries one notification; the try that runs then is waited for.
const AT_THE_END: Duration = Duration::from_secs(10);

/// What was sent, and what is tried.
#[derive(Debug, Default)]
pub(super) struct NotifyState {
    pub sent: HookState,
    tried: Option<Tried>,
}

/// The tries of one notification.
#[derive(Debug)]
struct Tried {
    /// A question, or the end of the plan.
    news: HookNews,
    /// When the first try began, and when the next one is due.
    since: Time,
    until: Time,
}

/// How a try failed.
#[derive(Debug)]
pub(super) struct TryFailed {
    reason: String,
    /// The server will not take it later either.
    for_good: bool,
}

impl NotifyState {
    /// Returns whether a daemon that waits for nothing but a person goes on trying.
    pub fn holds_end(&self, now: Time) -> bool {
        let tried = self.tried.as_ref();
        tried.is_some_and(|tried| tried.news != HookNews::Finish && tried.is_fresh(now))
    }
}

impl Tried {
    fn is_fresh(&self, now: Time) -> bool {
        now.since(self.since) < AT_THE_END
    }
}

impl PlanRun {
    /// Notifies the person of a question that the hooks would report, if there is one.
    pub(super) fn notify_of_question(&mut self, id: Option<QuestionId>) {
        match id {
            Some(id) => self.notify(HookNews::Question(id)),
            // What is tried was answered meanwhile.
            None => drop((self.notify_state.tried).take_if(|it| it.news != HookNews::Finish)),
        }
    }

    /// Notifies the person of the end of the plan. Returns whether the daemon waits for it.
    pub(super) fn notify_of_finish(&mut self) -> bool {
        let state = &self.notify_state;
        if state.sent.finish || self.settings.config.notify.url.is_none() {
            return false;
        }
        let now = self.world.now;
        let old = |tried: &Tried| tried.news == HookNews::Finish && !tried.is_fresh(now);
        if state.tried.as_ref().is_some_and(old) {
            self.drop_notification(&HookNews::Finish, "the daemon ends");
            return false;
        }
        self.notify(HookNews::Finish);
        true
    }

    fn notify(&mut self, news: HookNews) {
        if self.settings.config.notify.url.is_none() {
            return;
        }
        let now = self.world.now;
        let tried = self.notify_state.tried.take();
        let tried = tried.filter(|tried| tried.news == news);
        let tried = self.notify_state.tried.insert(tried.unwrap_or(Tried {
            news: news.clone(),
            since: now,
            until: now,
        }));
        if tried.until > now {
            let until = tried.until;
            return self.wake_by(until);
        }
        let settings = Arc::clone(&self.settings);
        self.spawn(EffectKey::Notify, async move {
            let (news, call) = hooks::call(&settings, news, 0, now).await?;
            let sent = match &call {
                Some(call) => send(&settings, call).await,
                None => Ok(()),
            };
            Ok(EffectResult::Notified(news, sent))
        });
    }

    /// Notes how a try ended.
    pub(super) fn note_notified(&mut self, news: &HookNews, sent: &Result<(), TryFailed>) {
        let now = self.settings.now();
        let Err(TryFailed { reason, for_good }) = sent else {
            self.notify_state.sent.note(news.clone());
            self.notify_state.tried = None;
            return;
        };
        let Some(tried) = &mut self.notify_state.tried else {
            return;
        };
        let age = now.since(tried.since);
        tried.until = now.plus(age.max(FIRST_WAIT));
        tracing::warn!(reason, "a notification was not sent");
        if *for_good || age >= TRIED_FOR {
            self.drop_notification(news, reason);
        }
    }

    fn drop_notification(&mut self, news: &HookNews, reason: &str) {
        let url = self.settings.config.notify.url.as_ref();
        let host = url.map(NotifyUrl::host).unwrap_or_default();
        let text = format!("the notification to {host} is dropped: {reason}");
        (self.settings.notice)(&text);
        hooks::log(&self.settings, self.world.now, &text, "");
        self.notify_state.sent.note(news.clone());
        self.notify_state.tried = None;
    }
}

/// Posts a notification once.
async fn send(settings: &DaemonSettings, call: &HookCall) -> Result<(), TryFailed> {
    let NotifyConfig {
        url, format, link, ..
    } = &settings.config.notify;
    let Some(url) = url.as_ref().map(NotifyUrl::secret) else {
        return Ok(());
    };
    let link = link.as_ref();
    let link = link.map(|link| format!("{link}/#/p/{}", settings.plan));
    let (kind, body) = body(*format, call, link.as_deref());
    let failed = |reason, for_good| TryFailed { reason, for_good };
    let client = llm::client_builder(url).timeout(TIMEOUT).build();
    let client = client.map_err(|error| failed(described(error), true))?;
    let request = client.post(Url::clone(url)).header(CONTENT_TYPE, kind);
    let answer = request.body(body).send().await;
    let answer = answer.map_err(|error| failed(described(error), false))?;
    let status = answer.status().as_u16();
    match status {
        200..300 => Ok(()),
        408 | 425 | 429 | 500.. => Err(failed(format!("status {status}"), false)),
        _ => Err(failed(format!("status {status}"), true)),
    }
}

/// Returns what went wrong, without the address.
fn described(error: reqwest::Error) -> String {
    match error.is_timeout() {
        true => "no answer in time".to_owned(),
        false => llm::error_chain(&error.without_url()),
    }
}

/// Returns the type and the text of a body.
fn body(format: NotifyFormat, call: &HookCall, link: Option<&str>) -> (&'static str, String) {
    const JSON: &str = "application/json";
    let lines = || [Some(call.text()), link.map(str::to_owned)];
    let text = || lines().into_iter().flatten().collect::<Vec<_>>().join("\n");
    match format {
        NotifyFormat::Json => (JSON, call.linked(link).render()),
        NotifyFormat::Text => ("text/plain; charset=utf-8", text()),
        NotifyFormat::Slack => {
            // Else the words of an agent could call the whole channel, or hide where a link leads.
            let text = text().replace('&', "&amp;").replace('<', "&lt;");
            let text = text.replace('>', "&gt;");
            (JSON, json!({ "text": text }).to_string())
        }
    }
}
